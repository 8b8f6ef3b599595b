"""The plain version of clocks and of taking the time of requests; home of its constants.
`_meter.pyx` does the same in C, since it is done for every request.
"""

import time
from typing import Final

# A time is filed under its length in bits, beyond so many: bucket `n` ends with 2 to the power of
# TIME_SHIFT + n nanoseconds.
TIME_SHIFT: Final = 16
PLACES: Final = 48


def now_ns() -> int:
    """Of a clock that only runs forward, and counts from any time."""
    return time.monotonic_ns()


def boottime_ns() -> int:
    """As `now_ns`, and it runs on while the machine is suspended."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def wall_seconds() -> int:
    """Since 1970, as the operator's clock has it."""
    return time.clock_gettime_ns(time.CLOCK_REALTIME) // 1_000_000_000


class Times:
    """How long things took: how many of each length, and all together."""

    __slots__ = ("_counts", "_slow_ns", "_total_ns")

    def __init__(self, slow_ns: int) -> None:
        self._counts = [0] * PLACES
        self._slow_ns = slow_ns
        self._total_ns = 0

    def took(self, began_ns: int) -> bool:
        """It began then and has ended; true if that was more than `slow_ns`."""
        elapsed_ns = max(now_ns() - began_ns, 1)
        self.add(elapsed_ns)
        return elapsed_ns > self._slow_ns

    def add(self, elapsed_ns: int) -> None:
        place = (max(elapsed_ns, 1) - 1 >> TIME_SHIFT).bit_length()
        self._counts[min(place, PLACES - 1)] += 1
        self._total_ns += max(elapsed_ns, 1)

    def seen(self) -> tuple[list[int], int]:
        """How many there are in each bucket, and the sum of all."""
        return list(self._counts), self._total_ns
