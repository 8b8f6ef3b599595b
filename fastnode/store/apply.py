"""Committed entries → one write batch. Pure and deterministic: every replica runs exactly this, in
the log's order.

No clock, no randomness, no iteration over a set. What is written depends on the entries and on the
engine's state alone.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from fastnode import native
from fastnode.native import ADD, DELETE, DROP, FRESH_DELETE, FRESH_PUT, MAX, PUT
from fastnode.store.engine import Batch
from fastnode.store.keyspace import APPLIED_KEY
from fastnode.store.sums import Reader, Sums

APPLIED: Final = 0
STALE: Final = 1

_APPLIED_VERSION: Final = 1
_APPLIED_BYTES: Final = 25


class Position(NamedTuple):
    """How far the engine is: the last applied log index, its term, the newest timestamp."""

    applied_index: int
    term: int
    commit_ts: int


# What became of a transaction: (its request, its status).
Outcome = tuple[bytes, int]


def load_position(engine: Reader) -> Position:
    stored = engine.get(APPLIED_KEY)
    if stored is None:
        return Position(0, 0, 0)
    if len(stored) != _APPLIED_BYTES or stored[0] != _APPLIED_VERSION:
        raise ValueError("the applied position is damaged or of an unknown version")
    words = (int.from_bytes(stored[at : at + 8], "big") for at in (1, 9, 17))
    return Position(*words)


def apply_entries(
    engine: Reader,
    batch: Batch,
    before: Position,
    *,
    index: int,
    term: int,
    entries: Sequence[bytes],
) -> tuple[Position, list[Outcome]]:
    """Fill `batch` with everything up to `index`, the new position included."""
    sums = Sums(engine)
    outcomes: list[Outcome] = []
    commit_ts = before.commit_ts
    for entry in entries:
        for request, _, stamped, _, _, _, writes in native.decode_entry(entry):
            if stamped > commit_ts:
                commit_ts = stamped
                _write(writes, batch, sums)
                outcomes.append((request, APPLIED))
            else:
                outcomes.append((request, STALE))
    sums.write(batch)
    after = Position(index, term, commit_ts)
    batch.put(APPLIED_KEY, _encode_position(after))
    return after, outcomes


def _write(writes: Sequence[tuple[int, bytes, bytes]], batch: Batch, sums: Sums) -> None:
    for kind, key, value in writes:
        if kind == FRESH_PUT or kind == PUT:
            batch.put(key, value)
        elif kind == ADD:
            sums.add(key, int.from_bytes(value, "big", signed=True))
        elif kind == FRESH_DELETE or kind == DELETE:
            batch.delete(key)
        elif kind == MAX:
            sums.raise_to(key, value)
        else:
            assert kind == DROP, f"the codec refuses the write kind {kind}"
            batch.delete_range(key, value)
            sums.drop(key, value)


def _encode_position(position: Position) -> bytes:
    head = bytes((_APPLIED_VERSION,))
    return head + b"".join(word.to_bytes(8, "big") for word in position)
