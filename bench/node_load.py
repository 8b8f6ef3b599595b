"""A real durable node against the bare echo server, under the same load in the same run.

    python -m bench.node_load [--short] [--data-under DIRECTORY] [--json FILE]

Both servers are pinned to one core and the load to another; slices of load take turns. Prints the
conditions and a table of figures with targets and verdicts, and writes all slices as JSON.
Exit codes: 0 every target met, 1 one is missed, 2 the measurement could not run. A short run shows
only that everything works: it prints verdicts and leaves the exit code at 0.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import msgspec

from bench import load, machine, report, server_process, sqs_requests
from bench.report import Line, Sample
from bench.server_process import ROOT, Server

FSYNCS = "fastnode_log_fsyncs_total"
REQUESTS_PER_FILE = 256


class Plan(msgspec.Struct, frozen=True):
    """How much is measured."""

    rounds: int = 6
    slice_seconds: float = 1.5
    warmup_seconds: float = 0.4
    idle_seconds: float = 5.0
    starts: int = 3


FULL = Plan()
SHORT = Plan(rounds=2, slice_seconds=0.3, warmup_seconds=0.1, idle_seconds=1.0, starts=1)


class Lane(msgspec.Struct, frozen=True):
    """One of the loads that take turns."""

    server: Server
    connections: int
    file: Path

    def measure(self, plan: Plan, core: int | None) -> Sample:
        """One slice."""
        before = self.fsyncs()
        outcome = load.run(
            load.Load(
                target=self.server.address,
                seconds=plan.slice_seconds,
                warmup=plan.warmup_seconds,
                cycles=[(self.connections, self.file)],
                core=core,
                watched=self.server.process_ids(),
            )
        )
        outcome.check()
        after = self.fsyncs()
        return Sample(outcome, None if before is None or after is None else after - before)

    def fsyncs(self) -> float | None:
        """The node's count so far; the echo server has none."""
        return None if self.server.admin is None else self.server.counter(FSYNCS)


class Results(msgspec.Struct, frozen=True):
    """What is written as JSON."""

    measured_at: datetime
    machine: machine.Machine
    plan: Plan
    lines: list[Line]
    slices: dict[str, list[Sample]]


def take_turns(lanes: dict[str, Lane], plan: Plan, core: int | None) -> dict[str, list[Sample]]:
    """Every lane once per round; every other round backwards, so that drift favours none."""
    samples: dict[str, list[Sample]] = {name: [] for name in lanes}
    order = list(lanes.items())
    for _ in range(plan.rounds):
        for name, lane in order:
            samples[name].append(lane.measure(plan, core))
        order.reverse()
    return samples


def measure_load(
    directory: Path, plan: Plan, command: Sequence[str]
) -> tuple[list[Line], dict[str, list[Sample]]]:
    """Rates, CPU, groups and latencies at 64 and 256 connections."""
    server_core, load_core = machine.choose_cores()
    with ExitStack() as stack:
        echo = stack.enter_context(server_process.echo_server(server_core))
        node = stack.enter_context(server_process.node(directory / "data", server_core, command))
        single, batch = write_requests(node, directory)
        slices = take_turns(
            {
                "echo 64": Lane(echo, 64, single),
                "send 64": Lane(node, 64, single),
                "batch 64": Lane(node, 64, batch),
            },
            plan,
            load_core,
        )
        wide = {"echo 256": Lane(echo, 256, single), "send 256": Lane(node, 256, single)}
        slices |= take_turns(wide, plan, load_core)
    return load_lines(slices), slices


def load_lines(slices: dict[str, list[Sample]]) -> list[Line]:
    """The figures of the load with their targets."""
    narrow, wide = slices["echo 64"], slices["echo 256"]
    return [
        *report.send_lines("SendMessage, 64", slices["send 64"], narrow, at_least=0.30),
        *report.send_lines("SendMessage, 256", slices["send 256"], wide, at_least=0.40),
        report.batch_line("SendMessageBatch(10), 64", slices["batch 64"], narrow, at_least=1.0),
        report.client_line("load generator, 64", narrow),
        report.client_line("load generator, 256", wide),
    ]


def write_requests(node: Server, directory: Path) -> tuple[Path, Path]:
    """Files of signed requests to a new queue: single sends and batches of ten."""
    signer = sqs_requests.Signer(host=node.address, signed_at=datetime.now(UTC))
    created = signer.request("CreateQueue", {"QueueName": "bench"})
    queue_url = msgspec.json.decode(server_process.exchange(node.address, created))["QueueUrl"]
    single, batch = directory / "single.http", directory / "batch.http"
    single.write_bytes(sqs_requests.sends(signer, queue_url, count=REQUESTS_PER_FILE))
    batch.write_bytes(sqs_requests.batch_sends(signer, queue_url, count=REQUESTS_PER_FILE))
    return single, batch


def measure_start(directory: Path, plan: Plan, command: Sequence[str]) -> list[Line]:
    """Ready time on empty directories, and the memory of a node that nobody talks to."""
    ready: list[float] = []
    resident = 0
    for number in range(plan.starts):
        with server_process.node(directory / f"empty-{number}", None, command) as node:
            ready.append(node.ready_seconds)
            if number == plan.starts - 1:
                time.sleep(plan.idle_seconds)
                resident = node.resident_bytes()
    detail = f"median of {plan.starts} starts on an empty directory"
    return [
        Line("idle node: resident MB", resident / 1e6, f"after {plan.idle_seconds:g} s", None, 150),
        Line("start: seconds to ready", median(ready), detail, at_most=1.5),
    ]


def measure(parent: Path, plan: Plan, command: Sequence[str]) -> Results:
    """The whole table, with its data in a directory that is removed in the end."""
    load.build()
    with tempfile.TemporaryDirectory(prefix="bench-", dir=parent) as name:
        directory = Path(name)
        conditions = machine.describe(directory)
        lines, slices = measure_load(directory, plan, command)
        lines += measure_start(directory, plan, command)
    return Results(datetime.now(UTC), conditions, plan, lines, slices)


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="bench.node_load", description="node against echo")
    parser.add_argument("--short", action="store_true", help="a smoke: verdicts do not count")
    parser.add_argument("--data-under", type=Path, default=ROOT / "build", metavar="DIRECTORY")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "bench.json", metavar="FILE")
    return parser.parse_args(arguments)


def main(
    arguments: Sequence[str] | None = None,
    *,
    command: Sequence[str] = server_process.NODE_COMMAND,
    plan: Plan | None = None,
) -> int:
    """Measures, prints, writes; the exit code says whether all targets are met."""
    chosen = parse_arguments(arguments)
    plan = plan or (SHORT if chosen.short else FULL)
    chosen.data_under.mkdir(parents=True, exist_ok=True)
    filesystem = machine.describe(chosen.data_under).filesystem
    if filesystem in machine.MEMORY_FILESYSTEMS and not chosen.short:
        return refuse(f"{chosen.data_under} is on {filesystem}: choose a disk with --data-under")
    try:
        results = measure(chosen.data_under, plan, command)
    except (load.LoadError, server_process.ServerError) as problem:
        return refuse(str(problem))
    print_results(results)
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    chosen.json.write_bytes(msgspec.json.format(msgspec.json.encode(results)))
    return int(not chosen.short and not all(line.is_met for line in results.lines))


def refuse(problem: str) -> int:
    """One line on stderr and the exit code of a measurement that could not run."""
    sys.stderr.write(f"bench: {problem}\n")
    return 2


def print_results(results: Results) -> None:
    """Conditions, then the table."""
    plan = results.plan
    print(*results.machine.lines(), sep="\n")
    print(
        f"{plan.rounds} turns of {plan.slice_seconds:g} s each, medians; fsync on; 200-byte bodies"
    )
    if machine.choose_cores()[0] is None:
        print("one core only: nothing is pinned, and the ratios mean little")
    print(report.render(results.lines))


if __name__ == "__main__":
    sys.exit(main())
