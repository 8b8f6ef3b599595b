"""Plots of what a message costs a node that has more and more of something.

    python -m bench.flat [--only backlog,...] [--max 5000000] [--plots DIRECTORY] [--short]

For each dimension of `growth`: CPU time and p50 of sends and receives at growing sizes, against a
small node that takes turns with the large one. Writes `build/flat.json` and one SVG per dimension.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bench import growth, load, machine, plot, program, rig
from bench.growth import DIMENSIONS, FIGURES, RATIO_MAX, Dimension, Point
from bench.server_process import ROOT

PLOTS = ROOT / "docs" / "performance"
NAMES = {dimension.name.replace(" ", "-"): dimension for dimension in DIMENSIONS}


class Results(msgspec.Struct, frozen=True):
    """What is written as JSON; points by the name of their dimension."""

    measured_at: datetime
    machine: machine.Machine
    plan: rig.Plan
    points: dict[str, list[Point]]


def chart(dimension: Dimension, points: Sequence[Point]) -> str:
    """Ratios to the smallest size over the size."""
    series = {
        figure: [(float(point.size), point.ratio(figure)) for point in points] for figure in FIGURES
    }
    smallest = f"{dimension.smallest:,} {dimension.unit}"
    return plot.line_chart(
        f"Cost of a message over {dimension.unit}",
        dimension.unit,
        f"times the cost at {smallest}",
        series,
        log_x=True,
        reference=RATIO_MAX,
    )


def render(dimension: Dimension, points: Sequence[Point]) -> str:
    """The figures as text: microseconds, and the ratio to the smallest in brackets."""
    head = f"{dimension.unit:>20}" + "".join(f"{figure:>20}" for figure in FIGURES)
    rows = []
    for point in points:
        costs = zip(FIGURES, msgspec.structs.astuple(point.cost), strict=True)
        cells = "".join(f"{us:>12,.0f} ({point.ratio(name):5.2f})" for name, us in costs)
        rows.append(f"{point.size:>20,}{cells}")
    return "\n".join([head, *rows])


def sizes_of(dimension: Dimension, plan: rig.Plan, size_max: int) -> list[int]:
    """Up to the largest, scaled; the smallest is there once."""
    scaled = (max(dimension.smallest, int(size * plan.scale)) for size in dimension.sizes)
    return sorted({size // 10 * 10 if size >= 10 else size for size in scaled if size <= size_max})


def measure(
    parent: Path, plan: rig.Plan, dimensions: Sequence[Dimension], size_max: int
) -> dict[str, list[Point]]:
    load.build()
    points = {}
    for dimension in dimensions:
        began = time.monotonic()

        def say(text: str, began: float = began) -> None:
            print(f"[{time.monotonic() - began:6.1f} s] {text}", flush=True)

        with tempfile.TemporaryDirectory(prefix="flat-", dir=parent) as name:
            of = rig.rig_in(Path(name), plan, say)
            sizes = sizes_of(dimension, plan, size_max)
            points[dimension.name] = growth.measure_growth(of, dimension, sizes)
        print(render(dimension, points[dimension.name]), flush=True)
    return points


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = program.options("flat", "plots of flat costs")
    parser.add_argument(
        "--only", type=parse_names, default=list(NAMES), metavar="NAME,...", help=", ".join(NAMES)
    )
    largest = max(max(dimension.sizes) for dimension in DIMENSIONS)
    parser.add_argument("--max", type=int, default=largest, metavar="SIZE", help="no larger size")
    parser.add_argument("--turns", type=int, default=None, help="more of them on a busy machine")
    parser.add_argument("--plots", type=Path, default=PLOTS, metavar="DIRECTORY")
    return parser.parse_args(arguments)


def parse_names(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names).difference(NAMES):
        raise argparse.ArgumentTypeError(f"no dimension {unknown.pop()!r}: {', '.join(NAMES)}")
    return names


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 unless it could not run: a plot is not judged."""
    chosen = parse_arguments(arguments)
    plan = rig.SHORT if chosen.short else rig.FULL
    if chosen.turns is not None:
        plan = msgspec.structs.replace(plan, turns=chosen.turns)
    dimensions = [NAMES[name] for name in chosen.only]
    try:
        parent = program.data_directory(chosen)
        points = measure(parent, plan, dimensions, chosen.max)
    except program.PROBLEMS as problem:
        return program.refuse(str(problem))
    program.write(chosen.json, Results(datetime.now(UTC), machine.describe(parent), plan, points))
    chosen.plots.mkdir(parents=True, exist_ok=True)
    for name, dimension in NAMES.items():
        if dimension in dimensions:
            file = chosen.plots / f"{name}.svg"
            file.write_text(chart(dimension, points[dimension.name]))
            print(file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
