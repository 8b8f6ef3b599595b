"""Two ends of a snapshot transfer with real engines, files and gRPC."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fastnode import native
from fastnode.clock import GroupClock, SystemIdSource, SystemRng
from fastnode.cluster.control_client import ControlClient, Peer
from fastnode.cluster.control_pb2 import SnapshotBegin, SnapshotPart
from fastnode.cluster.rate_limit import RateLimit
from fastnode.cluster.snapshot_staging import Received, SnapshotReceiver
from fastnode.cluster.snapshot_transfer import Shipment, SnapshotSender
from fastnode.native import PUT
from fastnode.store.checksum import StateChecksum, state_checksum
from fastnode.store.engine import RocksEngine
from fastnode.store.engine_options import EngineShared
from fastnode.store.group import Group
from fastnode.store.snapshot import Manifest, Snapshot, encode_manifest, take_snapshot
from fastnode.store.swap import INCOMING, beside
from tests.integration.control_kit import LOG, Serving, client, receiver, serving
from tests.world import FakeClock

GROUP = 1
OFFER = b"the packet that is stepped"
MEGABYTE = 1_048_576


def open_rocks(path: Path) -> RocksEngine:
    return RocksEngine(path, EngineShared(cache_bytes=MEGABYTE, write_buffer_bytes=8 * MEGABYTE))


def fill(engine: RocksEngine, numbers: range, size: int) -> None:
    """One applied entry per number."""
    group = Group(GROUP, engine, GroupClock(FakeClock()))
    for number in numbers:
        row = (PUT, b"!sqs|%06d" % number, os.urandom(size))
        request = number.to_bytes(16, "big")
        encoded = native.encode_transaction(request, number, number + 1, 0, 0, [], [row])
        group.commit(group.applied_index + 1, 3, [native.encode_entry([encoded])])
        assert group.apply()


class Source:
    """A group's state at the sender: a few megabytes in several files."""

    def __init__(self, base: Path) -> None:
        base.mkdir(parents=True)
        self.path = base / f"{GROUP:03d}"
        self.engine = open_rocks(self.path)
        fill(self.engine, range(12), 300_000)
        self.engine.flush()
        fill(self.engine, range(12, 16), 300_000)
        self.snapshot = take_snapshot(self.engine, GROUP, self.path)
        self.state = state_checksum(self.engine)

    def go_on(self) -> None:
        """A newer snapshot."""
        self.snapshot.discard()
        fill(self.engine, range(16, 20), 10_000)
        self.snapshot = take_snapshot(self.engine, GROUP, self.path)
        self.state = state_checksum(self.engine)


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Source]:
    made = Source(tmp_path / "source")
    yield made
    made.engine.close()


class Target:
    """The receiving node: its group's directory holds an older state of its own."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.base.mkdir(parents=True)
        self.path = base / f"{GROUP:03d}"
        engine = open_rocks(self.path)
        fill(engine, range(3), 50)
        self.old = state_checksum(engine)
        engine.close()
        self.installed: list[tuple[int, int, bytes]] = []
        self.wants = True

    async def install(self, received: Received) -> bool:
        if self.wants:
            await asyncio.to_thread(received.state.install)
            self.installed.append((received.group, received.sender, received.offer))
        return self.wants

    def state(self) -> StateChecksum:
        engine = open_rocks(self.path)
        try:
            return state_checksum(engine)
        finally:
            engine.close()

    @property
    def incoming(self) -> Path:
        return beside(self.path, INCOMING)


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(tmp_path / "target")


class Pair:
    def __init__(self, node: Serving, snapshots: SnapshotReceiver, limit: RateLimit | None) -> None:
        self.node = node
        self.snapshots = snapshots
        self.client: ControlClient = client()
        self.sender = SnapshotSender(self.client, SystemRng(SystemIdSource()), LOG, limit)

    def start(self, snapshot: Snapshot, control: str = "") -> asyncio.Future[bool]:
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        peer = Peer(self.node.peer.node, control or self.node.peer.control)
        shipment = Shipment(GROUP, peer, snapshot, OFFER)
        self.sender.start(shipment, lambda _, is_installed: done.set_result(is_installed))
        return done


Install = Callable[[Received], Awaitable[bool]]


@asynccontextmanager
async def pair(
    target: Target,
    *,
    install: Install | None = None,
    room: Callable[[], int] = lambda: 1 << 40,
    limit: RateLimit | None = None,
) -> AsyncIterator[Pair]:
    snapshots = receiver(target.base, install or target.install, room=room)
    async with serving(snapshots) as node:
        both = Pair(node, snapshots, limit)
        try:
            yield both
        finally:
            await both.sender.close()
            await both.client.close()
    await snapshots.close()


async def until(condition: Callable[[], bool]) -> None:
    loop = asyncio.get_running_loop()
    while not condition():
        turned: asyncio.Future[None] = loop.create_future()
        loop.call_later(0.005, turned.set_result, None)
        await turned


async def open_with(both: Pair, part: SnapshotPart) -> Any:
    """A stream by hand, and the receiver's answer to its first part."""
    stream = both.client.send_snapshot(both.node.peer)
    await stream.read()
    await stream.write(part)
    return stream, await stream.read()


async def begin(both: Pair, manifest: Manifest) -> Any:
    encoded = encode_manifest(manifest)
    start = SnapshotBegin(group=manifest.group, manifest=encoded, offer=OFFER)
    return await open_with(both, SnapshotPart(begin=start))
