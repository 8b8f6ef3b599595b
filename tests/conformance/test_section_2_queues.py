"""The contract, section 2.1: the life of queues and their lists."""

from typing import Any

import pytest

from tests.conformance import kinds
from tests.conformance.client import Client
from tests.conformance.contract import covers
from tests.conformance.kinds import ATTRIBUTE_NAME, INVALID_PARAMETER, MISSING_PARAMETER
from tests.conformance.kit import (
    ABSENT_QUEUE,
    Refusal,
    arn_of,
    attributes,
    bodies,
    counts,
    each_refusal,
    name_of,
    new_name,
    new_queue,
    receive,
    redrive_policy,
    send,
    sent_and_received,
    set_attributes,
    until,
)
from tests.conformance.texts import MAX_RESULTS_TEXT, TOKEN_TEXT

NAME_TEXT = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
FIFO_NAME_TEXT = (
    "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, "
    "must end with .fifo suffix and be 1 to 80 in length"
)
NO_NAME = "Value for parameter QueueName is invalid. Reason: Must specify a queue name."


def create(rows: str, name: str | None, kind: kinds.Kind, text: str, **values: str) -> Refusal:
    members: dict[str, Any] = {"Attributes": values} if values else {}
    members |= {} if name is None else {"QueueName": name}
    return Refusal(rows, "CreateQueue", members, kind, text)


REFUSALS = [
    create("2.1.create.name-missing", None, INVALID_PARAMETER, NO_NAME),
    create("2.1.create.name-empty", "", INVALID_PARAMETER, "Queue name cannot be empty"),
    *(
        create(
            "2.1.create.name-bad 0.2.queue-name 1.6.invalid-parameter-value",
            name,
            INVALID_PARAMETER,
            NAME_TEXT,
        )
        for name in ("a b", "a" * 81, "a.b", "a/b", "\u00e9", "a\n")
    ),
    create("2.1.create.name-fifo-on-standard", "a.fifo", INVALID_PARAMETER, NAME_TEXT),
    create(
        "2.1.create.fifo-plain-name 12.fifo-on-plain-name",
        "plain",
        INVALID_PARAMETER,
        FIFO_NAME_TEXT,
        FifoQueue="true",
    ),
    *(
        create(
            "2.1.create.unknown-attribute 1.6.invalid-attribute-name",
            "unknown-attribute",
            ATTRIBUTE_NAME,
            f"Unknown Attribute {name}.",
            **{name: "1"},
        )
        for name in ("Foo", "QueueArn", "CreatedTimestamp", "ApproximateNumberOfMessages", "All")
    ),
    *(
        create(
            "2.1.create.fifo-attribute",
            "fifo-attribute",
            ATTRIBUTE_NAME,
            f"Unknown Attribute {name}.",
            **{name: "false"},
        )
        for name in ("FifoQueue", "ContentBasedDeduplication")
    ),
    *(
        create(
            "2.1.create.fifo-only",
            "fifo-only",
            ATTRIBUTE_NAME,
            f"You can specify the {name} only when FifoQueue is set to true.",
            **{name: value},
        )
        for name, value in (("DeduplicationScope", "queue"), ("FifoThroughputLimit", "perQueue"))
    ),
    create(
        "2.1.create.bad-value 1.6.invalid-attribute-value 12.attribute-values",
        "bad-value",
        kinds.ATTRIBUTE_VALUE,
        "Invalid value for the parameter DelaySeconds.",
        DelaySeconds="901",
    ),
    Refusal("2.1.url.no-name", "GetQueueUrl", {}, INVALID_PARAMETER, None),
    Refusal("2.1.url.unknown", "GetQueueUrl", {"QueueName": "no-such"}, kinds.NO_QUEUE, None),
    *(
        Refusal(
            "2.1.list.bad-max 0.2.page",
            "ListQueues",
            {"MaxResults": number},
            INVALID_PARAMETER,
            MAX_RESULTS_TEXT,
        )
        for number in (0, 1001, -1)
    ),
    *(
        Refusal(
            "2.1.list.bad-token",
            "ListQueues",
            {"MaxResults": 1, "NextToken": token},
            INVALID_PARAMETER,
            TOKEN_TEXT,
        )
        for token in ("garbage", "AAAA")
    ),
    *(
        Refusal(
            "2.1.get.unknown",
            "GetQueueAttributes",
            {"AttributeNames": [name]},
            ATTRIBUTE_NAME,
            f"Unknown Attribute {name}.",
        )
        for name in ("Foo", "")
    ),
    Refusal(
        "2.1.set.missing",
        "SetQueueAttributes",
        {},
        MISSING_PARAMETER,
        "The request must contain the parameter Attribute.Name.",
    ),
    Refusal(
        "2.1.set.missing",
        "SetQueueAttributes",
        {"Attributes": {}},
        MISSING_PARAMETER,
        "The request must contain the parameter Attribute.Name.",
    ),
    *(
        Refusal(
            "2.1.set.fifo-on-standard",
            "SetQueueAttributes",
            {"Attributes": {"FifoQueue": value}},
            ATTRIBUTE_NAME,
            None,
        )
        for value in ("true", "false")
    ),
]


@each_refusal(REFUSALS)
def test_refused(sqs: Client, refusal: Refusal) -> None:
    refusal.check(sqs)


# --- creating and deleting ----------------------------------------------------------------------


@covers("0.2.queue-name", "9.usable")
@pytest.mark.parametrize("length", [1, 80])
def test_a_name_at_either_end_of_its_length_is_usable_at_once(sqs: Client, length: int) -> None:
    name = ("Z" if sqs.is_json else "Y") * length
    url = sqs.call("CreateQueue", QueueName=name)["QueueUrl"]
    assert send(sqs, url)["MessageId"]


@covers("0.2.queue-name-case", "9.case")
def test_names_that_differ_in_case_are_two_queues(sqs: Client, queue: str) -> None:
    upper = sqs.call("CreateQueue", QueueName=name_of(queue).upper())["QueueUrl"]
    send(sqs, upper)
    assert (len(receive(sqs, queue)), len(receive(sqs, upper))) == (0, 1)
    other = name_of(queue).capitalize()
    sqs.refused("GetQueueUrl", QueueName=other).assert_is(kinds.NO_QUEUE)
    refusal = sqs.refused("GetQueueAttributes", QueueUrl=queue, AttributeNames=["delayseconds"])
    refusal.assert_is(kinds.ATTRIBUTE_NAME, "Unknown Attribute delayseconds.")


@covers("2.1.create.same", "2.1.create.compares-supplied")
def test_a_repeated_create_with_equal_attributes_gives_the_same_url(sqs: Client) -> None:
    name, values = new_name(), {"DelaySeconds": "5", "VisibilityTimeout": "6"}
    first = sqs.call("CreateQueue", QueueName=name, Attributes=values)
    for repeat in (values, {"DelaySeconds": "5"}):
        assert sqs.call("CreateQueue", QueueName=name, Attributes=repeat) == first
    assert sqs.call("CreateQueue", QueueName=name) == first


@covers("2.1.create.different", "1.6.queue-name-exists")
def test_a_repeated_create_with_another_value_is_refused(sqs: Client, queue: str) -> None:
    members = {"QueueName": name_of(queue), "Attributes": {"DelaySeconds": "5"}}
    text = (
        "A queue already exists with the same name and a different value for attribute DelaySeconds"
    )
    sqs.refused("CreateQueue", **members).assert_is(kinds.NAME_EXISTS, text)


@covers("2.1.create.compares-current")
def test_a_repeated_create_is_compared_with_the_values_of_today(sqs: Client) -> None:
    queue = new_queue(sqs, DelaySeconds="5")
    set_attributes(sqs, queue, DelaySeconds="6")
    name = name_of(queue)
    same = sqs.call("CreateQueue", QueueName=name, Attributes={"DelaySeconds": "6"})
    assert same == {"QueueUrl": queue}
    refusal = sqs.refused("CreateQueue", QueueName=name, Attributes={"DelaySeconds": "5"})
    refusal.assert_is(kinds.NAME_EXISTS)


@covers("2.1.create.ignores-counts", "2.1.create.ignores-tags")
def test_a_repeated_create_does_not_look_at_messages_or_tags(sqs: Client, queue: str) -> None:
    send(sqs, queue)
    name = name_of(queue)
    same = sqs.call(
        "CreateQueue", QueueName=name, tags={"a": "b"}, Attributes={"DelaySeconds": "0"}
    )
    assert same == {"QueueUrl": queue}
    assert sqs.call("ListQueueTags", QueueUrl=queue) == {}


@covers("2.1.create.tags")
def test_a_queue_is_created_with_tags(sqs: Client) -> None:
    url = sqs.call("CreateQueue", QueueName=new_name(), tags={"a": "1", "b": ""})["QueueUrl"]
    assert sqs.call("ListQueueTags", QueueUrl=url) == {"Tags": {"a": "1", "b": ""}}


@covers(
    *("2.1.create.deleted-recently", "0.2.recreate-wait", "9.recreate"),
    "1.6.queue-deleted-recently",
)
def test_a_strict_node_keeps_a_deleted_name_for_a_minute(strict_sqs: Client) -> None:
    queue = new_queue(strict_sqs)
    strict_sqs.call("DeleteQueue", QueueUrl=queue)
    text = (
        "You must wait 60 seconds after deleting a queue before you can create another "
        "with the same name."
    )
    refusal = strict_sqs.refused("CreateQueue", QueueName=name_of(queue))
    refusal.assert_is(kinds.DELETED_RECENTLY, text)


@covers("9.recreate-switch", "9.clean")
def test_otherwise_a_name_is_free_at_once_and_starts_clean(sqs: Client, queue: str) -> None:
    send(sqs, queue)
    sqs.call("PurgeQueue", QueueUrl=queue)
    sqs.call("PurgeQueue", QueueUrl=queue)
    send(sqs, queue)
    sqs.call("TagQueue", QueueUrl=queue, Tags={"a": "b"})
    sqs.call(
        "AddPermission", QueueUrl=queue, Label="l", AWSAccountIds=["111111111111"], Actions=["*"]
    )
    sqs.call("DeleteQueue", QueueUrl=queue)
    assert sqs.call("CreateQueue", QueueName=name_of(queue)) == {"QueueUrl": queue}
    assert counts(sqs, queue) == (0, 0, 0)
    assert sqs.call("ListQueueTags", QueueUrl=queue) == {}
    assert attributes(sqs, queue, "Policy") == {}


@covers("2.1.delete.once", "2.1.delete.immediate")
def test_a_deleted_queue_is_gone(sqs: Client, queue: str) -> None:
    send(sqs, queue)
    sqs.call("DeleteQueue", QueueUrl=queue)
    for action, members in ON_A_QUEUE.items():
        sqs.refused(action, QueueUrl=queue, **members).assert_is(kinds.NO_QUEUE)
    sqs.refused("GetQueueUrl", QueueName=name_of(queue)).assert_is(kinds.NO_QUEUE)


GARBAGE = {"ReceiptHandle": "garbage"}
ON_A_QUEUE: dict[str, dict[str, Any]] = {
    "AddPermission": {"Label": "l", "AWSAccountIds": ["111111111111"], "Actions": ["*"]},
    "ChangeMessageVisibility": GARBAGE | {"VisibilityTimeout": 0},
    "ChangeMessageVisibilityBatch": {"Entries": [{"Id": "a b"}]},
    "DeleteMessage": GARBAGE,
    "DeleteMessageBatch": {"Entries": [{"Id": "a"} | GARBAGE, {"Id": "a"} | GARBAGE]},
    "DeleteQueue": {},
    "GetQueueAttributes": {"AttributeNames": ["Foo"]},
    "ListDeadLetterSourceQueues": {},
    "ListQueueTags": {},
    "PurgeQueue": {},
    "ReceiveMessage": {"MaxNumberOfMessages": 11},
    "RemovePermission": {"Label": "l"},
    "SendMessage": {"MessageBody": "x", "DelaySeconds": 901},
    "SendMessageBatch": {"Entries": [{"Id": "a", "MessageBody": "\x00"}] * 11},
    "SetQueueAttributes": {"Attributes": {"DelaySeconds": "1"}},
    "TagQueue": {"Tags": {"a": "b"}},
    "UntagQueue": {"TagKeys": ["a"]},
}


@covers("2.0.queue-from-any", "2.0.queue-beats-handle", "2.0.queue-beats-entries")
@pytest.mark.parametrize("action", sorted(ON_A_QUEUE))
def test_an_unknown_queue_beats_every_other_mistake(sqs: Client, action: str) -> None:
    refusal = sqs.refused(action, QueueUrl=ABSENT_QUEUE, **ON_A_QUEUE[action])
    refusal.assert_is(kinds.NO_QUEUE)


# --- purging ------------------------------------------------------------------------------------


@covers("2.1.purge.all", "2.1.purge.keeps-later")
def test_a_purge_removes_visible_delayed_and_in_flight_messages(sqs: Client, queue: str) -> None:
    sent_and_received(sqs, queue)
    send(sqs, queue)
    send(sqs, queue, DelaySeconds=900)
    assert counts(sqs, queue) == (1, 1, 1)
    sqs.call("PurgeQueue", QueueUrl=queue)
    assert counts(sqs, queue) == (0, 0, 0)
    send(sqs, queue, "later")
    assert bodies(receive(sqs, queue)) == ["later"]


@covers("2.1.purge.again", "0.2.purge-wait", "9.purge", "1.6.purge-queue-in-progress")
def test_a_strict_node_purges_once_a_minute(strict_sqs: Client) -> None:
    queue = new_queue(strict_sqs)
    strict_sqs.call("PurgeQueue", QueueUrl=queue)
    name = name_of(queue)
    text = f"Only one PurgeQueue operation on {name} is allowed every 60 seconds."
    strict_sqs.refused("PurgeQueue", QueueUrl=queue).assert_is(kinds.PURGING, text)


# --- reading and setting attributes -------------------------------------------------------------


@covers("2.1.get.none", "2.1.get.unset")
def test_what_is_not_asked_for_or_not_set_is_left_out(sqs: Client, queue: str) -> None:
    assert sqs.call("GetQueueAttributes", QueueUrl=queue) == {}
    unset = ["Policy", "KmsMasterKeyId", "RedrivePolicy", "RedriveAllowPolicy"]
    assert sqs.call("GetQueueAttributes", QueueUrl=queue, AttributeNames=unset) == {}
    mixed = attributes(sqs, queue, "Policy", "DelaySeconds")
    assert mixed == {"DelaySeconds": "0"}


@covers("2.1.set.whole")
def test_attributes_are_set_all_or_none(sqs: Client, queue: str) -> None:
    values = {"DelaySeconds": "9", "VisibilityTimeout": "nonsense"}
    refusal = sqs.refused("SetQueueAttributes", QueueUrl=queue, Attributes=values)
    refusal.assert_is(kinds.ATTRIBUTE_VALUE)
    assert attributes(sqs, queue, "DelaySeconds") == {"DelaySeconds": "0"}


POLICY = (
    '{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":"*",'
    '"Action":"SQS:SendMessage","Resource":"*"}}'
)


@covers(
    *("2.1.set.removes-policy", "2.1.set.removes-redrive", "2.1.set.removes-redrive-allow"),
    *("2.1.set.removes-kms", "3.1.policy", "3.1.redrive", "3.1.redrive-allow", "3.1.kms-key"),
)
@pytest.mark.parametrize(
    "name", ["Policy", "RedrivePolicy", "RedriveAllowPolicy", "KmsMasterKeyId"]
)
def test_an_empty_string_removes_an_attribute(sqs: Client, queue: str, name: str) -> None:
    value = {
        "Policy": POLICY,
        "RedrivePolicy": redrive_policy(queue),
        "RedriveAllowPolicy": '{"redrivePermission":"denyAll"}',
        "KmsMasterKeyId": "alias/no-such-key",
    }[name]
    assert name not in attributes(sqs, queue)
    set_attributes(sqs, queue, **{name: value})
    assert name in attributes(sqs, queue)
    assert name in attributes(sqs, queue, name)
    set_attributes(sqs, queue, **{name: ""})
    assert attributes(sqs, queue, name) == {}
    assert name not in attributes(sqs, queue)


@covers("2.1.set.modified", "3.1.timestamps")
def test_a_set_moves_the_time_of_the_last_change(sqs: Client, queue: str) -> None:
    names = ("CreatedTimestamp", "LastModifiedTimestamp")
    before = attributes(sqs, queue, *names)
    assert before["CreatedTimestamp"].isdigit() and len(before["CreatedTimestamp"]) == 10

    def has_moved() -> bool:
        set_attributes(sqs, queue, DelaySeconds="1")
        return attributes(sqs, queue, *names)["LastModifiedTimestamp"] > before[names[1]]

    until(has_moved)
    assert attributes(sqs, queue, *names)["CreatedTimestamp"] == before["CreatedTimestamp"]


@covers("2.1.get.all")
def test_all_names_everything(sqs: Client, queue: str) -> None:
    assert attributes(sqs, queue, "All")["QueueArn"] == arn_of(queue)
    assert attributes(sqs, queue, "All", "QueueArn") == attributes(sqs, queue, "All")
