"""Peek: a look at a queue's messages that changes nothing, neither a count nor a timeout. Beyond
SQS, for the admin API.

Read from what is stored, not from leader memory, so a queue that nobody uses stays out of it. A
page costs a bounded number of rows and bytes, whatever the queue holds; it may therefore be short
or even empty and still have a cursor, which says where to go on. Over pages of an unchanging queue
every message comes once.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fastnode import config, native
from fastnode.errors import FastnodeError
from fastnode.native import TIMER_DELAYED, TIMER_RECEIVED, MessageRecord, MessageState
from fastnode.queue.api import MessageAttributeValue
from fastnode.queue.attributes import is_fifo_queue, settings_of
from fastnode.queue.message_attributes import decode_extras, wire_values
from fastnode.queue.partitions import partition_generation
from fastnode.queue.service import Service
from fastnode.store.group import Group
from fastnode.store.keyspace import MessageKeys, PartitionKeys, QueueKeys
from fastnode.store.records import QueueRecord, decode_queue

VISIBLE: Final = "visible"
DELAYED: Final = "delayed"
IN_FLIGHT: Final = "in_flight"
STATES: Final = (VISIBLE, DELAYED, IN_FLIGHT)

_CURSOR_VERSION: Final = 1
_CURSOR_BYTES_MAX: Final = 512
_CHUNK_ROWS: Final = 100


class BadCursor(FastnodeError):
    """The cursor is none of ours, or belongs to another queue or to what a purge removed."""


class Cursor(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The last key that a page looked at (none: begin), and the life of the queue, or of its
    partition, that it belongs to.
    """

    v: int
    gen: int
    k: str
    p: int = 0

    @property
    def key(self) -> bytes:
        return _from_base64(self.k)


class PeekedMessage(Struct, frozen=True, omit_defaults=True):
    """`visible_at_ms` is missing for a message that nobody has received and that has no delay."""

    message_id: str
    body: str
    body_bytes: int
    body_truncated: bool
    sent_ms: int
    sender_id: str
    receive_count: int
    first_receive_ms: int = 0
    visible_at_ms: int = 0
    message_group_id: str | None = None
    source_arn: str | None = None
    attribute_names: list[str] = []
    # Only if asked for: what a copy of the message has to have.
    details: "MessageDetails | None" = None


class MessageDetails(Struct, frozen=True, omit_defaults=True, rename="pascal"):
    """Members as SendMessage has them, and the place in a FIFO queue."""

    message_attributes: dict[str, MessageAttributeValue] = {}
    message_deduplication_id: str | None = None
    trace_header: str | None = None
    sequence_number: str | None = None


class PeekPage(Struct, frozen=True, omit_defaults=True):
    state: str
    messages: list[PeekedMessage]
    cursor: str | None = None


class PeekRequest(Struct, frozen=True):
    state: str
    limit: int
    body_bytes_max: int
    cursor: str
    # Only messages whose body or id has this text.
    contains: str = ""
    with_details: bool = False


async def peek(
    service: Service, account: str, region: str, name: str, request: PeekRequest
) -> PeekPage | None:
    """None if there is no such queue."""
    names = QueueKeys(account, region, name)
    group = service.group_of(names)
    await service.readable(group)
    stored = group.get(names.meta)
    if stored is None:
        return None
    record = decode_queue(stored)
    cursor = decode_cursor(request.cursor) if request.cursor else None
    partition = cursor.p if cursor else 0
    if not 0 <= partition < record.partition_count:
        raise BadCursor("the cursor belongs to another queue")
    place = _place(service, names, record, partition)
    messages, last_key = _page(place, record, request, cursor)
    next_cursor = encode_cursor(place.generation, last_key, partition) if last_key else None
    if last_key is None and partition + 1 < record.partition_count:
        # One partition a page: the next one begins with the next.
        following = _place(service, names, record, partition + 1)
        next_cursor = encode_cursor(following.generation, b"", partition + 1)
    return PeekPage(request.state, messages, next_cursor)


class _Place(NamedTuple):
    """Where messages of a queue, or of one of its partitions, are."""

    group: Group
    generation: int
    keys: MessageKeys
    partition: int = native.UNPARTITIONED


def _place(service: Service, names: QueueKeys, record: QueueRecord, partition: int) -> _Place:
    if not record.partition_groups:
        generation = service.generation_of(names).number
        return _Place(service.group_of(names), generation, MessageKeys(names.segment, generation))
    group = service.groups[record.partition_groups[partition]]
    generation = partition_generation(group, PartitionKeys(names, partition)).number
    keys = MessageKeys(names.segment, generation, partition)
    return _Place(group, generation, keys, partition)


def _page(
    place: _Place, record: QueueRecord, request: PeekRequest, cursor: Cursor | None
) -> tuple[list[PeekedMessage], bytes | None]:
    group, generation, keys, partition = place
    now = group.now()
    ranges = _ranges(group, keys, request.state, now)
    if cursor is not None:
        ranges = _after(ranges, cursor, generation)
    retention_ms = settings_of(record.attributes).retention_ms
    expired_ms = (now >> 16) - retention_ms
    is_fifo = is_fifo_queue(record.attributes)
    look = _Look(group, keys, request, expired_ms, partition if is_fifo else None)
    return _collect(look, ranges, request.limit)


# --- where messages of a state are stored ------------------------------------------------------


class _Range(NamedTuple):
    """Rows of one index, from the key `begin` on. `flags` are the timers that are meant; none for
    the message records.
    """

    prefix: bytes
    begin: bytes
    end: bytes
    flags: tuple[bytes, ...]


def _ranges(group: Group, keys: MessageKeys, state: str, now: int) -> list[_Range]:
    later, end = keys.timer_key(now + 1, 0), native.prefix_end(keys.timer)
    if state == DELAYED:
        return [_Range(keys.timer, later, end, (TIMER_DELAYED,))]
    if state == IN_FLIGHT:
        return [_Range(keys.timer, later, end, (TIMER_RECEIVED,))]
    assert state == VISIBLE, "the caller checks the state"
    mark = int.from_bytes(group.get(keys.mark) or b"", "big")
    # As a receive serves them: first those whose time has come, then those that always waited.
    return [
        _Range(keys.timer, keys.timer_key(0, 0), later, (TIMER_DELAYED, TIMER_RECEIVED)),
        _Range(keys.data, keys.data_key(mark), native.prefix_end(keys.data), ()),
    ]


def _after(ranges: list[_Range], cursor: Cursor, generation: int) -> list[_Range]:
    """What is left behind the cursor."""
    if cursor.gen != generation:
        raise BadCursor("the queue was purged or created anew since")
    key = cursor.key
    if not key and cursor.p:
        return ranges
    for index, each in enumerate(ranges):
        if key.startswith(each.prefix) and len(key) == len(each.begin):
            begin = max(each.begin, key + b"\x00")
            return [each._replace(begin=begin), *ranges[index + 1 :]]
    raise BadCursor("the cursor belongs to another queue or state")


# --- reading ------------------------------------------------------------------------------------


class _Look(NamedTuple):
    group: Group
    keys: MessageKeys
    wanted: PeekRequest
    # What was sent by then is expired, though it may still be stored: no receive would give it.
    expired_ms: int
    # Of a FIFO queue; None for others.
    partition: int | None

    def rows(self, each: _Range, begin: bytes) -> list[tuple[bytes, int | None]]:
        """Some keys of the range, each with the position of the message that it stands for."""
        if each.flags:
            timers = self.group.scan(begin, each.end, _CHUNK_ROWS)
            return [
                (key, self.keys.timer_of(key)[1] if flag in each.flags else None)
                for key, flag in timers
            ]
        records = self.group.scan_keys(begin, each.end, _CHUNK_ROWS)
        positions = [self.keys.position_of(key) for key in records]
        states = self.group.get_many([self.keys.state_key(position) for position in positions])
        return [
            (key, position if state is None else None)
            for key, position, state in zip(records, positions, states, strict=True)
        ]

    def message(self, position: int) -> tuple[MessageRecord, MessageState | None] | None:
        data_key, state_key = self.keys.data_key(position), self.keys.state_key(position)
        stored, state = self.group.get_many((data_key, state_key))
        assert stored is not None, "an index row without its message"
        record = native.decode_message(stored)
        if record.sent_ms <= self.expired_ms:
            return None
        return record, None if state is None else native.decode_state(state)

    def is_wanted(self, record: MessageRecord) -> bool:
        text = self.wanted.contains
        return text.encode() in record.body or text == native.message_id_text(record.message_id)

    def details(self, position: int, record: MessageRecord) -> MessageDetails:
        extras, partition = decode_extras(record.extras), self.partition
        sequence = None if partition is None else native.sequence_number(position, partition)
        return MessageDetails(
            message_attributes=wire_values(extras.attributes),
            message_deduplication_id=extras.deduplication_id,
            trace_header=extras.trace_header,
            sequence_number=sequence,
        )


def _collect(
    look: _Look, ranges: list[_Range], limit: int
) -> tuple[list[PeekedMessage], bytes | None]:
    """A page, and the last key that was looked at unless there is nothing after it."""
    messages: list[PeekedMessage] = []
    read_bytes = 0
    for count, (key, position) in enumerate(_walk(look, ranges), start=1):
        found = None if position is None else look.message(position)
        if found is not None and position is not None:
            read_bytes += len(found[0].body)
            if look.is_wanted(found[0]):
                shown = _shown(*found, look.wanted.body_bytes_max)
                if look.wanted.with_details:
                    shown = replace(shown, details=look.details(position, found[0]))
                messages.append(shown)
        if len(messages) == limit or count == config.PEEK_ROWS or read_bytes > config.PEEK_BYTES:
            return messages, key
    return messages, None


def _walk(look: _Look, ranges: list[_Range]) -> Iterator[tuple[bytes, int | None]]:
    for each in ranges:
        begin = each.begin
        while rows := look.rows(each, begin):
            yield from rows
            begin = rows[-1][0] + b"\x00"


def _shown(record: MessageRecord, state: MessageState | None, body_bytes_max: int) -> PeekedMessage:
    extras = decode_extras(record.extras)
    moved = extras.moved
    # A cut in the middle of a character drops what is left of it.
    body = record.body[:body_bytes_max].decode(errors="ignore")
    return PeekedMessage(
        message_id=native.message_id_text(record.message_id),
        body=body,
        body_bytes=len(record.body),
        body_truncated=len(record.body) > body_bytes_max,
        sent_ms=record.sent_ms,
        sender_id=record.sender,
        receive_count=state.receive_count if state else 0,
        first_receive_ms=state.first_receive_ms if state else 0,
        visible_at_ms=state.visible_at >> 16 if state else 0,
        message_group_id=extras.group_id,
        source_arn=moved.source_arn if moved else None,
        attribute_names=[name for name, _, _ in extras.attributes],
    )


# --- cursors ------------------------------------------------------------------------------------


_decoder: Final = msgspec.json.Decoder(Cursor)


def encode_cursor(generation: int, key: bytes, partition: int = 0) -> str:
    cursor = Cursor(_CURSOR_VERSION, generation, _to_base64(key), partition)
    return _to_base64(msgspec.json.encode(cursor))


def decode_cursor(text: str) -> Cursor:
    if len(text) > _CURSOR_BYTES_MAX:
        raise BadCursor("the cursor is too long")
    try:
        cursor = _decoder.decode(_from_base64(text))
    except msgspec.DecodeError as error:
        raise BadCursor("the cursor cannot be read") from error
    if cursor.v != _CURSOR_VERSION:
        raise BadCursor("the cursor is of another version")
    return cursor


def _to_base64(plain: bytes) -> str:
    return urlsafe_b64encode(plain).decode().rstrip("=")


def _from_base64(text: str) -> bytes:
    try:
        plain = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError) as error:
        raise BadCursor("the cursor cannot be read") from error
    if _to_base64(plain) != text:
        raise BadCursor("the cursor cannot be read")
    return plain
