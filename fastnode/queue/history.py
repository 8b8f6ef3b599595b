"""The last hour of queues: what came, was delivered and left in each slot of ten seconds, and what
was there at its end. Sans-IO: whoever keeps the time calls `sample` once per slot.

The busiest queues have a ring of rows each, of fixed size, and all queues have one together. What
goes through a queue its own memory counts (`traffic.py`), so a message costs one
addition. Each node knows what it leads; sums of several are made in `cluster/traffic.py`.
"""

import heapq
from array import array
from collections.abc import Iterator
from typing import Final, NamedTuple

from fastnode import config
from fastnode.queue.census import Census
from fastnode.queue.choice import Counts
from fastnode.queue.live import LiveQueue
from fastnode.queue.service import Service

# Account, region, name.
Name = tuple[str, str, str]
_COLUMNS: Final = 6
_NEVER: Final = -1
# How much of a queue's business of one slot still counts in the next.
_FADING: Final = 0.98


class Row(NamedTuple):
    """One slot. Of all queues together, `visible` is everything that is stored."""

    sent: int = 0
    received: int = 0
    removed: int = 0
    visible: int = 0
    in_flight: int = 0
    delayed: int = 0


class Ring:
    """The rows of the last hour, each at the place of its slot."""

    __slots__ = ("_cells", "first", "newest")

    def __init__(self) -> None:
        self._cells = array("q", bytes(8 * _COLUMNS * config.HISTORY_SLOTS))
        # The slots between which rows are known.
        self.first, self.newest = 0, _NEVER

    def put(self, slot: int, row: Row) -> None:
        if slot <= self.newest or self.newest == _NEVER:
            # It is the first, or the clock was set back: rows of times to come are worth nothing.
            self.first, self.newest = slot, slot - 1
        for missed in range(max(self.newest + 1, slot - config.HISTORY_SLOTS + 1), slot):
            self._write(missed, Row())
        self._write(slot, row)
        self.newest = slot

    def rows(self) -> list[Row]:
        """Oldest first; the last is that of `newest`."""
        oldest = max(self.first, self.newest - config.HISTORY_SLOTS + 1)
        return [self._read(slot) for slot in range(oldest, self.newest + 1)]

    def _write(self, slot: int, row: Row) -> None:
        at = slot % config.HISTORY_SLOTS * _COLUMNS
        self._cells[at : at + _COLUMNS] = array("q", row)

    def _read(self, slot: int) -> Row:
        at = slot % config.HISTORY_SLOTS * _COLUMNS
        return Row(*self._cells[at : at + _COLUMNS])


class _Tracked:
    """`passed` is what has gone through the queue since it has a ring."""

    __slots__ = ("passed", "ring", "score")

    def __init__(self) -> None:
        self.ring = Ring()
        self.passed = (0, 0, 0)
        self.score = 0.0


class History:
    def __init__(self, service: Service) -> None:
        self._service = service
        self.census = Census(service.groups)
        self.all = _Tracked()
        self._slot = 0
        self._tracked: dict[Name, _Tracked] = {}

    def sample(self, slot: int) -> Iterator[None]:
        """End a slot. Stops now and then, so that others have their turn."""
        self._slot = slot
        moved: dict[Name, tuple[int, int, int]] = {}
        for count, queue in enumerate(self._service.live_queues(), start=1):
            traffic = _traffic_of(queue)
            if any(traffic):
                moved[queue.account, queue.region, queue.name] = traffic
            if count % config.HISTORY_STEP == 0:
                yield
        yield from self.census.walk()
        total = _sum(*moved.values())
        self.all.passed = _sum(self.all.passed, total)
        self.all.ring.put(slot, Row(*total, self.census.stored))
        self._choose(moved)
        for name in list(self._tracked):
            self._note(name, slot, moved.get(name, (0, 0, 0)))

    def of_queue(self, name: Name) -> _Tracked | None:
        """From now on it is followed, unless others are busier. None: it is not led here."""
        if name not in self._tracked and _counts_of(self._service.find(*name)) is not None:
            self._tracked[name] = _Tracked()
        return self._tracked.get(name)

    def passed(self, name: Name) -> tuple[int, int, int]:
        """As `passed` of the queue's history, up to this moment."""
        tracked, queue = self._tracked.get(name), self._service.find(*name)
        if tracked is None:
            return 0, 0, 0
        return tracked.passed if queue is None else _sum(tracked.passed, _pending(queue))

    def passed_all(self) -> tuple[int, int, int]:
        found = [self._service.find(*name) for name in self._tracked]
        return _sum(self.all.passed, *(_pending(queue) for queue in found if queue is not None))

    def latest(self) -> dict[Name, Row]:
        """The last slot of each queue in which something happened."""
        rows = {
            name: one.ring.rows()[-1]
            for name, one in self._tracked.items()
            if one.ring.newest == self._slot
        }
        return {name: row for name, row in rows.items() if any(row[:3])}

    def _choose(self, moved: dict[Name, tuple[int, int, int]]) -> None:
        """The busiest have rings."""
        for one in self._tracked.values():
            one.score *= _FADING
        scores = {name: one.score for name, one in self._tracked.items()}
        for name, traffic in moved.items():
            scores[name] = scores.get(name, 0.0) + sum(traffic)
        busiest = heapq.nlargest(config.HISTORY_QUEUES_MAX, scores, key=lambda name: scores[name])
        self._tracked = {name: self._tracked.get(name) or _Tracked() for name in busiest}
        for name, one in self._tracked.items():
            one.score = scores[name]

    def _note(self, name: Name, slot: int, traffic: tuple[int, int, int]) -> None:
        tracked, queue = self._tracked[name], self._service.find(*name)
        counts = _counts_of(queue)
        if counts is not None:
            tracked.passed = _sum(tracked.passed, traffic)
            tracked.ring.put(slot, Row(*traffic, *counts))
        elif queue is None or slot - tracked.ring.newest > config.HISTORY_SLOTS:
            # It is gone, or led elsewhere for so long that nothing here is of the last hour.
            del self._tracked[name]


def _traffic_of(queue: LiveQueue) -> tuple[int, int, int]:
    return _sum(*(shard.take_traffic() for shard in queue.shards))


def _pending(queue: LiveQueue) -> tuple[int, int, int]:
    """What the next sample will take."""
    return _sum(*(shard.traffic for shard in queue.shards))


def _counts_of(queue: LiveQueue | None) -> Counts | None:
    """Of what is led here; None if that is nothing."""
    shards = [] if queue is None else [one for one in queue.shards if one.group.is_ready]
    every = [shard.counts(shard.group.now()) for shard in shards]
    return Counts(*map(sum, zip(*every, strict=True))) if every else None


def _sum(*rows: tuple[int, int, int]) -> tuple[int, int, int]:
    sent = received = removed = 0
    for row in rows:
        sent, received, removed = sent + row[0], received + row[1], removed + row[2]
    return sent, received, removed
