"""Counts for the metrics that cost next to nothing to take: no lock, no label, no search. A leaf.

A histogram's ends are powers of two, so the place of a value is its length in bits.
"""

from collections.abc import Iterator
from typing import Final

from fastnode.native import TIME_SHIFT

NS_PER_SECOND: Final = 1_000_000_000
# Times are told apart from 65 microseconds up to 34 seconds.
TIME_ENDS: Final = 20
_PLACES: Final = 72


class Histogram:
    """Of whole numbers from 1 on; bucket `n` ends with 2 to the power of `shift + n`."""

    __slots__ = ("_shift", "counts", "total")

    def __init__(self, shift: int = TIME_SHIFT) -> None:
        self._shift = shift
        self.counts = [0] * _PLACES
        self.total = 0

    def add(self, value: int) -> None:
        self.counts[(value - 1 >> self._shift).bit_length()] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self.counts)

    def samples(
        self, name: str, labels: str = "", *, unit: int = NS_PER_SECOND, ends: int = TIME_ENDS
    ) -> Iterator[tuple[str, float]]:
        """As Prometheus wants them, with the values divided by `unit`. `labels` as in `a="b"`."""
        comma = "," if labels else ""
        below = 0
        for number in range(ends):
            below += self.counts[number]
            end = (1 << (self._shift + number)) / unit
            yield f'{name}_bucket{{{labels}{comma}le="{end:.9g}"}}', below
        yield f'{name}_bucket{{{labels}{comma}le="+Inf"}}', self.count
        braced = f"{{{labels}}}" if labels else ""
        yield f"{name}_sum{braced}", self.total / unit
        yield f"{name}_count{braced}", self.count


def from_counts(counts: list[int], total: int) -> Histogram:
    """Of times that were counted elsewhere by the same rule."""
    histogram = Histogram()
    histogram.counts[: len(counts)] = counts
    histogram.total = total
    return histogram
