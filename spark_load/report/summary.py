"""A report's numbers: a table for one or two runs, as values and as text. Pure."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from spark_load.report.runs import END_TO_END, Run, names
from spark_load.report.scale import amount, clock, duration


class Number(NamedTuple):
    """A line of the table. `value` is None where a run has nothing to say about it."""

    name: str
    value: Callable[[Run], float | None]
    write: Callable[[float], str]


def _share(part: int, whole: int) -> float | None:
    return 100 * part / whole if whole else None


def _failed(run: Run) -> float | None:
    kinds = [row for kind, row in run.totals.items() if kind != END_TO_END]
    failed = sum(row["refused"] + row["unanswered"] for row in kinds)
    return _share(failed, failed + sum(row["ok"] for row in kinds))


def _quantile(kind: str, column: str) -> Callable[[Run], float | None]:
    def value(run: Run) -> float | None:
        found = run.totals.get(kind, {}).get(column)
        return None if found is None else float(found)

    return value


def _late(run: Run) -> float | None:
    return max((row["p99"] for row in run.lateness if row["p99"] is not None), default=None)


def _busiest_node(run: Run) -> float | None:
    calls = [row["calls"] for row in run.endpoints]
    return _share(max(calls, default=0), sum(calls))


def percent(value: float) -> str:
    return f"{value:.3g} %"


NUMBERS: Final = (
    Number("duration", lambda run: run.seconds, clock),
    Number("messages planned", lambda run: run.planned, amount),
    Number("messages sent", lambda run: run.total("send", "messages"), amount),
    Number("sent per second", lambda run: run.total("send", "messages") / run.seconds, amount),
    Number("messages received", lambda run: run.total("receive", "messages"), amount),
    Number("attempts that failed", _failed, percent),
    Number("send p50", _quantile("send", "p50"), duration),
    Number("send p99", _quantile("send", "p99"), duration),
    Number("send p99.9", _quantile("send", "p999"), duration),
    Number("send longest", _quantile("send", "max"), duration),
    Number("delete p99", _quantile("delete", "p99"), duration),
    Number("end to end p50", _quantile(END_TO_END, "p50"), duration),
    Number("end to end p99", _quantile(END_TO_END, "p99"), duration),
    Number("end to end longest", _quantile(END_TO_END, "max"), duration),
    Number("lateness p99, worst slot", _late, duration),
    Number("receives over budget", lambda run: run.over_budget, amount),
    Number("busiest node's share of sends", _busiest_node, percent),
)


def verdict_words(run: Run) -> str:
    if run.verdict is None:
        return "not judged"
    wrong = {name: count for name, count in run.violations.items() if count}
    return run.verdict + "".join(f", {name} {count:,}" for name, count in wrong.items())


def change(number: Number, first: Run, second: Run) -> str:
    """The second against the first, as a factor."""
    before, after = number.value(first), number.value(second)
    if not before or after is None:
        return ""
    return f"{after / before:.2f} times"


def rows(runs: Sequence[Run]) -> list[list[str]]:
    """Name, a value for each run, and the change if there are two; without empty lines."""
    table = []
    for number in NUMBERS:
        values = [number.value(run) for run in runs]
        if any(value is not None for value in values):
            written = ["" if value is None else number.write(value) for value in values]
            table.append([number.name, *written, *(_changes(number, runs))])
    return table


def _changes(number: Number, runs: Sequence[Run]) -> list[str]:
    return [change(number, *runs)] if len(runs) == 2 else []


def text(runs: Sequence[Run]) -> str:
    """For a terminal."""
    head = [["", *names(runs)]]
    head.append(["verdict", *(verdict_words(run) for run in runs)])
    table = head + rows(runs)
    widths = [max(len(row[i]) for row in table if i < len(row)) for i in range(len(runs) + 1)]
    return "".join(_line(row, widths) for row in table)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [row[0].ljust(widths[0])]
    cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=False)]
    return "  ".join([*cells, *row[len(widths) :]]).rstrip() + "\n"
