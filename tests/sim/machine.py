"""The computer that a simulated node runs on: clocks that drift and step, numbers by seed, a log on
a disk that loses what was not synced, engines in memory, and a control plane without gRPC.

A machine outlives the processes on it: `crash` is what a power failure leaves.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, cast
from unittest.mock import patch

from fastnode import config, native
from fastnode._raftlog import LogCorrupt, LogFormat, RaftGroups, SimDisk
from fastnode.clock import NS_PER_MS
from fastnode.cluster.control_api import ClusterStatus
from fastnode.cluster.member import Member
from fastnode.cluster.membership import Membership
from fastnode.cluster.replication import Replication
from fastnode.cluster.snapshot_staging import Received
from fastnode.datadir import DataDir
from fastnode.errors import Unavailable
from fastnode.machine import Machine
from fastnode.raft.groups import Groups, Ready, Restored, not_opened
from fastnode.store.apply import load_position
from fastnode.store.engine import Batch, StateEngine
from fastnode.store.held_engine import HeldEngine
from fastnode.store.snapshot import Manifest, Snapshot
from fastnode.store.swap import INCOMING, beside, install_incoming, recover_swap, remove
from tests.sim.clockwork import Clockwork, SimLoop
from tests.stored import StoredRows

if TYPE_CHECKING:
    from fastnode.cluster.control_plane import ControlPlane, Surroundings

# 2023-11-14, so that no test depends on today.
EPOCH_NS: Final = 1_700_000_000 * 1_000_000_000
# Small, so that a short run fills, recycles and compacts segments.
SEGMENT_BYTES: Final = 64 * 1024
_TOTAL_BYTES: Final = 1 << 40
_PPM: Final = 1_000_000
# Members write out what they hold at moments of their own, some of them all the time.
_HELD_ROWS_MAX: Final = (1, 7, 64, 2_048)
_ALL_ROWS: Final = 1 << 40
_NAMED_ONCE: Final = (
    native.FAMILY_DATA,
    native.FAMILY_TIMER,
    native.FAMILY_GROUP,
    native.FAMILY_READY,
)


class SimClock:
    """A crystal that is off by some parts per million, and a wall clock that is set now and then.
    It has the interface of `fastnode.clock.Clock` and of `clockwork.Clock`.
    """

    def __init__(self, work: Clockwork, drift_ppm: int) -> None:
        self._work = work
        self._drift_ppm = drift_ppm
        self._step_ns = 0

    def boottime_ns(self) -> int:
        return self._work.now_ns * (_PPM + self._drift_ppm) // _PPM

    def wall_ns(self) -> int:
        return EPOCH_NS + self.boottime_ns() + self._step_ns

    def until_ns(self, boottime_ns: int) -> int:
        return -(-boottime_ns * _PPM // (_PPM + self._drift_ppm)) - self._work.now_ns

    def set_off(self, step_ns: int) -> None:
        """The wall clock differs by so much from what it was set to first."""
        self._step_ns = step_ns


class SimIds:
    def __init__(self, random: Random) -> None:
        self._random = random

    def take(self, count: int) -> bytes:
        return self._random.randbytes(count)


class SimEngine(StoredRows):
    """What a machine keeps of a group when its power fails, up to the last flush."""


class SimHeldEngine(HeldEngine):
    """Looks whether queues write as those who hold rows back expect it."""

    def __init__(self, stored: SimEngine, rows_max: int) -> None:
        super().__init__(stored)
        self.stored = stored
        self._rows_max = rows_max

    def write(self, batch: Batch) -> None:
        assert isinstance(batch, native.HeldBatch)
        if not batch.has_ranges:
            self._check_names(batch)
        with patch.object(config, "HELD_ROWS_MAX", self._rows_max):
            super().write(batch)

    def _check_names(self, batch: native.HeldBatch) -> None:
        """What `_held_ref.py` rests on, whatever is held or stored at the time."""
        written: dict[bytes, bytes | None] = {}
        for key, value in batch.rows:
            if value is not None and key.startswith(_NAMED_ONCE):
                before = written[key] if key in written else self.get(key)
                assert before is None, f"{key!r} is put while it is there"
            if value is not None and key.startswith(native.FAMILY_DATA):
                # One that comes in the same batch may come first.
                state = native.FAMILY_STATE + key.removeprefix(native.FAMILY_DATA)
                assert self.get(state) is None, f"{state!r} is older than its message"
            written[key] = value
        for key in batch.first_states:
            assert self.get(key) is None, f"{key!r} is called the first and is not"

    def rows(self) -> dict[bytes, bytes]:
        return dict(self.scan(b"", b"\xff", _ALL_ROWS))


class SimSnapshot(Snapshot):
    """Rows instead of files."""

    def __init__(self, path: Path, group: int, rows: dict[bytes, bytes]) -> None:
        copy = SimEngine()
        copy.load(rows)
        super().__init__(path, Manifest(group, *load_position(copy), files=()))
        self.rows = rows
        self.total_bytes = sum(len(key) + len(value) for key, value in self.rows.items())

    def discard(self) -> None:
        pass


class _Incoming:
    """The place of `store.snapshot.Receiver` for a state that arrived whole."""

    def __init__(self, snapshot: SimSnapshot, stored: SimEngine, group_path: Path) -> None:
        self.manifest = snapshot.manifest
        self._rows = snapshot.rows
        self._stored = stored
        self._group_path = group_path
        remove(beside(group_path, INCOMING))
        beside(group_path, INCOMING).mkdir()

    def install(self) -> None:
        install_incoming(self._group_path)
        self._stored.load(self._rows)


class SimGroups(Groups):
    """The real extension, whose blocks are written when the disk has had time for them."""

    def __init__(self, raft: RaftGroups, machine: "SimMachine", loop: SimLoop) -> None:
        super().__init__(raft)
        self._machine = machine
        self._loop = loop
        self._is_writing = False

    def propose(self, group: int, entry: bytes) -> None:
        try:
            super().propose(group, entry)
        except OSError:
            # The next segment could not be prepared. A real node ends.
            self._machine.on_disk_error()
            raise

    def ready(self, *, here: bool = False) -> Ready:
        ready = super().ready(here=here)
        if ready.is_persisting and not self._is_writing:
            self._is_writing = True
            self._loop.after_ns(self._machine.draw_sync_ns(), self._write)
        return ready

    def _write(self) -> None:
        self._is_writing = False
        try:
            self._raft.persist_step()
        except OSError:
            # A real node's log thread ends the process.
            self._machine.on_disk_error()
            return
        self._loop.readable(self.fileno())


class SimMachine(Machine):
    def __init__(self, work: Clockwork, node: int, planes: "dict[int, SimControl]") -> None:
        self.node = node
        self.random = work.random(f"machine {node}")
        self.clock: SimClock = SimClock(work, self.random.randrange(-100, 101))
        self.ids = SimIds(work.random(f"ids {node}"))
        self.disk = SimDisk(self.random.getrandbits(62))
        self.engines: list[SimHeldEngine] = []
        self._stored: list[SimEngine] = []
        self._held_rows_max = work.random(f"held rows {node}").choice(_HELD_ROWS_MAX)
        self.free_bytes = _TOTAL_BYTES
        self.sync_ms = (0.1, 2.0)
        # Told when the disk fails in a way that no node survives.
        self.on_disk_error: Callable[[], None] = lambda: None
        self._planes = planes

    # --- for the node ---------------------------------------------------------------------------

    def open_engines(self, data: DataDir) -> Sequence[StateEngine]:
        for number in range(data.groups):
            recover_swap(data.group_path(number))
        self._stored = self._stored or [SimEngine() for _ in range(data.groups)]
        self._hold_nothing()
        return self.engines

    def _hold_nothing(self) -> None:
        """What is held is in the memory of a process."""
        self.engines = [SimHeldEngine(one, self._held_rows_max) for one in self._stored]

    def open_log(
        self,
        data: DataDir,
        *,
        applied: list[int],
        restored: list[Restored | None],
        is_synced: bool,
    ) -> Groups:
        # A data directory is refused when its log is gone, and the simulated log leaves no file.
        (data.log_path / "simulated").touch()
        try:
            raft = RaftGroups(
                *(data.node_id, "", data.groups),
                voters=data.first_voters,
                applied=applied,
                restored=restored,
                segment_bytes=SEGMENT_BYTES,
                election_ticks=config.ELECTION_TICKS,
                heartbeat_ticks=config.HEARTBEAT_TICKS,
                manual=True,
                election_seed=1 + self.random.getrandbits(31),
                disk=self.disk,
            )
        except (LogCorrupt, LogFormat, OSError) as error:
            raise not_opened(error, data.log_path.name) from error
        return SimGroups(raft, self, cast(SimLoop, asyncio.get_running_loop()))

    def take_snapshot(self, engine: StateEngine, group: int, group_path: Path) -> Snapshot:
        assert isinstance(engine, SimHeldEngine)
        engine.checkpoint(group_path)
        return SimSnapshot(group_path, group, engine.stored.copied)

    def disk_space(self, path: Path) -> tuple[int, int]:
        return self.free_bytes, _TOTAL_BYTES

    def control_plane(
        self, around: "Surroundings", member: Member, membership: Membership, states: Replication
    ) -> "ControlPlane":
        loop = cast(SimLoop, asyncio.get_running_loop())
        plane = SimControl(self, around.data, member, membership, states, self._planes, loop)
        return cast("ControlPlane", plane)

    # --- for the world --------------------------------------------------------------------------

    def draw_sync_ns(self) -> int:
        low, high = self.sync_ms
        return round((low + (high - low) * self.random.random() ** 3) * NS_PER_MS)

    def crash(self) -> None:
        """The power fails."""
        self.disk.crash()
        for stored in self._stored:
            stored.crash()
            stored.stalled = stored.is_full = False
        self._hold_nothing()

    def fill_disk(self, is_full: bool) -> None:
        """Below the reserve, with a little left for the log."""
        self.free_bytes = 1 << 20 if is_full else _TOTAL_BYTES
        self.disk.set_free(0 if is_full else (1 << 64) - 1)

    @property
    def is_full(self) -> bool:
        return self.free_bytes < _TOTAL_BYTES

    def rot(self) -> bool:
        """A bit of a block that was synced turns over; not of the last, which nobody can tell from
        a torn one.
        """
        name = max(self.disk.names(), default="")
        used = len(self.disk.content(name).rstrip(b"\0")) if name else 0
        if used < 4_096:
            return False
        self.disk.flip(name, self.random.randrange(256, used // 2))
        return True


class SimControl:
    """Members of one simulation find each other's control planes in a dict. What is sent takes its
    time, and fails when a link is lost meanwhile.
    """

    def __init__(
        self,
        machine: SimMachine,
        data: DataDir,
        member: Member,
        membership: Membership,
        states: Replication,
        planes: "dict[int, SimControl]",
        loop: SimLoop,
    ) -> None:
        self._machine = machine
        self._data = data
        self._member = member
        self.membership = membership
        self._states = states
        self._planes = planes
        self.loop = loop
        self._ended: dict[int, int] = {}
        planes[data.node_id] = self

    def open(self, on_port: Callable[[int], Any]) -> None:
        on_port(1)

    async def hear(self, node: int) -> ClusterStatus:
        await self._reach(node, 1)
        return self._planes[node].membership.status()

    async def ship(self, group: int, node: int, snapshot: SimSnapshot, packet: bytes) -> bool:
        ended = self._ended.get(group, 0)
        peer = await self._reach(node, 20 + self._machine.random.randrange(400))
        if self._ended.get(group, 0) != ended:
            raise Unavailable("this node no longer leads the group")
        return await peer.receive(self._data.node_id, group, snapshot, packet)

    async def _reach(self, node: int, milliseconds: int) -> "SimControl":
        link = self._member.link_to(node)
        await asyncio.sleep(milliseconds / 1000)
        peer = self._planes.get(node)
        if link is None or link.is_lost or peer is None or peer.loop.is_dead:
            raise Unavailable(f"node {node} cannot be reached")
        return peer

    async def receive(self, sender: int, group: int, snapshot: SimSnapshot, packet: bytes) -> bool:
        """Runs in this node's process, whoever awaits it."""
        done = asyncio.get_running_loop().create_future()

        def install() -> None:
            stored = self._machine.engines[group].stored
            state = _Incoming(snapshot, stored, self._data.group_path(group))
            self.loop.work.note(f"snapshot of group {group} from {sender} to {self._data.node_id}")
            received = Received(group, sender, packet, cast(Any, state))
            task = self.loop.create_task(self._states.install(received))
            task.add_done_callback(finish)

        def finish(task: "asyncio.Task[bool]") -> None:
            done.get_loop().call_soon(tell, task)

        def tell(task: "asyncio.Task[bool]") -> None:
            if not done.done():
                done.set_result(task.result())

        self.loop.call_soon(install)
        try:
            async with asyncio.timeout(5.0):
                return bool(await done)
        except TimeoutError:
            raise Unavailable("the receiver has gone") from None

    def end_shipments(self, group: int) -> None:
        self._ended[group] = self._ended.get(group, 0) + 1

    def forget(self, node: int) -> None:
        """Whoever ships to it finds out."""

    async def close(self) -> None:
        """Nothing is open."""
