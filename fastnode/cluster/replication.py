"""Snapshots between consensus, engines and the network: who needs one, how it is taken and sent,
and how one that has arrived takes the place of a group's state. Shell.

A snapshot is taken once for all peers that need one of the group, and thrown away when the last of
them has it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from fastnode.cluster.control_api import SnapshotTaken
from fastnode.datadir import DataDir
from fastnode.errors import FastnodeError, OperationError
from fastnode.raft.groups import Ready, Restored
from fastnode.store.engine import StateEngine
from fastnode.store.group import Group
from fastnode.store.snapshot import Snapshot
from fastnode.store.swap import INCOMING, beside, read_restored, write_restored

if TYPE_CHECKING:
    from fastnode.cluster.snapshot_staging import Received


# A snapshot that nobody asks for any more gives its disk space back.
_UNUSED_SECONDS: Final = 30.0


class Consensus(Protocol):
    def step(self, packet: bytes) -> list[str]: ...
    def snapshot_ready(self, group: int, index: int, data: bytes) -> None: ...
    def drop_snapshot(self, group: int) -> None: ...
    def report_snapshot(self, group: int, peer: int, ok: bool) -> None: ...
    def installed(self, group: int, index: int) -> None: ...


# Sends a snapshot of a group to a peer with the packet that offers it; whether it was installed.
Ship = Callable[[int, int, Snapshot, bytes], Awaitable[bool]]
# Takes a snapshot of an engine: of which group, whose directory is where. Blocks.
Take = Callable[[StateEngine, int, Path], Snapshot]


class Replication:
    """`turn` is a turn of all groups."""

    def __init__(
        self,
        data: DataDir,
        groups: Sequence[Group],
        engines: Sequence[StateEngine],
        raft: Consensus,
        take: Take,
        turn: Callable[[], None],
        log: logging.Logger,
    ) -> None:
        self._data = data
        self._groups = groups
        self._engines = engines
        self._raft = raft
        self._take_snapshot = take
        self._turn = turn
        self._log = log
        self.ship: Ship | None = None
        # Snapshots that peers can have, and how many are on their way with each.
        self._taken: dict[int, Snapshot] = {}
        self._shipments: dict[int, int] = {}
        self._taking: set[int] = set()
        self._arrived: dict[int, Received] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def on_news(self, ready: Ready) -> None:
        for group, _ in ready.wanted:
            if group not in self._taking and group not in self._taken:
                self._taking.add(group)
                self._run(self._take(group))
        for group, peer, packet in ready.offers:
            self._offer(group, peer, packet)
        for group, index, term, voters, learners, _ in ready.installs:
            self._replace(group, (index, term, voters, learners))

    # --- giving ------------------------------------------------------------------------------

    async def _take(self, number: int) -> None:
        path = self._data.group_path(number)
        try:
            engine = self._engines[number]
            snapshot = await asyncio.to_thread(self._take_snapshot, engine, number, path)
        except (FastnodeError, OperationError) as error:
            self._log.warning("a snapshot cannot be taken: %s", error, extra={"group": number})
            self._taking.discard(number)
            return
        self._taking.discard(number)
        try:
            self._raft.snapshot_ready(number, snapshot.manifest.applied_index, b"")
        except OperationError as error:
            self._log.info("a snapshot is of no use: %s", error, extra={"group": number})
            await asyncio.to_thread(snapshot.discard)
            return
        self._taken[number] = snapshot
        self._shipments[number] = 0
        self._turn()
        asyncio.get_running_loop().call_later(_UNUSED_SECONDS, self._drop_unused, snapshot)

    async def measure(self, number: int) -> SnapshotTaken:
        """Take one for an operator who wants to see that it can be done, and what it comes to."""
        path = self._data.group_path(number)
        engine = self._engines[number]
        snapshot = await asyncio.to_thread(self._take_snapshot, engine, number, path)
        await asyncio.to_thread(snapshot.discard)
        index, term, _ = snapshot.manifest.position
        return SnapshotTaken(number, index, term, snapshot.total_bytes)

    def _offer(self, group: int, peer: int, packet: bytes) -> None:
        snapshot = self._taken.get(group)
        if snapshot is None or self.ship is None:
            self._raft.report_snapshot(group, peer, False)
            return
        self._shipments[group] += 1
        self._run(self._send(group, peer, snapshot, packet))

    async def _send(self, group: int, peer: int, snapshot: Snapshot, packet: bytes) -> None:
        assert self.ship is not None
        is_installed = False
        try:
            is_installed = await self.ship(group, peer, snapshot, packet)
        except OperationError as error:
            fields = {"group": group, "peer": peer}
            self._log.warning("a snapshot was not sent: %s", error, extra=fields)
        finally:
            self._raft.report_snapshot(group, peer, is_installed)
            self._shipments[group] -= 1
            # One that did not arrive will be asked for again, and goes on where it ended.
            keep_seconds = 0.0 if is_installed else _UNUSED_SECONDS
            loop = asyncio.get_running_loop()
            loop.call_later(keep_seconds, self._drop_unused, snapshot)
        self._turn()

    def _drop_unused(self, snapshot: Snapshot) -> None:
        group = snapshot.manifest.group
        if self._taken.get(group) is snapshot and not self._shipments[group]:
            self._raft.drop_snapshot(group)
            del self._taken[group]
            self._run(asyncio.to_thread(snapshot.discard))

    # --- taking ------------------------------------------------------------------------------

    async def install(self, received: "Received") -> bool:
        """Offer a state that has arrived to consensus; whether it took the place of the old one."""
        self._arrived[received.group] = received
        try:
            refusals = self._raft.step(received.offer)
            for why in refusals:
                self._log.info("a snapshot was refused: %s", why, extra={"group": received.group})
            self._turn()
            return received.group not in self._arrived
        finally:
            self._arrived.pop(received.group, None)

    def _replace(self, number: int, restored: Restored) -> None:
        received, index = self._arrived.pop(number), restored[0]
        assert received.manifest.applied_index == index, "the offer is of another snapshot"
        path = self._data.group_path(number)
        write_restored(beside(path, INCOMING), encode_restored(restored))
        # In the loop, so that nobody reads a state that is not there.
        self._engines[number].replace(received.state.install)
        self._groups[number].replaced()
        self._raft.installed(number, index)
        self._log.info("a snapshot was installed", extra={"group": number, "index": index})

    async def close(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for snapshot in self._taken.values():
            await asyncio.to_thread(snapshot.discard)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def encode_restored(restored: Restored) -> bytes:
    return msgspec.msgpack.encode(restored)


def restored_of(data: DataDir, group: int) -> Restored | None:
    """What the log has to be told at a start about a group whose state was once replaced."""
    stored = read_restored(data.group_path(group))
    return None if stored is None else msgspec.msgpack.decode(stored, type=Restored)
