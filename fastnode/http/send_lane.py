"""The short way of a plain SendMessage: known caller, live queue, nothing but a body and, for a
FIFO queue, its ids.

Nine in ten requests of a busy queue look like this, and for them the general way (codec, coroutine,
rules, each with its calls) costs three times what storing the message does. The lane takes a
request only if the general way would store it too, and gives the same answer; everything else,
every refusal included, it leaves alone. `tests/unit/http/test_send_lane.py` holds the two together.
"""

import re
from collections.abc import Callable
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from fastnode import native
from fastnode.errors import OperationError
from fastnode.http.exchange import Exchange
from fastnode.http.http1 import Request
from fastnode.http.identity import Identity
from fastnode.http.invocation import invocation_of, is_first_attempt
from fastnode.http.json_codec import CONTENT_TYPE
from fastnode.http.response import whole_response
from fastnode.http.trace_header import TRACE_HEADER
from fastnode.native import FifoDraft, PlannedSend, encode_text, fill_answer
from fastnode.queue import fifo_send
from fastnode.queue.api import SendMessageRequest
from fastnode.queue.caller import CLIENT_RETRIES, SERVER_ATTEMPTS, Caller
from fastnode.queue.fifo_live import FifoQueue
from fastnode.queue.live import LiveQueue
from fastnode.queue.repeats import request_at
from fastnode.queue.send import submit_one
from fastnode.queue.service import Service
from fastnode.queue.validate import is_plain

_ACTION: Final = "SendMessage"
TARGET: Final = b"AmazonSQS." + _ACTION.encode()
_FIFO_SUFFIX: Final = ".fifo"
_HEADERS: Final = b"Content-Type: " + CONTENT_TYPE + b"\r\nx-amzn-RequestId: %b\r\n"
_DIGITS: Final = 20


def _pieces(number: bytes) -> tuple[bytes, ...]:
    """What `fill_answer` fills: an answer, cut where the ids, the digest and the number belong."""
    ids = b'{"MessageId":"%b","MD5OfMessageBody":"%b"%b}' % (b"\x01" * 36, b"\x02" * 32, number)
    cut = re.split(rb"[\x00-\x03]+", whole_response(200, _HEADERS % b"\x00", b"", ids))
    return (*cut, b"")[:5]


_ANSWER: Final = _pieces(b"")
_FIFO_ANSWER: Final = _pieces(b',"SequenceNumber":"%b"' % (b"\x03" * _DIGITS))


class GoOn(Protocol):
    """The general way of a request that is read, by a caller who is known; with the identity and
    the end of an attempt, if there was one.
    """

    def __call__(
        self,
        request: Request,
        exchange: Exchange,
        caller: Caller,
        decoded: SendMessageRequest,
        identity: bytes = b"",
        error: OperationError | None = None,
    ) -> None: ...


class SendLane:
    def __init__(
        self,
        identity: Identity,
        service: Service,
        request_ids: Callable[[], str],
        go_on: GoOn,
    ) -> None:
        self._identity = identity
        self._service = service
        self.request_ids = request_ids
        self.go_on = go_on
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
        if not is_plain(sent) and not _is_plain_fifo(sent):
            return False
        caller = self._identity.quick_caller(request)
        if caller is None:
            return False
        if not self._sent(request, exchange, caller, sent):
            # What was read and proved so far need not be read and proved again.
            self.go_on(request, exchange, caller, sent)
        return True

    def _sent(
        self, request: Request, exchange: Exchange, caller: Caller, sent: SendMessageRequest
    ) -> bool:
        queue = self._service.live_queue(caller, sent.queue_url)
        if queue is None or queue.throttle is not None or not queue.group.accepts_messages:
            return False
        body, settings = encode_text(sent.message_body or ""), queue.settings
        if not body or len(body) > settings.maximum_message_size:
            return False
        is_grouped = sent.message_group_id is not None
        pending = _Pending(self, request, exchange, caller, sent, queue)
        try:
            if settings.is_fifo:
                return self._submit_fifo(queue, body, pending)
            if settings.delay_seconds or queue.tenants is not None or is_grouped:
                return False
            retention = self._retention(pending)
            pending.position, pending.record = submit_one(
                queue, pending.identity, retention, caller.sender_id, body, pending
            )
        except OperationError:
            return False
        return True

    def _retention(self, pending: "_Pending") -> int:
        """Give the call its identity; how long that is remembered."""
        service = self._service
        if service.gates.recognises_retries:
            identity = invocation_of(pending.request, pending.caller.sender_id, _ACTION)
            if identity:
                pending.identity = identity
                return CLIENT_RETRIES
        pending.identity = service.new_request()
        return SERVER_ATTEMPTS

    def _submit_fifo(self, queue: LiveQueue, body: bytes, pending: "_Pending") -> bool:
        sent = pending.sent
        group_id = sent.message_group_id
        if group_id is None:
            return False
        if queue.record.partition_groups and not is_first_attempt(pending.request):
            # It may have landed in a partition of another queue of that name.
            return False
        shard = queue.shard_for(group_id)
        assert isinstance(shard, FifoQueue)
        draft = fifo_send.plain_draft(shard, group_id, sent.message_deduplication_id, body)
        if draft is None:
            return False
        retention = self._retention(pending)
        request = request_at(pending.identity, shard.partition)
        pending.draft, pending.queue = draft, shard
        (pending.planned,) = fifo_send.submit(
            shard,
            (request, retention),
            shard.group.stamp(request),
            pending.caller.sender_id,
            (draft,),
            pending,
        )
        return True


def _is_plain_fifo(sent: SendMessageRequest) -> bool:
    """Nothing but a body and the ids that a FIFO queue asks for."""
    return (
        sent.message_group_id is not None
        and sent.message_attributes is None
        and sent.delay_seconds is None
        and sent.message_system_attributes is None
        and sent.queue_url is not None
        and sent.queue_url.endswith(_FIFO_SUFFIX)
    )


class _Pending(Struct, eq=False):
    """A submitted message; what `store` resumes instead of a coroutine."""

    lane: SendLane
    request: Request
    exchange: Exchange
    caller: Caller
    sent: SendMessageRequest
    queue: LiveQueue
    identity: bytes = b""
    position: int = 0
    record: bytes = b""
    # Of a message in a FIFO queue.
    draft: FifoDraft | None = None
    planned: PlannedSend | None = None

    def resume(self, _outcome: object = None) -> None:
        if self.planned is not None:
            self._resume_fifo(self.planned)
            return
        record = self.record
        self.queue.added_one(self.position, record)
        request_id = self.lane.request_ids()
        answer, exchange = fill_answer(_ANSWER, request_id, record), self.exchange
        if not exchange.connection.write_alone(exchange, answer):
            self._reply(request_id, answer)

    def _resume_fifo(self, planned: PlannedSend) -> None:
        queue, draft = self.queue, self.draft
        assert isinstance(queue, FifoQueue) and draft is not None
        queue.sent_one(draft, planned)
        number = native.sequence_number(planned[2], queue.partition)
        request_id = self.lane.request_ids()
        answer, exchange = fill_answer(_FIFO_ANSWER, request_id, planned[3], number), self.exchange
        if len(number) != _DIGITS or not exchange.connection.write_alone(exchange, answer):
            self._reply(request_id, answer)

    def _reply(self, request_id: str, answer: bytes) -> None:
        body = answer.partition(b"\r\n\r\n")[2]
        self.exchange.reply(200, _HEADERS % request_id.encode(), body)

    def fail(self, error: OperationError) -> None:
        lane, request, exchange = self.lane, self.request, self.exchange
        lane.go_on(request, exchange, self.caller, self.sent, self.identity, error)
