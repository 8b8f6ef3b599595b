"""Which plots a report has, and what they show of a run. Pure.

Figures are drawn for all runs at once, each with the same scales, so that two stand side by side
and can be compared by eye.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from spark_load.report.chart import X_RANGE, Y_RANGE, Axes, Bars, Line, Mark, chart
from spark_load.report.runs import END_TO_END, Row, Run, bin_low_us
from spark_load.report.scale import Scale, Unit, linear, logarithmic

SPREAD: Final = (("p50", "p50", 0), ("p99", "p99", 1), ("max", "longest", 2))
KINDS: Final = ("send", "receive", "delete", END_TO_END)


@dataclass(frozen=True, slots=True)
class Figure:
    """One plot for each run, and what its colours stand for: name and tone."""

    title: str
    caption: str
    plots: tuple[str, ...]
    legend: tuple[tuple[str, int], ...]


def figures(runs: Sequence[Run]) -> list[Figure]:
    """Those that there is something to see in."""
    drawn = [draw(runs) for draw in FIGURES]
    return [figure for figure in drawn if figure is not None]


def throughput(runs: Sequence[Run]) -> Figure | None:
    def lines(run: Run) -> list[Line]:
        kinds = (("send", "sent"), ("receive", "received"), ("delete", "deleted"))
        return [
            Line(name, per_second(run, kind, "messages"), tone, is_area=tone == 0)
            for tone, (kind, name) in enumerate(kinds)
        ]

    return plotted(runs, "Throughput", "messages per second, by when they were answered", lines)


def failures(runs: Sequence[Run]) -> Figure | None:
    def lines(run: Run) -> list[Line]:
        columns = (("refused", 3), ("unanswered", 4))
        return [Line(column, per_second(run, None, column), tone) for column, tone in columns]

    caption = "attempts per second that were refused, or whose outcome nobody knows"
    return plotted(runs, "Failed attempts", caption, lines)


def send_latency(runs: Sequence[Run]) -> Figure | None:
    caption = "from when a send was due, so waiting for its turn counts; by that moment"
    return spread_over_time(runs, "Latency of sends", caption, lambda run: of_kind(run, "send"))


def delivery_latency(runs: Sequence[Run]) -> Figure | None:
    caption = "from the first attempt to send a message to its first delivery"
    return spread_over_time(runs, "End to end", caption, lambda run: of_kind(run, END_TO_END))


def lateness(runs: Sequence[Run]) -> Figure | None:
    caption = "how much later than planned the first attempt of a send left the client"
    return spread_over_time(runs, "Lateness of the replay", caption, lambda run: run.lateness)


def backlog(runs: Sequence[Run]) -> Figure | None:
    def lines(run: Run) -> list[Line]:
        return [
            Line("backlog", level(run, run.arrivals), 0, is_area=True),
            Line("in flight", level(run, run.leases), 1),
        ]

    caption = "messages sent and not yet deleted; messages delivered and not deleted or returned"
    return plotted(runs, "Backlog and in flight", caption, lines)


def distribution(runs: Sequence[Run]) -> Figure | None:
    def lines(run: Run) -> list[Line]:
        return [
            Line(kind, shares([row for row in run.distributions if row["kind"] == kind]), tone)
            for tone, kind in enumerate(KINDS)
            if any(row["kind"] == kind for row in run.distributions)
        ]

    caption = "share of calls by latency, %; receives include the time they waited for messages"
    return plotted(runs, "Distribution of latency", caption, lines, x_scale=bins_scale, x_unit="us")


def choosing_over_time(runs: Sequence[Run]) -> Figure | None:
    def lines(run: Run) -> list[Line]:
        return spread_lines(run, run.choosing)

    def scale(values: Iterable[float]) -> Scale:
        return logarithmic([*values, *(float(run.budget_us) for run in runs)], *Y_RANGE)

    caption = "what choosing messages cost each receive on the node, against its budget"
    limits = [Mark(float(run.budget_us), "budget") for run in runs[:1]]
    return plotted(
        runs, "Fanout: choosing", caption, lines, y_scale=scale, y_unit="us", limits=limits
    )


def choosing_bins(runs: Sequence[Run]) -> Figure | None:
    def bars(run: Run) -> list[Bars]:
        total = sum(row["count"] for row in run.choosing_bins)
        shapes = [
            (bin_low_us(row["bin"]), bin_low_us(row["bin"] + 1), 100 * row["count"] / total)
            for row in run.choosing_bins
        ]
        return [Bars("receives", shapes, 0)] if shapes else []

    def scale(values: Iterable[float]) -> Scale:
        return logarithmic([*values, *(10.0 * run.budget_us for run in runs)], *X_RANGE)

    marks = [Mark(float(runs[0].budget_us), "budget")]
    caption = "share of receives by the time they chose, %"
    return plotted(
        runs,
        "Fanout: distribution",
        caption,
        bars,
        x_scale=scale,
        x_unit="us",
        marks=lambda run: marks,
    )


def partitions(runs: Sequence[Run]) -> Figure | None:
    caption = "share of receives by the number of partitions they looked into, %"
    return counted(runs, "Fanout: partitions", caption, lambda run: run.partitions, 0)


def rows_seen(runs: Sequence[Run]) -> Figure | None:
    caption = "share of receives by the number of messages they looked at, %"
    return counted(runs, "Fanout: rows", caption, lambda run: run.rows_seen, 1)


FIGURES: Final[tuple[Callable[[Sequence[Run]], Figure | None], ...]] = (
    throughput,
    send_latency,
    backlog,
    delivery_latency,
    distribution,
    failures,
    lateness,
    choosing_over_time,
    choosing_bins,
    partitions,
    rows_seen,
)

# --- kinds of figures -------------------------------------------------------------------------

Layers = Sequence[Line] | Sequence[Bars]


def spread_over_time(
    runs: Sequence[Run], title: str, caption: str, rows: Callable[[Run], Sequence[Row]]
) -> Figure | None:
    def lines(run: Run) -> list[Line]:
        return spread_lines(run, rows(run))

    def scale(values: Iterable[float]) -> Scale:
        return logarithmic(values, *Y_RANGE)

    return plotted(runs, title, caption, lines, y_scale=scale, y_unit="us")


def counted(
    runs: Sequence[Run],
    title: str,
    caption: str,
    rows: Callable[[Run], Sequence[Row]],
    tone: int,
) -> Figure | None:
    """Bars of width 1 around each value."""

    def bars(run: Run) -> list[Bars]:
        total = sum(row["count"] for row in rows(run))
        shapes = [
            (row["value"] - 0.5, row["value"] + 0.5, 100 * row["count"] / total)
            for row in rows(run)
        ]
        return [Bars("receives", shapes, tone)] if shapes else []

    return plotted(runs, title, caption, bars, x_scale=count_scale, x_unit="count")


def plotted(
    runs: Sequence[Run],
    title: str,
    caption: str,
    layers: Callable[[Run], Layers],
    *,
    x_scale: Callable[[Iterable[float]], Scale] | None = None,
    x_unit: Unit = "time",
    y_scale: Callable[[Iterable[float]], Scale] = lambda values: linear(values, *Y_RANGE),
    y_unit: Unit = "count",
    marks: Callable[[Run], Sequence[Mark]] | None = None,
    limits: Sequence[Mark] = (),
) -> Figure | None:
    """One plot for each run on common axes; None if there is nothing but zeros to see."""
    drawn = [layers(run) for run in runs]
    heights = [y for shapes in drawn for shape in shapes for y in ys(shape)]
    if not any(heights):
        return None
    if x_scale is None:
        x = Scale(0.0, max(run.seconds for run in runs), *X_RANGE)
    else:
        x = x_scale(place for shapes in drawn for shape in shapes for place in xs(shape))
    axes = Axes(x, y_scale(heights), x_unit, y_unit)
    mark = marks or (fault_marks if x_scale is None else no_marks)
    plots = tuple(
        chart(title, axes, shapes, mark(run), limits)
        for run, shapes in zip(runs, drawn, strict=True)
    )
    legend = {shape.name: shape.tone for shapes in drawn for shape in shapes}
    return Figure(title, caption, plots, tuple(legend.items()))


def xs(shape: Line | Bars) -> list[float]:
    if isinstance(shape, Bars):
        return [x for start, end, _ in shape.bars for x in (start, end)]
    return [x for x, y in shape.points if y is not None]


def ys(shape: Line | Bars) -> list[float]:
    if isinstance(shape, Bars):
        return [height for _, _, height in shape.bars]
    return [y for _, y in shape.points if y is not None]


def bins_scale(values: Iterable[float]) -> Scale:
    return logarithmic(values, *X_RANGE)


def count_scale(values: Iterable[float]) -> Scale:
    known = [*values, 0.5]
    return Scale(min(known), max(*known, 1.5), *X_RANGE)


def fault_marks(run: Run) -> list[Mark]:
    return [Mark((fault["at_us"] - run.began_us) / 1e6, fault["label"]) for fault in run.faults]


def no_marks(_: Run) -> list[Mark]:
    return []


# --- series -----------------------------------------------------------------------------------


def of_kind(run: Run, kind: str) -> list[Row]:
    return [row for row in run.latencies if row["kind"] == kind]


def moment(run: Run, slot: int) -> float:
    """The middle of a slot, s after the start."""
    return (slot + 0.5) * run.step_us / 1e6


def per_second(run: Run, kind: str | None, column: str) -> list[tuple[float, float | None]]:
    """0 where nothing was answered. The last slot counts as far as the run lasted."""
    sums = [0] * run.slots
    for row in run.answers:
        if kind in (None, row["kind"]) and row["slot"] < run.slots:
            sums[row["slot"]] += row[column]
    seconds = run.step_us / 1e6
    last = run.seconds - (run.slots - 1) * seconds
    lengths = [seconds] * (run.slots - 1) + [max(last, seconds / 2)]
    return [
        (moment(run, slot), total / length)
        for slot, (total, length) in enumerate(zip(sums, lengths, strict=True))
    ]


def spread_lines(run: Run, rows: Sequence[Row]) -> list[Line]:
    by_slot = {row["slot"]: row for row in rows}
    return [
        Line(
            name,
            [(moment(run, slot), known(by_slot, slot, column)) for slot in range(run.slots)],
            tone,
        )
        for column, name, tone in SPREAD
        if by_slot
    ]


def known(by_slot: dict[int, Row], slot: int, column: str) -> float | None:
    value = by_slot.get(slot, {}).get(column)
    return None if value is None else max(float(value), 1.0)


def level(run: Run, rows: Sequence[Row]) -> list[tuple[float, float | None]]:
    """What has come without what has gone, at the end of each slot."""
    changes = [0] * run.slots
    for row in rows:
        changes[min(row["slot"], run.slots - 1)] += row["came"] - row["gone"]
    return [(moment(run, slot), float(total)) for slot, total in enumerate(accumulate(changes))]


def shares(rows: Sequence[Row]) -> list[tuple[float, float | None]]:
    """In the middle of each bin; bins in between that nothing fell into are 0."""
    counts = {row["bin"]: row["count"] for row in rows}
    total = sum(counts.values())
    return [
        (bin_low_us(number) * bin_low_us(1) ** 0.5, 100 * counts.get(number, 0) / total)
        for number in range(min(counts), max(counts) + 1)
    ]
