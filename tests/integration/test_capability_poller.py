"""The poller against real HTTP servers on loopback: good ones, and every kind that must count as a
no. Both event loops, since the node runs on uvloop and tools on asyncio's own.
"""

import asyncio
import contextlib
import gc
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import pytest
import uvloop

from fastnode.cluster.capabilities import HTFIFO, Report, advertised
from fastnode.cluster.gate import PUBLIC_TEXT, PartitionGate
from fastnode.cluster.partition_map import parse_partition_map
from fastnode.cluster.poller import poll
from fastnode.config import CAPABILITY_BODY_BYTES_MAX, CAPABILITY_SECONDS
from fastnode.http.exchange import Exchange
from fastnode.http.health import Health
from fastnode.http.http1 import Request
from fastnode.http.server import HttpServer
from fastnode.queue.api import CreateQueueRequest
from fastnode.queue.errors import SqsError
from tests.world import Pending, World

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Run = Callable[[Coroutine[Any, Any, Any]], Any]
GOOD = b'{"status":"ok","capabilities":["htfifo"]}\n'
ENOUGH_SECONDS = 120.0


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Run to the end; nothing may be left for the loop to complain about, which ends a node."""

    def run_clean(coroutine: Coroutine[Any, Any, Any]) -> Any:
        complaints: list[dict[str, Any]] = []

        async def clean() -> Any:
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda _loop, context: complaints.append(context))
            async with asyncio.timeout(ENOUGH_SECONDS):
                result = await coroutine
            gc.collect()
            await asyncio.sleep(0)
            return result

        result = request.param(clean())
        assert complaints == []
        return result

    return run_clean


@contextlib.asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[str]:
    """`serve` is called after the request's head; the address is yielded."""
    tasks: set[asyncio.Task[None]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
            await reader.readuntil(b"\r\n\r\n")
            await serve(reader, writer)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        host, port = server.sockets[0].getsockname()
        yield f"{host}:{port}"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def saying(*parts: bytes) -> Serve:
    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()

    return serve


def answering(status: bytes = b"200 OK", body: bytes = GOOD, *headers: bytes) -> Serve:
    lines = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), *headers]
    return saying(b"\r\n".join(lines) + b"\r\n\r\n" + body)


def holding(*parts: bytes) -> Serve:
    """Says so much, and then nothing more."""
    say = saying(*parts)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await say(reader, writer)
        await asyncio.Event().wait()

    return serve


async def drip(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Each byte is in time; all of them are not."""
    writer.write(b"HTTP/1.1 200 OK\r\nX: ")
    while True:
        writer.write(b"a")
        await writer.drain()
        await asyncio.sleep(0.01)


async def reset(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def poll_one(serve: Serve, **chosen: float) -> Report:
    async with serving(serve) as address:
        return await poll([address], HTFIFO, **chosen)


def padded(size: int) -> bytes:
    return GOOD + b" " * (size - len(GOOD))


@pytest.mark.parametrize(
    "serve",
    [
        answering(),
        answering(b"200"),
        answering(b"200 OK", GOOD, b"Connection: keep-alive"),
        answering(b"200 OK", padded(CAPABILITY_BODY_BYTES_MAX)),
        answering(b"200 OK", b'{"capabilities":["more","htfifo"],"status":"?"}'),
        saying(b"HTTP/1.0 200 OK\r\n\r\n", GOOD),
        saying(b"HTTP/1.1 200 OK\r\ncontent-LENGTH:  42 \r\n\r", b"\n" + GOOD[:5], GOOD[5:]),
        holding(b"HTTP/1.1 200 OK\r\nContent-Length: 42\r\n\r\n" + GOOD),
    ],
)
def test_a_proper_answer_is_believed(run: Run, serve: Serve) -> None:
    (member,) = run(poll_one(serve)).members
    assert (member.problem, member.is_capable) == ("", True)


@pytest.mark.parametrize(
    ("serve", "problem"),
    [
        (answering(b"500 Internal Server Error"), "status 500"),
        (answering(b"503 Service Unavailable", b"x" * 10_240), "status 503"),
        (answering(b"404 Not Found"), "status 404"),
        (answering(b"204 No Content", b""), "status 204"),
        (answering(b"301 Moved", b"", b"Location: /sqs_health"), "status 301"),
        (answering(b"200 OK", b"ok\n"), "not the JSON"),
        (answering(b"200 OK", b"{"), "not the JSON"),
        (answering(b"200 OK", b""), "not the JSON"),
        (answering(b"200 OK", b'{"status":"ok","capabilities":"htfifo"}'), "not the JSON"),
        (answering(b"200 OK", b'{"status":"ok","capabilities":[]}'), "does not advertise htfifo"),
        (answering(b"200 OK", b'{"status":"ok"}'), "does not advertise htfifo"),
        (answering(b"200 OK", padded(CAPABILITY_BODY_BYTES_MAX + 1)), "more than 1024 bytes"),
        (answering(b"200 OK", padded(10_240)), "more than 1024 bytes"),
        (saying(b"HTTP/1.1 200 OK\r\n\r\n", padded(10_240)), "more than 1024 bytes"),
        (holding(b"HTTP/1.1 200 OK\r\n\r\n", padded(1_025)), "more than 1024 bytes"),
        (holding(b"HTTP/1.1 200 OK\r\nContent-Length: 1025\r\n\r\n"), "more than 1024 bytes"),
        (saying(), "IncompleteReadError"),
        (reset, "Error"),
        (saying(b"HTTP/1.1 200 OK\r\nContent-"), "IncompleteReadError"),
        (saying(b"HTTP/1.1 200 OK\r\nContent-Length: 43\r\n\r\n", GOOD), "IncompleteReadError"),
        (saying(b"HTTP/1.1 200 OK\r\n\r\n", GOOD[:-4]), "not the JSON"),
        (saying(b"HTTP/1.1 200 OK\n\n", GOOD), "IncompleteReadError"),
        (saying(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000), "LimitOverrunError"),
        (saying(b"nonsense\r\n\r\n", GOOD), "not the HTTP of a member"),
        (saying(b"HTTP/2 200\r\n\r\n", GOOD), "not the HTTP of a member"),
        (saying(b"HTTP/1.1 2000\r\n\r\n", GOOD), "not the HTTP of a member"),
        (
            answering(b"200 OK", GOOD, b"Content-Length: 42"),
            "not the HTTP of a member",
        ),
        (
            answering(b"200 OK", GOOD, b"Transfer-Encoding: chunked"),
            "not the HTTP of a member",
        ),
        (saying(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", GOOD), "not a length"),
        (saying(b"HTTP/1.1 200 OK\r\nContent-Length: 1e1\r\n\r\n", GOOD), "not a length"),
    ],
)
def test_everything_else_is_a_no(run: Run, serve: Serve, problem: str) -> None:
    report = run(poll_one(serve))
    (member,) = report.members
    assert problem in member.problem
    assert not member.is_capable
    assert not report.all_capable


@pytest.mark.parametrize(
    "serve",
    [
        holding(),
        holding(b"HTTP/1.1 200 OK\r\n"),
        holding(b"HTTP/1.1 200 OK\r\nContent-Length: 42\r\n\r\n", GOOD[:-1]),
        holding(b"HTTP/1.1 200 OK\r\n\r\n", GOOD),
        drip,
    ],
)
@pytest.mark.parametrize("limit", ["seconds", "deadline"])
def test_a_member_that_keeps_us_waiting_is_a_no(run: Run, serve: Serve, limit: str) -> None:
    async def scenario() -> Report:
        if limit == "seconds":
            return await poll_one(serve, seconds=0.1)
        deadline = asyncio.get_running_loop().time() + 0.1
        return await poll_one(serve, seconds=ENOUGH_SECONDS * 2, deadline=deadline)

    (member,) = run(scenario()).members
    assert member.problem == "no answer in time"


def test_a_deadline_that_has_passed_asks_nobody(run: Run) -> None:
    async def scenario() -> Report:
        return await poll_one(answering(), deadline=asyncio.get_running_loop().time() - 1)

    assert run(scenario()).members[0].problem == "no answer in time"


def test_a_later_deadline_gives_nobody_more_time(run: Run) -> None:
    async def scenario() -> Report:
        deadline = asyncio.get_running_loop().time() + ENOUGH_SECONDS * 2
        return await poll_one(holding(), seconds=0.1, deadline=deadline)

    assert run(scenario()).members[0].problem == "no answer in time"


def test_a_member_has_three_seconds() -> None:
    assert CAPABILITY_SECONDS == 3.0


def test_all_members_are_asked_at_once(run: Run) -> None:
    """None answers before all are asked, so asking one after the other would never end."""

    async def scenario() -> Report:
        everybody = asyncio.Barrier(8)
        say = answering()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await everybody.wait()
            await say(reader, writer)

        async with contextlib.AsyncExitStack() as servers:
            addresses = [await servers.enter_async_context(serving(serve)) for _ in range(8)]
            return await poll(addresses, HTFIFO, seconds=ENOUGH_SECONDS)

    assert run(scenario()).all_capable


def test_members_are_reported_in_the_order_they_were_named(run: Run) -> None:
    async def scenario() -> None:
        async with serving(answering()) as good, serving(holding()) as slow:
            gone = await closed_port()
            addresses = [slow, good, "", gone, good, "no port:x", f"https://{good}"]
            report = await poll(addresses, HTFIFO, seconds=2.0)
        assert [member.address for member in report.members] == addresses
        capable = [member.is_capable for member in report.members]
        assert capable == [False, True, False, False, True, False, False]
        assert not report.all_capable
        assert report.members[2].problem == "ValueError: the address is empty"
        assert report.members[3].problem.startswith("ConnectionRefusedError")

    run(scenario())


async def closed_port() -> str:
    async with serving(saying()) as address:
        return address


def test_nobody_to_ask_is_nobody_against(run: Run) -> None:
    report = run(poll([], HTFIFO))
    assert (report.members, report.all_capable) == ((), True)


@pytest.mark.parametrize("form", ["{}", "http://{}", "http://{}/", "http://{}/sqs_health"])
@pytest.mark.parametrize(("without", "is_capable"), [("", True), ("htfifo", False)])
def test_a_listener_of_ours_is_understood(
    run: Run, form: str, without: str, is_capable: bool
) -> None:
    async def scenario() -> bool:
        health = Health(advertised(without), lambda: True)

        def respond(request: Request, exchange: Exchange) -> None:
            assert health.respond(request, exchange), "asked for another page"

        server = HttpServer(respond, now=asyncio.get_running_loop().time)
        host, port = await server.start("127.0.0.1", 0)
        report = await poll([form.format(f"{host}:{port}")], HTFIFO)
        server.close()
        return report.all_capable

    assert run(scenario()) is is_capable


def test_the_request_is_one_that_members_understand(run: Run) -> None:
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 42\r\n\r\n" + GOOD)
        writer.close()

    async def scenario() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        report = await poll([f"http://user@127.0.0.1:{port}/base/"], HTFIFO)
        server.close()
        assert report.all_capable
        assert heads == [
            b"GET /base/sqs_health HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
            b"Accept: application/json\r\nConnection: close\r\n\r\n" % port
        ]

    run(scenario())


# --- CreateQueue and real members ---------------------------------------------------------------


FAST = {
    "FifoQueue": "true",
    "DeduplicationScope": "messageGroup",
    "FifoThroughputLimit": "perMessageGroupId",
}


async def create_behind(members: list[Serve], **chosen: float) -> Pending:
    """CreateQueue with real handlers on a real store, and these members to be asked."""
    world = World()
    async with contextlib.AsyncExitStack() as servers:
        addresses = [await servers.enter_async_context(serving(member)) for member in members]
        gate = PartitionGate(
            advertised(""),
            parse_partition_map("", 1),
            lambda: poll(addresses, HTFIFO, **chosen),
            logging.getLogger("fastnode.test"),
        )
        world.service.partition_gate = gate.admit
        call = world.begin("CreateQueue", CreateQueueRequest("fast.fifo", FAST))
        assert not call.is_done
        while not call.is_done:
            await asyncio.sleep(0.001)
            world.commit()
    return call


def test_a_queue_gets_partitions_when_every_member_knows_them(run: Run) -> None:
    call = run(create_behind([answering()] * 3))
    assert call.error is None
    assert call.result.queue_url.endswith("fast.fifo")


@pytest.mark.parametrize(
    "member",
    [
        answering(b"200 OK", b'{"status":"ok","capabilities":[]}'),
        answering(b"500 Internal Server Error"),
        answering(b"200 OK", padded(10_240)),
        answering(b"200 OK", b"htfifo"),
        saying(),
        holding(),
    ],
)
def test_one_member_that_does_not_prove_it_is_enough_to_refuse(
    run: Run, member: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    call = run(create_behind([answering(), member, answering()], seconds=2.0))
    assert isinstance(call.error, SqsError)
    assert (call.error.row.status, call.error.row.query_code) == (400, "InvalidAttributeValue")
    assert call.error.message == PUBLIC_TEXT
    assert "127.0.0.1" not in call.error.message
    (record,) = caplog.records
    assert vars(record)["reason"].count("127.0.0.1:") == 3
    assert vars(record)["reason"].count(": capable") == 2
