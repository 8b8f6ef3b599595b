"""How far a peer's wall clock is from ours. Pure.

A packet that says when it was sent tells the peer's clock less the time it was under way. The
packet that was fastest tells the most, and it is the one with the largest difference. On a busy
machine a fast one may be long in coming, so the last half minute counts, not the last few packets.

Differences are taken to CLOCK_BOOTTIME, which nobody steps: if our own wall clock is set, what is
known of the others stays true.
"""

from collections import deque

from fastnode.clock import NS_PER_MS
from fastnode.config import PEER_CLOCK_PERIOD_NS, PEER_CLOCK_PERIODS


class OffsetWindow:
    """The best packet of each of the last few periods."""

    __slots__ = ("_best",)

    def __init__(self) -> None:
        # The period's number, and the largest difference in it.
        self._best: deque[tuple[int, int]] = deque(maxlen=PEER_CLOCK_PERIODS)

    def add(self, sent_wall_ms: int, boottime_ns: int) -> None:
        period = boottime_ns // PEER_CLOCK_PERIOD_NS
        ahead_ns = sent_wall_ms * NS_PER_MS - boottime_ns
        if self._best and self._best[-1][0] == period:
            ahead_ns = max(ahead_ns, self._best.pop()[1])
        self._best.append((period, ahead_ns))

    def offset_ns(self, wall_ns: int, boottime_ns: int) -> int | None:
        """Positive when the peer's clock is ahead of `wall_ns`; None before the first packet."""
        if not self._best:
            return None
        return max(ahead_ns for _, ahead_ns in self._best) + boottime_ns - wall_ns
