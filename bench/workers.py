"""A node of two workers against a node of one process: 16 queues, the same load in the same run.

    python -m bench.workers [--short] [--data-under DIRECTORY] [--json FILE]

Nothing is pinned: both nodes have all cores of the machine and share them with the load, as they
would with a neighbour. Slices of load take turns. CPU is that of all processes of a node, the
supervisor too. Exit codes as in `bench.node_load`.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import msgspec

from bench import load, machine, report, server_process, sqs_requests
from bench.node_load import FSYNCS, refuse
from bench.report import Line, Sample, cpu_us, middle, paired, rate, spread
from bench.server_process import ROOT, Server
from fastnode import native
from fastnode.config import GROUPS_DEFAULT

REGION = "us-east-1"
QUEUES = 16
CONNECTIONS_PER_QUEUE = 4
WORKERS = 2
RATE_AT_LEAST = 1.3
CPU_AT_MOST = 1.25
REQUESTS_PER_FILE = 64
MOVED = "fastnode_connections_handed_over_total"
FORWARDED = "fastnode_calls_for_siblings_total"


class Plan(msgspec.Struct, frozen=True):
    """How much is measured."""

    rounds: int = 6
    slice_seconds: float = 3.0
    warmup_seconds: float = 0.5


FULL = Plan()
SHORT = Plan(rounds=1, slice_seconds=0.5, warmup_seconds=0.2)


class Lane(msgspec.Struct, frozen=True):
    """One of the nodes, with a file of requests for each queue."""

    server: Server
    files: list[Path]

    def measure(self, plan: Plan) -> Sample:
        """One slice, on connections of its own."""
        before = self.server.counter(FSYNCS)
        outcome = load.run(
            load.Load(
                target=self.server.address,
                seconds=plan.slice_seconds,
                warmup=plan.warmup_seconds,
                cycles=[(CONNECTIONS_PER_QUEUE, file) for file in self.files],
                watched=self.server.process_ids(),
            )
        )
        outcome.check()
        return Sample(outcome, self.server.counter(FSYNCS) - before)


class Results(msgspec.Struct, frozen=True):
    """What is written as JSON."""

    measured_at: datetime
    machine: machine.Machine
    plan: Plan
    lines: list[Line]
    slices: dict[str, list[Sample]]


def queue_names() -> list[str]:
    """As many in each group, so that each worker has as many."""
    wanted = QUEUES // GROUPS_DEFAULT
    by_group: dict[int, list[str]] = {group: [] for group in range(GROUPS_DEFAULT)}
    number = 0
    while any(len(names) < wanted for names in by_group.values()):
        name, number = f"bench-{number}", number + 1
        segment = native.queue_segment("000000000000", REGION, name)
        names = by_group[native.home_group(segment, GROUPS_DEFAULT)]
        if len(names) < wanted:
            names.append(name)
    return [name for names in by_group.values() for name in names]


def write_requests(node: Server, directory: Path) -> list[Path]:
    """A file of signed sends for each of its queues, which are made."""
    signer = sqs_requests.Signer(host=node.address, signed_at=datetime.now(UTC))
    files: list[Path] = []
    for name in queue_names():
        created = signer.request("CreateQueue", {"QueueName": name})
        url = msgspec.json.decode(server_process.exchange(node.address, created))["QueueUrl"]
        file = directory / f"{node.pid}-{name}.http"
        file.write_bytes(sqs_requests.sends(signer, url, count=REQUESTS_PER_FILE))
        files.append(file)
    return files


def take_turns(lanes: dict[str, Lane], plan: Plan) -> dict[str, list[Sample]]:
    """Every lane once per round; every other round backwards, so that drift favours none."""
    samples: dict[str, list[Sample]] = {name: [] for name in lanes}
    order = list(lanes.items())
    for _ in range(plan.rounds):
        for name, lane in order:
            samples[name].append(lane.measure(plan))
        order.reverse()
    return samples


def measure(parent: Path, plan: Plan) -> Results:
    """The whole table, with its data in a directory that is removed in the end."""
    load.build()
    with tempfile.TemporaryDirectory(prefix="bench-", dir=parent) as name, ExitStack() as stack:
        directory = Path(name)
        conditions = machine.describe(directory)
        flags = ("--workers", str(WORKERS))
        one = stack.enter_context(server_process.node(directory / "one", None))
        many = stack.enter_context(server_process.node(directory / "many", None, flags=flags))
        lanes = {
            "one": Lane(one, write_requests(one, directory)),
            "many": Lane(many, write_requests(many, directory)),
        }
        slices = take_turns(lanes, plan)
        lines = [*figures(slices), *ways(many, slices["many"])]
    return Results(datetime.now(UTC), conditions, plan, lines, slices)


def figures(slices: dict[str, list[Sample]]) -> list[Line]:
    """What the second worker brings and costs."""
    one, many = slices["one"], slices["many"]
    rates, costs = paired(many, one, rate), paired(many, one, cpu_us)
    name = f"{WORKERS} workers / 1 process"
    return [
        Line(
            f"{name}: rate",
            median(rates),
            f"{middle(many, rate):,.0f}/s against {middle(one, rate):,.0f}/s, {spread(rates)}",
            at_least=RATE_AT_LEAST,
        ),
        Line(
            f"{name}: CPU per request",
            median(costs),
            f"{middle(many, cpu_us):.1f} µs against {middle(one, cpu_us):.1f} µs, {spread(costs)}",
            at_most=CPU_AT_MOST,
        ),
        report.fsync_line("1 process", one),
        report.fsync_line(f"{WORKERS} workers", many),
        Line(
            "load generator: client share",
            middle(many, lambda sample: sample.outcome.client_share),
            "of one core, at the rate of the workers",
        ),
    ]


def ways(node: Server, samples: Sequence[Sample]) -> list[Line]:
    """How requests came to the worker whose queue they are about."""
    connections = QUEUES * CONNECTIONS_PER_QUEUE * len(samples)
    answered = sum(sample.outcome.answered for sample in samples)
    moved, forwarded = node.counter(MOVED), node.counter(FORWARDED)
    return [
        Line("connections handed over: share", moved / connections, f"of {connections:,}"),
        Line("calls forwarded: share", forwarded / max(1, answered), f"of {answered:,}"),
    ]


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="bench.workers", description="workers against none")
    parser.add_argument("--short", action="store_true", help="a smoke: verdicts do not count")
    parser.add_argument("--data-under", type=Path, default=ROOT / "build", metavar="DIRECTORY")
    default = ROOT / "build" / "bench-workers.json"
    parser.add_argument("--json", type=Path, default=default, metavar="FILE")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None, *, plan: Plan | None = None) -> int:
    """Measures, prints, writes; the exit code says whether all targets are met."""
    chosen = parse_arguments(arguments)
    plan = plan or (SHORT if chosen.short else FULL)
    chosen.data_under.mkdir(parents=True, exist_ok=True)
    filesystem = machine.describe(chosen.data_under).filesystem
    if filesystem in machine.MEMORY_FILESYSTEMS and not chosen.short:
        return refuse(f"{chosen.data_under} is on {filesystem}: choose a disk with --data-under")
    try:
        results = measure(chosen.data_under, plan)
    except (load.LoadError, server_process.ServerError) as problem:
        return refuse(str(problem))
    print_results(results)
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    chosen.json.write_bytes(msgspec.json.format(msgspec.json.encode(results)))
    return int(not chosen.short and not all(line.is_met for line in results.lines))


def print_results(results: Results) -> None:
    """Conditions, then the table."""
    plan = results.plan
    print(*results.machine.lines(), sep="\n")
    print(
        f"{plan.rounds} turns of {plan.slice_seconds:g} s each, medians; {QUEUES} queues with "
        f"{CONNECTIONS_PER_QUEUE} connections each; fsync on; 200-byte bodies; nothing pinned"
    )
    if results.machine.cores < WORKERS:
        print("fewer cores than workers: the ratios mean nothing")
    print(report.render(results.lines))


if __name__ == "__main__":
    sys.exit(main())
