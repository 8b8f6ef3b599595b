"""A comparison of servers as text, as Markdown and as a chart; pure.

Every figure is a ratio to the bare echo server of the same turn, so that the machine's swings touch
both sides; the figure of a row is the median over its turns.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from statistics import median

import msgspec

from bench import plot
from bench.machine import Machine
from bench.peer_load import LOAD_SECONDS_MAX
from bench.rig import Plan

STOPPED = "†"


class Cell(msgspec.Struct, frozen=True):
    """One server in one row, a figure for each turn; or why there is none."""

    ratios: list[float] = []
    cpu_us: list[float] = []
    per_second: list[float] = []
    client_shares: list[float] = []
    notes: list[str] = []
    problem: str | None = None

    @property
    def ratio(self) -> float | None:
        """Units per answer of the echo server."""
        return median(self.ratios) if self.ratios else None

    @property
    def cpu(self) -> float | None:
        """CPU microseconds of the server for a unit."""
        return median(self.cpu_us) if self.cpu_us else None


class Line(msgspec.Struct, frozen=True):
    """A row of the table: the echo server beside it, and a cell for each server that ran."""

    key: str
    name: str
    echo: Cell
    cells: dict[str, Cell]


class Entrant(msgspec.Struct, frozen=True):
    """A server with its conditions; `problem` says why it did not run."""

    name: str
    version: str
    runtime: str
    stored: str
    replicated: str
    verified: str
    problem: str | None = None


class Comparison(msgspec.Struct, frozen=True):
    """What is written as JSON."""

    measured_at: datetime
    machine: Machine
    plan: Plan
    entrants: list[Entrant]
    lines: list[Line]

    @property
    def ran(self) -> list[Entrant]:
        """Those that have figures."""
        return [entrant for entrant in self.entrants if entrant.problem is None]

    @property
    def client_share(self) -> float:
        """The largest part of its core that the load generator used in any turn."""
        cells = [cell for line in self.lines for cell in (line.echo, *line.cells.values())]
        return max((share for cell in cells for share in cell.client_shares), default=0.0)


Pick = Callable[[Cell], float | None]


def ratio_of(cell: Cell) -> float | None:
    return cell.ratio


def cpu_of(cell: Cell) -> float | None:
    return cell.cpu


def figure(value: float) -> str:
    """Three digits that matter are enough for a figure of a noisy machine."""
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2 if value >= 0.1 else 3}f}"


# --- text ----------------------------------------------------------------------------------------


def render(comparison: Comparison) -> str:
    """Both tables for a terminal."""
    parts = [
        text_table(comparison, "messages per answer of the bare echo server", ratio_of),
        text_table(comparison, "CPU microseconds of the server per message", cpu_of),
    ]
    return "\n\n".join([*parts, *["\n".join(remarks(comparison))] * bool(remarks(comparison))])


def text_table(comparison: Comparison, title: str, pick: Pick) -> str:
    names = [entrant.name for entrant in comparison.ran]
    with_echo = pick is cpu_of
    width = max([len(line.name) for line in comparison.lines] + [len(title)])
    heads = [*names, *["echo"] * with_echo]
    rows = [f"{title:<{width}}" + "".join(f"  {name:>12}" for name in heads)]
    for line in comparison.lines:
        found = [written(line.cells.get(name, Cell()), pick) for name in names]
        found += [written(line.echo, pick)] * with_echo
        rows.append(f"{line.name:<{width}}" + "".join(f"  {text:>12}" for text in found))
    return "\n".join(rows)


def written(cell: Cell, pick: Pick) -> str:
    value = pick(cell)
    if value is None:
        return "failed" if cell.problem else "not run"
    return figure(value) + (f" {STOPPED}" if cell.notes else "")


def remarks(comparison: Comparison) -> list[str]:
    """What the tables leave out: who did not run, what failed, which drains were cut short."""
    found = [
        f"{entrant.name} was not run: {entrant.problem}"
        for entrant in comparison.entrants
        if entrant.problem is not None
    ]
    for line in comparison.lines:
        for name, cell in line.cells.items():
            if cell.problem is not None:
                found.append(f"{line.name}: {name} failed: {cell.problem}")
            if cell.notes:
                found.append(f"{STOPPED} {line.name}: {name}: {'; '.join(cell.notes)}")
    return found


# --- Markdown ------------------------------------------------------------------------------------


def markdown(comparison: Comparison, chart_name: str) -> str:
    """The page: result, conditions, CPU time, how it was measured."""
    parts = [
        "# Beside other servers that speak SQS",
        "Messages per answer of a bare echo server in the same turn; the best of each row is bold.",
        markdown_table(comparison, "messages / echo answer", ratio_of, max),
        f"![The same as bars]({chart_name})",
        "The servers do not promise the same:",
        conditions_table(comparison),
        "CPU time of the server for a message, in microseconds; the least is bold. "
        "The echo server's is for a request.",
        markdown_table(comparison, "CPU µs / message", cpu_of, min),
        *(["- " + "\n- ".join(remarks(comparison))] if remarks(comparison) else []),
        "## Conditions",
        "- " + "\n- ".join([*comparison.machine.lines(), *method(comparison)]),
        f"`make bench-peers` renews this page; {comparison.measured_at:%Y-%m-%d}, turns: "
        f"{comparison.plan.turns}.",
    ]
    return "\n\n".join(parts) + "\n"


def method(comparison: Comparison) -> list[str]:
    """How it was measured, a sentence each."""
    plan = comparison.plan
    return [
        "every server on the same core, one at a time while the others are stopped; the load on "
        "another core",
        "64 and 256 are connections; drains are by 16 consumers that receive ten and delete them "
        "in a batch; the steady state is 16 producers and 16 such consumers, counted in messages "
        "that were sent, received and deleted; a FIFO send is by 64 connections",
        f"turns of {plan.slice_seconds:g} s or more, with echo before and after each server; a "
        "ratio within the turn, the median over the turns; a new queue for each; the longest drain "
        "once",
        "200-byte bodies, JSON protocol, keep-alive connections with one request under way each; "
        "the same requests for all",
        "some servers compile as they run, so all had load before anything was measured",
        "the peers as they come, with their defaults, in memory and without a log line per request",
        f"a drain ends when the queue is empty or after {LOAD_SECONDS_MAX:g} s "
        f"({STOPPED}: not empty then, and the rate is that until there)",
        f"the load generator used at most {comparison.client_share:.2f} of its core",
    ]


def markdown_table(
    comparison: Comparison, title: str, pick: Pick, best_of: Callable[[Sequence[float]], float]
) -> str:
    """Rows by servers, for this page and for others to quote."""
    names = [entrant.name for entrant in comparison.ran]
    with_echo = pick is cpu_of
    rows = [[title, *names, *["echo"] * with_echo]]
    rows.append(["---", *["---:"] * (len(names) + with_echo)])
    for line in comparison.lines:
        cells = [line.cells.get(name, Cell()) for name in names]
        values = [value for cell in cells if (value := pick(cell)) is not None]
        best = best_of(values) if values else None
        texts = [
            f"**{written(cell, pick)}**" if pick(cell) == best else written(cell, pick)
            for cell in cells
        ]
        rows.append([line.name, *texts, *[written(line.echo, pick)] * with_echo])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def conditions_table(comparison: Comparison) -> str:
    """What each server promises and runs on."""
    ran = comparison.ran
    rows = [["", *(f"{each.name} {each.version}" for each in ran)], ["---"] * (len(ran) + 1)]
    rows.append(["an acknowledged message is", *(each.stored for each in ran)])
    rows.append(["copies on other machines", *(each.replicated for each in ran)])
    rows.append(["signatures are verified", *(each.verified for each in ran)])
    rows.append(["runs on", *(each.runtime for each in ran)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


# --- chart ---------------------------------------------------------------------------------------


def chart(comparison: Comparison) -> str:
    """The first table as bars."""
    return plot.bar_chart(
        "SQS servers on one core, against a bare echo server",
        [line.name for line in comparison.lines],
        {
            f"{each.name} {each.version}": [
                line.cells.get(each.name, Cell()).ratio for line in comparison.lines
            ]
            for each in comparison.ran
        },
        value_label="messages per answer of the echo server; longer is faster",
        absent="failed",
    )
