"""SendMessage and SendMessageBatch: a plain send is one put, the message record."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from fastnode import native
from fastnode.native import MESSAGE_DELAYED
from fastnode.queue import batch, validate
from fastnode.queue.api import (
    BatchResultErrorEntry,
    SendMessageBatchRequest,
    SendMessageBatchResponse,
    SendMessageBatchResultEntry,
    SendMessageRequest,
    SendMessageResponse,
)
from fastnode.queue.caller import Call
from fastnode.queue.digest import attributes_md5
from fastnode.queue.live import TIMER_DELAYED, LiveQueue
from fastnode.queue.message_attributes import encode_extras
from fastnode.queue.service import Service
from fastnode.queue.timers import Timer
from fastnode.queue.validate import ValidSend
from fastnode.store.txn import Txn


class _Stored(NamedTuple):
    """A message of a planned transaction. `visible_at` is 0 unless it is delayed."""

    message_id: bytes
    body_md5: str
    position: int
    record: bytes
    visible_at: int


async def send_message(
    service: Service, call: Call, request: SendMessageRequest
) -> SendMessageResponse:
    queue = await service.queue(call, request.queue_url)
    valid = validate.send_message(request, queue.settings, call.caller.trace_header)
    (stored,) = await _store(service, queue, call, (valid,))
    return SendMessageResponse(
        message_id=native.message_id_text(stored.message_id),
        md5_of_message_body=stored.body_md5,
        md5_of_message_attributes=attributes_md5(valid.extras.attributes),
        md5_of_message_system_attributes=attributes_md5(valid.system_attributes),
    )


async def send_message_batch(
    service: Service, call: Call, request: SendMessageBatchRequest
) -> SendMessageBatchResponse:
    queue = await service.queue(call, request.queue_url)
    checked = batch.send_message_batch(request, queue.settings, call.caller.trace_header)
    accepted = [(i, valid) for i, valid in checked if isinstance(valid, ValidSend)]
    failed = [refusal for _, refusal in checked if isinstance(refusal, BatchResultErrorEntry)]
    stored: Sequence[_Stored] = ()
    if accepted:
        stored = await _store(service, queue, call, [valid for _, valid in accepted])
    successful = [
        SendMessageBatchResultEntry(
            id=entry_id,
            message_id=native.message_id_text(message.message_id),
            md5_of_message_body=message.body_md5,
            md5_of_message_attributes=attributes_md5(valid.extras.attributes),
            md5_of_message_system_attributes=attributes_md5(valid.system_attributes),
        )
        for (entry_id, valid), message in zip(accepted, stored, strict=True)
    ]
    return SendMessageBatchResponse(successful, failed)


async def _store(
    service: Service, queue: LiveQueue, call: Call, messages: Sequence[ValidSend]
) -> list[_Stored]:
    """One transaction for the whole call; on return the messages are durable."""
    queue.group.require_room()
    txn = queue.group.begin(service.new_request())
    txn.check(queue.keys.generation)
    txn.mask = (1 << len(messages)) - 1
    sender = call.caller.sender_id
    stored = [_plan(queue, txn, entry, valid, sender) for entry, valid in enumerate(messages)]
    txn.add(queue.messages.total, len(stored))
    delayed = sum(1 for message in stored if message.visible_at)
    if delayed:
        txn.add(queue.messages.delayed, delayed)
    await queue.group.submit(txn)
    for message in stored:
        if message.visible_at:
            queue.scheduled(Timer(message.visible_at, message.position, False))
        else:
            queue.added(message.position, message.record)
    return stored


def _plan(queue: LiveQueue, txn: Txn, entry: int, valid: ValidSend, sender: str) -> _Stored:
    commit_ts = txn.commit_ts
    message_id = native.message_id(commit_ts, entry, txn.request)
    digest = hashlib.md5(valid.body, usedforsecurity=False)
    visible_at = commit_ts + (valid.delay_seconds * 1000 << 16) if valid.delay_seconds else 0
    record = native.encode_message(
        MESSAGE_DELAYED if visible_at else 0,
        message_id,
        commit_ts >> 16,
        digest.digest(),
        sender,
        encode_extras(valid.extras),
        valid.body,
    )
    position = commit_ts << 16 | entry
    keys = queue.messages
    txn.put_fresh(keys.data_key(position), record)
    if visible_at:
        state = native.encode_state(0, 0, visible_at, 0)
        txn.put_fresh(keys.state_key(position), state)
        txn.put_fresh(keys.timer_key(visible_at, position), TIMER_DELAYED)
    return _Stored(message_id, digest.hexdigest(), position, record, visible_at)
