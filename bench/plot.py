"""Charts as SVG text: lines and grouped bars, readable on light and on dark pages. Pure.

What is measured and where the text is written to is not here. Each figure is in the text of the
picture too: as the tooltip of its point, or beside its bar.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from xml.sax.saxutils import escape, quoteattr

import msgspec

WIDTH = 760
# Middle tones, which can be told apart on white, on black and by most colour-blind readers.
COLOURS = ("#3987d8", "#e0861a", "#2ba36f", "#cc5aa5", "#8b8f98", "#b09a12")
STYLE = """
.page { fill: #ffffff } text { fill: #24292f; font: 12px system-ui, sans-serif }
.title { font-size: 15px; font-weight: 600 } .faint { fill: #6e7781 }
.grid { stroke: #d8dee4 } .axis { stroke: #8c959f }
.limit { stroke: #d1242f; stroke-dasharray: 6 4 } .limit-text { fill: #d1242f }
.line { fill: none; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
.page { fill: #0d1117 } text { fill: #e6edf3 } .faint { fill: #9198a1 }
.grid { stroke: #2a313a } .axis { stroke: #656c76 } .limit { stroke: #f85149 }
.limit-text { fill: #f85149 } }
"""
LEFT, RIGHT, TOP = 64, 44, 72
PLOT_HEIGHT = 280
BAR, BAR_STEP, GROUP_GAP = 13, 16, 14
LABEL_WIDTH, VALUE_WIDTH = 210, 64
# An average for the font above: a legend needs about the room of its text, not exactly.
CHARACTER_WIDTH = 6.8
TICKS_WANTED = 5


class Scale(msgspec.Struct, frozen=True):
    """Values `low` to `high` on pixels `begin` to `end`. On a logarithmic scale zero has a place
    too: that of `low`, which is chosen a decade below the smallest other value.
    """

    low: float
    high: float
    begin: float
    end: float
    is_log: bool = False

    def place(self, value: float) -> float:
        """The pixel of a value."""
        low, high = self.low, self.high
        if self.is_log:
            value, low, high = (math.log10(max(each, low)) for each in (value, low, high))
        return self.begin + (value - low) / (high - low) * (self.end - self.begin)


# --- charts --------------------------------------------------------------------------------------


def line_chart(
    title: str,
    x_label: str,
    y_label: str,
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    log_x: bool = False,
    reference: float | None = None,
) -> str:
    """One line per series; `reference` is a limit that is drawn across. The y axis begins at 0."""
    points = [point for line in series.values() for point in line]
    assert points, "a chart needs at least one point"
    bottom = TOP + PLOT_HEIGHT
    x = x_scale([point[0] for point in points], LEFT, WIDTH - RIGHT, log_x)
    highest = max([point[1] for point in points] + [reference or 0.0])
    y = Scale(0.0, round_up(highest), bottom, TOP)
    parts = [text(WIDTH / 2, bottom + 42, x_label, anchor="middle"), text(LEFT, TOP - 10, y_label)]
    for tick in even_ticks(y):
        parts += [rule(LEFT, y.place(tick), WIDTH - RIGHT, y.place(tick), "grid")]
        parts += [text(LEFT - 8, y.place(tick) + 4, number(tick), anchor="end", kind="faint")]
    for tick in x_ticks(x, [point[0] for point in points]):
        parts += [rule(x.place(tick), bottom, x.place(tick), bottom + 5, "axis")]
        parts += [text(x.place(tick), bottom + 20, number(tick), anchor="middle", kind="faint")]
    parts.append(rule(LEFT, bottom, WIDTH - RIGHT, bottom, "axis"))
    if reference is not None:
        level = y.place(reference)
        parts += [rule(LEFT, level, WIDTH - RIGHT, level, "limit")]
        parts += [text(WIDTH - RIGHT + 5, level + 4, number(reference), kind="limit-text")]
    for (name, line), colour in zip(series.items(), cycle(COLOURS), strict=False):
        parts += drawn_line(name, [(x.place(a), y.place(b)) for a, b in line], line, colour)
    return document(bottom + 58, title, series, parts)


def bar_chart(
    title: str,
    groups: Sequence[str],
    series: Mapping[str, Sequence[float | None]],
    *,
    value_label: str = "",
    log_values: bool = False,
    absent: str = "not run",
    reference: float | None = None,
) -> str:
    """Horizontal bars, one group of them under each other for each name in `groups`, one bar of it
    per series. A value that is None is written as `absent`. `value_label` says what the bars mean.
    """
    assert all(len(values) == len(groups) for values in series.values())
    values = [value for line in series.values() for value in line if value is not None]
    begin, end = LABEL_WIDTH, WIDTH - RIGHT - VALUE_WIDTH
    x = bar_scale(values + ([] if reference is None else [reference]), begin, end, log_values)
    height = len(series) * BAR_STEP + GROUP_GAP
    bottom = TOP + height * len(groups)
    parts = [text(begin, bottom + 36, value_label)]
    for tick in decades(x) if log_values else even_ticks(x):
        parts += [rule(x.place(tick), TOP, x.place(tick), bottom, "grid")]
        parts += [text(x.place(tick), bottom + 16, number(tick), anchor="middle", kind="faint")]
    for row, group in enumerate(groups):
        top = TOP + row * height + GROUP_GAP / 2
        parts += [text(begin - 10, top + height / 2 - GROUP_GAP / 2 + 4, group, anchor="end")]
        for place, ((name, line), colour) in enumerate(
            zip(series.items(), cycle(COLOURS), strict=False)
        ):
            parts += drawn_bar(x, top + place * BAR_STEP, line[row], colour, f"{name}: ", absent)
    parts.append(rule(begin, TOP, begin, bottom, "axis"))
    if reference is not None:
        level = x.place(reference)
        parts += [rule(level, TOP, level, bottom, "limit")]
        parts += [text(level, TOP - 6, number(reference), anchor="middle", kind="limit-text")]
    return document(bottom + 50, title, series, parts)


# --- scales --------------------------------------------------------------------------------------


def x_scale(values: Sequence[float], begin: float, end: float, is_log: bool) -> Scale:
    low, high = min(values), max(values)
    if is_log:
        positive = [value for value in values if value > 0] or [1.0]
        low = min(positive) / 10 if low <= 0 else low
    return Scale(low, high if high > low else low + 1, begin, end, is_log)


def bar_scale(values: Sequence[float], begin: float, end: float, is_log: bool) -> Scale:
    """From zero; a logarithmic one from the power of ten below the smallest value."""
    positive = [value for value in values if value > 0] or [1.0]
    if not is_log:
        return Scale(0.0, round_up(max(positive)), begin, end)
    low = 10.0 ** math.floor(math.log10(min(positive)) - 1e-9)
    return Scale(low, max(positive) * 1.1, begin, end, is_log=True)


def round_up(value: float) -> float:
    """The smallest whole multiple of a tick's step that is not below the value."""
    step = tick_step(value)
    return step * math.ceil(value / step - 1e-9)


def tick_step(span: float) -> float:
    """1, 2 or 5 times a power of ten, for about `TICKS_WANTED` ticks."""
    if span <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(span / TICKS_WANTED))
    return next(power * step for step in (1, 2, 5, 10) if power * step * TICKS_WANTED >= span)


def even_ticks(scale: Scale) -> list[float]:
    """Whole multiples of a step from the low end up."""
    step = tick_step(scale.high - scale.low)
    first = math.ceil(scale.low / step - 1e-9)
    last = math.floor(scale.high / step + 1e-9)
    return [step * count for count in range(first, last + 1)]


def decades(scale: Scale) -> list[float]:
    """The powers of ten within a logarithmic scale."""
    first = math.ceil(math.log10(scale.low) - 1e-9)
    last = math.floor(math.log10(scale.high) + 1e-9)
    return [10.0**exponent for exponent in range(first, last + 1)]


def x_ticks(scale: Scale, values: Sequence[float]) -> list[float]:
    """On a logarithmic axis also the zero and the ends, if points lie there and not at a decade."""
    if not scale.is_log:
        return even_ticks(scale)
    ticks = [] if min(values) <= 0 else [scale.low]
    ticks += [tick for tick in decades(scale) if tick > scale.low * 1.5]
    if ticks and scale.high > ticks[-1] * 1.5:
        ticks.append(scale.high)
    return [0.0, *ticks] if min(values) <= 0 else ticks


def number(value: float) -> str:
    """A figure of an axis or a bar: 0.03, 1.4, 1 k, 5 M."""
    for size, unit in ((1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}" if abs(value) >= 0.01 or value == 0 else f"{value:.1g}"


# --- pieces of SVG -------------------------------------------------------------------------------


def document(
    height: float,
    title: str,
    names: Iterable[str],
    parts: Sequence[str],
    colours: Sequence[str] = COLOURS,
) -> str:
    """The whole text, with title and legend above the parts."""
    size = f'width="{WIDTH}" height="{height:.0f}" viewBox="0 0 {WIDTH} {height:.0f}"'
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label={quoteattr(title)}>',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="page" width="{WIDTH}" height="{height:.0f}" rx="6"/>',
        text(16, 24, title, kind="title"),
    ]
    return "\n".join([*head, *legend(names, colours), *parts, "</svg>", ""])


def legend(names: Iterable[str], colours: Sequence[str]) -> list[str]:
    """A coloured square and a name per series, in one row."""
    left, parts = 16.0, []
    for name, colour in zip(names, cycle(colours), strict=False):
        parts.append(f'<rect x="{left:.1f}" y="35" width="10" height="10" fill="{colour}" rx="2"/>')
        parts.append(text(left + 15, 44, name))
        left += 15 + len(name) * CHARACTER_WIDTH + 18
    return parts


def drawn_line(
    name: str,
    places: Sequence[tuple[float, float]],
    values: Sequence[tuple[float, float]],
    colour: str,
) -> list[str]:
    """The line and its points, each with its figures as a tooltip."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    parts = [f'<polyline class="line" stroke="{colour}" points="{path}"/>']
    for (x, y), (a, b) in zip(places, values, strict=True):
        tip = escape(f"{name}: {number(b)} at {number(a)}")
        circle = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}">'
        parts.append(f"{circle}<title>{tip}</title></circle>")
    return parts


def drawn_bar(
    x: Scale, top: float, value: float | None, colour: str, tip: str, absent: str
) -> list[str]:
    """A bar with its figure behind it, or the word that stands for none."""
    if value is None:
        return [text(x.begin + 6, top + BAR - 2, absent, kind="faint")]
    width = max(1.0, x.place(value) - x.begin)
    place = f'x="{x.begin}" y="{top:.1f}" width="{width:.1f}" height="{BAR}"'
    title = f"<title>{escape(tip + number(value))}</title>"
    return [
        f'<rect {place} fill="{colour}" rx="2">{title}</rect>',
        text(x.begin + width + 6, top + BAR - 2, number(value)),
    ]


def rule(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def text(x: float, y: float, content: str, *, anchor: str = "start", kind: str = "") -> str:
    marks = f'text-anchor="{anchor}"' + (f' class="{kind}"' if kind else "")
    return f'<text x="{x:.1f}" y="{y:.1f}" {marks}>{escape(content)}</text>'
