"""A campaign as a picture: what clients got done second by second, and below it what went wrong
when. Pure.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import Final
from xml.sax.saxutils import escape

from bench.plot import (
    COLOURS,
    LEFT,
    PLOT_HEIGHT,
    RIGHT,
    TOP,
    WIDTH,
    Scale,
    document,
    even_ticks,
    number,
    round_up,
    rule,
    text,
)
from tests.chaos.plan import LINKS, PROCESSES, Fault
from tests.cluster.history import Deleted, Event, Received, Sent

BINS: Final = 200
ROW: Final = 14
FAULT_COLOUR: Final = "#d1242f"


def rates(events: Iterable[Event], began: float, seconds: float) -> dict[str, list[float]]:
    """Per second, in `BINS` equal parts of the time."""
    counts: dict[str, Counter[int]] = {
        "sent": Counter(),
        "received": Counter(),
        "no answer": Counter(),
    }
    for event in events:
        if isinstance(event, Sent | Received | Deleted):
            at = int((event.ended - began) / seconds * BINS)
            name, count = _meaning(event)
            counts[name][at] += count
    width = seconds / BINS
    return {name: [count[at] / width for at in range(BINS)] for name, count in counts.items()}


def _meaning(event: Sent | Received | Deleted) -> tuple[str, int]:
    if isinstance(event, Sent):
        return ("sent", 1) if event.message_id else ("no answer", 1)
    if isinstance(event, Received):
        return "received", len(event.messages)
    return "no answer", int(not event.is_acknowledged)


def draw(
    title: str, series: Mapping[str, Sequence[float]], faults: Sequence[Fault], seconds: float
) -> str:
    bottom = TOP + PLOT_HEIGHT
    x = Scale(0.0, seconds, LEFT, WIDTH - RIGHT)
    highest = max(max(line) for line in series.values())
    y = Scale(0.0, round_up(highest or 1.0), bottom, TOP)
    parts = [text(LEFT, TOP - 10, "messages per second")]
    for tick in even_ticks(y):
        parts.append(rule(LEFT, y.place(tick), WIDTH - RIGHT, y.place(tick), "grid"))
        parts.append(text(LEFT - 8, y.place(tick) + 4, number(tick), anchor="end", kind="faint"))
    for line, colour in zip(series.values(), cycle(COLOURS), strict=False):
        middles = ((at + 0.5) * seconds / BINS for at in range(BINS))
        path = " ".join(
            f"{x.place(at):.1f},{y.place(value):.1f}"
            for at, value in zip(middles, line, strict=True)
        )
        parts.append(f'<polyline class="line" stroke="{colour}" points="{path}"/>')
    parts.append(rule(LEFT, bottom, WIDTH - RIGHT, bottom, "axis"))
    kinds = [kind for kind in (*PROCESSES, *LINKS) if any(one.kind == kind for one in faults)]
    parts += _strips(x, bottom + 8, kinds, faults)
    end = bottom + 8 + ROW * len(kinds)
    for tick in even_ticks(x):
        parts.append(rule(x.place(tick), end, x.place(tick), end + 5, "axis"))
        parts.append(text(x.place(tick), end + 20, number(tick), anchor="middle", kind="faint"))
    parts.append(text(WIDTH / 2, end + 38, "seconds", anchor="middle"))
    return document(end + 50, title, series, parts)


def _strips(x: Scale, top: float, kinds: Sequence[str], faults: Sequence[Fault]) -> list[str]:
    """A row for each kind, a bar for each fault."""
    parts: list[str] = []
    for row, kind in enumerate(kinds):
        place = top + row * ROW
        parts.append(text(LEFT - 8, place + 11, kind, anchor="end", kind="faint"))
        parts.append(rule(LEFT, place + ROW - 1, WIDTH - RIGHT, place + ROW - 1, "grid"))
        for fault in faults:
            if fault.kind == kind:
                left = x.place(fault.begins)
                width = max(x.place(fault.ends) - left, 2.0)
                where = f'x="{left:.1f}" y="{place + 2:.1f}" width="{width:.1f}" height="{ROW - 4}"'
                tip = f"<title>{escape(str(fault))}</title>"
                parts.append(f'<rect {where} fill="{FAULT_COLOUR}" rx="2">{tip}</rect>')
    return parts
