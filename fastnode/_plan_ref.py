"""The plain version of what comes before and after a transaction: the text of a body, drafts and
duplicates; then writing what has landed.

`_plan.pyx` does the same in C. The transaction of a send is in `_send_ref.py`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from fastnode._core_ref import (
    ADD,
    DELETE,
    DROP,
    FRESH_DELETE,
    FRESH_PUT,
    MAX,
    PUT,
    TOUCH,
    Transaction,
)
from fastnode._keys_ref import (
    FAMILY_GROUP,
    FAMILY_STATE,
    dedup_key,
)
from fastnode._occ_ref import APPLIED

_PUTS: Final = (PUT, FRESH_PUT)
_DELETES: Final = (DELETE, FRESH_DELETE)
# A position ends the keys of messages: commit timestamp and entry.
POSITION_BYTES: Final = 10
_CONTROLS: Final = bytes(set(range(0x20)) - {0x09, 0x0A, 0x0D})
_NONCHARACTERS: Final = ("\ufffe".encode(), "\uffff".encode())
_TOKEN_MATCH: Final = re.compile(r"[!-~]{1,128}").fullmatch

FIRST_BITS: Final = 1 << 14
BITS_MAX: Final = 1 << 23
FILTERS_MAX: Final = 8
# So many bits for each id, and so many of them set, let one new id in four hundred be looked up in
# vain when a filter is full.
BITS_PER_ID: Final = 16
BITS_SET: Final = 4
# Enough of a key to tell the indexes of messages apart, and as many of them as one batch may hold
# back.
FAMILY_BYTES: Final = 11
FAMILIES_MAX: Final = 16


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


def is_token(text: str) -> bool:
    """Whether text may be a group or deduplication id: at most 128 ASCII letters, digits and
    punctuation, no space.
    """
    return _TOKEN_MATCH(text) is not None


def write_landed(
    transactions: Sequence[Transaction],
    outcomes: Sequence[tuple[int, int, int]],
    put: Callable[[bytes, bytes], object],
    delete: Callable[[bytes], object],
    other: Callable[[int, bytes, bytes], object],
    added: dict[bytes, int],
) -> bool:
    """Hand the writes of the transactions that landed on: puts to `put`, deletes to `delete`, the
    rest with their kind to `other`. Most add to the same few counters: `added` has the sum of each,
    so far. A touch writes nothing itself: whether there was one.

    Rows that one transaction has next to each other lie far apart in the engine, which is fastest
    where the last row was: so rows whose keys begin alike are handed on together. Those of one key
    keep their order, and nothing passes a range that is dropped.
    """
    has_touched = False
    rows: dict[bytes, list[tuple[int, bytes, bytes]]] = {}
    for write in _landed_writes(transactions, outcomes):
        kind, key, value = write
        if kind == ADD:
            added[key] = added.get(key, 0) + int.from_bytes(value, "big", signed=True)
        elif kind == TOUCH:
            has_touched = True
        elif kind == MAX:
            other(kind, key, value)
        elif kind == DROP:
            _hand_on(rows, put, delete)
            other(kind, key, value)
        else:
            family = key[:FAMILY_BYTES]
            if family not in rows and len(rows) == FAMILIES_MAX:
                _hand_on(rows, put, delete)
            rows.setdefault(family, []).append(write)
    _hand_on(rows, put, delete)
    return has_touched


def _hand_on(
    rows: dict[bytes, list[tuple[int, bytes, bytes]]],
    put: Callable[[bytes, bytes], object],
    delete: Callable[[bytes], object],
) -> None:
    for family in rows.values():
        for kind, key, value in family:
            if kind in _PUTS:
                put(key, value)
            else:
                delete(key)
    rows.clear()


def _landed_writes(
    transactions: Sequence[Transaction], outcomes: Sequence[tuple[int, int, int]]
) -> Iterator[tuple[int, bytes, bytes]]:
    for transaction, outcome in zip(transactions, outcomes, strict=True):
        if outcome[0] == APPLIED:
            yield from transaction.writes


class HeadChanges(NamedTuple):
    """What landed transactions do to group indexes and states, and which heads they touch.

    `touched` has the head keys of groups whose head may be another, in order of their first touch.
    `groups` has for each group, by what its head key has after the family, the positions whose rows
    were written: True put, False deleted.
    `states` goes by position alone: commit timestamps never repeat, so it names one message.
    `dropped` has the ranges that are gone.
    """

    touched: dict[bytes, None]
    groups: dict[bytes, dict[bytes, bool]]
    states: dict[bytes, bytes | None]
    dropped: list[tuple[bytes, bytes]]


def head_changes(
    transactions: Sequence[Transaction],
    outcomes: Sequence[tuple[int, int, int]],
    known: Mapping[bytes, bytes | None],
) -> HeadChanges:
    """`known` has stored head rows, by head key: most touches are sends to groups that have
    messages, and leave their heads as they are.

    A dropped range is a whole family of a scope, and whoever drops one family drops them all.
    States stay: without its row in the group index nobody asks for a message's state.
    """
    changes = HeadChanges({}, {}, {}, [])
    landed = list(_landed_writes(transactions, outcomes))
    changes.dropped.extend((key, value) for kind, key, value in landed if kind == DROP)
    for transaction, outcome in zip(transactions, outcomes, strict=True):
        if outcome[0] == APPLIED:
            _note_touched(changes, transaction.writes, known)
    for write in landed:
        _note_change(changes, *write)
    return changes


def _note_touched(
    changes: HeadChanges,
    writes: Sequence[tuple[int, bytes, bytes]],
    known: Mapping[bytes, bytes | None],
) -> None:
    """A transaction touches the groups whose rows it writes, so it knows what happens to them."""
    filed = [(kind, key) for kind, key, _ in writes if key.startswith(FAMILY_GROUP)]
    first = min((key[-POSITION_BYTES:] for kind, key in filed if kind in _PUTS), default=None)
    has_states = any(key.startswith(FAMILY_STATE) for _, key, _ in writes)
    only_files = not has_states and all(kind in _PUTS for kind, _ in filed)
    for kind, key, _ in writes:
        if kind == TOUCH:
            row = known.get(key) if only_files and not changes.dropped else None
            if row is None or (first is not None and row[:POSITION_BYTES] >= first):
                changes.touched[key] = None


def _note_change(changes: HeadChanges, kind: int, key: bytes, value: bytes) -> None:
    if kind == DROP:
        for group in [group for group in changes.groups if key <= FAMILY_GROUP + group < value]:
            del changes.groups[group]
    elif kind in _PUTS or kind in _DELETES:
        position = key[-POSITION_BYTES:]
        if key.startswith(FAMILY_GROUP):
            group = key[len(FAMILY_GROUP) : -POSITION_BYTES]
            changes.groups.setdefault(group, {})[position] = kind in _PUTS
        elif key.startswith(FAMILY_STATE):
            changes.states[position] = value if kind in _PUTS else None


class FifoDraft(NamedTuple):
    """A message to be stored: its number in the call, its group, its deduplication key."""

    entry: int
    group_id: str
    dedup_key: bytes
    extras: bytes
    body: bytes


def plain_drafts(
    dedup_prefix: bytes,
    is_per_group: bool,
    filed: Sequence[tuple[str, str | None]],
    bodies: Sequence[bytes],
) -> list[FifoDraft] | None:
    """Of the messages of a call that have nothing but bodies and ids: group and deduplication id of
    each. None if an id is missing or may not be one, or if a message is a duplicate of another.
    """
    drafts: list[FifoDraft] = []
    messages = list(zip(filed, bodies, strict=True))
    for entry, ((group_id, dedup_id), body) in enumerate(messages):
        if dedup_id is None or not is_token(group_id) or not is_token(dedup_id):
            return None
        key = dedup_key(dedup_prefix, group_id if is_per_group else "", dedup_id)
        drafts.append(FifoDraft(entry, group_id, key, _packed_ids(group_id, dedup_id), body))
    return drafts if len({draft.dedup_key for draft in drafts}) == len(drafts) else None


def _packed_ids(group_id: str, dedup_id: str) -> bytes:
    """What a message has besides its body is stored as MessagePack, see `MessageExtras`: of an
    array of five the first is the group and the last the deduplication id.
    """
    return b"\x95" + _packed(group_id) + b"\xc0\x90\xc0" + _packed(dedup_id)


def _packed(token: str) -> bytes:
    size = len(token)
    return (bytes((0xA0 | size,)) if size < 32 else bytes((0xD9, size))) + token.encode()


class _Filter:
    __slots__ = ("bits", "mask", "newest_ms", "room")

    def __init__(self, size: int) -> None:
        self.bits = bytearray(size >> 3)
        self.mask = size - 1
        self.room = size // BITS_PER_ID
        self.newest_ms = 0


def _places(value: int, mask: int) -> list[int]:
    """Where the bits of an id are, from a hash of it."""
    return [value + number * (value >> 32) & mask for number in range(BITS_SET)]


class Recent:
    """Which deduplication ids may have been used lately: a leader's memory that errs on one side
    only.

    Most sends are new, and to find that out in the engine costs as much as storing them. An id that
    is not in here was not used within the window; one that is has to be looked up. A few bits stand
    for an id, in filters that follow each other as they fill up, each larger than the one before;
    one whose ids are all older than the window is thrown away.

    It knows nothing of what was used before it was made: until `complete_ms` every id counts as
    used. 0 if nothing was. The sizes are powers of two.
    """

    __slots__ = ("_bits_max", "_complete_ms", "_filters", "_filters_max", "_now_ms", "_window_ms")

    def __init__(
        self,
        complete_ms: int,
        now_ms: Callable[[], int],
        window_ms: int,
        first_bits: int = FIRST_BITS,
        bits_max: int = BITS_MAX,
        filters_max: int = FILTERS_MAX,
    ) -> None:
        self._complete_ms = complete_ms
        self._now_ms = now_ms
        self._window_ms = window_ms
        self._bits_max = bits_max
        self._filters_max = filters_max
        self._filters = [_Filter(first_bits)]

    @property
    def filter_count(self) -> int:
        return len(self._filters)

    def may_have(self, key: bytes) -> bool:
        if self._complete_ms:
            if self._now_ms() < self._complete_ms:
                return True
            self._complete_ms = 0
        value = hash(key)
        return any(
            all(one.bits[at >> 3] >> (at & 7) & 1 for at in _places(value, one.mask))
            for one in self._filters
        )

    def add(self, key: bytes, now_ms: int) -> None:
        newest = self._filters[-1]
        if not newest.room:
            newest = self._grow(now_ms)
        for at in _places(hash(key), newest.mask):
            newest.bits[at >> 3] |= 1 << (at & 7)
        newest.room -= 1
        newest.newest_ms = now_ms

    def _grow(self, now_ms: int) -> _Filter:
        size = min(16 * (self._filters[-1].mask + 1), self._bits_max)
        oldest_ms = now_ms - self._window_ms
        self._filters = [one for one in self._filters if one.newest_ms > oldest_ms]
        if len(self._filters) == self._filters_max:
            # More than it may remember: what is forgotten counts as used until it is too old.
            self._complete_ms = self._filters.pop(0).newest_ms + self._window_ms + 1
        self._filters.append(_Filter(size))
        return self._filters[-1]
