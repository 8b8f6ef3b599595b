"""Messages that become available at a known time: delayed ones, and received ones whose timeout
will run out.

A mirror of the stored timer index in leader memory: the earliest timers in a heap, the due ones
apart, in send order. Timers beyond the *horizon* are in the engine only and are paged in as they
come near, so memory is bounded however many messages are delayed.
"""

import heapq
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from fastnode import config

NO_HORIZON: Final = 1 << 64
# Behind every position.
EVERYTHING: Final = 1 << 80


class Timer(NamedTuple):
    visible_at: int
    position: int
    was_received: bool


# Messages that become due at the same time, in send order: what a receive took. True: received.
_Bunch = tuple[int, Sequence[int], bool]


class Timers:
    __slots__ = (
        "_due",
        "_due_heap",
        "_due_received",
        "_heap",
        "_heaped",
        "_horizon",
        "scheduled",
        "through",
    )

    def __init__(self) -> None:
        self._heap: list[_Bunch] = []
        # How many messages are in the heap, those included whose timers have changed since.
        self._heaped = 0
        # When messages become due that are not due yet, by their positions. Others look only.
        self.scheduled: dict[int, int] = {}
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
        scheduled = self.scheduled
        try:
            return {position: scheduled[position] for position in positions}
        except KeyError:
            return None

    @property
    def count(self) -> int:
        """How many messages have a timer, as far as the horizon."""
        return len(self.scheduled) + len(self._due)

    def has(self, position: int) -> bool:
        return position in self.scheduled or position in self._due

    def has_any(self, positions: Iterable[int]) -> bool:
        return not (
            self.scheduled.keys().isdisjoint(positions) and self._due.keys().isdisjoint(positions)
        )

    def is_below(self, count: int) -> bool:
        """Whether fewer messages than that have a timer; False if that is not known."""
        return self._horizon == NO_HORIZON and len(self.scheduled) + len(self._due) < count

    def is_quiet(self, now: int) -> bool:
        """Nothing is due, nothing becomes due, and no page has to be read."""
        heap, horizon = self._heap, self._horizon
        if self._due or horizon <= now or (heap and heap[0][0] <= now):
            return False
        return horizon == NO_HORIZON or bool(self.scheduled)

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
        return self._horizon <= now or (not self.scheduled and self._horizon < NO_HORIZON)

    def load(self, page: Sequence[Timer], *, is_last: bool) -> None:
        """Timers from the horizon on, in order. What shares the last one's time comes with the next
        page.
        """
        self._horizon = NO_HORIZON if is_last else page[-1].visible_at
        for timer in page:
            self.schedule(timer)

    def schedule(self, timer: Timer) -> None:
        visible_at, position, was_received = timer
        self.hide((position,), visible_at, was_received)

    def hide(self, positions: tuple[int, ...], visible_at: int, was_received: bool) -> None:
        """All of them become due at the same time; each had another timer before, or none."""
        if visible_at >= self._horizon:
            self.forget(positions)
            return
        if self._due:
            self.forget(positions)
        scheduled = self.scheduled
        for position in positions:
            scheduled[position] = visible_at
        heapq.heappush(self._heap, (visible_at, positions, was_received))
        self._heaped += len(positions)
        if self._heaped > 2 * config.TIMER_PAGE:
            self._make_room()

    def forget(self, positions: Collection[int]) -> None:
        """Messages were deleted, or their timers changed. Heaps drop what is no longer known."""
        scheduled, due = self.scheduled, self._due
        for position in positions:
            scheduled.pop(position, None)
        if due:
            for position in positions:
                self._due_received -= due.pop(position, False)

    def advance(self, now: int) -> None:
        """Whatever is visible at `now` becomes due."""
        heap, scheduled = self._heap, self.scheduled
        while heap and heap[0][0] <= now:
            visible_at, positions, was_received = self._pop()
            for position in positions:
                if scheduled.get(position) == visible_at:
                    del scheduled[position]
                    self._make_due(position, was_received)

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
        self._drop_gone()
        if self._heap:
            return self._heap[0][0]
        return self._horizon if self._horizon < NO_HORIZON else None

    def _make_room(self) -> None:
        """Most of what has to go was deleted before its time, and is in front."""
        self._drop_gone()
        if self._heaped > 2 * config.TIMER_PAGE:
            self._shrink()

    def _drop_gone(self) -> None:
        while self._heap and not self._is_alive(self._heap[0]):
            self._pop()

    def _is_alive(self, bunch: _Bunch) -> bool:
        visible_at, positions, _ = bunch
        scheduled = self.scheduled
        for position in positions:
            if scheduled.get(position) == visible_at:
                return True
        return False

    def _pop(self) -> _Bunch:
        bunch = heapq.heappop(self._heap)
        self._heaped -= len(bunch[1])
        return bunch

    def _make_due(self, position: int, was_received: bool) -> None:
        self._due[position] = was_received
        self._due_received += was_received
        heapq.heappush(self._due_heap, position)

    def _shrink(self) -> None:
        """Keep the earliest page; the rest stays in the engine."""
        scheduled, is_gone = self.scheduled, self.scheduled.keys().isdisjoint
        live = sorted(
            Timer(visible_at, position, was_received)
            for visible_at, positions, was_received in self._heap
            # Mostly all of a bunch are gone, and one look at it is quicker than ten.
            if not is_gone(positions)
            for position in positions
            if scheduled.get(position) == visible_at
        )
        kept, rest = live[: config.TIMER_PAGE], live[config.TIMER_PAGE :]
        if rest:
            self._horizon = rest[0].visible_at
            kept = [timer for timer in kept if timer.visible_at < self._horizon]
        self._heap = [(at, (position,), was_received) for at, position, was_received in kept]
        self._heaped = len(kept)
        self.scheduled = {timer.position: timer.visible_at for timer in kept}
