"""Sends to a FIFO queue: duplicates are recognised, messages are filed under their group."""

from collections.abc import Sequence
from typing import Final

from fastnode import config, native
from fastnode.flow import Resumable, Suspension
from fastnode.native import FifoDraft, plan_fifo_sends
from fastnode.queue.caller import Call
from fastnode.queue.digest import body_md5, content_deduplication_id
from fastnode.queue.errors import SqsError
from fastnode.queue.fifo_live import FifoQueue
from fastnode.queue.live import LiveQueue
from fastnode.queue.message_attributes import encode_extras
from fastnode.queue.parts import Send, Sent
from fastnode.queue.places import at_partition, by_partition, in_partitions, of_call
from fastnode.queue.repeats import Landed, find, request_at
from fastnode.queue.service import Service
from fastnode.queue.validate import ValidSend

_ID_BYTES: Final = 16
# An entry with the number that it has in its call.
Numbered = tuple[int, ValidSend]


async def store(
    service: Service, queue: LiveQueue, call: Call, messages: Sequence[Numbered]
) -> list[Sent | None]:
    """One transaction for each partition; on return everything in the answer is durable. None for
    an entry that an earlier attempt of the call has refused, or its partition alone: the queue may
    be gone in one already, and made anew in another.
    """
    parts = by_partition(messages, lambda item: queue.partition_for(item[1].extras.group_id or ""))
    results = await in_partitions(
        _store_at(service, queue, call, partition, some) for partition, some in parts.items()
    )
    refusals = [part for part in results if isinstance(part, SqsError)]
    if len(refusals) == len(results):
        raise refusals[0]
    sent = {
        number: one
        for some, part in zip(parts.values(), results, strict=True)
        if not isinstance(part, SqsError)
        for (number, _), one in zip(some, part, strict=True)
    }
    return [sent.get(number) for number, _ in messages]


async def _store_at(
    service: Service,
    queue: LiveQueue,
    call: Call,
    partition: int,
    messages: Sequence[Numbered],
) -> Sequence[Sent | None] | SqsError:
    sender = call.caller.sender_id
    try:
        return await at_partition(
            service,
            queue,
            partition,
            lambda shard: store_in(service, shard, call, sender, messages),
            lambda: Send(*of_call(service, call, queue), partition, sender, list(messages)),
            lambda sent: sent,
        )
    except SqsError as refusal:
        return refusal


async def store_in(
    service: Service, queue: LiveQueue, call: Call, sender: str, messages: Sequence[Numbered]
) -> list[Sent | None]:
    assert isinstance(queue, FifoQueue)
    request = request_at(service.identity(call), queue.partition)
    landed = await find(queue.group, request)
    if landed is None:
        queue.group.require_room()
    keys = [_dedup_key(queue, valid) for _, valid in messages]
    while (blocked := queue.group.latches.wait_for(keys)) is not None:
        await blocked
    originals = _originals(queue, keys)
    if landed is not None:
        service.gates.recognised += 1
        return [
            sent_before(queue.partition, landed, entry, valid.body)
            if landed.has(entry)
            else _original(queue, originals[key], valid)
            for key, (entry, valid) in zip(keys, messages, strict=True)
        ]
    stamps = queue.group.stamp(request)
    drafts: dict[bytes, FifoDraft] = {}
    for key, (entry, valid) in zip(keys, messages, strict=True):
        original = originals[key]
        if key not in drafts and (original is None or not _is_recent(original, stamps[1])):
            drafts[key] = _draft(entry, valid, key)
    service.gates.deduplicated += len(messages) - len(drafts)
    sent: dict[bytes, Sent] = {}
    if drafts:
        outcome = Suspension()
        new = tuple(drafts.values())
        records = submit(queue, (request, call.retention), stamps, sender, new, outcome)
        await outcome
        queue.sent(stamps[1], new, records)
        sent = {
            draft.dedup_key: _answer(queue, stamps[1] << 16 | draft.entry, record)
            for draft, record in zip(new, records, strict=True)
        }
    else:
        await service.still_led(queue.group)
    return [
        sent[key] if key in sent else _original(queue, originals[key], valid)
        for key, (_, valid) in zip(keys, messages, strict=True)
    ]


def sent_before(partition: int, landed: Landed, number: int, body: bytes) -> Sent:
    sequence = native.sequence_number(landed.position(number), partition)
    return Sent(landed.message_id(number), body_md5(body), sequence)


def submit(
    queue: FifoQueue,
    identity: tuple[bytes, int],
    stamps: tuple[int, int],
    sender: str,
    drafts: Sequence[FifoDraft],
    waiting: Resumable,
) -> list[bytes]:
    """Plan and submit messages of which none is a duplicate, under stamps just taken; their
    records.
    """
    group, (start_ts, commit_ts) = queue.group, stamps
    request, retention = identity
    encoded, records = plan_fifo_sends(
        request, start_ts, commit_ts, retention, queue.fifo_keys, sender, drafts
    )
    latched = tuple([draft[2] for draft in drafts])
    group.latches.hold(latched)
    add, now_ms = queue.recent.add, commit_ts >> 16
    for key in latched:
        add(key, now_ms)
    group.submit_encoded(request, commit_ts, encoded, waiting, latched)
    return records


def submit_one(
    queue: FifoQueue,
    identity: tuple[bytes, int],
    stamps: tuple[int, int],
    sender: str,
    draft: FifoDraft,
    waiting: Resumable,
) -> bytes:
    """As `submit`, for a message of `plain_drafts`: nobody holds its key."""
    group, (start_ts, commit_ts) = queue.group, stamps
    request, retention = identity
    encoded, (record,) = plan_fifo_sends(
        request, start_ts, commit_ts, retention, queue.fifo_keys, sender, (draft,)
    )
    key = draft[2]
    group.latches.held.add(key)
    queue.recent.add(key, commit_ts >> 16)
    group.submit_encoded(request, commit_ts, encoded, waiting, (key,))
    return record


def plain_drafts(
    queue: FifoQueue, filed: Sequence[tuple[str, str | None]], bodies: Sequence[bytes]
) -> list[FifoDraft] | None:
    """Of messages with nothing but bodies and ids, if all are new and nobody has to wait for
    anything: then there is nothing left to check but the bodies.
    """
    if queue.settings.has_content_based_deduplication:
        filed = [
            (group_id, content_deduplication_id(body) if known is None else known)
            for (group_id, known), body in zip(filed, bodies, strict=True)
        ]
    drafts = native.plain_drafts(queue.messages.dedup, queue.record.dedup_per_group, filed, bodies)
    if drafts is None:
        return None
    group, may_have = queue.group, queue.recent.may_have
    held = group.latches.held
    for _, _, key, _, _ in drafts:
        if key in held or (may_have(key) and group.get(key) is not None):
            return None
    return drafts


def _originals(queue: FifoQueue, keys: Sequence[bytes]) -> dict[bytes, bytes | None]:
    """The rows of deduplication keys; None where there is none that matters any more."""
    used = [key for key in keys if queue.recent.may_have(key)]
    rows = dict(zip(used, queue.group.get_many(used), strict=True)) if used else {}
    return {key: rows.get(key) for key in keys}


def _draft(entry: int, valid: ValidSend, dedup_key: bytes) -> FifoDraft:
    extras = valid.extras
    assert extras.group_id is not None
    return FifoDraft(entry, extras.group_id, dedup_key, encode_extras(extras), valid.body)


def _dedup_key(queue: LiveQueue, valid: ValidSend) -> bytes:
    extras = valid.extras
    assert extras.group_id is not None and extras.deduplication_id is not None
    group_id = extras.group_id if queue.record.dedup_per_group else ""
    return queue.messages.dedup_key(group_id, extras.deduplication_id)


def _is_recent(original: bytes, now: int) -> bool:
    sent_at = int.from_bytes(original[_ID_BYTES:], "big") >> 16
    return (now >> 16) - (sent_at >> 16) < config.DEDUPLICATION_MS


def _answer(queue: LiveQueue, position: int, record: bytes) -> Sent:
    message = native.decode_message(record)
    number = native.sequence_number(position, queue.partition)
    return Sent(native.message_id_text(message.message_id), message.body_md5.hex(), number)


def _original(queue: LiveQueue, original: bytes | None, valid: ValidSend) -> Sent | None:
    """What is no new message is a duplicate."""
    if original is None:
        return None
    position = int.from_bytes(original[_ID_BYTES:], "big")
    message_id = native.message_id_text(original[:_ID_BYTES])
    return Sent(message_id, body_md5(valid.body), native.sequence_number(position, queue.partition))


def original_of(queue: FifoQueue, valid: ValidSend) -> Sent | None:
    """The message that this one would be a duplicate of."""
    key = _dedup_key(queue, valid)
    return _original(queue, _originals(queue, (key,))[key], valid)
