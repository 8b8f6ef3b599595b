"""The table of targets: sections with lines or a reason why there are none, as text and Markdown.

Pure. A section that could not run does not hide the others, and is not taken for one that met its
targets.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from bench.machine import Machine
from bench.program import MISSED, NOT_RUN
from bench.report import Line
from bench.rig import Plan

COULD_NOT_RUN = "could not run"


class Section(msgspec.Struct, frozen=True):
    """What one measurement gave, or why it gave nothing."""

    name: str
    seconds: float
    lines: list[Line] = []
    problem: str | None = None


class Results(msgspec.Struct, frozen=True):
    """What is written as JSON."""

    measured_at: datetime
    machine: Machine
    plan: Plan
    conditions: list[str]
    sections: list[Section]

    @property
    def lines(self) -> list[Line]:
        return [line for section in self.sections for line in section.lines]


def exit_code(sections: Sequence[Section], *, is_short: bool) -> int:
    """Not having run is worse than a missed target; a short run judges nothing else."""
    if any(section.problem is not None for section in sections):
        return NOT_RUN
    is_met = all(line.is_met for section in sections for line in section.lines)
    return 0 if is_met or is_short else MISSED


def markdown(results: Results) -> str:
    """Conditions and table, to be pasted into a document."""
    machine = [f"- {line}" for line in results.machine.lines()]
    conditions = [f"- {line}" for line in results.conditions]
    day = f"- measured on {results.measured_at:%Y-%m-%d}"
    head = [
        "| what | target | measured | verdict | range over turns, figures |",
        "|---|---|---|---|---|",
    ]
    rows = [row for section in results.sections for row in section_rows(section)]
    return "\n".join([*machine, *conditions, day, "", *head, *rows, ""])


def section_rows(section: Section) -> list[str]:
    if section.problem is not None:
        return [markdown_row(section.name, "", "", COULD_NOT_RUN, section.problem)]
    return [
        markdown_row(line.name, line.target, figure(line.value), line.verdict, line.detail)
        for line in section.lines
    ]


def markdown_row(*cells: str) -> str:
    """One line of a table; a cell cannot hold what would end it."""
    plain = (" ".join(cell.replace("|", "/").split()) for cell in cells)
    return f"| {' | '.join(plain)} |"


def figure(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 100 else f"{value:,.0f}"
