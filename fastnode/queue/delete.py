"""DeleteMessage and DeleteMessageBatch. On a standard queue any genuine handle of a message removes
it; on a FIFO queue only one that is still good.
"""

from collections.abc import Mapping, Sequence

from fastnode import native
from fastnode.native import MessageState
from fastnode.queue import batch, validate
from fastnode.queue.api import (
    DeleteMessageBatchRequest,
    DeleteMessageBatchResponse,
    DeleteMessageBatchResultEntry,
    DeleteMessageRequest,
)
from fastnode.queue.caller import Call
from fastnode.queue.errors import SqsError, receipt_handle_expired
from fastnode.queue.landed_parts import landed_entries
from fastnode.queue.live import LiveQueue
from fastnode.queue.parts import Delete
from fastnode.queue.places import at_partition, by_partition, in_partitions, of_call
from fastnode.queue.plans import plan_removals
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
from fastnode.store.txn import Txn

# A handle with the number that its entry has in the call.
Numbered = tuple[int, Opened]


async def _deleted_before(
    _service: Service, _call: Call, _request: DeleteMessageRequest, _landed: Landed
) -> None:
    """There is nothing else to say."""


@repeatable(_deleted_before)
async def delete_message(service: Service, call: Call, request: DeleteMessageRequest) -> None:
    if call.is_repeated and await landed_entries(service, call, request.queue_url):
        return
    queue = await service.queue(call, request.queue_url)
    if queue.throttle is not None:
        queue.throttle.charge_receive(1, queue.group.now() >> 16)
    opened = open_receipt(queue, validate.delete_message(request))
    for error in (await _delete(service, queue, call, ((0, opened),))).values():
        raise error


async def _batch_deleted_before(
    _service: Service, _call: Call, request: DeleteMessageBatchRequest, landed: Landed
) -> DeleteMessageBatchResponse:
    successful, failed = results_of(request.entries or (), landed.entries)
    return DeleteMessageBatchResponse(
        [DeleteMessageBatchResultEntry(entry_id) for entry_id in successful], failed
    )


@repeatable(_batch_deleted_before)
async def delete_message_batch(
    service: Service, call: Call, request: DeleteMessageBatchRequest
) -> DeleteMessageBatchResponse:
    async def work(queue: LiveQueue, items: Mapping[str, Item[str]]) -> dict[str, SqsError]:
        opened = [(item.number, item.opened) for item in items.values()]
        errors = await _delete(service, queue, call, opened)
        return {i: errors[one.valid] for i, one in items.items() if one.valid in errors}

    ids, failed = await settle(service, call, request, batch.delete_message_batch, str, work)
    return DeleteMessageBatchResponse([DeleteMessageBatchResultEntry(i) for i in ids], failed)


async def _delete(
    service: Service, queue: LiveQueue, call: Call, opened: Sequence[Numbered]
) -> dict[str, SqsError]:
    """One transaction for each partition. Returns the handles that are no longer good."""
    parts = by_partition(opened, lambda numbered: numbered[1].receipt.partition)
    errors = await in_partitions(
        _delete_at(service, queue, call, partition, some) for partition, some in parts.items()
    )
    return {handle: error for part in errors for handle, error in part.items()}


async def _delete_at(
    service: Service, queue: LiveQueue, call: Call, partition: int, opened: Sequence[Numbered]
) -> dict[str, SqsError]:
    return await at_partition(
        service,
        queue,
        partition,
        lambda shard: delete_in(service, shard, call, opened),
        lambda: Delete(
            *of_call(service, call, queue),
            partition,
            [(number, one.handle) for number, one in opened],
        ),
        lambda refused: {handle: refusal.error for handle, refusal in refused.items()},
    )


async def delete_in(
    service: Service, queue: LiveQueue, call: Call, opened: Sequence[Numbered]
) -> dict[str, SqsError]:
    """What is already gone counts as deleted; a handle from before a purge names nothing."""
    request = request_at(service.identity(call), queue.partition)
    landed = await find(queue.group, request)
    if landed is not None:
        return {one.handle: not_landed() for number, one in opened if not landed.has(number)}
    deliveries = [delivery_of(queue, one) for _, one in opened]
    while True:
        current = [one for one in deliveries if one.generation == queue.generation]
        positions = dict.fromkeys(delivery.position for delivery in current)
        keys = native.state_keys(queue.messages.state, positions)
        blocked = queue.group.latches.wait_for((queue.keys.generation, *keys))
        if blocked is None:
            break
        await blocked
        # Whoever waited must not work on a queue that is gone.
        service.require(queue)
    if not positions:
        await service.still_led(queue.group)
        return {}
    times = queue.times_of(positions)
    if times is not None:
        txn = queue.group.begin(request, call.retention)
        txn.mask = sum([1 << number for number, _ in opened])
        await _remove(queue, txn, times)
        return {}
    states = queue.group.get_many(keys)
    found = {
        position: native.decode_state(state)
        for position, state in zip(positions, states, strict=True)
        if state is not None
    }
    if not found:
        await service.still_led(queue.group)
        return {}
    txn = queue.group.begin(request, call.retention)
    errors: dict[str, SqsError] = {}
    if queue.settings.is_fifo:
        over = [one for one in current if _is_over(queue, one, found, txn.commit_ts)]
        errors = {delivery.handle: receipt_handle_expired(delivery.handle) for delivery in over}
        good = {one.position for one in current if one.handle not in errors}
        found = {position: state for position, state in found.items() if position in good}
    if found:
        txn.mask = sum(1 << number for number, one in opened if one.handle not in errors)
        times = {position: state.visible_at for position, state in found.items()}
        delayed = sum([not state.nonce for state in found.values()])
        await _remove(queue, txn, times, delayed)
    return errors


def _is_over(
    queue: LiveQueue, delivery: Delivery, found: Mapping[int, MessageState], now: int
) -> bool:
    """What retention has ended counts as gone, also in the moments until it is removed."""
    state = found.get(delivery.position)
    is_expired = (delivery.position >> 32) + queue.settings.retention_ms <= now >> 16
    return state is not None and not is_expired and delivery.is_over(state, now)


async def _remove(queue: LiveQueue, txn: Txn, times: dict[int, int], delayed: int = 0) -> None:
    txn.check(queue.keys.generation)
    plan_removals(queue, txn, times, delayed)
    await queue.group.submit(txn)
    queue.removed(times)
    queue.applied(txn)
