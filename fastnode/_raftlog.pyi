"""The Python surface of the Rust extension: Raft groups over one durable log.

The rules behind it are in `rust_ext/src`; one turn of a worker crosses this boundary once.
"""

from typing import TypeAlias, TypedDict, final, type_check_only

__all__ = [
    "LogCorrupt",
    "LogFormat",
    "LogFull",
    "MembersBusy",
    "NotLeader",
    "RaftGroups",
    "SimDisk",
    "TooMuchPending",
]

_Turn: TypeAlias = tuple[
    list[tuple[int, bytes]],
    list[tuple[int, int, int, list[bytes]]],
    list[tuple[int, bytes, int]],
    list[tuple[int, str, int, int]],
    bool,
    list[tuple[int, int, list[int], list[int]]],
    list[tuple[int, int]],
    list[tuple[int, int, bytes]],
    list[tuple[int, int, int, list[int], list[int], bytes]],
]

class LogCorrupt(Exception):
    """Stored entries are damaged or missing; the message names file and offset and what to do."""

class LogFormat(Exception):
    """The directory holds a log of another format version, node or number of groups."""

class LogFull(Exception):
    """The disk has no room for another block; nothing was appended."""

class NotLeader(Exception):
    """The group is led by somebody else, by nobody, or is handing its leadership over."""

class MembersBusy(Exception):
    """Members cannot change now: a change is not applied yet, or the node has not caught up."""

class TooMuchPending(Exception):
    """More bytes wait to be committed in the group than may; nothing was appended."""

@type_check_only
class PeerStatus(TypedDict):
    match: int
    next: int
    state: str
    recent_active: bool
    pending_snapshot: int

@type_check_only
class GroupStatus(TypedDict):
    role: str
    term: int
    leader: int
    commit: int
    applied: int
    first: int
    last: int
    voters: list[int]
    learners: list[int]
    snapshot: int
    """Index of the state that this node offers to peers, 0 for none."""
    installing: bool
    transferee: int
    uncommitted_bytes: int
    peers: dict[int, PeerStatus]
    """Empty on a node that does not lead. `state` is probe, replicate or snapshot."""

@type_check_only
class Status(TypedDict):
    log_bytes: int
    live_bytes: int
    segments: int
    fsyncs: int
    sync_counts: list[int]
    sync_ns: int
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
    def ignore_syncs(self, is_ignored: bool) -> None:
        """Syncs only pretend, as if the log forgot them."""

    def content(self, name: str) -> bytes: ...
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
        restored: list[tuple[int, int, list[int], list[int]] | None] | None = None,
        segment_bytes: int = 67_108_864,
        election_ticks: int = 10,
        heartbeat_ticks: int = 2,
        uncommitted_bytes: int = 268_435_456,
        sync: bool = True,
        manual: bool = False,
        election_seed: int = 0,
        disk: SimDisk | None = None,
    ) -> RaftGroups:
        """`voters` counts only for a new log; without any the node waits to be added by a leader.

        `restored` has for each group the index, term, voters and learners of the snapshot that
        replaced its state machine last, or None: without it a state machine that is ahead of the
        log is LogCorrupt. It may be given again at every start.

        `manual`: nothing happens by itself. Blocks are written by `persist_step`, and election
        timeouts follow from `election_seed`, node and group.
        """

    def fileno(self) -> int:
        """Readable when `ready()` has something new."""

    def tick(self) -> None: ...
    def step(self, packet: bytes) -> list[str]:
        """Take a peer's packet; answers why messages were refused.

        The packet of an offer comes here too, once what it offers has been fetched. If it is not
        refused, `ready()` names it in `installs`, or nothing had to be replaced.
        """

    def propose(self, group: int, entry: bytes) -> None:
        """Raises NotLeader, LogFull or TooMuchPending, and then nothing was appended."""

    def propose_members(self, group: int, kind: str, node: int) -> None:
        """`kind` is add-learner, add-voter (of a learner that has caught up) or remove.

        Raises NotLeader, MembersBusy or LogFull, and then nothing was appended. That nothing comes
        of it although nothing was raised is possible, as with every proposal: see `members`.
        """

    def ready(self) -> _Turn:
        """(sends, committed, reads, roles, persisting, members, wanted, offers, installs).

        sends: (peer, packet); several for a peer when entries are among them, and then the one
        with votes, heartbeats and answers comes first. committed: (group, last index, last term,
        entries without the empty ones and the changes of members). reads: (group, context, index).
        roles: (group, role, term, leader), changes only.
        persisting: a block is queued or being written, or committed entries were left for the next
        call because a call hands out a bounded amount; `fileno()` becomes readable in either case.
        members: (group, index, voters, learners), changes only, and all with the first call.
        wanted: (group, peer) that needs a snapshot; again every ten ticks until there is one.
        offers: (group, peer, packet) to be passed to the peer's `step()`; what became of it must be
        told by `report_snapshot`.
        installs: (group, index, term, voters, learners, data), each once: the state machine is to
        be replaced, what waits to be applied is void. Until `installed` is durable the group
        neither delivers nor answers, and takes no messages.
        """

    def ready_here(self) -> _Turn:
        """As `ready()`, for a caller with little else to do: with the GIL released it may begin to
        write the block itself. Then the next call, of either kind, waits until it is durable, and
        nothing rings. If there is something to send or to apply first, or if the disk was slow
        lately, the log's thread writes as always.
        """

    def applied(self, positions: list[tuple[int, int]]) -> None: ...
    def compact(self, group: int, index: int) -> None:
        """Never beyond a snapshot that is offered, since its taker goes on with the entries."""

    def snapshot_ready(self, group: int, index: int, data: bytes) -> None:
        """The state at an applied index can be fetched by the name `data` (at most 4 KiB).

        Kept until it is replaced or dropped. Raises NotLeader, or MembersBusy when a later state
        is needed.
        """

    def drop_snapshot(self, group: int) -> None: ...
    def report_snapshot(self, group: int, peer: int, ok: bool) -> None:
        """What became of an offer: `ok` once the peer took it without refusing it.

        Until this is called or the peer answers, the peer gets no entries.
        """

    def installed(self, group: int, index: int) -> None:
        """The state machine durably is the snapshot: the log begins anew behind it."""

    def campaign(self, group: int) -> None:
        """Ask to be elected; without effect on a node that cannot be."""

    def read_index(self, group: int, context: bytes) -> None: ...
    def transfer_leader(self, group: int, to: int) -> None: ...
    def report_unreachable(self, peer: int) -> None: ...
    def persist_step(self) -> bool:
        """Manual mode: write and sync the block on its way; False when there is none."""

    def status(self) -> Status: ...
    def log_bytes(self) -> int:
        """Of `status`, which costs more with every group."""

    def close(self) -> None: ...
