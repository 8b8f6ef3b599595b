"""Request → codec, operation, caller → handler → answer; and the one map from errors to answers.
Shell.

A handler runs to its end whatever becomes of its client. Nothing here knows an action by name.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from fastnode.errors import DeadlineExceeded, DiskFull, OperationError, Overloaded
from fastnode.flow import start
from fastnode.http.codec import Codec, Operation, Rendered
from fastnode.http.exchange import Exchange
from fastnode.http.http1 import Request
from fastnode.http.identity import Identity, IdentitySettings
from fastnode.http.json_codec import JsonCodec, is_json
from fastnode.http.send_lane import SendLane
from fastnode.http.xml_error import encode_xml_error, refuse_query
from fastnode.queue.caller import Call, Caller
from fastnode.queue.errors import SqsError, internal_failure, service_unavailable

_UNAVAILABLE: Final = "The service is unavailable at the moment. Please try again."
_UNAVAILABLE_TEXTS: Final[Mapping[type[OperationError], str]] = {
    Overloaded: "The service is overloaded. Please try again.",
    DeadlineExceeded: "The request was not completed in time; it may have taken effect.",
    DiskFull: "The service is out of disk space and accepts no new messages at the moment.",
}


class Router:
    """`respond` is what an `HttpServer` calls."""

    def __init__(
        self,
        operations: Mapping[str, Operation],
        service: Any,
        identity: IdentitySettings,
        request_ids: Callable[[], str],
        log: logging.Logger,
    ) -> None:
        self._service = service
        self._identity = Identity(identity)
        self._request_ids = request_ids
        self._log = log
        self._json = JsonCodec(operations)
        self._lane = SendLane(self._identity, service, request_ids, self._fail)

    def respond(self, request: Request, exchange: Exchange) -> None:
        if self._lane.take(request, exchange):
            return
        if is_json(request):
            self._run(self._json, request, exchange)
        else:
            self._refuse(request, exchange)

    def _run(self, codec: Codec, request: Request, exchange: Exchange) -> None:
        request_id = self._request_ids()
        try:
            # Who calls is settled before anything is read from the request.
            caller = self._identity.caller(request)
            operation = codec.operation_of(request)
            decoded = codec.decode(operation, request)
        except SqsError as error:
            exchange.reply(*codec.encode_error(error, request_id))
            return
        call = _HttpCall(caller, request_id, request, exchange, codec, operation, self._log)
        start(operation.handler(self._service, call, decoded), call.finish)
        if exchange.answer is None:
            call.watch()

    def _fail(self, exchange: Exchange, request_id: str, error: OperationError) -> None:
        exchange.reply(*_unavailable(self._json, request_id, error))

    def _refuse(self, request: Request, exchange: Exchange) -> None:
        request_id = self._request_ids()
        try:
            self._identity.caller(request)
        except SqsError as error:
            exchange.reply(*encode_xml_error(error, request_id))
        else:
            exchange.reply(*refuse_query(request, request_id))


def _unavailable(codec: Codec, request_id: str, error: OperationError) -> Rendered:
    refusal = service_unavailable(_UNAVAILABLE_TEXTS.get(type(error), _UNAVAILABLE))
    return codec.encode_error(refusal, request_id, error.retry_after_seconds)


class _HttpCall(Call):
    """One handler at work, and where its result goes."""

    __slots__ = ("_codec", "_exchange", "_log", "_operation", "_request")

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
        self._request = request
        self._exchange = exchange
        self._codec = codec
        self._operation = operation
        self._log = log

    @property
    def trace_header(self) -> str | None:
        value = self._request.headers.get(b"x-amzn-trace-id")
        return value.decode("latin-1") if value else None

    @property
    def source_ip(self) -> str | None:
        peer = self._exchange.peer
        return None if peer is None else peer[0]

    @property
    def invocation(self) -> bytes | None:
        return self._request.headers.get(b"amz-sdk-invocation-id")

    def watch(self) -> None:
        """Learn when the client goes away, or that it has gone already."""
        if self._exchange.is_closed:
            self.leave()
        else:
            self._exchange.on_close = self.leave

    def finish(self, result: Any, error: BaseException | None) -> None:
        request_id = self.request_id
        if error is None:
            rendered = self._codec.encode(self._operation, result, request_id)
        elif isinstance(error, SqsError):
            rendered = self._codec.encode_error(error, request_id)
        elif isinstance(error, OperationError):
            rendered = _unavailable(self._codec, request_id, error)
        else:
            action = self._operation.name
            self._log.error("bug in %s request_id=%s", action, request_id, exc_info=error)
            rendered = self._codec.encode_error(internal_failure(), request_id)
        self._exchange.reply(*rendered)
