"""The backup that this node makes for an operator: taken, described, read piece by piece, dropped.
Shell: waiting, threads, time limits.

There is one at a time. It lies beside the groups as hard links, so it takes the disk space of what
the groups give up meanwhile; whoever does not go on with it for a while loses it. What is taken are
checkpoints of all groups that fit together (`store/cut.py`); if they do not, they are taken again.
"""

import asyncio
import contextlib
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Literal, Protocol

import msgspec

from fastnode import __version__
from fastnode.clock import NS_PER_MS, Clock, IdSource
from fastnode.cluster.control_api import Refused
from fastnode.cluster.threads import in_thread
from fastnode.data_format import FORMAT_VERSION
from fastnode.datadir import DataDir
from fastnode.errors import FastnodeError, Unavailable
from fastnode.store.checkpoint import Checksums, drop_checkpoint, marks_in, read_piece
from fastnode.store.cut import misfit
from fastnode.store.snapshot import Manifest

IDLE_SECONDS: Final = 600.0
# Letters are held back for so long at a time, and waited for.
HOLD_MS: Final = 5_000
QUIET_SECONDS: Final = 2.0
QUIET_POLL_SECONDS: Final = 0.02
ATTEMPTS_MAX: Final = 5
_ID_BYTES: Final = 8
log: Final = logging.getLogger("fastnode.backup")

State = Literal["none", "taking", "ready", "failed"]


class States(Protocol):
    async def hold(self, milliseconds: int) -> int: ...
    async def flush(self, group: int) -> None: ...
    async def checkpoint(self, group: int) -> None: ...


class BackupStatus(msgspec.Struct, frozen=True, kw_only=True):
    """`described` counts the groups whose files are known; `total_bytes` is of those."""

    state: State
    id: str = ""
    why: str = ""
    cluster: str = ""
    node: int = 0
    version: str = __version__
    data_format: int = FORMAT_VERSION
    groups: int = 0
    described: int = 0
    total_bytes: int = 0
    began_ms: int = 0


class _Backup:
    def __init__(self, backup_id: str, began_ms: int) -> None:
        self.id = backup_id
        self.began_ms = began_ms
        self.state: State = "taking"
        self.why = ""
        self.manifests: list[Manifest] = []
        self.expiry: asyncio.TimerHandle | None = None
        self.task: asyncio.Task[None] | None = None


class Backups:
    def __init__(self, data: DataDir, states: States, clock: Clock, ids: IdSource) -> None:
        self._data = data
        self._states = states
        self._clock = clock
        self._ids = ids
        self._sums = Checksums()
        self._pool = ThreadPoolExecutor(1, "backup")
        self._backup: _Backup | None = None
        self._ending: set[asyncio.Task[None]] = set()

    # --- for an operator -----------------------------------------------------------------------

    def status(self) -> BackupStatus:
        backup, data = self._backup, self._data
        if backup is None:
            return BackupStatus(state="none")
        self._touch(backup)
        return BackupStatus(
            state=backup.state,
            id=backup.id,
            why=backup.why,
            cluster=data.cluster_id,
            node=data.node_id,
            groups=data.groups,
            described=len(backup.manifests),
            total_bytes=sum(file.size for one in backup.manifests for file in one.files),
            began_ms=backup.began_ms,
        )

    def begin(self) -> BackupStatus:
        """Returns at once. One that has failed makes room."""
        if self._backup is not None and self._backup.state != "failed":
            raise Refused(
                f"a backup is being made of this node already, {self._backup.id}: let it end, or"
                f" DELETE /api/v1/backup/{self._backup.id}"
            )
        wall_ms = self._clock.wall_ns() // NS_PER_MS
        backup = self._backup = _Backup(self._ids.take(_ID_BYTES).hex(), wall_ms)
        backup.task = asyncio.get_running_loop().create_task(self._take(backup))
        return self.status()

    def group(self, backup_id: str, group: int) -> Manifest:
        manifests = self._ready(backup_id).manifests
        if group >= len(manifests):
            raise Refused(f"there is no group {group}: they are 0 to {len(manifests) - 1}")
        return manifests[group]

    async def piece(self, backup_id: str, group: int, name: str, offset: int) -> bytes:
        """Some of a file from the offset on; nothing at its end."""
        found = [file for file in self.group(backup_id, group).files if file.name == name]
        if not found or offset > found[0].size:
            raise Refused(f"group {group} of the backup has no such file, or it is shorter")
        if offset == found[0].size:
            return b""
        path = self._data.group_path(group)
        return await in_thread(self._pool, read_piece, path, found[0], offset)

    async def end(self, backup_id: str) -> None:
        """Idempotent."""
        if self._backup is not None and self._backup.id == backup_id:
            await self._drop(self._backup)

    async def close(self) -> None:
        """The node stops."""
        if self._backup is not None:
            await self._drop(self._backup)
        await asyncio.gather(*self._ending)
        self._pool.shutdown()

    def _ready(self, backup_id: str) -> _Backup:
        backup = self._backup
        if backup is None or backup.id != backup_id:
            raise Refused("there is no such backup, or it has ended: begin another")
        if backup.state != "ready":
            raise Unavailable("the backup is still being taken")
        self._touch(backup)
        return backup

    # --- taking ----------------------------------------------------------------------------------

    async def _take(self, backup: _Backup) -> None:
        try:
            await self._take_fitting()
            for group in range(self._data.groups):
                path = self._data.group_path(group)
                manifest = await in_thread(self._pool, self._sums.manifest, path, group)
                backup.manifests.append(manifest)
        except FastnodeError as error:
            log.warning("a backup cannot be made: %s", error)
            await self._remove_files()
            backup.why, backup.state = str(error), "failed"
        else:
            backup.state = "ready"
            fields = {"id": backup.id, "total_bytes": self.status().total_bytes}
            log.info("a backup can be fetched", extra=fields)

    async def _take_fitting(self) -> None:
        groups, why = range(self._data.groups), ""
        for _ in range(ATTEMPTS_MAX):
            for group in groups:
                await self._states.flush(group)
            try:
                await self._be_quiet()
                for group in groups:
                    # Longer than one checkpoint takes, however many there are.
                    await self._states.hold(HOLD_MS)
                    await self._states.checkpoint(group)
            finally:
                await self._states.hold(0)
            why = await in_thread(self._pool, self._misfit)
            if not why:
                return
            log.info("the groups are taken again: %s", why)
        raise Unavailable(f"{why}, {ATTEMPTS_MAX} times: messages move between queues; try again")

    async def _be_quiet(self) -> None:
        """Until no letter is under way, or for as long as is worth waiting."""
        now = asyncio.get_running_loop().time
        deadline = now() + QUIET_SECONDS
        while await self._states.hold(HOLD_MS):
            if now() > deadline:
                return
            await asyncio.sleep(QUIET_POLL_SECONDS)

    def _misfit(self) -> str:
        path_of, groups = self._data.group_path, self._data.groups
        return misfit([marks_in(path_of(number), groups) for number in range(groups)])

    # --- the end ---------------------------------------------------------------------------------

    def _touch(self, backup: _Backup) -> None:
        if backup.expiry is not None:
            backup.expiry.cancel()
        loop = asyncio.get_running_loop()
        backup.expiry = loop.call_later(IDLE_SECONDS, self._expire, backup)

    def _expire(self, backup: _Backup) -> None:
        log.info("a backup that nobody goes on with is dropped", extra={"id": backup.id})
        task = asyncio.get_running_loop().create_task(self._drop(backup))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _drop(self, backup: _Backup) -> None:
        if backup.expiry is not None:
            backup.expiry.cancel()
        if backup.task is not None:
            backup.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await backup.task
        if self._backup is backup:
            await self._remove_files()
            self._backup = None

    async def _remove_files(self) -> None:
        for group in range(self._data.groups):
            path = self._data.group_path(group)
            try:
                await in_thread(self._pool, drop_checkpoint, path)
            except FastnodeError as error:
                # The next backup, or a restart, removes what is left.
                log.warning("a checkpoint cannot be removed: %s", error)
