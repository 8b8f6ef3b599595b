"""DeleteMessage and DeleteMessageBatch. On a standard queue any genuine handle of a message removes
it.
"""

from collections.abc import Iterable

from fastnode import native
from fastnode.queue import batch, validate
from fastnode.queue.api import (
    BatchResultErrorEntry,
    DeleteMessageBatchRequest,
    DeleteMessageBatchResponse,
    DeleteMessageBatchResultEntry,
    DeleteMessageRequest,
)
from fastnode.queue.caller import Call
from fastnode.queue.errors import SqsError
from fastnode.queue.plans import plan_removal
from fastnode.queue.receipt import Delivery, open_receipt
from fastnode.queue.service import Service


async def delete_message(service: Service, call: Call, request: DeleteMessageRequest) -> None:
    queue = await service.queue(call, request.queue_url)
    if queue.throttle is not None:
        queue.throttle.charge_receive(1, queue.group.now() >> 16)
    delivery = open_receipt(queue, validate.delete_message(request))
    await _delete(service, call, request.queue_url, (delivery,))


async def delete_message_batch(
    service: Service, call: Call, request: DeleteMessageBatchRequest
) -> DeleteMessageBatchResponse:
    queue = await service.queue(call, request.queue_url)
    deliveries: list[Delivery] = []
    response = DeleteMessageBatchResponse([], [])
    entries = batch.delete_message_batch(request)
    if queue.throttle is not None:
        queue.throttle.charge_receive(len(entries), queue.group.now() >> 16)
    for entry_id, handle in entries:
        if isinstance(handle, BatchResultErrorEntry):
            response.failed.append(handle)
            continue
        try:
            deliveries.append(open_receipt(queue, handle))
        except SqsError as error:
            response.failed.append(batch.failed_entry(entry_id, error))
        else:
            response.successful.append(DeleteMessageBatchResultEntry(entry_id))
    await _delete(service, call, request.queue_url, deliveries)
    return response


async def _delete(
    service: Service, call: Call, queue_url: str | None, deliveries: Iterable[Delivery]
) -> None:
    """What is already gone counts as deleted; a handle from before a purge names nothing."""
    while True:
        queue = await service.queue(call, queue_url)
        positions = dict.fromkeys(
            delivery.position for delivery in deliveries if delivery.generation == queue.generation
        )
        keys = [queue.messages.state_key(position) for position in positions]
        blocked = queue.group.latches.wait_for(keys)
        if blocked is None:
            break
        await blocked
    states = queue.group.get_many(keys) if keys else []
    found = [(p, state) for p, state in zip(positions, states, strict=True) if state is not None]
    if not found:
        return
    txn = queue.group.begin(service.new_request())
    txn.check(queue.keys.generation)
    for position, state in found:
        plan_removal(queue, txn, position, native.decode_state(state), queue.arrival_at(position))
    await queue.group.submit(txn)
    for position, _ in found:
        queue.removed(position)
