"""The short way of a plain SendMessage: known caller, live queue, nothing but a body.

Nine in ten requests of a busy queue look like this, and for them the general way (codec, coroutine,
rules, each with its calls) costs three times what storing the message does. The lane takes a
request only if the general way would store it too, and gives the same answer; everything else,
every refusal included, it leaves alone. `tests/unit/http/test_send_lane.py` holds the two together.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from fastnode.errors import OperationError
from fastnode.http.exchange import Exchange
from fastnode.http.http1 import Request
from fastnode.http.identity import Identity
from fastnode.http.json_codec import CONTENT_TYPE
from fastnode.http.trace_header import TRACE_HEADER
from fastnode.native import PlannedSend, encode_text
from fastnode.queue.api import SendMessageRequest
from fastnode.queue.live import LiveQueue
from fastnode.queue.send import submit_plain
from fastnode.queue.service import Service
from fastnode.queue.validate import is_plain

TARGET: Final = b"AmazonSQS.SendMessage"
_HEADERS: Final = b"Content-Type: " + CONTENT_TYPE + b"\r\nx-amzn-RequestId: %b\r\n"

Fail = Callable[[Request, Exchange, OperationError], None]


class SendLane:
    def __init__(
        self, identity: Identity, service: Service, request_ids: Callable[[], str], fail: Fail
    ) -> None:
        self._identity = identity
        self._service = service
        self._request_ids = request_ids
        self._fail = fail
        self._decode = msgspec.json.Decoder(SendMessageRequest).decode

    def take(self, request: Request, exchange: Exchange) -> bool:
        """True: the request is on its way and will be answered. False: nothing has happened."""
        headers = request.headers
        if headers.get(b"x-amz-target") != TARGET or headers.get(b"content-type") != CONTENT_TYPE:
            return False
        if TRACE_HEADER in headers:
            return False
        try:
            sent = self._decode(request.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        # Last, because proof costs more than reading and the general way will ask for it again.
        caller = self._identity.quick_caller(request) if is_plain(sent) else None
        if caller is None:
            return False
        queue = self._service.live_queue(caller, sent.queue_url)
        if queue is None or queue.throttle is not None:
            return False
        body = encode_text(sent.message_body or "")
        settings, group = queue.settings, queue.group
        if not body or len(body) > settings.maximum_message_size:
            return False
        if settings.delay_seconds or settings.is_fifo or queue.tenants is not None:
            return False
        pending = _Pending(request, exchange, queue, self._request_ids, self._fail)
        try:
            group.require_room()
            pending.planned = submit_plain(
                self._service, queue, caller.sender_id, ((b"", body),), pending
            )
        except OperationError:
            return False
        return True


class _Pending:
    """A submitted message; what `store` resumes instead of a coroutine."""

    __slots__ = ("_exchange", "_fail", "_queue", "_request", "_request_ids", "planned")

    def __init__(
        self,
        request: Request,
        exchange: Exchange,
        queue: LiveQueue,
        request_ids: Callable[[], str],
        fail: Fail,
    ) -> None:
        self._request = request
        self._exchange = exchange
        self._queue = queue
        self._request_ids = request_ids
        self._fail = fail
        self.planned: list[PlannedSend]

    def resume(self, _outcome: object = None) -> None:
        message_id, body_md5, _, _ = self.planned[0]
        self._queue.added(self.planned)
        body = f'{{"MessageId":"{message_id}","MD5OfMessageBody":"{body_md5}"}}'
        self._exchange.reply(200, _HEADERS % self._request_ids().encode(), body.encode())

    def fail(self, error: OperationError) -> None:
        self._fail(self._request, self._exchange, error)
