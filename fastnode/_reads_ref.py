"""The plain version of reading receives and deletes that are plain: JSON with nothing but a queue
and receipt handles, or a queue and numbers within their bounds.

`_reads.pyx` does the same in C. None means that a request is not plain: it asks for more, or
something in it may have to be refused; then the codec and the rules of `queue/` read it. The shapes
are those of `queue/api.py`: what these cannot be read into, is not read here either.
"""

import re
from typing import Final

import msgspec
from msgspec import Struct

from fastnode.config import (
    BATCH_ENTRIES_MAX,
    RECEIVE_MESSAGES_MAX,
    VISIBILITY_SECONDS_MAX,
    WAIT_SECONDS_MAX,
)

# Queue URL, receipt handles, and the answer if all of them are good.
PlainDelete = tuple[str, list[bytes], bytes]
# Queue URL, how many messages; visibility timeout and time to wait, None where the queue decides.
PlainReceive = tuple[str, int, int | None, int | None]

_ENTRY_ID_MATCH: Final = re.compile(r"[A-Za-z0-9_-]{1,80}").fullmatch
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_MESSAGES: Final = range(1, RECEIVE_MESSAGES_MAX + 1)
_VISIBILITY: Final = range(VISIBILITY_SECONDS_MAX + 1)
_WAIT: Final = range(WAIT_SECONDS_MAX + 1)


class Delete(Struct, frozen=True, rename="pascal", gc=False):
    queue_url: str | None = None
    receipt_handle: str | None = None


class DeleteEntry(Struct, frozen=True, rename="pascal", gc=False):
    id: str | None = None
    receipt_handle: str | None = None


class DeleteBatch(Struct, frozen=True, rename="pascal", gc=False):
    queue_url: str | None = None
    entries: list[DeleteEntry] | None = None


class Receive(Struct, frozen=True, rename="pascal", gc=False):
    queue_url: str | None = None
    attribute_names: list[str] | None = None
    message_system_attribute_names: list[str] | None = None
    message_attribute_names: list[str] | None = None
    max_number_of_messages: int | None = None
    visibility_timeout: int | None = None
    wait_time_seconds: int | None = None
    receive_request_attempt_id: str | None = None


_decode_delete: Final = msgspec.json.Decoder(Delete).decode
_decode_batch: Final = msgspec.json.Decoder(DeleteBatch).decode
_decode_receive: Final = msgspec.json.Decoder(Receive).decode


def read_delete(body: bytes) -> PlainDelete | None:
    """A DeleteMessage."""
    try:
        delete = _decode_delete(body)
    except _UNREADABLE:
        return None
    handles = _plain_handles([delete.receipt_handle])
    return None if not delete.queue_url or handles is None else (delete.queue_url, handles, b"")


def read_delete_batch(body: bytes) -> PlainDelete | None:
    """A DeleteMessageBatch of which no entry is refused before its handle is looked at."""
    try:
        batch = _decode_batch(body)
    except _UNREADABLE:
        return None
    entries = batch.entries or []
    ids = {entry.id: None for entry in entries if _ENTRY_ID_MATCH(entry.id or "")}
    if len(ids) != len(entries) or not 0 < len(ids) <= BATCH_ENTRIES_MAX:
        return None
    handles = _plain_handles([entry.receipt_handle for entry in entries])
    if not batch.queue_url or handles is None:
        return None
    answer = msgspec.json.encode({"Successful": [{"Id": entry_id} for entry_id in ids]})
    return batch.queue_url, handles, answer


def _plain_handles(handles: list[str | None]) -> list[bytes] | None:
    """Handles that a queue may have issued are ASCII."""
    found = [handle.encode() for handle in handles if handle and handle.isascii()]
    return found if len(found) == len(handles) else None


def read_receive(body: bytes) -> PlainReceive | None:
    """A ReceiveMessage that asks for no attributes."""
    try:
        receive = _decode_receive(body)
    except _UNREADABLE:
        return None
    if not receive.queue_url or not _is_plain(receive):
        return None
    count, seconds = receive.max_number_of_messages, receive.visibility_timeout
    return receive.queue_url, 1 if count is None else count, seconds, receive.wait_time_seconds


def _is_plain(receive: Receive) -> bool:
    """Within all bounds, and asks for nothing but messages."""
    count, seconds = receive.max_number_of_messages, receive.visibility_timeout
    return (
        (count is None or count in _MESSAGES)
        and (seconds is None or seconds in _VISIBILITY)
        and (receive.wait_time_seconds is None or receive.wait_time_seconds in _WAIT)
        and not receive.attribute_names
        and not receive.message_system_attribute_names
        and not receive.message_attribute_names
        and receive.receive_request_attempt_id is None
    )
