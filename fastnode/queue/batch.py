"""The rules of batches, shared by the three batch actions. Pure.

Some mistakes fail the whole request; they are checked first, so that nothing of it is applied. An
entry is checked by the same function as the single call, with its own wording, and its refusal
becomes a result instead of an error.
"""

from collections.abc import Callable, Container, Sequence
from typing import Final, Protocol, TypeVar

from fastnode.config import BATCH_ENTRIES_MAX, MESSAGE_BYTES_MAX
from fastnode.queue.api import (
    BatchResultErrorEntry,
    ChangeMessageVisibilityBatchRequest,
    ChangeMessageVisibilityBatchRequestEntry,
    DeleteMessageBatchRequest,
    SendMessageBatchRequest,
    SendMessageBatchRequestEntry,
)
from fastnode.queue.attributes import QueueSettings
from fastnode.queue.characters import is_batch_entry_id
from fastnode.queue.errors import SqsError, invalid_parameter, missing_parameter, sqs_error
from fastnode.queue.validate import (
    CHANGE_ENTRIES,
    SEND_ENTRIES,
    ValidChange,
    ValidSend,
    change_message_visibility,
    check_fifo_entry,
    check_fifo_ids,
    delete_message,
    message_size,
    send_message,
)


class Entry(Protocol):
    @property
    def id(self) -> str | None: ...


E = TypeVar("E", bound=Entry)
V = TypeVar("V")

# A character takes at most four bytes in UTF-8.
_SURELY_SMALL: Final = MESSAGE_BYTES_MAX // 4
_BAD_ID_TEXT: Final = (
    "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
    "It can be at most 80 letters long."
)


def send_message_batch(
    request: SendMessageBatchRequest,
    settings: QueueSettings,
    trace_header: str | None = None,
    sent: Container[int] = (),
) -> tuple[list[tuple[int, str, ValidSend]], list[tuple[int, BatchResultErrorEntry]]]:
    """The messages to store, each with its entry's number and id, and the refusals with the numbers
    of their entries; both in entry order. Entries whose numbers are in `sent` are passed over.
    """
    checked = _checked_entries(request.entries, "SendMessageBatchRequestEntry")
    numbered = [(number, entry) for number, entry in enumerate(checked) if number not in sent]
    entries = [entry for _, entry in numbered]
    if settings.is_fifo:
        _check_fifo(entries, settings)
    else:
        _check_total_size(entries)
    accepted: list[tuple[int, str, ValidSend]] = []
    refused: list[tuple[int, BatchResultErrorEntry]] = []
    for number, entry in numbered:
        entry_id = entry.id or ""
        try:
            valid = send_message(entry, settings, trace_header, SEND_ENTRIES[number])
            accepted.append((number, entry_id, valid))
        except SqsError as error:
            refused.append((number, failed_entry(entry_id, error)))
    return accepted, refused


def delete_message_batch(
    request: DeleteMessageBatchRequest,
) -> list[tuple[str, str | BatchResultErrorEntry]]:
    """Each entry's id with its receipt handle, or with the reason why not, in entry order."""
    entries = _checked_entries(request.entries, "DeleteMessageBatchRequestEntry")
    return _each(entries, lambda _, entry: delete_message(entry))


def change_message_visibility_batch(
    request: ChangeMessageVisibilityBatchRequest,
) -> list[tuple[str, ValidChange | BatchResultErrorEntry]]:
    """Each entry's id with the change to make, or with the reason why not, in entry order."""
    entries = _checked_entries(request.entries, "ChangeMessageVisibilityBatchRequestEntry")

    def check(index: int, entry: ChangeMessageVisibilityBatchRequestEntry) -> ValidChange:
        return change_message_visibility(entry, CHANGE_ENTRIES[index])

    return _each(entries, check)


def failed_entry(entry_id: str, error: SqsError) -> BatchResultErrorEntry:
    """An error as the result of one entry, here or later in a handler."""
    row = error.row
    return BatchResultErrorEntry(entry_id, row.is_sender_fault, row.batch_code, error.message)


def _checked_entries(entries: Sequence[E] | None, shape: str) -> Sequence[E]:
    """The checks that fail a request as a whole, so that nothing of it is applied."""
    if entries is None:
        raise missing_parameter("Entries")
    if not entries:
        text = f"There should be at least one {shape} in the request."
        raise sqs_error("EmptyBatchRequest", text)
    if len(entries) > BATCH_ENTRIES_MAX:
        text = f"Maximum number of entries per request are {BATCH_ENTRIES_MAX}."
        raise sqs_error("TooManyEntriesInBatchRequest", f"{text} You have sent {len(entries)}.")
    for entry in entries:
        if not is_batch_entry_id(entry.id or ""):
            raise sqs_error("InvalidBatchEntryId", _BAD_ID_TEXT)
    _check_distinct([entry.id for entry in entries])
    return entries


def _check_distinct(ids: Sequence[str | None]) -> None:
    if len(set(ids)) == len(ids):
        return
    first = next(each for index, each in enumerate(ids) if each in ids[:index])
    raise sqs_error("BatchEntryIdsNotDistinct", f"Id {first} repeated.")


def _check_total_size(entries: Sequence[SendMessageBatchRequestEntry]) -> None:
    """The limit of the API, whatever the queue's own; it also meets one oversized entry."""
    characters = sum([len(entry.message_body or "") for entry in entries])
    if characters <= _SURELY_SMALL and not any(entry.message_attributes for entry in entries):
        return
    total = sum(map(message_size, entries))
    if total > MESSAGE_BYTES_MAX:
        text = f"Batch requests cannot be longer than {MESSAGE_BYTES_MAX} bytes."
        raise sqs_error("BatchRequestTooLong", f"{text} You have sent {total} bytes.")


def _check_fifo(entries: Sequence[SendMessageBatchRequestEntry], settings: QueueSettings) -> None:
    """What else fails a request as a whole on a FIFO queue, before and after the total size."""
    for entry in entries:
        try:
            check_fifo_ids(entry, settings)
        except SqsError as error:
            # As recorded: what a single send calls missing is an invalid parameter of a batch.
            raise invalid_parameter(error.message) from None
    _check_total_size(entries)
    for entry in entries:
        check_fifo_entry(entry, settings)


def _each(
    entries: Sequence[E], check: Callable[[int, E], V]
) -> list[tuple[str, V | BatchResultErrorEntry]]:
    results: list[tuple[str, V | BatchResultErrorEntry]] = []
    for index, entry in enumerate(entries):
        entry_id = entry.id or ""
        try:
            results.append((entry_id, check(index, entry)))
        except SqsError as error:
            results.append((entry_id, failed_entry(entry_id, error)))
    return results
