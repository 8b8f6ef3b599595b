"""What creating, purging and deleting a queue does to its partitions, each in its own group.

A partition's row is open while its queue exists. Creating opens those that are closed and leaves
the others alone, so a repeated or interrupted creation never touches messages.
"""

from collections.abc import Sequence

from fastnode.flow import gather
from fastnode.queue.live import LiveQueue
from fastnode.queue.partitions import PartitionedQueue, partition_generation
from fastnode.queue.service import Service
from fastnode.store.group import Group
from fastnode.store.keyspace import MessageKeys, PartitionKeys, QueueKeys
from fastnode.store.records import Generation, encode_generation


async def open_partitions(service: Service, keys: QueueKeys, groups: Sequence[int]) -> None:
    await gather(
        _open(service, service.groups[number], keys, partition)
        for partition, number in enumerate(groups)
    )


async def _open(service: Service, group: Group, queue: QueueKeys, partition: int) -> None:
    keys = PartitionKeys(queue, partition)
    while (blocked := group.latches.wait_for((keys.generation,))) is not None:
        await blocked
    generation = partition_generation(group, keys)
    if generation.number and not generation.deleted_ms:
        return
    txn = group.begin(service.new_request())
    txn.put(keys.generation, encode_generation(Generation(generation.number + 1, 0)))
    # What was sent between the last steps of a deletion was never the new queue's.
    for prefix in MessageKeys(keys.segment, generation.number, partition).prefixes():
        txn.drop(prefix)
    await group.submit(txn)


async def renew_partitions(service: Service, queue: PartitionedQueue, *, is_deleted: bool) -> None:
    """Everything in them goes. Whoever is answered knows that all have done it."""
    await gather(_renew(service, shard, is_deleted=is_deleted) for shard in queue.shards)


async def _renew(service: Service, shard: LiveQueue, *, is_deleted: bool) -> None:
    group = shard.group
    while (blocked := group.latches.wait_for((shard.keys.generation,))) is not None:
        await blocked
    generation = shard.generation + 1
    txn = group.begin(service.new_request())
    deleted_ms = txn.commit_ts >> 16 if is_deleted else 0
    txn.put(shard.keys.generation, encode_generation(Generation(generation, deleted_ms)))
    for prefix in shard.messages.prefixes():
        txn.drop(prefix)
    await group.submit(txn)
    shard.restart(generation)
