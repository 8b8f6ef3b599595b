"""Ratios of one day against those of another: what became worse, what better, what is new. Pure.

Only ratios that were measured within one run are compared: a machine's own speed is not in them.
Each has a *noise*, the part of itself by which it may differ for no reason.
"""

from collections.abc import Mapping, Sequence
from statistics import median

import msgspec

from bench.report import Line

# No ratio is believed to be steadier, and none may be so unsteady that nothing fails it.
NOISE_MIN, NOISE_MAX = 0.10, 0.60


class Ratio(msgspec.Struct, frozen=True):
    """One row; of a cost less is better, of everything else more."""

    value: float
    noise: float
    is_cost: bool = False


class Change(msgspec.Struct, frozen=True):
    """One row of two days; `was` or `now` is missing if only one day has it."""

    name: str
    was: Ratio | None
    now: Ratio | None

    @property
    def worsening(self) -> float:
        """How many times as bad as before: 1 is as it was, 2 is a worsening by a factor of two."""
        if self.was is None or self.now is None:
            return 1.0
        factor = self.now.value / self.was.value if self.was.value else 1.0
        return factor if self.was.is_cost else 1.0 / max(factor, 1e-9)

    @property
    def allowed(self) -> float:
        """The factor that may be noise."""
        return 1.0 + self.was.noise if self.was is not None else 1.0

    @property
    def verdict(self) -> str:
        if self.was is None:
            return "new"
        if self.now is None:
            return "not measured"
        if self.worsening > self.allowed:
            return "WORSE"
        return "better" if 1.0 / self.worsening > self.allowed else "as before"


def of_line(line: Line) -> Ratio:
    """The noise is what the turns of its own run show."""
    half = (max(line.turns) - min(line.turns)) / 2 / max(abs(line.value), 1e-9)
    return Ratio(round(line.value, 4), bounded_noise(half), line.is_cost)


def bounded_noise(noise: float) -> float:
    return round(min(max(noise, NOISE_MIN), NOISE_MAX), 2)


def of_lines(lines: Sequence[Line]) -> dict[str, Ratio]:
    """Those that are ratios; a figure without turns is of this machine only."""
    return {line.name: of_line(line) for line in lines if line.turns}


def compare(was: Mapping[str, Ratio], now: Mapping[str, Ratio]) -> list[Change]:
    """In the order of the newer day, then what it lacks."""
    names = [*now, *(name for name in was if name not in now)]
    return [Change(name, was.get(name), now.get(name)) for name in names]


def worse(changes: Sequence[Change], *, factor: float | None = None) -> list[Change]:
    """Beyond their noise, or beyond a factor that is the same for all."""
    return [change for change in changes if change.worsening > (factor or change.allowed)]


def better_of(first: Mapping[str, Ratio], second: Mapping[str, Ratio]) -> dict[str, Ratio]:
    """The better of two tries of each row."""
    merged = dict(first)
    for name, ratio in second.items():
        if name not in first or Change(name, first[name], ratio).worsening < 1.0:
            merged[name] = ratio
    return merged


def middle_noise(ratios: Mapping[str, Ratio]) -> float:
    """How noisy a run was, in one figure."""
    return median(ratio.noise for ratio in ratios.values()) if ratios else 0.0


def render(changes: Sequence[Change]) -> str:
    """The comparison as text."""
    width = max((len(change.name) for change in changes), default=0)
    rows = [
        f"{change.name:<{width}}  {shown(change.was):>8}  {shown(change.now):>8}"
        f"  {change.allowed - 1:>5.0%}  {change.verdict}"
        for change in changes
    ]
    head = f"{'':<{width}}  {'baseline':>8}  {'now':>8}  {'noise':>5}"
    return "\n".join([head, *rows])


def shown(ratio: Ratio | None) -> str:
    return "-" if ratio is None else f"{ratio.value:.2f}"
