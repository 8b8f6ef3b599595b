"""How far a peer's wall clock is from ours. Pure.

A packet that says when it was sent tells the offset less the time it was under way. The packet that
was fastest tells the most, and it is the one with the largest difference.
"""

from collections import deque

from fastnode.clock import NS_PER_MS
from fastnode.config import PEER_CLOCK_SAMPLES


class OffsetWindow:
    """Of the last few packets, so that a stepped clock is noticed soon."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: deque[int] = deque(maxlen=PEER_CLOCK_SAMPLES)

    def add(self, sent_wall_ms: int, own_wall_ns: int) -> None:
        self._samples.append(sent_wall_ms * NS_PER_MS - own_wall_ns)

    @property
    def offset_ns(self) -> int | None:
        """Positive when the peer's clock is ahead; None before the first packet."""
        return max(self._samples) if self._samples else None
