"""Weighted stacks as a flame graph in SVG: text in, text out, no script inside.

The outermost frame is at the bottom, the width of a frame is its weight with all it called, and
frames beside each other are in the order of their names. A browser shows the whole name and the
weight of the frame under the pointer.
"""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import NamedTuple

WIDTH = 1200
ROW = 18
MARGIN = 12
TITLE_HEIGHT = 56
# What a character of the chosen font takes.
CHARACTER = 6.6
# Narrower boxes are not drawn: nobody could see them.
WIDTH_MIN = 0.4


class Frame:
    """A frame with all that was called from it there."""

    def __init__(self) -> None:
        self.weight = 0.0
        self.calls: dict[str, Frame] = {}

    def depth(self) -> int:
        """How many rows it and its calls take."""
        return 1 + max((call.depth() for call in self.calls.values()), default=0)


class Box(NamedTuple):
    """A frame with its place: x and width in pixels, level counted from the bottom."""

    name: str
    weight: float
    x: float
    width: float
    level: int


def tree(stacks: Mapping[tuple[str, ...], float]) -> Frame:
    """The stacks put together by their common beginnings."""
    root = Frame()
    for stack, weight in stacks.items():
        root.weight += weight
        frame = root
        for name in stack:
            frame = frame.calls.setdefault(name, Frame())
            frame.weight += weight
    return root


def boxes(root: Frame, name: str) -> list[Box]:
    """Everything wide enough to be seen."""
    scale = (WIDTH - 2 * MARGIN) / root.weight if root.weight else 0.0
    found: list[Box] = []

    def place(name: str, frame: Frame, x: float, level: int) -> None:
        width = frame.weight * scale
        if width < WIDTH_MIN:
            return
        found.append(Box(name, frame.weight, x, width, level))
        for called, inner in sorted(frame.calls.items()):
            place(called, inner, x, level + 1)
            x += inner.weight * scale

    place(name, root, MARGIN, 0)
    return found


def render(
    stacks: Mapping[tuple[str, ...], float],
    *,
    title: str,
    unit: str,
    paint: Callable[[str], str],
    legend: Sequence[tuple[str, str]] = (),
) -> str:
    """A whole SVG file. `paint` chooses a colour for a frame; the legend is (text, colour)."""
    root = tree(stacks)
    placed = boxes(root, "all")
    levels = max((box.level for box in placed), default=0) + 1
    height = TITLE_HEIGHT + levels * ROW + MARGIN
    drawn = "".join(draw(box, height, root.weight, unit, paint(box.name)) for box in placed)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" font-family="ui-monospace, monospace" font-size="11">\n'
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n'
        f'<text x="{MARGIN}" y="22" font-size="15" fill="#1b1b1b">{escape(title)}</text>\n'
        f"{draw_legend(legend)}{drawn}</svg>\n"
    )


def draw(box: Box, height: int, whole: float, unit: str, colour: str) -> str:
    """One frame with its tooltip, and its name as far as there is room."""
    y = height - MARGIN - (box.level + 1) * ROW
    tip = f"{box.name}: {box.weight:.2f} {unit}, {box.weight / whole:.1%}"
    shape = (
        f'<rect x="{box.x:.1f}" y="{y}" width="{box.width:.1f}" height="{ROW - 1}" rx="2" '
        f'fill="{colour}"/>'
    )
    return f"<g><title>{escape(tip)}</title>{shape}{draw_name(box, y)}</g>\n"


def draw_name(box: Box, y: int) -> str:
    """The name, shortened; nothing where not even a few letters fit."""
    room = int((box.width - 6) / CHARACTER)
    if room < 3:
        return ""
    name = box.name if len(box.name) <= room else box.name[: room - 1] + "…"
    return f'<text x="{box.x + 3:.1f}" y="{y + 13}" fill="#1b1b1b">{escape(name)}</text>'


def draw_legend(legend: Sequence[tuple[str, str]]) -> str:
    """Colours with their meaning, in one line below the title."""
    parts, x = [], float(MARGIN)
    for text, colour in legend:
        parts.append(
            f'<rect x="{x:.0f}" y="33" width="11" height="11" rx="2" fill="{colour}"/>'
            f'<text x="{x + 15:.0f}" y="43" fill="#1b1b1b">{escape(text)}</text>\n'
        )
        x += 15 + CHARACTER * len(text) + 14
    return "".join(parts)
