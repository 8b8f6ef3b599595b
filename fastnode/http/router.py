"""Request → codec, operation, caller → handler → answer; and the one map from errors to answers.
Shell.

A handler runs to its end whatever becomes of its client. Nothing here knows an action by name.
"""

import contextlib
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from msgspec import Struct

from fastnode.errors import (
    DeadlineExceeded,
    DiskFull,
    NotLed,
    OperationError,
    Overloaded,
    Unsettled,
)
from fastnode.flow import Suspension, start
from fastnode.http.batch_lane import BATCH_TARGET, BatchLane
from fastnode.http.codec import Codec, Operation, Rendered
from fastnode.http.exchange import Exchange
from fastnode.http.handout_lane import DeleteBatchLane, DeleteLane, HandoutLane
from fastnode.http.health import PATH_MARK, Health
from fastnode.http.http1 import Request
from fastnode.http.identity import IdentitySettings, identity_of
from fastnode.http.invocation import invocation_of, is_first_attempt
from fastnode.http.json_codec import JsonCodec, is_json
from fastnode.http.lane import TARGET_PREFIX
from fastnode.http.query_codec import METHODS, QueryCodec, QueryJsonCodec, prefers_json
from fastnode.http.receive_lane import ReceiveLane
from fastnode.http.request_meter import RequestMeter
from fastnode.http.response import TEXT
from fastnode.http.send_lane import TARGET, SendLane
from fastnode.http.shedding import OVERLOADED_TEXT, EndlessRoom, Shedding
from fastnode.http.trace_header import TRACE_HEADER, check_trace_header
from fastnode.native import now_ns
from fastnode.queue.caller import CLIENT_RETRIES, SERVER_ATTEMPTS, Call, Caller
from fastnode.queue.errors import (
    SqsError,
    access_denied,
    internal_failure,
    service_unavailable,
)
from fastnode.queue.retry import Attempts, Gates, Stage, Step

_ALLOW: Final = b"Allow: %b\r\n" % b", ".join(METHODS)
_RECEIVE: Final = b"X-Fastnode-Receive: %b\r\n"
_UNAVAILABLE: Final = "The service is unavailable at the moment. Please try again."
_UNSETTLED: Final = "The request was not completed in time; it may have taken effect."
_UNAVAILABLE_TEXTS: Final[Mapping[type[OperationError], str]] = {
    Overloaded: OVERLOADED_TEXT,
    DeadlineExceeded: _UNSETTLED,
    Unsettled: _UNSETTLED,
    DiskFull: "The service is out of disk space and accepts no new messages at the moment.",
}
HANDOUT_LANES: Final[Mapping[bytes, Callable[..., HandoutLane]]] = {
    TARGET_PREFIX + lane.action.encode(): lane
    for lane in (ReceiveLane, DeleteLane, DeleteBatchLane)
}
# Runs an operation for a call, wherever its queue is led.
Handle = Callable[[Any, Call, Any], Coroutine[Suspension, Any, Any]]


class Router:
    """`respond` is what an `HttpServer` calls."""

    def __init__(
        self,
        operations: Mapping[str, Operation],
        service: Any,
        identity: IdentitySettings,
        request_ids: Callable[[], str],
        log: logging.Logger,
        health: Health | None = None,
        handle: Handle | None = None,
        shedding: Shedding | None = None,
        meter: RequestMeter | None = None,
    ) -> None:
        self.meter = meter or RequestMeter()
        self._health = health
        self._shedding = shedding or Shedding(EndlessRoom(), request_ids)
        self._room = self._shedding.room
        self._handle = handle or self._handle_here
        self._service = service
        self._identity = identity_of(identity)
        self._new_call = _SecureCall if identity.is_secure else _HttpCall
        self._request_ids = request_ids
        self._log = log
        self._json = JsonCodec(operations)
        self._query = QueryCodec(operations)
        self._query_json = QueryJsonCodec(operations)
        parts = self._identity, service, request_ids, self._go_on, self.meter
        self._lanes: dict[bytes | None, SendLane | BatchLane | HandoutLane] = {
            TARGET: SendLane(*parts),
            BATCH_TARGET: BatchLane(*parts),
            **{target: lane(*parts) for target, lane in HANDOUT_LANES.items()},
        }

    def respond(self, request: Request, exchange: Exchange) -> None:
        # The first look is nearly free, and SDKs post everything to the root.
        if request.target != b"/" and self._is_health(request, exchange):
            return
        if self._room.room <= 0 and self._is_turned_away(request, exchange):
            return
        exchange.began_ns = now_ns()
        lane = self._lanes.get(request.get(b"x-amz-target"))
        if lane is not None and lane.take(request, exchange):
            return
        if request.method in METHODS:
            self._run(self._codec_of(request), request, exchange)
        else:
            exchange.reply(405, _ALLOW + TEXT, b"method not allowed\n")

    def _is_turned_away(self, request: Request, exchange: Exchange) -> bool:
        return self._shedding.turns_away(request, exchange, self._codec_of(request))

    def _codec_of(self, request: Request) -> Codec:
        if is_json(request):
            return self._json
        return self._query_json if prefers_json(request) else self._query

    def read(self, request: Request) -> tuple[Caller, Operation, Any] | None:
        """Who asks for what, without an effect. None for what is refused, or is no call."""
        if request.method not in METHODS:
            return None
        codec = self._codec_of(request)
        try:
            caller = self._admitted(request)
            operation = _reached(codec, caller, request)
            return caller, operation, codec.decode(operation, request)
        except SqsError:
            return None

    def _is_health(self, request: Request, exchange: Exchange) -> bool:
        health = self._health if PATH_MARK in request.target else None
        return health is not None and health.respond(request, exchange)

    def _run(self, codec: Codec, request: Request, exchange: Exchange) -> None:
        request_id, operation = self._request_ids(), None
        try:
            caller = self._admitted(request)
            operation = _reached(codec, caller, request)
            decoded = codec.decode(operation, request)
        except SqsError as error:
            self.meter.refuse(None if operation is None else operation.name, error)
            exchange.reply(*codec.encode_error(error, request_id))
            return
        self._begin(self._call(caller, request_id, request, exchange, codec, operation), decoded)

    def _go_on(
        self,
        request: Request,
        exchange: Exchange,
        caller: Caller,
        decoded: Struct,
        identity: bytes = b"",
        error: OperationError | None = None,
        deadline_ms: int = 0,
    ) -> None:
        """The short way has read the request and cannot take it; or has, and this came of it."""
        codec, request_id = self._json, self._request_ids()
        operation = codec.operation_of(request)
        call = self._call(caller, request_id, request, exchange, codec, operation)
        call.request = call.request or identity
        call.deadline_ms = deadline_ms
        self._begin(call, decoded, error)

    def _call(
        self,
        caller: Caller,
        request_id: str,
        request: Request,
        exchange: Exchange,
        codec: Codec,
        operation: Operation,
    ) -> "_HttpCall":
        call = self._new_call(caller, request_id, request, exchange, codec, operation, self._log)
        call.meter = self.meter
        call.gates = gates = self._service.gates
        if gates.recognises_retries:
            call.request = invocation_of(request, caller.sender_id, operation.name)
            if call.request:
                call.retention = CLIENT_RETRIES
                call.is_repeated = not is_first_attempt(request)
        return call

    def _begin(
        self, call: "_HttpCall", decoded: Struct, error: OperationError | None = None
    ) -> None:
        call.begin(self._handle, decoded, error)
        if not call.is_answered:
            call.watch()

    def _handle_here(
        self, operation: Operation, call: Call, decoded: Any
    ) -> Coroutine[Suspension, Any, Any]:
        return operation.handler(self._service, call, decoded)

    def _admitted(self, request: Request) -> Caller:
        """Who calls is settled before anything else is read from the request."""
        caller = self._identity.caller(request)
        check_trace_header(request.headers)
        return caller


def _reached(codec: Codec, caller: Caller, request: Request) -> Operation:
    """A policy belongs to a queue: it cannot admit anybody to an action that is about none. What
    does not exist is denied to the anonymous like the rest.
    """
    if not caller.is_anonymous:
        return codec.operation_of(request)
    with contextlib.suppress(SqsError):
        operation = codec.operation_of(request)
        if "queue_url" in operation.request.__struct_fields__:
            return operation
    raise access_denied(f"Access to the resource {caller.endpoint}/ is denied.")


def _unavailable(codec: Codec, request_id: str, error: OperationError) -> Rendered:
    refusal = service_unavailable(_UNAVAILABLE_TEXTS.get(type(error), _UNAVAILABLE))
    return codec.encode_error(refusal, request_id, error.retry_after_seconds)


class _HttpCall(Call):
    """One handler at work, and where its result goes."""

    __slots__ = (
        "_attempts",
        "_codec",
        "_decoded",
        "_exchange",
        "_handle",
        "_log",
        "_operation",
        "_request",
        "gates",
        "meter",
    )

    def __init__(
        self,
        caller: Caller,
        request_id: str,
        request: Request,
        exchange: Exchange,
        codec: Codec,
        operation: Operation,
        log: logging.Logger,
    ) -> None:
        # The fields of `Call`, without a second call: this runs once per request.
        self.caller = caller
        self.action = operation.name
        self.request_id = request_id
        self.request = b""
        self.retention = SERVER_ATTEMPTS
        self.is_repeated = False
        self.is_reused = False
        self.deadline_ms = 0
        self.is_gone = False
        self.on_gone = None
        self.explanation = None
        self.gates: Gates
        self.meter: RequestMeter
        self._request = request
        self._exchange = exchange
        self._codec = codec
        self._operation = operation
        self._log = log
        self._attempts: Attempts | None = None

    def begin(self, handle: Handle, decoded: Any, error: OperationError | None = None) -> None:
        """`error` is the end of a first attempt that was made elsewhere. One that was refused for
        the lack of a lead has left nothing behind: whoever leads is asked.
        """
        self._handle = handle
        self._decoded = decoded
        if error is None or isinstance(error, NotLed):
            self._attempt()
        else:
            self.finish(None, error)

    def _attempt(self) -> None:
        start(self._handle(self._operation, self, self._decoded), self.finish)

    def _goes_on(self, error: OperationError) -> bool:
        """After an attempt that gave no answer: true if there is another, and it has begun."""
        if self._attempts is None:
            self._attempts = Attempts(repeats=self.gates.repeats_calls)
        if self._attempts.after(error) is not Step.AGAIN or self.is_answered:
            return False
        # A call that has come from the short way is not watched yet.
        if self.is_gone or self._exchange.is_closed:
            return False
        # Of a call with several parts some may have landed.
        self.is_repeated = True
        if self._attempts.stage is Stage.REUSE:
            self.gates.repeated += 1
            self.is_reused = True
        self._attempt()
        return True

    @property
    def trace_header(self) -> str | None:
        value = self._request.headers.get(TRACE_HEADER)
        return value.decode("latin-1") if value else None

    @property
    def wants_explanation(self) -> bool:
        return self._request.headers.get(b"x-fastnode-explain") == b"1"

    @property
    def source_ip(self) -> str | None:
        peer = self._exchange.peer
        return None if peer is None else peer[0]

    @property
    def is_answered(self) -> bool:
        return self._exchange.answer is not None

    def watch(self) -> None:
        """Learn when the client goes away, or that it has gone already."""
        if self._exchange.is_closed:
            self.leave()
        else:
            self._exchange.on_close = self.leave

    def finish(self, result: Any, error: BaseException | None) -> None:
        request_id = self.request_id
        if isinstance(error, OperationError) and self._goes_on(error):
            return
        self.meter.ended(self.action, self._exchange.began_ns, request_id, error)
        if error is None:
            rendered = self._codec.encode(self._operation, result, request_id)
            if self.explanation is not None:
                status, headers, body = rendered
                rendered = status, headers + _RECEIVE % self.explanation.encode(), body
        elif isinstance(error, SqsError):
            rendered = self._codec.encode_error(error, request_id, error.retry_after_seconds)
        elif isinstance(error, OperationError):
            if self.is_reused:
                error = Unsettled(str(error))
            rendered = _unavailable(self._codec, request_id, error)
        else:
            action = self._operation.name
            self._log.error("bug in %s request_id=%s", action, request_id, exc_info=error)
            rendered = self._codec.encode_error(internal_failure(), request_id)
        self._exchange.reply(*rendered)


class _SecureCall(_HttpCall):
    """Of a listener that speaks TLS. What a proxy says of its own clients is no proof."""

    __slots__ = ()

    @property
    def is_secure(self) -> bool:
        return True
