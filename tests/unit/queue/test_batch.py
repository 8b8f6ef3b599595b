"""Section 7: what fails a whole batch, what fails one entry, and how each is told."""

from collections.abc import Callable
from typing import Any

import pytest

from fastnode.queue import batch
from fastnode.queue.api import (
    BatchResultErrorEntry,
    ChangeMessageVisibilityBatchRequest,
    ChangeMessageVisibilityBatchRequestEntry,
    DeleteMessageBatchRequest,
    DeleteMessageBatchRequestEntry,
    MessageAttributeValue,
    SendMessageBatchRequest,
    SendMessageBatchRequestEntry,
)
from fastnode.queue.attributes import settings_of
from fastnode.queue.errors import INVALID_CHARACTERS, SqsError, internal_failure
from fastnode.queue.validate import ValidChange

DEFAULTS = settings_of({})
SMALL = settings_of({"MaximumMessageSize": "1024"})
MEBIBYTE = 1_048_576


def send(entries: list[SendMessageBatchRequestEntry] | None) -> list[tuple[str, Any]]:
    request = SendMessageBatchRequest(entries=entries)
    accepted, refused = batch.send_message_batch(request, DEFAULTS)
    successes = [(name, valid) for _, name, valid in accepted]
    return [*successes, *((each.id, each) for _, each in refused)]


def delete(entries: list[DeleteMessageBatchRequestEntry] | None) -> list[tuple[str, Any]]:
    return list(batch.delete_message_batch(DeleteMessageBatchRequest(entries=entries)))


def change(entries: list[ChangeMessageVisibilityBatchRequestEntry] | None) -> list[tuple[str, Any]]:
    request = ChangeMessageVisibilityBatchRequest(entries=entries)
    return list(batch.change_message_visibility_batch(request))


# The action, an entry of it with everything in order but the id, and the name of its entry shape.
Action = tuple[Callable[[Any], list[tuple[str, Any]]], Callable[[str | None], Any], str]
ACTIONS: list[Action] = [
    (send, lambda name: SendMessageBatchRequestEntry(id=name, message_body="b"),
     "SendMessageBatchRequestEntry"),
    (delete, lambda name: DeleteMessageBatchRequestEntry(id=name, receipt_handle="h"),
     "DeleteMessageBatchRequestEntry"),
    (change, lambda name: ChangeMessageVisibilityBatchRequestEntry(
        id=name, receipt_handle="h", visibility_timeout=1),
     "ChangeMessageVisibilityBatchRequestEntry"),
]  # fmt: skip

# Section 7.1, in the order of the checks: ids of the entries, shape, text.
BAD_ID = (
    "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
    "It can be at most 80 letters long."
)
WHOLE: list[tuple[list[str | None] | None, str, str]] = [
    (None, "MissingRequiredParameterException",
     "The request must contain the parameter Entries."),
    ([], "EmptyBatchRequest", "There should be at least one {shape} in the request."),
    ([str(n) for n in range(11)], "TooManyEntriesInBatchRequest",
     "Maximum number of entries per request are 10. You have sent 11."),
    (["!"] * 12, "TooManyEntriesInBatchRequest",
     "Maximum number of entries per request are 10. You have sent 12."),
    (["a", ""], "InvalidBatchEntryId", BAD_ID),
    (["a", None], "InvalidBatchEntryId", BAD_ID),
    (["x" * 81], "InvalidBatchEntryId", BAD_ID),
    (["a", "a", "b.c"], "InvalidBatchEntryId", BAD_ID),
    (["1", "2", "2", "1"], "BatchEntryIdsNotDistinct", "Id 2 repeated."),
]  # fmt: skip


@pytest.mark.parametrize(("act", "entry", "name"), ACTIONS, ids=["send", "delete", "change"])
@pytest.mark.parametrize(("ids", "shape", "text"), WHOLE)
def test_whole_request_is_refused(
    act: Callable[[Any], list[tuple[str, Any]]],
    entry: Callable[[str | None], Any],
    name: str,
    ids: list[str | None] | None,
    shape: str,
    text: str,
) -> None:
    entries = None if ids is None else [entry(one) for one in ids]
    with pytest.raises(SqsError) as refusal:
        act(entries)
    expected = (shape, text.format(shape=name))
    assert (refusal.value.row.shape, refusal.value.message) == expected


@pytest.mark.parametrize(("act", "entry", "name"), ACTIONS, ids=["send", "delete", "change"])
def test_ten_entries_succeed_in_order(
    act: Callable[[Any], list[tuple[str, Any]]], entry: Callable[[str | None], Any], name: str
) -> None:
    ids = [f"{name[:60]}-{n}" for n in range(9)] + ["x" * 80]
    results = act([entry(one) for one in ids])
    assert [one for one, _ in results] == ids
    assert not any(isinstance(result, BatchResultErrorEntry) for _, result in results)


def sized(name: str, size: int) -> SendMessageBatchRequestEntry:
    """An entry of `size` bytes, ten of which are an attribute and two the last character."""
    attributes = {"abc": MessageAttributeValue("String", "v")}
    body = "x" * (size - 12) + "\u00e9"
    return SendMessageBatchRequestEntry(id=name, message_body=body, message_attributes=attributes)


def test_total_of_exactly_the_limit_is_accepted() -> None:
    results = send([sized("a", MEBIBYTE // 2), sized("b", MEBIBYTE // 2)])
    assert [result.size_bytes for _, result in results] == [MEBIBYTE // 2] * 2


@pytest.mark.parametrize("sizes", [[MEBIBYTE // 2, MEBIBYTE // 2 + 1], [MEBIBYTE + 1]])
def test_total_over_the_limit_fails_the_request(sizes: list[int]) -> None:
    entries = [sized(str(n), size) for n, size in enumerate(sizes)]
    with pytest.raises(SqsError) as refusal:
        batch.send_message_batch(SendMessageBatchRequest(entries=entries), SMALL)
    assert refusal.value.row.shape == "BatchRequestTooLong"
    expected = "Batch requests cannot be longer than 1048576 bytes. You have sent 1048577 bytes."
    assert refusal.value.message == expected


# Section 7.2: the second of three entries fails alone.
FAILED_SENDS: list[tuple[dict[str, Any], str, str]] = [
    ({"message_body": "\x00"}, "InvalidMessageContents", INVALID_CHARACTERS),
    ({"message_body": "x" * 1_025}, "InvalidParameterValue",
     "One or more parameters cannot be validated. Reason: Message must be shorter than 1024 "
     "bytes."),
    ({"message_body": None}, "MissingParameter",
     "The request must contain the parameter SendMessageBatchRequestEntry.2.MessageBody."),
    ({"message_body": ""}, "MissingParameter",
     "The request must contain the parameter SendMessageBatchRequestEntry.2.MessageBody."),
    ({"message_deduplication_id": "d"}, "InvalidParameterValue",
     "The request include parameter that is not valid for this queue type"),
    ({"delay_seconds": 901}, "InvalidParameterValue",
     "Value 901 for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= "
     "900."),
    ({"message_attributes": {"a": MessageAttributeValue("String", "v", string_list_values=["v"])}},
     "UnsupportedOperation",
     "Message attribute list values in SendMessage operation are not supported."),
]  # fmt: skip


@pytest.mark.parametrize(("members", "code", "text"), FAILED_SENDS)
def test_send_entry_fails_alone(members: dict[str, Any], code: str, text: str) -> None:
    good = {"message_body": "b"}
    entries = [
        SendMessageBatchRequestEntry(id=name, **(good | changed))
        for name, changed in (("a", {}), ("b", members), ("c", {}))
    ]
    request = SendMessageBatchRequest(entries=entries)
    accepted, refused = batch.send_message_batch(request, SMALL)
    assert refused == [(1, BatchResultErrorEntry("b", True, code, text))]
    assert [(number, name) for number, name, _ in accepted] == [(0, "a"), (2, "c")]


@pytest.mark.parametrize("handle", [None, ""])
def test_delete_entry_fails_alone(handle: str | None) -> None:
    entries = [
        DeleteMessageBatchRequestEntry(id="a", receipt_handle=handle),
        DeleteMessageBatchRequestEntry(id="b", receipt_handle="h"),
    ]
    text = "The request must contain the parameter ReceiptHandle."
    failure = BatchResultErrorEntry("a", True, "MissingParameter", text)
    assert delete(entries) == [("a", failure), ("b", "h")]


@pytest.mark.parametrize(
    ("seconds", "code", "text"),
    [
        (None, "MissingParameter",
         "The request must contain the parameter "
         "ChangeMessageVisibilityBatchRequestEntry.2.VisibilityTimeout."),
        (43_201, "InvalidParameterValue",
         "Value 43201 for parameter VisibilityTimeout is invalid. Reason: VisibilityTimeout must "
         "be an integer between 0 and 43200."),
    ],
)  # fmt: skip
def test_change_entry_fails_alone(seconds: int | None, code: str, text: str) -> None:
    entries = [
        ChangeMessageVisibilityBatchRequestEntry(id=name, receipt_handle="h", visibility_timeout=at)
        for name, at in (("a", 5), ("b", seconds))
    ]
    failure = BatchResultErrorEntry("b", True, code, text)
    assert change(entries) == [("a", ValidChange("h", 5)), ("b", failure)]


def test_trace_header_of_the_request_goes_to_every_entry() -> None:
    entries = [SendMessageBatchRequestEntry(id=name, message_body="b") for name in "ab"]
    request = SendMessageBatchRequest(entries=entries)
    accepted, _ = batch.send_message_batch(request, DEFAULTS, "Root=1")
    assert [valid.extras.trace_header for _, _, valid in accepted] == ["Root=1"] * 2


def test_server_side_failure_is_not_the_senders() -> None:
    failure = batch.failed_entry("a", internal_failure())
    assert (failure.id, failure.sender_fault, failure.code) == ("a", False, "InternalError")
