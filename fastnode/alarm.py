"""An alarm on the event loop. Shell, and a leaf: what it rings for is nobody's business here."""

import asyncio
from collections.abc import Callable
from typing import Final

# Nobody waits for it, but the next one may come before it runs out.
IDLE_TIMER_SECONDS: Final = 2.0
# Timers of the loop are up to a millisecond early.
EARLY_SECONDS: Final = 0.001


class LoopAlarm:
    """One timer of the event loop, set again and again: mostly to a later time, as whoever waits
    next waits longer. Then the timer that there is stays, and goes on when it has run out.
    """

    __slots__ = ("_at", "_handle", "_loop", "_ring", "_timer_at")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._handle: asyncio.TimerHandle | None = None
        self._timer_at = 0.0  # of the handle
        self._at = 0.0
        self._ring: Callable[[], None] | None = None

    def set(self, at_ms: int, now_ms: int, ring: Callable[[], None]) -> None:
        self._at = self._loop.time() + max(at_ms - now_ms, 0) / 1000
        self._ring = ring
        if self._handle is None or self._at < self._timer_at:
            self._start()

    def clear(self) -> None:
        self._ring = None
        # A timer that is near may be wanted again.
        if self._handle is not None and self._timer_at > self._loop.time() + IDLE_TIMER_SECONDS:
            self._handle.cancel()
            self._handle = None

    def _start(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._timer_at = self._at
        self._handle = self._loop.call_at(self._at, self._expire)

    def _expire(self) -> None:
        self._handle = None
        ring = self._ring
        if ring is None:
            return
        if self._loop.time() < self._at - EARLY_SECONDS:
            self._start()
            return
        self._ring = None
        ring()
