"""10,000 receives that wait on one node: what they cost while nothing happens, and how they wake.

    python -m bench.idle_polls [--polls N] [--data-under DIR]

Each poll has a connection of its own and waits 20 s, on one queue and then spread over 1,000. While
they wait, the node's CPU time and resident memory are read from the kernel; then as many messages
are sent as polls wait, and the time until the last poll is answered is taken. Raw sockets and
epoll: the client must not be what is measured. Exit codes as in `node_load`.
"""

import argparse
import json
import resource
import select
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from bench.machine import MEMORY_FILESYSTEMS, choose_cores, describe
from bench.server_process import ROOT, Server, ServerError, cpu_seconds, exchange, node
from bench.sqs_requests import Signer

POLLS = 10_000
QUEUES = 1_000
WAIT_SECONDS = 20
TAKE_IN_SECONDS_MAX = 4.0
QUIET_SHARE = 0.05
IDLE_SECONDS = 10.0
WAKE_SECONDS_MAX = 10.0
# A poll may end so much later than it should while 10,000 end at once.
LATE_SECONDS_MAX = 10.0
# Descriptors that a process needs besides its connections.
SPARE_DESCRIPTORS = 200
CPU_SHARE_MAX = 0.03
POLL_BYTES_MAX = 10 * 1024
BATCH = 10
# Each sends its batches one after the other without waiting for an answer.
SENDERS = 20


class Figures(Struct, frozen=True):
    """What was measured with the polls on so many queues."""

    queues: int
    cpu_share: float
    connection_bytes: float
    poll_bytes: float
    wake_seconds: float
    wake_p50_ms: float
    wake_p99_ms: float

    def misses(self) -> list[str]:
        found = []
        if self.cpu_share > CPU_SHARE_MAX:
            found.append(f"{self.cpu_share:.1%} of a core is above {CPU_SHARE_MAX:.0%}")
        if self.poll_bytes > POLL_BYTES_MAX:
            found.append(f"{self.poll_bytes:.0f} bytes per poll are above {POLL_BYTES_MAX}")
        if self.wake_seconds > WAKE_SECONDS_MAX:
            found.append(f"the last poll woke after {self.wake_seconds:.1f} s")
        return [f"{self.queues} queues: {miss}" for miss in found]


class Polls:
    """Connections that each owe us one answer."""

    def __init__(self, address: str, count: int) -> None:
        host, _, port = address.rpartition(":")
        self.sockets: dict[int, socket.socket] = {}
        self._epoll = select.epoll()
        for _ in range(count):
            connection = socket.create_connection((host, int(port)), timeout=10.0)
            self.sockets[connection.fileno()] = connection
            self._epoll.register(connection, select.EPOLLIN)

    def begin(self, requests: Sequence[bytes]) -> None:
        for number, connection in enumerate(self.sockets.values()):
            connection.sendall(requests[number % len(requests)])

    def answered(self, seconds: float) -> list[bytes]:
        """Whole answers that came within the time; each is small enough to come at once."""
        events = self._epoll.poll(seconds, len(self.sockets))
        return [self.sockets[descriptor].recv(65_536) for descriptor, _ in events]

    def close(self) -> None:
        self._epoll.close()
        for connection in self.sockets.values():
            connection.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--polls", type=int, default=POLLS)
    parser.add_argument("--data-under", type=Path, default=ROOT / "build")
    arguments = parser.parse_args()
    polls: int = arguments.polls
    try:
        raise_descriptor_limit(polls + SPARE_DESCRIPTORS)
        arguments.data_under.mkdir(exist_ok=True)
        machine = describe(arguments.data_under)
        if machine.filesystem in MEMORY_FILESYSTEMS:
            raise ServerError(f"{arguments.data_under} is in memory; choose --data-under on a disk")
        figures = [measure(arguments.data_under, polls, queues) for queues in (1, QUEUES)]
    except (ServerError, OSError) as error:
        print(f"idle_polls: {error}", file=sys.stderr)
        return 2
    print("\n".join(machine.lines()))
    print(table(polls, figures))
    misses = [miss for each in figures for miss in each.misses()]
    print("\n".join(f"MISSED {miss}" for miss in misses) or "all targets met")
    return 1 if misses else 0


def raise_descriptor_limit(wanted: int) -> None:
    """The node inherits ours; a poll is one descriptor on either side."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise ServerError(
            f"{wanted} open files are needed and {hard} are allowed: raise it with `ulimit -n` as"
            " root, LimitNOFILE= in a systemd unit, or --ulimit nofile= for a container"
        )
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def measure(data_under: Path, polls: int, queues: int) -> Figures:
    server_core, _ = choose_cores()
    with (
        tempfile.TemporaryDirectory(dir=data_under) as directory,
        node(Path(directory) / "data", server_core) as server,
    ):
        signer = Signer(server.address, datetime.now(UTC))
        urls = create_queues(server, signer, min(queues, polls))
        before = server.resident_bytes()
        with opened(server.address, polls) as waiting:
            connected = server.resident_bytes()
            members = {"MaxNumberOfMessages": 1, "WaitTimeSeconds": WAIT_SECONDS}
            receives = [
                signer.request("ReceiveMessage", {"QueueUrl": url, **members}) for url in urls
            ]
            waiting.begin(receives)
            take_in(server, waiting)
            cpu_share = busy_share(server, waiting, IDLE_SECONDS)
            idle = server.resident_bytes()
            await_answers(waiting, b"{}", WAIT_SECONDS + LATE_SECONDS_MAX)
            waiting.begin(receives)
            take_in(server, waiting)
            latencies = wake_all(server, signer, urls, waiting)
    return Figures(
        queues=len(urls),
        cpu_share=cpu_share,
        connection_bytes=(connected - before) / polls,
        poll_bytes=(idle - before) / polls,
        wake_seconds=latencies[-1],
        wake_p50_ms=latencies[len(latencies) // 2] * 1000,
        wake_p99_ms=latencies[len(latencies) * 99 // 100] * 1000,
    )


def create_queues(server: Server, signer: Signer, count: int) -> list[str]:
    """Queues that are in the node's memory, so that only polls add to it."""
    urls = []
    for number in range(count):
        created = signer.request("CreateQueue", {"QueueName": f"idle-{number}"})
        urls.append(json.loads(exchange(server.address, created))["QueueUrl"])
        members = {"QueueUrl": urls[-1], "WaitTimeSeconds": 0}
        exchange(server.address, signer.request("ReceiveMessage", members))
    return urls


@contextmanager
def opened(address: str, count: int) -> Iterator[Polls]:
    polls = Polls(address, count)
    try:
        yield polls
    finally:
        polls.close()


def take_in(server: Server, polls: Polls) -> None:
    """Until the node has read all requests and has nothing to do."""
    deadline = time.monotonic() + TAKE_IN_SECONDS_MAX
    while busy_share(server, polls, 0.25) > QUIET_SHARE and time.monotonic() < deadline:
        pass


def busy_share(server: Server, polls: Polls, seconds: float) -> float:
    """How much of a core the node uses while all polls wait."""
    begun, used = time.monotonic(), cpu_seconds(server.process_ids())
    time.sleep(seconds)
    early = polls.answered(0)
    if early:
        raise ServerError(f"{len(early)} polls ended early: {early[0][:200]!r}")
    return (cpu_seconds(server.process_ids()) - used) / (time.monotonic() - begun)


def wake_all(server: Server, signer: Signer, urls: Sequence[str], polls: Polls) -> list[float]:
    """One message for each poll; when each was answered, in seconds after they were sent."""
    total = len(polls.sockets)
    batches = [batch_of(signer, urls[n % len(urls)]) for n in range(total // BATCH)]
    with opened(server.address, SENDERS) as senders:
        for number, connection in enumerate(senders.sockets.values()):
            connection.sendall(b"".join(batches[number::SENDERS]))
        latencies = await_answers(polls, b'"Body":"wake up"', WAKE_SECONDS_MAX)
        refused = [answer for answer in senders.answered(0) if b"HTTP/1.1 200 OK" not in answer]
    if refused:
        raise ServerError(f"a send was answered {refused[0][:200]!r}")
    return latencies


def batch_of(signer: Signer, url: str) -> bytes:
    entries = [{"Id": str(n), "MessageBody": "wake up"} for n in range(BATCH)]
    return signer.request("SendMessageBatch", {"QueueUrl": url, "Entries": entries})


def await_answers(polls: Polls, expected: bytes, seconds_max: float) -> list[float]:
    """When each poll was answered, in seconds from now."""
    total, begun = len(polls.sockets), time.monotonic()
    seconds: list[float] = []
    while len(seconds) < total:
        if time.monotonic() - begun > seconds_max:
            raise ServerError(f"{total - len(seconds)} of {total} polls were not answered in time")
        answers = polls.answered(0.1)
        strange = [answer for answer in answers if expected not in answer]
        if strange:
            raise ServerError(f"a poll was answered {strange[0][:200]!r}")
        seconds += [time.monotonic() - begun] * len(answers)
    return seconds


def table(polls: int, figures: Sequence[Figures]) -> str:
    lines = [
        f"{polls} receives that wait {WAIT_SECONDS} s, each on a connection of its own",
        f"{'queues':>8} {'core':>7} {'bytes/connection':>17} {'bytes/poll':>11}"
        f" {'all awake s':>12} {'p50 ms':>8} {'p99 ms':>8}",
    ]
    for each in figures:
        lines.append(
            f"{each.queues:>8} {each.cpu_share:>7.2%} {each.connection_bytes:>17.0f}"
            f" {each.poll_bytes:>11.0f} {each.wake_seconds:>12.2f} {each.wake_p50_ms:>8.0f}"
            f" {each.wake_p99_ms:>8.0f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
