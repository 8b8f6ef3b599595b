"""A real durable node against the bare echo server, under the same load in the same run.

    python -m bench.node_load [--short] [--data-under DIRECTORY] [--json FILE]

Both servers are pinned to one core and the load to another; slices of load take turns. The node
verifies every signature. Prints the conditions and a table of figures with targets and verdicts,
and writes all slices as JSON. Exit codes as in `program`.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import msgspec

from bench import load, machine, program, report, server_process, sqs_requests
from bench.report import Line, Sample
from bench.server_process import Server

FSYNCS = "fastnode_log_fsyncs_total"
REQUESTS_PER_FILE = 256
IDLE_MEGABYTES_MAX = 110
READY_SECONDS_MAX = 1.5
refuse = program.refuse


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


def take_turns(
    lanes: dict[str, Lane],
    plan: Plan,
    core: int | None,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, list[Sample]]:
    """Every lane once per round; every other round backwards, so that drift favours none."""
    samples: dict[str, list[Sample]] = {name: [] for name in lanes}
    order = list(lanes.items())
    for number in range(plan.rounds):
        for name, lane in order:
            samples[name].append(lane.measure(plan, core))
        order.reverse()
        say(f"{', '.join(lanes)}: turn {number + 1} of {plan.rounds}")
    return samples


def measure_load(
    directory: Path,
    plan: Plan,
    command: Sequence[str],
    say: Callable[[str], None] = lambda _: None,
) -> tuple[list[Line], dict[str, list[Sample]]]:
    """Rates, CPU, groups and latencies at 64 and 256 connections."""
    server_core, load_core = machine.choose_cores()
    with ExitStack() as stack:
        echo = stack.enter_context(server_process.echo_server(server_core))
        started = server_process.verifying_node(directory / "data", server_core, command)
        node = stack.enter_context(started)
        single, batch = write_requests(node, directory)
        slices = take_turns(
            {
                "echo 64": Lane(echo, 64, single),
                "send 64": Lane(node, 64, single),
                "batch 64": Lane(node, 64, batch),
            },
            plan,
            load_core,
            say,
        )
        wide = {"echo 256": Lane(echo, 256, single), "send 256": Lane(node, 256, single)}
        slices |= take_turns(wide, plan, load_core, say)
    return load_lines(slices), slices


def load_lines(slices: dict[str, list[Sample]]) -> list[Line]:
    """The figures of the load with their targets."""
    narrow, wide = slices["echo 64"], slices["echo 256"]
    return [
        *report.send_lines("SendMessage, 64", slices["send 64"], narrow, at_least=0.50),
        *report.send_lines("SendMessage, 256", slices["send 256"], wide, at_least=0.60),
        *report.batch_lines("SendMessageBatch(10), 64", slices["batch 64"], narrow, at_least=2.0),
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
        empty = directory / f"empty-{number}"
        with server_process.verifying_node(empty, None, command) as node:
            ready.append(node.ready_seconds)
            if number == plan.starts - 1:
                time.sleep(plan.idle_seconds)
                resident = node.resident_bytes()
    detail = f"median of {plan.starts} starts on an empty directory"
    idle = f"after {plan.idle_seconds:g} s"
    return [
        Line("idle node: resident MB", resident / 1e6, idle, at_most=IDLE_MEGABYTES_MAX),
        Line("start: seconds to ready", median(ready), detail, at_most=READY_SECONDS_MAX),
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


def main(
    arguments: Sequence[str] | None = None,
    *,
    command: Sequence[str] = server_process.NODE_COMMAND,
    plan: Plan | None = None,
) -> int:
    """Measures, prints, writes; the exit code says whether all targets are met."""
    chosen = program.options("node_load", "node against echo").parse_args(arguments)
    how_much = plan or (SHORT if chosen.short else FULL)
    print(
        f"{how_much.rounds} turns of {how_much.slice_seconds:g} s each, medians; fsync on; "
        "200-byte bodies; signatures verified"
    )
    if machine.choose_cores()[0] is None:
        print("one core only: nothing is pinned, and the ratios mean little")
    return program.finish(chosen, lambda directory: measure(directory, how_much, command))


if __name__ == "__main__":
    sys.exit(main())
