"""Housekeeping in the background: flush the engines, shorten the log, watch the disk. A shell.

Memtables share a bound. What groups that have become quiet leave there must not be in the way of
the busy ones, which would be flushed every few rows; so the fullest go first.

The log is needed from the oldest entry that some engine has not flushed. The applied index is read
*before* a flush, so whatever the flush covers is at least that.

While free space is below the reserve both happen more often, since only a flush and a compaction
give the space of deleted messages back. Many deletes cause a compaction by themselves. A few
deletes of large messages do not, though they free as much; but then the tables, which hold no large
bodies, are small, and compacting all of them is cheap.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from fastnode import config
from fastnode.errors import DiskFull
from fastnode.store.engine import EngineError, WriteStalled
from fastnode.store.group import Group

CHECK_SECONDS = 1.0
# Of an engine; it may do better when it is tried again.
_FAILURES = EngineError, DiskFull, WriteStalled
log = logging.getLogger("fastnode.upkeep")


class FreeSpace(Protocol):
    def __call__(self, path: Path) -> tuple[int, int]:
        """(free bytes, total bytes)"""
        ...


def disk_space(path: Path) -> tuple[int, int]:
    stat = os.statvfs(path)
    return stat.f_bavail * stat.f_frsize, stat.f_blocks * stat.f_frsize


def reserve_bytes(total_bytes: int) -> int:
    """Below this new messages are refused, so that deletes and flushes still fit."""
    wanted = max(config.DISK_RESERVE_BYTES, int(total_bytes * config.DISK_RESERVE_FRACTION))
    return min(wanted, int(total_bytes * config.DISK_RESERVE_FRACTION_MAX))


class Log(Protocol):
    """What entries are kept in."""

    def log_bytes(self) -> int: ...

    def compact(self, group: int, index: int) -> None: ...


class Upkeep:
    def __init__(
        self,
        groups: Sequence[Group],
        raft: Log,
        data_path: Path,
        free_space: FreeSpace = disk_space,
        memtables_bytes: int = config.MEMTABLES_BYTES,
    ) -> None:
        self._groups = groups
        self._memtables_bytes = memtables_bytes
        self._raft = raft
        self._data_path = data_path
        self._free_space = free_space
        self._flushed = {group.number: group.applied_index for group in groups}
        self._compacted = dict(self._flushed)
        self._has_room = True

    async def run(self) -> None:
        """Until cancelled."""
        idle_seconds = 0.0
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            idle_seconds += CHECK_SECONDS
            if await self.look(idle_seconds):
                idle_seconds = 0.0

    async def look(self, idle_seconds: float) -> bool:
        """Whether it was time to flush, so long after the last time."""
        has_room = self.check_disk()
        interval = config.FLUSH_INTERVAL_SECONDS if has_room else config.LOW_SPACE_FLUSH_SECONDS
        if idle_seconds < interval and self._raft.log_bytes() <= config.LOG_BYTES_BEFORE_FLUSH:
            if has_room:
                await self.flush_fullest()
            return False
        await self.flush_all()
        await self.compact_small()
        return True

    def check_disk(self) -> bool:
        """Whether new messages are accepted."""
        free, total = self._free_space(self._data_path)
        has_room = free >= reserve_bytes(total)
        if has_room != self._has_room:
            self._has_room = has_room
            state = "accepted again" if has_room else "refused: free disk space is too low"
            log.warning("new messages are %s free=%d", state, free)
            for group in self._groups:
                group.accepts_messages = has_room
        return has_room

    async def flush_all(self) -> None:
        for group in self._groups:
            if group.applied_index > self._flushed[group.number]:
                await self._flush(group)

    async def flush_fullest(self) -> None:
        """So many that the memtables of the others have room."""
        held = [(group.engine_metrics()["memtable_bytes"], group) for group in self._groups]
        excess = sum(size for size, _ in held) - self._memtables_bytes
        for size, group in sorted(held, key=lambda each: each[0], reverse=True):
            if excess <= 0:
                return
            await self._flush(group)
            excess -= size

    async def compact_small(self) -> None:
        """While there is no room: groups whose tables are small."""
        for group in self._groups:
            if self._flushed[group.number] > self._compacted[group.number]:
                if self.check_disk():
                    return
                await self._compact(group)

    async def _flush(self, group: Group) -> None:
        index = group.applied_index
        try:
            await _finish_in_thread(group.flush)
        except _FAILURES as error:
            log.error("flush failed, the log is kept group=%d: %s", group.number, error)
            return
        self._flushed[group.number] = index
        self._raft.compact(group.number, max(index - self._entries_kept(group), 0))

    def _entries_kept(self, group: Group) -> int:
        """For members that are a little behind: they need no snapshot then."""
        if group.is_sole_voter:
            return 0
        has_room = self._raft.log_bytes() <= config.LOG_BYTES_BEFORE_FLUSH // 2
        return config.LOG_ENTRIES_KEPT if has_room else config.LOG_ENTRIES_KEPT_MIN

    async def _compact(self, group: Group) -> None:
        # A compaction writes before it deletes, and must not take what is left for deletes.
        free, _ = self._free_space(self._data_path)
        if group.engine_metrics()["table_bytes"] > min(free // 2, config.LOW_SPACE_COMPACT_BYTES):
            return
        index = self._flushed[group.number]
        try:
            await _finish_in_thread(group.compact)
        except _FAILURES as error:
            log.error("compaction failed group=%d: %s", group.number, error)
        self._compacted[group.number] = index


async def _finish_in_thread(work: Callable[[], None]) -> None:
    """To its end even when cancelled: an engine that somebody works with cannot be closed."""
    thread = asyncio.create_task(asyncio.to_thread(work))
    try:
        await asyncio.shield(thread)
    except asyncio.CancelledError:
        with contextlib.suppress(*_FAILURES):
            await thread
        raise
