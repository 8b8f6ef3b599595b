"""The control plane's listener: who may call, how long and how much, and the one place where an
error of ours becomes a gRPC status. What a call does is the business of `Membership` and of
`SnapshotReceiver`.

A call is judged by its metadata before a byte of its message is read, for every method and also for
those that do not exist: a stranger gets UNAUTHENTICATED and nothing else.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, NoReturn, TypeVar

import grpc

from fastnode.cluster.cluster_auth import METADATA_NAME, Judge, Unauthenticated, parse_token
from fastnode.cluster.control_api import Membership, Refused
from fastnode.cluster.control_client import (
    CHANGE_SECONDS,
    MESSAGE_BYTES_MAX,
    SERVICE,
    STREAM_SECONDS,
    TAKE_SNAPSHOT_SECONDS,
)
from fastnode.cluster.control_messages import (
    BadMessage,
    checked_address,
    checked_node,
    decode_member,
    encode_joined,
    encode_status,
)
from fastnode.cluster.control_pb2 import (
    CHANGE_ADD,
    CHANGE_PROMOTE,
    CHANGE_REMOVE,
    ChangeMembersReply,
    ChangeMembersRequest,
    JoinReply,
    JoinRequest,
    SnapshotPart,
    SnapshotProgress,
    SnapshotRefusal,
    StatusReply,
    StatusRequest,
    TakeSnapshotReply,
    TakeSnapshotRequest,
    TransferReply,
    TransferRequest,
)
from fastnode.cluster.control_pb2_grpc import ControlServicer, add_ControlServicer_to_server
from fastnode.cluster.snapshot_staging import SnapshotReceiver
from fastnode.cluster.snapshot_transfer import STEP_SECONDS
from fastnode.errors import DeadlineExceeded, DiskFull, FastnodeError, Overloaded, StartError
from fastnode.peers.tls import PeerTls
from fastnode.store.snapshot import SnapshotCorrupt, SnapshotVersion

CALLS_MAX: Final = 64
STOP_SECONDS: Final = 1.0
REFUSAL_SECONDS: Final = 5.0
COMPLAINT_SECONDS: Final = 10.0
# Far from the token and what gRPC adds.
_METADATA_BYTES_MAX: Final = 8 * 1024

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_metadata_size", _METADATA_BYTES_MAX),
    ("grpc.absolute_max_metadata_size", _METADATA_BYTES_MAX),
    ("grpc.max_concurrent_streams", CALLS_MAX),
    ("grpc.server_handshake_timeout_ms", 3_000),
    ("grpc.max_connection_idle_ms", 300_000),
    # Two nodes on one port would share its calls by chance.
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 10),
)
# The most specific first. Everything else that failed may work later.
_CODES: Final[tuple[tuple[type[BaseException], grpc.StatusCode], ...]] = (
    (BadMessage, grpc.StatusCode.INVALID_ARGUMENT),
    (Refused, grpc.StatusCode.FAILED_PRECONDITION),
    (DiskFull, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (Overloaded, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (DeadlineExceeded, grpc.StatusCode.DEADLINE_EXCEEDED),
    (TimeoutError, grpc.StatusCode.DEADLINE_EXCEEDED),
    (FastnodeError, grpc.StatusCode.UNAVAILABLE),
)
_REFUSALS: Final[tuple[tuple[type[BaseException], SnapshotRefusal.Kind], ...]] = (
    (BadMessage, SnapshotRefusal.NEVER),
    (Refused, SnapshotRefusal.NEVER),
    (SnapshotVersion, SnapshotRefusal.NEVER),
    (SnapshotCorrupt, SnapshotRefusal.DAMAGED),
)

Context = grpc.aio.ServicerContext[Any, Any]
Admits = Callable[[int, str], bool]
Reply = TypeVar("Reply")


class ControlServer:
    """`admits(node, method)` says whether a node that proved who it is may call: a node that joins
    is no member yet and may only join; one that was removed may not even that.
    """

    def __init__(
        self,
        membership: Membership,
        snapshots: SnapshotReceiver,
        judge: Judge,
        admits: Admits,
        log: logging.Logger,
    ) -> None:
        self._servicer = _Control(membership, snapshots)
        self._door = _Door(judge, admits, log)
        self._server: grpc.aio.Server | None = None

    async def start(self, host: str, port: int, tls: PeerTls | None = None) -> int:
        """The port: the one asked for, or for 0 any free one."""
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        server = grpc.aio.server(
            interceptors=(self._door,), options=_OPTIONS, maximum_concurrent_rpcs=CALLS_MAX
        )
        add_ControlServicer_to_server(self._servicer, server)
        try:
            bound = _bind(server, address, tls)
        except RuntimeError as error:
            reason = f"the control plane cannot listen on {address}"
            raise StartError(f"{reason}; stop what uses it or choose another address") from error
        await server.start()
        self._server = server
        return bound

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(STOP_SECONDS)
            self._server = None


def _bind(server: grpc.aio.Server, address: str, tls: PeerTls | None) -> int:
    if tls is None:
        return server.add_insecure_port(address)
    credentials = grpc.ssl_server_credentials(
        [(tls.key, tls.certificate)], tls.authority, require_client_auth=True
    )
    return server.add_secure_port(address, credentials)


class _Door(grpc.aio.ServerInterceptor):
    """Lets a call pass or answers it instead."""

    def __init__(self, judge: Judge, admits: Admits, log: logging.Logger) -> None:
        self._judge = judge
        self._admits = admits
        self._log = log
        self._complain_at = float("-inf")
        self._unsaid = 0

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        method = str(handler_call_details.method)
        try:
            caller = self._judge.caller(method, _token(handler_call_details.invocation_metadata))
        except Unauthenticated as error:
            self._complain(method, str(error))
            return _answer_with(grpc.StatusCode.UNAUTHENTICATED, "")
        if not self._admits(caller, method.removeprefix(SERVICE)):
            self._complain(method, f"node {caller} may not")
            text = f"node {caller} is not a member of this cluster"
            return _answer_with(grpc.StatusCode.PERMISSION_DENIED, text)
        return await continuation(handler_call_details)

    def _complain(self, method: str, reason: str) -> None:
        """Strangers can call as often as they like; the log is ours."""
        now = asyncio.get_running_loop().time()
        if now < self._complain_at:
            self._unsaid += 1
            return
        fields = {"method": method, "reason": reason, "others": self._unsaid}
        self._log.warning("a call to the control plane was refused", extra=fields)
        self._complain_at, self._unsaid = now + COMPLAINT_SECONDS, 0


def _answer_with(code: grpc.StatusCode, text: str) -> Any:
    """Whatever kind of call it is: a stream's handler starts before anything is read."""

    async def refuse(_: object, context: Context) -> None:
        await context.abort(code, text)

    return grpc.stream_stream_rpc_method_handler(refuse)


def _token(metadata: Any) -> bytes:
    """Empty if there is none, or more than one: nobody can tell which is meant."""
    found = [value for key, value in metadata or () if key == METADATA_NAME]
    return found[0] if len(found) == 1 else b""


class _Control(ControlServicer):
    """Message in, message out."""

    def __init__(self, membership: Membership, snapshots: SnapshotReceiver) -> None:
        self._membership = membership
        self._snapshots = snapshots

    async def Join(self, request: JoinRequest, context: Context) -> JoinReply:
        async def join() -> JoinReply:
            member = decode_member(request.member)
            if member.node != _caller(context):
                raise BadMessage("a node joins for itself only")
            joined = await self._membership.join(member.node, member.incarnation, member.addresses)
            return encode_joined(joined)

        return await _run(context, join(), CHANGE_SECONDS)

    async def Status(self, request: StatusRequest, context: Context) -> StatusReply:
        async def status() -> StatusReply:
            return encode_status(self._membership.status())

        return await _run(context, status(), CHANGE_SECONDS)

    async def ChangeMembers(
        self, request: ChangeMembersRequest, context: Context
    ) -> ChangeMembersReply:
        async def change() -> ChangeMembersReply:
            await self._change(request)
            return ChangeMembersReply()

        return await _run(context, change(), CHANGE_SECONDS)

    async def Transfer(self, request: TransferRequest, context: Context) -> TransferReply:
        async def transfer() -> TransferReply:
            await self._membership.transfer(request.group, checked_node(request.to))
            return TransferReply()

        return await _run(context, transfer(), CHANGE_SECONDS)

    async def TakeSnapshot(
        self, request: TakeSnapshotRequest, context: Context
    ) -> TakeSnapshotReply:
        async def take() -> TakeSnapshotReply:
            taken = await self._membership.take_snapshot(request.group)
            return TakeSnapshotReply(
                index=taken.index, term=taken.term, total_bytes=taken.total_bytes
            )

        return await _run(context, take(), TAKE_SNAPSHOT_SECONDS)

    async def SendSnapshot(self, _: object, context: Context) -> None:
        await _run(context, self._receive(_caller(context), _Stream(context)), STREAM_SECONDS)

    async def _receive(self, sender: int, stream: "_Stream") -> None:
        await stream.write(SnapshotProgress())
        try:
            await self._snapshots.receive(sender, stream)
        except (FastnodeError, TimeoutError) as error:
            await stream.refuse(error)

    async def _change(self, request: ChangeMembersRequest) -> None:
        node = checked_node(request.node)
        if request.change == CHANGE_ADD:
            await self._membership.add(node, checked_address(request.raft))
        elif request.change == CHANGE_PROMOTE:
            await self._membership.promote(node)
        elif request.change == CHANGE_REMOVE:
            await self._membership.remove(node)
        else:
            raise BadMessage(f"no change of members has the number {request.change}")


class _Stream:
    """A gRPC stream as the receiver of snapshots wants it."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def read(self) -> SnapshotPart | None:
        part = await self._context.read()
        return part if isinstance(part, SnapshotPart) else None

    async def write(self, progress: SnapshotProgress) -> None:
        async with asyncio.timeout(STEP_SECONDS):
            await self._context.write(progress)

    async def refuse(self, error: BaseException) -> None:
        """And take what the sender still writes, until it has read this and cancels."""
        kinds = (kind for family, kind in _REFUSALS if isinstance(error, family))
        refusal = SnapshotRefusal(
            kind=next(kinds, SnapshotRefusal.LATER), reason=str(error) or "not done in time"
        )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REFUSAL_SECONDS):
                await self._context.write(SnapshotProgress(refusal=refusal))
                while await self.read() is not None:
                    pass


def _caller(context: Context) -> int:
    """Proved at the door."""
    return parse_token(_token(context.invocation_metadata())).caller


async def _run(context: Context, work: Awaitable[Reply], seconds: float) -> Reply:
    try:
        async with asyncio.timeout(seconds):
            return await work
    except (FastnodeError, TimeoutError) as error:
        await _abort(context, error)
    except AssertionError as error:
        # gRPC would only log it, and a node must not go on after a bug.
        message = {"message": "a call of the control plane failed", "exception": error}
        asyncio.get_running_loop().call_exception_handler(message)
        raise


async def _abort(context: Context, error: BaseException) -> NoReturn:
    code = next(code for kind, code in _CODES if isinstance(error, kind))
    await context.abort(code, str(error) or "not done in time")
