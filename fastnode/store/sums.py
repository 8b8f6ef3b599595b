"""Counters and low-water marks: *add* and *max* writes of one batch, summed up and written once
each.

The stored value is read when a sum is written, unless an earlier batch has left it: with load on
many queues nearly every message changes a counter that no other message of its batch does.
"""

from typing import Protocol

from fastnode import config
from fastnode.native import write_sums


class Reader(Protocol):
    def get(self, key: bytes) -> bytes | None: ...


class Writer(Protocol):
    def put(self, key: bytes, value: bytes) -> None: ...


class SumRows:
    """Counters and marks as the engine has them, of the queues that were used lately. What a batch
    makes of them is believed once it is written.
    """

    __slots__ = ("_planned", "rows")

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes | None] = {}
        self._planned: dict[bytes, bytes] = {}

    def read(self, engine: Reader, key: bytes) -> bytes | None:
        rows = self.rows
        if key in rows:
            return rows[key]
        if len(rows) >= config.SUMS_REMEMBERED_MAX:
            # The cheapest bound is to start over.
            rows.clear()
        stored = rows[key] = engine.get(key)
        return stored

    def forget(self) -> None:
        """Ranges are dropped: what was in them is not asked for."""
        self.rows.clear()

    def plan(self, planned: dict[bytes, bytes]) -> None:
        """Instead of what was planned before and not written."""
        self._planned = planned

    def written(self) -> None:
        planned, self._planned = self._planned, {}
        for key, value in planned.items():
            # What was read for it may have been forgotten since, for want of room.
            if key in self.rows:
                self.rows[key] = value


class Sums:
    """What a batch adds to counters and raises marks to, in the order of the first change of each;
    `native.write_landed` fills it.
    """

    __slots__ = ("_dropped", "_engine", "_known", "added", "raised")

    def __init__(self, engine: Reader, known: SumRows | None = None) -> None:
        self._engine = engine
        self._known = known or SumRows()
        self.added: dict[bytes, int] = {}
        self.raised: dict[bytes, bytes] = {}
        self._dropped: list[tuple[bytes, bytes]] = []

    @property
    def has_dropped(self) -> bool:
        return bool(self._dropped)

    def drop(self, start: bytes, end: bytes) -> None:
        """The range is gone, with what this batch had done to it before."""
        self._dropped.append((start, end))
        self._known.forget()
        for changes in (self.added, self.raised):
            for key in [key for key in changes if start <= key < end]:
                del changes[key]

    def write(self, batch: Writer) -> None:
        # Where ranges are dropped not every row is as the engine has it.
        rows = {} if self._dropped else self._known.rows
        self._known.plan(write_sums(self.added, self.raised, rows, self._stored, batch.put))

    def _stored(self, key: bytes) -> bytes | None:
        dropped = self._dropped
        if dropped and any(start <= key < end for start, end in dropped):
            return None
        return self._known.read(self._engine, key)


def decode_counter(stored: bytes | None) -> int:
    return 0 if stored is None else int.from_bytes(stored, "big", signed=True)
