"""Rates of a whole node against the bare echo server: drains, a steady state, FIFO queues.

Each turn measures the node and then echo; a ratio is messages per second of the node over requests
per second of echo, or the CPU time of a request to echo over that of a message.
"""

from collections.abc import Sequence
from statistics import median

import msgspec

from bench.load import Load, Outcome
from bench.queue_load import CONSUMERS, FifoLoad, QueueLoad
from bench.report import Line, ratio_line
from bench.rig import Rig
from bench.server_process import come_to_rest

DRAINED = 50_000
DEEP = 500_000
FIFO_GROUPS = 1_000
FIFO_CONNECTIONS = 64
FIFO_SENDS = 16_000
FIFO_DRAINED = 20_000
PRODUCERS = 16
# A consumer that finds nothing waits for a message, as consumers do.
STEADY_WAIT_SECONDS = 1


class Pace(msgspec.Struct, frozen=True):
    """What a server did in one slice: of messages for a node, of requests for echo."""

    per_second: float
    cpu_us: float


def of_requests(outcome: Outcome) -> Pace:
    return Pace(outcome.rate, outcome.server_cpu_us)


def of_deleted(outcome: Outcome) -> Pace:
    """Messages that were received and deleted; CPU time of everything the node did meanwhile."""
    deleted = sum(group.messages_deleted for group in outcome.groups)
    return Pace(deleted / outcome.elapsed_s, outcome.watched_cpu_s * 1e6 / max(1, deleted))


def echo_lines(
    name: str, unit: str, turns: Sequence[tuple[Pace, Pace]], *, at_least: float
) -> list[Line]:
    """Rate and CPU of (node, echo)."""
    rates = [node.per_second / echo.per_second for node, echo in turns]
    costs = [echo.cpu_us / node.cpu_us for node, echo in turns]
    node, echo = (median(pace.per_second for pace in side) for side in zip(*turns, strict=True))
    cost, echo_cost = (median(pace.cpu_us for pace in side) for side in zip(*turns, strict=True))
    detail = f"{node:,.0f}/s against {echo:,.0f}/s"
    cost_detail = f"{cost:.1f} µs against {echo_cost:.1f} µs"
    return [
        ratio_line(f"{name}: {unit} / echo", rates, detail, at_least=at_least),
        ratio_line(f"{name}: CPU, echo / {unit}", costs, cost_detail),
    ]


def measure_drain(rig: Rig) -> list[Line]:
    """A queue is filled and emptied."""
    messages = rig.count(DRAINED)
    name = f"drain of {messages:,}, {CONSUMERS} consumers"
    turns = []
    with rig.echo() as echo, rig.node("drain") as node:
        queue = QueueLoad(rig, node)
        for _ in rig.turns(name):
            queue.fill(messages)
            turns.append((of_deleted(queue.drain(messages)), of_requests(echo.measure())))
    return echo_lines(name, "message", turns, at_least=1.4)


def measure_deep_drain(rig: Rig) -> list[Line]:
    """A slice of a drain far from its end; what it took is filled up again."""
    messages = rig.count(DEEP)
    name = f"drain at {messages:,} waiting, {CONSUMERS} consumers"
    turns = []
    with rig.echo() as echo, rig.node("deep") as node:
        queue = QueueLoad(rig, node)
        with rig.step(f"{messages:,} messages are sent"):
            queue.fill(messages)
        for _ in rig.turns(name):
            come_to_rest(node)
            outcome = queue.consume(rig.plan.slice_seconds)
            turns.append((of_deleted(outcome), of_requests(echo.measure())))
            queue.fill(outcome.groups[0].messages_deleted // 10 * 10)
    return echo_lines(name, "message", turns, at_least=1.3)


def measure_steady(rig: Rig) -> list[Line]:
    """Producers and consumers at the same time; a life is counted when its message is deleted."""
    name = f"steady, {PRODUCERS} producers and {CONSUMERS} consumers"
    turns = []
    with rig.echo() as echo, rig.node("steady") as node:
        queue = QueueLoad(rig, node)
        for _ in rig.turns(name):
            outcome = queue.run(
                Load(
                    node.address,
                    rig.plan.slice_seconds,
                    [(PRODUCERS, queue.singles())],
                    [(CONSUMERS, queue.consumer(STEADY_WAIT_SECONDS))],
                )
            )
            turns.append((of_deleted(outcome), of_requests(echo.measure())))
            queue.call("PurgeQueue")
    return echo_lines(name, "life", turns, at_least=0.25)


def measure_fifo(rig: Rig) -> list[Line]:
    """Sends to many groups, then a drain of such messages."""
    sends, drained = rig.count(FIFO_SENDS), rig.count(FIFO_DRAINED)
    sent, emptied = [], []
    names = (
        f"FIFO send, {FIFO_GROUPS:,} groups, {FIFO_CONNECTIONS} connections",
        f"FIFO drain of {drained:,}, {CONSUMERS} consumers",
    )
    with rig.echo() as echo, rig.node("fifo") as node:
        for turn in rig.turns("FIFO"):
            queue = FifoLoad(rig, node, FIFO_GROUPS, f"bench-{turn}.fifo")
            files = queue.write_sends(sends, FIFO_CONNECTIONS)
            sent.append((of_requests(queue.cycle(files, sends)), of_requests(echo.measure())))
            queue.call("PurgeQueue")
            queue.fill(drained)
            emptied.append((of_deleted(queue.drain(drained)), of_requests(echo.measure())))
    return [
        *echo_lines(names[0], "send", sent, at_least=0.35),
        *echo_lines(names[1], "message", emptied, at_least=0.8),
    ]
