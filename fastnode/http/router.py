"""Request → codec, operation, caller → handler → answer; and the one map from errors to answers.
Shell.

A handler runs to its end whatever becomes of its client. Nothing here knows an action by name.
"""

import contextlib
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from msgspec import Struct

from fastnode import config
from fastnode.errors import DeadlineExceeded, DiskFull, OperationError, Overloaded, PlanAgain
from fastnode.flow import Suspension, start
from fastnode.http.codec import Codec, Operation, Rendered
from fastnode.http.exchange import Exchange
from fastnode.http.health import PATH_MARK, Health
from fastnode.http.http1 import Request
from fastnode.http.identity import IdentitySettings, identity_of
from fastnode.http.json_codec import JsonCodec, is_json
from fastnode.http.query_codec import METHODS, QueryCodec, QueryJsonCodec, prefers_json
from fastnode.http.response import TEXT
from fastnode.http.send_lane import SendLane
from fastnode.http.trace_header import TRACE_HEADER, check_trace_header
from fastnode.queue.caller import Call, Caller
from fastnode.queue.errors import (
    SqsError,
    access_denied,
    internal_failure,
    service_unavailable,
)

_ALLOW: Final = b"Allow: %b\r\n" % b", ".join(METHODS)
_RECEIVE: Final = b"X-Fastnode-Receive: %b\r\n"
_UNAVAILABLE: Final = "The service is unavailable at the moment. Please try again."
_UNAVAILABLE_TEXTS: Final[Mapping[type[OperationError], str]] = {
    Overloaded: "The service is overloaded. Please try again.",
    DeadlineExceeded: "The request was not completed in time; it may have taken effect.",
    DiskFull: "The service is out of disk space and accepts no new messages at the moment.",
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
    ) -> None:
        self._health = health
        self._handle = handle or self._handle_here
        self._service = service
        self._identity = identity_of(identity)
        self._request_ids = request_ids
        self._log = log
        self._json = JsonCodec(operations)
        self._query = QueryCodec(operations)
        self._query_json = QueryJsonCodec(operations)
        self._lane = SendLane(self._identity, service, request_ids, self._fail, self._go_on)

    def respond(self, request: Request, exchange: Exchange) -> None:
        # The first look is nearly free, and SDKs post everything to the root.
        if request.target != b"/" and self._is_health(request, exchange):
            return
        if self._lane.take(request, exchange):
            return
        if is_json(request):
            self._run(self._json, request, exchange)
        elif request.method in METHODS:
            codec = self._query_json if prefers_json(request) else self._query
            self._run(codec, request, exchange)
        else:
            exchange.reply(405, _ALLOW + TEXT, b"method not allowed\n")

    def _is_health(self, request: Request, exchange: Exchange) -> bool:
        health = self._health if PATH_MARK in request.target else None
        return health is not None and health.respond(request, exchange)

    def _run(self, codec: Codec, request: Request, exchange: Exchange) -> None:
        request_id = self._request_ids()
        try:
            caller = self._admitted(request)
            operation = _reached(codec, caller, request)
            decoded = codec.decode(operation, request)
        except SqsError as error:
            exchange.reply(*codec.encode_error(error, request_id))
            return
        self._begin(
            _HttpCall(caller, request_id, request, exchange, codec, operation, self._log), decoded
        )

    def _go_on(self, request: Request, exchange: Exchange, caller: Caller, decoded: Struct) -> None:
        """The short way has read the request, and cannot take it."""
        codec, request_id = self._json, self._request_ids()
        operation = codec.operation_of(request)
        self._begin(
            _HttpCall(caller, request_id, request, exchange, codec, operation, self._log), decoded
        )

    def _begin(self, call: "_HttpCall", decoded: Struct) -> None:
        call.begin(self._handle, decoded)
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

    def _fail(self, request: Request, exchange: Exchange, error: OperationError) -> None:
        """The short way did not lead to the end."""
        if isinstance(error, PlanAgain):
            self._run(self._json, request, exchange)
        else:
            exchange.reply(*_unavailable(self._json, self._request_ids(), error))


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
        "_codec",
        "_decoded",
        "_exchange",
        "_handle",
        "_log",
        "_operation",
        "_plans_left",
        "_request",
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
        self.is_gone = False
        self.on_gone = None
        self.explanation = None
        self._request = request
        self._exchange = exchange
        self._codec = codec
        self._operation = operation
        self._log = log
        self._plans_left = config.PLANS_MAX

    def begin(self, handle: Handle, decoded: Any) -> None:
        self._handle = handle
        self._decoded = decoded
        self._plan()

    def _plan(self) -> None:
        self._plans_left -= 1
        start(self._handle(self._operation, self, self._decoded), self.finish)

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
    def invocation(self) -> bytes | None:
        return self._request.headers.get(b"amz-sdk-invocation-id")

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
        if isinstance(error, PlanAgain) and self._plans_left:
            # Nothing was written: the same call, planned on the state as it is now.
            self._plan()
            return
        if error is None:
            rendered = self._codec.encode(self._operation, result, request_id)
            if self.explanation is not None:
                status, headers, body = rendered
                rendered = status, headers + _RECEIVE % self.explanation.encode(), body
        elif isinstance(error, SqsError):
            rendered = self._codec.encode_error(error, request_id, error.retry_after_seconds)
        elif isinstance(error, OperationError):
            rendered = _unavailable(self._codec, request_id, error)
        else:
            action = self._operation.name
            self._log.error("bug in %s request_id=%s", action, request_id, exc_info=error)
            rendered = self._codec.encode_error(internal_failure(), request_id)
        self._exchange.reply(*rendered)
