"""The links between the workers of a node: one per pair, over unix sockets. Shell.

A link is that of `peers/link.py`. There is no handshake: the sockets are in the data directory,
which nobody but the node's user can enter. The worker with the higher number dials, and dials
again when its sibling has ended.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, cast

from fastnode import config
from fastnode.clock import Clock
from fastnode.config import PEER_FRAME_BYTES_MAX
from fastnode.peers import frames
from fastnode.peers.calls import Handler
from fastnode.peers.frames import Splitter
from fastnode.peers.handshake import INCARNATION_BYTES, Identity
from fastnode.peers.link import Counts, Link
from fastnode.workers.assignment import sibling_id

_DIRECTORY: Final = "workers"
_BACKLOG: Final = 64
_DIAL_SECONDS: Final = 0.05
_TICKS_PER_PING: Final = 4
_TICK_SECONDS: Final = config.PEER_PING_SECONDS / _TICKS_PER_PING
_SILENT_TICKS: Final = round(config.PEER_SILENT_SECONDS / _TICK_SECONDS)

OnLink = Callable[[int], None]


class SocketPaths:
    """Where the workers' sockets are. By way of a descriptor, because the address of a unix socket
    has room for 107 bytes and the path of a data directory may have more.
    """

    def __init__(self, data_path: Path) -> None:
        directory = data_path / _DIRECTORY
        directory.mkdir(mode=0o700, exist_ok=True)
        self._descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def of(self, worker: int, kind: str) -> str:
        return f"/proc/self/fd/{self._descriptor}/{worker:03d}.{kind}"

    def listener(self, worker: int, kind: str, family: int) -> socket.socket:
        """A bound socket; what an earlier worker of the number has left gives way."""
        path = self.of(worker, kind)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        bound = socket.socket(socket.AF_UNIX, family | socket.SOCK_NONBLOCK)
        bound.bind(path)
        return bound

    def close(self) -> None:
        os.close(self._descriptor)


class Siblings:
    """The host of this worker's links; see `peers/link.py`. `on_up` and `on_down` are told of a
    worker by its number.
    """

    def __init__(
        self,
        worker: int,
        workers: int,
        paths: SocketPaths,
        services: Mapping[int, Handler],
        clock: Clock,
        *,
        on_up: OnLink,
        on_down: OnLink,
    ) -> None:
        self.counts = Counts()
        self.services = services
        self.log = logging.getLogger("fastnode.workers")
        self.wall_ns = clock.wall_ns
        self.boottime_ns = clock.boottime_ns
        self._worker = worker
        self._workers = workers
        self._paths = paths
        self._on_up = on_up
        self._on_down = on_down
        self._links: dict[int, Link] = {}
        self._dialers: list[asyncio.Task[None]] = []
        self._listener: asyncio.Server | None = None
        self._ticker: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        listener = self._paths.listener(self._worker, "link", socket.SOCK_STREAM)
        self._listener = await loop.create_unix_server(
            lambda: _Accepted(self), sock=listener, backlog=_BACKLOG
        )
        self._dialers = [loop.create_task(self._dial(other)) for other in range(self._worker)]
        self._tick()

    async def close(self) -> None:
        for dialer in self._dialers:
            dialer.cancel()
        if self._listener is not None:
            self._listener.close()
        if self._ticker is not None:
            self._ticker.cancel()
        links = list(self._links.values())
        for link in links:
            link.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(config.PEER_CLOSE_SECONDS):
                for link in links:
                    await link.closed.wait()

    @property
    def others(self) -> list[int]:
        return [worker for worker in range(self._workers) if worker != self._worker]

    @property
    def are_all_linked(self) -> bool:
        return len(self._links) == self._workers - 1

    def link_to(self, sibling: int) -> Link | None:
        """By the name of `assignment.sibling_id`."""
        return self._links.get(sibling)

    # --- what links ask for -------------------------------------------------------------------

    def on_raft(self, node_id: int, packet: bytes, /) -> None:
        """No group has members in two workers."""

    def link_lost(self, link: Link, why: str) -> None:
        worker = link.peer.node_id - 1
        del self._links[link.peer.node_id]
        self.log.info("link to a worker is down", extra={"worker": worker, "why": why})
        self._on_down(worker)

    def establish(
        self, worker: int, transport: asyncio.Transport, splitter: Splitter, rest: list[bytes]
    ) -> Link:
        sibling = sibling_id(worker)
        if old := self.link_to(sibling):
            old.lose("the worker connected anew")
        peer = Identity(node_id=sibling, incarnation=bytes(INCARNATION_BYTES))
        dialer = max(sibling, sibling_id(self._worker))
        link = self._links[sibling] = Link(self, peer, transport, splitter, dialer_id=dialer)
        self._on_up(worker)
        link.begin(rest)
        return link

    # --- connecting -----------------------------------------------------------------------------

    async def _dial(self, other: int) -> None:
        loop = asyncio.get_running_loop()
        hello = frames.plain_frame(frames.HELLO, bytes((self._worker,)))
        while True:
            with contextlib.suppress(OSError):
                transport, _ = await loop.create_unix_connection(
                    asyncio.Protocol, self._paths.of(other, "link")
                )
                transport.write(hello)
                link = self.establish(other, transport, Splitter(PEER_FRAME_BYTES_MAX), [])
                await link.closed.wait()
            await asyncio.sleep(_DIAL_SECONDS)

    def _tick(self) -> None:
        for link in tuple(self._links.values()):
            link.tick(_TICKS_PER_PING, _SILENT_TICKS)
        self._ticker = asyncio.get_running_loop().call_later(_TICK_SECONDS, self._tick)


class _Accepted(asyncio.Protocol):
    """A connection until it has said whose it is."""

    def __init__(self, siblings: Siblings) -> None:
        self._siblings = siblings
        self._splitter = Splitter(PEER_FRAME_BYTES_MAX)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        hello, *rest = self._splitter.feed(data) or [b""]
        if hello:
            self._siblings.establish(hello[1], self._transport, self._splitter, rest)
