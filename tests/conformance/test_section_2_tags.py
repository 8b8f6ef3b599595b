"""The contract, section 2.3: tags and permissions."""

import json
from typing import Any

import pytest

from tests.conformance import kinds
from tests.conformance.client import Client, claim
from tests.conformance.contract import covers
from tests.conformance.kinds import INVALID_PARAMETER, MISSING_PARAMETER, OVER_LIMIT
from tests.conformance.kit import (
    Refusal,
    arn_of,
    attributes,
    each_refusal,
    new_queue,
    send,
    sent_and_received,
    set_attributes,
)

GRANTABLE = ["*", "ChangeMessageVisibility", "DeleteMessage", "GetQueueAttributes", "GetQueueUrl"]
GRANTABLE += ["ListDeadLetterSourceQueues", "PurgeQueue", "ReceiveMessage", "SendMessage"]
OWNER_ONLY: dict[str, dict[str, Any]] = {
    "AddPermission": {"Label": "x", "AWSAccountIds": ["111111111111"], "Actions": ["*"]},
    "DeleteQueue": {},
    "ListQueueTags": {},
    "RemovePermission": {"Label": "l"},
    "SetQueueAttributes": {"Attributes": {"DelaySeconds": "1"}},
    "TagQueue": {"Tags": {"a": "b"}},
    "UntagQueue": {"TagKeys": ["a"]},
}
ONE, TWO = "111111111111", "222222222222"
KEY_TEXT = "Tag keys must be between 1 and 128 characters in length."


def add(rows: str, kind: kinds.Kind, text: str | None, **members: Any) -> Refusal:
    plain = {"Label": "l", "AWSAccountIds": [ONE], "Actions": ["SendMessage"]} | members
    given = {name: value for name, value in plain.items() if value is not None}
    return Refusal(rows, "AddPermission", given, kind, text)


def bad_action(rows: str, action: str, reason: str) -> Refusal:
    text = f"Value SQS:{action} for parameter ActionName is invalid. Reason: {reason}"
    return add(rows, INVALID_PARAMETER, text, Actions=[action])


TAG_REFUSALS = [
    Refusal(
        "2.3.tag.empty",
        "TagQueue",
        {"Tags": {}},
        MISSING_PARAMETER,
        "The request must contain the parameter Tags.",
    ),
    Refusal(
        "2.3.tag.many 0.2.tags",
        "TagQueue",
        {"Tags": {f"k{number}": "" for number in range(51)}},
        INVALID_PARAMETER,
        "Too many tags added for queue {name}.",
    ),
    *(
        Refusal("0.2.tag-key", "TagQueue", {"Tags": {key: "v"}}, INVALID_PARAMETER, KEY_TEXT)
        for key in ("", "k" * 129)
    ),
    Refusal("0.2.tag-value", "TagQueue", {"Tags": {"k": "v" * 257}}, INVALID_PARAMETER, None),
    *(
        Refusal("0.2.tag-reserved", "TagQueue", {"Tags": {key: "v"}}, INVALID_PARAMETER, None)
        for key in ("aws:x", "AWS:x")
    ),
    Refusal("2.3.untag.empty", "UntagQueue", {"TagKeys": []}, INVALID_PARAMETER, KEY_TEXT),
]
PERMISSION_REFUSALS = [
    *(
        add("2.3.add.label-form", INVALID_PARAMETER, None, Label=label)
        for label in ("l" * 81, "a b", "\u00e9")
    ),
    *(
        bad_action(
            "2.3.add.owner-only", name, "Only the queue owner is allowed to invoke this action."
        )
        for name in (*OWNER_ONLY, "CreateQueue", "ListQueues")
    ),
    *(
        bad_action(
            "2.3.add.unknown-action",
            name,
            "Please refer to the appropriate WSDL for a list of valid actions.",
        )
        for name in ("Frobnicate", "SendMessageBatch", "sendmessage")
    ),
    add(
        "2.3.add.many-actions",
        OVER_LIMIT,
        "8 Actions were found, maximum allowed is 7.",
        Actions=GRANTABLE[1:],
    ),
    *(
        add(
            "2.3.add.not-an-account",
            INVALID_PARAMETER,
            f"Value [{account}] for parameter PrincipalId is invalid. "
            "Reason: Unable to verify principal.",
            AWSAccountIds=[account],
        )
        for account in ("someone", "123")
    ),
    add(
        "2.3.add.missing-list",
        MISSING_PARAMETER,
        "The request must contain the parameter ActionName.",
        Actions=None,
    ),
    add(
        "2.3.add.missing-list",
        MISSING_PARAMETER,
        "The request must contain the parameter AWSAccountIds.",
        AWSAccountIds=None,
    ),
    Refusal(
        "2.3.remove.no-policy 12.unknown-label",
        "RemovePermission",
        {"Label": "l"},
        INVALID_PARAMETER,
        "Value l for parameter Label is invalid. Reason: can't find label.",
    ),
]


@each_refusal(TAG_REFUSALS + PERMISSION_REFUSALS)
def test_refused(sqs: Client, refusal: Refusal) -> None:
    refusal.check(sqs)


# --- tags ---------------------------------------------------------------------------------------


def tags(sqs: Client, queue: str) -> dict[str, str]:
    found: dict[str, str] = sqs.call("ListQueueTags", QueueUrl=queue).get("Tags", {})
    return found


@covers("2.3.tag.merges", "2.3.tag.case", "2.3.untag.unknown", "2.3.tags.none", "9.case")
def test_tags_merge_by_key_and_case(sqs: Client, queue: str) -> None:
    assert sqs.call("ListQueueTags", QueueUrl=queue) == {}
    sqs.call("TagQueue", QueueUrl=queue, Tags={"a": "1", "A": "2", "empty": ""})
    sqs.call("TagQueue", QueueUrl=queue, Tags={"a": "3", "b": "4"})
    assert tags(sqs, queue) == {"a": "3", "A": "2", "empty": "", "b": "4"}
    sqs.call("UntagQueue", QueueUrl=queue, TagKeys=["a", "empty", "B", "unknown"])
    assert tags(sqs, queue) == {"A": "2", "b": "4"}
    sqs.call("UntagQueue", QueueUrl=queue, TagKeys=["A", "b"])
    assert sqs.call("ListQueueTags", QueueUrl=queue) == {}


@covers("0.2.tags", "0.2.tag-key", "0.2.tag-value", "2.3.tag.many")
def test_a_queue_keeps_fifty_tags_and_refuses_one_more(sqs: Client, queue: str) -> None:
    fifty = {f"{number:0128}": "v" * 256 for number in range(50)}
    sqs.call("TagQueue", QueueUrl=queue, Tags=fifty)
    refusal = sqs.refused("TagQueue", QueueUrl=queue, Tags={"one": "more", "0" * 128: "changed"})
    refusal.assert_is(INVALID_PARAMETER)
    assert tags(sqs, queue) == fifty
    sqs.call("TagQueue", QueueUrl=queue, Tags={"0" * 128: "changed"})
    assert len(tags(sqs, queue)) == 50


# --- permissions --------------------------------------------------------------------------------


def grant(sqs: Client, queue: str, label: str, accounts: list[str], actions: list[str]) -> None:
    members = {"Label": label, "AWSAccountIds": accounts, "Actions": actions}
    sqs.call("AddPermission", QueueUrl=queue, **members)


def policy(sqs: Client, queue: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(attributes(sqs, queue, "Policy")["Policy"])
    return found


def labels(sqs: Client, queue: str) -> list[str]:
    return [statement["Sid"] for statement in policy(sqs, queue)["Statement"]]


@covers("2.3.add.creates", "2.3.add.statement", "12.policy-version")
def test_the_first_permission_creates_a_policy(sqs: Client, queue: str) -> None:
    grant(sqs, queue, "l", [ONE], ["SendMessage"])
    arn = arn_of(queue)
    assert policy(sqs, queue) == {
        "Version": "2008-10-17",
        "Id": f"{arn}/SQSDefaultPolicy",
        "Statement": [
            {
                "Sid": "l",
                "Effect": "Allow",
                "Principal": {"AWS": f"arn:aws:iam::{ONE}:root"},
                "Action": "SQS:SendMessage",
                "Resource": arn,
            }
        ],
    }


@covers("2.3.add.statement", "2.3.add.appends")
def test_several_accounts_and_actions_make_lists(sqs: Client, queue: str) -> None:
    grant(sqs, queue, "first", [ONE], ["*"])
    grant(sqs, queue, "second", [ONE, TWO], ["SendMessage", "ReceiveMessage"])
    first, second = policy(sqs, queue)["Statement"]
    assert (first["Sid"], first["Action"]) == ("first", "SQS:*")
    assert second["Principal"] == {"AWS": [f"arn:aws:iam::{ONE}:root", f"arn:aws:iam::{TWO}:root"]}
    assert second["Action"] == ["SQS:SendMessage", "SQS:ReceiveMessage"]


@covers("2.3.add.label-used", "2.3.add.identical", "9.case")
def test_a_label_is_used_once_but_a_call_may_be_repeated(sqs: Client, queue: str) -> None:
    for _ in range(2):
        grant(sqs, queue, "l", [ONE], ["SendMessage"])
    members = {"Label": "l", "AWSAccountIds": [TWO], "Actions": ["SendMessage"]}
    text = "Value l for parameter Label is invalid. Reason: Already exists."
    sqs.refused("AddPermission", QueueUrl=queue, **members).assert_is(INVALID_PARAMETER, text)
    grant(sqs, queue, "L", [TWO], ["SendMessage"])
    assert labels(sqs, queue) == ["l", "L"]


@covers("2.3.add.actions", "2.3.add.label-form")
@pytest.mark.parametrize("action", GRANTABLE)
def test_an_action_may_be_granted(sqs: Client, queue: str, action: str) -> None:
    grant(sqs, queue, "_-aZ09" + "l" * 74, [ONE], [action])
    assert policy(sqs, queue)["Statement"][0]["Action"] == f"SQS:{action}"


@covers("2.3.add.batch-forms")
def test_a_grant_covers_the_batch_form(sqs: Client, queue: str) -> None:
    grant(sqs, queue, "l", [ONE], ["SendMessage", "DeleteMessage", "ChangeMessageVisibility"])
    other = sqs.another(claim(ONE))
    entry = {"Id": "a", "MessageBody": "x"}
    sent = other.call("SendMessageBatch", QueueUrl=queue, Entries=[entry])
    assert len(sent["Successful"]) == 1
    handle = {"Id": "a", "ReceiptHandle": sent_and_received(sqs, queue)["ReceiptHandle"]}
    changed = [handle | {"VisibilityTimeout": 5}]
    assert "Successful" in other.call(
        "ChangeMessageVisibilityBatch", QueueUrl=queue, Entries=changed
    )
    assert "Successful" in other.call("DeleteMessageBatch", QueueUrl=queue, Entries=[handle])
    other.refused("ReceiveMessage", QueueUrl=queue).assert_is(kinds.DENIED)


@covers("2.3.add.many-statements")
def test_twenty_statements_are_enough(sqs: Client, queue: str) -> None:
    for number in range(20):
        grant(sqs, queue, f"l{number}", [ONE], ["SendMessage"])
    members = {"Label": "more", "AWSAccountIds": [ONE], "Actions": ["SendMessage"]}
    text = "21 Statements were found, maximum allowed is 20."
    sqs.refused("AddPermission", QueueUrl=queue, **members).assert_is(OVER_LIMIT, text)


@covers("2.3.remove.one", "2.3.remove.last", "2.3.remove.unknown", "12.unknown-label", "9.case")
def test_permissions_are_removed_by_label(sqs: Client, queue: str) -> None:
    grant(sqs, queue, "a", [ONE], ["SendMessage"])
    grant(sqs, queue, "b", [ONE], ["SendMessage"])
    sqs.call("RemovePermission", QueueUrl=queue, Label="a")
    assert labels(sqs, queue) == ["b"]
    for label in ("a", "B"):
        end = "Reason: can't find label on existing policy."
        text = f"Value {label} for parameter Label is invalid. {end}"
        refusal = sqs.refused("RemovePermission", QueueUrl=queue, Label=label)
        refusal.assert_is(INVALID_PARAMETER, text)
    sqs.call("RemovePermission", QueueUrl=queue, Label="b")
    assert attributes(sqs, queue, "Policy") == {}


@covers("9.owner-only", "10.2.denied", "1.6.access-denied")
@pytest.mark.parametrize("action", sorted(OWNER_ONLY))
def test_no_grant_covers_what_is_the_owners(sqs: Client, queue: str, action: str) -> None:
    statement = {"Effect": "Allow", "Principal": "*", "Action": "SQS:*", "Resource": "*"}
    set_attributes(sqs, queue, Policy=json.dumps({"Version": "2012-10-17", "Statement": statement}))
    stranger = sqs.another(claim(ONE))
    assert send(stranger, queue)["MessageId"]
    stranger.refused(action, QueueUrl=queue, **OWNER_ONLY[action]).assert_is(kinds.DENIED)


@covers("10.2.denied", "10.2.denied-text", "1.6.access-denied")
def test_a_stranger_is_denied_by_name_of_the_resource(sqs: Client, queue: str) -> None:
    stranger = sqs.another(claim(ONE))
    refusal = stranger.refused("SendMessage", QueueUrl=queue, MessageBody="x")
    refusal.assert_is(kinds.DENIED, f"Access to the resource {queue} is denied.")
    assert new_queue(stranger)
