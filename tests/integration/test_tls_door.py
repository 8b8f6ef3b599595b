"""Connections before TLS is there: counted, bounded, put out in time. A real server in this
process, with a time of its own.
"""

import asyncio
import contextlib
import os
import re
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import uvloop

from fastnode.cli.doctor_checks import Verdict, certificates
from fastnode.config import HTTP_IDLE_SECONDS, TLS_HANDSHAKE_SECONDS
from fastnode.errors import UsageError
from fastnode.http.exchange import Exchange
from fastnode.http.http1 import Request
from fastnode.http.listener_tls import ListenerTls
from fastnode.http.response import TEXT
from fastnode.http.server import HttpServer
from fastnode.settings import Settings
from tests.certificates import make_certificate, make_signer
from tests.integration.peer_nodes import until
from tests.nodes import ROOT

SECONDS = 60.0


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    signer = make_signer(tmp_path_factory.mktemp("ours"))
    make_certificate(signer)
    return signer


def tls_of(signer: Path) -> ListenerTls:
    return ListenerTls(str(signer / "node1.pem"), str(signer / "node1.key"), lambda: 0.0)


class House:
    """A server whose time stands still until it is told."""

    def __init__(self, tls: ListenerTls) -> None:
        self.now = 1_000.0
        self.server = HttpServer(self._respond, now=lambda: self.now)
        self.server.tls = tls
        self.address = ("", 0)

    def _respond(self, request: Request, exchange: Exchange) -> None:
        exchange.reply(200, TEXT, request.body or b"nothing\n")

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.server.sweep()

    async def counts(self, count: int) -> None:
        await until(lambda: self.server.connection_count == count)


@contextlib.asynccontextmanager
async def opened(signer: Path) -> AsyncIterator[House]:
    house = House(tls_of(signer))
    house.address = await house.server.start("127.0.0.1", 0)
    try:
        yield house
    finally:
        house.server.close()
        await house.counts(0)


Channel = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def secured(house: House, signer: Path) -> Channel:
    context = ssl.create_default_context(cafile=str(signer / "ca.pem"))
    return await asyncio.open_connection(*house.address, ssl=context)


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(SECONDS):
            return await reader.read()
    return b""


def test_who_says_nothing_is_put_out(ours: Path) -> None:
    async def scenario() -> None:
        async with opened(ours) as house:
            silent = [await asyncio.open_connection(*house.address) for _ in range(3)]
            silent[1][1].write(b"\x16\x03\x01\x02\x00")
            await house.counts(3)
            house.pass_time(TLS_HANDSHAKE_SECONDS - 1)
            assert house.server.connection_count == 3
            house.pass_time(2)
            for reader, writer in silent:
                assert await until_closed(reader) == b""
                writer.close()
            await house.counts(0)
            assert house.server.crowd.refused["handshake"] == 3

    uvloop.run(scenario())


def test_handshakes_have_the_places_of_connections(ours: Path) -> None:
    async def scenario() -> None:
        async with opened(ours) as house:
            house.server.connections_max = 2
            places = [await asyncio.open_connection(*house.address) for _ in range(2)]
            await house.counts(2)
            reader, writer = await asyncio.open_connection(*house.address)
            assert await until_closed(reader) == b""
            writer.close()
            assert house.server.crowd.refused["connections"] == 1
            for _, one in places:
                one.close()
            await house.counts(0)
            _, writer = await secured(house, ours)
            await house.counts(1)
            writer.close()

    uvloop.run(scenario())


def test_the_first_request_may_come_with_the_handshake(ours: Path) -> None:
    """However the bytes of it all are cut."""

    async def scenario() -> None:
        async with opened(ours) as house:
            for _ in range(20):
                reader, writer = await secured(house, ours)
                writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody")
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 200 ")
                assert await reader.readexactly(4) == b"body"
                writer.close()
            await house.counts(0)
            assert house.server.crowd.refused["handshake"] == 0

    uvloop.run(scenario())


def test_the_last_answer_arrives(ours: Path) -> None:
    async def scenario() -> None:
        async with opened(ours) as house:
            reader, writer = await secured(house, ours)
            body = b"x" * 3_000_000
            head = f"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {len(body)}"
            writer.write(head.encode() + b"\r\n\r\n" + body + b"more than was asked for")
            assert (await until_closed(reader)).endswith(b"\r\n\r\n" + body)
            writer.close()

    uvloop.run(scenario())


def silent_client(house: House, signer: Path) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=str(signer / "ca.pem"))
    plain = socket.create_connection(house.address, timeout=SECONDS)
    return context.wrap_socket(plain, server_hostname="127.0.0.1")


def test_an_idle_client_is_told_and_not_waited_for(
    ours: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that never answers the goodbye: it reads nothing."""
    monkeypatch.setattr("fastnode.http.door.LINGER_SECONDS", 600.0)

    async def scenario() -> None:
        async with opened(ours) as house:
            with await asyncio.to_thread(silent_client, house, ours):
                await house.counts(1)
                house.pass_time(HTTP_IDLE_SECONDS + 1)
                house.pass_time(1)
                await house.counts(0)

    uvloop.run(scenario())


def test_a_client_that_leaves_while_it_waits_is_no_news(
    ours: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Under TLS nobody can stay for an answer after the end of his stream."""
    kept: list[Exchange] = []

    async def scenario() -> None:
        async with opened(ours) as house:
            house.server.respond = lambda _, exchange: kept.append(exchange)
            _, writer = await secured(house, ours)
            writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
            await until(lambda: kept)
            writer.close()
            await house.counts(0)
            assert kept[0].is_closed
            kept[0].reply(200, TEXT, b"too late\n")

    with caplog.at_level("DEBUG"):
        uvloop.run(scenario())
    assert not [one for one in caplog.records if "eof_received" in one.getMessage()]


def test_a_drain_ends_handshakes_too(ours: Path) -> None:
    async def scenario() -> None:
        async with opened(ours) as house:
            reader, writer = await asyncio.open_connection(*house.address)
            writer.write(b"\x16\x03\x01\x02\x00")
            await house.counts(1)
            await asyncio.wait_for(house.server.drain(), SECONDS)
            assert await until_closed(reader) == b""
            writer.close()

    uvloop.run(scenario())


# --- files ----------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_it_warns_in_time_and_once_a_day(ours: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    tls = ListenerTls(str(ours / "node1.pem"), str(ours / "node1.key"), clock)
    day = 86_400.0
    for days_left, lines in ((22, 0), (20.9, 1), (20.5, 1), (19.8, 2), (-3, 3)):
        clock.now = tls.expires_at - days_left * day
        tls.warn_in_time()
        said = [one for one in caplog.records if "the certificate expires" in one.message]
        assert len(said) == lines, days_left
    assert vars(said[0])["days_left"] == 20 and vars(said[-1])["days_left"] == -3


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        ({"certificate": "none.pem"}, "--tls-cert none.pem: No such file or directory"),
        ({"key": "none.pem"}, "--tls-key none.pem: No such file or directory"),
        ({"certificate": "{ours}/node1.key"}, "holds no certificate: give a PEM file"),
        ({"key": "{ours}/node1.pem"}, "holds no private key: give a PEM file"),
        ({"key": "{ours}/other/node1.key"}, "do not belong together: give the key of it"),
        ({"key": "{ours}/open.key"}, "can be read by others: chmod 600"),
        ({"certificate": "{ours}/cut.pem"}, "cannot be used: give whole PEM files"),
        ({"certificate": "{ours}/pipe"}, "holds no certificate: give a PEM file"),
        ({"certificate": "{ours}"}, "Is a directory: give a readable file"),
        ({"certificate": "{ours}/node2.pem", "key": "{ours}/node2.key"}, "certificate has expired"),
        ({"certificate": "{ours}/node3.pem", "key": "{ours}/node3.key"}, "certificate purpose"),
        ({"certificate": "{ours}/node4.pem", "key": "{ours}/node4.key"}, "names no host"),
    ],
)
def test_files_that_no_client_would_accept(ours: Path, spoil: dict[str, str], words: str) -> None:
    make_bad_files(ours)
    files = {"certificate": "{ours}/node1.pem", "key": "{ours}/node1.key"} | spoil
    paths = {name: path.replace("{ours}", str(ours)) for name, path in files.items()}
    with pytest.raises(UsageError) as caught:
        ListenerTls(**paths, now=lambda: 0.0)
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert str(caught.value).startswith("--tls-")


def make_bad_files(ours: Path) -> None:
    if (ours / "pipe").exists():
        return
    make_certificate(make_signer(ours / "other"))
    make_certificate(ours, 2, days=-1)
    make_certificate(ours, 3, use="clientAuth")
    make_certificate(ours, 4, "email:somebody@example.org")
    key = ours / "open.key"
    key.write_bytes((ours / "node1.key").read_bytes())
    key.chmod(0o644)
    lines = (ours / "node1.pem").read_text().splitlines(keepends=True)
    (ours / "cut.pem").write_text("".join(lines[:4]))
    os.mkfifo(ours / "pipe")


def test_doctor_tells_how_long_certificates_last(ours: Path) -> None:
    short, long = make_certificate(ours, 5, days=20), make_certificate(ours, 6, days=100)
    settings = Settings(
        tls_cert=short.certificate,
        tls_key=short.key,
        peer_tls_cert=long.certificate,
        peer_tls_key=long.key,
        peer_tls_ca=long.authority,
    )
    first, second = certificates(settings)
    assert (first.verdict, second.verdict) == (Verdict.WARN, Verdict.OK)
    assert first.check == "certificate --tls-cert" and "20 days" in first.seen
    assert "replace its files" in first.advice


def test_the_certificate_of_the_documentation(tmp_path: Path) -> None:
    document = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    chapter = document.split("## TLS for clients\n")[1].split("\n## ")[0]
    _start, script = re.findall(r"```sh\n(.*?)```", chapter, re.DOTALL)
    subprocess.run(["sh", "-eu", "-c", script], cwd=tmp_path, check=True, capture_output=True)
    tls = ListenerTls(str(tmp_path / "server.pem"), str(tmp_path / "server.key"), lambda: 0.0)
    assert tls.expires_at > 0
