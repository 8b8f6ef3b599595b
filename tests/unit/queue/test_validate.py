"""Section 2.2: the checks of the actions on messages, their order and their texts."""

from typing import Any

import pytest

from fastnode.queue import validate
from fastnode.queue.api import (
    ChangeMessageVisibilityRequest,
    DeleteMessageRequest,
    MessageAttributeValue,
    ReceiveMessageRequest,
    SendMessageRequest,
)
from fastnode.queue.attributes import settings_of
from fastnode.queue.errors import INVALID_CHARACTERS, SqsError
from fastnode.queue.message_attributes import NO_EXTRAS, SELECT_ALL, SELECT_NONE, MessageExtras

DEFAULTS = settings_of({})
SMALL = settings_of({"MaximumMessageSize": "1024"})
IPV = "InvalidParameterValueException"
MP = "MissingRequiredParameterException"
WRONG_TYPE = "The request include parameter that is not valid for this queue type"


def told(refusal: pytest.ExceptionInfo[SqsError]) -> tuple[str, str]:
    return refusal.value.row.shape, refusal.value.message


def bad_value(value: object, parameter: str, reason: str) -> str:
    return f"Value {value} for parameter {parameter} is invalid. Reason: {reason}"


# --- SendMessage, 2.2 ---------------------------------------------------------------------------


def test_plain_send_takes_the_delay_of_the_queue() -> None:
    settings = settings_of({"DelaySeconds": "7"})
    valid = validate.send_message(SendMessageRequest(message_body="H\u00e9"), settings)
    assert valid == validate.ValidSend(b"H\xc3\xa9", NO_EXTRAS, (), 7, 3)
    assert valid.extras is NO_EXTRAS


@pytest.mark.parametrize("delay", [0, 900])
def test_delay_of_the_message_beats_that_of_the_queue(delay: int) -> None:
    settings = settings_of({"DelaySeconds": "7"})
    request = SendMessageRequest(message_body="b", delay_seconds=delay)
    assert validate.send_message(request, settings).delay_seconds == delay


def trace(text: str) -> dict[str, MessageAttributeValue]:
    return {"AWSTraceHeader": MessageAttributeValue("String", text)}


def test_full_send_keeps_everything_in_extras() -> None:
    request = SendMessageRequest(
        message_body="b",
        message_group_id="g",
        message_attributes={"a": MessageAttributeValue("Number", "1")},
        message_system_attributes=trace("Root=1"),
    )
    valid = validate.send_message(request, DEFAULTS, trace_header="Root=2")
    assert valid.extras == MessageExtras("g", "Root=1", (("a", "Number", b"1"),))
    assert valid.system_attributes == (("AWSTraceHeader", "String", b"Root=1"),)
    assert valid.size_bytes == 1 + (1 + 6 + 1)


def test_trace_header_of_the_http_request_is_kept_but_not_digested() -> None:
    # Section 4.4.
    valid = validate.send_message(SendMessageRequest(message_body="b"), DEFAULTS, "Root=2")
    assert valid.extras == MessageExtras(trace_header="Root=2")
    assert valid.system_attributes == ()


ID_REASON = "can only include alphanumeric and punctuation characters. 1 to 128 in length."
TOO_LONG = "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes."
ATTRIBUTE = {"a": MessageAttributeValue("String", "x" * 100)}

SEND_REFUSALS: list[tuple[dict[str, Any], str, str]] = [
    ({}, MP, "The request must contain the parameter MessageBody."),
    ({"message_body": ""}, MP, "The request must contain the parameter MessageBody."),
    ({"message_body": "\x00"}, "InvalidMessageContents", INVALID_CHARACTERS),
    ({"message_body": "a\ufffe"}, "InvalidMessageContents", INVALID_CHARACTERS),
    ({"message_body": "\ud800"}, "InvalidMessageContents", INVALID_CHARACTERS),
    ({"message_body": "x" * 1_025}, IPV, TOO_LONG),
    ({"message_body": "\u00e9" * 513}, IPV, TOO_LONG),
    ({"message_body": "x" * 1_000, "message_attributes": ATTRIBUTE}, IPV, TOO_LONG),
    ({"delay_seconds": -1}, IPV,
     bad_value(-1, "DelaySeconds", "DelaySeconds must be >= 0 and <= 900.")),
    ({"delay_seconds": 901}, IPV,
     bad_value(901, "DelaySeconds", "DelaySeconds must be >= 0 and <= 900.")),
    ({"message_group_id": ""}, IPV,
     bad_value("", "MessageGroupId", f"MessageGroupId {ID_REASON}")),
    ({"message_group_id": "a b"}, IPV,
     bad_value("a b", "MessageGroupId", f"MessageGroupId {ID_REASON}")),
    ({"message_deduplication_id": "x" * 129}, IPV,
     bad_value("x" * 129, "MessageDeduplicationId", f"MessageDeduplicationId {ID_REASON}")),
    ({"message_deduplication_id": "{d}"}, IPV,
     bad_value("{d}", "MessageDeduplicationId", WRONG_TYPE + ".")),
    ({"message_attributes": {"": MessageAttributeValue("String", "v")}}, IPV,
     "The request must contain non-empty message (user) attribute names."),
    ({"message_system_attributes": {"x": MessageAttributeValue("String", "v")}}, IPV,
     "Message system attribute name 'x' is invalid."),
]  # fmt: skip


@pytest.mark.parametrize(("members", "shape", "text"), SEND_REFUSALS)
def test_send_is_refused(members: dict[str, Any], shape: str, text: str) -> None:
    body = {} if shape == MP else {"message_body": "b"}
    with pytest.raises(SqsError) as refusal:
        validate.send_message(SendMessageRequest(**(body | members)), SMALL)
    assert told(refusal) == (shape, text)


def test_message_of_exactly_the_limit_is_accepted() -> None:
    request = SendMessageRequest(message_body="x" * 917, message_attributes=ATTRIBUTE)
    assert validate.send_message(request, SMALL).size_bytes == 1_024


def test_send_checks_come_in_the_order_of_the_contract() -> None:
    """Each mistake is mended in turn; the next one of the table shows."""
    mistakes: dict[str, Any] = {
        "message_body": None,
        "delay_seconds": 901,
        "message_group_id": " ",
        "message_deduplication_id": "d",
        "message_attributes": {"!": MessageAttributeValue("String", "v")},
    }
    mending: list[tuple[str, Any]] = [
        ("message_body", "\x00"),
        ("message_body", "x" * 1_025),
        ("message_body", "b"),
        ("delay_seconds", None),
        ("message_group_id", None),
        ("message_deduplication_id", None),
        ("message_attributes", None),
    ]
    seen = []
    for member, mended in mending:
        with pytest.raises(SqsError) as refusal:
            validate.send_message(SendMessageRequest(**mistakes), SMALL)
        seen.append(refusal.value.message)
        mistakes[member] = mended
    validate.send_message(SendMessageRequest(**mistakes), SMALL)
    marks = ["MessageBody", "characters", "1024 bytes", "Delay", "Group", "Dedup", "attribute name"]
    assert all(mark in text for mark, text in zip(marks, seen, strict=True))


# --- ReceiveMessage, 2.2 ------------------------------------------------------------------------


def test_receive_takes_the_defaults_of_the_queue() -> None:
    settings = settings_of({"VisibilityTimeout": "5", "ReceiveMessageWaitTimeSeconds": "3"})
    valid = validate.receive_message(ReceiveMessageRequest(), settings)
    assert valid == validate.ValidReceive(1, 5_000, 3, frozenset(), SELECT_NONE)


def test_receive_overrides_the_queue_with_zero_too() -> None:
    # Section 5.1.
    settings = settings_of({"VisibilityTimeout": "5", "ReceiveMessageWaitTimeSeconds": "3"})
    request = ReceiveMessageRequest(
        max_number_of_messages=10,
        visibility_timeout=0,
        wait_time_seconds=0,
        attribute_names=["SenderId"],
        message_attribute_names=["All"],
    )
    valid = validate.receive_message(request, settings)
    assert valid == validate.ValidReceive(10, 0, 0, frozenset({"SenderId"}), SELECT_ALL)


def test_receive_takes_the_largest_values() -> None:
    request = ReceiveMessageRequest(visibility_timeout=43_200, wait_time_seconds=20)
    valid = validate.receive_message(request, DEFAULTS)
    assert (valid.visibility_timeout_ms, valid.wait_seconds) == (43_200_000, 20)


@pytest.mark.parametrize(
    ("member", "value", "parameter", "reason"),
    [
        *(("max_number_of_messages", value, "MaxNumberOfMessages",
           "Must be between 1 and 10, if provided.") for value in (0, 11, -1)),
        *(("wait_time_seconds", value, "WaitTimeSeconds",
           "Must be >= 0 and <= 20, if provided.") for value in (-1, 21)),
        *(("visibility_timeout", value, "VisibilityTimeout",
           "Must be >= 0 and <= 43200, if provided.") for value in (-1, 43_201, 10**30)),
        ("receive_request_attempt_id", "a", "ReceiveRequestAttemptId", WRONG_TYPE),
    ],
)  # fmt: skip
def test_receive_is_refused(member: str, value: Any, parameter: str, reason: str) -> None:
    with pytest.raises(SqsError) as refusal:
        validate.receive_message(ReceiveMessageRequest(**{member: value}), DEFAULTS)
    assert told(refusal) == (IPV, bad_value(value, parameter, reason))


# --- DeleteMessage and ChangeMessageVisibility, 2.2 ---------------------------------------------


def test_delete_gives_the_handle() -> None:
    assert validate.delete_message(DeleteMessageRequest(receipt_handle="h")) == "h"


@pytest.mark.parametrize("handle", [None, ""])
def test_delete_needs_a_handle(handle: str | None) -> None:
    with pytest.raises(SqsError) as refusal:
        validate.delete_message(DeleteMessageRequest(receipt_handle=handle))
    assert told(refusal) == (MP, "The request must contain the parameter ReceiptHandle.")


@pytest.mark.parametrize("seconds", [0, 43_200])
def test_change_gives_handle_and_timeout(seconds: int) -> None:
    request = ChangeMessageVisibilityRequest(receipt_handle="h", visibility_timeout=seconds)
    assert validate.change_message_visibility(request) == validate.ValidChange("h", seconds)


@pytest.mark.parametrize(
    ("handle", "seconds", "shape", "text"),
    [
        (None, 5, MP, "The request must contain the parameter ReceiptHandle."),
        ("garbage", None, MP, "The request must contain the parameter VisibilityTimeout."),
        ("h", -1, IPV, bad_value(-1, "VisibilityTimeout", "Must be between 0 and 43200.")),
        ("h", 43_201, IPV, bad_value(43_201, "VisibilityTimeout", "Must be between 0 and 43200.")),
    ],
)
def test_change_is_refused(handle: str | None, seconds: int | None, shape: str, text: str) -> None:
    request = ChangeMessageVisibilityRequest(receipt_handle=handle, visibility_timeout=seconds)
    with pytest.raises(SqsError) as refusal:
        validate.change_message_visibility(request)
    assert told(refusal) == (shape, text)
