"""Calls between nodes as bytes: what a forwarded request carries, and how its end comes back. Pure.

A request was read and its caller recognised by the node that took it; here travels only what a
handler needs. An answer is the handler's result, the client's error, or the reason why the
operation failed, which the node that took the call renders for its client.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from fastnode.errors import (
    DeadlineExceeded,
    DiskFull,
    NotLed,
    OperationError,
    Overloaded,
    PlanAgain,
    Unavailable,
    Unsettled,
)
from fastnode.queue.caller import Call, Caller
from fastnode.queue.errors import ERRORS, SqsError
from fastnode.queue.operations import OPERATIONS, Operation

# How a call ended, in the status byte of its answer.
DONE: Final = 0
REFUSED: Final = 1
FAILED: Final = 2

_FAILURES: Final[Mapping[str, type[OperationError]]] = {
    kind.__name__: kind
    for kind in (
        *(Overloaded, PlanAgain, Unavailable, Unsettled, NotLed),
        *(DeadlineExceeded, DiskFull),
    )
}
_NAMES: Final = {kind: name for name, kind in _FAILURES.items()}
_encode: Final = msgspec.msgpack.Encoder().encode


class Carried(Struct, frozen=True, array_like=True, gc=False):
    """A call on its way. `request` is the action's own Struct, encoded."""

    action: str
    caller: Caller
    request_id: str
    trace_header: str | None
    source_ip: str | None
    is_secure: bool
    identity: bytes
    retention: int
    is_repeated: bool
    is_reused: bool
    wants_explanation: bool
    request: bytes


class _Done(Struct, frozen=True, array_like=True, gc=False):
    explanation: str | None
    response: bytes


class _Refused(Struct, frozen=True, array_like=True, gc=False):
    shape: str
    message: str
    retry_after_seconds: int | None


class _Failed(Struct, frozen=True, array_like=True, gc=False):
    kind: str
    message: str


class CarriedCall(Call):
    """A forwarded call at the node that carries it out."""

    __slots__ = ("_carried",)

    def __init__(self, carried: Carried) -> None:
        # The fields of `Call`, without a second call: this runs once per forwarded request.
        self.caller = carried.caller
        self.action = carried.action
        self.request_id = carried.request_id
        self.request = carried.identity
        self.retention = carried.retention
        self.is_repeated = carried.is_repeated
        self.is_reused = carried.is_reused
        self.deadline_ms = 0
        self.is_gone = False
        self.on_gone = None
        self.explanation = None
        self._carried = carried

    @property
    def trace_header(self) -> str | None:
        return self._carried.trace_header

    @property
    def wants_explanation(self) -> bool:
        return self._carried.wants_explanation

    @property
    def source_ip(self) -> str | None:
        return self._carried.source_ip

    @property
    def is_secure(self) -> bool:
        return self._carried.is_secure


_decode_carried: Final = msgspec.msgpack.Decoder(Carried).decode
_decode_done: Final = msgspec.msgpack.Decoder(_Done).decode
_decode_refused: Final = msgspec.msgpack.Decoder(_Refused).decode
_decode_failed: Final = msgspec.msgpack.Decoder(_Failed).decode
_REQUESTS: Final = {
    name: msgspec.msgpack.Decoder(operation.request).decode
    for name, operation in OPERATIONS.items()
}
_RESPONSES: Final = {
    name: msgspec.msgpack.Decoder(operation.response).decode
    for name, operation in OPERATIONS.items()
    if operation.response is not None
}


def encode_call(call: Call, request: Struct) -> bytes:
    return _encode(
        Carried(
            call.action,
            call.caller,
            call.request_id,
            call.trace_header,
            call.source_ip,
            call.is_secure,
            call.request,
            call.retention,
            call.is_repeated,
            call.is_reused,
            call.wants_explanation,
            _encode(request),
        )
    )


def decode_call(payload: bytes) -> tuple[CarriedCall, Operation, Any]:
    """ValueError for bytes that no member of this version sends."""
    try:
        carried = _decode_carried(payload)
        request = _REQUESTS[carried.action](carried.request)
    except (msgspec.DecodeError, KeyError) as error:
        raise ValueError(f"no forwarded call: {error}") from error
    return CarriedCall(carried), OPERATIONS[carried.action], request


def encode_result(call: Call, response: Struct | None) -> tuple[int, bytes]:
    encoded = b"" if response is None else _encode(response)
    return DONE, _encode(_Done(call.explanation, encoded))


def encode_error(error: SqsError | OperationError) -> tuple[int, bytes]:
    if isinstance(error, SqsError):
        refused = _Refused(error.row.shape, error.message, error.retry_after_seconds)
        return REFUSED, _encode(refused)
    return FAILED, _encode(_Failed(_NAMES.get(type(error), "Unavailable"), str(error)))


def decode_result(call: Call, status: int, payload: bytes) -> Any:
    """What the handler returned there, or raised. ValueError as in `decode_call`."""
    try:
        if status != DONE:
            raise decode_error(status, payload)
        done = _decode_done(payload)
        call.explanation = done.explanation
        decode = _RESPONSES.get(call.action)
        return None if decode is None else decode(done.response)
    except (msgspec.DecodeError, KeyError) as error:
        raise ValueError(f"no answer to a forwarded call: {error}") from error


def decode_error(status: int, payload: bytes) -> SqsError | OperationError:
    if status == REFUSED:
        refused = _decode_refused(payload)
        error = SqsError(ERRORS[refused.shape], refused.message)
        error.retry_after_seconds = refused.retry_after_seconds
        return error
    if status == FAILED:
        failed = _decode_failed(payload)
        return _FAILURES[failed.kind](failed.message)
    return Unsettled(f"a member failed with status {status}")
