"""The plain version of what has landed: rows, counters and marks for the engine, and what happens
to group heads.

`_landed.pyx` does the same in C. Who lands is decided in `_occ_ref.py`, where heads are in
`store/heads.py`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from fastnode._core_ref import ADD, DELETE, DROP, FRESH_DELETE, FRESH_PUT, MAX, PUT, TOUCH
from fastnode._entry_ref import Entry
from fastnode._keys_ref import FAMILY_GROUP, FAMILY_STATE, FAMILY_TIMER, POSITION_BYTES
from fastnode._occ_ref import APPLIED

# Enough of a key to tell the indexes of messages apart, and as many of them as one batch may hold
# back.
FAMILY_BYTES: Final = 11
FAMILIES_MAX: Final = 16

_PUTS: Final = (PUT, FRESH_PUT)
_DELETES: Final = (DELETE, FRESH_DELETE)

Outcome = tuple[int, int, int]
Write = tuple[int, bytes, bytes]
# A write, and whether its transaction takes no timer away.
_Filed = tuple[Write, bool]


class Batch(Protocol):
    """Takes rows, in order."""

    def put(self, key: bytes, value: bytes) -> None: ...
    def delete(self, key: bytes) -> None: ...
    def delete_range(self, begin: bytes, end: bytes) -> None: ...


class Sums(Protocol):
    """What is added to counters and the most that marks are raised to, so far; a range that is
    dropped takes along what it has of them.
    """

    added: dict[bytes, int]
    raised: dict[bytes, bytes]

    def drop(self, start: bytes, end: bytes) -> None: ...


def write_landed(entry: Entry, outcomes: list[Outcome], batch: Batch, sums: Sums) -> bool:
    """Hand the writes of the transactions that landed on: rows to the batch, all else to the sums.
    Whether group heads may be others now: a touch writes nothing itself.

    Rows that one transaction has next to each other lie far apart in the engine, which is fastest
    where the last row was: so rows whose keys begin alike are handed on together. Those of one key
    keep their order, and nothing passes a range that is dropped.

    Whatever has a state has a timer, and whoever changes one changes both: so a transaction that
    takes no timer away brings the first states of their messages. A `HeldBatch` wants to know.
    """
    changes_heads = False
    rows: dict[bytes, list[_Filed]] = {}
    for write, is_first in _landed_writes(entry, outcomes):
        kind, key, value = write
        if kind == ADD:
            delta = int.from_bytes(value, "big", signed=True)
            sums.added[key] = sums.added.get(key, 0) + delta
        elif kind == MAX:
            sums.raised[key] = max(value, sums.raised.get(key, b""))
        elif kind == TOUCH:
            changes_heads = True
        elif kind == DROP:
            _hand_on(rows, batch)
            batch.delete_range(key, value)
            sums.drop(key, value)
            changes_heads = True
        else:
            family = key[:FAMILY_BYTES]
            if family not in rows and len(rows) == FAMILIES_MAX:
                _hand_on(rows, batch)
            rows.setdefault(family, []).append((write, is_first))
    _hand_on(rows, batch)
    return changes_heads


def _hand_on(rows: dict[bytes, list[_Filed]], batch: Batch) -> None:
    put_first_state = getattr(batch, "put_first_state", batch.put)
    for family in rows.values():
        for (kind, key, value), is_first in family:
            if kind not in _PUTS:
                batch.delete(key)
            elif is_first and key.startswith(FAMILY_STATE):
                put_first_state(key, value)
            else:
                batch.put(key, value)
    rows.clear()


def _landed(entry: Entry, outcomes: Sequence[Outcome]) -> Iterator[list[Write]]:
    """The writes of each transaction that landed."""
    for transaction, outcome in zip(entry.transactions(), outcomes, strict=True):
        if outcome[0] == APPLIED:
            yield transaction.writes


def _landed_writes(entry: Entry, outcomes: Sequence[Outcome]) -> Iterator[_Filed]:
    for writes in _landed(entry, outcomes):
        is_first = not any(
            kind == FRESH_DELETE and key.startswith(FAMILY_TIMER) for kind, key, _ in writes
        )
        yield from ((write, is_first) for write in writes)


def write_sums(
    added: dict[bytes, int],
    raised: dict[bytes, bytes],
    rows: dict[bytes, bytes | None],
    read: Callable[[bytes], bytes | None],
    put: Callable[[bytes, bytes], object],
) -> dict[bytes, bytes]:
    """What becomes of counters and marks, which is put and given back: `rows` has stored ones, and
    `read` finds the others. None stands for a row that is not there.
    """
    planned: dict[bytes, bytes] = {}
    for key, delta in added.items():
        stored = rows[key] if key in rows else read(key)
        value = delta + (0 if stored is None else int.from_bytes(stored, "big", signed=True))
        planned[key] = value.to_bytes(8, "big", signed=True)
    for key, mark in raised.items():
        stored = rows[key] if key in rows else read(key)
        planned[key] = max(mark, stored or b"")
    for key, written in planned.items():
        put(key, written)
    return planned


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
    entries: Sequence[tuple[Entry, list[Outcome]]], known: dict[bytes, bytes | None]
) -> HeadChanges:
    """`known` has stored head rows, by head key: most touches are sends to groups that have
    messages, and leave their heads as they are.

    A dropped range is a whole family of a scope, and whoever drops one family drops them all.
    States stay: without its row in the group index nobody asks for a message's state.
    """
    changes = HeadChanges({}, {}, {}, [])
    landed = [writes for entry, outcomes in entries for writes in _landed(entry, outcomes)]
    for writes in landed:
        changes.dropped.extend((key, value) for kind, key, value in writes if kind == DROP)
    for writes in landed:
        _note_touched(changes, writes, known)
    for writes in landed:
        for write in writes:
            _note_change(changes, *write)
    return changes


def _note_touched(
    changes: HeadChanges, writes: Sequence[Write], known: Mapping[bytes, bytes | None]
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
