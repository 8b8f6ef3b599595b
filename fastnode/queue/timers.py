"""Messages that become available at a known time: delayed ones, and received ones whose timeout
will run out.

A mirror of the stored timer index in leader memory: the earliest timers in a heap, the due ones
apart, in send order. Timers beyond the *horizon* are in the engine only and are paged in as they
come near, so memory is bounded however many messages are delayed.
"""

import heapq
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from fastnode import config

NO_HORIZON: Final = 1 << 64
# Behind every position.
EVERYTHING: Final = 1 << 80


class Timer(NamedTuple):
    visible_at: int
    position: int
    was_received: bool


class Timers:
    __slots__ = ("_due", "_due_heap", "_due_received", "_heap", "_horizon", "_scheduled", "through")

    def __init__(self) -> None:
        self._heap: list[Timer] = []
        self._scheduled: dict[int, int] = {}
        self._due_heap: list[int] = []
        self._due: dict[int, bool] = {}
        self._due_received = 0
        # Nothing is known yet: the first page has to be read.
        self._horizon = 0
        # Whatever was sent after it is not taken; only move tasks lower it, for a moment.
        self.through = EVERYTHING

    @property
    def horizon(self) -> int:
        return self._horizon

    @property
    def knows_all(self) -> bool:
        return self._horizon == NO_HORIZON

    def times_of(self, positions: Iterable[int]) -> dict[int, int] | None:
        """When each becomes due; None unless that is known of all."""
        scheduled = self._scheduled
        try:
            return {position: scheduled[position] for position in positions}
        except KeyError:
            return None

    @property
    def count(self) -> int:
        """How many messages have a timer, as far as the horizon."""
        return len(self._scheduled) + len(self._due)

    def has(self, position: int) -> bool:
        return position in self._scheduled or position in self._due

    @property
    def due_received(self) -> int:
        """Received messages whose timeout ran out: stored as in flight, visible by time alone."""
        return self._due_received

    @property
    def due_delayed(self) -> int:
        return len(self._due) - self._due_received

    def needs_page(self, now: int) -> bool:
        if len(self._due) >= config.DUE_TIMERS_MAX:
            return False
        return self._horizon <= now or (not self._scheduled and self._horizon < NO_HORIZON)

    def load(self, page: Sequence[Timer], *, is_last: bool) -> None:
        """Timers from the horizon on, in order. What shares the last one's time comes with the next
        page.
        """
        self._horizon = NO_HORIZON if is_last else page[-1].visible_at
        for timer in page:
            self.schedule(timer)

    def schedule(self, timer: Timer) -> None:
        self.forget(timer.position)
        if timer.visible_at >= self._horizon:
            return
        self._scheduled[timer.position] = timer.visible_at
        heapq.heappush(self._heap, timer)
        if len(self._heap) > 2 * config.TIMER_PAGE:
            self._shrink()

    def forget(self, position: int) -> None:
        """The message was deleted, or its timer changed. Heaps drop what is no longer known."""
        self._scheduled.pop(position, None)
        was_received = self._due.pop(position, None)
        if was_received:
            self._due_received -= 1

    def advance(self, now: int) -> None:
        """Whatever is visible at `now` becomes due."""
        heap, scheduled = self._heap, self._scheduled
        while heap and heap[0].visible_at <= now:
            timer = heapq.heappop(heap)
            if scheduled.get(timer.position) == timer.visible_at:
                del scheduled[timer.position]
                self._make_due(timer.position, timer.was_received)

    def take(self) -> tuple[int, bool] | None:
        """The due message that was sent first, and whether it was received before.

        The caller claims it, or puts it back.
        """
        while self._due_heap and self._due_heap[0] <= self.through:
            position = heapq.heappop(self._due_heap)
            was_received = self._due.pop(position, None)
            if was_received is not None:
                self._due_received -= was_received
                return position, was_received
        return None

    def put_back(self, position: int, *, was_received: bool) -> None:
        self._make_due(position, was_received)

    @property
    def has_due(self) -> bool:
        return bool(self._due)

    def next_at(self) -> int | None:
        """When the next message becomes due, or the next page has to be read."""
        while (
            self._heap and self._scheduled.get(self._heap[0].position) != self._heap[0].visible_at
        ):
            heapq.heappop(self._heap)
        if self._heap:
            return self._heap[0].visible_at
        return self._horizon if self._horizon < NO_HORIZON else None

    def _make_due(self, position: int, was_received: bool) -> None:
        self._due[position] = was_received
        self._due_received += was_received
        heapq.heappush(self._due_heap, position)

    def _shrink(self) -> None:
        """Keep the earliest page; the rest stays in the engine."""
        live = sorted(t for t in self._heap if self._scheduled.get(t.position) == t.visible_at)
        kept, rest = live[: config.TIMER_PAGE], live[config.TIMER_PAGE :]
        if rest:
            self._horizon = rest[0].visible_at
            kept = [timer for timer in kept if timer.visible_at < self._horizon]
        self._heap = kept
        self._scheduled = {timer.position: timer.visible_at for timer in kept}
