"""What it costs a node to recognise repeated calls: the same sends with and without it.

    python -m bench.retries [--short] [--data-under DIRECTORY] [--json FILE]

Two nodes on one core take turns under the same load, 64 connections of SendMessage whose requests
all have invocation ids of their own, as from an SDK. One node is as it is by default, the other has
both gates of deduplication off. Then the memory: what 100,000 such sends add to a node of either
kind, and what a remembered call takes in the table itself. A node without the gates remembers what
it committed as well, only not for as long, so the first two differ by little.
Exit codes as in `program`.
"""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bench import load, machine, program, report, server_process
from bench.load import Load, LoadError
from bench.node_load import Lane, take_turns, write_requests
from bench.node_load import Plan as LoadPlan
from bench.report import Line, Sample
from bench.server_process import NODE_COMMAND, ROOT, ServerError

CONNECTIONS = 64
RATIO_MIN = 0.95
# `env` becomes the node, so the process that is watched is the node.
WITHOUT = ("env", "FASTNODE_DEDUP_SDK_RETRIES=0", "FASTNODE_DEDUP_BATCH_SEND=0", *NODE_COMMAND)
COMMANDS = {"with": NODE_COMMAND, "without": WITHOUT}
RECOGNISED = "fastnode_calls_recognised_total"
LOAD_SECONDS_MAX = 300.0
TABLE_SECONDS_MAX = 120.0


class Plan(LoadPlan, frozen=True):
    """How much is measured."""

    # Many short turns: the difference that is looked for is smaller than a machine's swings.
    rounds: int = 30
    slice_seconds: float = 0.7
    warmup_seconds: float = 0.1
    # Enough that everything is in memory that sends need whether they are remembered or not.
    sends_before: int = 20_000
    sends: int = 100_000


FULL = Plan()
SHORT = Plan(rounds=2, slice_seconds=0.3, warmup_seconds=0.1, sends_before=500, sends=2_000)


class Results(msgspec.Struct, frozen=True):
    """What is written as JSON."""

    measured_at: datetime
    machine: machine.Machine
    plan: Plan
    lines: list[Line]


# --- speed ---------------------------------------------------------------------------------------


def measure_speed(parent: Path, plan: Plan) -> list[Line]:
    server_core, load_core = machine.choose_cores()
    with ExitStack() as stack:
        lanes = {}
        for name, command in COMMANDS.items():
            directory = parent / name
            directory.mkdir()
            started = server_process.node(directory / "data", server_core, command)
            node = stack.enter_context(started)
            lanes[name] = Lane(node, CONNECTIONS, write_requests(node, directory)[0])
        slices = take_turns(lanes, plan, load_core)
    return speed_lines(slices["with"], slices["without"])


def speed_lines(gated: Sequence[Sample], plain: Sequence[Sample]) -> list[Line]:
    rates = report.paired(gated, plain, report.rate)
    costs = report.paired(plain, gated, report.cpu_us)
    rate, plain_rate = (report.middle(side, report.rate) for side in (gated, plain))
    cost, plain_cost = (report.middle(side, report.cpu_us) for side in (gated, plain))
    name = f"SendMessage, {CONNECTIONS}"
    return [
        report.ratio_line(
            f"{name}: rate, with / without",
            rates,
            f"{rate:,.0f}/s against {plain_rate:,.0f}/s",
            at_least=RATIO_MIN,
        ),
        report.ratio_line(
            f"{name}: CPU, without / with",
            costs,
            f"{cost:.1f} µs against {plain_cost:.1f} µs",
            at_least=RATIO_MIN,
        ),
    ]


# --- memory --------------------------------------------------------------------------------------


def measure_memory(parent: Path, plan: Plan) -> list[Line]:
    grown = {name: node_growth(parent / f"memory-{name}", plan, name) for name in COMMANDS}
    each = {name: size / plan.sends for name, size in grown.items()}
    detail = f"{each['with']:,.0f} B against {each['without']:,.0f} B resident"
    more = each["with"] - each["without"]
    return [
        Line(f"{plan.sends:,} sends: more bytes each, with than without", more, detail),
        Line("a remembered call: bytes in the table", table_growth(plan.sends) / plan.sends),
    ]


def node_growth(directory: Path, plan: Plan, name: str) -> int:
    """Resident bytes that the sends add to a fresh node that has seen some."""
    directory.mkdir()
    with server_process.node(directory / "data", None, COMMANDS[name]) as node:
        file = write_requests(node, directory)[0]
        send(node.address, file, plan.sends_before)
        before = node.resident_bytes()
        send(node.address, file, plan.sends)
        if node.counter(RECOGNISED):
            raise LoadError("requests were taken for attempts of earlier ones")
        return node.resident_bytes() - before


def send(address: str, file: Path, count: int) -> None:
    load.run(Load(address, LOAD_SECONDS_MAX, [(CONNECTIONS, file)], count=count)).check()


def table_growth(count: int) -> int:
    """In a process of its own, in which nothing else grows meanwhile."""
    command = [sys.executable, "-m", "bench.remembered", str(count)]
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=TABLE_SECONDS_MAX, check=False
    )
    if ended.returncode != 0:
        raise ServerError(f"bench.remembered: {ended.stderr.strip()}")
    return int(ended.stdout)


# --- all of it -----------------------------------------------------------------------------------


def measure(parent: Path, plan: Plan) -> Results:
    """Everything, with its data in a directory that is removed in the end."""
    load.build()
    with tempfile.TemporaryDirectory(prefix="retries-", dir=parent) as name:
        directory = Path(name)
        conditions = machine.describe(directory)
        lines = measure_speed(directory, plan) + measure_memory(directory, plan)
    return Results(datetime.now(UTC), conditions, plan, lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints, writes; the exit code says whether all targets are met."""
    chosen = program.options("retries", "with and without the gates").parse_args(arguments)
    plan = SHORT if chosen.short else FULL
    return program.finish(chosen, lambda directory: measure(directory, plan))


if __name__ == "__main__":
    sys.exit(main())
