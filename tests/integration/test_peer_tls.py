"""Links under TLS: both sides show a certificate of the right signer, or there is no link."""

import asyncio
import contextlib
import re
import socket
import ssl
from pathlib import Path

import pytest

from fastnode.errors import StartError
from fastnode.peers.calls import ask
from fastnode.peers.greeting import Greeting, Tls
from fastnode.peers.handshake import Handshake, Identity
from fastnode.peers.peers import TlsContexts
from fastnode.peers.tls import TlsFiles, load_tls
from fastnode.tls import name_in
from tests.certificates import files_of, make_certificate, make_signer
from tests.integration.peer_nodes import (
    ECHO,
    LOOPS,
    SECRET,
    PeerNode,
    linked,
    run_clean,
    running,
    until,
)


@pytest.fixture(params=sorted(LOOPS))
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signer with a certificate for node 1."""
    signer = make_signer(tmp_path_factory.mktemp("ours"))
    make_certificate(signer)
    return signer


def member(signer: Path) -> TlsContexts:
    return load_tls(files_of(signer)).contexts


def stranger(files: TlsFiles | None, trusted: Path) -> TlsContexts:
    """Trusts ours, so that only its own certificate is at fault; shows none if there is none."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.verify_mode = ssl.CERT_REQUIRED
    for context in (server, client):
        context.load_verify_locations(trusted / "ca.pem")
        if files is not None:
            context.load_cert_chain(files.certificate, files.key)
    return TlsContexts(server, client)


def test_links_under_tls(loop: str, ours: Path) -> None:
    async def scenario() -> None:
        one, two = PeerNode(1, tls=member(ours)), PeerNode(2, tls=member(ours))
        async with linked(one, two) as (to_two, to_one):
            large = bytes(range(256)) * 12_000
            assert await ask(to_one, ECHO, large, 10.0) == (2, large)
            for link in (to_two, to_one):
                assert name_in(link.certificate) == "127.0.0.1"
                for _ in range(50):
                    assert await ask(link, ECHO, b"small", 10.0)
            assert to_one.send_raft(large) and to_one.send_raft(b"vote", is_urgent=True)
            await until(lambda: one.packets == [(2, b"vote"), (2, large)])

    run_clean(loop, scenario())


def first_flight(context: ssl.SSLContext) -> bytes:
    sent = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="127.0.0.1").do_handshake()
    return sent.read()


def test_a_dialer_that_begins_before_it_is_accepted_is_heard(loop: str, ours: Path) -> None:
    """Its first bytes wait in the socket when the connection is made."""

    async def scenario() -> None:
        one = PeerNode(1, tls=member(ours))
        async with running(one):
            host, port = (await one.start()).address.split(":")
            with socket.create_connection((host, int(port))) as dialer:
                dialer.sendall(first_flight(member(ours).client))
                dialer.setblocking(False)
                async with asyncio.timeout(60):
                    answer = await asyncio.get_running_loop().sock_recv(dialer, 2)
        assert answer == b"\x16\x03"

    run_clean(loop, scenario())


@pytest.mark.parametrize("turns", range(6))
def test_a_stranger_can_be_put_out_whenever_that_is(loop: str, ours: Path, turns: int) -> None:
    """Also when TLS is just about to begin."""
    ends: list[Exception | None] = []

    def make() -> Greeting:
        identity = Identity(node_id=1, incarnation=b"i" * 16)
        handshake = Handshake(identity, SECRET, b"n" * 32, lambda _: None, is_dialer=False)
        greeting = Greeting(
            handshake,
            lambda _, problem: ends.append(problem),
            is_dialer=False,
            has_secret=True,
            seconds=3.0,
            tls=Tls(member(ours).server),
        )
        greeting.on_begin = put_out_later
        return greeting

    def put_out_later(greeting: Greeting) -> None:
        tasks.append(asyncio.create_task(put_out(greeting)))

    async def put_out(greeting: Greeting) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        greeting.abort("too many handshakes at a time")

    tasks: list[asyncio.Task[None]] = []

    async def scenario() -> None:
        server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(first_flight(member(ours).client))
        with contextlib.suppress(ConnectionError):
            await reader.read()
        assert len(ends) == 1 and str(ends[0]) == "too many handshakes at a time"
        writer.close()
        server.close()

    run_clean(loop, scenario())


def test_a_dialer_can_be_stopped_whenever_that_is(loop: str, ours: Path) -> None:
    async def scenario() -> None:
        one = PeerNode(1, tls=member(ours))
        async with running(one):
            await one.start()
            for turns in range(40):
                two = PeerNode(2, tls=member(ours))
                await two.start({1: one.address})
                for _ in range(turns):
                    await asyncio.sleep(0)
                await two.peers.close()

    run_clean(loop, scenario())


async def expect_refusal(one: PeerNode, two: PeerNode, at_one: str, at_two: str) -> None:
    """No link, and one line on each side that says why, however often it is tried."""
    async with running(one, two):
        await one.start()
        await two.start({1: one.address})
        await until(lambda: two.logged.having("cannot link"))
        await until(lambda: one.logged.having("without a handshake"))
        await asyncio.sleep(0.2)
        assert not one.ups and not two.ups
        assert len(one.logged.lines) == 1 and re.search(at_one, one.logged.lines[0])
        assert len(two.logged.lines) == 1 and re.search(at_two, two.logged.lines[0])


NOT_ACCEPTED = "the certificate of the peer is not accepted: "
CLOSED = "does the peer speak TLS and accept this node's certificate"
WRONG = {
    "another signer": "unable to get local issuer certificate",
    "expired": "certificate has expired",
}


def wrong_files(wrong: str, ours: Path, folder: Path) -> TlsFiles:
    if wrong == "expired":
        return make_certificate(ours, 7, days=-1)
    return make_certificate(make_signer(folder / "theirs"))


@pytest.mark.parametrize("wrong", sorted(WRONG))
@pytest.mark.parametrize("is_dialer", [True, False], ids=["dialer", "acceptor"])
def test_a_wrong_certificate_is_refused(
    loop: str, ours: Path, tmp_path: Path, wrong: str, is_dialer: bool
) -> None:
    good, bad = member(ours), stranger(wrong_files(wrong, ours, tmp_path), ours)
    one, two = PeerNode(1, tls=good), PeerNode(2, tls=bad)
    seen = NOT_ACCEPTED + WRONG[wrong]
    if is_dialer:
        run_clean(loop, expect_refusal(one, two, seen, CLOSED))
    else:
        one, two = PeerNode(1, tls=bad), PeerNode(2, tls=good)
        run_clean(loop, expect_refusal(one, two, CLOSED, seen))


def test_no_certificate_is_refused(loop: str, ours: Path) -> None:
    one, two = PeerNode(1, tls=member(ours)), PeerNode(2, tls=stranger(None, ours))
    run_clean(loop, expect_refusal(one, two, "the peer shows no certificate", CLOSED))


def test_whoever_dials_wants_the_host_that_it_dialled(loop: str, ours: Path) -> None:
    elsewhere = load_tls(make_certificate(ours, 8, "DNS:elsewhere,IP:127.0.0.2")).contexts
    one, two = PeerNode(1, tls=elsewhere), PeerNode(2, tls=member(ours))
    seen = f"{NOT_ACCEPTED}IP address mismatch, certificate is not valid for '127.0.0.1'"
    run_clean(loop, expect_refusal(one, two, CLOSED, seen))


def test_a_plain_node_is_told_to_speak_tls(loop: str, ours: Path) -> None:
    one, two = PeerNode(1, tls=member(ours)), PeerNode(2)
    seen, told = "the peer does not speak TLS", "does the peer speak TLS"
    run_clean(loop, expect_refusal(one, two, seen, told))


def test_a_plain_node_that_is_dialled_is_told_to_speak_tls(loop: str, ours: Path) -> None:
    one, two = PeerNode(1), PeerNode(2, tls=member(ours))
    told = "the peer speaks TLS and this node does not"
    run_clean(loop, expect_refusal(one, two, told, CLOSED))


def test_a_certificate_does_not_stand_for_the_secret(loop: str, ours: Path) -> None:
    async def scenario() -> None:
        one, two = PeerNode(1, tls=member(ours)), PeerNode(2, tls=member(ours), secret=b"")
        async with running(one, two):
            await one.start()
            await two.start({1: one.address})
            await until(lambda: one.logged.having("different cluster secrets"))
            await until(lambda: two.logged.having("different cluster secrets"))
            assert not one.ups and not two.ups

    run_clean(loop, scenario())


def test_tls_must_demand_certificates(ours: Path) -> None:
    careless = stranger(files_of(ours), ours)
    careless.server.verify_mode = ssl.CERT_OPTIONAL
    with pytest.raises(StartError):
        PeerNode(1, tls=careless)
