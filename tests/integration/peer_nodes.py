"""Nodes reduced to their links, and lines between them that can be cut, slowed and stopped. Real
sockets on loopback, in one process.
"""

import asyncio
import contextlib
import gc
import logging
import math
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any

import uvloop

from fastnode.clock import SystemClock, SystemIdSource, SystemRng
from fastnode.peers.calls import Handler, IncomingCall
from fastnode.peers.dialer import Timing
from fastnode.peers.handshake import Identity, Reason
from fastnode.peers.link import Link
from fastnode.peers.peers import Peers, Rules, TlsContexts

SECRET = b"the secret of the cluster"
ENOUGH_SECONDS = 120.0
QUICK = Timing(dial_seconds_min=0.002, dial_seconds_max=0.02)
LOOPS: dict[str, Callable[..., Any]] = {"asyncio": asyncio.run, "uvloop": uvloop.run}
ECHO, KEEP, RAISE = 1, 2, 3


def run_clean(loop: str, coroutine: Coroutine[Any, Any, Any]) -> None:
    """Nothing may be left for the loop to complain about, which would end a node."""
    complaints: list[dict[str, Any]] = []

    async def clean() -> None:
        running = asyncio.get_running_loop()
        running.set_exception_handler(lambda _loop, context: complaints.append(context))
        async with asyncio.timeout(ENOUGH_SECONDS):
            await coroutine
        # Sockets that were closed last are gone a few turns later.
        await asyncio.sleep(0.02)
        gc.collect()
        await asyncio.sleep(0)

    LOOPS[loop](clean())
    assert not complaints, complaints


async def until(holds: Callable[[], object], seconds: float = ENOUGH_SECONDS) -> None:
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - no one event stands for whatever a test waits for
            await asyncio.sleep(0.002)


class Lines(logging.Handler):
    """The log of one node: message and fields of each record."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        fields = {key: vars(record)[key] for key in ("why", "node") if key in vars(record)}
        self.lines.append(f"{record.getMessage()} {fields}")

    def having(self, text: str) -> list[str]:
        return [line for line in self.lines if text in line]


class PeerNode:
    """One node's links and what came over them."""

    def __init__(
        self,
        node_id: int,
        *,
        secret: bytes = SECRET,
        cluster_id: str = "cluster",
        incarnation: bytes = b"",
        known: dict[int, bytes] | None = None,
        refused: Mapping[int, Reason] | None = None,
        tls: TlsContexts | None = None,
        timing: Timing = QUICK,
        services: Mapping[int, Handler] | None = None,
    ) -> None:
        self.logged = Lines()
        log = logging.Logger(f"node-{node_id}")
        log.addHandler(self.logged)
        self.known = {} if known is None else known
        self.packets: list[tuple[int, bytes]] = []
        self.kept: list[IncomingCall] = []
        self.ups: list[Link] = []
        self.downs: list[Link] = []
        ids = SystemIdSource()
        self.peers = Peers(
            Identity(
                node_id=node_id,
                incarnation=incarnation or bytes((node_id,)) * 16,
                cluster_id=cluster_id,
                sqs_url=f"http://node-{node_id}",
            ),
            secret,
            Rules(lambda peer: (refused or {}).get(peer.node_id), self._remember),
            on_raft=lambda node, packet: self.packets.append((node, packet)),
            services=services or {ECHO: _echo, KEEP: self._keep, RAISE: _raise},
            clock=SystemClock(),
            ids=ids,
            rng=SystemRng(ids),
            on_up=self.ups.append,
            on_down=self.downs.append,
            tls=tls,
            timing=timing,
            log=log,
        )
        self.address = ""

    async def start(self, addresses: Mapping[int, str] | None = None, port: int = 0) -> "PeerNode":
        self.peers.set_addresses(addresses or {})
        host, port = await self.peers.start("127.0.0.1", port)
        self.address = f"{host}:{port}"
        return self

    def link(self, node_id: int) -> Link:
        found = self.peers.link_to(node_id)
        assert found is not None
        return found

    def _remember(self, node_id: int, incarnation: bytes) -> bool:
        return self.known.setdefault(node_id, incarnation) == incarnation

    def _keep(self, _peer: Identity, _payload: bytes, call: IncomingCall) -> None:
        self.kept.append(call)


def _echo(peer: Identity, payload: bytes, call: IncomingCall) -> None:
    call.answer(peer.node_id, payload)


def _raise(_peer: Identity, _payload: bytes, _call: IncomingCall) -> None:
    raise RuntimeError("a service with a bug")


@contextlib.asynccontextmanager
async def linked(
    first: PeerNode, second: PeerNode, line: "Line | None" = None
) -> AsyncIterator[tuple[Link, Link]]:
    """Both started and linked; yields the link of each."""
    low, high = sorted((first, second), key=lambda node: node.peers.identity.node_id)
    try:
        await low.start()
        address = low.address if line is None else await line.start(low.address)
        await high.start({low.peers.identity.node_id: address})
        await until(lambda: low.ups and high.ups)
        yield first.ups[-1], second.ups[-1]
    finally:
        await high.peers.close()
        await low.peers.close()
        if line is not None:
            await line.close()


@contextlib.asynccontextmanager
async def running(*nodes: PeerNode) -> AsyncIterator[None]:
    """Closed at the end, whatever was started by then."""
    try:
        yield
    finally:
        for node in reversed(nodes):
            await node.peers.close()


class Line:
    """A TCP proxy. Per direction (0 is from the dialer): `rates` in bytes per second, and `passed`,
    the bytes of the last connection. `delay_seconds` is that of each piece. With a direction to
    `cut_later_each_time` the first connection is cut after one byte in it, the second after two,
    and so on.
    """

    def __init__(self) -> None:
        self.cut_later_each_time: int | None = None
        self.passed = [0, 0]
        self.rates: list[float] = [0, 0]
        self.delay_seconds = 0.0
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.connections = 0
        self._is_closed = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, target: str) -> str:
        self._target = target.rsplit(":", 1)
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=65_536)
        return "127.0.0.1:" + str(self._server.sockets[0].getsockname()[1])

    def was_spared(self, direction: int) -> bool:
        """The last connection had not so many bytes that it would have been cut."""
        return self.passed[direction] < self.connections

    def stop(self) -> None:
        """Nothing arrives any more, and nobody is told."""
        self._flowing.clear()

    def resume(self) -> None:
        self._flowing.set()

    def cut(self) -> None:
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def close(self) -> None:
        self._server.close()
        self._is_closed = True
        self.cut()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_closed:
            writer.transport.abort()
            return
        self.connections += 1
        self.passed = [0, 0]
        budgets = [math.inf, math.inf]
        if self.cut_later_each_time is not None:
            budgets[self.cut_later_each_time] = self.connections
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target, limit=65_536)
        except OSError:
            writer.transport.abort()
            return
        ends = (writer, far_writer)
        if self._is_closed:
            for end in ends:
                end.transport.abort()
            return
        self._writers |= set(ends)
        pumps = (self._pump(reader, ends, 0, budgets), self._pump(far_reader, ends, 1, budgets))
        tasks = {asyncio.create_task(pump) for pump in pumps}
        self._tasks |= tasks
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.transport.abort()
        self._writers -= set(ends)

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        ends: tuple[asyncio.StreamWriter, asyncio.StreamWriter],
        direction: int,
        budgets: list[float],
    ) -> None:
        writer = ends[1 - direction]
        with contextlib.suppress(OSError):
            while chunk := await reader.read(16_384):
                await self._flowing.wait()
                if self.delay_seconds:
                    await asyncio.sleep(self.delay_seconds)
                chunk = chunk[: int(min(len(chunk), budgets[direction]))]
                budgets[direction] -= len(chunk)
                self.passed[direction] += len(chunk)
                writer.write(chunk)
                await writer.drain()
                if budgets[direction] <= 0:
                    # What was passed on arrives; the rest never does.
                    writer.close()
                    await asyncio.sleep(0.001)
                    return
                if self.rates[direction]:
                    await asyncio.sleep(len(chunk) / self.rates[direction])
