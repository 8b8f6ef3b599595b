"""What creating, purging and deleting a queue does to its partitions, each in its own group.

A partition's row is open while its queue exists. Creating opens those that are closed and leaves
the others alone, so a repeated or interrupted creation never touches messages.
"""

import contextlib
from collections.abc import Sequence

from fastnode import config
from fastnode.errors import NotLed, PlanAgain, Unavailable
from fastnode.flow import gather
from fastnode.queue import parts
from fastnode.queue.choice import Counts
from fastnode.queue.live import LiveQueue
from fastnode.queue.partitions import PartitionedQueue, partition_generation
from fastnode.queue.places import at_group, at_partition, identity_of
from fastnode.queue.service import Service
from fastnode.store.group import Group
from fastnode.store.keyspace import (
    MessageKeys,
    PartitionKeys,
    QueueKeys,
    partition_tasks_prefix,
)
from fastnode.store.records import Generation, encode_generation


async def open_partitions(service: Service, keys: QueueKeys, groups: Sequence[int]) -> None:
    await gather(
        _open(service, service.groups[number], keys, partition)
        for partition, number in enumerate(groups)
    )


async def _open(service: Service, group: Group, keys: QueueKeys, partition: int) -> None:
    await at_group(
        service,
        group,
        lambda: open_partition(service, group, keys, partition),
        lambda: parts.Open(keys.segment, partition, group.number),
    )


async def open_partition(service: Service, group: Group, queue: QueueKeys, partition: int) -> None:
    """Where the group is led."""
    keys = PartitionKeys(queue, partition)
    while (blocked := group.latches.wait_for((keys.generation,))) is not None:
        await blocked
    if not group.is_ready:
        raise NotLed("another node leads the group")
    generation = partition_generation(group, keys)
    if generation.number and not generation.deleted_ms:
        return
    txn = group.begin(service.new_request())
    txn.put(keys.generation, encode_generation(Generation(generation.number + 1, 0)))
    # What was sent between the last steps of a deletion was never the new queue's.
    for prefix in MessageKeys(keys.segment, generation.number, partition).prefixes():
        txn.drop(prefix)
    txn.drop(partition_tasks_prefix(keys.segment, partition))
    await group.submit(txn)
    # This node may remember the partition of a queue that has just been deleted.
    service.doubt(queue, partition)


async def renew_partitions(service: Service, queue: PartitionedQueue, *, is_deleted: bool) -> None:
    """Everything in them goes. Whoever is answered knows that all have done it."""
    until_ms = (queue.group.now() >> 16) + config.RENEWAL_MS
    await gather(
        _renew(service, queue, partition, until_ms, is_deleted=is_deleted)
        for partition in range(queue.record.partition_count)
    )


async def _renew(
    service: Service, queue: PartitionedQueue, partition: int, until_ms: int, *, is_deleted: bool
) -> None:
    await at_partition(
        service,
        queue,
        partition,
        lambda shard: renew_partition(service, shard, until_ms, is_deleted=is_deleted),
        lambda: parts.Renew(*identity_of(queue), partition, is_deleted, until_ms),
        lambda _answer: None,
    )


async def renew_partition(
    service: Service, shard: LiveQueue, until_ms: int, *, is_deleted: bool
) -> None:
    """Where the partition is led. Whoever asked has long been told that it failed if this comes
    late, and may have sent messages since.
    """
    group = shard.group
    while (blocked := group.latches.wait_for((shard.keys.generation,))) is not None:
        await blocked
    generation = shard.generation + 1
    txn = group.begin(service.new_request())
    if txn.commit_ts >> 16 > until_ms:
        raise Unavailable("the purge or deletion comes too late")
    deleted_ms = txn.commit_ts >> 16 if is_deleted else 0
    txn.put(shard.keys.generation, encode_generation(Generation(generation, deleted_ms)))
    for prefix in shard.messages.prefixes():
        txn.drop(prefix)
    if is_deleted:
        txn.drop(partition_tasks_prefix(shard.keys.segment, shard.partition))
    await group.submit(txn)
    shard.restart(generation)
    if is_deleted:
        # From now on only the home group knows whether there is a queue.
        service.doubt(shard.keys, shard.partition)


async def follow_everywhere(service: Service, queue: LiveQueue) -> None:
    """Return when whoever leads partitions knows the queue's metadata as they are here."""
    part = parts.Follow(queue.group.number, queue.group.applied_index)
    await gather(_follow(service, place, part) for place in queue.others())


async def _follow(service: Service, place: Group, part: parts.Follow) -> None:
    with contextlib.suppress(NotLed):  # the lead has come here
        await service.ask(place, part)


async def counts_everywhere(service: Service, queue: LiveQueue) -> Counts:
    """Every partition is counted, once: a lead that moves meanwhile is followed."""
    await service.readable(queue.group)
    counted = await counts_here(service, queue)
    for _ in range(config.PLANS_MAX):
        missing = [queue.group_at(one) for one in queue.partition_numbers if one not in counted]
        if not missing:
            return Counts(*map(sum, zip(*counted.values(), strict=True)))
        places = {group.leader: group for group in missing}.values()
        for some in await gather(_counts_at(service, queue, place) for place in places):
            counted |= some
    raise Unavailable("the partitions change their leaders too often")


async def _counts_at(service: Service, queue: LiveQueue, place: Group) -> dict[int, Counts]:
    try:
        counted = await service.ask(place, parts.Count(*identity_of(queue)))
    except NotLed:  # the lead has come here
        return await counts_here(service, queue)
    return {number: Counts(*count) for number, count in counted.items()}


async def counts_here(service: Service, queue: LiveQueue) -> dict[int, Counts]:
    """Of every partition that is led here and stays so meanwhile."""
    led = queue.shards
    await service.readable(*(shard.group for shard in led))
    # What its memory tells of a queue that was made anew, or that somebody else leads, is not true.
    if service.find(queue.account, queue.region, queue.name) is not queue:
        raise PlanAgain("the queue was made anew or has another leader")
    still = [shard for shard in queue.shards if shard in led]
    return {shard.partition: shard.counts(shard.group.now()) for shard in still}
