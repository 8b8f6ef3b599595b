"""ReceiveMessage: one transaction for up to ten messages, and the wait for the first of them."""

from collections.abc import Callable
from typing import Final

from fastnode import config, native
from fastnode.errors import OperationError
from fastnode.native import MessageState
from fastnode.queue import validate
from fastnode.queue.api import Message, ReceiveMessageRequest, ReceiveMessageResponse
from fastnode.queue.caller import Call
from fastnode.queue.digest import attributes_md5
from fastnode.queue.errors import too_many_in_flight
from fastnode.queue.live import TIMER_RECEIVED, Choice, LiveQueue, Taken
from fastnode.queue.message_attributes import (
    TRACE_HEADER,
    MessageExtras,
    decode_extras,
    wire_values,
)
from fastnode.queue.service import Service
from fastnode.queue.timers import Timer
from fastnode.queue.validate import ValidReceive
from fastnode.store.txn import Txn

EMPTY: Final = ReceiveMessageResponse()
_MARK_BYTES: Final = 10


async def receive_message(
    service: Service, call: Call, request: ReceiveMessageRequest
) -> ReceiveMessageResponse:
    queue = await service.queue(call, request.queue_url)
    valid = validate.receive_message(request, queue.settings)
    deadline_ms = (queue.group.now() >> 16) + valid.wait_seconds * 1000
    while True:
        response = await _receive_now(service, queue, valid)
        if response.messages or not await _wait(queue, call, deadline_ms):
            return response
        # The world may have changed during the wait: a queue that is gone has nothing to give.
        found = service.find(queue.account, queue.region, queue.name)
        if found is not queue:
            return EMPTY
        queue = await service.queue(call, request.queue_url)


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


async def _receive_now(
    service: Service, queue: LiveQueue, valid: ValidReceive
) -> ReceiveMessageResponse:
    group, keys = queue.group, queue.messages
    txn = group.begin(service.new_request())
    if group.counter(keys.in_flight) >= config.IN_FLIGHT_MESSAGES_MAX:
        _check_in_flight(queue, txn.commit_ts, valid)
    choice = queue.choose(valid.messages_max, txn.commit_ts)
    if not choice.messages and not choice.expired:
        return EMPTY
    states = [_plan(queue, txn, taken, valid) for taken in choice.messages]
    for taken in choice.expired:
        plan_removal(queue, txn, taken.position, taken.state)
    claimed = _plan_mark(queue, txn, choice)
    outcome = group.submit(txn)
    # Only now: whoever is woken plans at once, and its transaction must come after this one.
    if queue.waiters and queue.has_available():
        queue.waiters.wake_one()
    try:
        await outcome
    except OperationError:
        queue.give_back(choice)
        raise
    finally:
        if claimed is not None:
            queue.waiting.settle(claimed)
    for taken, state in zip(choice.messages, states, strict=True):
        queue.scheduled(Timer(state.visible_at, taken.position, True))
    for taken in choice.expired:
        queue.removed(taken.position)
    pairs = zip(choice.messages, states, strict=True)
    return ReceiveMessageResponse([_answer(queue, valid, *pair) for pair in pairs])


def _check_in_flight(queue: LiveQueue, now: int, valid: ValidReceive) -> None:
    if queue.counts(now).in_flight >= config.IN_FLIGHT_MESSAGES_MAX and not valid.wait_seconds:
        raise too_many_in_flight()


def _plan(queue: LiveQueue, txn: Txn, taken: Taken, valid: ValidReceive) -> MessageState:
    keys, old = queue.messages, taken.state
    now = txn.commit_ts
    visible_at = now + (valid.visibility_timeout_ms << 16)
    if old is None:
        state = MessageState(now, 1, visible_at, now >> 16)
    else:
        first_receive_ms = old.first_receive_ms or now >> 16
        state = MessageState(now, old.receive_count + 1, visible_at, first_receive_ms)
        txn.delete_fresh(keys.timer_key(old.visible_at, taken.position))
    txn.put(keys.state_key(taken.position), native.encode_state(*state))
    txn.put_fresh(keys.timer_key(visible_at, taken.position), TIMER_RECEIVED)
    return state


def plan_removal(queue: LiveQueue, txn: Txn, position: int, state: MessageState | None) -> None:
    """The message goes, with everything that belongs to it; its state key guards the rest."""
    keys = queue.messages
    txn.delete(keys.state_key(position))
    txn.delete_fresh(keys.data_key(position))
    txn.add(keys.total, -1)
    if state is not None:
        txn.delete_fresh(keys.timer_key(state.visible_at, position))
        txn.add(keys.in_flight if state.receive_count else keys.delayed, -1)


def _plan_mark(queue: LiveQueue, txn: Txn, choice: Choice) -> int | None:
    """Counters and the low-water mark; the claim to settle when the transaction is through."""
    txn.check(queue.keys.generation)
    received = [taken for taken in choice.messages if taken.state is None or not taken.state.nonce]
    delayed = sum(1 for taken in received if taken.state is not None)
    if received:
        txn.add(queue.messages.in_flight, len(received))
    if delayed:
        txn.add(queue.messages.delayed, -delayed)
    first = min(
        (t.position for t in (*choice.messages, *choice.expired) if t.state is None), default=None
    )
    if first is not None:
        mark = queue.waiting.claim(first)
        txn.raise_to(queue.messages.mark, mark.to_bytes(_MARK_BYTES, "big"))
    return first


# --- the answer ------------------------------------------------------------------------------


def _answer(queue: LiveQueue, valid: ValidReceive, taken: Taken, state: MessageState) -> Message:
    record = taken.record
    extras = decode_extras(record.extras)
    selected = valid.selector.select(extras.attributes)
    return Message(
        message_id=native.message_id_text(record.message_id),
        receipt_handle=native.encode_receipt(
            queue.record.secret, queue.generation, record.message_id, state.nonce
        ),
        md5_of_body=record.body_md5.hex(),
        body=record.body.decode(),
        attributes=_system_attributes(valid.system_names, taken, state, extras),
        md5_of_message_attributes=attributes_md5(selected),
        message_attributes=wire_values(selected),
    )


_SystemValue = Callable[[Taken, MessageState, MessageExtras], str | None]
_SYSTEM_VALUES: Final[dict[str, _SystemValue]] = {
    "SenderId": lambda taken, _state, _extras: taken.record.sender,
    "SentTimestamp": lambda taken, _state, _extras: str(taken.record.sent_ms),
    "ApproximateReceiveCount": lambda _taken, state, _extras: str(state.receive_count),
    "ApproximateFirstReceiveTimestamp": lambda _taken, state, _extras: str(state.first_receive_ms),
    "MessageGroupId": lambda _taken, _state, extras: extras.group_id,
    TRACE_HEADER: lambda _taken, _state, extras: extras.trace_header,
}


def _system_attributes(
    names: frozenset[str], taken: Taken, state: MessageState, extras: MessageExtras
) -> dict[str, str]:
    if not names:
        return {}
    values = ((n, of(taken, state, extras)) for n, of in _SYSTEM_VALUES.items() if n in names)
    return {name: value for name, value in values if value is not None}
