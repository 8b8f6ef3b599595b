"""Who gets a link and who does not: refusals that both sides can read in their logs, strangers,
garbage, and how nodes find each other.
"""

import asyncio
import contextlib
import socket

import pytest

from fastnode.config import PEER_HANDSHAKES_MAX
from fastnode.peers.calls import ask
from fastnode.peers.frames import CALL, HELLO, PING_FRAME, plain_frame
from fastnode.peers.handshake import (
    ADVICE,
    NONCE_BYTES,
    Identity,
    Reason,
    encode_hello,
    parse_refusal,
)
from tests.integration.peer_nodes import (
    ECHO,
    ENOUGH_SECONDS,
    LOOPS,
    QUICK,
    Line,
    PeerNode,
    linked,
    run_clean,
    running,
    until,
)


@pytest.fixture(params=sorted(LOOPS))
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def strangers() -> dict[Reason, tuple[PeerNode, PeerNode]]:
    """A pair of nodes for each way of not belonging together; the second dials node 1."""
    return {
        Reason.SECRET: (PeerNode(1), PeerNode(2, secret=b"another")),
        Reason.WRONG_CLUSTER: (PeerNode(1), PeerNode(2, cluster_id="elsewhere")),
        Reason.OTHER_INCARNATION: (PeerNode(1, known={2: b"x" * 16}), PeerNode(2)),
        Reason.REMOVED: (PeerNode(1, refused={2: Reason.REMOVED}), PeerNode(2)),
        Reason.NOT_MEMBER: (PeerNode(1), PeerNode(2, refused={1: Reason.NOT_MEMBER})),
        Reason.ID_IN_USE: (PeerNode(2, incarnation=b"y" * 16), PeerNode(2)),
        Reason.NOT_EXPECTED: (PeerNode(3), PeerNode(2)),
    }


@pytest.mark.parametrize("reason", list(strangers()))
def test_refusal_is_one_clear_line_on_both_sides(loop: str, reason: Reason) -> None:
    async def scenario() -> None:
        one, two = strangers()[reason]
        async with running(one, two):
            line = Line()
            await one.start()
            await two.start({1: await line.start(one.address)})
            await until(lambda: line.connections > 4)
            await line.close()
            assert not one.ups and not two.ups
            for node in (one, two):
                assert len(node.logged.having(ADVICE[reason])) == 1, node.logged.lines
            assert two.logged.having("cannot link to peer; will keep trying")

    run_clean(loop, scenario())


def test_node_that_dials_itself_says_so(loop: str) -> None:
    async def scenario() -> None:
        two = PeerNode(2)
        async with running(two):
            await two.start()
            two.peers.set_addresses({1: two.address})
            await until(lambda: len(two.logged.having(ADVICE[Reason.ITSELF])) == 2)
            assert not two.ups

    run_clean(loop, scenario())


def test_two_processes_with_one_id_the_first_stays(loop: str) -> None:
    async def scenario() -> None:
        one, two = PeerNode(1), PeerNode(2)
        twin = PeerNode(2, incarnation=b"twin of node two")
        async with linked(one, two) as (_, to_one), running(twin):
            await twin.start({1: one.address})
            await until(lambda: twin.logged.having(ADVICE[Reason.ID_IN_USE]))
            assert not twin.ups and not to_one.is_lost
            assert await ask(to_one, ECHO, b"undisturbed", 5.0) == (2, b"undisturbed")

    run_clean(loop, scenario())


def own_address() -> str | None:
    """An address of this machine that is not loopback; no packet is sent to find it."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        address = str(probe.getsockname()[0])
        return None if address.startswith("127.") else address
    return None


@pytest.mark.skipif(own_address() is None, reason="this machine has no address but loopback")
def test_without_a_secret_only_loopback_is_linked(loop: str) -> None:
    async def scenario() -> None:
        one, two = PeerNode(1, secret=b""), PeerNode(2, secret=b"")
        async with running(one, two):
            _, port = await one.peers.start("0.0.0.0", 0)
            await two.start({1: f"{own_address()}:{port}"})
            await until(lambda: two.logged.having(ADVICE[Reason.NO_SECRET]))
            await until(lambda: one.logged.having(ADVICE[Reason.NO_SECRET]))
            assert not one.ups and not two.ups
            two.peers.set_addresses({1: f"127.0.0.1:{port}"})
            await until(lambda: one.ups and two.ups)

    run_clean(loop, scenario())


def test_another_protocol_version_is_told_why(loop: str) -> None:
    async def scenario() -> None:
        one = PeerNode(1)
        async with running(one):
            await one.start()
            host, port = one.address.split(":")
            reader, writer = await asyncio.open_connection(host, port)
            newer = Identity(node_id=2, incarnation=b"2" * 16, cluster_id="cluster")
            nonce = b"n" * NONCE_BYTES
            hello = encode_hello(newer, nonce, is_dialer=True, versions=(8, 9))
            writer.write(plain_frame(HELLO, hello))
            refused = parse_refusal((await reader.read())[4:])
            assert refused.reason is Reason.VERSION
            writer.close()
            assert len(one.logged.having(ADVICE[Reason.VERSION])) == 1

    run_clean(loop, scenario())


GARBAGE = {
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "zeros": bytes(10_000),
    "huge length": b"\xff" * 100,
    "ping": PING_FRAME,
    "call": plain_frame(CALL, bytes(30)),
    "empty hello": plain_frame(HELLO),
    "hello of noise": plain_frame(HELLO, bytes(range(256)) * 4),
    "many frames": PING_FRAME * 20_000,
    "long frame": (8_000).to_bytes(4, "big") + b"x" * 200_000,
}


@pytest.mark.parametrize("name", sorted(GARBAGE))
def test_stranger_with_garbage_gets_nothing(loop: str, name: str) -> None:
    async def scenario() -> None:
        one, two = PeerNode(1), PeerNode(2)
        async with linked(one, two) as (_, to_one):
            host, port = one.address.split(":")
            for _ in range(5):
                reader, writer = await asyncio.open_connection(host, port)
                writer.write(GARBAGE[name])
                with contextlib.suppress(ConnectionResetError):
                    assert await reader.read() == b""
                writer.transport.abort()
            assert await ask(to_one, ECHO, b"well", 5.0) == (2, b"well")
            assert len(one.logged.having("without a handshake")) == 1
            assert len(one.ups) == 1 and not one.packets

    run_clean(loop, scenario())


def test_silent_strangers_do_not_keep_peers_out(loop: str) -> None:
    async def scenario() -> None:
        one = PeerNode(1, timing=QUICK._replace(handshake_seconds=ENOUGH_SECONDS))
        two = PeerNode(2)
        async with running(one, two):
            await one.start()
            host, port = one.address.split(":")
            silent = [
                await asyncio.open_connection(host, port) for _ in range(PEER_HANDSHAKES_MAX + 20)
            ]
            await until(lambda: len(one.peers._greetings) == PEER_HANDSHAKES_MAX)
            await asyncio.sleep(0.05)
            assert len(one.peers._greetings) == PEER_HANDSHAKES_MAX
            await two.start({1: one.address})
            await until(lambda: one.ups and two.ups)
            assert one.peers._greetings, "the silent ones still have time"
            for _, writer in silent:
                writer.transport.abort()
            await until(lambda: not one.peers._greetings)

    run_clean(loop, scenario())


def test_silent_strangers_do_not_stay(loop: str) -> None:
    async def scenario() -> None:
        one = PeerNode(1, timing=QUICK._replace(handshake_seconds=0.3))
        async with running(one):
            await one.start()
            reader, writer = await asyncio.open_connection(*one.address.split(":"))
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.transport.abort()
            assert not one.peers._greetings

    run_clean(loop, scenario())


def test_peer_that_comes_and_goes_is_dialled_until_it_is_back(loop: str) -> None:
    async def scenario() -> None:
        one, two = PeerNode(1), PeerNode(2)
        again = PeerNode(1)
        async with running(one, two, again):
            await one.start()
            port = int(one.address.split(":")[1])
            await two.start({1: one.address})
            await until(lambda: two.ups)
            await one.peers.close()
            await until(lambda: two.downs and two.logged.having("cannot link"))
            await asyncio.sleep(0.2)
            assert len(two.logged.having("cannot link")) == 1, "not each try"
            assert two.peers.reachable == []
            await again.start(port=port)
            await until(lambda: len(two.ups) == 2)
            assert len(two.logged.having("linked to peer after failures")) == 1
            assert await ask(two.link(1), ECHO, b"back", 5.0) == (2, b"back")

    run_clean(loop, scenario())


def test_peer_that_connects_anew_replaces_its_link(loop: str) -> None:
    """As after a crash that the accepting side has not noticed."""

    async def scenario() -> None:
        one, two, reborn = PeerNode(1), PeerNode(2), PeerNode(2)
        async with running(one, two, reborn):
            await one.start()
            await two.start({1: one.address})
            await until(lambda: one.ups)
            two.peers.set_addresses({})
            await reborn.start({1: one.address})
            await until(lambda: len(one.ups) == 2)
            await until(lambda: two.downs)
            assert one.downs == [one.ups[0]] and one.link(2) is one.ups[1]
            assert one.logged.having("the peer connected anew")
            await until(lambda: reborn.ups)
            assert await ask(one.link(2), ECHO, b"new", 5.0) == (1, b"new")

    run_clean(loop, scenario())


def test_address_may_change_while_running(loop: str) -> None:
    async def scenario() -> None:
        one, two = PeerNode(1), PeerNode(2)
        async with running(one, two):
            await one.start()
            await two.start({1: "no host:port"})
            await until(lambda: two.logged.having("not HOST:PORT"))
            two.peers.set_addresses({1: one.address, 3: "127.0.0.1:1"})
            await until(lambda: one.ups and two.ups)
            two.peers.cut(1, "for a moment")
            await until(lambda: len(two.ups) == 2)
            two.peers.set_addresses({})
            two.peers.cut(1, "for good")
            await asyncio.sleep(0.1)
            assert two.peers.reachable == [] and len(two.ups) == 2

    run_clean(loop, scenario())


def test_link_that_the_higher_id_dialled_is_kept(loop: str) -> None:
    async def scenario() -> None:
        joining, member = PeerNode(1), PeerNode(7)
        async with linked(joining, member):
            joining.peers.set_seeds([member.address])
            await asyncio.sleep(0.2)
            assert len(joining.ups) == len(member.ups) == 1
            for node in (joining, member):
                assert not node.logged.having("refused") and not node.logged.having("cannot")

    run_clean(loop, scenario())


def test_joining_node_dials_whoever_is_at_the_seed(loop: str) -> None:
    """Also when its id is the lower one, and then both sides dial: one link remains."""

    async def scenario() -> None:
        joining, member = PeerNode(1, cluster_id=""), PeerNode(7)
        async with running(joining, member):
            await member.start()
            await joining.start()
            joining.peers.set_seeds([member.address])
            await until(lambda: joining.ups and member.ups)
            assert joining.link(7).peer.cluster_id == "cluster"
            member.peers.set_addresses({1: joining.address})
            for node in (joining, member):
                node.peers.cut(8 - node.peers.identity.node_id, "to make both dial at once")
            await until(lambda: joining.peers.reachable and member.peers.reachable)
            await asyncio.sleep(0.3)
            ups = len(joining.ups), len(member.ups)
            assert await ask(joining.link(7), ECHO, b"one link", 5.0) == (1, b"one link")
            assert await ask(member.link(1), ECHO, b"one link", 5.0) == (7, b"one link")
            await asyncio.sleep(0.2)
            assert (len(joining.ups), len(member.ups)) == ups, "and it stays"

    run_clean(loop, scenario())
