"""The admin listener of a node with workers: the first worker answers for all of them."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

import msgspec
from msgspec import Raw, Struct, msgpack

from fastnode import __version__
from fastnode.cluster.bridge import as_future
from fastnode.cluster.call_codec import DONE, decode_error
from fastnode.cluster.control_api import (
    Addresses,
    ClusterStatus,
    GroupStatus,
    NodeStatus,
    Refused,
    SnapshotTaken,
)
from fastnode.cluster.outcome import encode_failure
from fastnode.datadir import DataDir
from fastnode.flow import gather, start
from fastnode.http.admin import METRICS, Admin
from fastnode.http.admin_cluster import AdminCluster
from fastnode.http.admin_queues import Look
from fastnode.http.admin_request import Answer
from fastnode.http.exchange import Exchange
from fastnode.http.http1 import Request
from fastnode.http.metrics_page import merge_metrics, rendered_metrics
from fastnode.peers.calls import Handler, IncomingCall
from fastnode.peers.handshake import Identity
from fastnode.queue.overview import describe
from fastnode.queue.peek import BadCursor, PeekRequest, decode_cursor, peek
from fastnode.serve import admin_api
from fastnode.settings import Settings
from fastnode.store.group import Group
from fastnode.store.keyspace import QueueKeys
from fastnode.store.records import decode_queue

if TYPE_CHECKING:
    from fastnode.workers.worker_node import WorkerNode

# Services of a link: a page about a queue, and what a worker counts.
PAGE: Final = 18
OVERVIEW: Final = 19
_BAD_CURSOR: Final = 100
_ALONE: Final = (
    "a node with several workers is alone: start it with --workers 1, and then let others join it"
)
log: Final = logging.getLogger("fastnode")

Queue = tuple[str, str, str]


class Page(Struct, frozen=True, array_like=True):
    """All about a queue, or some of its messages."""

    queue: Queue
    peek: PeekRequest | None = None


class Overview(Struct, frozen=True, array_like=True):
    """Of one worker."""

    metrics: dict[str, int | float]
    groups: list[GroupStatus]


_encode: Final = msgpack.Encoder().encode
_encode_json: Final = msgspec.json.Encoder().encode
_decode_page: Final = msgpack.Decoder(Page).decode
_decode_overview: Final = msgpack.Decoder(Overview).decode


class AdminPages:
    """`services` are for siblings of the worker, which it is given by `begin` before anybody asks.
    `addresses` are the node's, as far as they are known.
    """

    node: "WorkerNode"

    def __init__(self, settings: Settings, data: DataDir) -> None:
        self._data = data
        self._settings = settings
        self.addresses = Addresses("")
        self.services: dict[int, Handler] = {PAGE: self._tell_page, OVERVIEW: self._tell_overview}

    def begin(self, node: "WorkerNode") -> None:
        self.node = node
        handle, cluster = node.dispatcher.handle, AdminCluster(_Alone(self))
        look = _Look(self)
        api = admin_api(
            self._settings, node.service, look, handle, node.traffic, cluster, node.backups
        )
        self._admin = Admin(lambda: node.is_ready, node.metrics, api)

    def respond(self, request: Request, exchange: Exchange) -> None:
        is_reading = request.method in (b"GET", b"HEAD")
        if request.path != METRICS or not is_reading or not self._admin.admits(request):
            self._admin.respond(request, exchange)
            return

        def finish(metrics: Any, error: BaseException | None) -> None:
            exchange.reply(*rendered_metrics(self.node.metrics() if error else metrics))

        start(self._all_metrics(), finish)

    # --- what one worker knows ---------------------------------------------------------------

    def overview(self) -> Overview:
        node = self.node
        rows = zip(node.own, node.raft.log.status()["groups"], strict=True)
        groups = [
            GroupStatus(
                group.number,
                row["leader"],
                row["term"],
                row["commit"],
                row["applied"],
                tuple(row["voters"]),
            )
            for group, row in rows
        ]
        return Overview(dict(node.metrics()), groups)

    def _tell_overview(self, _peer: Identity, _payload: bytes, incoming: IncomingCall) -> None:
        incoming.answer(DONE, _encode(self.overview()))

    def _tell_page(self, _peer: Identity, payload: bytes, incoming: IncomingCall) -> None:
        def finish(result: Any, error: BaseException | None) -> None:
            if error is None:
                incoming.answer(DONE, _encode_json(result))
            elif isinstance(error, BadCursor):
                incoming.answer(_BAD_CURSOR, str(error).encode())
            else:
                incoming.answer(*encode_failure(error, "a page"))

        start(self._page_here(_decode_page(payload)), finish)

    async def _page_here(self, page: Page) -> Any:
        if page.peek is None:
            return await describe(self.node.service, *page.queue)
        return await peek(self.node.service, *page.queue, page.peek)

    # --- what all know -------------------------------------------------------------------------

    async def overviews(self) -> list[Overview]:
        """Of those that can be reached."""
        carried = await gather(self.node.asked_siblings(OVERVIEW))
        return [self.overview(), *(_decode_overview(payload) for _, payload in carried)]

    async def _all_metrics(self) -> dict[str, float]:
        return merge_metrics(one.metrics for one in await self.overviews())

    async def page(self, page: Page) -> Any:
        """From the worker that has the queue's messages, or those of the partition in question."""
        group = await self._group_of(page)
        if group is None or group.is_ready:
            return await self._page_here(page)
        status, payload = await self.node.courier.carry(group, PAGE, _encode(page))
        if status == _BAD_CURSOR:
            raise BadCursor(payload.decode())
        if status != DONE:
            raise decode_error(status, payload)
        return None if payload == b"null" else Raw(payload)

    async def _group_of(self, page: Page) -> Group | None:
        service, keys = self.node.service, QueueKeys(*page.queue)
        home = service.group_of(keys)
        await service.readable(home)
        stored = home.get(keys.meta)
        if stored is None:
            return None
        placed = decode_queue(stored).partition_groups
        if page.peek is None or not placed:
            return home
        cursor = page.peek.cursor
        partition = decode_cursor(cursor).p if cursor else 0
        return service.groups[placed[partition]] if 0 <= partition < len(placed) else None

    async def status(self) -> ClusterStatus:
        data = self._data
        groups = [row for one in await as_future(self.overviews()) for row in one.groups]
        node = NodeStatus(
            data.node_id, self.addresses, True, __version__, self.node.capabilities, 0
        )
        return ClusterStatus(
            bytes.fromhex(data.cluster_id),
            data.node_id,
            (node,),
            tuple(sorted(groups, key=lambda row: row.group)),
        )


class _Look(Look):
    """At queues wherever their workers are."""

    def __init__(self, pages: AdminPages) -> None:
        super().__init__(pages.node.service)
        self._pages = pages

    def described(self, queue: Queue) -> Answer:
        return self._pages.page(Page(queue))

    def peeked(self, queue: Queue, request: PeekRequest) -> Answer:
        return self._pages.page(Page(queue, request))


class _Alone:
    """The cluster of a node with workers: itself. See `ClusterAdmin`."""

    def __init__(self, pages: AdminPages) -> None:
        self.status = pages.status

    async def add(self, node: int, raft: str) -> None:
        _refuse()

    async def remove(self, node: int) -> None:
        _refuse()

    async def transfer(self, group: int | None, to: int) -> Sequence[int]:
        _refuse()

    async def snapshot(self, group: int | None) -> Sequence[SnapshotTaken]:
        _refuse()


def _refuse() -> NoReturn:
    raise Refused(_ALONE)
