"""The short way of a plain SendMessage: known caller, live queue, nothing but a body and, for a
FIFO queue, its ids.

Nine in ten requests of a busy queue look like this, and for them the general way (codec, coroutine,
rules, each with its calls) costs three times what storing the message does. The lane takes a
request only if the general way would store it too, and gives the same answer; everything else,
every refusal included, it leaves alone. `tests/unit/http/test_send_lane.py` holds the two together.
"""

from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from fastnode import native
from fastnode.errors import OperationError
from fastnode.http.exchange import Exchange
from fastnode.http.http1 import Request
from fastnode.http.identity import Identity
from fastnode.http.invocation import invocation_of, is_first_attempt
from fastnode.http.json_codec import CONTENT_TYPE
from fastnode.http.trace_header import TRACE_HEADER
from fastnode.native import FifoDraft, PlannedSend, encode_text
from fastnode.queue import fifo_send
from fastnode.queue.api import SendMessageRequest
from fastnode.queue.caller import CLIENT_RETRIES, SERVER_ATTEMPTS, Caller
from fastnode.queue.fifo_live import FifoQueue
from fastnode.queue.live import LiveQueue
from fastnode.queue.repeats import request_at
from fastnode.queue.send import submit_plain
from fastnode.queue.service import Service
from fastnode.queue.validate import is_plain

_ACTION: Final = "SendMessage"
TARGET: Final = b"AmazonSQS." + _ACTION.encode()
_FIFO_SUFFIX: Final = ".fifo"
_HEADERS: Final = b"Content-Type: " + CONTENT_TYPE + b"\r\nx-amzn-RequestId: %b\r\n"


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
        if queue is None or queue.throttle is not None:
            return False
        body = encode_text(sent.message_body or "")
        if not body or len(body) > queue.settings.maximum_message_size:
            return False
        submit = _submit_fifo if queue.settings.is_fifo else _submit
        pending = _Pending(self, request, exchange, caller, sent, queue)
        try:
            queue.group.require_room()
            return submit(self._service, queue, body, pending)
        except OperationError:
            return False


def _retention(service: Service, pending: "_Pending") -> int:
    """Give the call its identity; how long that is remembered."""
    if service.gates.recognises_retries:
        sender = pending.caller.sender_id
        pending.identity = invocation_of(pending.request, sender, _ACTION)
        if pending.identity:
            return CLIENT_RETRIES
    pending.identity = service.new_request()
    return SERVER_ATTEMPTS


def _submit(service: Service, queue: LiveQueue, body: bytes, pending: "_Pending") -> bool:
    settings, sent = queue.settings, pending.sent
    if settings.delay_seconds or queue.tenants is not None or not is_plain(sent):
        return False
    retention = _retention(service, pending)
    identity, sender = (pending.identity, retention), pending.caller.sender_id
    pending.planned = submit_plain(queue, identity, sender, ((0, b"", body),), pending)
    return True


def _submit_fifo(service: Service, queue: LiveQueue, body: bytes, pending: "_Pending") -> bool:
    sent, sender = pending.sent, pending.caller.sender_id
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
    retention = _retention(service, pending)
    request = request_at(pending.identity, shard.partition)
    pending.draft, pending.queue = draft, shard
    pending.planned = fifo_send.submit(
        shard, (request, retention), shard.group.stamp(request), sender, (draft,), pending
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


class _Pending:
    """A submitted message; what `store` resumes instead of a coroutine."""

    __slots__ = (
        "_exchange",
        "_lane",
        "caller",
        "draft",
        "identity",
        "planned",
        "queue",
        "request",
        "sent",
    )

    def __init__(
        self,
        lane: SendLane,
        request: Request,
        exchange: Exchange,
        caller: Caller,
        sent: SendMessageRequest,
        queue: LiveQueue,
    ) -> None:
        self._lane = lane
        self._exchange = exchange
        self.request = request
        self.caller = caller
        self.sent = sent
        self.queue = queue
        self.identity = b""
        self.draft: FifoDraft | None = None
        self.planned: list[PlannedSend]

    def resume(self, _outcome: object = None) -> None:
        message_id, body_md5, position, _ = self.planned[0]
        queue, number = self.queue, ""
        if self.draft is None:
            queue.added(self.planned)
        else:
            assert isinstance(queue, FifoQueue)
            queue.sent_one(self.draft, self.planned[0])
            number = f',"SequenceNumber":"{native.sequence_number(position, queue.partition)}"'
        body = f'{{"MessageId":"{message_id}","MD5OfMessageBody":"{body_md5}"{number}}}'
        self._exchange.reply(200, _HEADERS % self._lane.request_ids().encode(), body.encode())

    def fail(self, error: OperationError) -> None:
        lane, request, exchange = self._lane, self.request, self._exchange
        lane.go_on(request, exchange, self.caller, self.sent, self.identity, error)
