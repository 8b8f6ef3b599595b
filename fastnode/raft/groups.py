"""The Rust extension behind our own errors: the only file that imports it."""

from pathlib import Path
from typing import Final, NamedTuple

from fastnode import config
from fastnode._raftlog import LogCorrupt, LogFormat, LogFull, NotLeader, RaftGroups
from fastnode.errors import DiskFull, StartError, Unavailable

LEADER: Final = "leader"


class Ready(NamedTuple):
    """What a turn has to send, to apply and to tell."""

    sends: list[tuple[int, bytes]]
    committed: list[tuple[int, int, int, list[bytes]]]
    reads: list[tuple[int, bytes, int]]
    roles: list[tuple[int, str, int, int]]
    is_persisting: bool


class Groups:
    """All Raft groups of this worker and their one log."""

    def __init__(self, raft: RaftGroups) -> None:
        self._raft = raft
        self.fileno = raft.fileno
        self.tick = raft.tick
        self.applied = raft.applied
        self.compact = raft.compact
        self.status = raft.status
        self.close = raft.close

    def propose(self, group: int, entry: bytes) -> None:
        try:
            self._raft.propose(group, entry)
        except LogFull as error:
            raise DiskFull(str(error)) from error
        except NotLeader as error:
            raise Unavailable(str(error)) from error

    def read_index(self, group: int, context: bytes) -> None:
        """`Ready.reads` brings the context back when a quorum has confirmed the leader."""
        try:
            self._raft.read_index(group, context)
        except NotLeader as error:
            raise Unavailable(str(error)) from error

    def ready(self) -> Ready:
        return Ready(*self._raft.ready())


def open_groups(node_id: int, log_path: Path, *, applied: list[int], is_synced: bool) -> Groups:
    """Recover the log, or begin one. `applied` is how far the engine of each group is."""
    try:
        raft = RaftGroups(
            node_id,
            str(log_path),
            len(applied),
            voters=[node_id],
            applied=applied,
            election_ticks=config.ELECTION_TICKS,
            segment_bytes=config.LOG_SEGMENT_BYTES,
            sync=is_synced,
        )
    except (LogCorrupt, LogFormat, OSError) as error:
        raise StartError(str(error)) from error
    return Groups(raft)
