"""Plots as SVG text. Pure: colours and fonts are the page's, by class, so that light and dark both
work; all text is escaped here.

A plot is a few hundred points at most, so it stays small however long the run was.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Final

from spark_load.report.scale import Scale, Unit, written

WIDTH, HEIGHT = 400, 212
LEFT, RIGHT, TOP, BOTTOM = 50, 10, 16, 24
X_RANGE: Final = (float(LEFT), float(WIDTH - RIGHT))
Y_RANGE: Final = (float(HEIGHT - BOTTOM), float(TOP))
# A label of a fault takes so much room; nearer ones move down by a line, a few times.
_LABEL_WIDTH, _LABEL_HEIGHT, _LABEL_LINES = 60, 11, 3

Point = tuple[float, float | None]


@dataclass(frozen=True, slots=True)
class Line:
    """A gap is where y is None. `tone` is the number of its colour."""

    name: str
    points: Sequence[Point]
    tone: int
    is_area: bool = False


@dataclass(frozen=True, slots=True)
class Bars:
    """From one x to the next, as high as y."""

    name: str
    bars: Sequence[tuple[float, float, float]]
    tone: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment, or a value that must not be passed."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Axes:
    x: Scale
    y: Scale
    x_unit: Unit
    y_unit: Unit


def chart(
    label: str,
    axes: Axes,
    layers: Sequence[Line | Bars],
    marks: Sequence[Mark] = (),
    limits: Sequence[Mark] = (),
) -> str:
    """`marks` are places on the x axis, `limits` on the y axis."""
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">',
        *_grid(axes),
        *(_layer(axes, layer) for layer in layers),
        *_marks(axes, marks),
        *_limits(axes, limits),
        "</svg>",
    ]
    return "".join(parts)


def _grid(axes: Axes) -> Iterator[str]:
    left, right = X_RANGE
    bottom, _ = Y_RANGE
    for value in axes.y.ticks(axes.y_unit):
        y = axes.y.at(value)
        yield f'<path class="grid" d="M{left:g} {y:.1f}H{right:g}"/>'
        yield _text(left - 5, y + 3.5, written(value, axes.y_unit), "end")
    for value in axes.x.ticks(axes.x_unit):
        x = axes.x.at(value)
        yield f'<path class="axis" d="M{x:.1f} {bottom:g}v4"/>'
        # The last label would otherwise hang over the edge.
        anchor = "end" if x > right - 12 else "middle"
        yield _text(x, bottom + 15, written(value, axes.x_unit), anchor)
    yield f'<path class="axis" d="M{left:g} {bottom:g}H{right:g}"/>'


def _layer(axes: Axes, layer: Line | Bars) -> str:
    if isinstance(layer, Bars):
        return _bars(axes, layer)
    strokes = [_stroke(axes, run) for run in _runs(layer.points)]
    parts = ""
    if layer.is_area:
        fills = "".join(_under(axes, run) for run in _runs(layer.points))
        parts = f'<path class="area t{layer.tone}" d="{fills}"/>'
    return f'{parts}<path class="line t{layer.tone}" d="{"".join(strokes)}"/>'


def _runs(points: Sequence[Point]) -> Iterator[list[tuple[float, float]]]:
    for is_known, run in groupby(points, lambda point: point[1] is not None):
        if is_known:
            yield [(x, y) for x, y in run if y is not None]


def _stroke(axes: Axes, run: Sequence[tuple[float, float]]) -> str:
    places = [f"{axes.x.at(x):.1f} {axes.y.at(y):.1f}" for x, y in run]
    # A point alone has no length: with a round cap a stroke of none is a dot.
    return f"M{'L'.join(places)}" + ("h0" if len(places) == 1 else "")


def _under(axes: Axes, run: Sequence[tuple[float, float]]) -> str:
    bottom, _ = Y_RANGE
    first, last = axes.x.at(run[0][0]), axes.x.at(run[-1][0])
    return f"{_stroke(axes, run)}L{last:.1f} {bottom:g}L{first:.1f} {bottom:g}Z"


def _bars(axes: Axes, layer: Bars) -> str:
    bottom, _ = Y_RANGE
    shapes = []
    for start, end, height in layer.bars:
        left, right, top = axes.x.at(start), axes.x.at(end), axes.y.at(height)
        gap = min(0.6, (right - left) / 4)
        shapes.append(f"M{left + gap:.1f} {bottom:g}V{top:.1f}H{right - gap:.1f}V{bottom:g}Z")
    return f'<path class="bar t{layer.tone}" d="{"".join(shapes)}"/>'


def _marks(axes: Axes, marks: Sequence[Mark]) -> Iterator[str]:
    """All lines lie below all labels."""
    bottom, top = Y_RANGE
    places = [(axes.x.at(mark.at), mark.label) for mark in sorted(marks, key=lambda mark: mark.at)]
    for x, _ in places:
        yield f'<path class="mark" d="M{x:.1f} {bottom:g}V{top:g}"/>'
    for number, (x, label) in enumerate(places):
        near = places[max(number - _LABEL_LINES, 0) : number]
        line = sum(1 for place, _ in near if x - place < _LABEL_WIDTH)
        is_late = x > X_RANGE[1] - _LABEL_WIDTH
        y = top + 6 + _LABEL_HEIGHT * line
        yield _text(x + (-3 if is_late else 3), y, label, "end" if is_late else "start", "mark")


def _limits(axes: Axes, limits: Sequence[Mark]) -> Iterator[str]:
    left, right = X_RANGE
    for limit in limits:
        if limit.at <= axes.y.high:
            y = axes.y.at(limit.at)
            yield f'<path class="limit" d="M{left:g} {y:.1f}H{right:g}"/>'
            yield _text(right, y - 3, limit.label, "end", "limit")


def _text(x: float, y: float, text: str, anchor: str, kind: str = "tick") -> str:
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
    )
