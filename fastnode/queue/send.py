"""SendMessage and SendMessageBatch: a plain send is one put, the message record."""

import hashlib
from collections.abc import Container, Sequence

from fastnode import native
from fastnode.flow import Resumable, Suspension
from fastnode.native import (
    MESSAGE_DELAYED,
    MESSAGE_FILED,
    TIMER_DELAYED,
    PlannedSend,
    plan_bodies,
    plan_send,
)
from fastnode.queue import batch, fifo_send, repeats, validate
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
from fastnode.queue.errors import SqsError
from fastnode.queue.fair import plan_filing
from fastnode.queue.fair_shares import NOBODY
from fastnode.queue.fifo_send import Numbered
from fastnode.queue.live import LiveQueue
from fastnode.queue.message_attributes import encode_extras
from fastnode.queue.parts import Sent
from fastnode.queue.repeats import not_landed, repeatable
from fastnode.queue.send_again import (
    batch_sent_before,
    response_of,
    result_of,
    sent_before,
    sent_to_partitions,
)
from fastnode.queue.service import Service
from fastnode.queue.timers import Timer
from fastnode.queue.validate import ValidSend
from fastnode.store.txn import Txn


@repeatable(sent_before)
async def send_message(
    service: Service, call: Call, request: SendMessageRequest
) -> SendMessageResponse:
    if call.is_repeated:
        before = await sent_to_partitions(service, call, request.queue_url, (request,))
        if before:
            return response_of(request, before[0])
    queue = await service.queue(call, request.queue_url)
    if queue.throttle is not None:
        queue.throttle.charge_send(1, queue.group.now() >> 16)
    valid = validate.send_message(request, queue.settings, call.trace_header)
    (stored,) = await _stored(service, queue, call, ((0, valid),))
    if stored is None:
        raise not_landed()
    return SendMessageResponse(
        stored.message_id,
        stored.body_md5,
        attributes_md5(valid.extras.attributes),
        attributes_md5(valid.system_attributes),
        stored.sequence_number if isinstance(stored, Sent) else None,
    )


@repeatable(batch_sent_before)
async def send_message_batch(
    service: Service, call: Call, request: SendMessageBatchRequest
) -> SendMessageBatchResponse:
    if not call.is_repeated:
        return await _send_rest(service, call, request, ())
    entries = request.entries or ()
    before = await sent_to_partitions(service, call, request.queue_url, entries)
    if not before:
        return await _send_rest(service, call, request, ())
    results = {number: result_of(entries[number], sent) for number, sent in before.items()}
    failed: list[BatchResultErrorEntry] = []
    left = [number for number in range(len(entries)) if number not in before]
    if left:
        try:
            rest = await _send_rest(service, call, request, before)
        except SqsError as error:
            failed = [batch.failed_entry(entries[number].id or "", error) for number in left]
        else:
            numbers = {entry.id: number for number, entry in enumerate(entries)}
            results |= {numbers[result.id]: result for result in rest.successful}
            failed = rest.failed
    return SendMessageBatchResponse([results[number] for number in sorted(results)], failed)


async def _send_rest(
    service: Service, call: Call, request: SendMessageBatchRequest, before: Container[int]
) -> SendMessageBatchResponse:
    """All entries but those that were sent before."""
    queue = await service.queue(call, request.queue_url)
    accepted, refused = batch.send_message_batch(request, queue.settings, call.trace_header, before)
    if queue.throttle is not None:
        queue.throttle.charge_send(len(accepted) + len(refused), queue.group.now() >> 16)
    stored: Sequence[PlannedSend | Sent | None] = ()
    if accepted:
        messages = [(number, valid) for number, _, valid in accepted]
        stored = await _stored(service, queue, call, messages)
    successful: list[SendMessageBatchResultEntry] = []
    failed = [refusal for _, refusal in refused]
    for (_, entry_id, valid), message in zip(accepted, stored, strict=True):
        if message is None:
            failed.append(repeats.failed(entry_id))
        else:
            successful.append(_result(entry_id, valid, message))
    return SendMessageBatchResponse(successful, failed)


async def _stored(
    service: Service, queue: LiveQueue, call: Call, messages: Sequence[Numbered]
) -> Sequence[PlannedSend | Sent | None]:
    if queue.settings.is_fifo:
        return await fifo_send.store(service, queue, call, messages)
    return await _store(service, queue, call, messages)


def _result(
    entry_id: str, valid: ValidSend, stored: PlannedSend | Sent
) -> SendMessageBatchResultEntry:
    attributes = valid.extras.attributes
    number = stored.sequence_number if isinstance(stored, Sent) else None
    if not attributes and not valid.system_attributes and number is None:
        return SendMessageBatchResultEntry(entry_id, stored.message_id, stored.body_md5)
    return SendMessageBatchResultEntry(
        entry_id,
        stored.message_id,
        stored.body_md5,
        attributes_md5(attributes),
        attributes_md5(valid.system_attributes),
        number,
    )


async def _store(
    service: Service, queue: LiveQueue, call: Call, messages: Sequence[Numbered]
) -> Sequence[PlannedSend]:
    """One transaction for the whole call; on return the messages are durable."""
    queue.group.require_room()
    has_tenants = any(valid.extras.group_id is not None for _, valid in messages)
    if has_tenants or queue.tenants is not None or any(one.delay_seconds for _, one in messages):
        return await _store_indexed(service, queue, call, messages, has_tenants=has_tenants)
    drafts = [(number, encode_extras(valid.extras), valid.body) for number, valid in messages]
    outcome, identity = Suspension(), (service.identity(call), call.retention)
    planned = submit_plain(queue, identity, call.caller.sender_id, drafts, outcome)
    await outcome
    queue.messages_in += len(planned)
    queue.added(planned)
    return planned


def submit_plain(
    queue: LiveQueue,
    identity: tuple[bytes, int],
    sender: str,
    drafts: Sequence[tuple[int, bytes, bytes]],
    waiting: Resumable,
) -> list[PlannedSend]:
    """Plan and submit messages that are not delayed, each (number, extras, body), in one step.

    `OperationError` if nothing can be planned now; then nothing was submitted.
    """
    group = queue.group
    request, retention = identity
    start_ts, commit_ts = group.stamp(request)
    encoded, planned = native.plan_sends(
        request, start_ts, commit_ts, retention, queue.send_keys, sender, drafts
    )
    group.submit_encoded(request, commit_ts, encoded, waiting)
    return planned


def submit_one(
    queue: LiveQueue, request: bytes, retention: int, sender: str, body: bytes, waiting: Resumable
) -> tuple[int, bytes]:
    """As `submit_plain` for one message that is nothing but a body: when it is sent, its record."""
    group = queue.group
    start_ts, commit_ts = group.stamp(request)
    encoded, record = plan_send(
        request, start_ts, commit_ts, retention, queue.send_keys, sender, body
    )
    group.submit_encoded(request, commit_ts, encoded, waiting)
    return commit_ts, record


def submit_bodies(
    queue: LiveQueue,
    request: bytes,
    retention: int,
    sender: str,
    bodies: Sequence[bytes],
    waiting: Resumable,
) -> tuple[int, list[bytes]]:
    """As `submit_one` for all messages of a call."""
    group = queue.group
    start_ts, commit_ts = group.stamp(request)
    encoded, records = plan_bodies(
        request, start_ts, commit_ts, retention, queue.send_keys, sender, bodies
    )
    group.submit_encoded(request, commit_ts, encoded, waiting)
    return commit_ts, records


async def _store_indexed(
    service: Service,
    queue: LiveQueue,
    call: Call,
    messages: Sequence[Numbered],
    *,
    has_tenants: bool,
) -> Sequence[PlannedSend]:
    """As `_store`, for messages of which some have state and a timer from the start, or are filed
    under their tenants.
    """
    txn = queue.group.begin(service.identity(call), call.retention)
    if has_tenants:
        queue.tell_tenants_apart(txn.commit_ts)
    txn.check(queue.keys.generation)
    txn.mask = sum(1 << number for number, _ in messages)
    sender = call.caller.sender_id
    planned = [_plan(queue, txn, entry, valid, sender) for entry, valid in messages]
    txn.add(queue.messages.total, len(planned))
    delays = [valid.delay_seconds for _, valid in messages]
    txn.add(queue.messages.delayed, sum(1 for delay in delays if delay))
    await queue.group.submit(txn)
    undelayed: list[PlannedSend] = []
    timers: list[Timer] = []
    for message, delay in zip(planned, delays, strict=True):
        if delay:
            timers.append(Timer(_visible_at(txn, delay), message.position, False))
        else:
            undelayed.append(message)
    queue.messages_in += len(planned)
    queue.scheduled(timers)
    if undelayed:
        queue.added(undelayed)
    return planned


def _plan(queue: LiveQueue, txn: Txn, entry: int, valid: ValidSend, sender: str) -> PlannedSend:
    commit_ts = txn.commit_ts
    message_id = native.message_id(commit_ts, entry, txn.request)
    digest = hashlib.md5(valid.body, usedforsecurity=False)
    is_delayed = valid.delay_seconds > 0
    is_filed = queue.tenants is not None and not is_delayed
    record = native.encode_message(
        MESSAGE_DELAYED * is_delayed | MESSAGE_FILED * is_filed,
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
    if is_delayed:
        visible_at = _visible_at(txn, valid.delay_seconds)
        txn.put_fresh(keys.state_key(position), native.encode_state(0, 0, visible_at, 0))
        txn.put_fresh(keys.timer_key(visible_at, position), TIMER_DELAYED)
    if is_filed:
        plan_filing(keys, txn, position, valid.extras.group_id or NOBODY)
    return PlannedSend(native.message_id_text(message_id), digest.hexdigest(), position, record)


def _visible_at(txn: Txn, delay_seconds: int) -> int:
    return txn.commit_ts + (delay_seconds * 1000 << 16)
