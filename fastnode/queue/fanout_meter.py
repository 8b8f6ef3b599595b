"""What receives cost: sums over all looks of this node, for its metrics. What one look may cost is
decided in `receive.py`.
"""

from bisect import bisect_left
from itertools import accumulate
from typing import Final

from fastnode import config

_NS_PER_SECOND: Final = 1_000_000_000
# Upper ends of the histogram, the last one being the budget of a call.
_ENDS_NS: Final = (100_000, 1_000_000, 10_000_000, config.FANOUT_MS * 1_000_000)
_CHOOSING: Final = "fastnode_receive_choosing_seconds"


class FanoutMeter:
    """A look is one choosing among all partitions of a queue, or in a queue that has none."""

    __slots__ = ("_lasting", "_nanoseconds", "_nanoseconds_max", "_partitions", "_rows")

    def __init__(self) -> None:
        self._partitions = 0
        self._rows = 0
        self._nanoseconds = 0
        self._nanoseconds_max = 0
        # Looks by how long they lasted: up to each end, and longer.
        self._lasting = [0] * (len(_ENDS_NS) + 1)

    def add(self, partitions: int, rows: int, nanoseconds: int) -> None:
        self._partitions += partitions
        self._rows += rows
        self._nanoseconds += nanoseconds
        if nanoseconds > self._nanoseconds_max:
            self._nanoseconds_max = nanoseconds
        self._lasting[bisect_left(_ENDS_NS, nanoseconds)] += 1

    def metrics(self) -> dict[str, float]:
        ends = [*(f"{end / _NS_PER_SECOND:g}" for end in _ENDS_NS), "+Inf"]
        counts = list(accumulate(self._lasting))
        buckets = {
            f'{_CHOOSING}_bucket{{le="{end}"}}': count
            for end, count in zip(ends, counts, strict=True)
        }
        return {
            "fastnode_receive_looks_total": counts[-1],
            "fastnode_receive_partitions_total": self._partitions,
            "fastnode_receive_rows_total": self._rows,
            f"{_CHOOSING}_max": self._nanoseconds_max / _NS_PER_SECOND,
            **buckets,
            f"{_CHOOSING}_count": counts[-1],
            f"{_CHOOSING}_sum": self._nanoseconds / _NS_PER_SECOND,
        }
