"""Calls to the control plane of other nodes. Shell: channels, deadlines, and the one place where a
gRPC status becomes an error of ours.

Not here: what a call means, and sending a snapshot (`snapshot_transfer`), for which this file only
opens the stream.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, TypeVar

import grpc

from fastnode.cluster.cluster_auth import METADATA_NAME, Signer
from fastnode.cluster.control_api import ClusterStatus, Joined, Member, Refused, SnapshotTaken
from fastnode.cluster.control_messages import decode_joined, decode_status, encode_member
from fastnode.cluster.control_pb2 import (
    CHANGE_ADD,
    CHANGE_PROMOTE,
    CHANGE_REMOVE,
    DESCRIPTOR,
    Change,
    ChangeMembersRequest,
    JoinRequest,
    SnapshotPart,
    SnapshotProgress,
    StatusRequest,
    TakeSnapshotRequest,
    TransferRequest,
)
from fastnode.cluster.control_pb2_grpc import ControlStub
from fastnode.errors import DeadlineExceeded, OperationError, Overloaded, Unavailable
from fastnode.peers.tls import PeerTls

SERVICE: Final = f"/{DESCRIPTOR.services_by_name['Control'].full_name}/"
CALL_SECONDS: Final = 5.0
# A learner must be known to every group, and a lead must have moved.
CHANGE_SECONDS: Final = 20.0
TAKE_SNAPSHOT_SECONDS: Final = 120.0
# A stream that has lasted so long is broken off and resumed.
STREAM_SECONDS: Final = 600.0
MESSAGE_BYTES_MAX: Final = 6 * 1_048_576

SnapshotStream = grpc.aio.StreamStreamCall[SnapshotPart, SnapshotProgress]
Reply = TypeVar("Reply")

_CHANNEL_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    # Peers are reached directly, whatever the environment says about proxies.
    ("grpc.enable_http_proxy", 0),
    # Whether a call may be repeated is for its caller to know.
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.use_local_subchannel_pool", 1),
)


class NotAuthenticated(OperationError):
    """The peer does not know us: another secret or cluster, or a clock that is far off."""


class Peer(NamedTuple):
    """Whom to call. The id is part of the token: nobody else can answer for it. `name` is what its
    certificate is made out to, if not to the host of its address.
    """

    node: int
    control: str
    name: str = ""


class ControlClient:
    def __init__(self, signer: Signer, tls: PeerTls | None = None) -> None:
        self._signer = signer
        self._tls = tls
        self._channels: dict[str, grpc.aio.Channel] = {}

    async def join(self, peer: Peer, member: Member) -> Joined:
        request = JoinRequest(member=encode_member(member))
        return decode_joined(await self._call(peer, "Join", request, CHANGE_SECONDS))

    async def status(self, peer: Peer) -> ClusterStatus:
        return decode_status(await self._call(peer, "Status", StatusRequest(), CALL_SECONDS))

    async def add(self, peer: Peer, node: int, raft: str) -> None:
        await self._change(peer, CHANGE_ADD, node, raft)

    async def promote(self, peer: Peer, node: int) -> None:
        await self._change(peer, CHANGE_PROMOTE, node)

    async def remove(self, peer: Peer, node: int) -> None:
        await self._change(peer, CHANGE_REMOVE, node)

    async def transfer(self, peer: Peer, group: int, to: int) -> None:
        await self._call(peer, "Transfer", TransferRequest(group=group, to=to), CHANGE_SECONDS)

    async def take_snapshot(self, peer: Peer, group: int) -> SnapshotTaken:
        request = TakeSnapshotRequest(group=group)
        reply = await self._call(peer, "TakeSnapshot", request, TAKE_SNAPSHOT_SECONDS)
        return SnapshotTaken(group, reply.index, reply.term, reply.total_bytes)

    def send_snapshot(self, peer: Peer) -> SnapshotStream:
        """The caller reads, writes and cancels it; its errors are gRPC's (`error_of`)."""
        stream: SnapshotStream = self._open(peer, "SendSnapshot", STREAM_SECONDS)()
        return stream

    async def close(self) -> None:
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await channel.close()

    async def forget(self, control: str) -> None:
        """An address that no member has any more."""
        channel = self._channels.pop(control, None)
        if channel is not None:
            await channel.close()

    async def _change(self, peer: Peer, change: Change, node: int, raft: str = "") -> None:
        request = ChangeMembersRequest(change=change, node=node, raft=raft)
        await self._call(peer, "ChangeMembers", request, CHANGE_SECONDS)

    async def _call(self, peer: Peer, method: str, request: object, seconds: float) -> Any:
        return await translated(self._open(peer, method, seconds)(request))

    def _open(self, peer: Peer, method: str, seconds: float) -> Callable[..., Any]:
        """The generated method, with our token and a deadline."""
        token = self._signer.token(peer.node, SERVICE + method)
        call = getattr(ControlStub(self._channel(peer)), method)

        def start(*request: object) -> Any:
            return call(*request, metadata=((METADATA_NAME, token),), timeout=seconds)

        return start

    def _channel(self, peer: Peer) -> grpc.aio.Channel:
        channel = self._channels.get(peer.control)
        if channel is None:
            channel = self._channels[peer.control] = _open_channel(peer, self._tls)
        return channel


def _open_channel(peer: Peer, tls: PeerTls | None) -> grpc.aio.Channel:
    if tls is None:
        return grpc.aio.insecure_channel(peer.control, options=_CHANNEL_OPTIONS)
    credentials = grpc.ssl_channel_credentials(tls.authority, tls.key, tls.certificate)
    name = (("grpc.ssl_target_name_override", peer.name),) if peer.name else ()
    return grpc.aio.secure_channel(peer.control, credentials, options=(*_CHANNEL_OPTIONS, *name))


_ERRORS: Final[dict[grpc.StatusCode, type[OperationError]]] = {
    grpc.StatusCode.UNAUTHENTICATED: NotAuthenticated,
    grpc.StatusCode.FAILED_PRECONDITION: Refused,
    grpc.StatusCode.INVALID_ARGUMENT: Refused,
    grpc.StatusCode.PERMISSION_DENIED: Refused,
    grpc.StatusCode.UNIMPLEMENTED: Refused,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Overloaded,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
}


def error_of(error: grpc.aio.AioRpcError) -> OperationError:
    """Every other status means that the peer cannot be asked now."""
    kind = _ERRORS.get(error.code(), Unavailable)
    return kind(error.details() or error.code().name)


async def translated(call: Awaitable[Reply]) -> Reply:
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        raise error_of(error) from error
