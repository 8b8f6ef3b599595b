"""The plain version of reading sends that are plain: JSON with nothing but a queue, bodies and, for
a FIFO queue, ids.

`_plain.pyx` does the same in C. None means that a request is not plain: it has other members, or
something in it may have to be refused; then the codec and the rules of `queue/` read it.
"""

import re
from typing import Final

import msgspec
from msgspec import Struct

from fastnode._plan_ref import encode_text
from fastnode.config import BATCH_ENTRIES_MAX

# Queue URL, body, group and deduplication id; these two only for a FIFO queue.
PlainSend = tuple[str, bytes, str | None, str | None]
# Queue URL, ids and bodies of the entries; their group and deduplication ids, if they have groups.
PlainBatch = tuple[str, list[bytes], list[bytes], list[tuple[str, str | None]]]

_ENTRY_ID_MATCH: Final = re.compile(r"[A-Za-z0-9_-]{1,80}").fullmatch
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Message(Struct, frozen=True, rename="pascal", forbid_unknown_fields=True, gc=False):
    message_body: str
    message_group_id: str | None = None
    message_deduplication_id: str | None = None


class _Send(_Message, frozen=True, kw_only=True, gc=False):
    queue_url: str


class _Entry(_Message, frozen=True, kw_only=True, gc=False):
    id: str


class _Batch(Struct, frozen=True, rename="pascal", forbid_unknown_fields=True, gc=False):
    queue_url: str
    entries: list[_Entry]


_decode_send: Final = msgspec.json.Decoder(_Send).decode
_decode_batch: Final = msgspec.json.Decoder(_Batch).decode


def read_send(body: bytes) -> PlainSend | None:
    """A SendMessage."""
    try:
        sent = _decode_send(body)
    except _UNREADABLE:
        return None
    message = encode_text(sent.message_body)
    if not message or not _has_plain_ids(sent):
        return None
    return sent.queue_url, message, sent.message_group_id, sent.message_deduplication_id


def read_batch(body: bytes) -> PlainBatch | None:
    """A SendMessageBatch of which no entry is refused before its queue is known."""
    try:
        batch = _decode_batch(body)
    except _UNREADABLE:
        return None
    entries = batch.entries
    ids = {entry.id for entry in entries if _ENTRY_ID_MATCH(entry.id)}
    if len(ids) != len(entries) or not 0 < len(ids) <= BATCH_ENTRIES_MAX:
        return None
    bodies = [encode_text(entry.message_body) for entry in entries]
    if not all(bodies) or not all(map(_has_plain_ids, entries)):
        return None
    filed = [
        (entry.message_group_id, entry.message_deduplication_id)
        for entry in entries
        if entry.message_group_id is not None
    ]
    if filed and len(filed) != len(entries):
        return None
    return (
        batch.queue_url,
        [entry.id.encode() for entry in entries],
        list(filter(None, bodies)),
        filed,
    )


def _has_plain_ids(message: _Message) -> bool:
    """A deduplication id goes with a group."""
    return message.message_group_id is not None or message.message_deduplication_id is None
