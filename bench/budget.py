"""The budget of one request: CPU microseconds by stage, and a flame graph of the same stacks.

    python -m bench.budget [--workload send|batch|receive|fifo|forward] [--connections N]
                           [--seconds S] [--tree CHECKOUT] [--before FILE] [--markdown]
                           [--frames] [--svg FILE] [--json FILE] [--data-under DIRECTORY]

Two runs of the same load. In the first nobody looks: what every thread used is the total. In the
second `spy` samples stacks, which only divide that total into stages (`stages`). `--tree` takes the
node of another checkout, so that two commits are measured by one tool; `--before` shows the
figures of such a run beside these. Nothing here is a gate.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from bench import flame, load, machine, node_load, spy, stages
from bench.budget_loads import WORKLOADS, Plan, Running
from bench.load import LoadError
from bench.server_process import ROOT, ServerError
from bench.stages import Row, Stack

FRAMES_KEPT: Final = 12
COLOURS: Final = {
    stages.KERNEL: "#b9c2cf",
    stages.HEAD: "#f2c879",
    stages.SIGNATURE: "#e8a08c",
    stages.PLAN: "#9fd0a5",
    stages.COMMIT: "#8fb8e8",
    stages.APPLY: "#c3aee6",
    stages.ANSWER: "#f0b6d2",
    stages.LINKS: "#8fd3d1",
    stages.OTHER: "#d9d2c3",
}
# A bare path of sockets, signature, log and engine without consensus and features, measured apart:
# what the stages of a SendMessage can cost. It scanned heads within its own 2.3 µs.
PROTOTYPE: Final = {
    stages.KERNEL: "12",
    stages.SIGNATURE: "1.0",
    stages.PLAN: "0.5",
    stages.COMMIT: "4 to 8",
    stages.APPLY: "2 to 6",
    stages.ANSWER: "0.9",
}


class Budget(msgspec.Struct, frozen=True):
    """What is written as JSON."""

    workload: str
    connections: int
    commit: str
    requests_per_second: float
    samples: int
    rows: list[Row]
    # Of each stage the frames that it is made of, heaviest first.
    frames: dict[str, list[tuple[str, float]]]
    machine: machine.Machine

    @property
    def total_us(self) -> float:
        """All threads, per unit."""
        return sum(row.all_us for row in self.rows)


def take(running: Running, directory: Path) -> tuple[dict[Stack, float], float, int]:
    """CPU microseconds per unit by stack, answers per second, samples."""
    bounds = running.next_load()
    before = spy.look(running.pids)
    plain = load.run(bounds)
    threads = spy.used(before, spy.look(running.pids))
    plain.check()
    bounds = running.next_load()
    with spy.recorded(running.pids, directory) as samples:
        sampled = load.run(bounds)
    sampled.check()
    units = running.units(plain)
    weights = {
        stack: seconds * 1e6 / units for stack, seconds in stages.weigh(samples, threads).items()
    }
    return weights, plain.rate, sum(one.count for one in samples)


def measure(chosen: argparse.Namespace, directory: Path) -> tuple[Budget, dict[Stack, float]]:
    """Starts nodes, takes both runs, stops them."""
    spy.program()
    workload = WORKLOADS[chosen.workload]
    plan = Plan(chosen.connections, chosen.seconds, chosen.tree.resolve(), directory)
    with workload.run(plan) as running:
        weights, rate, samples = take(running, directory)
    budget = Budget(
        workload=chosen.workload,
        connections=running.connections,
        commit=commit_of(chosen.tree),
        requests_per_second=rate,
        samples=samples,
        rows=stages.rows(weights),
        frames={stage: stages.heaviest(weights, stage, FRAMES_KEPT) for stage in stages.STAGES},
        machine=machine.describe(directory),
    )
    return budget, weights


def commit_of(tree: Path) -> str:
    """The commit of a checkout, or nothing outside of one."""
    command = ["git", "-C", str(tree), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


# --- what is shown -------------------------------------------------------------------------------


def render_text(budget: Budget, explained: Sequence[str]) -> str:
    """The table for a terminal, and the frames of these stages."""
    lines = [f"{'stage':<24}{'event loop':>11}{'threads':>10}{'all':>10}{'share':>8}"]
    for row in [*budget.rows, sum_of(budget.rows)]:
        share = row.all_us / max(budget.total_us, 1e-9)
        lines.append(
            f"{row.stage:<24}{row.loop_us:>11.2f}{row.threads_us:>10.2f}{row.all_us:>10.2f}"
            f"{share:>8.1%}"
        )
    for stage in explained:
        frames = budget.frames[stage]
        lines += [f"in {stage}:"] if frames else []
        lines += [f"  {microseconds:6.2f} µs  {frame}" for frame, microseconds in frames]
    return "\n".join(lines)


def sum_of(rows: Sequence[Row]) -> Row:
    """The last line of a table."""
    loop, threads = (sum(getattr(row, name) for row in rows) for name in ("loop_us", "threads_us"))
    return Row("sum", loop, threads)


def render_markdown(after: Budget, before: Budget | None) -> str:
    """The table for a document: a column for each commit, and the prototype's where it has one."""
    columns = [budget for budget in (before, after) if budget is not None]
    heads = [f"{budget.commit}, µs" for budget in columns]
    has_prototype = after.workload == "send"
    heads += ["prototype, µs"] if has_prototype else []
    lines = ["| stage | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    tables = [[*budget.rows, sum_of(budget.rows)] for budget in columns]
    for rows in zip(*tables, strict=True):
        cells = [f"{row.all_us:.1f}" for row in rows]
        cells += [PROTOTYPE.get(rows[0].stage, "")] if has_prototype else []
        lines.append(f"| {rows[0].stage} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def render_title(budget: Budget) -> str:
    """What was measured, in one line."""
    return (
        f"{WORKLOADS[budget.workload].unit}, {budget.connections} connections, {budget.commit}: "
        f"{budget.total_us:.1f} µs CPU each at {budget.requests_per_second:,.0f} answers/s, "
        f"{budget.samples} samples"
    )


def draw(budget: Budget, weights: dict[Stack, float]) -> str:
    """The flame graph, coloured by stage."""

    def paint(frame: str) -> str:
        is_system = stages.SYSTEM_CALL.match(frame)
        stage = stages.KERNEL if is_system else stages.stage_of_frame(frame)
        return COLOURS.get(stage or "", "#e9e9e9")

    return flame.render(
        stages.without_common_start(weights),
        title=render_title(budget),
        unit="µs",
        paint=paint,
        legend=list(COLOURS.items()),
    )


# --- the command ---------------------------------------------------------------------------------


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="bench.budget", description="CPU of a request by stage")
    parser.add_argument("--workload", choices=list(WORKLOADS), default="send")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=15.0, help="of each of the two runs")
    parser.add_argument("--tree", type=Path, default=ROOT, metavar="CHECKOUT")
    parser.add_argument("--before", type=Path, metavar="FILE", help="JSON of another run")
    parser.add_argument("--markdown", action="store_true", help="the table for a document")
    parser.add_argument("--frames", action="store_true", help="what every stage is made of")
    parser.add_argument("--svg", type=Path, default=ROOT / "build/profile.svg", metavar="FILE")
    parser.add_argument("--json", type=Path, default=ROOT / "build/profile.json", metavar="FILE")
    parser.add_argument("--data-under", type=Path, default=ROOT / "build", metavar="DIRECTORY")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 unless the budget could not be taken."""
    chosen = parse_arguments(arguments)
    for directory in (chosen.data_under, chosen.svg.parent, chosen.json.parent):
        directory.mkdir(parents=True, exist_ok=True)
    load.build()
    with tempfile.TemporaryDirectory(prefix="budget-", dir=chosen.data_under.resolve()) as name:
        try:
            budget, weights = measure(chosen, Path(name))
        except (LoadError, ServerError) as problem:
            return node_load.refuse(str(problem))
    chosen.svg.write_text(draw(budget, weights))
    chosen.json.write_bytes(msgspec.json.format(msgspec.json.encode(budget)))
    print(*budget.machine.lines(), render_title(budget), "", sep="\n")
    before = chosen.before and msgspec.json.decode(chosen.before.read_bytes(), type=Budget)
    explained = stages.STAGES if chosen.frames else (stages.OTHER,)
    print(render_markdown(budget, before) if chosen.markdown else render_text(budget, explained))
    print(f"\nflame graph: {chosen.svg}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
