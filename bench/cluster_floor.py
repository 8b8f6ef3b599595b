"""What no replicated send can be faster than: a round trip of the network, an fsync of the disk.

    python -m bench.cluster_floor    the other end of the round trips; prints its port

Both are plain blocking calls, so that nothing of an event loop is counted as network or disk.
"""

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from statistics import median

from bench import server_process

# About what a send of 200 bytes puts on a link, and into the log.
PAYLOAD = b"x" * 600
FILE_BYTES = 16 * 1_048_576


@contextmanager
def network(host: str = "127.0.0.1") -> Iterator[Callable[[int], float]]:
    """Gives the median seconds of so many round trips between two processes."""
    command = [sys.executable, "-m", "bench.cluster_floor"]
    with server_process.started(command, None) as (_, line, _):
        with socket.create_connection((host, int(line)), timeout=10.0) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield lambda rounds: median_seconds(lambda: round_trip(connection), rounds)


def round_trip(connection: socket.socket) -> None:
    connection.sendall(PAYLOAD)
    missing = len(PAYLOAD)
    while missing:
        missing -= len(connection.recv(missing))


@contextmanager
def disk(directory: Path) -> Iterator[Callable[[int], float]]:
    """Gives the median seconds of so many small writes one after the other, each with its
    fdatasync, into space that was written before: as the log is written. In space that was only
    allocated the filesystem would have more to do.
    """
    file = os.open(directory / "floor", os.O_CREAT | os.O_WRONLY)
    os.write(file, bytes(FILE_BYTES))
    os.fsync(file)
    offsets = cycle(range(0, FILE_BYTES - len(PAYLOAD), len(PAYLOAD)))

    def append() -> None:
        os.pwrite(file, PAYLOAD, next(offsets))
        os.fdatasync(file)

    try:
        yield lambda rounds: median_seconds(append, rounds)
    finally:
        os.close(file)


def median_seconds(action: Callable[[], None], rounds: int) -> float:
    def timed() -> float:
        began = time.perf_counter()
        action()
        return time.perf_counter() - began

    return median(timed() for _ in range(rounds))


def echo() -> None:
    """One connection, until it ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while chunk := connection.recv(65_536):
            connection.sendall(chunk)


if __name__ == "__main__":
    echo()
