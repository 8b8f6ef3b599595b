"""The short ways of a DeleteMessage and of a DeleteMessageBatch, and what they share with receives:
known caller, live queue, nothing to refuse.

As in `send_lane.py`: a request is taken only if the general way would do the same, and the answer
is the same. Every refusal is left alone. `tests/unit/http/test_handout_lane.py` holds the two
together.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Struct

from fastnode.errors import OperationError
from fastnode.http.exchange import Exchange
from fastnode.http.http1 import Request
from fastnode.http.invocation import invocation_of, is_first_attempt
from fastnode.http.lane import Lane, is_bare
from fastnode.native import PlainDelete, read_delete, read_delete_batch
from fastnode.queue.api import (
    DeleteMessageBatchRequest,
    DeleteMessageRequest,
)
from fastnode.queue.caller import Caller
from fastnode.queue.handout import PLAIN_QUEUES, PlainQueue, Removal, submit_delete

_EXPLAIN: Final = b"x-fastnode-explain"
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class HandoutLane(Lane):
    """`shape` is what the general way decodes; `read` gives None for what is not plain."""

    def __init__(self, shape: type[Struct], read: Callable[[bytes], Any], *parts: Any) -> None:
        super().__init__(*parts)
        self.decode = msgspec.json.Decoder(shape).decode
        self.read = read

    def _begin(self, request: Request, exchange: Exchange, caller: Caller, plain: Any) -> bool:
        """True if it is on its way."""
        raise NotImplementedError

    def take(self, request: Request, exchange: Exchange) -> bool:
        if not is_bare(request) or request.has(_EXPLAIN) or not is_first_attempt(request):
            return False
        plain, decoded = self.read(request.body), None
        if plain is None:
            try:
                decoded = self.decode(request.body)
            except _UNREADABLE:
                return False
        caller = self.quick_caller(request)
        if caller is None:
            return False
        try:
            is_taken = plain is not None and self._begin(request, exchange, caller, plain)
        except OperationError:
            is_taken = False
        if not is_taken:
            # What was read and proved so far need not be read and proved again.
            self.go_on(request, exchange, caller, decoded or self.decode(request.body))
        return True

    def plain_queue(self, caller: Caller, queue_url: str) -> PlainQueue | None:
        queue = self.service.live_queue(caller, queue_url)
        return queue if isinstance(queue, PLAIN_QUEUES) and queue.throttle is None else None

    def invocation(self, request: Request, caller: Caller) -> bytes:
        """The identity that the client gave to its call, if it did."""
        if not self.service.gates.recognises_retries:
            return b""
        return invocation_of(request, caller.sender_id, self.action)


class _Deleting(HandoutLane):
    def _begin(
        self, request: Request, exchange: Exchange, caller: Caller, plain: PlainDelete
    ) -> bool:
        queue_url, handles, answer = plain
        queue = self.plain_queue(caller, queue_url)
        if queue is None:
            return False
        pending = _Delete(self, request, exchange, caller, answer)
        invocation = self.invocation(request, caller)
        pending.work = submit_delete(self.service, queue, invocation, handles, pending)
        return pending.work is not None


class DeleteLane(_Deleting):
    action = "DeleteMessage"

    def __init__(self, *parts: Any) -> None:
        super().__init__(DeleteMessageRequest, read_delete, *parts)


class DeleteBatchLane(_Deleting):
    action = "DeleteMessageBatch"

    def __init__(self, *parts: Any) -> None:
        super().__init__(DeleteMessageBatchRequest, read_delete_batch, *parts)


class Pending:
    """A submitted call; what `store` resumes instead of a coroutine."""

    __slots__ = ("caller", "exchange", "lane", "request")

    def __init__(
        self, lane: HandoutLane, request: Request, exchange: Exchange, caller: Caller
    ) -> None:
        self.lane = lane
        self.request = request
        self.exchange = exchange
        self.caller = caller


class _Delete(Pending):
    __slots__ = ("answer", "work")

    def __init__(
        self,
        lane: HandoutLane,
        request: Request,
        exchange: Exchange,
        caller: Caller,
        answer: bytes,
    ) -> None:
        super().__init__(lane, request, exchange, caller)
        self.answer = answer
        self.work: Removal | None = None

    def prepare(self) -> None:
        """The answer was known before."""

    def resume(self, _outcome: object = None) -> None:
        assert self.work is not None
        self.work.landed()
        self.lane.answer(self.exchange, self.answer)

    def fail(self, error: OperationError) -> None:
        assert self.work is not None
        lane, request = self.lane, self.request
        decoded = lane.decode(request.body)
        lane.go_on(request, self.exchange, self.caller, decoded, self.work.request, error)
