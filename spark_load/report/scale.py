"""From values to places on a plot: scales, ticks, and how numbers are written. Pure."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

# Steps between ticks are these times a power of ten.
_NICE: Final = (1.0, 2.0, 5.0, 10.0)
# And of time, in s: what clocks divide into.
_TIMES: Final = (1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0)
# Less than this is nothing.
_LEAST: Final = 1e-9
_UNITS: Final = ((1e6, "s"), (1e3, "ms"), (1.0, "µs"))
_LARGE: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"))

Unit = Literal["count", "us", "time"]


@dataclass(frozen=True, slots=True)
class Scale:
    """Values from `low` to `high` lie between `start` and `end`; others at the nearer edge."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def at(self, value: float) -> float:
        bounded = min(max(value, self.low), self.high)
        if self.is_log:
            share = math.log(bounded / self.low) / math.log(self.high / self.low)
        else:
            share = (bounded - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, unit: Unit = "count", count: int = 5) -> list[float]:
        if self.is_log:
            return decades(self.low, self.high)
        least = (self.high - self.low) / count
        return steps(self.low, self.high, time_step(least) if unit == "time" else nice_step(least))


def linear(values: Iterable[float], start: float, end: float) -> Scale:
    """From 0 to a round number that is no less than any of the values."""
    highest = max(values, default=0.0)
    step = nice_step(highest / 4) if highest > _LEAST else 0.25
    return Scale(0.0, max(step * math.ceil(highest / step), step), start, end)


def logarithmic(values: Iterable[float], start: float, end: float) -> Scale:
    """Whole powers of ten, at least one."""
    positive = [value for value in values if value > 0] or [1.0]
    low = math.floor(math.log10(min(positive)))
    high = max(math.ceil(math.log10(max(positive))), low + 1)
    return Scale(10.0**low, 10.0**high, start, end, is_log=True)


def steps(low: float, high: float, step: float) -> list[float]:
    first = math.ceil(low / step - 1e-9)
    return [step * number for number in range(first, math.floor(high / step + 1e-9) + 1)]


def decades(low: float, high: float) -> list[float]:
    first, last = round(math.log10(low)), round(math.log10(high))
    return [10.0**power for power in range(first, last + 1)]


def nice_step(least: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is no less."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in _NICE if step * power >= least * (1 - 1e-9))


def time_step(least: float) -> float:
    """Below a second and above an hour as any other number, of seconds and of hours."""
    if least < _TIMES[0]:
        return nice_step(least)
    return next((step for step in _TIMES if step >= least), 3600 * nice_step(least / 3600))


def written(value: float, unit: Unit) -> str:
    if unit == "us":
        return duration(value)
    return clock(value) if unit == "time" else amount(value)


def duration(us: float) -> str:
    """µs, in the unit that needs the fewest digits."""
    for size, name in _UNITS:
        if us >= size:
            return f"{_short(us / size)} {name}"
    return f"{_short(us)} µs"


def amount(value: float) -> str:
    for size, letter in _LARGE:
        if abs(value) >= size:
            return f"{_short(value / size)}{letter}"
    return _short(value)


def clock(seconds: float) -> str:
    """Since the start: `90 s` is `1:30`."""
    if seconds < 60:
        return f"{_short(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _short(value: float) -> str:
    """Three digits that count; no zeros at the end."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
