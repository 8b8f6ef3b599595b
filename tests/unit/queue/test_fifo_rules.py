"""Sections 2.2 and 7.1 for FIFO queues: what a send, a batch and a receive must say."""

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.queue import batch, validate
from fastnode.queue.api import (
    BatchResultErrorEntry,
    MessageAttributeValue,
    ReceiveMessageRequest,
    SendMessageBatchRequest,
    SendMessageBatchRequestEntry,
    SendMessageRequest,
)
from fastnode.queue.attributes import settings_of
from fastnode.queue.digest import content_deduplication_id
from fastnode.queue.errors import INVALID_CHARACTERS, SqsError
from fastnode.queue.message_attributes import MessageExtras
from fastnode.queue.validate import ValidSend

STANDARD: Final = settings_of({})
EXPLICIT: Final = settings_of({"FifoQueue": "true", "MaximumMessageSize": "1024"})
BY_CONTENT: Final = settings_of(
    {"FifoQueue": "true", "ContentBasedDeduplication": "true", "DelaySeconds": "7"}
)
IPV: Final = "InvalidParameterValueException"
MP: Final = "MissingRequiredParameterException"

NO_GROUP: Final = "The request must contain the parameter MessageGroupId."
NO_DEDUPLICATION: Final = (
    "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId "
    "provided explicitly"
)
NO_BODY: Final = "The request must contain the parameter MessageBody."
TOO_LONG: Final = (
    "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes."
)
SHA_256_OF_SAME: Final = "0967115f2813a3541eaef77de9d9d5773f1c0c04314b0bbfe4ff3b3b1c55b5d5"


def bad_value(value: object, parameter: str, reason: str) -> str:
    return f"Value {value} for parameter {parameter} is invalid. Reason: {reason}"


def bad_id(value: str, parameter: str) -> str:
    reason = "can only include alphanumeric and punctuation characters. 1 to 128 in length."
    return bad_value(value, parameter, f"{parameter} {reason}")


def bad_delay(seconds: int) -> str:
    reason = "The request include parameter that is not valid for this queue type."
    return bad_value(seconds, "DelaySeconds", reason)


def far_delay(seconds: int) -> str:
    return bad_value(seconds, "DelaySeconds", "DelaySeconds must be >= 0 and <= 900.")


def told(refusal: pytest.ExceptionInfo[SqsError]) -> tuple[str, str]:
    return refusal.value.row.shape, refusal.value.message


# --- SendMessage --------------------------------------------------------------------------------

GOOD: Final[dict[str, Any]] = {
    "message_body": "same",
    "message_group_id": "g",
    "message_deduplication_id": "d",
}
ATTRIBUTE: Final = {"a": MessageAttributeValue("String", "x" * 100)}


def test_fifo_send_has_its_group_and_its_deduplication_id() -> None:
    valid = validate.send_message(SendMessageRequest(**GOOD), EXPLICIT)
    assert valid == ValidSend(b"same", MessageExtras("g", deduplication_id="d"), (), 0, 4)


def test_deduplication_id_comes_from_the_body_if_it_is_not_given() -> None:
    # Section 4.3.
    request = SendMessageRequest(message_body="same", message_group_id="g")
    extras = validate.send_message(request, BY_CONTENT).extras
    assert extras == MessageExtras("g", deduplication_id=SHA_256_OF_SAME)


def test_deduplication_id_that_is_given_beats_the_body() -> None:
    # Section 6.1.
    valid = validate.send_message(SendMessageRequest(**GOOD), BY_CONTENT)
    assert valid.extras.deduplication_id == "d"


def test_attributes_are_no_part_of_the_content() -> None:
    request = SendMessageRequest(
        message_body="same", message_group_id="g", message_attributes=ATTRIBUTE
    )
    extras = validate.send_message(request, BY_CONTENT, "Root=1").extras
    assert extras == MessageExtras(
        "g", "Root=1", (("a", "String", b"x" * 100),), None, SHA_256_OF_SAME
    )


def test_group_alone_gives_no_deduplication_id_on_a_standard_queue() -> None:
    request = SendMessageRequest(message_body="same", message_group_id="g")
    assert validate.send_message(request, STANDARD).extras == MessageExtras("g")


@pytest.mark.parametrize("seconds", [None, 0])
def test_delay_of_a_fifo_message_is_left_to_the_queue(seconds: int | None) -> None:
    request = SendMessageRequest(**GOOD, delay_seconds=seconds)
    assert validate.send_message(request, BY_CONTENT).delay_seconds == 0


@given(st.text(max_size=20))
def test_content_based_id_is_one_that_a_client_could_give(body: str) -> None:
    derived = content_deduplication_id(body.encode("utf-8", "surrogatepass"))
    request = SendMessageRequest(**(GOOD | {"message_deduplication_id": derived}))
    assert validate.send_message(request, EXPLICIT).extras.deduplication_id == derived


SEND_REFUSALS: Final[list[tuple[dict[str, Any], str, str]]] = [
    ({"message_body": None}, MP, NO_BODY),
    ({"message_body": ""}, MP, NO_BODY),
    ({"message_body": "\x00"}, "InvalidMessageContents", INVALID_CHARACTERS),
    ({"message_body": "x" * 1_025}, IPV, TOO_LONG),
    ({"message_body": "x" * 1_000, "message_attributes": ATTRIBUTE}, IPV, TOO_LONG),
    ({"delay_seconds": -1}, IPV, far_delay(-1)),
    ({"delay_seconds": 901}, IPV, far_delay(901)),
    ({"delay_seconds": 1}, IPV, bad_delay(1)),
    ({"delay_seconds": 900}, IPV, bad_delay(900)),
    ({"message_group_id": None}, MP, NO_GROUP),
    ({"message_deduplication_id": None}, IPV, NO_DEDUPLICATION),
    *(
        ({member: value}, IPV, bad_id(value, parameter))
        for member, parameter in (
            ("message_group_id", "MessageGroupId"),
            ("message_deduplication_id", "MessageDeduplicationId"),
        )
        for value in ("", " ", "a b", "x" * 129, "\u00e9", "a\n", "\x7f")
    ),
    ({"message_attributes": {"": MessageAttributeValue("String", "v")}}, IPV,
     "The request must contain non-empty message (user) attribute names."),
]  # fmt: skip


@pytest.mark.parametrize(("members", "shape", "text"), SEND_REFUSALS)
def test_fifo_send_is_refused(members: dict[str, Any], shape: str, text: str) -> None:
    with pytest.raises(SqsError) as refusal:
        validate.send_message(SendMessageRequest(**(GOOD | members)), EXPLICIT)
    assert told(refusal) == (shape, text)


def test_send_of_nothing_but_a_body_is_refused() -> None:
    with pytest.raises(SqsError) as refusal:
        validate.send_message(SendMessageRequest(message_body="b"), BY_CONTENT)
    assert told(refusal) == (MP, NO_GROUP)


def test_fifo_checks_come_in_the_order_of_the_contract() -> None:
    """Each mistake is mended in turn; the next one of the table shows."""
    mistakes: dict[str, Any] = {
        "message_body": None,
        "delay_seconds": 901,
        "message_group_id": None,
        "message_deduplication_id": None,
        "message_attributes": {"": MessageAttributeValue("String", "v")},
    }
    mending: list[tuple[str, Any, str]] = [
        ("message_body", "\x00", NO_BODY),
        ("message_body", "x" * 1_025, INVALID_CHARACTERS),
        ("message_body", "b", TOO_LONG),
        ("delay_seconds", 1, far_delay(901)),
        ("delay_seconds", 0, bad_delay(1)),
        ("message_group_id", " ", NO_GROUP),
        ("message_deduplication_id", "", NO_DEDUPLICATION),
        ("message_group_id", "g", bad_id(" ", "MessageGroupId")),
        ("message_deduplication_id", "d", bad_id("", "MessageDeduplicationId")),
        ("message_attributes", None,
         "The request must contain non-empty message (user) attribute names."),
    ]  # fmt: skip
    for member, mended, text in mending:
        with pytest.raises(SqsError) as refusal:
            validate.send_message(SendMessageRequest(**mistakes), EXPLICIT)
        assert refusal.value.message == text
        mistakes[member] = mended
    validate.send_message(SendMessageRequest(**mistakes), EXPLICIT)


PRINTABLE: Final = frozenset(map(chr, range(0x21, 0x7F)))
# Half of them near the rules, so that both answers come up.
IDS: Final = st.one_of(
    st.text(st.sampled_from(sorted(PRINTABLE)), max_size=130), st.text(max_size=5)
)


def is_id(text: str) -> bool:
    return 1 <= len(text) <= 128 and set(text) <= PRINTABLE


@given(IDS, IDS)
def test_ids_are_short_printable_ascii_without_spaces(group_id: str, deduplication_id: str) -> None:
    request = SendMessageRequest(
        message_body="b", message_group_id=group_id, message_deduplication_id=deduplication_id
    )
    if is_id(group_id) and is_id(deduplication_id):
        extras = validate.send_message(request, EXPLICIT).extras
        assert (extras.group_id, extras.deduplication_id) == (group_id, deduplication_id)
        return
    with pytest.raises(SqsError) as refusal:
        validate.send_message(request, EXPLICIT)
    first_wrong = (
        bad_id(deduplication_id, "MessageDeduplicationId")
        if is_id(group_id)
        else bad_id(group_id, "MessageGroupId")
    )
    assert told(refusal) == (IPV, first_wrong)


# --- SendMessageBatch ---------------------------------------------------------------------------


def batch_of(*entries: dict[str, Any]) -> SendMessageBatchRequest:
    return SendMessageBatchRequest(
        entries=[
            SendMessageBatchRequestEntry(id=f"e{n}", **(GOOD | entry))
            for n, entry in enumerate(entries)
        ]
    )


def test_batch_keeps_entry_order_and_repeated_deduplication_ids() -> None:
    accepted, refused = batch.send_message_batch(
        batch_of({}, {"message_body": "other"}, {"message_group_id": "h"}), EXPLICIT
    )
    assert refused == []
    assert [entry_id for _, entry_id, _ in accepted] == ["e0", "e1", "e2"]
    ids = [(valid.extras.group_id, valid.extras.deduplication_id) for _, _, valid in accepted]
    assert ids == [("g", "d"), ("g", "d"), ("h", "d")]


WHOLE: Final[list[tuple[dict[str, Any], str, str]]] = [
    ({"message_group_id": None}, IPV, NO_GROUP),
    ({"message_deduplication_id": None}, IPV, NO_DEDUPLICATION),
    ({"message_body": None}, MP, NO_BODY),
    ({"message_body": ""}, MP, NO_BODY),
    ({"message_body": "x" * 1_025}, IPV, TOO_LONG),
    ({"message_body": "\u00e9" * 513}, IPV, TOO_LONG),
    ({"message_body": "x" * 1_000, "message_attributes": ATTRIBUTE}, IPV, TOO_LONG),
    ({"delay_seconds": 1}, IPV, bad_delay(1)),
    ({"delay_seconds": 901}, IPV, far_delay(901)),
]


@pytest.mark.parametrize(("members", "shape", "text"), WHOLE)
def test_entry_fails_the_whole_batch(members: dict[str, Any], shape: str, text: str) -> None:
    # The first entry could fail alone, and does not hide what fails all.
    request = batch_of({"message_body": "\x00"}, members, {})
    with pytest.raises(SqsError) as refusal:
        batch.send_message_batch(request, EXPLICIT)
    assert told(refusal) == (shape, text)


@pytest.mark.parametrize(
    ("members", "code", "text"),
    [
        ({"message_body": "\x00"}, "InvalidMessageContents", INVALID_CHARACTERS),
        ({"message_group_id": ""}, "InvalidParameterValue", bad_id("", "MessageGroupId")),
        ({"message_deduplication_id": "a b"}, "InvalidParameterValue",
         bad_id("a b", "MessageDeduplicationId")),
        ({"message_attributes": {"": MessageAttributeValue("String", "v")}},
         "InvalidParameterValue",
         "The request must contain non-empty message (user) attribute names."),
    ],
)  # fmt: skip
def test_entry_fails_alone(members: dict[str, Any], code: str, text: str) -> None:
    accepted, refused = batch.send_message_batch(batch_of({}, members, {}), EXPLICIT)
    assert refused == [(1, BatchResultErrorEntry("e1", True, code, text))]
    assert [(number, name) for number, name, _ in accepted] == [(0, "e0"), (2, "e2")]


def test_batch_with_content_based_deduplication_needs_no_ids() -> None:
    request = batch_of(*[{"message_deduplication_id": None, "delay_seconds": 0}] * 2)
    accepted, _ = batch.send_message_batch(request, BY_CONTENT)
    ids = [valid.extras.deduplication_id for _, _, valid in accepted]
    assert ids == [SHA_256_OF_SAME] * 2


def test_batch_checks_come_in_the_order_of_the_contract() -> None:
    # Section 7.1: ids of the entries, FIFO members, total size, then each entry.
    half = "x" * 600_000
    first: dict[str, Any] = {"message_body": half, "delay_seconds": 1}
    second: dict[str, Any] = {"message_body": half, "message_group_id": None}
    for mended, text in (
        ({"message_group_id": "g"}, NO_GROUP),
        ({"message_body": "b"}, "Batch requests cannot be longer than 1048576 bytes. You have "
         "sent 1200000 bytes."),
        ({}, TOO_LONG),
    ):  # fmt: skip
        with pytest.raises(SqsError) as refusal:
            batch.send_message_batch(batch_of(first, second), EXPLICIT)
        assert refusal.value.message == text
        second |= mended
    repeated = SendMessageBatchRequest(entries=[SendMessageBatchRequestEntry(id="a")] * 2)
    with pytest.raises(SqsError) as refusal:
        batch.send_message_batch(repeated, EXPLICIT)
    assert refusal.value.row.shape == "BatchEntryIdsNotDistinct"


# --- ReceiveMessage -----------------------------------------------------------------------------


def receive(attempt_id: str | None) -> str | None:
    request = ReceiveMessageRequest(receive_request_attempt_id=attempt_id)
    return validate.receive_message(request, EXPLICIT).attempt_id


@given(st.none() | IDS)
def test_attempt_id_has_the_form_of_the_other_ids(attempt_id: str | None) -> None:
    if attempt_id is None or is_id(attempt_id):
        assert receive(attempt_id) == attempt_id
        return
    with pytest.raises(SqsError) as refusal:
        receive(attempt_id)
    assert told(refusal) == (IPV, bad_id(attempt_id, "ReceiveRequestAttemptId"))


@pytest.mark.parametrize("attempt_id", ["a", "", "a b"])
def test_attempt_id_is_refused_on_a_standard_queue(attempt_id: str) -> None:
    request = ReceiveMessageRequest(receive_request_attempt_id=attempt_id)
    with pytest.raises(SqsError) as refusal:
        validate.receive_message(request, STANDARD)
    reason = "The request include parameter that is not valid for this queue type"
    assert told(refusal) == (IPV, bad_value(attempt_id, "ReceiveRequestAttemptId", reason))
