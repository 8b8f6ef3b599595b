"""ReceiveMessage: one transaction for up to ten messages, and the wait for the first of them."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from fastnode import config, native
from fastnode.errors import OperationError
from fastnode.flow import gather
from fastnode.native import MessageState
from fastnode.queue import attempts, dead_letters, validate
from fastnode.queue.api import Message, ReceiveMessageRequest, ReceiveMessageResponse
from fastnode.queue.caller import Call
from fastnode.queue.digest import attributes_md5
from fastnode.queue.errors import too_many_in_flight
from fastnode.queue.fair import plan_unfiling
from fastnode.queue.fifo_send import sequence_number
from fastnode.queue.live import TIMER_RECEIVED, Choice, LiveQueue, Taken
from fastnode.queue.message_attributes import (
    TRACE_HEADER,
    MessageExtras,
    decode_extras,
    wire_values,
)
from fastnode.queue.partitions import PartitionedQueue
from fastnode.queue.plans import plan_claim, plan_removal, plan_touch, unreceived_state
from fastnode.queue.service import Service
from fastnode.queue.timers import Timer
from fastnode.queue.validate import ValidReceive
from fastnode.store.txn import Txn

EMPTY: Final = ReceiveMessageResponse()
# A receive that met only expired messages and dead letters, and too many, looks again, so often.
_PASSES_MAX: Final = 8


class _Received(NamedTuple):
    """What one pass took, with the new state of each, and whether it had to stop early."""

    queue: LiveQueue
    generation: int
    messages: list[Taken]
    states: list[MessageState]
    is_cut_short: bool


class _Budget:
    """What one look may take from all partitions together, how long it may last, and what it cost.

    Choosing is timed; waiting and committing are not.
    """

    __slots__ = ("messages_left", "nanoseconds", "rows", "visited")

    def __init__(self, messages: int) -> None:
        self.messages_left = messages
        self.visited = 0
        self.rows = 0
        self.nanoseconds = 0

    @property
    def is_spent(self) -> bool:
        return not self.messages_left or self.nanoseconds > config.FANOUT_MS * 1_000_000

    def explain(self) -> str:
        microseconds = self.nanoseconds // 1_000
        return f"partitions={self.visited};rows={self.rows};us={microseconds};remote=0"


async def receive_message(
    service: Service, call: Call, request: ReceiveMessageRequest
) -> ReceiveMessageResponse:
    queue = await service.queue(call, request.queue_url)
    if queue.throttle is not None:
        queue.throttle.charge_receive(1, queue.group.now() >> 16)
    valid = validate.receive_message(request, queue.settings)
    deadline_ms = (queue.group.now() >> 16) + valid.wait_seconds * 1000
    if valid.attempt_id is not None:
        again = await _redelivered(service, queue, valid.attempt_id, valid)
        if again:
            return _answers(again, valid)
    passes_left = _PASSES_MAX
    while not call.is_gone:
        budget = _Budget(valid.messages_max)
        received = await _receive_all(service, queue, valid, budget)
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


async def _redelivered(
    service: Service, queue: LiveQueue, attempt_id: str, valid: ValidReceive
) -> list[_Received]:
    parts = await gather(
        attempts.redeliver(service, shard, attempt_id, valid.visibility_timeout_ms)
        for shard in queue.shards
    )
    return [
        _Received(shard, shard.generation, *part, is_cut_short=False)
        for shard, part in zip(queue.shards, parts, strict=True)
        if part is not None
    ]


async def _receive_all(
    service: Service, queue: LiveQueue, valid: ValidReceive, budget: _Budget
) -> list[_Received]:
    """What the queue has to give now, from all of its partitions together."""
    if not isinstance(queue, PartitionedQueue):
        return [await _receive_now(service, queue, valid, budget)]
    shards = [shard for shard in queue.rotated() if shard.has_available()]
    parts = await gather(_receive_or_error(service, shard, valid, budget) for shard in shards)
    received = [part for part in parts if isinstance(part, _Received)]
    for part in parts:
        if isinstance(part, OperationError) and not any(one.messages for one in received):
            raise part
    return received


async def _receive_or_error(
    service: Service, shard: LiveQueue, valid: ValidReceive, budget: _Budget
) -> _Received | OperationError:
    """A partition that fails must not cost the client what others have given."""
    try:
        return await _receive_now(service, shard, valid, budget)
    except OperationError as error:
        return error


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
    service: Service, queue: LiveQueue, valid: ValidReceive, budget: _Budget
) -> _Received:
    group, generation = queue.group, queue.generation
    txn = group.begin(service.new_request())
    dead = dead_letters.destination(service, queue)
    choice = _choose(queue, txn.commit_ts, valid, budget, dead.receives_max if dead else 0)
    if not choice.all:
        return _Received(queue, generation, [], [], False)
    states = _plan_deliveries(queue, txn, choice, valid)
    letters = dead_letters.plan(queue, dead, txn, choice.dead) if dead else ()
    claimed = plan_claim(queue, txn, choice)
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
    for taken in (*choice.expired, *choice.dead):
        queue.removed(taken.position)
    queue.settled(choice)
    for letter in letters:
        # Whoever finds nothing here will look for it there.
        await service.outbox.settled(letter)
    return _Received(queue, generation, choice.messages, states, choice.is_cut_short)


def _choose(
    queue: LiveQueue, now: int, valid: ValidReceive, budget: _Budget, receives_max: int
) -> Choice:
    in_flight = queue.group.counter(queue.messages.in_flight)
    is_full = in_flight >= config.IN_FLIGHT_MESSAGES_MAX and _is_full(queue, now, valid)
    if is_full or budget.is_spent:
        return Choice([], [], [])
    begun, scanned = queue.group.boottime_ns(), queue.scanned
    choice = queue.choose(budget.messages_left, now, receives_max)
    budget.messages_left -= len(choice.messages)
    budget.visited += 1
    budget.rows += queue.scanned - scanned
    budget.nanoseconds += queue.group.boottime_ns() - begun
    return choice


def _is_full(queue: LiveQueue, now: int, valid: ValidReceive) -> bool:
    """True if nothing may be taken now; whoever asks a standard queue in vain is told so."""
    is_full = queue.counts(now).in_flight >= config.IN_FLIGHT_MESSAGES_MAX
    if is_full and not valid.wait_seconds and not queue.settings.is_fifo:
        raise too_many_in_flight()
    return is_full


def _plan(queue: LiveQueue, txn: Txn, taken: Taken, valid: ValidReceive) -> MessageState:
    keys, now = queue.messages, txn.commit_ts
    visible_at = now + (valid.visibility_timeout_ms << 16)
    if taken.state is not None:
        txn.delete_fresh(keys.timer_key(taken.state.visible_at, taken.position))
    else:
        plan_unfiling(keys, txn, taken.position, taken.record)
    old = taken.state or unreceived_state(taken.record)
    first_receive_ms = old.first_receive_ms or now >> 16
    state = MessageState(now, old.receive_count + 1, visible_at, first_receive_ms)
    txn.put(keys.state_key(taken.position), native.encode_state(*state))
    txn.put_fresh(keys.timer_key(visible_at, taken.position), TIMER_RECEIVED)
    plan_touch(queue, txn, taken.record)
    return state


def _plan_deliveries(
    queue: LiveQueue, txn: Txn, choice: Choice, valid: ValidReceive
) -> list[MessageState]:
    states = [_plan(queue, txn, taken, valid) for taken in choice.messages]
    for taken in choice.expired:
        plan_removal(queue, txn, taken.position, taken.state, taken.record)
    received = [taken for taken in choice.messages if taken.state is None or not taken.state.nonce]
    delayed = sum(1 for taken in received if taken.state is not None)
    if received:
        txn.add(queue.messages.in_flight, len(received))
    if delayed:
        txn.add(queue.messages.delayed, -delayed)
    if valid.attempt_id is not None and states:
        attempts.plan(queue, txn, valid.attempt_id, choice.messages, states[0].visible_at)
    return states


# --- a client that is gone ---------------------------------------------------------------------


async def _handed_over(
    service: Service, call: Call, received: Sequence[_Received], valid: ValidReceive
) -> ReceiveMessageResponse:
    """The answer; or, when nobody is left to read it, the messages are available again."""
    if not call.is_gone:
        return _answers(received, valid)
    await gather(_give_back(service, part) for part in received)
    return EMPTY


async def _give_back(service: Service, received: _Received) -> None:
    """As if the receive had never been; whatever was done to a message meanwhile stays."""
    queue, group = received.queue, received.queue.group
    if queue.generation != received.generation:
        return
    keys = [queue.messages.state_key(taken.position) for taken in received.messages]
    untouched = [
        (taken, state)
        for taken, state, key in zip(received.messages, received.states, keys, strict=True)
        if not group.latches.is_held(key) and group.get(key) == native.encode_state(*state)
    ]
    if not untouched or group.latches.is_held(queue.keys.generation):
        return
    txn = group.begin(service.new_request())
    txn.check(queue.keys.generation)
    for taken, state in untouched:
        _plan_give_back(queue, txn, taken, state)
    await group.submit(txn)
    for taken, _ in untouched:
        queue.scheduled(Timer(txn.commit_ts, taken.position, True))
    queue.applied(txn)


def _plan_give_back(queue: LiveQueue, txn: Txn, taken: Taken, state: MessageState) -> None:
    keys, now = queue.messages, txn.commit_ts
    old = taken.state or unreceived_state(taken.record)
    new = state._replace(
        receive_count=old.receive_count, visible_at=now, first_receive_ms=old.first_receive_ms
    )
    txn.put(keys.state_key(taken.position), native.encode_state(*new))
    txn.delete_fresh(keys.timer_key(state.visible_at, taken.position))
    txn.put_fresh(keys.timer_key(now, taken.position), TIMER_RECEIVED)
    plan_touch(queue, txn, taken.record)


# --- the answer ------------------------------------------------------------------------------


def _answers(received: Sequence[_Received], valid: ValidReceive) -> ReceiveMessageResponse:
    return ReceiveMessageResponse(
        [
            _answer(part.queue, valid, *pair)
            for part in received
            for pair in zip(part.messages, part.states, strict=True)
        ]
    )


def _answer(queue: LiveQueue, valid: ValidReceive, taken: Taken, state: MessageState) -> Message:
    record = taken.record
    extras = decode_extras(record.extras)
    selected = valid.selector.select(extras.attributes)
    return Message(
        message_id=native.message_id_text(record.message_id),
        receipt_handle=native.encode_receipt(
            queue.receipt_secret,
            queue.generation,
            record.message_id,
            state.nonce,
            queue.partition,
        ),
        md5_of_body=record.body_md5.hex(),
        body=record.body.decode(),
        attributes=_system_attributes(queue, valid.system_names, taken, state, extras),
        md5_of_message_attributes=attributes_md5(selected),
        message_attributes=wire_values(selected),
    )


_SEQUENCE_NUMBER: Final = "SequenceNumber"


def _source_arn(extras: MessageExtras) -> str | None:
    return extras.moved.source_arn if extras.moved else None


_SystemValue = Callable[[Taken, MessageState, MessageExtras], str | None]
_SYSTEM_VALUES: Final[dict[str, _SystemValue]] = {
    "SenderId": lambda taken, _state, _extras: taken.record.sender,
    "SentTimestamp": lambda taken, _state, _extras: str(taken.record.sent_ms),
    "ApproximateReceiveCount": lambda _taken, state, _extras: str(state.receive_count),
    "ApproximateFirstReceiveTimestamp": lambda _taken, state, _extras: str(state.first_receive_ms),
    "MessageGroupId": lambda _taken, _state, extras: extras.group_id,
    "MessageDeduplicationId": lambda _taken, _state, extras: extras.deduplication_id,
    "DeadLetterQueueSourceArn": lambda _taken, _state, extras: _source_arn(extras),
    TRACE_HEADER: lambda _taken, _state, extras: extras.trace_header,
}


def _system_attributes(
    queue: LiveQueue,
    names: frozenset[str],
    taken: Taken,
    state: MessageState,
    extras: MessageExtras,
) -> dict[str, str]:
    if not names:
        return {}
    values = ((n, of(taken, state, extras)) for n, of in _SYSTEM_VALUES.items() if n in names)
    shown = {name: value for name, value in values if value is not None}
    if queue.settings.is_fifo and _SEQUENCE_NUMBER in names:
        shown[_SEQUENCE_NUMBER] = sequence_number(queue, taken.position)
    return shown
