"""FIFO queues against standard ones on the same node, in the same run.

    python -m bench.fifo [--short] [--locked N] [--data-under DIRECTORY] [--json FILE]

Four questions, each a ratio within one run. How fast are durable sends to 1,000 message groups
against sends to a standard queue? How fast are receive and delete of what they left? What does a
receive cost behind a long backlog of locked groups against the same receive without one? And over
32 partitions against one? The last two are asked of the real handlers on RocksDB without sockets
and fsync, which would hide them.
Exit codes as in `program`.
"""

import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import msgspec

from bench import load, machine, program, report, server_process
from bench.fifo_handlers import LocalQueue, fifo_attributes
from bench.load import Load, LoadError, Outcome
from bench.report import Line
from bench.server_process import Server
from bench.sqs_requests import Signer, consumer_script, message_body
from bench.storage import IDENTITY

SEND_RATIO_MIN = 0.7
CONSUME_RATIO_MIN = 0.6
LOCKED_RATIO_MAX = 1.3
PARTITIONS = 32
PARTITIONS_RATIO_MAX = 2.0
BATCH = 10
CONSUMERS = 8
LOAD_SECONDS_MAX = 300.0
# Stands in a request for what differs from one to the next; of the same length as that.
SERIAL, GROUP = "@@@@@@@@", "####"


class Plan(msgspec.Struct, frozen=True):
    """How much is measured."""

    # Many short turns: a busy machine swings within seconds.
    send_turns: int = 24
    consume_turns: int = 5
    slice_seconds: float = 0.6
    warmup_seconds: float = 0.1
    connections: int = 32
    # A connection must not repeat itself within a slice: a repeated send is a duplicate. So many
    # are made that no node comes to their end.
    sends_per_second_max: int = 100_000
    groups: int = 1_000
    consumed: int = 20_000
    locked: int = 100_000
    probes: int = 2_000

    @property
    def sends_per_slice(self) -> int:
        seconds = self.warmup_seconds + self.slice_seconds
        return int(self.sends_per_second_max * seconds)


SHORT = Plan(
    send_turns=1,
    consume_turns=1,
    slice_seconds=0.3,
    warmup_seconds=0.1,
    connections=4,
    groups=100,
    consumed=1_000,
    locked=2_000,
    probes=50,
)


class Results(msgspec.Struct, frozen=True):
    """What is written as JSON."""

    measured_at: datetime
    machine: machine.Machine
    plan: Plan
    lines: list[Line]


class Lane:
    """One queue of the node, and requests to it that never repeat."""

    def __init__(
        self, node: Server, directory: Path, plan: Plan, *, is_fifo: bool, partitions: int = 1
    ) -> None:
        self._node, self._directory, self._plan = node, directory, plan
        self._is_fifo = is_fifo
        self._name = f"bench-{partitions}.fifo" if is_fifo else "bench"
        self._signer = Signer(host=node.address, signed_at=datetime.now(UTC))
        self._serials = itertools.count()
        attributes = {"Attributes": fifo_attributes(partitions)} if is_fifo else {}
        answer = self._call("CreateQueue", QueueName=self._name, **attributes)
        self.url = str(msgspec.json.decode(answer)["QueueUrl"])
        self.consumer = directory / f"{self._name}.consumer"
        self.consumer.write_bytes(IDENTITY.sub(b"", consumer_script(self._signer, self.url)))

    def _call(self, action: str, **members: object) -> str:
        return server_process.exchange(self._node.address, self._signer.request(action, members))

    def empty(self) -> None:
        self._call("PurgeQueue", QueueUrl=self.url)

    def _message(self) -> dict[str, str]:
        body = message_body(0).replace("00000000", SERIAL)
        if not self._is_fifo:
            return {"MessageBody": body}
        ids = {"MessageGroupId": f"group-{GROUP}", "MessageDeduplicationId": f"id-{SERIAL}"}
        return {"MessageBody": body} | ids

    def _requests(
        self, template: bytes, count: int, per_request: int, groups: int | None = None
    ) -> Iterator[bytes]:
        """So many requests of the template, each with fresh serials where it has marks."""
        parts = template.split(SERIAL.encode())
        marks = (len(parts) - 1) // per_request
        for _ in range(count):
            serials = [next(self._serials) for _ in range(per_request)]
            filled = [b"%08d" % serial for serial in serials for _ in range(marks)]
            whole = b"".join(itertools.chain(*zip(parts, [*filled, b""], strict=True)))
            for serial in serials:
                group = b"%0*d" % (len(GROUP), serial % (groups or self._plan.groups))
                whole = whole.replace(GROUP.encode(), group, 1)
            yield whole

    def _file(self, name: str, requests: Iterator[bytes]) -> Path:
        path = self._directory / f"{self._name}.{name}"
        path.write_bytes(b"".join(requests))
        return path

    def send_files(self) -> list[Path]:
        """Single sends, a file for each connection."""
        request = self._signer.request("SendMessage", {"QueueUrl": self.url} | self._message())
        template = IDENTITY.sub(b"", request)
        count = self._plan.sends_per_slice // self._plan.connections
        return [
            self._file(f"send{n}", self._requests(template, count, 1))
            for n in range(self._plan.connections)
        ]

    def send(self, core: int | None) -> Outcome:
        """A slice of single sends."""
        plan = self._plan
        files = self.send_files()
        outcome = self._run(
            Load(
                self._node.address,
                plan.slice_seconds,
                [(1, file) for file in files],
                warmup=plan.warmup_seconds,
                core=core,
                watched=self._node.process_ids(),
            )
        )
        # The window ends when what is under way is answered, not at a certain request.
        if outcome.sent > 0.8 * plan.sends_per_slice:
            raise LoadError("the node outruns the requests: raise sends_per_second_max")
        return outcome

    def fill(
        self, core: int | None, messages: int | None = None, groups: int | None = None
    ) -> None:
        """So many messages by batches; of each the plan's number if none is given."""
        entries = [{"Id": str(n)} | self._message() for n in range(BATCH)]
        members = {"QueueUrl": self.url, "Entries": entries}
        template = IDENTITY.sub(b"", self._signer.request("SendMessageBatch", members))
        count = (messages or self._plan.consumed) // BATCH
        file = self._file("batch", self._requests(template, count, BATCH, groups))
        self._run(Load(self._node.address, LOAD_SECONDS_MAX, [(1, file)], count=count, core=core))

    def consume(self, core: int | None) -> Outcome:
        """Receive and delete until it is empty; that must be exactly what was sent."""
        outcome = self._run(
            Load(
                self._node.address,
                LOAD_SECONDS_MAX,
                consumers=[(CONSUMERS, self.consumer)],
                stop_empty=3,
                core=core,
                watched=self._node.process_ids(),
            )
        )
        found = outcome.groups[0].messages_deleted
        if found != self._plan.consumed:
            raise LoadError(f"{found} messages deleted, {self._plan.consumed} sent")
        return outcome

    def _run(self, bounds: Load) -> Outcome:
        outcome = load.run(bounds)
        outcome.check()
        return outcome


# --- a node --------------------------------------------------------------------------------------


def measure_node(directory: Path, plan: Plan) -> list[Line]:
    server_core, load_core = machine.choose_cores()
    sends: list[tuple[Outcome, Outcome]] = []
    consumed: list[tuple[Outcome, Outcome]] = []
    with server_process.node(directory / "data", server_core) as node:
        lanes = [Lane(node, directory, plan, is_fifo=is_fifo) for is_fifo in (True, False)]
        for turn in range(plan.send_turns):
            sends.append(in_turn(turn, lambda lane: lane.send(load_core), lanes))
        for turn in range(plan.consume_turns):
            for lane in lanes:
                lane.empty()
                lane.fill(load_core)
            consumed.append(in_turn(turn, lambda lane: lane.consume(load_core), lanes))
    groups = f"{plan.groups:,} groups"
    return [
        ratio_line(f"sends, {groups} / standard", sends, send_rate, SEND_RATIO_MIN),
        ratio_line(f"sends, {groups}: CPU, standard / FIFO", sends, send_thrift, None),
        ratio_line(
            f"receive and delete, {groups} / standard", consumed, consume_rate, CONSUME_RATIO_MIN
        ),
        ratio_line("the same: CPU, standard / FIFO", consumed, consume_thrift, None),
    ]


def in_turn(
    turn: int, measure: Callable[[Lane], Outcome], lanes: Sequence[Lane]
) -> tuple[Outcome, Outcome]:
    """(FIFO, standard), measured in turns first."""
    found = {id(lane): measure(lane) for lane in (lanes if turn % 2 else lanes[::-1])}
    fifo, standard = (found[id(lane)] for lane in lanes)
    return fifo, standard


def send_rate(outcome: Outcome) -> float:
    return outcome.rate


def send_thrift(outcome: Outcome) -> float:
    """Sends per second of the node's CPU time."""
    return 1e6 / outcome.server_cpu_us


def consume_rate(outcome: Outcome) -> float:
    return outcome.groups[0].messages_deleted / outcome.elapsed_s


def consume_thrift(outcome: Outcome) -> float:
    return outcome.groups[0].messages_deleted / outcome.watched_cpu_s


def ratio_line(
    name: str,
    pairs: Sequence[tuple[Outcome, Outcome]],
    pick: Callable[[Outcome], float],
    at_least: float | None,
) -> Line:
    ratios = [pick(fifo) / pick(standard) for fifo, standard in pairs]
    fifo, standard = (median(map(pick, column)) for column in zip(*pairs, strict=True))
    detail = f"{fifo:,.0f}/s against {standard:,.0f}/s"
    return report.ratio_line(name, ratios, detail, at_least=at_least)


# --- a locked backlog ----------------------------------------------------------------------------


def measure_backlog(directory: Path, plan: Plan) -> list[Line]:
    """One message goes through a queue with nothing else in it, and through one whose other groups
    are all locked; in turns.
    """
    empty = LocalQueue(directory / "empty")
    locked = LocalQueue(directory / "locked")
    try:
        locked.lock(plan.locked, plan.groups)
        pairs = [(probe_us(locked), probe_us(empty)) for _ in range(plan.probes)]
    finally:
        empty.close()
        locked.close()
    behind, alone = (median(column) for column in zip(*pairs, strict=True))
    name = f"receive behind {plan.locked:,} locked / alone"
    detail = f"{behind:.0f} µs against {alone:.0f} µs"
    return [Line(name, behind / alone, detail, at_most=LOCKED_RATIO_MAX)]


def probe_us(queue: LocalQueue) -> float:
    """A receive that finds one message."""
    queue.send("probe", 1)
    began = time.perf_counter()
    messages = queue.receive(10, timeout=30)
    elapsed = time.perf_counter() - began
    (message,) = messages
    queue.delete(message.receipt_handle)
    return elapsed * 1e6


# --- partitions ----------------------------------------------------------------------------------


def measure_partitions(directory: Path, plan: Plan) -> list[Line]:
    """One message goes through a queue of one partition and through one of many, in turns."""
    single = LocalQueue(directory / "single")
    many = LocalQueue(directory / "many", partitions=PARTITIONS)
    try:
        pairs = [(probe_us(many), probe_us(single)) for _ in range(plan.probes)]
    finally:
        single.close()
        many.close()
    spread, alone = (median(column) for column in zip(*pairs, strict=True))
    name = f"receive over {PARTITIONS} partitions / over 1"
    detail = f"{spread:.0f} µs against {alone:.0f} µs"
    return [Line(name, spread / alone, detail, at_most=PARTITIONS_RATIO_MAX)]


# --- all of it -----------------------------------------------------------------------------------


def measure(parent: Path, plan: Plan) -> Results:
    """Everything, with its data in a directory that is removed in the end."""
    load.build()
    with tempfile.TemporaryDirectory(prefix="fifo-", dir=parent) as name:
        directory = Path(name)
        lines = measure_node(directory, plan)
        lines += measure_backlog(directory, plan) + measure_partitions(directory, plan)
        conditions = machine.describe(directory)
    return Results(datetime.now(UTC), conditions, plan, lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints, writes; the exit code says whether all targets are met."""
    parser = program.options("fifo", "FIFO against standard")
    parser.add_argument("--locked", type=int, metavar="N", help="messages in locked groups")
    chosen = parser.parse_args(arguments)
    plan = SHORT if chosen.short else Plan()
    if chosen.locked is not None:
        plan = msgspec.structs.replace(plan, locked=chosen.locked)
    return program.finish(chosen, lambda directory: measure(directory, plan))


if __name__ == "__main__":
    sys.exit(main())
