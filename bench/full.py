"""Every target of a node's performance, measured in one program.

    python -m bench.full [--only send,drain,...] [--scale 0.1] [--processed N] [--short]

Each section starts its own servers, takes turns with what it is compared with, and prints how far
it is. Writes `build/bench-full.json` and `build/bench-full.md`. A section that cannot run says why
and the rest goes on. Exit codes: 0 every target met, 1 one is missed, 2 something could not run.
"""

import argparse
import importlib.util
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bench import (
    full_latency,
    full_memory,
    full_rates,
    growth,
    load,
    machine,
    node_load,
    program,
    report,
    rig,
    table,
)
from bench.growth import BACKLOG, IN_FLIGHT, PROCESSED, QUEUES, Dimension
from bench.report import Line
from bench.rig import Rig
from bench.server_process import NODE_COMMAND, ROOT, ServerError
from bench.table import Results, Section

WORKERS = "bench.workers"
WORKERS_SECONDS_MAX = 600.0


def measure_send(of: Rig) -> list[Line]:
    """SendMessage and SendMessageBatch against echo."""
    plan = node_load.Plan(of.plan.turns, of.plan.slice_seconds, of.plan.warmup_seconds)
    return node_load.measure_load(of.directory, plan, NODE_COMMAND, of.say)[0]


def measure_dimension(of: Rig, dimension: Dimension, size: int) -> list[Line]:
    (point,) = growth.measure_growth(of, dimension, [size])
    return growth.growth_lines(dimension, point)


def measure_backlog(of: Rig) -> list[Line]:
    return measure_dimension(of, BACKLOG, of.count(1_000_000, least=growth.BASE + 200))


def measure_processed(of: Rig) -> list[Line]:
    return measure_dimension(of, PROCESSED, of.count(of.plan.processed))


def measure_in_flight(of: Rig) -> list[Line]:
    return measure_dimension(of, IN_FLIGHT, of.count(100_000))


def measure_queues(of: Rig) -> list[Line]:
    """Load on one of many, then on all."""
    queues = of.count(10_000, least=20)
    return [*measure_dimension(of, QUEUES, queues), *growth.measure_spread(of, queues)]


def measure_workers(of: Rig) -> list[Line]:
    """A program of its own: its nodes are not pinned to one core."""
    if importlib.util.find_spec(WORKERS) is None:
        raise ServerError(f"there is no {WORKERS}")
    file = of.directory / "workers.json"
    command = [sys.executable, "-m", WORKERS, "--json", str(file)]
    command += ["--data-under", str(of.directory)] + ["--short"] * (of.plan.turns == 1)
    done = subprocess.run(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        timeout=WORKERS_SECONDS_MAX,
        check=False,
    )
    if not file.exists():
        raise ServerError(f"{WORKERS} ended with {done.returncode}; its reason is above")
    return msgspec.convert(msgspec.json.decode(file.read_bytes())["lines"], list[Line])


SECTIONS: dict[str, Callable[[Rig], list[Line]]] = {
    "send": measure_send,
    "drain": full_rates.measure_drain,
    "deep": full_rates.measure_deep_drain,
    "steady": full_rates.measure_steady,
    "fifo": full_rates.measure_fifo,
    "lone": full_latency.measure_lone_send,
    "poll": full_latency.measure_long_poll,
    "backlog": measure_backlog,
    "processed": measure_processed,
    "inflight": measure_in_flight,
    "queues": measure_queues,
    "large": full_latency.measure_large,
    "idle": full_memory.measure_idle,
    "million": full_memory.measure_million,
    "polls": full_memory.measure_polls,
    "workers": measure_workers,
}


def measure_section(name: str, parent: Path, plan: rig.Plan) -> Section:
    """In a directory of its own, which is removed in the end."""
    began = time.monotonic()
    lines: list[Line] = []
    problem: str | None = None

    def say(text: str) -> None:
        print(f"[{time.monotonic() - began:6.1f} s] {text}", flush=True)

    try:
        with tempfile.TemporaryDirectory(prefix=f"full-{name}-", dir=parent) as directory:
            lines = SECTIONS[name](rig.rig_in(Path(directory), plan, say))
    except program.PROBLEMS as error:
        problem = str(error) or type(error).__name__
        say(f"{name} {table.COULD_NOT_RUN}: {problem}")
    return Section(name, time.monotonic() - began, lines, problem)


def measure(parent: Path, plan: rig.Plan, names: Sequence[str]) -> Results:
    load.build()
    began = time.monotonic()
    sections = []
    for number, name in enumerate(names, start=1):
        print(f"{name}: section {number} of {len(names)}, {time.monotonic() - began:.0f} s so far")
        sections.append(measure_section(name, parent, plan))
        if sections[-1].lines:
            print(report.render(sections[-1].lines), flush=True)
    return Results(datetime.now(UTC), machine.describe(parent), plan, conditions(plan), sections)


def conditions(plan: rig.Plan) -> list[str]:
    server_core, _ = machine.choose_cores()
    pinned = "one core only, nothing pinned: the ratios mean little"
    if server_core is not None:
        pinned = "server pinned to one core, load on another"
    scaled = "" if plan.scale == 1.0 else f", {plan.scale:g} of the sizes"
    return [
        f"{pinned}; fsync on, signatures verified, 200-byte bodies",
        f"{plan.turns} turns of {plan.slice_seconds:g} s, medians of ratios within a turn{scaled}",
    ]


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = program.options("full", "every target of a node", json="bench-full.json")
    parser.add_argument(
        "--only",
        type=parse_names,
        default=list(SECTIONS),
        metavar="NAME,...",
        help=f"some of: {', '.join(SECTIONS)}",
    )
    parser.add_argument("--scale", type=float, default=None, help="sizes of queues, 1 is the whole")
    parser.add_argument("--turns", type=int, default=None, help="more of them on a busy machine")
    parser.add_argument("--processed", type=int, default=None, metavar="N", help="10,000,000")
    return parser.parse_args(arguments)


def parse_names(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names).difference(SECTIONS):
        raise argparse.ArgumentTypeError(f"no section {unknown.pop()!r}: {', '.join(SECTIONS)}")
    return [name for name in SECTIONS if name in names]


def plan_of(chosen: argparse.Namespace) -> rig.Plan:
    names = ("scale", "turns", "processed")
    given = {name: getattr(chosen, name) for name in names if getattr(chosen, name) is not None}
    return msgspec.structs.replace(rig.SHORT if chosen.short else rig.FULL, **given)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints, writes; the exit code says whether all targets are met."""
    chosen = parse_arguments(arguments)
    try:
        parent = program.data_directory(chosen)
    except ServerError as problem:
        return program.refuse(str(problem))
    results = measure(parent, plan_of(chosen), chosen.only)
    program.write(chosen.json, results)
    text = table.markdown(results)
    chosen.json.with_suffix(".md").write_text(text)
    print(text)
    return table.exit_code(results.sections, is_short=chosen.short)


if __name__ == "__main__":
    sys.exit(main())
