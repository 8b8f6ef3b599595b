"""Sends to a FIFO queue: duplicates are recognised, messages are filed under their group."""

import hashlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from fastnode import config, native
from fastnode.queue.caller import Call
from fastnode.queue.fifo_live import FifoQueue
from fastnode.queue.live import LiveQueue
from fastnode.queue.message_attributes import encode_extras
from fastnode.queue.parts import Send, Sent
from fastnode.queue.places import at_partition, by_partition, identity_of, in_partitions
from fastnode.queue.service import Service
from fastnode.queue.validate import ValidSend
from fastnode.store.keyspace import encode_position
from fastnode.store.txn import Txn

_ID_BYTES: Final = 16
_DIGITS: Final = 20


def sequence_number(queue: LiveQueue, position: int) -> str:
    """Rises with the log, is unique in the queue and needs no counter."""
    partition = max(queue.partition, 0)
    number = (position >> 16) * 512 + partition * 16 + (position & 0xFFFF)
    return f"{number:0{_DIGITS}d}"


async def store(
    service: Service, queue: LiveQueue, call: Call, messages: Sequence[ValidSend]
) -> list[Sent]:
    """One transaction for each partition; on return everything in the answer is durable."""
    sender, numbered = call.caller.sender_id, list(enumerate(messages))
    parts = by_partition(numbered, lambda item: queue.partition_for(item[1].extras.group_id or ""))
    results = await in_partitions(
        _store_at(service, queue, partition, sender, some) for partition, some in parts.items()
    )
    sent = {
        number: one
        for some, part in zip(parts.values(), results, strict=True)
        for (number, _), one in zip(some, part, strict=True)
    }
    return [sent[number] for number in range(len(messages))]


async def _store_at(
    service: Service,
    queue: LiveQueue,
    partition: int,
    sender: str,
    messages: Sequence[tuple[int, ValidSend]],
) -> Sequence[Sent]:
    return await at_partition(
        service,
        queue,
        partition,
        lambda shard: store_in(service, shard, sender, messages),
        lambda: Send(*identity_of(queue), partition, sender, list(messages)),
        lambda sent: sent,
    )


async def store_in(
    service: Service, queue: LiveQueue, sender: str, messages: Sequence[tuple[int, ValidSend]]
) -> list[Sent]:
    """Entries keep the number that they have in the call."""
    assert isinstance(queue, FifoQueue)
    queue.group.require_room()
    keys = [_dedup_key(queue, valid) for _, valid in messages]
    while (blocked := queue.group.latches.wait_for(keys)) is not None:
        await blocked
    originals = dict(zip(keys, queue.group.get_many(keys), strict=True))
    txn = queue.group.begin(service.new_request())
    sent: list[Sent] = []
    added: list[tuple[str, int]] = []
    for key, (entry, valid) in zip(keys, messages, strict=True):
        original = originals[key]
        digest = hashlib.md5(valid.body, usedforsecurity=False)
        if original is None or not _is_recent(original, txn.commit_ts):
            draft = _Draft(entry, valid, key, digest.digest())
            originals[key] = original = _plan(queue, txn, draft, sender)
            added.append((valid.extras.group_id or "", txn.commit_ts << 16 | entry))
        sent.append(_answer(queue, original, digest.hexdigest()))
    if added:
        txn.check(queue.keys.generation)
        txn.add(queue.messages.total, len(added))
        await queue.group.submit(txn)
        queue.sent(added)
    return sent


def _dedup_key(queue: LiveQueue, valid: ValidSend) -> bytes:
    extras = valid.extras
    assert extras.group_id is not None and extras.deduplication_id is not None
    group_id = extras.group_id if queue.record.dedup_per_group else ""
    return queue.messages.dedup_key(group_id, extras.deduplication_id)


def _is_recent(original: bytes, now: int) -> bool:
    sent_at = int.from_bytes(original[_ID_BYTES:], "big") >> 16
    return (now >> 16) - (sent_at >> 16) < config.DEDUPLICATION_MS


def _answer(queue: LiveQueue, original: bytes, body_md5: str) -> Sent:
    position = int.from_bytes(original[_ID_BYTES:], "big")
    message_id = native.message_id_text(original[:_ID_BYTES])
    return Sent(message_id, body_md5, sequence_number(queue, position))


class _Draft(NamedTuple):
    entry: int
    valid: ValidSend
    dedup_key: bytes
    digest: bytes


def _plan(queue: LiveQueue, txn: Txn, draft: _Draft, sender: str) -> bytes:
    """The new message; returns its deduplication row."""
    keys, (entry, valid, dedup_key, digest) = queue.messages, draft
    commit_ts = txn.commit_ts
    position = commit_ts << 16 | entry
    message_id = native.message_id(commit_ts, entry, txn.request)
    extras = valid.extras
    assert extras.group_id is not None
    record = native.encode_message(
        0, message_id, commit_ts >> 16, digest, sender, encode_extras(extras), valid.body
    )
    place = encode_position(position)
    original = message_id + place
    txn.put_fresh(keys.data_key(position), record)
    txn.put_fresh(keys.group_key(extras.group_id, position), b"")
    txn.touch(keys.head_key(extras.group_id))
    txn.put(dedup_key, original)
    txn.put_fresh(keys.dedup_age + place + dedup_key[len(keys.dedup) :], b"")
    txn.mask |= 1 << entry
    return original
