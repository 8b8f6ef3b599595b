"""The short way of a plain SendMessage: known caller, live queue, nothing but a body and, for a
FIFO queue, its ids.

Nine in ten requests of a busy queue look like this, and for them the general way (codec, coroutine,
rules, each with its calls) costs three times what storing the message does. The lane takes a
request only if the general way would store it too, and gives the same answer; everything else,
every refusal included, it leaves alone. `tests/unit/http/test_send_lane.py` holds the two together.
"""

import re
from typing import Final

import msgspec

from fastnode.errors import OperationError
from fastnode.http.exchange import Exchange
from fastnode.http.http1 import Request
from fastnode.http.invocation import is_first_attempt
from fastnode.http.lane import HEADERS, TARGET_PREFIX, Lane, is_bare
from fastnode.http.response import whole_response
from fastnode.native import (
    PlainSend,
    fill_answer,
    read_send,
    sequence_number,
)
from fastnode.queue import fifo_send
from fastnode.queue.api import SendMessageRequest
from fastnode.queue.caller import Caller
from fastnode.queue.fifo_live import FifoQueue
from fastnode.queue.live import LiveQueue
from fastnode.queue.repeats import request_at
from fastnode.queue.send import submit_one

TARGET: Final = TARGET_PREFIX + b"SendMessage"
_DIGITS: Final = 20
_decode: Final = msgspec.json.Decoder(SendMessageRequest).decode


def _pieces(number: bytes) -> tuple[bytes, ...]:
    """What `fill_answer` fills: an answer, cut where the ids, the digest and the number belong."""
    ids = b'{"MessageId":"%b","MD5OfMessageBody":"%b"%b}' % (b"\x01" * 36, b"\x02" * 32, number)
    cut = re.split(rb"[\x00-\x03]+", whole_response(200, HEADERS % b"\x00", b"", ids))
    return (*cut, b"")[:5]


_ANSWER: Final = _pieces(b"")
_FIFO_ANSWER: Final = _pieces(b',"SequenceNumber":"%b"' % (b"\x03" * _DIGITS))


class SendLane(Lane):
    action = "SendMessage"

    def take(self, request: Request, exchange: Exchange) -> bool:
        sent = read_send(request.body) if is_bare(request) else None
        if sent is None:
            return False
        caller = self.quick_caller(request)
        if caller is None:
            return False
        if not self._sent(request, exchange, caller, sent):
            # What was proved so far need not be proved again.
            self.go_on(request, exchange, caller, _decode(request.body))
        return True

    def _sent(self, request: Request, exchange: Exchange, caller: Caller, sent: PlainSend) -> bool:
        queue_url, body, group_id, deduplication_id = sent
        queue = self.open_queue(caller, queue_url)
        if queue is None:
            return False
        settings = queue.settings
        if len(body) > settings.maximum_message_size:
            return False
        try:
            if settings.is_fifo:
                filed = _FifoPending(self, request, exchange, caller, queue)
                return self._submit_fifo(filed, group_id, deduplication_id, body)
            if settings.delay_seconds or queue.tenants is not None or group_id is not None:
                return False
            identity, retention = self.identity_of(request, caller)
            pending = _Pending(self, request, exchange, caller, queue, identity)
            pending.commit_ts, pending.record = submit_one(
                queue, identity, retention, caller.sender_id, body, pending
            )
        except OperationError:
            return False
        return True

    def _submit_fifo(
        self,
        pending: "_FifoPending",
        group_id: str | None,
        deduplication_id: str | None,
        body: bytes,
    ) -> bool:
        queue = pending.queue
        if group_id is None:
            return False
        if queue.record.partition_groups and not is_first_attempt(pending.request):
            # It may have landed in a partition of another queue of that name.
            return False
        shard = queue.shard_for(group_id)
        assert isinstance(shard, FifoQueue)
        drafts = fifo_send.plain_drafts(shard, ((group_id, deduplication_id),), (body,))
        if drafts is None:
            return False
        caller = pending.caller
        pending.identity, retention = self.identity_of(pending.request, caller)
        request = request_at(pending.identity, shard.partition)
        stamps = shard.group.stamp(request)
        pending.group_id, pending.commit_ts, pending.queue = group_id, stamps[1], shard
        pending.record = fifo_send.submit_one(
            shard, (request, retention), stamps, caller.sender_id, drafts[0], pending
        )
        return True


class _Pending:
    """A submitted message; what `store` resumes instead of a coroutine."""

    __slots__ = (
        "answer",
        "caller",
        "commit_ts",
        "exchange",
        "identity",
        "lane",
        "queue",
        "record",
        "request",
        "request_id",
    )

    def __init__(
        self,
        lane: SendLane,
        request: Request,
        exchange: Exchange,
        caller: Caller,
        queue: LiveQueue,
        identity: bytes = b"",
    ) -> None:
        self.lane = lane
        self.request = request
        self.exchange = exchange
        self.caller = caller
        self.queue = queue
        self.identity = identity
        self.commit_ts = 0
        self.record = b""
        self.answer = b""
        self.request_id = ""

    def prepare(self) -> None:
        self.request_id = request_id = self.lane.request_ids()
        self.answer = fill_answer(_ANSWER, request_id, self.record)

    def resume(self, _outcome: object = None) -> None:
        if not self.answer:
            self.prepare()
        self.queue.added_plain(self.commit_ts << 16, (self.record,))
        self.lane.write(self.exchange, self.request_id, self.answer)

    def fail(self, error: OperationError) -> None:
        decoded = _decode(self.request.body)
        self.lane.go_on(self.request, self.exchange, self.caller, decoded, self.identity, error)


class _FifoPending(_Pending):
    __slots__ = ("group_id", "number")

    def __init__(
        self,
        lane: SendLane,
        request: Request,
        exchange: Exchange,
        caller: Caller,
        queue: LiveQueue,
    ) -> None:
        super().__init__(lane, request, exchange, caller, queue)
        self.group_id = ""
        self.number = ""

    def prepare(self) -> None:
        self.request_id = request_id = self.lane.request_ids()
        self.number = sequence_number(self.commit_ts << 16, self.queue.partition)
        self.answer = fill_answer(_FIFO_ANSWER, request_id, self.record, self.number)

    def resume(self, _outcome: object = None) -> None:
        if not self.answer:
            self.prepare()
        queue, lane, request_id, answer = self.queue, self.lane, self.request_id, self.answer
        assert isinstance(queue, FifoQueue)
        queue.sent_one(self.commit_ts << 16, self.group_id, self.record)
        if len(self.number) == _DIGITS:
            lane.write(self.exchange, request_id, answer)
        else:
            # Its length is not that of the template.
            lane.reply(self.exchange, request_id, answer.partition(b"\r\n\r\n")[2])
