"""Sockets that change hands: taken whole, or not at all, and none is left open."""

import asyncio
import contextlib
import os
import resource
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import uvloop

from fastnode.workers.handover import WAITING_MAX, HandOver
from fastnode.workers.siblings import SocketPaths

LOOKS = 20_000
RECEIVED = b"POST / HTTP/1.1\r\n"


class Client:
    """Both ends of a client's connection; the node's end is what is handed over."""

    def __init__(self) -> None:
        self.socket, self._accepted = socket.socketpair()
        self.ended: list[str] = []
        self.received = b""

    def get_extra_info(self, name: str) -> Any:
        return self._accepted if name == "socket" else None

    def close(self) -> None:
        self.ended.append("moved")
        self._accepted.close()

    def stay(self, received: bytes) -> None:
        self.ended.append("stayed")
        self.received = received
        self._accepted.close()


class Server:
    """Answers on the socket, so that it is known to be the client's."""

    def __init__(self) -> None:
        self.is_open = True
        self.adopted: list[bytes] = []

    def adopt(self, accepted: socket.socket, received: bytes) -> None:
        with accepted:
            accepted.sendall(b"adopted %d" % len(received))
        self.adopted.append(received)


class Pair:
    """Worker 0 hands connections to worker 1."""

    def __init__(self, paths: SocketPaths) -> None:
        self.server = Server()
        self.receiver = HandOver(1, paths, self.server)
        self.sender = HandOver(0, paths, Server())
        self.receiver.start()
        self.sender.connect(1)

    def move(self, client: Client, received: bytes = RECEIVED) -> bool:
        return self.sender.move(client, cast(asyncio.Transport, client), 1, received)

    def close(self) -> None:
        self.sender.close()
        self.receiver.close()


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(LOOKS):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("not in time")


def run(directory: Path, work: Callable[[Pair], Awaitable[None]]) -> None:
    async def main() -> None:
        paths = SocketPaths(directory)
        pair = Pair(paths)
        try:
            await work(pair)
        finally:
            pair.close()
            paths.close()

    before = open_sockets()
    uvloop.run(main())
    assert open_sockets() == before


def open_sockets() -> set[str]:
    return {target for target in _targets() if target.startswith("socket:")}


def _targets() -> Iterator[str]:
    for name in os.listdir("/proc/self/fd"):
        # The directory itself was open when it was listed.
        with contextlib.suppress(FileNotFoundError):
            yield os.readlink(f"/proc/self/fd/{name}")


@pytest.mark.parametrize("size", [0, 1, 65_536, 300_000])
def test_a_connection_arrives_with_all_that_was_received(tmp_path: Path, size: int) -> None:
    async def work(pair: Pair) -> None:
        client, received = Client(), os.urandom(size)
        assert pair.move(client, received)
        await until(lambda: client.ended == ["moved"] and len(pair.server.adopted) == 1)
        assert pair.server.adopted == [received]
        assert client.socket.recv(100) == b"adopted %d" % size
        assert (pair.sender.moved_count, pair.sender.refused_count) == (1, 0)
        client.socket.close()

    run(tmp_path, work)


def test_a_burst_that_the_socket_has_no_room_for_arrives_in_order(tmp_path: Path) -> None:
    async def work(pair: Pair) -> None:
        clients = [Client() for _ in range(200)]
        every = [bytes([number]) * 20_000 for number in range(200)]
        for client, received in zip(clients, every, strict=True):
            assert pair.move(client, received)
        await until(lambda: len(pair.server.adopted) == 200)
        assert pair.server.adopted == every
        await until(lambda: all(client.ended == ["moved"] for client in clients))
        for client in clients:
            client.socket.close()

    run(tmp_path, work)


def test_a_sibling_that_takes_no_more_leaves_the_connection_where_it_was(tmp_path: Path) -> None:
    async def work(pair: Pair) -> None:
        pair.server.is_open = False
        client = Client()
        assert pair.move(client)
        await until(lambda: client.ended == ["stayed"])
        assert client.received == RECEIVED
        assert (pair.sender.moved_count, pair.sender.refused_count) == (0, 1)
        client.socket.close()

    run(tmp_path, work)


def test_a_sibling_without_descriptors_leaves_the_connection_where_it_was(tmp_path: Path) -> None:
    """The system delivers the bytes and drops the descriptor."""

    async def work(pair: Pair) -> None:
        client = Client()
        await until(lambda: bool(pair.receiver._from))
        assert pair.move(client)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        free = os.dup(client.socket.fileno())
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
        try:
            await until(lambda: client.ended == ["stayed"])
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert not pair.server.adopted
        client.socket.close()

    run(tmp_path, work)


def test_a_sibling_that_ends_before_it_answers_has_not_touched_the_connection(
    tmp_path: Path,
) -> None:
    async def work(pair: Pair) -> None:
        client = Client()
        assert pair.move(client)
        pair.receiver.close()
        await until(lambda: client.ended == ["stayed"])
        assert not pair.server.adopted
        late = Client()
        assert not pair.move(late)
        late.close()
        late.socket.close()
        client.socket.close()

    run(tmp_path, work)


def test_no_more_connections_wait_than_may(tmp_path: Path) -> None:
    async def work(pair: Pair) -> None:
        pair.server.is_open = False
        client = Client()
        moved = 0
        while pair.move(client):
            moved += 1
        assert moved == WAITING_MAX
        await until(lambda: len(client.ended) == WAITING_MAX)
        client.socket.close()

    run(tmp_path, work)
