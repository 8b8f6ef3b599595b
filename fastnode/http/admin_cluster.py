"""The REST part of the admin listener that is about the cluster, `/api/v1/cluster…`: its state, its
members, who leads, and snapshots. Shell: it starts what the node does and waits for it.

Paths and errors look as in `admin_api.py`. A change is JSON and says so in its Content-Type, which
no form of a web page can.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

import msgspec

from fastnode.cluster.control_api import (
    ClusterStatus,
    GroupStatus,
    NodeStatus,
    SnapshotTaken,
    verdict,
)
from fastnode.cluster.control_messages import BadMessage, checked_address, checked_node
from fastnode.config import TRANSFER_HOLD_SECONDS
from fastnode.http.admin_request import (
    Answer,
    bad_request,
    body_of,
    method_of,
    not_found,
    parameters_of,
)
from fastnode.http.admin_work import Work, awaited
from fastnode.http.http1 import Request

BODY_BYTES_MAX: Final = 4_096
_MEMBER: Final = re.compile(r"cluster/members/([0-9]{1,5})")


class ClusterAdmin(Protocol):
    """The cluster, as an operator sees it through this node, whoever leads. A group of None is
    every group. `Refused` and every other `OperationError` reach the operator with their text.
    """

    async def status(self) -> ClusterStatus: ...

    async def add(self, node: int, raft: str) -> None: ...

    async def remove(self, node: int) -> None: ...

    async def transfer(self, group: int | None, to: int) -> Sequence[int]:
        """The groups that `to` leads now and did not lead before."""
        ...

    async def snapshot(self, group: int | None) -> Sequence[SnapshotTaken]: ...


class StatusAnswer(msgspec.Struct, frozen=True):
    cluster: str
    node: int
    verdict: str
    nodes: tuple[NodeStatus, ...]
    groups: tuple[GroupStatus, ...]


class _NewMember(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    node: int
    raft: str


class _Which(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One group, or all of them."""

    group: int | None = None
    all: bool = False

    def chosen(self) -> int | None:
        if (self.group is None) != self.all or (self.group or 0) < 0:
            raise bad_request('name one group, {"group": N}, or {"all": true}')
        return self.group


class _Transfer(_Which, frozen=True, forbid_unknown_fields=True, kw_only=True):
    to: int


class AdminCluster:
    """`answer` is what an `AdminApi` calls."""

    def __init__(self, cluster: ClusterAdmin) -> None:
        self._cluster = cluster
        self._pages: dict[str, tuple[str, Callable[[Request], Work]]] = {
            "cluster": ("GET, HEAD", self._status),
            "cluster/members": ("POST", self._add),
            "cluster/transfer": ("POST", self._transfer),
            "cluster/snapshot": ("POST", self._snapshot),
        }

    def answer(self, request: Request, path: str) -> Answer:
        """`Refusal` if it cannot be done as it was asked."""
        parameters_of(request)
        member = _MEMBER.fullmatch(path)
        if member is not None:
            method_of(request, "DELETE")
            return awaited(self._remove(_checked(checked_node, int(member[1]))))
        if path not in self._pages:
            raise not_found()
        allowed, page = self._pages[path]
        method_of(request, allowed)
        return awaited(page(request))

    def _status(self, _: Request) -> Work:
        return self._show()

    async def _show(self) -> StatusAnswer:
        status = await self._cluster.status()
        cluster = status.cluster_id.hex()
        return StatusAnswer(cluster, status.node, verdict(status), status.nodes, status.groups)

    def _add(self, request: Request) -> Work:
        body = body_of(request, _NewMember, BODY_BYTES_MAX)
        node, raft = _checked(checked_node, body.node), _checked(checked_address, body.raft)
        return _then(self._cluster.add(node, raft), {"node": node})

    def _remove(self, node: int) -> Work:
        return _then(self._cluster.remove(node), {"node": node})

    def _transfer(self, request: Request) -> Work:
        body = body_of(request, _Transfer, BODY_BYTES_MAX)
        group, to = body.chosen(), _checked(checked_node, body.to)

        async def transfer() -> dict[str, object]:
            moved = await self._cluster.transfer(group, to)
            return {"to": to, "groups": moved, "held_seconds": round(TRANSFER_HOLD_SECONDS)}

        return transfer()

    def _snapshot(self, request: Request) -> Work:
        group = body_of(request, _Which, BODY_BYTES_MAX).chosen()

        async def snapshot() -> dict[str, object]:
            return {"snapshots": await self._cluster.snapshot(group)}

        return snapshot()


async def _then(work: Work, answer: object) -> object:
    await work
    return answer


# --- values -------------------------------------------------------------------------------------

Value = TypeVar("Value", int, str)


def _checked(check: Callable[[Value], Value], value: Value) -> Value:
    try:
        return check(value)
    except BadMessage as error:
        raise bad_request(str(error)) from error
