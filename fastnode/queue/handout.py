"""The short way of a receive and of a delete: messages that nobody has received before are handed
out, and messages that are hidden are removed, each planned and submitted in one step.

Whatever is more than that, `receive.py` and `delete.py` do; here it is left alone, and then nothing
has happened. What is written, and what memory learns, is the same.
"""

from collections.abc import Sequence
from typing import Final

from fastnode.errors import OperationError
from fastnode.flow import Resumable
from fastnode.native import MessageState, plan_delete, plan_receive, show_messages
from fastnode.queue.caller import CLIENT_RETRIES, RECEIVES, SERVER_ATTEMPTS
from fastnode.queue.choice import Hidden, PlainChoice
from fastnode.queue.fifo_live import FifoQueue
from fastnode.queue.fullness import may_be_full
from fastnode.queue.plans import Claim
from fastnode.queue.receive_one import Received
from fastnode.queue.service import Service
from fastnode.queue.standard_live import StandardQueue

# Queues whose messages are in one group of nodes.
PlainQueue = StandardQueue | FifoQueue
# To ask a tuple is quicker than to ask a union.
PLAIN_QUEUES: Final = (StandardQueue, FifoQueue)


class Handout:
    """A receive that is submitted."""

    __slots__ = (
        "choice",
        "commit_ts",
        "generation",
        "queue",
        "request",
        "visible_at",
        "waiting",
    )

    def __init__(
        self,
        request: bytes,
        queue: PlainQueue,
        commit_ts: int,
        visible_at: int,
        choice: PlainChoice,
    ) -> None:
        self.request = request
        self.queue = queue
        self.generation = queue.generation
        self.commit_ts = commit_ts
        self.visible_at = visible_at
        self.choice = choice
        # Of the queue's memory, where it has a claim; see `Claim`.
        self.waiting = queue.waiting

    def landed(self) -> None:
        self.waiting.settle(self.choice.first)
        self.queue.delivered(self.choice, self.commit_ts, self.visible_at)

    def failed(self) -> None:
        claim = Claim(self.queue, self.waiting, self.choice.first)
        claim.give_back(self.choice.decoded())
        claim.settle()

    def answer(self) -> bytes:
        queue = self.queue
        secret, generation, partition = queue.receipt_secret, queue.generation, queue.partition
        return show_messages(secret, generation, partition, self.commit_ts, self.choice.items)

    def received(self) -> Received:
        """As the long way has it."""
        state = MessageState(self.commit_ts, 1, self.visible_at, self.commit_ts >> 16)
        taken = self.choice.decoded().messages
        return Received(self.queue, self.generation, taken, [state] * len(taken), False)


def submit_receive(
    service: Service,
    queue: PlainQueue,
    invocation: bytes,
    limit: int,
    visibility_ms: int,
    waiting: Resumable,
) -> Handout | None:
    """None: the long way has to look. `OperationError` if nothing can be planned now."""
    if may_be_full(queue) or service.polls.has(invocation):
        return None
    group, begun = queue.group, queue.group.boottime_ns()
    choice = queue.take_plain(limit, group.now())
    if choice is None:
        return None
    items, latched = choice.items, choice.keys
    request = invocation or service.new_request()
    try:
        start_ts, commit_ts = group.stamp(request)
    except OperationError:
        queue.untake(choice)
        raise
    service.fanout.add(1, len(items), group.boottime_ns() - begun)
    visible_at = commit_ts + (visibility_ms << 16)
    keys, mark, heads = queue.handout_keys, choice.mark, choice.heads.values()
    encoded = plan_receive(
        request, start_ts, commit_ts, RECEIVES, keys, visible_at, mark, items, heads
    )
    group.latches.hold(latched)
    group.submit_encoded(request, commit_ts, encoded, waiting, latched)
    # Only now: whoever is woken plans at once, and its transaction must come after this one.
    if queue.waiters and queue.has_available():
        queue.waiters.wake_one()
    return Handout(request, queue, commit_ts, visible_at, choice)


def may_wait(service: Service, queue: PlainQueue, identity: bytes) -> bool:
    """Whether a receive that `submit_receive` left alone finds nothing on the long way either."""
    return not (may_be_full(queue) or service.polls.has(identity) or queue.has_available())


class Removal:
    """A delete that is submitted."""

    __slots__ = ("hidden", "queue", "request")

    def __init__(self, request: bytes, queue: PlainQueue, hidden: Hidden) -> None:
        self.request = request
        self.queue = queue
        self.hidden = hidden

    def landed(self) -> None:
        self.queue.deleted(self.hidden)


def submit_delete(
    service: Service,
    queue: PlainQueue,
    invocation: bytes,
    handles: Sequence[bytes],
    waiting: Resumable,
) -> Removal | None:
    """As `submit_receive`. All handles are good, or the long way has to look."""
    group = queue.group
    hidden = queue.hidden(handles, group.latches.held)
    if hidden is None:
        return None
    keys, mask = queue.handout_keys, (1 << len(handles)) - 1
    request = invocation or service.new_request()
    retention = CLIENT_RETRIES if invocation else SERVER_ATTEMPTS
    start_ts, commit_ts = group.stamp(request)
    encoded = plan_delete(
        request, start_ts, commit_ts, retention, keys, mask, hidden.times, hidden.unfiling
    )
    group.latches.hold(hidden.keys)
    group.submit_encoded(request, commit_ts, encoded, waiting, hidden.keys)
    return Removal(request, queue, hidden)
