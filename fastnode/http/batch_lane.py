"""The short way of a plain SendMessageBatch: as that of a plain SendMessage, see `send_lane.py`.

It takes a batch only if the general way would store every entry of it in one transaction.
`tests/unit/http/test_batch_lane.py` holds the two together.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from fastnode.config import MESSAGE_BYTES_MAX
from fastnode.errors import OperationError
from fastnode.http.exchange import Exchange
from fastnode.http.http1 import Request
from fastnode.http.lane import HEADERS, TARGET_PREFIX, Lane, is_bare
from fastnode.http.response import response_head
from fastnode.native import (
    FifoDraft,
    PlainBatch,
    fill_batch_answer,
    read_batch,
    sequence_number,
)
from fastnode.queue import fifo_send
from fastnode.queue.api import SendMessageBatchRequest
from fastnode.queue.caller import Caller
from fastnode.queue.fifo_live import FifoQueue
from fastnode.queue.live import LiveQueue
from fastnode.queue.repeats import request_at
from fastnode.queue.send import submit_bodies

BATCH_TARGET: Final = TARGET_PREFIX + b"SendMessageBatch"
_decode: Final = msgspec.json.Decoder(SendMessageBatchRequest).decode


def _pieces() -> tuple[bytes, bytes]:
    """What `fill_batch_answer` fills: a head, cut at the id of the request and at its length."""
    before, _, after = response_head(200, HEADERS % b"\x00", b"", 0).partition(b"\x00")
    return before, after.removesuffix(b"0\r\n\r\n")


_ANSWER: Final = _pieces()


class BatchLane(Lane):
    action = "SendMessageBatch"

    def take(self, request: Request, exchange: Exchange) -> bool:
        # Bodies become no longer by being decoded, so none of these is too long for the API.
        if len(request.body) > MESSAGE_BYTES_MAX or not is_bare(request):
            return False
        batch = read_batch(request.body)
        if batch is None:
            return False
        caller = self.quick_caller(request)
        if caller is None:
            return False
        if not self._sent(request, exchange, caller, batch):
            # What was proved so far need not be proved again.
            self.go_on(request, exchange, caller, _decode(request.body))
        return True

    def _sent(
        self, request: Request, exchange: Exchange, caller: Caller, batch: PlainBatch
    ) -> bool:
        queue_url, ids, bodies, filed = batch
        queue = self.open_queue(caller, queue_url)
        if queue is None:
            return False
        settings = queue.settings
        size_max = settings.maximum_message_size
        if len(request.body) > size_max and max(map(len, bodies)) > size_max:
            return False
        pending = _Pending(self, request, exchange, caller, ids, queue)
        try:
            if settings.is_fifo:
                return self._submit_fifo(queue, bodies, filed, pending)
            if filed or settings.delay_seconds or queue.tenants is not None:
                return False
            identity, retention = self.identity_of(request, caller)
            pending.identity = identity
            pending.commit_ts, pending.records = submit_bodies(
                queue, identity, retention, caller.sender_id, bodies, pending
            )
        except OperationError:
            return False
        return True

    def _submit_fifo(
        self,
        queue: LiveQueue,
        bodies: Sequence[bytes],
        filed: Sequence[tuple[str, str | None]],
        pending: "_Pending",
    ) -> bool:
        # Entries for several partitions would need several transactions.
        if not filed or not isinstance(queue, FifoQueue):
            return False
        drafts = fifo_send.plain_drafts(queue, filed, bodies)
        if drafts is None:
            return False
        caller = pending.caller
        pending.identity, retention = self.identity_of(pending.request, caller)
        request = request_at(pending.identity, queue.partition)
        stamps = queue.group.stamp(request)
        pending.drafts, pending.commit_ts = drafts, stamps[1]
        pending.records = fifo_send.submit(
            queue, (request, retention), stamps, caller.sender_id, drafts, pending
        )
        return True


class _Pending:
    """A submitted batch; what `store` resumes instead of a coroutine."""

    __slots__ = (
        "answer",
        "caller",
        "commit_ts",
        "drafts",
        "exchange",
        "identity",
        "ids",
        "lane",
        "queue",
        "records",
        "request",
        "request_id",
    )

    def __init__(
        self,
        lane: BatchLane,
        request: Request,
        exchange: Exchange,
        caller: Caller,
        ids: list[bytes],
        queue: LiveQueue,
    ) -> None:
        self.lane = lane
        self.request = request
        self.exchange = exchange
        self.caller = caller
        self.ids = ids
        self.queue = queue
        self.identity = b""
        self.commit_ts = 0
        self.records: Sequence[bytes] = ()
        # Of messages in a FIFO queue.
        self.drafts: Sequence[FifoDraft] = ()
        self.answer = b""
        self.request_id = ""

    def prepare(self) -> None:
        records, position, numbers = self.records, self.commit_ts << 16, []
        if self.drafts:
            partition = self.queue.partition
            numbers = [sequence_number(position | n, partition) for n in range(len(records))]
        self.request_id = request_id = self.lane.request_ids()
        self.answer = fill_batch_answer(_ANSWER, request_id, self.ids, records, numbers)

    def resume(self, _outcome: object = None) -> None:
        if not self.answer:
            self.prepare()
        queue = self.queue
        if self.drafts:
            assert isinstance(queue, FifoQueue)
            queue.sent(self.commit_ts, self.drafts, self.records)
        else:
            queue.added_plain(self.commit_ts << 16, self.records)
        self.lane.write(self.exchange, self.request_id, self.answer)

    def fail(self, error: OperationError) -> None:
        decoded = _decode(self.request.body)
        self.lane.go_on(self.request, self.exchange, self.caller, decoded, self.identity, error)
