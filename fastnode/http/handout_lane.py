"""The short ways of a DeleteMessage and of a DeleteMessageBatch, and what they share with receives:
known caller, live queue, nothing to refuse.

As in `send_lane.py`: a request is taken only if the general way would do the same, and the answer
is the same. Every refusal is left alone. `tests/unit/http/test_handout_lane.py` holds the two
together.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from fastnode.config import (
    BATCH_ENTRIES_MAX,
)
from fastnode.errors import OperationError
from fastnode.http.exchange import Exchange
from fastnode.http.http1 import Request
from fastnode.http.invocation import invocation_of, is_first_attempt
from fastnode.http.lane import Lane, is_bare
from fastnode.queue.api import (
    DeleteMessageBatchRequest,
    DeleteMessageRequest,
)
from fastnode.queue.caller import Caller
from fastnode.queue.handout import PlainQueue, Removal, submit_delete

_EXPLAIN: Final = b"x-fastnode-explain"
_ID_MAX: Final = 80
_COUNTS: Final = range(1, BATCH_ENTRIES_MAX + 1)


class HandoutLane(Lane, ABC):
    shape: type[Struct]

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._decode = msgspec.json.Decoder(self.shape).decode

    @abstractmethod
    def _begin(self, request: Request, exchange: Exchange, caller: Caller, decoded: Any) -> bool:
        """True if it is on its way."""

    def take(self, request: Request, exchange: Exchange) -> bool:
        if not is_bare(request) or _EXPLAIN in request.headers or not is_first_attempt(request):
            return False
        try:
            decoded = self._decode(request.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        caller = self.quick_caller(request)
        if caller is None:
            return False
        try:
            is_taken = self._begin(request, exchange, caller, decoded)
        except OperationError:
            is_taken = False
        if not is_taken:
            # What was read and proved so far need not be read and proved again.
            self.go_on(request, exchange, caller, decoded)
        return True

    def plain_queue(self, caller: Caller, queue_url: str | None) -> PlainQueue | None:
        queue = self.service.live_queue(caller, queue_url)
        return queue if isinstance(queue, PlainQueue) and queue.throttle is None else None

    def invocation(self, request: Request, caller: Caller) -> bytes:
        """The identity that the client gave to its call, if it did."""
        if not self.service.gates.recognises_retries:
            return b""
        return invocation_of(request, caller.sender_id, self.action)

    def _remove(self, pending: "_Delete", queue_url: str | None, handles: Sequence[str]) -> bool:
        queue = self.plain_queue(pending.caller, queue_url)
        if queue is None:
            return False
        invocation = self.invocation(pending.request, pending.caller)
        pending.work = submit_delete(self.service, queue, invocation, handles, pending)
        return pending.work is not None


class DeleteLane(HandoutLane):
    action = "DeleteMessage"
    shape = DeleteMessageRequest

    def _begin(
        self, request: Request, exchange: Exchange, caller: Caller, decoded: DeleteMessageRequest
    ) -> bool:
        pending = _Delete(self, request, exchange, caller, decoded)
        return self._remove(pending, decoded.queue_url, [decoded.receipt_handle or ""])


class DeleteBatchLane(HandoutLane):
    action = "DeleteMessageBatch"
    shape = DeleteMessageBatchRequest

    def _begin(
        self,
        request: Request,
        exchange: Exchange,
        caller: Caller,
        decoded: DeleteMessageBatchRequest,
    ) -> bool:
        entries = decoded.entries or ()
        ids = [entry.id or "" for entry in entries]
        if not _are_entry_ids(ids):
            return False
        handles = [entry.receipt_handle or "" for entry in entries]
        pending = _Delete(self, request, exchange, caller, decoded, _successful(ids))
        return self._remove(pending, decoded.queue_url, handles)


def _are_entry_ids(ids: Sequence[str]) -> bool:
    """As `batch.py` wants them; a few looks at all are cheaper than one at each."""
    joined = "".join(ids)
    letters = joined.replace("-", "").replace("_", "")
    if not joined.isascii() or not (letters.isalnum() or not letters):
        return False
    sizes = list(map(len, ids))
    has_distinct = len(set(ids)) == len(ids) in _COUNTS
    return has_distinct and min(sizes) > 0 and max(sizes) <= _ID_MAX


def _successful(ids: Sequence[str]) -> bytes:
    return b'{"Successful":[{"Id":"%b"}]}' % '"},{"Id":"'.join(ids).encode()


class Pending(Struct, eq=False):
    """A submitted call; what `store` resumes instead of a coroutine."""

    lane: HandoutLane
    request: Request
    exchange: Exchange
    caller: Caller
    decoded: Any  # in the shape of its lane

    def go_on(
        self, identity: bytes, error: OperationError | None = None, deadline_ms: int = 0
    ) -> None:
        lane, request, exchange = self.lane, self.request, self.exchange
        lane.go_on(request, exchange, self.caller, self.decoded, identity, error, deadline_ms)


class _Delete(Pending, eq=False):
    answer: bytes = b""
    work: Removal | None = None

    def resume(self, _outcome: object = None) -> None:
        assert self.work is not None
        self.work.landed()
        self.lane.answer(self.exchange, self.answer)

    def fail(self, error: OperationError) -> None:
        assert self.work is not None
        self.go_on(self.work.request, error)
