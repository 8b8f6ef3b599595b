"""What the control plane speaks about: members, the state of a cluster, and the node that answers.
Pure values, and the protocol through which the node is reached.

Not here: how it travels (`control_messages`, `control_server`, `control_client`) or how an operator
asks for it (`http/admin_cluster.py`).
"""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from fastnode.errors import OperationError

# A clock further off than this is worth a line: leaders steer by the median of all.
CLOCK_OFFSET_MS_MAX: Final = 500
NOBODY: Final = 0


class Refused(OperationError):
    """It cannot be done as it was asked; the text says what to do instead."""


class Addresses(msgspec.Struct, frozen=True):
    """HOST:PORT for raft and control, URLs for sqs and admin; empty if not known."""

    raft: str
    control: str = ""
    sqs: str = ""
    admin: str = ""


class Member(msgspec.Struct, frozen=True):
    node: int
    incarnation: bytes
    addresses: Addresses


class Joined(msgspec.Struct, frozen=True):
    """What a node that joins has to know."""

    cluster_id: bytes
    groups: int
    members: tuple[Member, ...]


class SnapshotTaken(msgspec.Struct, frozen=True):
    group: int
    index: int
    term: int
    total_bytes: int


class NodeStatus(msgspec.Struct, frozen=True):
    id: int
    addresses: Addresses
    reachable: bool
    version: str = ""
    capabilities: tuple[str, ...] = ()
    # Against the clock of the node that answers; None if never measured.
    clock_offset_ms: int | None = None


class GroupStatus(msgspec.Struct, frozen=True):
    """`leader` is 0 while nobody leads; `lag` counts the entries that each peer lacks, and only the
    leader knows it.
    """

    group: int
    leader: int
    term: int
    commit: int
    applied: int
    voters: tuple[int, ...]
    learners: tuple[int, ...] = ()
    lag: Mapping[int, int] = {}


class ClusterStatus(msgspec.Struct, frozen=True):
    """As the node `node` sees it."""

    cluster_id: bytes
    node: int
    nodes: tuple[NodeStatus, ...]
    groups: tuple[GroupStatus, ...]


class Membership(Protocol):
    """The node, as its peers see it. `Refused` and every other `OperationError` reach the caller
    with their text.
    """

    def status(self) -> ClusterStatus: ...

    async def join(self, node: int, incarnation: bytes, addresses: Addresses) -> Joined: ...

    async def add(self, node: int, raft: str) -> None: ...

    async def promote(self, node: int) -> None: ...

    async def remove(self, node: int) -> None: ...

    async def transfer(self, group: int, to: int) -> None: ...

    async def take_snapshot(self, group: int) -> SnapshotTaken: ...


def merge_groups(own: ClusterStatus, heard: Iterable[ClusterStatus]) -> ClusterStatus:
    """Of each group what its leader says, in the newest term that anybody knows: only a leader
    knows how far the others are. What was applied stays this node's own.
    """
    best = {row.group: (_worth(row, own.node), row) for row in own.groups}
    for status in heard:
        for row in status.groups:
            worth = _worth(row, status.node)
            if row.group in best and worth > best[row.group][0]:
                best[row.group] = worth, row
    merged = (replace(best[row.group][1], applied=row.applied) for row in own.groups)
    return replace(own, groups=tuple(merged))


def _worth(row: GroupStatus, teller: int) -> tuple[int, bool]:
    return row.term, row.leader == teller


def verdict(status: ClusterStatus) -> str:
    """One line: `healthy`, or what is wrong, the worst first."""
    leaderless = [row.group for row in status.groups if row.leader == NOBODY]
    if leaderless:
        which = _named("group", leaderless)
        return f"down: {which} without a leader" + _also(_weaknesses(status))
    weaknesses = _weaknesses(status)
    return f"degraded: {'; '.join(weaknesses)}" if weaknesses else "healthy"


def _also(weaknesses: list[str]) -> str:
    return "".join(f"; {weakness}" for weakness in weaknesses)


def _weaknesses(status: ClusterStatus) -> list[str]:
    silent = [node.id for node in status.nodes if not node.reachable]
    learning = sorted({node for row in status.groups for node in row.learners})
    wrong = [node for node in status.nodes if abs(node.clock_offset_ms or 0) > CLOCK_OFFSET_MS_MAX]
    return [
        *([f"{_named('node', silent)} unreachable"] if silent else []),
        *([f"{_named('node', learning)} still catching up"] if learning else []),
        *(f"the clock of node {node.id} is {node.clock_offset_ms:+} ms off" for node in wrong),
    ]


def _named(noun: str, numbers: list[int]) -> str:
    return f"{noun}{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
