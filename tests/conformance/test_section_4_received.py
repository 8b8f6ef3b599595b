"""The contract, sections 4.4 and 4.5: system attributes, and what a receive selects."""

from typing import Any

import pytest

from tests.conformance.client import Client, Refused
from tests.conformance.contract import covers
from tests.conformance.kinds import INVALID_PARAMETER
from tests.conformance.kit import (
    ABSENT_QUEUE,
    receive_one,
    send,
    text_attribute,
)

TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
TRACE_ATTRIBUTE = {"AWSTraceHeader": text_attribute(TRACE)}
MIB = 1_048_576


THREE = {
    "General": text_attribute("Kenobi"),
    "Hello": text_attribute("There"),
    "Help.Me": text_attribute("Me"),
}


def sent(sqs: Client, queue: str, **members: Any) -> dict[str, Any]:
    """Send it and receive it with everything it has."""
    send(sqs, queue, **members)
    every = {"MessageAttributeNames": ["All"], "MessageSystemAttributeNames": ["All"]}
    return receive_one(sqs, queue, **every)


# --- system attributes --------------------------------------------------------------------------


@covers("4.4.sender", "4.4.sent", "4.4.count", "4.4.first", "4.4.no-sequence", "4.5.all")
def test_system_attributes_of_a_plain_message(sqs: Client, queue: str) -> None:
    send(sqs, queue)
    first = receive_one(sqs, queue, MessageSystemAttributeNames=["All"], VisibilityTimeout=0)
    second = receive_one(sqs, queue, MessageSystemAttributeNames=["All"])
    shown = first["Attributes"]
    fixed = ("SenderId", "SentTimestamp", "ApproximateFirstReceiveTimestamp")
    assert set(shown) == {*fixed, "ApproximateReceiveCount"}
    assert shown["SenderId"]
    for name in fixed[1:]:
        assert len(shown[name]) == 13 and shown[name].isdigit(), name
    assert {name: second["Attributes"][name] for name in fixed} == {
        name: shown[name] for name in fixed
    }
    count = "ApproximateReceiveCount"
    assert (shown[count], second["Attributes"][count]) == ("1", "2")


@covers("4.4.group")
def test_the_group_is_returned_if_it_was_sent(sqs: Client, queue: str) -> None:
    assert sent(sqs, queue, MessageGroupId="tenant")["Attributes"]["MessageGroupId"] == "tenant"


@covers("4.4.trace")
def test_the_trace_header_is_what_the_sender_set(sqs: Client, queue: str) -> None:
    message = sent(sqs, queue, MessageSystemAttributes=TRACE_ATTRIBUTE)
    assert message["Attributes"]["AWSTraceHeader"] == TRACE


@covers("4.4.trace-http", "11.trace")
def test_otherwise_the_trace_header_is_that_of_the_request(sqs: Client, queue: str) -> None:
    members = {"QueueUrl": queue, "MessageBody": "x"}
    answer = sqs.read(
        "SendMessage", sqs.send("SendMessage", members, headers={"X-Amzn-Trace-Id": TRACE})
    )
    assert "MD5OfMessageSystemAttributes" not in answer
    message = receive_one(sqs, queue, MessageSystemAttributeNames=["AWSTraceHeader"])
    assert message["Attributes"] == {"AWSTraceHeader": TRACE}
    both = members | {"MessageSystemAttributes": {"AWSTraceHeader": text_attribute("Root=1-2-3")}}
    sqs.read("SendMessage", sqs.send("SendMessage", both, headers={"X-Amzn-Trace-Id": TRACE}))
    message = receive_one(sqs, queue, MessageSystemAttributeNames=["AWSTraceHeader"])
    assert message["Attributes"] == {"AWSTraceHeader": "Root=1-2-3"}


@covers("4.4.trace-malformed")
@pytest.mark.parametrize("action", ["SendMessage", "ListQueues", "PurgeQueue"])
def test_a_malformed_trace_header_refuses_any_action(sqs: Client, action: str) -> None:
    members = {} if action == "ListQueues" else {"QueueUrl": ABSENT_QUEUE}
    reply = sqs.send(action, members, headers={"X-Amzn-Trace-Id": "nonsense"})
    with pytest.raises(Refused) as caught:
        sqs.read(action, reply)
    text = (
        "The request has a 'X-Amzn-Trace-Id' HTTP header which is reserved for AWS X-Ray trace "
        "header and has an invalid value 'nonsense'"
    )
    caught.value.assert_is(INVALID_PARAMETER, text)


# --- selecting ----------------------------------------------------------------------------------


@covers("4.5.names", "4.5.union", "4.5.all", "11.system-names")
@pytest.mark.parametrize(
    ("members", "shown"),
    [
        ({"MessageSystemAttributeNames": ["SenderId"]}, {"SenderId"}),
        ({"AttributeNames": ["SenderId", "SentTimestamp"]}, {"SenderId", "SentTimestamp"}),
        (
            {"AttributeNames": ["SenderId"], "MessageSystemAttributeNames": ["SentTimestamp"]},
            {"SenderId", "SentTimestamp"},
        ),
    ],
)
def test_named_system_attributes_are_returned(
    sqs: Client, queue: str, members: dict[str, Any], shown: set[str]
) -> None:
    send(sqs, queue)
    assert set(receive_one(sqs, queue, **members)["Attributes"]) == shown


@covers("4.5.all", "4.5.union")
@pytest.mark.parametrize(
    "members",
    [
        {"AttributeNames": ["All"]},
        {"MessageSystemAttributeNames": ["All"]},
        {"MessageSystemAttributeNames": ["All"], "AttributeNames": ["SenderId"]},
    ],
)
def test_all_in_either_gives_every_attribute(
    sqs: Client, queue: str, members: dict[str, Any]
) -> None:
    send(sqs, queue, MessageGroupId="g", MessageSystemAttributes=TRACE_ATTRIBUTE)
    assert len(receive_one(sqs, queue, **members)["Attributes"]) == 6


@covers("4.5.neither", "4.3.selected-none", "4.5.attributes-none")
def test_what_is_not_asked_for_is_left_out(sqs: Client, queue: str) -> None:
    send(sqs, queue, MessageAttributes=THREE)
    plain = {"MessageId", "ReceiptHandle", "MD5OfBody", "Body"}
    assert set(receive_one(sqs, queue, VisibilityTimeout=0)) == plain
    empty: dict[str, list[str]] = {"MessageAttributeNames": [], "AttributeNames": []}
    assert set(receive_one(sqs, queue, **empty, VisibilityTimeout=0)) == plain
    assert set(receive_one(sqs, queue, MessageAttributeNames=["absent", "Absent.*"])) == plain


@covers("4.5.attributes-all", "4.5.attributes-prefix", "4.5.attributes-exact")
@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["All"], {*THREE}),
        ([".*"], {*THREE}),
        (["*"], {*THREE}),
        (["Hel.*"], {"Hello", "Help.Me"}),
        (["Help.*"], {"Help.Me"}),
        (["Hello"], {"Hello"}),
        (["Help", "General"], {"General"}),
        (["Help.Me", "G.*"], {"Help.Me", "General"}),
    ],
)
def test_message_attributes_are_selected(
    sqs: Client, queue: str, names: list[str], shown: set[str]
) -> None:
    send(sqs, queue, MessageAttributes=THREE)
    message = receive_one(sqs, queue, MessageAttributeNames=names)
    assert set(message["MessageAttributes"]) == shown
