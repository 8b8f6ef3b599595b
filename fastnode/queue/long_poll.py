"""Receives that wait for a message: woken one at a time, in order of arrival, by whoever makes a
message available.

One alarm per queue serves every deadline of its waiters and the next timer. Nobody polls.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

from fastnode.flow import Suspension

# Deadlines of waiters that were woken stay behind; this many are not worth a clean-up.
_SLACK: Final = 64


class Alarm(Protocol):
    """Calls back once at a time in milliseconds of the group's clock; a new time replaces the old
    one.
    """

    def set(self, at_ms: int, now_ms: int, ring: Callable[[], None]) -> None: ...
    def clear(self) -> None: ...


class Waiter(Suspension):
    """Resumed with True when a message may be there, with False when it has waited long enough. It
    is awaited, or tells `told`: thousands may wait, and a coroutine is large.
    """

    __slots__ = ("_told", "deadline_ms")

    def __init__(self, deadline_ms: int, told: Callable[[bool], None] | None = None) -> None:
        super().__init__()
        self.deadline_ms = deadline_ms
        self._told = told

    def resume(self, value: bool = False) -> None:
        super().resume(value)
        if self._told is not None:
            self._told(value)

    def leave(self) -> None:
        """The client has gone: end the wait, take nothing."""
        if not self.is_done:
            self.resume(False)


class Poll(Protocol):
    """A receive at work."""

    def stop_waiting(self) -> None:
        """If it waits; nobody reads its answer any more."""
        ...


class Polls:
    """Receives at work, by the identity of their calls. A client that repeats one does not wait for
    the answer of the older attempt any more, even if nobody has noticed that it is gone.
    """

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: dict[bytes, Poll] = {}

    def has(self, request: bytes) -> bool:
        return request in self._calls

    def begin(self, request: bytes, call: Poll) -> None:
        older = self._calls.get(request)
        if older is not None:
            older.stop_waiting()
        self._calls[request] = call

    def end(self, request: bytes, call: Poll) -> None:
        if self._calls.get(request) is call:
            del self._calls[request]


class Waiters:
    __slots__ = ("_arrivals", "_by_deadline", "_order", "_owed")

    def __init__(self) -> None:
        # A plain dict looks at every key that was ever taken from its front before the first left.
        self._order: OrderedDict[int, Waiter] = OrderedDict()
        self._by_deadline: list[tuple[int, int]] = []
        self._arrivals = 0
        self._owed = 0

    def __bool__(self) -> bool:
        return bool(self._order)

    def __len__(self) -> int:
        return len(self._order)

    def join(self, deadline_ms: int, told: Callable[[bool], None] | None = None) -> Waiter:
        waiter = Waiter(deadline_ms, told)
        self._arrivals += 1
        self._order[self._arrivals] = waiter
        heapq.heappush(self._by_deadline, (deadline_ms, self._arrivals))
        if len(self._by_deadline) > 2 * len(self._order) + _SLACK:
            self._by_deadline = sorted((w.deadline_ms, a) for a, w in self._order.items())
        return waiter

    def wake_one(self) -> None:
        """The one who has waited longest. It wakes the next if it leaves something behind: after
        itself, not within, or a thousand who wake each other would exhaust the stack.
        """
        self._owed += 1
        if self._owed > 1:
            return
        try:
            while self._owed:
                self._wake_oldest()
                self._owed -= 1
        finally:
            self._owed = 0

    def _wake_oldest(self) -> None:
        while self._order:
            _, waiter = self._order.popitem(last=False)
            if not waiter.is_done:
                waiter.resume(True)
                return

    def expire(self, now_ms: int) -> None:
        while self._by_deadline and self._by_deadline[0][0] <= now_ms:
            waiter = self._order.pop(heapq.heappop(self._by_deadline)[1], None)
            if waiter is not None:
                waiter.leave()

    def end_all(self) -> None:
        """The queue is gone: every wait ends empty."""
        waiters, self._order = self._order, OrderedDict()
        self._by_deadline.clear()
        for waiter in waiters.values():
            waiter.leave()

    def next_deadline_ms(self) -> int | None:
        while self._by_deadline and not self._is_waiting(self._by_deadline[0][1]):
            arrival = heapq.heappop(self._by_deadline)[1]
            self._order.pop(arrival, None)
        return self._by_deadline[0][0] if self._by_deadline else None

    def _is_waiting(self, arrival: int) -> bool:
        waiter = self._order.get(arrival)
        return waiter is not None and not waiter.is_done
