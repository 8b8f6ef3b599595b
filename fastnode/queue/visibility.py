"""ChangeMessageVisibility and its batch: a new deadline for a message that was received."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from fastnode import config, native
from fastnode.native import TIMER_RECEIVED, MessageState
from fastnode.queue import batch, parts, validate
from fastnode.queue.api import (
    ChangeMessageVisibilityBatchRequest,
    ChangeMessageVisibilityBatchResponse,
    ChangeMessageVisibilityBatchResultEntry,
    ChangeMessageVisibilityRequest,
)
from fastnode.queue.caller import Call
from fastnode.queue.errors import SqsError, message_not_changeable, visibility_beyond_limit
from fastnode.queue.landed_parts import landed_entries
from fastnode.queue.live import LiveQueue
from fastnode.queue.places import at_partition, by_partition, in_partitions, of_call
from fastnode.queue.plans import plan_touch
from fastnode.queue.receipt import Delivery, Opened, delivery_of, open_receipt
from fastnode.queue.receipt_batch import Item, settle
from fastnode.queue.repeats import (
    Landed,
    find,
    not_landed,
    repeatable,
    request_at,
    results_of,
)
from fastnode.queue.service import Service
from fastnode.queue.timers import Timer
from fastnode.queue.validate import ValidChange


class Change(NamedTuple):
    """`number` is that of the entry in its call."""

    number: int
    opened: Opened
    timeout_seconds: int


async def _changed_before(
    _service: Service, _call: Call, _request: ChangeMessageVisibilityRequest, _landed: Landed
) -> None:
    """There is nothing else to say."""


@repeatable(_changed_before)
async def change_message_visibility(
    service: Service, call: Call, request: ChangeMessageVisibilityRequest
) -> None:
    if call.is_repeated and await landed_entries(service, call, request.queue_url):
        return
    queue = await service.queue(call, request.queue_url)
    if queue.throttle is not None:
        queue.throttle.charge_receive(1, queue.group.now() >> 16)
    valid = validate.change_message_visibility(request)
    change = _changed(0, open_receipt(queue, valid.receipt_handle), valid)
    (error,) = await _change(service, queue, call, (change,))
    if error is not None:
        raise error


async def _batch_changed_before(
    _service: Service, _call: Call, request: ChangeMessageVisibilityBatchRequest, landed: Landed
) -> ChangeMessageVisibilityBatchResponse:
    successful, failed = results_of(request.entries or (), landed.entries)
    return ChangeMessageVisibilityBatchResponse(
        [ChangeMessageVisibilityBatchResultEntry(entry_id) for entry_id in successful], failed
    )


@repeatable(_batch_changed_before)
async def change_message_visibility_batch(
    service: Service, call: Call, request: ChangeMessageVisibilityBatchRequest
) -> ChangeMessageVisibilityBatchResponse:
    async def work(queue: LiveQueue, items: Mapping[str, Item[ValidChange]]) -> dict[str, SqsError]:
        changes = [_changed(*item) for item in items.values()]
        errors = await _change(service, queue, call, changes)
        return {i: error for i, error in zip(items, errors, strict=True) if error is not None}

    check, handle_of = batch.change_message_visibility_batch, attrgetter("receipt_handle")
    ids, failed = await settle(service, call, request, check, handle_of, work)
    successful = [ChangeMessageVisibilityBatchResultEntry(i) for i in ids]
    return ChangeMessageVisibilityBatchResponse(successful, failed)


def _changed(number: int, opened: Opened, valid: ValidChange) -> Change:
    return Change(number, opened, valid.visibility_timeout_seconds)


async def _change(
    service: Service, queue: LiveQueue, call: Call, changes: Sequence[Change]
) -> list[SqsError | None]:
    """One transaction for each partition; the reason why not, or None, for each change in its
    place.
    """
    placed_at = by_partition(changes, lambda change: change.opened.receipt.partition)
    errors = await in_partitions(
        _change_at(service, queue, call, partition, some) for partition, some in placed_at.items()
    )
    placed = {
        change.number: error
        for some, part in zip(placed_at.values(), errors, strict=True)
        for change, error in zip(some, part, strict=True)
    }
    return [placed[change.number] for change in changes]


async def _change_at(
    service: Service, queue: LiveQueue, call: Call, partition: int, changes: Sequence[Change]
) -> list[SqsError | None]:
    return await at_partition(
        service,
        queue,
        partition,
        lambda shard: change_in(service, shard, call, changes),
        lambda: parts.Change(
            *of_call(service, call, queue),
            partition,
            [(one.number, one.opened.handle, one.timeout_seconds) for one in changes],
        ),
        lambda refused: [None if refusal is None else refusal.error for refusal in refused],
    )


async def change_in(
    service: Service, queue: LiveQueue, call: Call, changes: Sequence[Change]
) -> list[SqsError | None]:
    request = request_at(service.identity(call), queue.partition)
    landed = await find(queue.group, request)
    if landed is not None:
        return [None if landed.has(change.number) else not_landed() for change in changes]
    deliveries = [delivery_of(queue, change.opened) for change in changes]
    while True:
        keys = [queue.messages.state_key(delivery.position) for delivery in deliveries]
        blocked = queue.group.latches.wait_for((queue.keys.generation, *keys))
        if blocked is None:
            break
        await blocked
        # Whoever waited must not work on a queue that is gone.
        service.require(queue)
    stored = queue.group.get_many(keys) if keys else []
    txn = queue.group.begin(request, call.retention)
    errors: list[SqsError | None] = []
    accepted: dict[int, tuple[MessageState, int]] = {}
    for change, delivery, state in zip(changes, deliveries, stored, strict=True):
        seconds = change.timeout_seconds
        errors.append(_refusal(queue, delivery, seconds, state, txn.commit_ts))
        if errors[-1] is None and state is not None:
            # Of two changes of one message in a batch the later one holds.
            accepted[delivery.position] = native.decode_state(state), seconds
    if not accepted:
        return errors
    txn.check(queue.keys.generation)
    txn.mask = sum(
        1 << change.number for change, error in zip(changes, errors, strict=True) if error is None
    )
    timers: list[Timer] = []
    for position, (old, timeout_seconds) in accepted.items():
        visible_at = txn.commit_ts + (timeout_seconds * 1000 << 16)
        new = old._replace(visible_at=visible_at)
        txn.put(queue.messages.state_key(position), native.encode_state(*new))
        txn.delete_fresh(queue.messages.timer_key(old.visible_at, position))
        txn.put_fresh(queue.messages.timer_key(visible_at, position), TIMER_RECEIVED)
        record = queue.indexed_record(position)
        if record is not None:
            plan_touch(queue, txn, record)
        timers.append(Timer(visible_at, position, True))
    await queue.group.submit(txn)
    queue.scheduled(timers)
    queue.applied(txn)
    return errors


def _refusal(
    queue: LiveQueue, delivery: Delivery, timeout_seconds: int, state: bytes | None, now: int
) -> SqsError | None:
    now_ms = now >> 16
    # Expired counts as gone, also in the moments until it is removed.
    is_expired = (delivery.position >> 32) + queue.settings.retention_ms <= now_ms
    if state is None or is_expired or delivery.generation != queue.generation:
        return message_not_changeable(delivery.handle)
    if queue.settings.is_fifo and delivery.is_over(native.decode_state(state), now):
        return message_not_changeable(delivery.handle)
    # Twelve hours from the receive that issued the handle, to the millisecond.
    if (
        now_ms - delivery.received_ms + timeout_seconds * 1000
        > config.VISIBILITY_SECONDS_MAX * 1000
    ):
        return visibility_beyond_limit(timeout_seconds)
    return None
