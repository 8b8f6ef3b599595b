"""What the short ways of requests have in common: see `send_lane.py`, `batch_lane.py`,
`handout_lane.py` and `receive_lane.py`.
"""

from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct

from fastnode.errors import OperationError
from fastnode.http.exchange import Exchange
from fastnode.http.http1 import Request
from fastnode.http.identity import Identity
from fastnode.http.invocation import invocation_of
from fastnode.http.json_codec import CONTENT_TYPE
from fastnode.http.request_meter import RequestMeter
from fastnode.http.response import whole_response
from fastnode.http.trace_header import TRACE_HEADER
from fastnode.queue.caller import CLIENT_RETRIES, SERVER_ATTEMPTS, Caller
from fastnode.queue.live import LiveQueue
from fastnode.queue.service import Service

TARGET_PREFIX: Final = b"AmazonSQS."
HEADERS: Final = b"Content-Type: " + CONTENT_TYPE + b"\r\nx-amzn-RequestId: %b\r\n"
# All of a head but for the request's id and the length of the body.
_HEAD: Final = whole_response(200, HEADERS, b"", b"").replace(b"Length: 0", b"Length: %d")


class GoOn(Protocol):
    """The general way of a request that is read, by a caller who is known; with the identity and
    the end of an attempt, if there was one, and with the time until which it waits, if it has
    waited.
    """

    def __call__(
        self,
        request: Request,
        exchange: Exchange,
        caller: Caller,
        decoded: Struct,
        identity: bytes = b"",
        error: OperationError | None = None,
        deadline_ms: int = 0,
    ) -> None: ...


class Lane:
    """`take` of each lane: true, the request is on its way and will be answered; false, nothing has
    happened.
    """

    action = ""

    def __init__(
        self,
        identity: Identity,
        service: Service,
        request_ids: Callable[[], str],
        go_on: GoOn,
        meter: RequestMeter,
    ) -> None:
        self.quick_caller = identity.quick_caller
        self.service = service
        self.request_ids = request_ids
        self.go_on = go_on
        self._meter = meter
        self._took = meter.of(self.action).took

    def identity_of(self, request: Request, caller: Caller) -> tuple[bytes, int]:
        """The identity of a call, and how long that is remembered."""
        service = self.service
        if service.gates.recognises_retries:
            identity = invocation_of(request, caller.sender_id, self.action)
            if identity:
                return identity, CLIENT_RETRIES
        return service.new_request(), SERVER_ATTEMPTS

    def open_queue(self, caller: Caller, queue_url: str) -> LiveQueue | None:
        """The queue that a call means, if it takes messages now and nobody has to ask first."""
        service = self.service
        queue = service.live_queue(caller, queue_url)
        if queue is None or queue.throttle is not None or not queue.group.accepts_messages:
            return None
        return queue

    def write(self, exchange: Exchange, request_id: str, answer: bytes) -> None:
        """All bytes of an answer, at once if nothing complicates that."""
        if exchange.connection.write_alone(exchange, answer):
            self._count(exchange, request_id)
        else:
            self.reply(exchange, request_id, answer.partition(b"\r\n\r\n")[2])

    def answer(self, exchange: Exchange, body: bytes) -> None:
        """An answer whose body alone is its own."""
        request_id = self.request_ids()
        head = _HEAD % (request_id.encode(), len(body))
        self.write(exchange, request_id, head + body)

    def reply(self, exchange: Exchange, request_id: str, body: bytes) -> None:
        exchange.reply(200, HEADERS % request_id.encode(), body)
        self._count(exchange, request_id)

    def _count(self, exchange: Exchange, request_id: str) -> None:
        """Whatever a lane answers, it counts here; what it leaves alone, the general way counts."""
        if self._took(exchange.began_ns):
            self._meter.slow(self.action, exchange.began_ns, request_id)


def is_bare(request: Request) -> bool:
    """JSON that was posted, and nothing in the head that would become part of a message."""
    is_json = request.method == b"POST" and request.says(b"content-type", CONTENT_TYPE)
    return is_json and not request.has(TRACE_HEADER)
