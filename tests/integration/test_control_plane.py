"""The control plane over real gRPC: every call arrives, strangers get nothing, limits hold."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import grpc
import pytest

from fastnode.cluster import control_client, control_server
from fastnode.cluster.cluster_auth import METADATA_NAME
from fastnode.cluster.control_api import Addresses, Member, Refused, SnapshotTaken
from fastnode.cluster.control_client import MESSAGE_BYTES_MAX, SERVICE, NotAuthenticated, Peer
from fastnode.cluster.control_pb2 import StatusRequest
from fastnode.cluster.control_pb2_grpc import ControlStub
from fastnode.errors import DeadlineExceeded, OperationError, StartError, Unavailable
from tests.certificates import make_ours_and_theirs
from tests.integration.control_kit import (
    CLIENT_NODE,
    CLUSTER,
    GROUPS,
    SERVER_NODE,
    client,
    run,
    serving,
)

JOINER = Member(CLIENT_NODE, b"j" * 16, Addresses("127.0.0.1:2", "127.0.0.1:3"))


def test_every_call_arrives() -> None:
    async def scenario() -> None:
        async with serving() as node:
            caller = client()
            joined = await caller.join(node.peer, JOINER)
            assert (joined.cluster_id, joined.groups) == (CLUSTER, GROUPS)
            assert joined.members[1] == JOINER
            await caller.add(node.peer, 3, "127.0.0.1:9")
            status = await caller.status(node.peer)
            assert status == node.members.status()
            assert status.groups[0].learners == (3,)
            await caller.promote(node.peer, 3)
            assert (await caller.status(node.peer)).groups[0].learners == ()
            await caller.remove(node.peer, 3)
            assert list(node.members.members) == [SERVER_NODE, CLIENT_NODE]
            await caller.transfer(node.peer, 0, CLIENT_NODE)
            assert node.members.leader == CLIENT_NODE
            taken = await caller.take_snapshot(node.peer, 2)
            assert taken == SnapshotTaken(2, 10, 3, 1 << 40)
            await caller.close()

    run(scenario())


def test_refusals_reach_the_caller_with_their_text() -> None:
    async def scenario() -> None:
        async with serving() as node:
            caller = client()
            with pytest.raises(Refused, match="node 9 is no member"):
                await caller.remove(node.peer, 9)
            with pytest.raises(Unavailable, match="group 1 has no leader"):
                await caller.transfer(node.peer, 1, 2)
            with pytest.raises(Refused, match="an address is HOST:PORT, not 'nowhere'"):
                await caller.add(node.peer, 3, "nowhere")
            with pytest.raises(Refused, match="a node joins for itself only"):
                await caller.join(node.peer, Member(3, b"j" * 16, Addresses("h:1")))
            await caller.join(node.peer, JOINER)
            with pytest.raises(Refused, match="join under a new id"):
                await caller.join(node.peer, Member(CLIENT_NODE, b"k" * 16, Addresses("h:1")))
            await caller.close()

    run(scenario())


@pytest.mark.parametrize("other", [{"secret": b"guess"}, {"cluster_id": b"d" * 16}])
def test_a_stranger_gets_nothing(other: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with serving() as node:
            caller = client(**other)
            with pytest.raises(NotAuthenticated, match=r"^UNAUTHENTICATED$"):
                await caller.status(node.peer)
            with pytest.raises(NotAuthenticated):
                await caller.remove(node.peer, SERVER_NODE)
            assert list(node.members.members) == [SERVER_NODE]
            await caller.close()

    with caplog.at_level(logging.WARNING):
        run(scenario())
    complaints = [row for row in caplog.records if "refused" in row.message]
    assert len(complaints) == 1 and "another secret" in complaints[0].__dict__["reason"]


def test_a_token_for_another_node_is_no_token_here() -> None:
    async def scenario() -> None:
        async with serving() as node:
            caller = client()
            with pytest.raises(NotAuthenticated):
                await caller.status(Peer(7, node.peer.control))
            await caller.close()

    run(scenario())


@pytest.mark.parametrize("method", ["Status", "SendSnapshot", "NoSuchMethod"])
@pytest.mark.parametrize("tokens", [(), (b"",), (b"x" * 65,), (b"x" * 65, b"y" * 65)])
def test_without_a_token_no_method_is_told_apart(method: str, tokens: tuple[bytes, ...]) -> None:
    async def scenario() -> None:
        async with serving() as node, grpc.aio.insecure_channel(node.peer.control) as channel:
            call: Any = channel.stream_stream(SERVICE + method)(
                metadata=tuple((METADATA_NAME, token) for token in tokens), timeout=60
            )
            # Nothing was sent, so nothing can have been read.
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call.read()
            assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED
            assert not caught.value.details()

    run(scenario())


def test_a_second_token_spoils_the_first() -> None:
    async def scenario() -> None:
        async with serving() as node, grpc.aio.insecure_channel(node.peer.control) as channel:
            good = client()._signer.token(SERVER_NODE, SERVICE + "Status")
            for tokens in ((good, b"x"), (b"x", good)):
                metadata = tuple((METADATA_NAME, token) for token in tokens)
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await ControlStub(channel).Status(
                        StatusRequest(), metadata=metadata, timeout=60
                    )
                assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED

    run(scenario())


def test_a_call_cannot_be_replayed() -> None:
    async def scenario() -> None:
        async with serving() as node, grpc.aio.insecure_channel(node.peer.control) as channel:
            token = client()._signer.token(SERVER_NODE, SERVICE + "Status")
            stub, metadata = ControlStub(channel), ((METADATA_NAME, token),)
            await stub.Status(StatusRequest(), metadata=metadata, timeout=60)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.Status(StatusRequest(), metadata=metadata, timeout=60)
            assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED

    run(scenario())


def test_who_is_no_member_may_only_join() -> None:
    async def scenario() -> None:
        def admits(node: int, method: str) -> bool:
            return node == CLIENT_NODE or method == "Join"

        async with serving(admits=admits) as node:
            outsider = client(5)
            with pytest.raises(Refused, match="node 5 is not a member"):
                await outsider.status(node.peer)
            await outsider.join(node.peer, Member(5, b"j" * 16, Addresses("h:1")))
            await client().status(node.peer)
            await outsider.close()

    run(scenario())


def test_every_call_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_client, "CHANGE_SECONDS", 0.2)

    async def scenario() -> None:
        async with serving() as node:
            node.members.hangs = True
            caller = client()
            with pytest.raises(DeadlineExceeded):
                await caller.transfer(node.peer, 0, 2)
            await caller.close()

    run(scenario())


def test_the_server_has_a_deadline_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_server, "CHANGE_SECONDS", 0.2)

    async def scenario() -> None:
        async with serving() as node:
            node.members.hangs = True
            caller = client()
            with pytest.raises(DeadlineExceeded, match="not done in time"):
                await caller.transfer(node.peer, 0, 2)
            await caller.close()

    run(scenario())


def test_a_message_that_is_too_large_is_refused() -> None:
    async def scenario() -> None:
        async with serving() as node:
            caller = client()
            with pytest.raises(OperationError):
                await caller.add(node.peer, 3, "x" * MESSAGE_BYTES_MAX)
            assert list(node.members.members) == [SERVER_NODE]
            await caller.status(node.peer)
            await caller.close()

    run(scenario())


def test_a_peer_that_is_away_is_unavailable_and_comes_back() -> None:
    async def scenario() -> None:
        caller = client()
        async with serving() as node:
            peer = node.peer
            await caller.status(peer)
        with pytest.raises(OperationError):
            await caller.status(peer)
        async with serving(port=int(peer.control.rpartition(":")[2])):
            while True:
                try:
                    await caller.status(peer)
                    break
                except Unavailable:
                    await asyncio.sleep(0.05)
        await caller.close()

    run(scenario())


@pytest.mark.parametrize("noise", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 4_096])
def test_garbage_harms_nobody(noise: bytes) -> None:
    async def scenario() -> None:
        async with serving() as node:
            host, _, port = node.peer.control.rpartition(":")
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(noise)
            caller = client()
            await caller.status(node.peer)
            await caller.close()
            writer.transport.abort()

    run(scenario())


def test_an_address_in_use_is_a_clear_refusal_to_start() -> None:
    async def scenario() -> None:
        async with serving() as node:
            port = int(node.peer.control.rpartition(":")[2])
            with pytest.raises(StartError, match=f"127.0.0.1:{port}; stop what uses it"):
                await node.server.start("127.0.0.1", port)

    run(scenario())


def test_tls_wants_a_certificate_of_the_same_authority(tmp_path: Path) -> None:
    ours, theirs = make_ours_and_theirs(tmp_path)

    async def scenario() -> None:
        async with serving(tls=ours) as node:
            member = client(tls=ours)
            assert (await member.status(node.peer)).node == SERVER_NODE
            await member.close()
            # Knows the secret, but has another authority's certificate, or none.
            for tls in (theirs, theirs._replace(authority=ours.authority), None):
                stranger = client(tls=tls)
                with pytest.raises(OperationError):
                    await stranger.status(node.peer)
                await stranger.close()

    run(scenario())
