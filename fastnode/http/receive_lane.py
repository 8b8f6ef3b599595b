"""The short way of a ReceiveMessage that asks for no attributes: it finds messages, or waits for
some.

As in `handout_lane.py`: a request is taken only if the general way would do the same, and the
answer is the same. A receive that finds nothing and does not wait is left alone.
"""

from typing import Any, Final

from msgspec.structs import replace

from fastnode.errors import OperationError
from fastnode.flow import start
from fastnode.http.exchange import Exchange
from fastnode.http.handout_lane import HandoutLane, Pending
from fastnode.http.http1 import Request
from fastnode.native import PlainReceive, read_receive
from fastnode.queue.api import ReceiveMessageRequest
from fastnode.queue.caller import Caller
from fastnode.queue.handout import Handout, PlainQueue, may_wait, submit_receive
from fastnode.queue.long_poll import Waiter
from fastnode.queue.receive_one import give_back

_EMPTY: Final = b"{}"


class ReceiveLane(HandoutLane):
    action = "ReceiveMessage"

    def __init__(self, *parts: Any) -> None:
        super().__init__(ReceiveMessageRequest, read_receive, *parts)

    def _begin(
        self, request: Request, exchange: Exchange, caller: Caller, plain: PlainReceive
    ) -> bool:
        queue = self.plain_queue(caller, plain[0])
        if queue is None:
            return False
        identity = self.invocation(request, caller)
        pending = _Receive(self, request, exchange, caller, queue, identity, plain)
        return pending.submit() or pending.wait()


class _Receive(Pending):
    __slots__ = (
        "answer",
        "deadline_ms",
        "identity",
        "limit",
        "queue",
        "queue_url",
        "timeout",
        "wait_seconds",
        "waiter",
        "work",
    )

    def __init__(
        self,
        lane: ReceiveLane,
        request: Request,
        exchange: Exchange,
        caller: Caller,
        queue: PlainQueue,
        identity: bytes,
        plain: PlainReceive,
    ) -> None:
        super().__init__(lane, request, exchange, caller)
        self.queue = queue
        self.identity = identity  # empty until it waits, unless the client gave one
        # The timeout is in seconds; None: as the queue is set, until it waits.
        self.queue_url, self.limit, self.timeout, self.wait_seconds = plain
        self.work: Handout | None = None
        self.answer = b""
        self.deadline_ms = 0  # from the first wait on
        self.waiter: Waiter | None = None  # while it waits

    def submit(self) -> bool:
        """False if there is nothing that could be handed out as it is."""
        queue, timeout = self.queue, self.timeout
        timeout_ms = queue.settings.visibility_timeout_ms if timeout is None else timeout * 1000
        self.answer = b""
        self.work = submit_receive(
            self.lane.service, queue, self.identity, self.limit, timeout_ms, self
        )
        return self.work is not None

    def prepare(self) -> None:
        assert self.work is not None
        self.answer = self.work.answer()

    def resume(self, _outcome: object = None) -> None:
        work, exchange = self.work, self.exchange
        assert work is not None
        work.landed()
        if exchange.is_closed or exchange.is_overdue:
            # Nobody is left to read the answer.
            start(give_back(self.lane.service, work.received()), self._gave_back)
        else:
            self.lane.answer(exchange, self.answer or work.answer())

    def _gave_back(self, _result: object, error: BaseException | None) -> None:
        if error is None:
            self.lane.answer(self.exchange, _EMPTY)
        else:
            assert isinstance(error, OperationError) and self.work is not None, error
            self._go_on(self.work.request, error)

    def fail(self, error: OperationError) -> None:
        assert self.work is not None
        self.work.failed()
        self._go_on(self.work.request, error, self.deadline_ms)

    def _go_on(
        self, identity: bytes, error: OperationError | None = None, deadline_ms: int = 0
    ) -> None:
        lane, request, exchange = self.lane, self.request, self.exchange
        decoded = replace(lane.decode(request.body), visibility_timeout=self.timeout)
        lane.go_on(request, exchange, self.caller, decoded, identity, error, deadline_ms)

    # --- waiting for a message ---------------------------------------------------------------

    def wait(self) -> bool:
        """True if there is nothing to give yet, and there is time to wait for it."""
        queue, exchange, service = self.queue, self.exchange, self.lane.service
        now_ms = queue.group.now() >> 16
        if not self.deadline_ms:
            self._settle(now_ms)
        if now_ms >= self.deadline_ms or exchange.is_closed:
            return False
        if not may_wait(service, queue, self.identity):
            return False
        self.identity = self.identity or service.new_request()
        # Raises where the long way would not wait either.
        queue.group.stamp(self.identity)
        service.polls.begin(self.identity, self)
        self.waiter = waiter = queue.wait(self.deadline_ms, self._waited)
        exchange.on_close = waiter.leave
        return True

    def _settle(self, now_ms: int) -> None:
        """What the queue is set to when a call comes holds for as long as it waits."""
        settings, seconds = self.queue.settings, self.wait_seconds
        self.deadline_ms = now_ms + 1000 * (settings.wait_seconds if seconds is None else seconds)
        if self.timeout is None:
            self.timeout = settings.visibility_timeout_ms // 1000

    def stop_waiting(self) -> None:
        """The client repeats the call."""
        if self.waiter is not None:
            self.waiter.leave()

    def _waited(self, is_woken: bool) -> None:
        self.waiter = None
        self.lane.service.polls.end(self.identity, self)
        if is_woken and self.exchange.is_closed:
            self.queue.waiters.wake_one()
            is_woken = False
        if not (is_woken and self._is_there()):
            self.lane.answer(self.exchange, _EMPTY)
        elif not self._goes_on():
            self._go_on(self.identity, None, self.deadline_ms)

    def _is_there(self) -> bool:
        """The world may have changed during the wait: a queue that is gone has nothing to give."""
        queue = self.queue
        return self.lane.service.find(queue.account, queue.region, queue.name) is queue

    def _goes_on(self) -> bool:
        try:
            is_same = self.lane.plain_queue(self.caller, self.queue_url) is self.queue
            return is_same and (self.submit() or self.wait())
        except OperationError:
            return False
