"""What a lone client waits for, and bodies of 1 MiB against the disk that they go to.

A bound is made of what was measured in the same turn, so each line is a ratio to its bound.
"""

import os
import select
import socket
import time
from contextlib import closing
from pathlib import Path
from statistics import median

import msgspec

from bench import cluster_floor
from bench.load import Load, LoadError
from bench.queue_load import QueueLoad
from bench.report import Line, ratio_line
from bench.rig import Rig
from bench.server_process import Server

SEND_ABOVE_FSYNC_US = 150.0
POLL_ABOVE_SEND_US = 500.0
FSYNCS = 200
WAKES = 60
# Long enough that a poll waits before its message is sent.
SETTLE_SECONDS = 0.002
WAIT_SECONDS_MAX = 10.0
MEBIBYTE = 1_048_576
LARGE_BODIES = 160
LARGE_CONNECTIONS = 8


def measure_lone_send(rig: Rig) -> list[Line]:
    """One connection against one fsync."""
    above, ratios = [], []
    with rig.node("lone") as node, cluster_floor.disk(rig.directory) as fsync_seconds:
        queue = QueueLoad(rig, node)
        for _ in rig.turns("SendMessage, 1 connection"):
            fsync_us = fsync_seconds(FSYNCS) * 1e6
            slice_ = Load(
                node.address,
                rig.plan.slice_seconds,
                [(1, queue.singles())],
                warmup=rig.plan.warmup_seconds,
            )
            send_us = queue.run(slice_).step.p50_us
            above.append(send_us - fsync_us)
            ratios.append(send_us / (fsync_us + SEND_ABOVE_FSYNC_US))
    detail = f"an fsync and {median(above):.0f} µs"
    name = f"SendMessage, 1 connection: p50 / (fsync + {SEND_ABOVE_FSYNC_US:.0f} µs)"
    return [ratio_line(name, ratios, detail, at_most=1.0)]


# --- a long poll ---------------------------------------------------------------------------------


class Client:
    """One connection that asks one thing at a time; `close` it."""

    def __init__(self, node: Server) -> None:
        host, _, port = node.address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=WAIT_SECONDS_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: bytes) -> None:
        self.socket.sendall(request)

    def answer(self) -> bytes:
        """Small answers come in one piece."""
        found = self.socket.recv(65_536)
        if not found.startswith(b"HTTP/1.1 200 "):
            raise LoadError(f"an answer other than 200: {found[:300]!r}")
        return found.partition(b"\r\n\r\n")[2]

    def close(self) -> None:
        self.socket.close()


def measure_long_poll(rig: Rig) -> list[Line]:
    """From the start of a send to the answer of the receive that waits for it."""
    wakes = rig.count(WAKES * 10) // 10
    above, ratios = [], []
    with rig.node("poll") as node:
        queue = QueueLoad(rig, node)
        with closing(Client(node)) as sender, closing(Client(node)) as receiver:
            for _ in rig.turns("long poll"):
                times = [wake(queue, sender, receiver) for _ in range(wakes)]
                sent_us, received_us = (median(side) * 1e6 for side in zip(*times, strict=True))
                above.append(received_us - sent_us)
                ratios.append(received_us / (sent_us + POLL_ABOVE_SEND_US))
    detail = f"{median(above):.0f} µs after the send's own answer"
    name = f"long poll: send → receive p50 / (send + {POLL_ABOVE_SEND_US:.0f} µs)"
    return [ratio_line(name, ratios, detail, at_most=1.0)]


def wake(queue: QueueLoad, sender: Client, receiver: Client) -> tuple[float, float]:
    """Seconds from the start of the send to the answers of (send, receive)."""
    send = queue.request("SendMessage", MessageBody="x" * 200)
    receiver.ask(queue.request("ReceiveMessage", WaitTimeSeconds=20))
    time.sleep(SETTLE_SECONDS)
    began = time.perf_counter()
    sender.ask(send)
    answered: dict[Client, tuple[float, bytes]] = {}
    while len(answered) < 2:
        waiting = {each.socket: each for each in (sender, receiver) if each not in answered}
        ready, _, _ = select.select(list(waiting), [], [], WAIT_SECONDS_MAX)
        now = time.perf_counter() - began
        if not ready:
            raise LoadError(f"no answer within {WAIT_SECONDS_MAX:.0f} s")
        for each in ready:
            answered[waiting[each]] = now, waiting[each].answer()
    (message,) = msgspec.json.decode(answered[receiver][1])["Messages"]
    sender.ask(queue.request("DeleteMessage", ReceiptHandle=message["ReceiptHandle"]))
    sender.answer()
    return answered[sender][0], answered[receiver][0]


# --- large bodies --------------------------------------------------------------------------------


def measure_large(rig: Rig) -> list[Line]:
    """Bodies of 1 MiB, and as many bytes written to a file."""
    bodies = max(LARGE_CONNECTIONS, rig.count(LARGE_BODIES * 10) // 10)
    ratios, rates = [], []
    with rig.node("large") as node:
        queue = QueueLoad(rig, node)
        for _ in rig.turns("1 MiB bodies"):
            file = queue.path("large")
            body = "x" * MEBIBYTE
            file.write_bytes(
                b"".join(queue.request("SendMessage", n, MessageBody=body) for n in range(4))
            )
            outcome = queue.cycle([(LARGE_CONNECTIONS, file)], bodies)
            disk = bodies * MEBIBYTE / write_seconds(rig.directory / "sequential", bodies)
            rates.append(bodies * MEBIBYTE / outcome.elapsed_s)
            ratios.append(rates[-1] / disk)
            queue.call("PurgeQueue")
    detail = f"{median(rates) / 1e6:.0f} MB/s"
    return [ratio_line("1 MiB bodies: bytes / disk", ratios, detail, at_least=0.5)]


def write_seconds(file: Path, mebibytes: int) -> float:
    """To write them one after the other and know them on the disk."""
    chunk = os.urandom(MEBIBYTE)
    began = time.perf_counter()
    with file.open("wb", buffering=0) as out:
        for _ in range(mebibytes):
            out.write(chunk)
        os.fdatasync(out.fileno())
    took = time.perf_counter() - began
    file.unlink()
    return took
