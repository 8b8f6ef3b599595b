"""A cluster's state as a page that a tired operator can read: the verdict, the nodes, the groups,
what to do next. Pure.

The values are what this command reads of the answer; a node of another version may say more.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

_NONE: Final = "-"


class NodeAddresses(msgspec.Struct, frozen=True):
    raft: str = ""
    sqs: str = ""


class Node(msgspec.Struct, frozen=True):
    id: int
    reachable: bool
    addresses: NodeAddresses = NodeAddresses()
    version: str = ""
    capabilities: tuple[str, ...] = ()
    clock_offset_ms: int | None = None


class Group(msgspec.Struct, frozen=True):
    group: int
    leader: int | None
    term: int
    commit: int
    applied: int
    voters: tuple[int, ...]
    learners: tuple[int, ...] = ()
    lag: dict[int, int] = {}


class Status(msgspec.Struct, frozen=True):
    cluster: str
    node: int
    verdict: str
    nodes: tuple[Node, ...]
    groups: tuple[Group, ...]


def describe(status: Status) -> str:
    lines = [
        status.verdict,
        f"cluster {status.cluster}, seen from node {status.node}",
        "",
        *_table(_NODE_HEAD, _node_rows(status)),
        "",
        *_table(_GROUP_HEAD, [_group_row(group) for group in status.groups]),
        *_advice(status),
    ]
    return "\n".join(lines) + "\n"


_NODE_HEAD: Final = ("NODE", "STATE", "LEADS", "CLOCK", "VERSION", "CAPABILITIES", "RAFT", "SQS")
_GROUP_HEAD: Final = (
    *("GROUP", "LEADER", "TERM", "COMMIT", "APPLIED", "VOTERS", "LEARNERS"),
    "ENTRIES BEHIND",
)


def _node_rows(status: Status) -> list[Sequence[str]]:
    leads = Counter(group.leader for group in status.groups)
    return [
        (
            str(node.id),
            _state(node, status.node),
            str(leads[node.id]),
            _NONE if node.clock_offset_ms is None else f"{node.clock_offset_ms:+} ms",
            node.version or _NONE,
            ",".join(node.capabilities) or _NONE,
            node.addresses.raft or _NONE,
            node.addresses.sqs or _NONE,
        )
        for node in status.nodes
    ]


def _state(node: Node, asked: int) -> str:
    if node.id == asked:
        return "asked"
    return "up" if node.reachable else "UNREACHABLE"


def _group_row(group: Group) -> Sequence[str]:
    behind = (f"node {node}: {entries}" for node, entries in sorted(group.lag.items()) if entries)
    return (
        str(group.group),
        str(group.leader) if group.leader else "NOBODY",
        str(group.term),
        str(group.commit),
        str(group.applied),
        ",".join(map(str, group.voters)) or _NONE,
        ",".join(map(str, group.learners)) or _NONE,
        ", ".join(behind) or _NONE,
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    ]


def _advice(status: Status) -> list[str]:
    silent = [node.id for node in status.nodes if not node.reachable]
    advice = [
        f"node {node}: start it again; if its data is lost, 'fastnode cluster remove {node}' and"
        " add a new node under an id that was never used"
        for node in silent
    ]
    if any(not group.leader for group in status.groups):
        advice.append("a group without a leader: more than half of its voters must be up")
    return ["", *advice] if advice else []
