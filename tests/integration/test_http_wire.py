"""The HTTP server on real sockets under uvloop: what only a kernel can show."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import uvloop

from fastnode.config import HTTP_BODY_BYTES_MAX, HTTP_BODY_SECONDS, HTTP_HEADER_SECONDS
from fastnode.http import server as server_module
from fastnode.http.exchange import Exchange
from fastnode.http.http1 import Request
from fastnode.http.server import HttpServer

DEADLINE_SECONDS = 120.0
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Node:
    """A server on a port of its own. `/echo` answers with the body, everything else waits for the
    test.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.open: list[Exchange] = []
        self.arrived = asyncio.Event()
        self.gone = asyncio.Event()
        self.server = HttpServer(self.respond, now=lambda: self.now)
        self.port = 0

    def respond(self, request: Request, exchange: Exchange) -> None:
        if request.path == b"/echo":
            exchange.reply(200, b"", request.body)
            return
        exchange.on_close = self.gone.set
        self.open.append(exchange)
        self.arrived.set()

    def is_reading(self) -> bool:
        """The first bytes of a request have come."""
        return any(not connection.is_idle for connection in self.server._connections)

    async def connect(self) -> Client:
        return await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)


@asynccontextmanager
async def running() -> AsyncIterator[Node]:
    node = Node()
    _, node.port = await node.server.start("127.0.0.1", 0)
    try:
        yield node
    finally:
        node.server.close()
        await until(lambda: node.server.connection_count == 0)


async def until(is_true: Callable[[], bool]) -> None:
    while not is_true():  # noqa: ASYNC110 - what is awaited is a fact about sockets, not an event
        await asyncio.sleep(0.005)


def scenario(steps: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(steps(), DEADLINE_SECONDS)

    uvloop.run(bounded())


async def read_answer(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return head, await reader.readexactly(length)


def echo(body: bytes) -> bytes:
    return b"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def test_a_connection_serves_many_requests_in_order() -> None:
    async def steps() -> None:
        async with running() as node:
            reader, writer = await node.connect()
            writer.write(b"".join(echo(b"%d" % number) for number in range(500)))
            for number in range(500):
                assert (await read_answer(reader))[1] == b"%d" % number
            writer.close()
            await until(lambda: node.server.connection_count == 0)

    scenario(steps)


def test_a_client_that_sends_byte_by_byte_is_served() -> None:
    async def steps() -> None:
        async with running() as node:
            reader, writer = await node.connect()
            request = echo(b"slow")
            for position in range(len(request)):
                writer.write(request[position : position + 1])
                await asyncio.sleep(0)
            assert (await read_answer(reader))[1] == b"slow"
            writer.close()

    scenario(steps)


def test_a_client_that_stops_within_its_head_is_told_and_closed() -> None:
    async def steps() -> None:
        async with running() as node:
            reader, writer = await node.connect()
            writer.write(GET[:10])
            await until(node.is_reading)
            node.now += HTTP_HEADER_SECONDS + 1
            node.server.sweep()
            assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
            writer.close()

    scenario(steps)


@pytest.mark.parametrize(
    ("begun", "seconds"),
    [
        (GET[:1], HTTP_HEADER_SECONDS),
        (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n", HTTP_BODY_SECONDS),
    ],
    ids=["head", "body"],
)
def test_a_client_that_sends_a_byte_a_second_is_told_and_closed(
    begun: bytes, seconds: float
) -> None:
    async def steps() -> None:
        async with running() as node:
            reader, writer = await node.connect()
            writer.write(begun)
            await until(node.is_reading)
            for _ in range(int(seconds) + 2):
                writer.write(b"x")
                await asyncio.sleep(0.002)
                node.now += 1
                node.server.sweep()
            assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
            assert node.open == []
            writer.close()

    scenario(steps)


def test_a_half_closed_client_still_gets_its_answer() -> None:
    async def steps() -> None:
        async with running() as node:
            reader, writer = await node.connect()
            writer.write(GET)
            writer.write_eof()
            await node.arrived.wait()
            await node.gone.wait()
            assert node.open[0].is_closed
            node.open[0].reply(200, b"", b"still here")
            assert (await reader.read()).endswith(b"\r\n\r\nstill here")
            writer.close()

    scenario(steps)


@pytest.mark.parametrize("has_reset", [False, True], ids=["closed", "reset"])
def test_a_client_that_disconnects_during_a_wait_is_noticed(has_reset: bool) -> None:
    async def steps() -> None:
        async with running() as node:
            _, writer = await node.connect()
            writer.write(GET)
            await node.arrived.wait()
            if has_reset:
                own: socket.socket = writer.get_extra_info("socket")
                linger = struct.pack("ii", 1, 0)
                own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.close()
            await node.gone.wait()
            node.open[0].reply(200, b"", b"unheard")
            await until(lambda: node.server.connection_count == 0)

    scenario(steps)


def test_a_big_chunked_body_arrives_whole() -> None:
    async def steps() -> None:
        async with running() as node:
            reader, writer = await node.connect()
            writer.write(b"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
            body = b""
            for number in range(60):
                chunk = b"%d" % (number % 10) * 100_003
                body += chunk
                writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
                await writer.drain()
            writer.write(b"0\r\n\r\n")
            assert (await read_answer(reader))[1] == body
            writer.close()

    scenario(steps)


def test_a_refusal_reaches_a_client_that_goes_on_sending() -> None:
    async def steps() -> None:
        async with running() as node:
            reader, writer = await node.connect()
            length = HTTP_BODY_BYTES_MAX + 1
            writer.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % length)
            for _ in range(length // 65_536):
                writer.write(bytes(65_536))
                await writer.drain()
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 413 ")
            assert b"Connection: close\r\n" in answer
            writer.close()
            assert node.open == []

    scenario(steps)


def test_the_body_is_sent_after_the_go_ahead() -> None:
    async def steps() -> None:
        async with running() as node:
            reader, writer = await node.connect()
            head = b"POST /echo HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n"
            writer.write(head + b"Content-Length: 5\r\n\r\n")
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b"hello")
            assert (await read_answer(reader))[1] == b"hello"
            writer.close()

    scenario(steps)


def test_a_peer_that_reads_late_gets_everything_and_sends_no_more_meanwhile() -> None:
    async def steps() -> None:
        async with running() as node:
            loop = asyncio.get_running_loop()
            client = socket.create_connection(("127.0.0.1", node.port))
            client.setblocking(False)
            await loop.sock_sendall(client, GET)
            await node.arrived.wait()
            node.open[0].reply(200, b"", bytes(12_000_000))
            await asyncio.sleep(0.05)
            await loop.sock_sendall(client, GET)
            await asyncio.sleep(0.05)
            assert len(node.open) == 1
            received = 0
            while received < 12_000_000:
                received += len(await loop.sock_recv(client, 1 << 20))
            await until(lambda: len(node.open) == 2)
            client.close()

    scenario(steps)


def test_drain_finishes_what_is_owed_and_accepts_no_more() -> None:
    async def steps() -> None:
        async with running() as node:
            idle_reader, idle_writer = await node.connect()
            reader, writer = await node.connect()
            writer.write(GET)
            await node.arrived.wait()
            await until(lambda: node.server.connection_count == 2)
            draining = asyncio.ensure_future(node.server.drain())
            assert await idle_reader.read() == b""
            with pytest.raises(OSError):
                await node.connect()
            assert not draining.done()
            node.open[0].reply(200, b"", b"done")
            head, body = await read_answer(reader)
            assert body == b"done"
            assert b"Connection: close\r\n" in head
            assert await reader.read() == b""
            writer.close()
            idle_writer.close()
            await draining
            assert node.server.connection_count == 0

    scenario(steps)


def test_drain_cuts_off_what_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "DRAIN_SECONDS", 0.1)

    async def steps() -> None:
        async with running() as node:
            reader, writer = await node.connect()
            writer.write(GET)
            await node.arrived.wait()
            await node.server.drain()
            assert await reader.read() == b""
            writer.close()
            await node.gone.wait()

    scenario(steps)


def test_a_bound_port_is_reported_as_an_os_error() -> None:
    async def steps() -> None:
        async with running() as node:
            second = HttpServer(node.respond, now=lambda: 0.0)
            with pytest.raises(OSError):
                await second.start("127.0.0.1", node.port)

    scenario(steps)
