"""Memory and the time to be ready: of a node that idles, that holds 1 M messages, 10 k polls."""

import os
import time
from statistics import median

from bench import idle_polls, node_load
from bench.queue_load import QueueLoad, signer_of
from bench.report import Line, ratio_line
from bench.rig import Rig
from bench.server_process import NODE_COMMAND, Server, ServerError

WAITING = 1_000_000
WAITING_MEGABYTES_MAX = 60
POLLS = 10_000
POLLS_MEGABYTES_MAX = 60
READY_RATIO_MAX = 3.0
# Messages that a node has seen before its memory counts as that of an idle one.
WARMING = 1_000
# Long enough for what a load leaves to do: flushes come every few seconds.
SETTLE_SECONDS = 12.0


def settle(rig: Rig) -> None:
    time.sleep(SETTLE_SECONDS if rig.plan.scale >= 0.1 else 0.1)


def measure_idle(rig: Rig) -> list[Line]:
    """A node that nobody talks to, and how long it took to be ready."""
    plan = node_load.FULL if rig.plan.scale >= 0.1 else node_load.SHORT
    return node_load.measure_start(rig.directory, plan, NODE_COMMAND)


def measure_million(rig: Rig) -> list[Line]:
    """What waiting messages add to memory, and to the next start."""
    messages = rig.count(WAITING)
    name = f"{messages:,} waiting"
    with rig.node("million") as node:
        queue = QueueLoad(rig, node)
        queue.fill(WARMING)
        before = resident_megabytes(rig, node)
        with rig.step(f"{name}: sent"):
            queue.fill(messages - WARMING)
        after = resident_megabytes(rig, node)
    detail = f"{after:.0f} MB against {before:.0f} MB"
    memory = Line(
        f"{name}: more MB resident", after - before, detail, at_most=WAITING_MEGABYTES_MAX
    )
    return [memory, *restart_lines(rig, name)]


def restart_lines(rig: Rig, name: str) -> list[Line]:
    """Starts after a clean stop against starts on empty directories, in turns."""
    full, empty = [], []
    for turn in rig.turns(f"{name}: restarts"):
        with rig.node("million") as node:
            full.append(node.ready_seconds)
        with rig.node(f"empty-restart-{turn}") as node:
            empty.append(node.ready_seconds)
    ratios = [a / b for a, b in zip(full, empty, strict=True)]
    detail = f"{median(full):.2f} s against {median(empty):.2f} s"
    crashed = crashed_seconds(rig)
    return [
        ratio_line(f"{name}: ready / empty start", ratios, detail, at_most=READY_RATIO_MAX),
        Line(f"{name}: seconds to ready after kill -9", crashed, "after 50,000 more were sent"),
    ]


def crashed_seconds(rig: Rig) -> float:
    """The start after a crash, with a tail of the log to replay."""
    try:
        with rig.node("million") as node:
            queue = QueueLoad(rig, node)
            queue.fill(rig.count(50_000))
            os.kill(node.pid, 9)
            time.sleep(0.5)
    except ServerError:
        pass
    with rig.node("million") as node:
        return node.ready_seconds


def resident_megabytes(rig: Rig, node: Server) -> float:
    settle(rig)
    return node.resident_bytes() / 1e6


def measure_polls(rig: Rig) -> list[Line]:
    """Receives that wait, each on a connection of its own."""
    count = rig.count(POLLS, least=10)
    idle_polls.raise_descriptor_limit(count + idle_polls.SPARE_DESCRIPTORS)
    with rig.node("polls") as node:
        queue = QueueLoad(rig, node)
        queue.call("ReceiveMessage")
        before = resident_megabytes(rig, node)
        with idle_polls.opened(node.address, count) as polls:
            members = {"QueueUrl": queue.url, "WaitTimeSeconds": idle_polls.WAIT_SECONDS}
            polls.begin([signer_of(node).request("ReceiveMessage", members)])
            idle_polls.take_in(node, polls)
            after = node.resident_bytes() / 1e6
    detail = f"{after:.0f} MB against {before:.0f} MB, connections included"
    name = f"{count:,} idle long polls: more MB resident"
    return [Line(name, after - before, detail, at_most=POLLS_MEGABYTES_MAX)]
