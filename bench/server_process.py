"""Servers under measurement: started as processes, pinned to a core, watched, stopped.

Knows the echo server and a node by their command lines and their first line on stdout; what is
measured about them is decided in `node_load`.
"""

import os
import re
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPResponse
from pathlib import Path
from typing import IO

import msgspec

from bench import sqs_requests

READY_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 60.0
HTTP_SECONDS_MAX = 60.0
ROOT = Path(__file__).parent.parent
READY_LINE = re.compile(r"^fastnode ready sqs=http://(\S+) admin=http://(\S+)$")
# A compaction that waits for its disk looks like rest for a second.
REST_SHARE, REST_SECONDS, REST_SECONDS_MAX = 0.05, 4, 180.0
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
NODE_COMMAND = (sys.executable, "-m", "fastnode")


class ServerError(Exception):
    """A server that did not start, stop or answer as it should."""


class Server(msgspec.Struct, frozen=True):
    """A running server: addresses are `host:port`; the echo server has no admin address."""

    pid: int
    address: str
    admin: str | None
    ready_seconds: float

    def process_ids(self) -> list[int]:
        """The server's process and its descendants."""
        found = [self.pid]
        for pid in found:
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                found.extend(int(child) for child in children.read_text().split())
        return found

    def resident_bytes(self) -> int:
        """Resident memory of all its processes."""
        return sum(status_bytes(pid, "VmRSS") for pid in self.process_ids())

    def counter(self, name: str) -> float:
        """One of the node's metrics, summed over its labels."""
        assert self.admin is not None
        counters = parse_metrics(fetch(self.admin, "/metrics"))
        if name not in counters:
            raise ServerError(f"the node's /metrics has no {name}")
        return counters[name]


@contextmanager
def echo_server(core: int | None) -> Iterator[Server]:
    """The yardstick on a free port."""
    with started([sys.executable, "-m", "bench.echo"], core) as (process, line, seconds):
        yield Server(process.pid, f"127.0.0.1:{int(line)}", None, seconds)


@contextmanager
def node(
    data_directory: Path,
    core: int | None,
    command: Sequence[str] = NODE_COMMAND,
    flags: Sequence[str] = (),
) -> Iterator[Server]:
    """A real durable node on free ports; `command` is what stands before `run`, `flags` are what
    it is told besides.
    """
    arguments = ["--data-dir", str(data_directory), *flags]
    arguments += ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--raft", "127.0.0.1:0"]
    with started([*command, "run", *arguments], core) as (process, line, seconds):
        match = READY_LINE.match(line)
        if match is None:
            raise ServerError(f"not a ready line: {line!r}")
        yield Server(process.pid, match[1], match[2], seconds)


@contextmanager
def verifying_node(
    data_directory: Path,
    core: int | None,
    command: Sequence[str] = NODE_COMMAND,
    flags: Sequence[str] = (),
) -> Iterator[Server]:
    """Such a node that verifies the signature of each request."""
    file = data_directory.with_suffix(".credentials")
    file.touch(mode=0o600)
    file.write_text(sqs_requests.credentials())
    with node(data_directory, core, command, ["--credentials", str(file), *flags]) as server:
        yield server


@contextmanager
def started(
    command: Sequence[str], core: int | None
) -> Iterator[tuple["subprocess.Popen[str]", str, float]]:
    """The process, its first line, and the seconds until that line; stopped in the end."""
    begun = time.monotonic()
    with pinned(core):
        process = subprocess.Popen(
            command, cwd=ROOT, env=plain_environment(), stdout=subprocess.PIPE, text=True
        )
    assert process.stdout is not None
    try:
        line = first_line(process.stdout)
        yield process, line, time.monotonic() - begun
        if process.poll() is not None:
            raise ServerError(f"{command[0]} ended by itself with {process.returncode}")
    finally:
        stop(process)
        process.stdout.close()


def plain_environment() -> dict[str, str]:
    """Ours without the node's settings: what is measured are its defaults."""
    return {name: value for name, value in os.environ.items() if not name.startswith("FASTNODE_")}


def first_line(stream: IO[str]) -> str:
    """The first line, which a server writes when it is ready."""
    readable, _, _ = select.select([stream], [], [], READY_SECONDS_MAX)
    if not readable:
        raise ServerError(f"the server was not ready within {READY_SECONDS_MAX} s")
    line = stream.readline()
    if not line:
        raise ServerError("the server ended before it was ready; its reason is on stderr")
    return line.rstrip("\n")


@contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """Processes started inside inherit the core; this process gets its own cores back."""
    before = os.sched_getaffinity(0)
    if core is not None:
        os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def stop(process: "subprocess.Popen[str]") -> None:
    """Asks first, since a node drains; kills what does not listen."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def status_bytes(pid: int, field: str) -> int:
    """A size in kB from the kernel's status of a process, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    raise ServerError(f"process {pid} has no {field}")


def fetch(address: str, path: str) -> str:
    """The body of a GET that must succeed."""
    host = f"Host: {address}\r\nConnection: close\r\n"
    return exchange(address, f"GET {path} HTTP/1.1\r\n{host}\r\n".encode())


def exchange(address: str, request: bytes) -> str:
    """The body of the answer to one raw request that must succeed."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=HTTP_SECONDS_MAX) as connection:
        connection.sendall(request)
        with HTTPResponse(connection) as answer:
            answer.begin()
            body = answer.read().decode()
    if answer.status != 200:
        raise ServerError(f"{address}: {answer.status} {body[:200]}")
    return body


def parse_metrics(text: str) -> dict[str, float]:
    """Prometheus text as name → value, series that differ only in labels added up."""
    sums: dict[str, float] = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        series, _, rest = line.rpartition("} ") if "}" in line else line.partition(" ")
        name = series.partition("{")[0]
        sums[name] = sums.get(name, 0.0) + float(rest.split()[0])
    return sums


def cpu_seconds(pids: Sequence[int]) -> float:
    """User and kernel time of these processes so far."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS_PER_SECOND


def busy_share(pids: Sequence[int], seconds: float) -> float:
    """How much of a core these processes use, all together, while nothing is asked of them."""
    begun, used = time.monotonic(), cpu_seconds(pids)
    time.sleep(seconds)
    return (cpu_seconds(pids) - used) / (time.monotonic() - begun)


def come_to_rest(server: Server) -> None:
    """What filling a node left to be compacted is a cost of filling it."""
    deadline = time.monotonic() + REST_SECONDS_MAX
    quiet = 0
    while quiet < REST_SECONDS and time.monotonic() < deadline:
        quiet = quiet + 1 if busy_share(server.process_ids(), 1.0) <= REST_SHARE else 0
