"""A cluster of three nodes on one machine: what replication, forwarding and faults cost.

    python -m bench.cluster [--short] [--only SECTION,...] [--snapshot-mb N]
                            [--data-under DIRECTORY] [--json FILE]

Sections: rates, forwarding, commit, idle, snapshot, failover. Every line is a ratio or a time
within one run, the median of turns. Exit codes as in `node_load`; a short run shows only that
everything works.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import msgspec

from bench import (
    cluster_faults,
    cluster_rates,
    cluster_snapshot,
    load,
    machine,
    program,
    report,
    server_process,
)
from bench.cluster_nodes import Nodes, three_nodes
from bench.cluster_rates import Turns
from bench.cluster_snapshot import Beside
from bench.load import LoadError
from bench.report import Line
from bench.server_process import ServerError, busy_share

IDLE_PERCENT_MAX = 3.0
SECTIONS = ("rates", "forwarding", "commit", "idle", "snapshot", "failover")


class Plan(msgspec.Struct, frozen=True):
    """How much is measured."""

    groups: int = 8
    idle_groups: int = 64
    turns: Turns = Turns(rounds=5, slice_seconds=2.0, warmup_seconds=0.4, probes=300)
    idle_rounds: int = 3
    idle_seconds: float = 10.0
    snapshot: Beside = Beside(megabytes=200, slice_seconds=1.0, slices=5)
    kills: int = 10
    stops: int = 10


FULL = Plan()
SHORT = Plan(
    groups=3,
    idle_groups=3,
    turns=Turns(rounds=1, slice_seconds=0.15, warmup_seconds=0.05, probes=20),
    idle_rounds=1,
    idle_seconds=0.5,
    snapshot=Beside(megabytes=0, slice_seconds=0.2, slices=1),
    kills=1,
    stops=1,
)


class Results(msgspec.Struct, frozen=True):
    """What is written as JSON."""

    measured_at: datetime
    machine: machine.Machine
    plan: Plan
    lines: list[Line]
    # Why the rest could not be measured.
    problem: str | None = None


def measure_idle(nodes: Nodes, plan: Plan) -> list[Line]:
    """CPU time of all nodes while nobody asks for anything."""
    pids = nodes.pids()
    shares = [100 * busy_share(pids, plan.idle_seconds) for _ in range(plan.idle_rounds)]
    name = f"{len(nodes.queues)} idle groups: % of a core"
    detail = f"{len(pids)} nodes, {plan.idle_seconds:g} s, {report.spread(shares)}"
    return [Line(name, median(shares), detail, at_most=IDLE_PERCENT_MAX)]


def measure_sections(directory: Path, plan: Plan, chosen: Sequence[str]) -> Iterator[list[Line]]:
    """In the order of `SECTIONS`: faults come last, because they leave a node dead."""
    if "idle" in chosen and plan.idle_groups != plan.groups:
        with three_nodes(directory / "idle", plan.idle_groups) as nodes:
            yield measure_idle(nodes, plan)
        chosen = [name for name in chosen if name != "idle"]
    if chosen:
        with three_nodes(directory / "nodes", plan.groups) as nodes:
            for name in SECTIONS:
                if name in chosen:
                    yield measure_section(name, nodes, directory, plan)


def measure_section(name: str, nodes: Nodes, directory: Path, plan: Plan) -> list[Line]:
    if name == "rates":
        with server_process.node(directory / "single", None) as single:
            return cluster_rates.measure_rates(nodes, single, plan.turns)
    sections: dict[str, Callable[[], list[Line]]] = {
        "forwarding": lambda: cluster_rates.measure_forwarding(nodes, plan.turns),
        "commit": lambda: cluster_rates.measure_commit(nodes, plan.turns),
        "idle": lambda: measure_idle(nodes, plan),
        "snapshot": lambda: cluster_snapshot.measure_snapshot(nodes, plan.snapshot),
        "failover": lambda: cluster_faults.measure_failover(nodes, plan.kills, plan.stops),
    }
    return sections[name]()


def measure(parent: Path, plan: Plan, chosen: Sequence[str]) -> Results:
    """As far as it goes, with its data in a directory that is removed in the end."""
    load.build()
    lines: list[Line] = []
    problem: str | None = None
    with tempfile.TemporaryDirectory(prefix="cluster-", dir=parent.resolve()) as name:
        conditions = machine.describe(Path(name))
        try:
            for section in measure_sections(Path(name), plan, chosen):
                lines += section
        # The last: nodes that do not come to where they are waited for.
        except (LoadError, ServerError, AssertionError) as error:
            problem = str(error)
    return Results(datetime.now(UTC), conditions, plan, lines, problem)


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = program.options("cluster", "three nodes on one machine")
    parser.add_argument(
        "--only", type=parse_sections, default=SECTIONS, metavar="SECTION,...", help=f"{SECTIONS}"
    )
    parser.add_argument(
        "--snapshot-mb", type=int, metavar="N", help="size of the snapshot; the target is for 1000"
    )
    return parser.parse_args(arguments)


def parse_sections(text: str) -> list[str]:
    chosen = text.split(",")
    if unknown := set(chosen).difference(SECTIONS):
        raise argparse.ArgumentTypeError(f"no section {unknown.pop()!r}: {', '.join(SECTIONS)}")
    return chosen


def plan_of(chosen: argparse.Namespace) -> Plan:
    plan = SHORT if chosen.short else FULL
    if chosen.snapshot_mb is None:
        return plan
    snapshot = msgspec.structs.replace(plan.snapshot, megabytes=chosen.snapshot_mb)
    return msgspec.structs.replace(plan, snapshot=snapshot)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints, writes; the exit code says whether all targets are met."""
    chosen = parse_arguments(arguments)
    try:
        results = measure(program.data_directory(chosen), plan_of(chosen), chosen.only)
    except ServerError as problem:
        return program.refuse(str(problem))
    print_results(results)
    program.write(chosen.json, results)
    if results.problem is not None:
        return program.refuse(results.problem)
    return program.exit_code(results.lines, is_short=chosen.short)


def print_results(results: Results) -> None:
    turns = results.plan.turns
    print(*results.machine.lines(), sep="\n")
    print(
        f"all nodes and the load generator share {results.machine.cores} cores; "
        f"{turns.rounds} turns of {turns.slice_seconds:g} s each, medians; fsync on"
    )
    if results.lines:
        print(report.render(results.lines))


if __name__ == "__main__":
    sys.exit(main())
