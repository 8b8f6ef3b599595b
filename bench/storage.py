"""What storage does to a node in the long run: space and latency after many messages, and purges.

    python -m bench.storage [--short] [--messages N] [--data-under DIRECTORY] [--json FILE]

Three questions, each a ratio within one run. Do disk use and receive latency return to what they
were after many messages were sent and deleted? Does a purge of a long queue disturb sends to
another one in the same group? Are the engine's compaction settings the right ones for queues?
Exit codes as in `program`.
"""

import re
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import msgspec

from bench import load, machine, program, report, server_process, sqs_requests, storage_engine
from bench.load import Load, LoadError, Outcome
from bench.report import Line
from bench.server_process import Server
from bench.storage_engine import Pattern, directory_bytes
from fastnode import config, native

CONSUMER = "consumed"
PURGED = "purged"
REQUESTS_PER_FILE = 256
BATCH = 10
LOAD_SECONDS_MAX = 600.0
SENDING_CONNECTIONS = 8
CONSUMING_CONNECTIONS = 8
# Few enough that the node is not saturated: a steady rate with room to spare.
STEADY_CONNECTIONS = 2
# A request file is repeated: without its identity a repeated call is a new call, not a retry.
IDENTITY = re.compile(rb"amz-sdk-invocation-id: [^\r]*\r\n")
SPACE_RATIO_MAX = 1.25
ENGINES_SHARE_MAX = 0.1
LATENCY_RATIO_MAX = 1.5
PURGE_RATIO_MAX = 2.0


class Plan(msgspec.Struct, frozen=True):
    """How much is measured."""

    messages: int = 200_000
    probe_messages: int = 4_000
    settle_seconds: float = config.FLUSH_INTERVAL_SECONDS + 5
    purges: int = 3
    slice_seconds: float = 3.0
    engine_patterns: Sequence[Pattern] = (
        Pattern("small bodies", 200_000, storage_engine.SMALL_BYTES, 4.0),
        Pattern("large bodies", 20_000, storage_engine.LARGE_BYTES, 4.0),
    )


SHORT = Plan(
    messages=2_000,
    probe_messages=200,
    settle_seconds=0.2,
    purges=1,
    slice_seconds=0.3,
    engine_patterns=(
        Pattern("small bodies", 5_000, storage_engine.SMALL_BYTES, 0.2),
        Pattern("large bodies", 500, storage_engine.LARGE_BYTES, 0.2),
    ),
)


class Results(msgspec.Struct, frozen=True):
    """What is written as JSON."""

    measured_at: datetime
    machine: machine.Machine
    plan: Plan
    lines: list[Line]
    engine_runs: list[storage_engine.Run]


class Queue:
    """One queue of a node under load, with its request files."""

    def __init__(self, node: Server, directory: Path, name: str, core: int | None) -> None:
        self._node = node
        self._core = core
        self._signer = sqs_requests.Signer(host=node.address, signed_at=datetime.now(UTC))
        self._url = ""
        self._url = str(msgspec.json.decode(self.call("CreateQueue", QueueName=name))["QueueUrl"])
        self._single, self._batch = directory / f"{name}.single", directory / f"{name}.batch"
        self._script = directory / f"{name}.consumer"
        singles = sqs_requests.sends(self._signer, self._url, count=REQUESTS_PER_FILE)
        batches = sqs_requests.batch_sends(self._signer, self._url, count=REQUESTS_PER_FILE)
        script = sqs_requests.consumer_script(self._signer, self._url)
        files = [(self._single, singles), (self._batch, batches), (self._script, script)]
        for file, requests in files:
            file.write_bytes(IDENTITY.sub(b"", requests))

    def call(self, action: str, **members: object) -> str:
        if self._url:
            members["QueueUrl"] = self._url
        return server_process.exchange(self._node.address, self._signer.request(action, members))

    def send(self, messages: int) -> Outcome:
        """Exactly so many, in batches of ten."""
        cycles = [(SENDING_CONNECTIONS, self._batch)]
        return self._run(
            Load(self._node.address, LOAD_SECONDS_MAX, cycles, count=messages // BATCH)
        )

    def consume(self, messages: int, connections: int = CONSUMING_CONNECTIONS) -> Outcome:
        """Receive and delete until it is empty; that must be exactly what was sent."""
        consumers = [(connections, self._script)]
        bounds = Load(self._node.address, LOAD_SECONDS_MAX, consumers=consumers, stop_empty=3)
        outcome = self._run(bounds)
        found = outcome.groups[0].messages_deleted
        if found != messages:
            raise LoadError(f"{found} messages deleted, {messages} sent")
        return outcome

    def steady(self, seconds: float) -> Outcome:
        cycles = [(STEADY_CONNECTIONS, self._single)]
        return self._run(Load(self._node.address, seconds, cycles, warmup=seconds / 10))

    def _run(self, bounds: Load) -> Outcome:
        outcome = load.run(msgspec.structs.replace(bounds, core=self._core))
        outcome.check()
        return outcome


class State(msgspec.Struct, frozen=True):
    """The node between loads: what it occupies, and how fast it answers a receive of ten."""

    engine_bytes: int
    log_bytes: int
    receive_us: float

    @property
    def total_bytes(self) -> int:
        return self.engine_bytes + self.log_bytes


def look(queue: Queue, data: Path, plan: Plan) -> State:
    queue.send(plan.probe_messages)
    probe = queue.consume(plan.probe_messages, connections=1)
    receives = probe.groups[0].steps[0]
    return State(directory_bytes(data / "groups"), directory_bytes(data / "log"), receives.p50_us)


def measure_consumption(directory: Path, plan: Plan) -> list[Line]:
    """Send and delete all messages once to reach a steady state, look, do it again, look again."""
    server_core, load_core = machine.choose_cores()
    data = directory / "data"
    with server_process.node(data, server_core) as node:
        queue = Queue(node, directory, CONSUMER, load_core)
        pass_through(queue, data, plan)
        before = look(queue, data, plan)
        peak, seconds = pass_through(queue, data, plan)
        after = look(queue, data, plan)
    return consumption_lines(before, after, peak, seconds, plan.messages)


def pass_through(queue: Queue, data: Path, plan: Plan) -> tuple[int, float]:
    """The engines' largest size, and the seconds until the space was back."""
    queue.send(plan.messages)
    sent_bytes = directory_bytes(data / "groups") + directory_bytes(data / "log")
    queue.consume(plan.messages)
    began = time.monotonic()
    least, unchanged_since = directory_bytes(data), began
    while time.monotonic() < began + plan.settle_seconds:
        time.sleep(min(0.5, plan.settle_seconds / 4))
        size = directory_bytes(data)
        if size < least:
            least, unchanged_since = size, time.monotonic()
    return sent_bytes, unchanged_since - began


def consumption_lines(
    before: State, after: State, peak_bytes: int, seconds: float, messages: int
) -> list[Line]:
    # The log is kept in whole segments, so one more or less is chance.
    space = after.total_bytes / (before.total_bytes + config.LOG_SEGMENT_BYTES)
    left = after.engine_bytes / peak_bytes
    latency = after.receive_us / before.receive_us
    sizes = f"{after.total_bytes / 1e6:.1f} MB against {before.total_bytes / 1e6:.1f} MB"
    log = f"logs {after.log_bytes / 1e6:.1f} MB and {before.log_bytes / 1e6:.1f} MB"
    engine = f"{after.engine_bytes / 1e6:.2f} MB of {peak_bytes / 1e6:.1f} MB"
    times = f"{after.receive_us:.0f} µs against {before.receive_us:.0f} µs, ten messages each"
    name = f"{messages:,} consumed"
    return [
        Line(
            f"{name}: disk / before and a log segment",
            space,
            f"{sizes}, {log}, least after {seconds:.0f} s",
            at_most=SPACE_RATIO_MAX,
        ),
        Line(f"{name}: engines / full directory", left, engine, at_most=ENGINES_SHARE_MAX),
        Line(f"{name}: receive p50 / before", latency, times, at_most=LATENCY_RATIO_MAX),
    ]


def measure_purges(directory: Path, plan: Plan) -> list[Line]:
    """Sends to one queue while another one of the same group, which is long, is purged."""
    server_core, load_core = machine.choose_cores()
    pairs: list[tuple[float, float]] = []
    with server_process.node(directory / "purging", server_core) as node:
        purged = Queue(node, directory, PURGED, load_core)
        steady = Queue(node, directory, neighbour_of(PURGED), load_core)
        for _ in range(plan.purges):
            purged.send(plan.messages)
            before = steady.steady(plan.slice_seconds).step.p99_us
            pairs.append((before, purge_while_sending(purged, steady, plan.slice_seconds)))
    return [purge_line(pairs, plan.messages)]


def neighbour_of(name: str) -> str:
    """A queue name that lands in the same group of a node with the default number of groups."""

    def group(of: str) -> int:
        segment = native.queue_segment("000000000000", "us-east-1", of)
        return native.home_group(segment, config.GROUPS_DEFAULT)

    return next(f"steady-{n}" for n in range(10_000) if group(f"steady-{n}") == group(name))


def purge_while_sending(purged: Queue, steady: Queue, seconds: float) -> float:
    """p99 of the sends, in µs; the purge comes early in their window."""
    purge = threading.Timer(seconds / 4, purged.call, ["PurgeQueue"])
    purge.start()
    outcome = steady.steady(seconds)
    purge.join()
    return outcome.step.p99_us


def purge_line(pairs: Sequence[tuple[float, float]], messages: int) -> Line:
    ratios = [during / before for before, during in pairs]
    before, during = (median(column) / 1e3 for column in zip(*pairs, strict=True))
    detail = f"{during:.2f} ms against {before:.2f} ms, {report.spread(ratios)}"
    name = f"purge of {messages:,}: p99 of sends / before"
    return Line(name, median(ratios), detail, at_most=PURGE_RATIO_MAX)


def measure(parent: Path, plan: Plan) -> Results:
    """Everything, with its data in a directory that is removed in the end."""
    load.build()
    with tempfile.TemporaryDirectory(prefix="storage-", dir=parent) as name:
        directory = Path(name)
        lines = measure_consumption(directory, plan)
        lines += measure_purges(directory, plan)
        engine_lines, runs = storage_engine.measure(directory, plan.engine_patterns)
        conditions = machine.describe(directory)
    return Results(datetime.now(UTC), conditions, plan, lines + engine_lines, runs)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints, writes; the exit code says whether all targets are met."""
    parser = program.options("storage", "storage in the long run")
    parser.add_argument("--messages", type=int, metavar="N", help="messages consumed and purged")
    chosen = parser.parse_args(arguments)
    plan = SHORT if chosen.short else Plan()
    if chosen.messages is not None:
        plan = msgspec.structs.replace(plan, messages=chosen.messages // BATCH * BATCH)
    return program.finish(chosen, lambda directory: measure(directory, plan))


if __name__ == "__main__":
    sys.exit(main())
