"""The REST part of the admin listener that is about the cluster, `/api/v1/cluster…`: its state, its
members, who leads, and snapshots. Shell: it starts what the node does and waits for it.

Paths and errors look as in `admin_api.py`. A change is JSON and says so in its Content-Type, which
no form of a web page can.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec

from fastnode.cluster.control_api import (
    ClusterStatus,
    GroupStatus,
    NodeStatus,
    Refused,
    SnapshotTaken,
    verdict,
)
from fastnode.cluster.control_messages import BadMessage, checked_address, checked_node
from fastnode.config import TRANSFER_HOLD_SECONDS
from fastnode.errors import OperationError, Unavailable
from fastnode.flow import Suspension
from fastnode.http.admin_api import Answer, Refusal, wrong_method
from fastnode.http.codec import retry_after
from fastnode.http.http1 import Request

BODY_BYTES_MAX: Final = 4_096
# The connection itself gives up at 30 s, and then cannot say why.
ANSWER_SECONDS: Final = 25.0
_MEMBER: Final = re.compile(r"cluster/members/([0-9]{1,5})")
_JSON: Final = b"application/json"

Body = TypeVar("Body")
Work = Coroutine[Any, Any, Any]


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
            raise _bad('name one group, {"group": N}, or {"all": true}')
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
        if request.query:
            raise _bad("parameters are none")
        member = _MEMBER.fullmatch(path)
        if member is not None:
            _check_method(request, "DELETE")
            return _awaited(self._remove(_checked(checked_node, int(member[1]))))
        if path not in self._pages:
            raise Refusal(404, "not_found", "there is nothing here")
        allowed, page = self._pages[path]
        _check_method(request, allowed)
        return _awaited(page(request))

    def _status(self, _: Request) -> Work:
        return self._show()

    async def _show(self) -> StatusAnswer:
        status = await self._cluster.status()
        cluster = status.cluster_id.hex()
        return StatusAnswer(cluster, status.node, verdict(status), status.nodes, status.groups)

    def _add(self, request: Request) -> Work:
        body = _body_of(request, _NewMember)
        node, raft = _checked(checked_node, body.node), _checked(checked_address, body.raft)
        return _then(self._cluster.add(node, raft), {"node": node})

    def _remove(self, node: int) -> Work:
        return _then(self._cluster.remove(node), {"node": node})

    def _transfer(self, request: Request) -> Work:
        body = _body_of(request, _Transfer)
        group, to = body.chosen(), _checked(checked_node, body.to)

        async def transfer() -> dict[str, object]:
            moved = await self._cluster.transfer(group, to)
            return {"to": to, "groups": moved, "held_seconds": round(TRANSFER_HOLD_SECONDS)}

        return transfer()

    def _snapshot(self, request: Request) -> Work:
        group = _body_of(request, _Which).chosen()

        async def snapshot() -> dict[str, object]:
            return {"snapshots": await self._cluster.snapshot(group)}

        return snapshot()


async def _then(work: Work, answer: object) -> object:
    await work
    return answer


async def _awaited(work: Work) -> Any:
    """Handlers know suspensions only; what a cluster does are tasks."""
    waiting = Suspension()
    task = asyncio.get_running_loop().create_task(_limited(work))
    task.add_done_callback(lambda ended: _settle(waiting, ended))
    return await waiting


async def _limited(work: Work) -> Any:
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await work
    except Refused as error:
        raise Refusal(409, "refused", str(error)) from error
    except OperationError as error:
        later = retry_after(error.retry_after_seconds)
        raise Refusal(503, "unavailable", str(error) or "try again", later) from error
    except TimeoutError as error:
        raise Refusal(
            503, "unavailable", "not done in time; it may still take effect", retry_after(1)
        ) from error


def _settle(waiting: Suspension, ended: asyncio.Task[Any]) -> None:
    if ended.cancelled():
        waiting.fail(Unavailable("the node stops"))
    elif (error := ended.exception()) is not None:
        waiting.fail(error)
    else:
        waiting.resume(ended.result())


# --- methods and bodies -------------------------------------------------------------------------


def _check_method(request: Request, allowed: str) -> None:
    if request.method.decode("latin-1") not in allowed.split(", "):
        raise wrong_method(allowed)


def _body_of(request: Request, kind: type[Body]) -> Body:
    content_type = request.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if content_type != _JSON:
        raise Refusal(415, "unsupported_media_type", "send Content-Type: application/json")
    if len(request.body) > BODY_BYTES_MAX:
        raise _bad(f"a body has {BODY_BYTES_MAX} bytes at most")
    try:
        return msgspec.json.decode(request.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _bad(f"the body cannot be read: {error}") from error


Value = TypeVar("Value", int, str)


def _checked(check: Callable[[Value], Value], value: Value) -> Value:
    try:
        return check(value)
    except BadMessage as error:
        raise _bad(str(error)) from error


def _bad(message: str) -> Refusal:
    return Refusal(400, "bad_request", message)
