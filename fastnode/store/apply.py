"""Committed entries → one write batch. Pure and deterministic: every replica runs exactly this, in
the log's order.

No clock, no randomness, no iteration over a set. What is written depends on the entries and on the
engine's state alone.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from fastnode import native
from fastnode.native import (
    DROP,
    MAX,
    HeadChanges,
    Resolved,
    Resolver,
    Transaction,
)
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


# What became of a transaction: (status, commit timestamp, mask), see `native.Resolver`.
Outcome = tuple[int, int, int]


class Decided(NamedTuple):
    """An entry whose transactions are judged; what it writes is settled, but not yet written."""

    transactions: list[Transaction]
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
    decided: list[Decided] = []
    for entry in entries:
        transactions = native.decode_entry(entry)
        decided.append(Decided(transactions, resolver.resolve(transactions)))
    return decided


def fill_batch(
    engine: heads.Reader,
    batch: Batch,
    entries: Sequence[Decided],
    after: Position,
    head_rows: heads.HeadRows | None = None,
) -> None:
    """Everything that the entries write, with the position that they lead to. May be repeated; who
    keeps rows from batch to batch tells them when one is written.
    """
    rows = head_rows or heads.HeadRows(engine)
    writer = _Writer(batch, Sums(engine, rows.sums))
    for transactions, resolved in entries:
        outcomes, added = resolved.outcomes, writer.added
        if native.write_landed(
            transactions, outcomes, batch.put, batch.delete, writer.write, added
        ):
            writer.changes_heads = True
        if resolved.row:
            batch.put(window_key(resolved.row_id), resolved.row)
        for row_id in resolved.expired:
            batch.delete(window_key(row_id))
    writer.sum_up()
    writer.sums.write(batch)
    if writer.changes_heads:
        heads.write_heads(engine, batch, _changes(entries, rows), rows)
    batch.put(APPLIED_KEY, _APPLIED.pack(_APPLIED_VERSION, *after))


def _changes(entries: Sequence[Decided], rows: heads.HeadRows) -> HeadChanges:
    """Gathered in a second look at the entries, so that those without groups pay nothing."""
    transactions = [one for entry in entries for one in entry.transactions]
    outcomes = [one for entry in entries for one in entry.resolved.outcomes]
    return native.head_changes(transactions, outcomes, rows.known)


def _stored_rows(engine: Engine) -> Iterator[tuple[int, bytes]]:
    start, end = WINDOW_PREFIX, native.prefix_end(WINDOW_PREFIX)
    while page := engine.scan(start, end, _ROWS_PER_PAGE):
        for key, row in page:
            yield int.from_bytes(key[len(WINDOW_PREFIX) :], "big"), row
        start = page[-1][0] + b"\x00"


class _Writer:
    """Everything but puts, deletes and touches. What is added to counters waits to be summed up."""

    __slots__ = ("added", "batch", "changes_heads", "sums")

    def __init__(self, batch: Batch, sums: Sums) -> None:
        self.batch = batch
        self.sums = sums
        self.added: dict[bytes, int] = {}
        self.changes_heads = False

    def write(self, kind: int, key: bytes, value: bytes) -> None:
        if kind == MAX:
            self.sums.raise_to(key, value)
        else:
            assert kind == DROP, f"the codec refuses the write kind {kind}"
            self.batch.delete_range(key, value)
            self.sum_up()
            self.sums.drop(key, value)
            self.changes_heads = True

    def sum_up(self) -> None:
        for key, delta in self.added.items():
            self.sums.add(key, delta)
        self.added.clear()
