"""The loads that every server gets in turn: the same requests, each time to a new queue.

Which servers take turns, and when, is decided in `peers`.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec

from bench import load
from bench.load import Load, LoadError, Outcome
from bench.queue_load import BATCH, CONSUMERS, EMPTY_STREAK, FifoLoad, QueueLoad
from bench.rig import ECHO_CONNECTIONS, Echo, Rig
from bench.server_process import Server

CONNECTIONS, CONNECTIONS_WIDE = 64, 256
PRODUCERS = 16
# A consumer that finds nothing waits for a message, as consumers do.
STEADY_WAIT_SECONDS = 1
SHALLOW, DEEP = 50_000, 500_000
FIFO_SENDS, FIFO_DRAINED, FIFO_GROUPS = 16_000, 20_000, 1_000
# A server that has not done it by then is judged by what it has done.
LOAD_SECONDS_MAX = 60.0
FILL_SECONDS_MAX = 240.0


class Slice(msgspec.Struct, frozen=True):
    """One turn of one server; a unit is a message, of the echo server a request."""

    per_second: float
    cpu_us: float
    client_share: float
    note: str = ""


def of_requests(outcome: Outcome, units: int = 1) -> Slice:
    """What was answered within the window, so many units by each request."""
    cpu_us = outcome.server_cpu_us / units
    return Slice(outcome.rate * units, cpu_us, outcome.client_share)


def of_deleted(outcome: Outcome, waiting: int | None = None) -> Slice:
    """What was received and deleted in the whole run, which had no warm-up."""
    found = sum(group.messages_deleted for group in outcome.groups)
    if not found:
        raise LoadError("no message was received and deleted")
    note = ""
    if waiting is not None and found != waiting:
        note = f"{found:,} of {waiting:,} in {outcome.elapsed_s:.0f} s"
    cpu_us = outcome.watched_cpu_s * 1e6 / found
    return Slice(found / outcome.elapsed_s, cpu_us, outcome.client_share, note)


class Contestant:
    """A server under a name, with a new queue for each of its turns."""

    def __init__(self, name: str, server: Server, rig: Rig) -> None:
        self.name, self.server, self.rig = name, server, rig
        self._numbers = itertools.count()

    @contextmanager
    def queue(self) -> Iterator[QueueLoad]:
        """A standard queue."""
        queue = QueueLoad(self.rig, self.server, self._next_name())
        yield queue
        self._remove(queue)

    @contextmanager
    def fifo_queue(self) -> Iterator[FifoLoad]:
        """A FIFO queue, with messages for many groups."""
        name = f"{self._next_name()}.fifo"
        queue = FifoLoad(self.rig, self.server, self.rig.count(FIFO_GROUPS), name)
        yield queue
        self._remove(queue)

    def _next_name(self) -> str:
        return f"bench-{next(self._numbers)}"

    def _remove(self, queue: QueueLoad) -> None:
        """The queue and the files of its requests, of which a FIFO queue has many."""
        queue.call("DeleteQueue")
        for file in self.rig.directory.glob(queue.path("*").name):
            file.unlink()


# --- slices --------------------------------------------------------------------------------------


def echo(yardstick: Echo, connections: int) -> Slice:
    """The yardstick has no queues, and answers a send to any."""
    plan = yardstick.plan
    outcome = load.run(
        Load(
            yardstick.server.address,
            plan.slice_seconds,
            [(connections, yardstick.file)],
            warmup=plan.warmup_seconds,
            core=yardstick.core,
            watched=yardstick.server.process_ids(),
        )
    )
    outcome.check()
    return of_requests(outcome)


def send(one: Contestant, *, connections: int) -> Slice:
    with one.queue() as queue:
        return of_requests(queue.run(windowed(one, connections, queue.singles())))


def send_batches(one: Contestant) -> Slice:
    with one.queue() as queue:
        return of_requests(queue.run(windowed(one, CONNECTIONS, queue.batches())), BATCH)


def windowed(one: Contestant, connections: int, file: Path) -> Load:
    """A slice after its warm-up."""
    plan = one.rig.plan
    cycles = [(connections, file)]
    return Load(one.server.address, plan.slice_seconds, cycles, warmup=plan.warmup_seconds)


def steady(one: Contestant, *, slices: int = 2) -> Slice:
    """Whole lives: sent one by one, received and deleted by up to ten."""
    seconds = slices * one.rig.plan.slice_seconds
    with one.queue() as queue:
        consuming = [(CONSUMERS, queue.consumer(STEADY_WAIT_SECONDS))]
        producing = [(PRODUCERS, queue.singles())]
        return of_deleted(queue.run(Load(one.server.address, seconds, producing, consuming)))


def drain(one: Contestant, *, waiting: int) -> Slice:
    waiting = one.rig.count(waiting)
    with one.queue() as queue:
        filled = queue.cycle([(CONNECTIONS, queue.batches())], waiting // BATCH, FILL_SECONDS_MAX)
        return consume(queue, filled.answered * BATCH)


def consume(queue: QueueLoad, waiting: int) -> Slice:
    """Receive and delete all that waits, or as much as there is time for."""
    outcome = queue.run(
        Load(
            queue.node.address,
            LOAD_SECONDS_MAX,
            consumers=[(CONSUMERS, queue.consumer())],
            stop_empty=EMPTY_STREAK,
        )
    )
    return of_deleted(outcome, waiting)


def fifo_send(one: Contestant) -> Slice:
    count = one.rig.count(FIFO_SENDS)
    with one.fifo_queue() as queue:
        files = queue.write_sends(count, CONNECTIONS)
        return of_requests(queue.cycle(files, count, LOAD_SECONDS_MAX))


def fifo_drain(one: Contestant) -> Slice:
    waiting = one.rig.count(FIFO_DRAINED)
    with one.fifo_queue() as queue:
        queue.fill(waiting)
        return consume(queue, waiting)


# --- rows ----------------------------------------------------------------------------------------


class Row(msgspec.Struct, frozen=True):
    """A line of the table; `connections` are those of the echo server beside it."""

    key: str
    title: str
    measure: Callable[[Contestant], Slice]
    size: int = 0
    connections: int = ECHO_CONNECTIONS
    turns_max: int | None = None

    def name(self, rig: Rig) -> str:
        """The title with the size of this run."""
        return self.title.format(rig.count(self.size))


ROWS = (
    Row("send", "SendMessage, 64", partial(send, connections=CONNECTIONS)),
    Row(
        "send-wide",
        "SendMessage, 256",
        partial(send, connections=CONNECTIONS_WIDE),
        connections=CONNECTIONS_WIDE,
    ),
    Row("batch", "SendMessageBatch(10), 64", send_batches),
    Row("steady", "steady state, 16 + 16", steady),
    Row("drain", "drain of {:,}", partial(drain, waiting=SHALLOW), SHALLOW),
    Row("fifo-send", "FIFO send, {:,} groups", fifo_send, FIFO_GROUPS),
    Row("fifo-drain", "FIFO drain of {:,}", fifo_drain, FIFO_DRAINED),
    # The longest by far: once.
    Row("drain-deep", "drain of {:,}", partial(drain, waiting=DEEP), DEEP, turns_max=1),
)
