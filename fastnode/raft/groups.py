"""The Rust extension behind our own errors: the only file that imports it."""

from pathlib import Path
from typing import NamedTuple

from fastnode import config
from fastnode._raftlog import LogCorrupt, LogFormat, LogFull, NotLeader, RaftGroups
from fastnode.errors import DiskFull, StartError, Unavailable

LEADER = "leader"


class Ready(NamedTuple):
    """What a turn has to send, to apply and to tell."""

    sends: list[tuple[int, bytes]]
    committed: list[tuple[int, int, int, list[bytes]]]
    reads: list[tuple[int, bytes, int]]
    roles: list[tuple[int, str, int, int]]
    is_persisting: bool


class Groups:
    """All Raft groups of this worker and their one log."""

    def __init__(
        self, node_id: int, log_path: Path, *, applied: list[int], is_synced: bool
    ) -> None:
        try:
            self._raft = RaftGroups(
                node_id,
                str(log_path),
                len(applied),
                voters=[node_id],
                applied=applied,
                segment_bytes=config.LOG_SEGMENT_BYTES,
                sync=is_synced,
            )
        except (LogCorrupt, LogFormat, OSError) as error:
            raise StartError(str(error)) from error
        self.fileno = self._raft.fileno
        self.tick = self._raft.tick
        self.applied = self._raft.applied
        self.compact = self._raft.compact
        self.status = self._raft.status
        self.close = self._raft.close

    def propose(self, group: int, entry: bytes) -> None:
        try:
            self._raft.propose(group, entry)
        except LogFull as error:
            raise DiskFull(str(error)) from error
        except NotLeader as error:
            raise Unavailable(str(error)) from error

    def ready(self) -> Ready:
        return Ready(*self._raft.ready())
