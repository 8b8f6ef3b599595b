"""The Python surface of the Rust extension: Raft groups over one durable log.

The rules behind it are in `rust_ext/src`; one turn of a worker crosses this boundary once.
"""

from typing import TypedDict, final, type_check_only

__all__ = ["LogCorrupt", "LogFormat", "LogFull", "NotLeader", "RaftGroups", "SimDisk"]

class LogCorrupt(Exception):
    """Stored entries are damaged or missing; the message names file and offset and what to do."""

class LogFormat(Exception):
    """The directory holds a log of another format version, node or number of groups."""

class LogFull(Exception):
    """The disk has no room for another block; nothing was appended."""

class NotLeader(Exception):
    """The group is led by somebody else, by nobody, or is handing its leadership over."""

@type_check_only
class GroupStatus(TypedDict):
    role: str
    term: int
    leader: int
    commit: int
    applied: int
    first: int
    last: int

@type_check_only
class Status(TypedDict):
    log_bytes: int
    live_bytes: int
    segments: int
    fsyncs: int
    blocks: int
    repaired_bytes: int
    recovered_bytes: int
    recovery_ms: int
    disk_full: bool
    groups: list[GroupStatus]

@final
class SimDisk:
    """A disk in memory that crashes, fills up and fails on request; the seed decides how."""

    def __new__(cls, seed: int) -> SimDisk: ...
    def crash(self) -> None: ...
    def set_free(self, free: int) -> None: ...
    def fail_next_sync(self) -> None: ...
    def syncs(self) -> int: ...
    def names(self) -> list[str]: ...
    def flip(self, name: str, offset: int) -> None: ...

@final
class RaftGroups:
    """All Raft groups of a worker."""

    def __new__(
        cls,
        node_id: int,
        directory: str,
        groups: int,
        *,
        voters: list[int],
        applied: list[int],
        segment_bytes: int = 67_108_864,
        election_ticks: int = 10,
        heartbeat_ticks: int = 2,
        sync: bool = True,
        manual: bool = False,
        disk: SimDisk | None = None,
    ) -> RaftGroups: ...
    def fileno(self) -> int:
        """Readable when `ready()` has something new."""

    def tick(self) -> None: ...
    def step(self, packet: bytes) -> list[str]:
        """Take a peer's packet; answers why messages were refused."""

    def propose(self, group: int, entry: bytes) -> None:
        """Raises NotLeader or LogFull, and then nothing was appended."""

    def ready(
        self,
    ) -> tuple[
        list[tuple[int, bytes]],
        list[tuple[int, int, int, list[bytes]]],
        list[tuple[int, bytes, int]],
        list[tuple[int, str, int, int]],
        bool,
    ]:
        """(sends, committed, reads, roles, persisting).

        sends: (peer, packet). committed: (group, last index, last term, entries without the empty
        ones). reads: (group, context, index). roles: (group, role, term, leader), changes only.
        persisting: a block is queued or being written, or committed entries were left for the next
        call because a call hands out a bounded amount; `fileno()` becomes readable in either case.
        """

    def applied(self, positions: list[tuple[int, int]]) -> None: ...
    def compact(self, group: int, index: int) -> None: ...
    def read_index(self, group: int, context: bytes) -> None: ...
    def transfer_leader(self, group: int, to: int) -> None: ...
    def report_unreachable(self, peer: int) -> None: ...
    def persist_step(self) -> bool:
        """Manual mode: write and sync the block on its way; False when there is none."""

    def status(self) -> Status: ...
    def close(self) -> None: ...
