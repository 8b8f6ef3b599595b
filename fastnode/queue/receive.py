"""ReceiveMessage: the messages of a queue, or of all its partitions, and the wait for the first."""

from collections.abc import Sequence
from typing import Final, TypeGuard

from fastnode.flow import gather
from fastnode.queue import fanout, validate
from fastnode.queue.api import ReceiveMessageRequest, ReceiveMessageResponse
from fastnode.queue.caller import Call
from fastnode.queue.live import LiveQueue
from fastnode.queue.partitions import PartitionedQueue
from fastnode.queue.receive_again import keep, received_before
from fastnode.queue.receive_answer import answers
from fastnode.queue.receive_one import (
    Budget,
    Received,
    give_back,
    receive_here,
    redelivered,
)
from fastnode.queue.service import Service
from fastnode.queue.validate import ValidReceive

EMPTY: Final = ReceiveMessageResponse()
# A receive that met only expired messages and dead letters, and too many, looks again, so often.
_PASSES_MAX: Final = 8


async def receive_message(
    service: Service, call: Call, request: ReceiveMessageRequest
) -> ReceiveMessageResponse:
    queue = await service.queue(call, request.queue_url)
    identity = call.request
    if not identity:
        return await _received(service, call, queue, request)
    service.polls.begin(identity, call)
    try:
        messages = await received_before(service, call, queue, request)
        if messages is not None:
            return ReceiveMessageResponse(messages)
        return await _received(service, call, queue, request)
    finally:
        service.polls.end(identity, call)


async def _received(
    service: Service, call: Call, queue: LiveQueue, request: ReceiveMessageRequest
) -> ReceiveMessageResponse:
    if queue.throttle is not None:
        queue.throttle.charge_receive(1, queue.group.now() >> 16)
    valid = validate.receive_message(request, queue.settings)
    # A node that repeats a receive has waited for its messages before.
    wait_ms = 0 if call.is_reused else valid.wait_seconds * 1000
    deadline_ms = call.deadline_ms or (queue.group.now() >> 16) + wait_ms
    again = await _repeated(service, queue, valid)
    if again:
        return ReceiveMessageResponse(answers(again, valid))
    passes_left = _PASSES_MAX
    while not call.is_gone:
        # From the start, or since a lead has gone elsewhere.
        if _is_spread(queue):
            messages = await fanout.receive(service, call, queue, valid, deadline_ms)
            return ReceiveMessageResponse(messages)
        budget = Budget(valid.messages_max)
        identity = service.identity(call)
        received = await receive_here(service, queue, identity, valid, budget)
        service.fanout.add(budget.visited, budget.rows, budget.nanoseconds)
        if call.wants_explanation:
            call.explanation = budget.explain()
        if any(part.messages for part in received):
            return await _handed_over(service, call, received, valid)
        passes_left -= 1
        looks_again = passes_left > 0 and any(part.is_cut_short for part in received)
        if not looks_again and not await _wait(queue, call, deadline_ms):
            break
        # The world may have changed during the wait: a queue that is gone has nothing to give.
        found = service.find(queue.account, queue.region, queue.name)
        if found is not queue:
            break
        queue = await service.queue(call, request.queue_url)
    return EMPTY


def _is_spread(queue: LiveQueue) -> TypeGuard[PartitionedQueue]:
    return isinstance(queue, PartitionedQueue) and not queue.is_led_here


async def _repeated(service: Service, queue: LiveQueue, valid: ValidReceive) -> list[Received]:
    """What an earlier receive of the same attempt id took, if all of it is here."""
    if valid.attempt_id is None or _is_spread(queue):
        return []
    return await redelivered(service, queue, valid)


async def _wait(queue: LiveQueue, call: Call, deadline_ms: int) -> bool:
    """True when it is worth looking again."""
    if call.is_gone or queue.group.now() >> 16 >= deadline_ms:
        return False
    waiter = queue.wait(deadline_ms)
    call.on_gone = waiter.leave
    is_woken: bool = await waiter
    call.on_gone = None
    if is_woken and call.is_gone:
        queue.waiters.wake_one()
    return is_woken and not call.is_gone


async def _handed_over(
    service: Service, call: Call, received: Sequence[Received], valid: ValidReceive
) -> ReceiveMessageResponse:
    """The answer; or, when nobody is left to read it, the messages are available again."""
    if not call.is_gone:
        for part in received:
            if call.is_repeated and part.states:
                keep(part.queue, part.states[0].nonce)
        return ReceiveMessageResponse(answers(received, valid))
    await gather(give_back(service, part) for part in received)
    return EMPTY
