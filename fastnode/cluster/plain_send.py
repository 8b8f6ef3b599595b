"""The short way of a plain SendMessage that another node took: nothing but a body, for a queue that
is in memory and needs nothing more. `http/send_lane.py` is the same for a client's own node.

It takes a call only if the handler would store the message too, and gives the same answer;
everything else it leaves to the handler.
"""

from collections.abc import Callable

from fastnode.errors import OperationError, PlanAgain
from fastnode.flow import OnDone
from fastnode.native import PlannedSend, encode_text
from fastnode.queue.api import SendMessageRequest, SendMessageResponse
from fastnode.queue.caller import Call
from fastnode.queue.live import LiveQueue
from fastnode.queue.send import submit_plain
from fastnode.queue.service import Service
from fastnode.queue.validate import is_plain


def begin_plain_send(
    service: Service, call: Call, request: object, on_done: OnDone, plan_again: Callable[[], None]
) -> bool:
    """True: `on_done` is told how it ended, or `plan_again` that the handler has to run after all.
    False: nothing has happened.
    """
    if not isinstance(request, SendMessageRequest) or not is_plain(request) or call.trace_header:
        return False
    queue = service.live_queue(call.caller, request.queue_url)
    if queue is None or not _is_plain_queue(queue):
        return False
    body = encode_text(request.message_body or "")
    if not body or len(body) > queue.settings.maximum_message_size:
        return False
    pending = _Pending(queue, on_done, plan_again)
    identity, sender = (service.identity(call), call.retention), call.caller.sender_id
    try:
        queue.group.require_room()
        pending.planned = submit_plain(queue, identity, sender, ((0, b"", body),), pending)
    except OperationError:
        return False
    return True


def _is_plain_queue(queue: LiveQueue) -> bool:
    settings = queue.settings
    is_indexed = settings.is_fifo or settings.delay_seconds or queue.tenants is not None
    return not is_indexed and queue.throttle is None


class _Pending:
    """A submitted message; what `store` resumes instead of a coroutine."""

    __slots__ = ("_on_done", "_plan_again", "_queue", "planned")

    def __init__(self, queue: LiveQueue, on_done: OnDone, plan_again: Callable[[], None]) -> None:
        self._queue = queue
        self._on_done = on_done
        self._plan_again = plan_again
        self.planned: list[PlannedSend]

    def prepare(self) -> None:
        """Another node makes the answer."""

    def resume(self, _outcome: object = None) -> None:
        message_id, body_md5, _, _ = self.planned[0]
        self._queue.messages_in += 1
        self._queue.added(self.planned)
        self._on_done(SendMessageResponse(message_id, body_md5), None)

    def fail(self, error: OperationError) -> None:
        if isinstance(error, PlanAgain):
            self._plan_again()
        else:
            self._on_done(None, error)
