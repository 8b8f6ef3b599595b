"""A receive of what this node leads: choose, deliver in one transaction per partition, or give
back.
"""

from collections.abc import Sequence
from typing import NamedTuple

from fastnode import config, native
from fastnode.errors import OperationError
from fastnode.flow import Suspension, gather
from fastnode.native import MESSAGE_MOVED, TIMER_RECEIVED, MessageState
from fastnode.queue import attempts, dead_letters
from fastnode.queue.caller import RECEIVES
from fastnode.queue.choice import Choice, Taken
from fastnode.queue.errors import too_many_in_flight
from fastnode.queue.fair import plan_unfiling
from fastnode.queue.fullness import is_full
from fastnode.queue.live import LiveQueue
from fastnode.queue.outbox import Posted
from fastnode.queue.partitions import PartitionedQueue
from fastnode.queue.plans import plan_claim, plan_removal, plan_touch, unreceived_state
from fastnode.queue.repeats import request_at
from fastnode.queue.service import Service
from fastnode.queue.timers import Timer
from fastnode.queue.validate import ValidReceive
from fastnode.store.txn import Txn


class Received(NamedTuple):
    """What one pass took, with the new state of each, and whether it had to stop early."""

    queue: LiveQueue
    generation: int
    messages: list[Taken]
    states: list[MessageState]
    is_cut_short: bool


class Budget:
    """What one look may take from all partitions together, how long it may last, and what it cost.

    Choosing is timed; waiting and committing are not.
    """

    __slots__ = ("messages_left", "nanoseconds", "remote", "rows", "visited")

    def __init__(self, messages: int) -> None:
        self.messages_left = messages
        self.visited = 0
        self.rows = 0
        self.nanoseconds = 0
        # Other nodes that were asked.
        self.remote = 0

    @property
    def is_spent(self) -> bool:
        return not self.messages_left or self.nanoseconds > config.FANOUT_MS * 1_000_000

    def explain(self) -> str:
        microseconds = self.nanoseconds // 1_000
        counts = f"partitions={self.visited};rows={self.rows};us={microseconds}"
        return f"{counts};remote={self.remote}"


async def receive_here(
    service: Service, queue: LiveQueue, request: bytes, valid: ValidReceive, budget: Budget
) -> list[Received]:
    """What the queue has to give now, from all of its partitions together, to the call of that
    identity.
    """
    if not isinstance(queue, PartitionedQueue):
        return [await receive_now(service, queue, request, valid, budget)]
    shards = [shard for shard in queue.rotated() if shard.has_available()]
    parts = await gather(
        _receive_or_error(service, shard, request, valid, budget) for shard in shards
    )
    received = [part for part in parts if isinstance(part, Received)]
    for part in parts:
        if isinstance(part, OperationError) and not any(one.messages for one in received):
            raise part
    return received


async def _receive_or_error(
    service: Service, shard: LiveQueue, request: bytes, valid: ValidReceive, budget: Budget
) -> Received | OperationError:
    """A partition that fails must not cost the client what others have given."""
    try:
        return await receive_now(service, shard, request, valid, budget)
    except OperationError as error:
        return error


async def redelivered(service: Service, queue: LiveQueue, valid: ValidReceive) -> list[Received]:
    """What a receive of the same attempt id took of what is led here."""
    assert valid.attempt_id is not None
    attempt_id, shards = valid.attempt_id, queue.shards
    parts = await gather(
        attempts.redeliver(service, shard, attempt_id, valid.visibility_timeout_ms)
        for shard in shards
    )
    return [
        Received(shard, shard.generation, *part, is_cut_short=False)
        for shard, part in zip(shards, parts, strict=True)
        if part is not None
    ]


async def receive_now(
    service: Service, queue: LiveQueue, request: bytes, valid: ValidReceive, budget: Budget
) -> Received:
    """What the queue, or one partition, has to give now."""
    txn = queue.group.begin(request_at(request, queue.partition), RECEIVES)
    dead = dead_letters.destination(service, queue)
    choice = choose(queue, txn.commit_ts, valid, budget, dead.receives_max if dead else 0)
    if not choice.all:
        return Received(queue, queue.generation, [], [], False)
    return await commit(service, queue, txn, choice, valid)


async def commit(
    service: Service,
    queue: LiveQueue,
    txn: Txn,
    choice: Choice,
    valid: ValidReceive,
    unlatched: Sequence[Suspension] = (),
) -> Received:
    """Deliver what was chosen, in a transaction that has just begun. `unlatched` go on when it is
    submitted.
    """
    group, generation = queue.group, queue.generation
    dead = dead_letters.destination(service, queue) if choice.dead else None
    if dead is None and choice.dead:
        # Their queue has gone since they were chosen: the next receive delivers them as usual.
        queue.give_back(Choice([], [], choice.dead))
        choice = choice._replace(dead=[])
    if not choice.messages:
        # The call has no answer yet, and its identity is for the transaction that gives it one.
        txn.request = service.new_request()
    states = _plan_deliveries(queue, txn, choice, valid)
    letters = dead_letters.plan(queue, dead, txn, choice.dead) if dead else []
    claim = plan_claim(queue, txn, choice)
    outcome = group.submit(txn)
    # Only now: whoever is woken plans at once, and its transaction must come after this one.
    for one in unlatched:
        one.resume()
    if queue.waiters and queue.has_available():
        queue.waiters.wake_one()
    try:
        await outcome
    except OperationError:
        claim.give_back(choice)
        raise
    finally:
        claim.settle()
    if states:
        positions = tuple([taken.position for taken in choice.messages])
        queue.handed_out(positions, states[0].visible_at)
    queue.removed([taken.position for taken in (*choice.expired, *choice.dead)])
    queue.settled(choice)
    if letters:
        await _settled(service, txn.request, letters)
    return Received(queue, generation, choice.messages, states, choice.is_cut_short)


async def _settled(service: Service, request: bytes, letters: Sequence[Posted]) -> None:
    """Whoever finds nothing here will look for it there. Until then the receive has landed, and its
    answer is still to come.
    """
    service.answering.add(request)
    try:
        for letter in letters:
            await service.outbox.settled(letter)
    finally:
        service.answering.discard(request)


def choose(
    queue: LiveQueue, now: int, valid: ValidReceive, budget: Budget, receives_max: int
) -> Choice:
    if _is_full(queue, now, valid) or budget.is_spent:
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
    if not is_full(queue, now):
        return False
    if not valid.wait_seconds and not queue.settings.is_fifo:
        raise too_many_in_flight()
    return True


def _plan_deliveries(
    queue: LiveQueue, txn: Txn, choice: Choice, valid: ValidReceive
) -> list[MessageState]:
    keys, now = queue.messages, txn.commit_ts
    visible_at = now + (valid.visibility_timeout_ms << 16)
    olds = [(taken.position, taken.state or _brought_along(taken)) for taken in choice.messages]
    writes, states = native.plan_deliveries(keys.places, now, visible_at, olds)
    txn.writes += writes
    txn.mask = (1 << len(states)) - 1
    for taken in choice.messages:
        if taken.state is None and taken.record.flags:
            plan_unfiling(keys, txn, taken.position, taken.record)
        plan_touch(queue, txn, taken.record)
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


def _brought_along(taken: Taken) -> MessageState | None:
    """What a message that nobody has received here counts from, if it came from another queue."""
    return unreceived_state(taken.record) if taken.record.flags & MESSAGE_MOVED else None


# --- a client that is gone ---------------------------------------------------------------------


async def give_back(service: Service, received: Received) -> None:
    """As if the receive had never been; whatever was done to a message meanwhile stays."""
    queue, group = received.queue, received.queue.group
    if queue.generation != received.generation:
        return
    if any(state.nonce in queue.answered_again for state in received.states):
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
    queue.scheduled([Timer(txn.commit_ts, taken.position, True) for taken, _ in untouched])
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
