"""Draws from tables by one uniform number, in constant time and without a loop: alias tables.

Pure; `generate.py` has the same draw as an SQL expression over `AliasTable`'s two lists.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Final, NamedTuple

LOGNORMAL_BUCKETS: Final = 256


class AliasTable(NamedTuple):
    """Row i is i itself with probability `keep[i]`, else `other[i]`; each row is equally likely."""

    keep: list[float]
    other: list[int]

    def draw(self, share: float) -> int:
        place = share * len(self.keep)
        row = int(place)
        return row if place - row < self.keep[row] else self.other[row]


def alias_table(weights: Sequence[float]) -> AliasTable:
    """Vose's construction: what the heavy rows have too much fills up the light ones."""
    total, count = sum(weights), len(weights)
    keep = [weight * count / total for weight in weights]
    other = list(range(count))
    light = [row for row in range(count) if keep[row] < 1]
    heavy = [row for row in range(count) if keep[row] >= 1]
    while light and heavy:
        small, large = light.pop(), heavy[-1]
        other[small] = large
        keep[large] -= 1 - keep[small]
        if keep[large] < 1:
            light.append(heavy.pop())
    for row in light + heavy:
        keep[row] = 1.0  # what is left differs from one by rounding only
    return AliasTable(keep, other)


def zipf_weights(count: int, skew: float) -> list[float]:
    """Of the k-th most frequent, k from 1; skew 0 makes all equal."""
    return [(rank + 1) ** -skew for rank in range(count)]


class Sizes(NamedTuple):
    """Body sizes: bucket i is drawn by its weight, a size evenly from `lows[i]` … `highs[i]`."""

    weights: list[float]
    lows: list[int]
    highs: list[int]

    @property
    def largest(self) -> int:
        return max(self.highs)


def fixed_size(size: int) -> Sizes:
    return Sizes([1.0], [size], [size])


def lognormal_sizes(median: float, sigma: float, largest: int) -> Sizes:
    """Buckets of equal probability, their borders at the quantiles."""
    normal = NormalDist(0.0, sigma) if sigma > 0 else None

    def quantile(share: float) -> int:
        deviation = normal.inv_cdf(share) if normal else 0.0
        return max(1, min(largest, round(median * math.exp(deviation))))

    inner = [quantile(index / LOGNORMAL_BUCKETS) for index in range(1, LOGNORMAL_BUCKETS)]
    tail = 1 / (4 * LOGNORMAL_BUCKETS)
    borders = [quantile(tail), *inner, quantile(1 - tail)]
    return Sizes([1.0] * LOGNORMAL_BUCKETS, borders[:-1], borders[1:])


def histogram_sizes(buckets: Sequence[tuple[int, float]]) -> Sizes:
    """From (largest size, weight) in rising order; each begins where the one before it ended."""
    highs = [high for high, _ in buckets]
    lows = [1, *(high + 1 for high in highs[:-1])]
    return Sizes([weight for _, weight in buckets], lows, highs)
