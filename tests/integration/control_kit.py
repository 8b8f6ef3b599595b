"""Real control planes on loopback: a server with a small membership of its own, and its clients."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from fastnode.clock import SystemClock, SystemIdSource
from fastnode.cluster.cluster_auth import Judge, Realm, Signer
from fastnode.cluster.control_api import (
    Addresses,
    ClusterStatus,
    GroupStatus,
    Joined,
    Member,
    NodeStatus,
    Refused,
    SnapshotTaken,
)
from fastnode.cluster.control_client import ControlClient, Peer
from fastnode.cluster.control_server import ControlServer
from fastnode.cluster.snapshot_staging import Received, SnapshotReceiver
from fastnode.errors import Unavailable
from fastnode.peers.tls import PeerTls

T = TypeVar("T")
SECRET, CLUSTER = b"a secret of the cluster", b"c" * 16
SERVER_NODE, CLIENT_NODE = 1, 2
GROUPS = 4
LOG = logging.getLogger("test.control")


def run(work: Coroutine[Any, Any, T]) -> T:
    async def limited() -> T:
        async with asyncio.timeout(240):
            return await work

    return uvloop.run(limited())


def now_ms() -> int:
    return SystemClock().wall_ns() // 1_000_000


def realm(node: int, **other: Any) -> Realm:
    return Realm(SECRET, CLUSTER, node)._replace(**other)


def client(node: int = CLIENT_NODE, tls: PeerTls | None = None, **other: Any) -> ControlClient:
    return ControlClient(Signer(realm(node, **other), now_ms, SystemIdSource()), tls)


class Members:
    """A cluster as a dict: enough to see that every call arrives."""

    def __init__(self) -> None:
        self.members = {SERVER_NODE: Member(SERVER_NODE, b"i" * 16, Addresses("127.0.0.1:1"))}
        self.learners: set[int] = set()
        self.leader = SERVER_NODE
        self.hangs = False

    def status(self) -> ClusterStatus:
        nodes = tuple(NodeStatus(node, row.addresses, True) for node, row in self.members.items())
        voters = tuple(node for node in self.members if node not in self.learners)
        row = GroupStatus(0, self.leader, 3, 10, 9, voters, tuple(sorted(self.learners)))
        return ClusterStatus(CLUSTER, SERVER_NODE, nodes, (row,))

    async def join(self, node: int, incarnation: bytes, addresses: Addresses) -> Joined:
        known = self.members.get(node)
        if known is not None and known.incarnation != incarnation:
            raise Refused(f"node {node} is another one: join under a new id")
        self.members[node] = Member(node, incarnation, addresses)
        return Joined(CLUSTER, GROUPS, tuple(self.members.values()))

    async def add(self, node: int, raft: str) -> None:
        self.members[node] = Member(node, b"?" * 16, Addresses(raft))
        self.learners.add(node)

    async def promote(self, node: int) -> None:
        if node not in self.learners:
            raise Refused(f"node {node} is no learner")
        self.learners.discard(node)

    async def remove(self, node: int) -> None:
        if node not in self.members:
            raise Refused(f"node {node} is no member")
        del self.members[node]

    async def transfer(self, group: int, to: int) -> None:
        if self.hangs:
            await asyncio.sleep(3_600)
        if group:
            raise Unavailable(f"group {group} has no leader")
        self.leader = to

    async def take_snapshot(self, group: int) -> SnapshotTaken:
        return SnapshotTaken(group, 10, 3, 1 << 40)


async def decline(_: Received) -> bool:
    return False


def receiver(base: Path, install: Callable[[Received], Awaitable[bool]], **more: Any) -> Any:
    room = more.pop("room", lambda: 1 << 40)
    return SnapshotReceiver(GROUPS, lambda group: base / f"{group:03d}", install, room, LOG)


class Serving:
    def __init__(self, members: Members, peer: Peer, server: ControlServer) -> None:
        self.members = members
        self.peer = peer
        self.server = server


@asynccontextmanager
async def serving(
    snapshots: SnapshotReceiver | None = None,
    tls: PeerTls | None = None,
    admits: Callable[[int, str], bool] = lambda node, method: True,
    port: int = 0,
) -> AsyncIterator[Serving]:
    members = Members()
    given = snapshots or receiver(Path("nowhere"), decline)
    server = ControlServer(members, given, Judge(realm(SERVER_NODE), now_ms), admits, LOG)
    port = await server.start("127.0.0.1", port, tls)
    try:
        yield Serving(members, Peer(SERVER_NODE, f"127.0.0.1:{port}"), server)
    finally:
        await server.stop()
        if snapshots is None:
            await given.close()


class Proxy:
    """A TCP connection in two halves, cut after so many bytes of the client's."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self.cut_after: list[int] = []
        self.cuts = 0
        self.address = ""

    async def __aenter__(self) -> "Proxy":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, onward = await asyncio.open_connection(*self._target)
        limit = self.cut_after.pop(0) if self.cut_after else 1 << 60
        back = asyncio.create_task(self._copy(there, writer, 1 << 60))
        if await self._copy(reader, onward, limit):
            self.cuts += 1
        for end in (writer, onward):
            end.transport.abort()
        await back

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int
    ) -> bool:
        try:
            while content := await reader.read(65_536):
                writer.write(content[:limit])
                await writer.drain()
                limit -= len(content)
                if limit <= 0:
                    return True
        except OSError:
            pass
        return False
