"""The one clock of a run, and how far a host's clock is from it.

All times of a history are those of the cluster's clock, as near as it can be known. A server tells
a time when it answers: a message's SentTimestamp (ms) or a Date header (s). The true moment of that
time lies between the request and the answer, so every such telling bounds the difference of the two
clocks from both sides, and several bounds together are narrower than each. The measuring itself is
in `probe`; here are its arithmetic and the clock that uses the result.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_EVERYTHING_US: Final = 10**18


@dataclass(frozen=True)
class Bounds:
    """Server clock minus own clock, µs: not below `low`, not above `high`."""

    low_us: int = -_EVERYTHING_US
    high_us: int = _EVERYTHING_US

    @property
    def is_known(self) -> bool:
        return self.low_us > -_EVERYTHING_US and self.high_us < _EVERYTHING_US

    @property
    def offset_us(self) -> int:
        """The best guess. An offset that cannot be told from none is none: then the clocks of all
        hosts that keep time stay as exact as they are.
        """
        if self.low_us <= 0 <= self.high_us or not self.is_known:
            return 0
        return (self.low_us + self.high_us) // 2


def bounds_of(*, asked_us: int, answered_us: int, told_us: int, grain_us: int) -> Bounds:
    """By one telling, cut off to its grain: the server's clock showed `told_us` up to a grain more
    at some moment between our two.
    """
    return Bounds(told_us - answered_us, told_us + grain_us - asked_us)


def narrow(every: Iterable[Bounds]) -> Bounds:
    """What all of them allow. Clocks that ran apart between two tellings can contradict each other;
    then the two innermost bounds are taken the other way round.
    """
    found = list(every)
    if not found:
        return Bounds()
    low = max(bounds.low_us for bounds in found)
    high = min(bounds.high_us for bounds in found)
    return Bounds(min(low, high), max(low, high))


class LaneClock:
    """The agreed time, µs since the epoch. Monotonic: a step of the host's clock has no effect."""

    def __init__(self) -> None:
        self._base_us = (time.time_ns() - time.monotonic_ns()) // 1_000
        self.offset_us = 0

    def set_offset(self, offset_us: int) -> None:
        self._base_us += offset_us - self.offset_us
        self.offset_us = offset_us

    def now_us(self) -> int:
        return time.monotonic_ns() // 1_000 + self._base_us
