"""More load than a node can carry: what is still served, how fast, and in how much memory.

    python -m bench.overload [--short] [--data-under DIRECTORY] [--json FILE]

In every turn the node's peak is taken in a closed loop of 256 connections; then it is offered three
times as much in an open loop, by many connections that wait for nobody, and by a crowd of them. The
ratios are taken within a turn. Exit codes as those of `node_load`.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import msgspec

from bench import load, machine, node_load, report, server_process
from bench.load import Outcome
from bench.report import Line
from bench.server_process import ROOT, Server

SHED = "fastnode_requests_shed_total"
OFFERED = 3
# A request waits for as long as the backlog may take, twice; and while its connection rests.
P99_MS_MAX = 1_000.0
GROWTH_MB_MAX = 256.0


class Plan(msgspec.Struct, frozen=True):
    """How much is measured."""

    rounds: int = 4
    slice_seconds: float = 3.0
    warmup_seconds: float = 1.0
    connections: int = 256
    many: int = 2_000
    crowd: int = 8_000


FULL = Plan()
SHORT = Plan(rounds=1, slice_seconds=0.4, warmup_seconds=0.1, connections=64, many=256, crowd=1_000)


class Slice(msgspec.Struct, frozen=True):
    """One load, and what the node said afterwards."""

    outcome: Outcome
    resident_bytes: int
    shed: float

    @property
    def per_cpu_second(self) -> float:
        """Answers of 200 per second of the node's CPU time: what swings least on a busy machine."""
        return 1e6 / self.outcome.server_cpu_us


class Results(msgspec.Struct, frozen=True):
    """What is written as JSON."""

    measured_at: datetime
    machine: machine.Machine
    plan: Plan
    lines: list[Line]
    slices: dict[str, list[Slice]]


class Bench:
    """A node under load, pinned apart from it."""

    def __init__(self, node: Server, file: Path, plan: Plan, core: int | None) -> None:
        self._node = node
        self._file = file
        self._plan = plan
        self._core = core

    def turn(self) -> dict[str, Slice]:
        """Peak, overload in three shapes, and the peak again at once."""
        plan = self._plan
        peak = self._measure(plan.connections)
        offered = max(1, round(OFFERED * peak.outcome.rate))
        return {
            "peak": peak,
            "open": self._measure(plan.many, rate=offered),
            "many": self._measure(plan.many),
            "crowd": self._measure(plan.crowd),
            "after": self._measure(plan.connections),
        }

    def _measure(self, connections: int, rate: int | None = None) -> Slice:
        before, plan = self._node.counter(SHED), self._plan
        outcome = load.run(
            load.Load(
                target=self._node.address,
                seconds=plan.slice_seconds,
                warmup=plan.warmup_seconds,
                cycles=[(connections, self._file)],
                rate=rate,
                core=self._core,
                watched=self._node.process_ids(),
            )
        )
        check(outcome)
        resident = self._node.resident_bytes()
        return Slice(outcome, resident, self._node.counter(SHED) - before)


def check(outcome: Outcome) -> None:
    """Every request is answered, with 200 or with 503."""
    statuses = {
        status for group in outcome.groups for step in group.steps for status in step.statuses
    }
    if not statuses <= {200, 503}:
        raise load.LoadError(f"neither 200 nor 503: {outcome.first_failure}")
    if outcome.answered != outcome.sent or outcome.connections_lost:
        lost = outcome.sent - outcome.answered
        raise load.LoadError(f"{lost} unanswered, {outcome.connections_lost} connections lost")


def lines_of(slices: dict[str, list[Slice]]) -> list[Line]:
    """The figures with their targets."""
    shapes = {
        "open": "thrice the peak",
        "many": "many connections",
        "crowd": "crowd",
    }
    lines = [line for key, name in shapes.items() for line in shape_lines(name, slices, key)]
    after = ratios(slices, "after", rate)
    lines.append(Line("after it: goodput / peak", median(after), report.spread(after), 0.8))
    return [*lines, growth_line(slices)]


def rate(one: Slice) -> float:
    """Answers of 200 per second."""
    return one.outcome.rate


def ratios(slices: dict[str, list[Slice]], key: str, pick: Callable[[Slice], float]) -> list[float]:
    """One per turn."""
    return [pick(a) / max(pick(b), 1e-9) for a, b in zip(slices[key], slices["peak"], strict=True)]


def shape_lines(name: str, slices: dict[str, list[Slice]], key: str) -> list[Line]:
    """Goodput, CPU and latency of one shape of overload."""
    goodput, work = ratios(slices, key, rate), ratios(slices, key, lambda one: one.per_cpu_second)
    outcomes = [one.outcome for one in slices[key]]
    p99 = median(outcome.step.p99_us / 1e3 for outcome in outcomes)
    shed = sum(one.shed for one in slices[key]) / sum(outcome.sent for outcome in outcomes)
    unsent = sum(outcome.unsent for outcome in outcomes)
    here, peak = median(map(rate, slices[key])), median(map(rate, slices["peak"]))
    served = f"{here:,.0f}/s against {peak:,.0f}/s"
    return [
        Line(
            f"{name}: goodput / peak", median(goodput), f"{served}, {report.spread(goodput)}", 0.8
        ),
        Line(f"{name}: goodput per CPU / peak", median(work), report.spread(work)),
        Line(f"{name}: p99 ms of what is served", p99, "", None, P99_MS_MAX),
        Line(f"{name}: share shed", shed, f"{unsent:,} found no connection"),
    ]


def growth_line(slices: dict[str, list[Slice]]) -> Line:
    """Resident memory of the largest slice against the first peak."""
    first = slices["peak"][0].resident_bytes
    most = max(one.resident_bytes for each in slices.values() for one in each)
    detail = f"from {first / 1e6:.0f} to {most / 1e6:.0f}, what is stored included"
    return Line("resident MB more", (most - first) / 1e6, detail, None, GROWTH_MB_MAX)


def measure(parent: Path, plan: Plan, command: Sequence[str]) -> Results:
    """The whole table, with its data in a directory that is removed in the end."""
    load.build()
    server_core, load_core = machine.choose_cores()
    slices: dict[str, list[Slice]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-", dir=parent) as name:
        directory = Path(name)
        conditions = machine.describe(directory)
        with server_process.node(directory / "data", server_core, command) as node:
            single, _ = node_load.write_requests(node, directory)
            bench = Bench(node, single, plan, load_core)
            for _ in range(plan.rounds):
                for key, one in bench.turn().items():
                    slices.setdefault(key, []).append(one)
    return Results(datetime.now(UTC), conditions, plan, lines_of(slices), slices)


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="bench.overload", description="three times the peak")
    parser.add_argument("--short", action="store_true", help="a smoke: verdicts do not count")
    parser.add_argument("--data-under", type=Path, default=ROOT / "build", metavar="DIRECTORY")
    default = ROOT / "build" / "overload.json"
    parser.add_argument("--json", type=Path, default=default, metavar="FILE")
    return parser.parse_args(arguments)


def main(
    arguments: Sequence[str] | None = None,
    *,
    command: Sequence[str] = server_process.NODE_COMMAND,
    plan: Plan | None = None,
) -> int:
    """Measures, prints, writes; the exit code says whether all targets are met."""
    chosen = parse_arguments(arguments)
    chosen.data_under.mkdir(parents=True, exist_ok=True)
    try:
        results = measure(chosen.data_under, plan or (SHORT if chosen.short else FULL), command)
    except (load.LoadError, server_process.ServerError) as problem:
        return node_load.refuse(str(problem))
    print(*results.machine.lines(), sep="\n")
    print(report.render(results.lines))
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    chosen.json.write_bytes(msgspec.json.format(msgspec.json.encode(results)))
    return int(not chosen.short and not all(line.is_met for line in results.lines))


if __name__ == "__main__":
    sys.exit(main())
