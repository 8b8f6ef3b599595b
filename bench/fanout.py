"""What a receive costs over 1, 2, 4, 8, 16 and 32 partitions of a FIFO queue of a real node.

    python -m bench.fanout [--short] [--data-under DIRECTORY] [--json FILE]

Asked of the node itself: a receive with `X-Fastnode-Explain: 1` says how many partitions it
visited, how many rows it looked at and how long choosing took. First alone, where the CPU time of
the whole call is measured too, then beside senders and consumers that leave the node no rest: there
the 99th percentile of choosing must stay within the budget of a call. Exit codes as in `program`.
"""

import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from statistics import mean, median, quantiles

import msgspec

from bench import fifo, load, machine, program, server_process
from bench.fifo import Lane
from bench.load import Load
from bench.server_process import Server, ServerError
from fastnode import config

BUDGET_MS = config.FANOUT_MS
EXPLANATION = re.compile(r"partitions=(\d+);rows=(\d+);us=(\d+);remote=(\d+)")
CONSUMERS = 4


class Plan(msgspec.Struct, frozen=True):
    """How much is measured, for each number of partitions."""

    partitions: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    probes: int = 300
    # More than the consumers of the load can take, so that no receive is in vain.
    backlog: int = 15_000
    groups: int = 1_000
    load_seconds: float = 2.0
    connections: int = 16


SHORT = Plan(
    partitions=(1, 32), probes=10, backlog=1_000, groups=100, load_seconds=0.3, connections=2
)


class Explained(msgspec.Struct, frozen=True):
    """What the node says of one receive."""

    partitions: int
    rows: int
    microseconds: int


class Figures(msgspec.Struct, frozen=True):
    """One row of the table; choosing in microseconds."""

    partitions: int
    visited: float
    rows: float
    choosing_us: float
    call_cpu_us: float
    loaded_calls: int
    loaded_p50_us: float
    loaded_p99_us: float

    @property
    def is_met(self) -> bool:
        return self.loaded_p99_us <= BUDGET_MS * 1_000


class Results(msgspec.Struct, frozen=True):
    """What is written as JSON."""

    measured_at: datetime
    machine: machine.Machine
    plan: Plan
    figures: list[Figures]


# --- asking --------------------------------------------------------------------------------------


class Prober:
    """One connection that receives and is told what it cost; `close` it."""

    def __init__(self, node: Server, url: str, visibility_timeout: int) -> None:
        self._connection = HTTPConnection(node.address, timeout=server_process.HTTP_SECONDS_MAX)
        members = {"MaxNumberOfMessages": 10, "VisibilityTimeout": visibility_timeout}
        self._body = msgspec.json.encode({"QueueUrl": url} | members)
        self._headers = {
            "X-Amz-Target": "AmazonSQS.ReceiveMessage",
            "Content-Type": "application/x-amz-json-1.0",
            "X-Fastnode-Explain": "1",
        }

    def receive(self) -> Explained:
        self._connection.request("POST", "/", self._body, self._headers)
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise ServerError(f"{answer.status} {body[:200]!r}")
        return parse_explanation(answer.getheader("X-Fastnode-Receive") or "")

    def close(self) -> None:
        self._connection.close()


def parse_explanation(text: str) -> Explained:
    match = EXPLANATION.fullmatch(text)
    if match is None:
        raise ServerError(f"not an explanation of a receive: {text!r}")
    return Explained(*(int(number) for number in match.groups()[:3]))


def cpu_us(node: Server) -> float:
    """CPU time that all threads of the node have used so far."""
    files = [
        file for pid in node.process_ids() for file in Path(f"/proc/{pid}/task").glob("*/schedstat")
    ]
    return sum(int(file.read_text().split()[0]) for file in files) / 1e3


# --- one number of partitions --------------------------------------------------------------------


def measure_partitions(
    node: Server, directory: Path, plan: Plan, partitions: int, load_core: int | None
) -> Figures:
    sends = msgspec.structs.replace(fifo.Plan(), connections=plan.connections)
    lane = Lane(node, directory, sends, is_fifo=True, partitions=partitions)
    # Alone, a receive finds ten groups of one message each, and so does the next.
    lane.fill(load_core, messages=10 * plan.probes, groups=10 * plan.probes)
    before = cpu_us(node)
    alone = list(probe_alone(node, lane.url, plan.probes))
    call_cpu_us = (cpu_us(node) - before) / plan.probes
    loaded = probe_loaded(node, lane, plan, load_core)
    percentiles = quantiles([one.microseconds for one in loaded], n=100, method="inclusive")
    return Figures(
        partitions=partitions,
        visited=mean(one.partitions for one in alone),
        rows=mean(one.rows for one in alone),
        choosing_us=median(one.microseconds for one in alone),
        call_cpu_us=call_cpu_us,
        loaded_calls=len(loaded),
        loaded_p50_us=percentiles[49],
        loaded_p99_us=percentiles[98],
    )


def probe_alone(node: Server, url: str, probes: int) -> Iterator[Explained]:
    prober = Prober(node, url, visibility_timeout=600)
    for _ in range(probes):
        yield prober.receive()
    prober.close()


def probe_loaded(node: Server, lane: Lane, plan: Plan, load_core: int | None) -> list[Explained]:
    """Beside senders and consumers; what a probe takes is available again at once."""
    lane.empty()
    lane.fill(load_core, messages=plan.backlog, groups=plan.groups)
    bounds = Load(
        node.address,
        plan.load_seconds,
        [(1, file) for file in lane.send_files()],
        consumers=[(CONSUMERS, lane.consumer)],
        core=load_core,
    )
    prober = Prober(node, lane.url, visibility_timeout=0)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(load.run, bounds)
        explained = [prober.receive() for _ in range(2)]
        while not running.done():
            explained.append(prober.receive())
        running.result().check()
    prober.close()
    return [one for one in explained if one.partitions]


# --- all of it -----------------------------------------------------------------------------------


def measure(parent: Path, plan: Plan) -> Results:
    """Everything, with its data in a directory that is removed in the end."""
    load.build()
    server_core, load_core = machine.choose_cores()
    with tempfile.TemporaryDirectory(prefix="fanout-", dir=parent) as name:
        directory = Path(name)
        with server_process.node(directory / "data", server_core) as node:
            figures = [
                measure_partitions(node, directory, plan, partitions, load_core)
                for partitions in plan.partitions
            ]
        conditions = machine.describe(directory)
    return Results(datetime.now(UTC), conditions, plan, figures)


def render(figures: Sequence[Figures]) -> str:
    """The table as text."""
    head = (
        "partitions  visited    rows  choosing µs  call CPU µs  "
        "loaded: calls  p50 µs  p99 µs  budget µs"
    )
    rows = [
        f"{one.partitions:>10}  {one.visited:>7.1f}  {one.rows:>6.1f}  {one.choosing_us:>11,.0f}  "
        f"{one.call_cpu_us:>11,.0f}  {one.loaded_calls:>13,}  {one.loaded_p50_us:>6,.0f}  "
        f"{one.loaded_p99_us:>6,.0f}  {BUDGET_MS * 1_000:>9,}  {'met' if one.is_met else 'MISSED'}"
        for one in figures
    ]
    return "\n".join([head, *rows])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints, writes; the exit code says whether the budget was kept."""
    chosen = program.options("fanout", "receives over partitions").parse_args(arguments)
    try:
        results = measure(program.data_directory(chosen), SHORT if chosen.short else Plan())
    except program.PROBLEMS as problem:
        return program.refuse(str(problem))
    print(*results.machine.lines(), render(results.figures), sep="\n")
    program.write(chosen.json, results)
    return int(not chosen.short and not all(one.is_met for one in results.figures))


if __name__ == "__main__":
    sys.exit(main())
