"""The node's end of the control plane: listens when it is first asked for its port, and calls when
there is something to say. Shell.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from fastnode.clock import IdSource, SystemRng
from fastnode.cluster.cluster_auth import Judge, Realm, Signer
from fastnode.cluster.control_api import ClusterStatus
from fastnode.cluster.control_client import ControlClient, Peer
from fastnode.cluster.control_server import ControlServer
from fastnode.cluster.courier import CONTROL
from fastnode.cluster.member import Member
from fastnode.cluster.member_proof import MemberProof
from fastnode.cluster.membership import Membership
from fastnode.cluster.replication import Replication
from fastnode.cluster.snapshot_staging import SnapshotReceiver
from fastnode.cluster.snapshot_transfer import Shipment, SnapshotSender
from fastnode.datadir import DataDir
from fastnode.errors import Unavailable
from fastnode.peers.calls import ask
from fastnode.store.snapshot import Snapshot
from fastnode.tls import name_in

_ASK_SECONDS: Final = 3.0
log: Final = logging.getLogger("fastnode.cluster")


class Surroundings(NamedTuple):
    """What the control plane needs of the node. `now_ms` is the time that the voters agree on,
    `room` the bytes of disk space that a snapshot may take.
    """

    data: DataDir
    proof: MemberProof
    host: str
    now_ms: Callable[[], int]
    room: Callable[[], int]
    ids: IdSource


class ControlPlane:
    def __init__(
        self, around: Surroundings, member: Member, membership: Membership, states: Replication
    ) -> None:
        self._around = around
        self._member = member
        self._membership = membership
        self._states = states
        self._opening: asyncio.Task[int] | None = None
        self._server: ControlServer | None = None
        self._receiver: SnapshotReceiver | None = None
        self._client: ControlClient | None = None
        self._sender: SnapshotSender | None = None

    def open(self, on_port: Callable[[int], object]) -> None:
        """Listen, if it does not yet, and tell the port."""
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open())
        self._opening.add_done_callback(lambda opened: on_port(opened.result()))

    async def _open(self) -> int:

        around = self._around
        self._receiver = SnapshotReceiver(
            around.data.groups, around.data.group_path, self._states.install, around.room, log
        )
        judge = Judge(self._realm(), around.now_ms)
        self._server = ControlServer(self._membership, self._receiver, judge, self._admits, log)
        return await self._server.start(around.host, 0, around.proof.tls)

    def _admits(self, node: int, method: str) -> bool:
        return method == "Join" or node in self._member.known_nodes() or not self._member.voters

    def _realm(self) -> Realm:

        data = self._around.data
        return Realm(self._around.proof.secret, bytes.fromhex(data.cluster_id), data.node_id)

    # --- calls ---------------------------------------------------------------------------------

    async def hear(self, node: int) -> ClusterStatus:
        client, peer = self._calling(), await self._peer(node)
        return await client.status(peer)

    async def ship(self, group: int, node: int, snapshot: Snapshot, packet: bytes) -> bool:

        if self._sender is None:
            self._sender = SnapshotSender(self._calling(), SystemRng(self._around.ids), log)
        peer = await self._peer(node)
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        shipment = Shipment(group, peer, snapshot, packet)
        self._sender.start(shipment, lambda _, is_installed: done.set_result(is_installed))
        return await done

    def end_shipments(self, group: int) -> None:
        """This node no longer leads it."""
        if self._sender is not None:
            self._sender.cancel(group)

    def forget(self, node: int) -> None:
        """The link to it is lost."""
        if self._sender is not None:
            self._sender.cancel_to(node)

    async def close(self) -> None:
        if self._opening is not None:
            await self._opening
        if self._server is not None and self._receiver is not None:
            await self._server.stop()
            await self._receiver.close()
        if self._sender is not None:
            await self._sender.close()
        if self._client is not None:
            await self._client.close()

    def _calling(self) -> ControlClient:

        if self._client is None:
            signer = Signer(self._realm(), self._around.now_ms, self._around.ids)
            self._client = ControlClient(signer, self._around.proof.tls)
        return self._client

    async def _peer(self, node: int) -> Peer:

        link = self._member.link_to(node)
        if link is None:
            raise Unavailable(f"node {node} cannot be reached")
        _, port = await ask(link, CONTROL, b"", _ASK_SECONDS)
        host = link.remote[0]
        number = int.from_bytes(port, "big")
        control = f"[{host}]:{number}" if ":" in host else f"{host}:{number}"
        return Peer(node, control, name_in(link.certificate))
