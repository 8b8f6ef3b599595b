"""How far a peer's wall clock is from ours. Pure.

A packet that says when it was sent tells the peer's clock less the time it was under way, so the
clock shows at least that. An answer that says when it was given came after its question, so the
clock shows at most as much as if the question had taken no time. The fastest of each tell the most,
and on a busy machine a fast one may be long in coming: the last half minute counts, not the last
few packets.

Differences are taken to CLOCK_BOOTTIME, which nobody steps: if our own wall clock is set, what is
known of the others stays true.
"""

from collections import deque
from typing import Final, NamedTuple

from fastnode.clock import NS_PER_MS
from fastnode.config import PEER_CLOCK_PERIOD_NS, PEER_CLOCK_PERIODS

# More than any clock shows: nothing was answered yet.
_UNKNOWN_NS: Final = 1 << 64


class _Bounds(NamedTuple):
    """Of the peer's clock less our CLOCK_BOOTTIME, by the packets of one period."""

    period: int
    low_ns: int
    high_ns: int


class OffsetWindow:
    """The best packets of each of the last few periods."""

    __slots__ = ("_best",)

    def __init__(self) -> None:
        self._best: deque[_Bounds] = deque(maxlen=PEER_CLOCK_PERIODS)

    def add(self, sent_wall_ms: int, boottime_ns: int) -> None:
        self._narrow(boottime_ns, sent_wall_ms * NS_PER_MS - boottime_ns, _UNKNOWN_NS)

    def add_answer(self, sent_wall_ns: int, asked_boottime_ns: int, boottime_ns: int) -> None:
        low_ns, high_ns = sent_wall_ns - boottime_ns, sent_wall_ns - asked_boottime_ns
        self._narrow(boottime_ns, low_ns, high_ns)

    def _narrow(self, boottime_ns: int, low_ns: int, high_ns: int) -> None:
        period = boottime_ns // PEER_CLOCK_PERIOD_NS
        if self._best and self._best[-1].period == period:
            _, known_low_ns, known_high_ns = self._best.pop()
            low_ns, high_ns = max(low_ns, known_low_ns), min(high_ns, known_high_ns)
        self._best.append(_Bounds(period, low_ns, high_ns))

    def offset_ns(self, wall_ns: int, boottime_ns: int) -> int | None:
        """Positive when the peer's clock is ahead of `wall_ns`; None before the first packet."""
        if not self._best:
            return None
        own_ns = wall_ns - boottime_ns
        low_ns = max(bounds.low_ns for bounds in self._best)
        high_ns = min(bounds.high_ns for bounds in self._best)
        return _within(low_ns - own_ns, high_ns - own_ns)


def _within(low_ns: int, high_ns: int) -> int:
    """Clocks that may be the same are the same; otherwise question and answer took equally long.
    If nobody answered, or a clock was set in the meantime, at least the packets are true.
    """
    if not low_ns <= high_ns < _UNKNOWN_NS // 2:
        return low_ns
    return 0 if low_ns <= 0 <= high_ns else (low_ns + high_ns) // 2
