"""Section 2.3: AddPermission and RemovePermission, and the policy that they write."""

import json
from typing import Any

import pytest

from fastnode.queue import api
from fastnode.queue.errors import SqsError
from tests.unit.queue.policy_texts import FRIEND, OWNER, STRANGER, Members, policy, statement
from tests.world import ENDPOINT, REGION, World

URL = f"{ENDPOINT}/{OWNER}/q"
ARN = f"arn:aws:sqs:{REGION}:{OWNER}:q"
IPV, MP = "InvalidParameterValueException", "MissingRequiredParameterException"
LABEL_FORM = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length."


@pytest.fixture
def world() -> World:
    created = World()
    created.create("q")
    return created


def add(
    world: World, label: str | None, accounts: list[str] | None, actions: list[str] | None
) -> None:
    world.call("AddPermission", api.AddPermissionRequest(URL, label, accounts, actions))


def remove(world: World, label: str | None) -> None:
    world.call("RemovePermission", api.RemovePermissionRequest(URL, label))


def attributes(world: World, *names: str) -> dict[str, str]:
    request = api.GetQueueAttributesRequest(URL, list(names))
    shown: dict[str, str] = world.call("GetQueueAttributes", request).attributes
    return shown


def set_policy(world: World, text: str) -> None:
    world.call("SetQueueAttributes", api.SetQueueAttributesRequest(URL, {"Policy": text}))


def written(world: World) -> Members:
    loaded: Members = json.loads(attributes(world, "Policy")["Policy"])
    return loaded


def refusal(world: World, action: str, request: Any) -> tuple[str, str]:
    with pytest.raises(SqsError) as caught:
        world.call(action, request)
    return caught.value.row.shape, caught.value.message


# --- adding -------------------------------------------------------------------------------------


def test_the_first_permission_makes_a_policy(world: World) -> None:
    add(world, "one", [FRIEND], ["SendMessage"])
    assert written(world) == {
        "Version": "2008-10-17",
        "Id": f"{ARN}/SQSDefaultPolicy",
        "Statement": [
            {
                "Sid": "one",
                "Effect": "Allow",
                "Principal": {"AWS": f"arn:aws:iam::{FRIEND}:root"},
                "Action": "SQS:SendMessage",
                "Resource": ARN,
            }
        ],
    }


def test_several_accounts_and_actions_are_lists(world: World) -> None:
    add(world, "many", [FRIEND, STRANGER], ["SendMessage", "*"])
    (added,) = written(world)["Statement"]
    assert added["Principal"]["AWS"] == [
        f"arn:aws:iam::{FRIEND}:root", f"arn:aws:iam::{STRANGER}:root",
    ]  # fmt: skip
    assert added["Action"] == ["SQS:SendMessage", "SQS:*"]


def test_other_statements_stay_as_they_were(world: World) -> None:
    own = statement(Sid="own", Condition={"NumericLessThan": {"aws:EpochTime": 5}})
    set_policy(world, json.dumps({"Id": "ø", "Statement": own}))
    add(world, "one", [FRIEND], ["SendMessage"])
    changed = written(world)
    assert changed["Id"] == "ø"
    assert "Version" not in changed
    kept, added = changed["Statement"]
    # Numbers are written as text: for a condition they are the same.
    assert kept == own | {"Condition": {"NumericLessThan": {"aws:EpochTime": "5"}}}
    assert added["Sid"] == "one"


def test_what_is_granted_can_be_used(world: World) -> None:
    add(world, "one", [FRIEND], ["SendMessage"])
    send = api.SendMessageRequest(URL, "body")
    assert world.call("SendMessage", send, FRIEND).message_id
    with pytest.raises(SqsError, match="is denied"):
        world.call("SendMessage", send, STRANGER)
    remove(world, "one")
    with pytest.raises(SqsError, match="is denied"):
        world.call("SendMessage", send, FRIEND)


def test_an_identical_call_succeeds_and_changes_nothing(world: World) -> None:
    add(world, "one", [FRIEND], ["SendMessage"])
    before = attributes(world, "All")
    world.advance(5_000)
    add(world, "one", [FRIEND], ["SendMessage"])
    assert attributes(world, "All") == before


def test_a_change_of_permissions_is_a_modification(world: World) -> None:
    world.advance(5_000)
    add(world, "one", [FRIEND], ["SendMessage"])
    times = attributes(world, "CreatedTimestamp", "LastModifiedTimestamp")
    assert int(times["LastModifiedTimestamp"]) == int(times["CreatedTimestamp"]) + 5


ADD_REFUSALS = [
    (None, [FRIEND], ["SendMessage"], MP, "The request must contain the parameter Label."),
    ("l", None, ["SendMessage"], MP, "The request must contain the parameter AWSAccountIds."),
    ("l", [], ["SendMessage"], MP, "The request must contain the parameter AWSAccountIds."),
    ("l", [FRIEND], [], MP, "The request must contain the parameter ActionName."),
    ("a b", [FRIEND], ["SendMessage"], IPV,
     f"Value a b for parameter Label is invalid. Reason: {LABEL_FORM}"),
    ("x" * 81, [FRIEND], ["SendMessage"], IPV,
     f"Value {'x' * 81} for parameter Label is invalid. Reason: {LABEL_FORM}"),
    ("taken", [FRIEND], ["SendMessage"], IPV,
     "Value taken for parameter Label is invalid. Reason: Already exists."),
    ("l", [FRIEND], ["CreateQueue"], IPV,
     "Value SQS:CreateQueue for parameter ActionName is invalid. "
     "Reason: Only the queue owner is allowed to invoke this action."),
    ("l", [FRIEND], ["SendMessage", "RemovePermission"], IPV,
     "Value SQS:RemovePermission for parameter ActionName is invalid. "
     "Reason: Only the queue owner is allowed to invoke this action."),
    ("l", [FRIEND], ["SendMessageBatch"], IPV,
     "Value SQS:SendMessageBatch for parameter ActionName is invalid. "
     "Reason: Please refer to the appropriate WSDL for a list of valid actions."),
    ("l", [FRIEND], ["SQS:SendMessage"], IPV,
     "Value SQS:SQS:SendMessage for parameter ActionName is invalid. "
     "Reason: Please refer to the appropriate WSDL for a list of valid actions."),
    ("l", [FRIEND], ["SendMessage"] * 8, "OverLimit",
     "8 Actions were found, maximum allowed is 7."),
    ("l", [FRIEND] * 51, ["SendMessage"], "OverLimit",
     "51 Principals were found, maximum allowed is 50."),
    ("l", [FRIEND, "1234"], ["SendMessage"], IPV,
     "Value [1234] for parameter PrincipalId is invalid. Reason: Unable to verify principal."),
]  # fmt: skip


@pytest.mark.parametrize(("label", "accounts", "actions", "shape", "text"), ADD_REFUSALS)
def test_add_permission_is_refused(
    world: World,
    label: str | None,
    accounts: list[str] | None,
    actions: list[str] | None,
    shape: str,
    text: str,
) -> None:
    add(world, "taken", [STRANGER], ["*"])
    before = attributes(world, "All")
    request = api.AddPermissionRequest(URL, label, accounts, actions)
    assert refusal(world, "AddPermission", request) == (shape, text)
    assert attributes(world, "All") == before


def test_the_twenty_first_statement_is_refused(world: World) -> None:
    for number in range(20):
        add(world, f"l{number}", [FRIEND], ["SendMessage"])
    request = api.AddPermissionRequest(URL, "l20", [FRIEND], ["SendMessage"])
    text = "21 Statements were found, maximum allowed is 20."
    assert refusal(world, "AddPermission", request) == ("OverLimit", text)


def test_a_permission_that_makes_the_policy_too_long_is_refused(world: World) -> None:
    set_policy(world, policy(statement(Sid="x" * 8_000)))
    request = api.AddPermissionRequest(URL, "l", [FRIEND], ["SendMessage"])
    assert refusal(world, "AddPermission", request)[0] == "InvalidAttributeValue"
    assert len(written(world)["Statement"]) == 1


# --- removing -----------------------------------------------------------------------------------


def test_the_last_removal_drops_the_policy(world: World) -> None:
    add(world, "one", [FRIEND], ["SendMessage"])
    add(world, "two", [FRIEND], ["ReceiveMessage"])
    remove(world, "one")
    assert [left["Sid"] for left in written(world)["Statement"]] == ["two"]
    remove(world, "two")
    assert attributes(world, "Policy") == {}


def test_an_unknown_label_cannot_be_removed(world: World) -> None:
    request = api.RemovePermissionRequest(URL, "x")
    text = "Value x for parameter Label is invalid. Reason: can't find label."
    assert refusal(world, "RemovePermission", request) == (IPV, text)
    add(world, "one", [FRIEND], ["SendMessage"])
    text = "Value x for parameter Label is invalid. Reason: can't find label on existing policy."
    assert refusal(world, "RemovePermission", request) == (IPV, text)
    missing = api.RemovePermissionRequest(URL, None)
    text = "The request must contain the parameter Label."
    assert refusal(world, "RemovePermission", missing) == (MP, text)


def test_an_unknown_queue_comes_first(world: World) -> None:
    missing = ("QueueDoesNotExist", "The specified queue does not exist.")
    assert refusal(world, "AddPermission", api.AddPermissionRequest("absent")) == missing
    assert refusal(world, "RemovePermission", api.RemovePermissionRequest("absent")) == missing


# --- the attribute ------------------------------------------------------------------------------


def test_a_policy_is_shown_as_it_was_sent_and_an_empty_one_removes_it(world: World) -> None:
    text = policy(statement(Sid="ø")) + " \n"
    set_policy(world, text)
    assert attributes(world, "Policy") == {"Policy": text}
    assert attributes(world, "All")["Policy"] == text
    set_policy(world, "")
    assert attributes(world, "Policy") == {}


def test_a_queue_can_be_created_with_a_policy(world: World) -> None:
    text = policy(statement())
    url = world.create("with", Policy=text)
    assert world.create("with", Policy=text) == url
    with pytest.raises(SqsError, match="attribute Policy"):
        world.create("with", Policy=policy(statement(Effect="Deny")))


def test_a_bad_policy_changes_nothing(world: World) -> None:
    before = attributes(world, "All")
    request = api.SetQueueAttributesRequest(URL, {"DelaySeconds": "9", "Policy": "{}"})
    expected = ("InvalidAttributeValue", "Invalid value for the parameter Policy.")
    assert refusal(world, "SetQueueAttributes", request) == expected
    assert attributes(world, "All") == before
