"""Committed entries → one write batch. Pure and deterministic: every replica runs exactly this, in
the log's order.

No clock, no randomness, no iteration over a set. What is written depends on the entries and on the
engine's state alone.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from fastnode import native
from fastnode.native import Entry, Resolved, Resolver, head_changes, write_landed
from fastnode.store import heads
from fastnode.store.engine import Batch, Engine
from fastnode.store.keyspace import APPLIED_KEY, WINDOW_PREFIX, window_key
from fastnode.store.sums import Reader, Sums

_APPLIED_VERSION: Final = 1
_APPLIED: Final = struct.Struct(">B3Q")
_ROWS_PER_PAGE: Final = 1_024


class Position(NamedTuple):
    """How far the engine is: the last applied log index, its term, the newest timestamp."""

    applied_index: int
    term: int
    commit_ts: int


class Decided(NamedTuple):
    """An entry whose transactions are judged; what it writes is settled, but not yet written."""

    entry: Entry
    resolved: Resolved


def load_position(engine: Reader) -> Position:
    stored = engine.get(APPLIED_KEY)
    if stored is None:
        return Position(0, 0, 0)
    if len(stored) != _APPLIED.size or stored[0] != _APPLIED_VERSION:
        raise ValueError("the applied position is damaged or of an unknown version")
    return Position(*_APPLIED.unpack(stored)[1:])


def load_resolver(engine: Engine, position: Position) -> Resolver:
    """The conflict table and the committed window as the applied state left them."""
    resolver = Resolver()
    resolver.restore(_stored_rows(engine), position.commit_ts)
    return resolver


def decide(resolver: Resolver, entries: Sequence[bytes]) -> list[Decided]:
    """Judge committed entries, once and in their order: the resolver remembers them."""
    read = map(Entry, entries)
    return [Decided(entry, resolver.resolve(entry)) for entry in read]


def fill_rows(
    engine: heads.Reader,
    batch: Batch,
    entries: Sequence[Decided],
    head_rows: heads.HeadRows | None = None,
) -> bool:
    """Everything that the entries write; true if they drop ranges. May be repeated; who keeps rows
    from batch to batch tells them when one is written.
    """
    rows = head_rows or heads.HeadRows(engine)
    sums = Sums(engine, rows.sums)
    changes_heads = False
    for entry, (outcomes, row_id, row, expired) in entries:
        if write_landed(entry, outcomes, batch, sums):
            changes_heads = True
        if row:
            batch.put(window_key(row_id), row)
        for expired_id in expired:
            batch.delete(window_key(expired_id))
    sums.write(batch)
    if changes_heads:
        # In a second look at the entries, so that those without groups pay nothing.
        landed = [(entry, resolved.outcomes) for entry, resolved in entries]
        heads.write_heads(engine, batch, head_changes(landed, rows.known), rows)
    return sums.has_dropped


def put_position(batch: Batch, after: Position) -> None:
    """Where the entries of a batch lead to: the last of its rows."""
    batch.put(APPLIED_KEY, _APPLIED.pack(_APPLIED_VERSION, *after))


def _stored_rows(engine: Engine) -> Iterator[tuple[int, bytes]]:
    start, end = WINDOW_PREFIX, native.prefix_end(WINDOW_PREFIX)
    while page := engine.scan(start, end, _ROWS_PER_PAGE):
        for key, row in page:
            yield int.from_bytes(key[len(WINDOW_PREFIX) :], "big"), row
        start = page[-1][0] + b"\x00"
