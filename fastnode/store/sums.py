"""Counters and low-water marks: *add* and *max* writes of one batch, summed up and written once
each.

Nothing outlives the batch: the stored value is read at the first change, so there is no cache to
bound or to invalidate.
"""

from typing import Protocol


class Reader(Protocol):
    def get(self, key: bytes) -> bytes | None: ...


class Writer(Protocol):
    def put(self, key: bytes, value: bytes) -> None: ...


class Sums:
    __slots__ = ("_counters", "_dropped", "_engine", "_marks")

    def __init__(self, engine: Reader) -> None:
        self._engine = engine
        self._counters: dict[bytes, int] = {}
        self._marks: dict[bytes, bytes] = {}
        self._dropped: list[tuple[bytes, bytes]] = []

    def add(self, key: bytes, delta: int) -> None:
        value = self._counters.get(key)
        self._counters[key] = delta + (
            decode_counter(self._stored(key)) if value is None else value
        )

    def raise_to(self, key: bytes, value: bytes) -> None:
        mark = self._marks.get(key)
        self._marks[key] = max(value, (self._stored(key) or b"") if mark is None else mark)

    def drop(self, start: bytes, end: bytes) -> None:
        """The range is gone, with what this batch had done to it before."""
        self._dropped.append((start, end))
        for changes in (self._counters, self._marks):
            for key in [key for key in changes if start <= key < end]:
                del changes[key]

    def write(self, batch: Writer) -> None:
        for key, value in self._counters.items():
            batch.put(key, value.to_bytes(8, "big", signed=True))
        for key, mark in self._marks.items():
            batch.put(key, mark)

    def _stored(self, key: bytes) -> bytes | None:
        dropped = self._dropped
        if dropped and any(start <= key < end for start, end in dropped):
            return None
        return self._engine.get(key)


def decode_counter(stored: bytes | None) -> int:
    return 0 if stored is None else int.from_bytes(stored, "big", signed=True)
