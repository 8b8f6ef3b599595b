"""DeleteMessage and DeleteMessageBatch. On a standard queue any genuine handle of a message removes
it; on a FIFO queue only one that is still good.
"""

from collections.abc import Mapping, Sequence

from fastnode import native
from fastnode.flow import gather
from fastnode.native import MessageState
from fastnode.queue import batch, validate
from fastnode.queue.api import (
    BatchResultErrorEntry,
    DeleteMessageBatchRequest,
    DeleteMessageBatchResponse,
    DeleteMessageBatchResultEntry,
    DeleteMessageRequest,
)
from fastnode.queue.caller import Call
from fastnode.queue.errors import SqsError, receipt_handle_expired
from fastnode.queue.live import LiveQueue
from fastnode.queue.plans import plan_removal
from fastnode.queue.receipt import Delivery, by_shard, open_receipt
from fastnode.queue.service import Service
from fastnode.store.txn import Txn


async def delete_message(service: Service, call: Call, request: DeleteMessageRequest) -> None:
    queue = await service.queue(call, request.queue_url)
    if queue.throttle is not None:
        queue.throttle.charge_receive(1, queue.group.now() >> 16)
    delivery = open_receipt(queue, validate.delete_message(request))
    for error in (await _delete(service, call, request.queue_url, (delivery,))).values():
        raise error


async def delete_message_batch(
    service: Service, call: Call, request: DeleteMessageBatchRequest
) -> DeleteMessageBatchResponse:
    queue = await service.queue(call, request.queue_url)
    refusals: dict[str, BatchResultErrorEntry] = {}
    opened: dict[str, Delivery] = {}
    entries = batch.delete_message_batch(request)
    if queue.throttle is not None:
        queue.throttle.charge_receive(len(entries), queue.group.now() >> 16)
    for entry_id, handle in entries:
        if isinstance(handle, BatchResultErrorEntry):
            refusals[entry_id] = handle
            continue
        try:
            opened[entry_id] = open_receipt(queue, handle)
        except SqsError as error:
            refusals[entry_id] = batch.failed_entry(entry_id, error)
    errors = await _delete(service, call, request.queue_url, tuple(opened.values()))
    for entry_id, delivery in opened.items():
        if delivery.handle in errors:
            refusals[entry_id] = batch.failed_entry(entry_id, errors[delivery.handle])
    return DeleteMessageBatchResponse(
        [DeleteMessageBatchResultEntry(i) for i, _ in entries if i not in refusals],
        [refusals[i] for i, _ in entries if i in refusals],
    )


async def _delete(
    service: Service, call: Call, queue_url: str | None, deliveries: Sequence[Delivery]
) -> dict[str, SqsError]:
    """One transaction for each partition. Returns the handles that are no longer good."""
    parts = [
        _delete_in(service, call, queue_url, shard, some)
        for shard, some in by_shard(deliveries, lambda delivery: delivery.shard)
    ]
    errors = await gather(parts) if len(parts) > 1 else [await part for part in parts]
    return {handle: error for part in errors for handle, error in part.items()}


async def _delete_in(
    service: Service,
    call: Call,
    queue_url: str | None,
    queue: LiveQueue,
    deliveries: Sequence[Delivery],
) -> dict[str, SqsError]:
    """What is already gone counts as deleted; a handle from before a purge names nothing."""
    while True:
        current = [one for one in deliveries if one.generation == queue.generation]
        positions = dict.fromkeys(delivery.position for delivery in current)
        keys = [queue.messages.state_key(position) for position in positions]
        blocked = queue.group.latches.wait_for((queue.keys.generation, *keys))
        if blocked is None:
            break
        await blocked
        # Whoever waited must not work on a queue that is gone.
        await service.queue(call, queue_url)
    states = queue.group.get_many(keys) if keys else []
    found = {
        position: native.decode_state(state)
        for position, state in zip(positions, states, strict=True)
        if state is not None
    }
    if not found:
        return {}
    txn = queue.group.begin(service.new_request())
    errors: dict[str, SqsError] = {}
    if queue.settings.is_fifo:
        over = [one for one in current if _is_over(queue, one, found, txn.commit_ts)]
        errors = {delivery.handle: receipt_handle_expired(delivery.handle) for delivery in over}
        good = {one.position for one in current if one.handle not in errors}
        found = {position: state for position, state in found.items() if position in good}
    if found:
        await _remove(queue, txn, found)
    return errors


def _is_over(
    queue: LiveQueue, delivery: Delivery, found: Mapping[int, MessageState], now: int
) -> bool:
    """What retention has ended counts as gone, also in the moments until it is removed."""
    state = found.get(delivery.position)
    is_expired = (delivery.position >> 32) + queue.settings.retention_ms <= now >> 16
    return state is not None and not is_expired and delivery.is_over(state, now)


async def _remove(queue: LiveQueue, txn: Txn, found: Mapping[int, MessageState]) -> None:
    txn.check(queue.keys.generation)
    for position, state in found.items():
        plan_removal(queue, txn, position, state, queue.indexed_record(position))
    await queue.group.submit(txn)
    for position in found:
        queue.removed(position)
    queue.applied(txn)
