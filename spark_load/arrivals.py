"""When operations are due: rate curves, and how many operations each piece of time has.

Pure arithmetic, without Spark. A curve is made of straight pieces (`Segment`), so its integral is
made of parabolas and can be inverted in closed form: the moment of an operation follows from its
number alone, and nobody has to add up the moments before it. `cells` cuts the curve of a stream at
the borders of time slices; a slice holds all operations of its time, whatever their stream, so
slices can be generated, sorted and numbered independently of each other.

Even spacing: operation n is due where the integral reaches n + ½. Poisson: a cell's count is drawn
from its own hash, and given the count the moments are independent draws over the cell.
"""

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from statistics import NormalDist
from typing import Final, NamedTuple

SECOND_US: Final = 1_000_000
SLICES_MAX: Final = 65_536
# Enough for a task to work in blocks, few enough to sort in a cache.
SLICE_OPERATIONS: Final = 8_192
DIURNAL_PIECES: Final = 96
EXACT_POISSON_MAX: Final = 60.0


class Segment(NamedTuple):
    """Operations per second from `begin_rate` straight to `end_rate`, over [begin_us, end_us)."""

    begin_us: int
    end_us: int
    begin_rate: float
    end_rate: float

    def rate_at(self, at_us: int) -> float:
        share = (at_us - self.begin_us) / (self.end_us - self.begin_us)
        return self.begin_rate + (self.end_rate - self.begin_rate) * share

    @property
    def area(self) -> float:
        """Operations that are expected in it."""
        seconds = (self.end_us - self.begin_us) / SECOND_US
        return (self.begin_rate + self.end_rate) / 2 * seconds

    def cut(self, begin_us: int, end_us: int) -> "Segment":
        return Segment(begin_us, end_us, self.rate_at(begin_us), self.rate_at(end_us))


class Cell(NamedTuple):
    """Operations `first` … `first + operations - 1` of a stream, all in one slice and one segment.

    `offset` is the integral from the cell's begin to operation `first`, for even spacing; None for
    Poisson.
    """

    slice: int
    stream: int
    first: int
    operations: int
    begin_us: int
    end_us: int
    begin_rate: float
    end_rate: float
    area: float
    offset: float | None


def constant(begin_us: int, end_us: int, rate: float) -> list[Segment]:
    return [Segment(begin_us, end_us, rate, rate)]


def ramp(begin_us: int, end_us: int, begin_rate: float, end_rate: float) -> list[Segment]:
    return [Segment(begin_us, end_us, begin_rate, end_rate)]


def curve(begin_us: int, end_us: int, points: Sequence[tuple[int, float]]) -> list[Segment]:
    """Straight lines between (µs from the begin, rate); the last rate is kept up to the end."""
    ends = [*points[1:], (max(end_us - begin_us, points[-1][0]), points[-1][1])]
    segments = [
        Segment(begin_us + at, begin_us + until, rate, until_rate)
        for (at, rate), (until, until_rate) in zip(points, ends, strict=True)
    ]
    return _clip(segments, end_us)


def bursts(
    begin_us: int, end_us: int, rates: tuple[float, float], lengths_us: tuple[int, int]
) -> list[Segment]:
    """On and off in turn, beginning with on."""
    segments: list[Segment] = []
    at, turn = begin_us, 0
    while at < end_us:
        segments.append(Segment(at, at + lengths_us[turn], rates[turn], rates[turn]))
        at, turn = at + lengths_us[turn], 1 - turn
    return _clip(segments, end_us)


def diurnal(
    begin_us: int, end_us: int, rates: tuple[float, float], period_us: int, peak_us: int
) -> list[Segment]:
    """A cosine between the low and the high rate, its peak `peak_us` after midnight of the trace,
    drawn by straight pieces.
    """
    low, high = rates
    step = max(1, period_us // DIURNAL_PIECES)

    def rate(at_us: int) -> float:
        angle = 2 * math.pi * ((at_us - peak_us) % period_us) / period_us
        return low + (high - low) * (1 + math.cos(angle)) / 2

    begins = range(begin_us, end_us, step)
    segments = [Segment(at, at + step, rate(at), rate(at + step)) for at in begins]
    return _clip(segments, end_us)


def _clip(segments: Iterable[Segment], end_us: int) -> list[Segment]:
    kept = [segment for segment in segments if segment.begin_us < min(segment.end_us, end_us)]
    return [segment.cut(segment.begin_us, min(segment.end_us, end_us)) for segment in kept]


def slice_width_us(duration_us: int, operations: float) -> int:
    count = min(SLICES_MAX, max(1, math.ceil(operations / SLICE_OPERATIONS)))
    return max(1, math.ceil(duration_us / count))


def cells(
    segments: Iterable[Segment], slice_us: int, *, stream: int, seed: int, is_poisson: bool
) -> Iterator[Cell]:
    """The non-empty cells of a stream, in the order of time."""
    first, area = 0, 0.0
    for number, (index, part) in enumerate(_cut_at_slices(segments, slice_us)):
        if is_poisson:
            count, offset = poisson(part.area, uniform(seed, stream, number)), None
        else:
            count = math.ceil(area + part.area - 0.5) - first
            offset = first + 0.5 - area
        if count > 0:
            yield Cell(index, stream, first, count, *part, part.area, offset)
        first, area = first + count, area + part.area


def _cut_at_slices(segments: Iterable[Segment], slice_us: int) -> Iterator[tuple[int, Segment]]:
    for segment in segments:
        begin = segment.begin_us
        while begin < segment.end_us:
            index = begin // slice_us
            end = min(segment.end_us, (index + 1) * slice_us)
            yield index, segment.cut(begin, end)
            begin = end


def uniform(*facts: int) -> float:
    """A number inside (0, 1) that follows from the facts."""
    digest = hashlib.blake2b(repr(facts).encode(), digest_size=8).digest()
    return ((int.from_bytes(digest, "big") >> 11) + 0.5) / 2**53


def poisson(mean: float, share: float) -> int:
    """The count below which `share` of all draws lie: exact for small means, and for large ones the
    normal quantile with its correction for skew, which is off by less than one.
    """
    if mean > EXACT_POISSON_MAX:
        z = NormalDist().inv_cdf(share)
        return max(0, round(mean + z * math.sqrt(mean) + (z * z - 1) / 6))
    count, weight = 0, math.exp(-mean)
    total = weight
    while total < share and weight > 0:
        count += 1
        weight *= mean / count
        total += weight
    return count
