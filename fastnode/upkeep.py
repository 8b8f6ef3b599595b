"""Housekeeping in the background: flush the engines, shorten the log, watch the disk. A shell.

The log is needed from the oldest entry that some engine has not flushed. The applied index is read
*before* a flush, so whatever the flush covers is at least that.
"""

import asyncio
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from fastnode import config
from fastnode.errors import DiskFull
from fastnode.raft.groups import Groups
from fastnode.store.engine import EngineError
from fastnode.store.group import Group

CHECK_SECONDS = 1.0
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


class Upkeep:
    def __init__(
        self,
        groups: Sequence[Group],
        raft: Groups,
        data_path: Path,
        free_space: FreeSpace = disk_space,
    ) -> None:
        self._groups = groups
        self._raft = raft
        self._data_path = data_path
        self._free_space = free_space
        self._flushed = {group.number: group.applied_index for group in groups}

    async def run(self) -> None:
        """Until cancelled."""
        seconds_left = config.FLUSH_INTERVAL_SECONDS
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            self.check_disk()
            seconds_left -= CHECK_SECONDS
            if seconds_left <= 0 or self._log_bytes() > config.LOG_BYTES_BEFORE_FLUSH:
                await self.flush_all()
                seconds_left = config.FLUSH_INTERVAL_SECONDS

    def check_disk(self) -> None:
        free, total = self._free_space(self._data_path)
        has_room = free >= reserve_bytes(total)
        for group in self._groups:
            if group.accepts_messages != has_room:
                group.accepts_messages = has_room
                state = "accepted again" if has_room else "refused: free disk space is too low"
                log.warning("new messages are %s group=%d free=%d", state, group.number, free)

    async def flush_all(self) -> None:
        for group in self._groups:
            if group.applied_index > self._flushed[group.number]:
                await self._flush(group)

    async def _flush(self, group: Group) -> None:
        index = group.applied_index
        try:
            await asyncio.to_thread(group.flush)
        except (EngineError, DiskFull) as error:
            log.error("flush failed, the log is kept group=%d: %s", group.number, error)
            return
        self._flushed[group.number] = index
        self._raft.compact(group.number, index)

    def _log_bytes(self) -> int:
        return self._raft.status()["log_bytes"]
