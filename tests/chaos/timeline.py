"""A campaign as a picture: what clients got done second by second, and below it what went wrong
when. Pure.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
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
# Between the rates and the faults, for a heading.
HEADING: Final = 26
# Shorter ones are elections as they should be.
GAP_SECONDS: Final = 2.0
# A longer campaign is told in minutes.
SECONDS_MAX: Final = 300.0
SENT_COLOUR, RECEIVED_COLOUR, UNANSWERED_COLOUR = COLOURS[0], COLOURS[1], COLOURS[3]
GAP_COLOUR: Final = COLOURS[4]
FAULT_COLOUR: Final = "#d1242f"

Gap = tuple[float, float]


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


def gaps(events: Iterable[Event], began: float, seconds: float) -> list[Gap]:
    """When no client got anything done, in seconds from the beginning."""
    calls = (event for event in events if isinstance(event, Sent | Received | Deleted))
    done = (event.ended - began for event in calls if _is_done(event))
    ends = sorted([0.0, *(at for at in done if 0.0 < at < seconds), seconds])
    return [(one, two) for one, two in pairwise(ends) if two - one >= GAP_SECONDS]


def _is_done(event: Sent | Received | Deleted) -> bool:
    if isinstance(event, Deleted):
        return event.is_acknowledged
    return bool(event.message_id if isinstance(event, Sent) else event.messages)


def draw(
    title: str,
    series: Mapping[str, Sequence[float]],
    standstill: Sequence[Gap],
    faults: Sequence[Fault],
    seconds: float,
) -> str:
    bottom = TOP + PLOT_HEIGHT
    x = Scale(0.0, seconds, LEFT, WIDTH - RIGHT)
    highest = max(max(line) for line in series.values())
    y = Scale(0.0, round_up(highest or 1.0), bottom, TOP)
    kinds = [kind for kind in (*PROCESSES, *LINKS) if any(one.kind == kind for one in faults)]
    end = bottom + HEADING + ROW * len(kinds)
    parts = [*_time_axis(x, end), text(LEFT, TOP - 10, "messages and calls per second")]
    for tick in even_ticks(y):
        parts.append(rule(LEFT, y.place(tick), WIDTH - RIGHT, y.place(tick), "grid"))
        parts.append(text(LEFT - 8, y.place(tick) + 4, number(tick), anchor="end", kind="faint"))
    parts += [_band(x, gap) for gap in standstill]
    colours = (SENT_COLOUR, RECEIVED_COLOUR, UNANSWERED_COLOUR)
    for line, colour in zip(series.values(), colours, strict=True):
        parts.append(_line(x, y, line, colour, is_filled=colour == SENT_COLOUR))
    parts.append(rule(LEFT, bottom, WIDTH - RIGHT, bottom, "axis"))
    parts.append(text(LEFT, bottom + HEADING - 8, "what was done to the nodes, and when"))
    parts += _strips(x, bottom + HEADING, kinds, faults)
    standstills = f"{len(standstill)} times nothing got done for {GAP_SECONDS:g} s or more"
    legend = [*series, standstills, "fault"]
    return document(end + 50, title, legend, parts, (*colours, GAP_COLOUR, FAULT_COLOUR))


def _time_axis(x: Scale, end: float) -> list[str]:
    """Ticks with lines up through everything."""
    unit = 60.0 if x.high > SECONDS_MAX else 1.0
    parts = [text(WIDTH / 2, end + 38, "minutes" if unit > 1.0 else "seconds", anchor="middle")]
    for tick in even_ticks(Scale(0.0, x.high / unit, x.begin, x.end)):
        at = x.place(tick * unit)
        parts.append(rule(at, TOP, at, end + 5, "grid"))
        parts.append(text(at, end + 20, number(tick), anchor="middle", kind="faint"))
    return parts


def _band(x: Scale, gap: Gap) -> str:
    left, right = (x.place(at) for at in gap)
    where = f'x="{left:.1f}" y="{TOP}" width="{right - left:.1f}" height="{PLOT_HEIGHT}"'
    tip = f"<title>{gap[0]:.1f} s to {gap[1]:.1f} s: nothing got done</title>"
    return f'<rect {where} fill="{GAP_COLOUR}" fill-opacity="0.45">{tip}</rect>'


def _line(x: Scale, y: Scale, line: Sequence[float], colour: str, *, is_filled: bool) -> str:
    middles = ((at + 0.5) * x.high / BINS for at in range(BINS))
    places = [(x.place(at), y.place(value)) for at, value in zip(middles, line, strict=True)]
    paint = 'class="line" style="stroke-width: 1.3"'
    if is_filled:
        places = [(places[0][0], y.begin), *places, (places[-1][0], y.begin)]
        paint = f'fill="{colour}" fill-opacity="0.25"'
    path = " ".join(f"{left:.1f},{top:.1f}" for left, top in places)
    return f'<polyline {paint} stroke="{colour}" points="{path}"/>'


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
