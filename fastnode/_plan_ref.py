"""The plain version of planning sends (text, ids, digests, records, transaction) and of writing.

`_plan.pyx` does the same in C. Delayed messages are not planned here: they have state and a timer
from the start, and `queue/send.py` plans them write by write.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from fastnode._core_ref import (
    ADD,
    DELETE,
    DROP,
    ENTRIES_MAX,
    FRESH_DELETE,
    FRESH_PUT,
    PUT,
    TOUCH,
    Transaction,
    encode_message,
    encode_transaction,
    message_id,
    message_id_text,
)
from fastnode._keys_ref import FAMILY_GROUP, FAMILY_STATE, message_key, text
from fastnode._occ_ref import APPLIED

_PUTS: Final = (PUT, FRESH_PUT)
_DELETES: Final = (DELETE, FRESH_DELETE)
# A position ends the keys of messages: commit timestamp and entry.
POSITION_BYTES: Final = 10
_CONTROLS: Final = bytes(set(range(0x20)) - {0x09, 0x0A, 0x0D})
_NONCHARACTERS: Final = ("\ufffe".encode(), "\uffff".encode())


def encode_text(text: str) -> bytes | None:
    """The UTF-8 form of text, or None when it has a character that the API forbids: a control
    character but tab, line feed and carriage return, a surrogate, U+FFFE or U+FFFF.
    """
    try:
        encoded = text.encode()
    except UnicodeEncodeError:  # A lone surrogate.
        return None
    if len(encoded.translate(None, _CONTROLS)) != len(encoded):
        return None
    # In UTF-8 these three bytes in a row are always that one character.
    if not text.isascii() and any(one in encoded for one in _NONCHARACTERS):
        return None
    return encoded


def write_landed(
    transactions: Sequence[Transaction],
    outcomes: Sequence[tuple[int, int, int]],
    put: Callable[[bytes, bytes], object],
    other: Callable[[int, bytes, bytes], object],
) -> None:
    """Hand the writes of the transactions that landed on, in order: puts to `put`, the rest with
    their kind to `other`.
    """
    for transaction, outcome in zip(transactions, outcomes, strict=True):
        if outcome[0] == APPLIED:
            for kind, key, value in transaction.writes:
                if kind == PUT or kind == FRESH_PUT:
                    put(key, value)
                else:
                    other(kind, key, value)


class HeadChanges(NamedTuple):
    """What landed transactions do to group indexes and states, and which heads they touch.

    `touched` has head keys, in order of their first touch. `groups` has for each group, by what its
    head key has after the family, the positions whose rows were written: True put, False deleted.
    `states` goes by position alone: commit timestamps never repeat, so it names one message.
    `dropped` has the ranges that are gone.
    """

    touched: dict[bytes, None]
    groups: dict[bytes, dict[bytes, bool]]
    states: dict[bytes, bytes | None]
    dropped: list[tuple[bytes, bytes]]


def head_changes(
    transactions: Sequence[Transaction], outcomes: Sequence[tuple[int, int, int]]
) -> HeadChanges:
    """A dropped range is a whole family of a scope, and whoever drops one family drops them all.
    States stay: without its row in the group index nobody asks for a message's state.
    """
    changes = HeadChanges({}, {}, {}, [])
    for transaction, outcome in zip(transactions, outcomes, strict=True):
        if outcome[0] == APPLIED:
            for kind, key, value in transaction.writes:
                _note_change(changes, kind, key, value)
    return changes


def _note_change(changes: HeadChanges, kind: int, key: bytes, value: bytes) -> None:
    if kind == TOUCH:
        changes.touched[key] = None
    elif kind == DROP:
        changes.dropped.append((key, value))
        for group in [group for group in changes.groups if key <= FAMILY_GROUP + group < value]:
            del changes.groups[group]
    elif kind in _PUTS or kind in _DELETES:
        position = key[-POSITION_BYTES:]
        if key.startswith(FAMILY_GROUP):
            group = key[len(FAMILY_GROUP) : -POSITION_BYTES]
            changes.groups.setdefault(group, {})[position] = kind in _PUTS
        elif key.startswith(FAMILY_STATE):
            changes.states[position] = value if kind in _PUTS else None


class PlannedSend(NamedTuple):
    """A message of a planned transaction; `position` is commit timestamp << 16 | entry."""

    message_id: str
    body_md5: str
    position: int
    record: bytes


def plan_sends(
    request: bytes,
    start_ts: int,
    commit_ts: int,
    generation_key: bytes,
    total_key: bytes,
    data_prefix: bytes,
    sender: str,
    messages: Sequence[tuple[bytes, bytes]],
) -> tuple[bytes, list[PlannedSend]]:
    """The encoded transaction that stores `messages`, each (extras, body), and what it stores."""
    planned: list[PlannedSend] = []
    writes: list[tuple[int, bytes, bytes]] = []
    for entry, (extras, body) in enumerate(messages):
        identity = message_id(commit_ts, entry, request)
        digest = hashlib.md5(body, usedforsecurity=False).digest()
        record = encode_message(0, identity, commit_ts >> 16, digest, sender, extras, body)
        writes.append((FRESH_PUT, message_key(data_prefix, commit_ts, entry), record))
        position = commit_ts << 16 | entry
        planned.append(PlannedSend(message_id_text(identity), digest.hex(), position, record))
    writes.append((ADD, total_key, len(planned).to_bytes(8, "big", signed=True)))
    mask = (1 << len(planned)) - 1
    reads = (generation_key,)
    return encode_transaction(request, start_ts, commit_ts, 0, mask, reads, writes), planned


class FifoKeys(NamedTuple):
    """Where a FIFO queue, or a partition of one, keeps what a send writes: two keys, and how the
    keys of each family begin.
    """

    generation: bytes
    total: bytes
    data: bytes
    group: bytes
    head: bytes


class FifoDraft(NamedTuple):
    """A message to be stored: its number in the call, its group, its deduplication key."""

    entry: int
    group_id: str
    dedup_key: bytes
    extras: bytes
    body: bytes


def plan_fifo_sends(
    request: bytes,
    start_ts: int,
    commit_ts: int,
    keys: FifoKeys,
    sender: str,
    messages: Sequence[FifoDraft],
) -> tuple[bytes, list[PlannedSend]]:
    """As `plan_sends`, for messages that nobody has sent before: each is filed under its group,
    touches it, and leaves a deduplication row.
    """
    planned: list[PlannedSend] = []
    writes: list[tuple[int, bytes, bytes]] = []
    mask = 0
    for entry, group_id, dedup_key, extras, body in messages:
        identity = message_id(commit_ts, entry, request)
        digest = hashlib.md5(body, usedforsecurity=False).digest()
        record = encode_message(0, identity, commit_ts >> 16, digest, sender, extras, body)
        place, group = message_key(b"", commit_ts, entry), text(group_id)
        writes.append((FRESH_PUT, keys.data + place, record))
        writes.append((FRESH_PUT, keys.group + group + place, b""))
        writes.append((TOUCH, keys.head + group, b""))
        writes.append((PUT, dedup_key, identity + place))
        position = commit_ts << 16 | entry
        planned.append(PlannedSend(message_id_text(identity), digest.hex(), position, record))
        mask |= 1 << entry
    if len(planned) > ENTRIES_MAX:
        raise ValueError("a transaction creates at most 16 messages")
    writes.append((ADD, keys.total, len(planned).to_bytes(8, "big", signed=True)))
    reads = (keys.generation,)
    return encode_transaction(request, start_ts, commit_ts, 0, mask, reads, writes), planned
