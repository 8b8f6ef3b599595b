"""The Rust extension behind our own errors: the only file that imports it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from fastnode import config
from fastnode._raftlog import (
    LogCorrupt,
    LogFormat,
    LogFull,
    MembersBusy,
    NotLeader,
    RaftGroups,
    TooMuchPending,
)
from fastnode.errors import Busy, DiskFull, LogFailed, NotLed, Overloaded, StartError

if TYPE_CHECKING:
    from fastnode._raftlog import Status as Status

LEADER: Final = "leader"

# Set in the first byte of a packet that carries entries.
_BULK: Final = 0x80

MemberChange = Literal["add-learner", "add-voter", "remove"]
# The snapshot that replaced a group's engine: index, term, voters, learners.
Restored = tuple[int, int, list[int], list[int]]


class Ready(NamedTuple):
    """What a turn has to send, to apply and to tell."""

    sends: list[tuple[int, bytes]]
    committed: list[tuple[int, int, int, list[bytes]]]
    reads: list[tuple[int, bytes, int]]
    roles: list[tuple[int, str, int, int]]
    is_persisting: bool
    # (group, index, voters, learners): changes, and all of them in the first turn.
    members: list[tuple[int, int, list[int], list[int]]]
    # (group, peer): entries cannot help the peer any more.
    wanted: list[tuple[int, int]]
    # (group, peer, packet): to be stepped by the peer once it has fetched the snapshot.
    offers: list[tuple[int, int, bytes]]
    # (group, index, term, voters, learners, data): the engine is to be replaced.
    installs: list[tuple[int, int, int, list[int], list[int], bytes]]


def is_urgent(packet: bytes) -> bool:
    """Whether it carries votes, heartbeats and answers, and no entries: it may pass others."""
    return not packet[0] & _BULK


@contextmanager
def _as_operation_errors() -> Iterator[None]:
    try:
        yield
    except LogFull as error:
        raise DiskFull(str(error)) from error
    except NotLeader as error:
        raise NotLed(str(error)) from error
    except MembersBusy as error:
        raise Busy(str(error)) from error


class Groups:
    """All Raft groups of this worker and their one log."""

    def __init__(self, raft: RaftGroups) -> None:
        self._raft = raft
        self.fileno = raft.fileno
        self.tick = raft.tick
        self.applied = raft.applied
        self.compact = raft.compact
        self.step = raft.step
        self.campaign = raft.campaign
        self.drop_snapshot = raft.drop_snapshot
        self.report_snapshot = raft.report_snapshot
        self.report_unreachable = raft.report_unreachable
        self.installed = raft.installed
        self.status = raft.status
        self.log_bytes = raft.log_bytes
        self.close = raft.close

    def propose(self, group: int, entry: bytes) -> None:
        try:
            self._raft.propose(group, entry)
        except LogFull as error:
            raise DiskFull(str(error)) from error
        except NotLeader as error:
            raise NotLed(str(error)) from error
        except TooMuchPending as error:
            raise Overloaded(str(error)) from error
        except OSError as error:
            raise _log_failed(error) from error

    def propose_members(self, group: int, change: MemberChange, node: int) -> None:
        """Add or remove one node; `Ready.members` says when it is so."""
        with _as_operation_errors():
            self._raft.propose_members(group, change, node)

    def snapshot_ready(self, group: int, index: int, data: bytes) -> None:
        """The state at an applied index can be fetched by the name `data`."""
        with _as_operation_errors():
            self._raft.snapshot_ready(group, index, data)

    def transfer_leader(self, group: int, to: int) -> None:
        with _as_operation_errors():
            self._raft.transfer_leader(group, to)

    def read_index(self, group: int, context: bytes) -> None:
        """`Ready.reads` brings the context back when a quorum has confirmed the leader."""
        try:
            self._raft.read_index(group, context)
        except NotLeader as error:
            raise NotLed(str(error)) from error

    def ready(self, *, here: bool = False) -> Ready:
        """What there is to do. When `here`, this thread may begin to write the log, and the next
        call is held up until that is durable; a slow disk, or peers, leave it to the log's thread.
        """
        try:
            return Ready(*(self._raft.ready_here() if here else self._raft.ready()))
        except OSError as error:
            raise _log_failed(error) from error


def _log_failed(error: OSError) -> LogFailed:
    return LogFailed(f"the log cannot be written: {error.strerror or error}")


def open_groups(
    node_id: int,
    log_path: Path,
    *,
    applied: list[int],
    is_synced: bool,
    voters: list[int] | None = None,
    restored: list[Restored | None] | None = None,
) -> Groups:
    """Recover the log, or begin one. `applied` is how far the engine of each group is.

    `voters` are those of a new log: this node alone, or nobody when it joins others.
    """
    try:
        raft = RaftGroups(
            node_id,
            str(log_path),
            len(applied),
            voters=[node_id] if voters is None else voters,
            applied=applied,
            restored=restored,
            election_ticks=config.ELECTION_TICKS,
            heartbeat_ticks=config.HEARTBEAT_TICKS,
            segment_bytes=config.LOG_SEGMENT_BYTES,
            sync=is_synced,
        )
    except (LogCorrupt, LogFormat, OSError) as error:
        raise not_opened(error, str(log_path)) from error
    return Groups(raft)


def not_opened(error: LogCorrupt | LogFormat | OSError, where: str) -> StartError:
    """What ends the start of a node whose log cannot be read or begun. Damage says itself what to
    do; a disk that fails leaves the log as it was, and the next start recovers it.
    """
    if not isinstance(error, OSError):
        return StartError(str(error))
    reason = error.strerror or str(error)
    return StartError(f"the log in {where} cannot be opened: {reason}: mend that, then start again")
