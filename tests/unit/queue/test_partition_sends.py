"""Batches to queues with partitions, of which another node leads one and knows better."""

from typing import Any

from fastnode.queue import api, parts
from fastnode.queue.caller import Call
from fastnode.queue.errors import SqsError, queue_does_not_exist
from fastnode.queue.partitions import PartitionedQueue
from fastnode.store.group import Group
from tests.unit.queue.fifo_world import URL, FifoWorld
from tests.unit.queue.test_partitions import GROUPS, front, partitioned
from tests.world import Pending


def batch_over_two_partitions(world: FifoWorld) -> tuple[PartitionedQueue, list[str]]:
    """Groups of two partitions, neither of them in the group that has the queue's metadata."""
    queue = front(world)
    groups: dict[int, str] = {}
    for group_id in GROUPS:
        partition = queue.partition_for(group_id)
        if queue.group_at(partition) is not queue.group:
            groups.setdefault(partition, group_id)
    return queue, list(groups.values())[:2]


def send_to(world: FifoWorld, groups: list[str]) -> Pending:
    entries = [
        api.SendMessageBatchRequestEntry(
            group, group, message_group_id=group, message_deduplication_id=group
        )
        for group in groups
    ]
    return world.begin("SendMessageBatch", api.SendMessageBatchRequest(URL, entries))


async def gone(group: Group, part: parts.Part, call: Call | None = None) -> Any:
    raise queue_does_not_exist()


def test_what_one_partition_refuses_is_refused_alone() -> None:
    world = partitioned()
    queue, groups = batch_over_two_partitions(world)
    # Another node leads it, where the queue is gone already.
    queue.group_at(queue.partition_for(groups[0])).change_role("follower", 2)
    world.service.ask = gone
    pending = send_to(world, groups)
    world.commit()
    assert [one.id for one in pending.result.successful] == groups[1:]
    (failed,) = pending.result.failed
    assert (failed.id, failed.sender_fault) == (groups[0], False)


def test_what_every_partition_refuses_is_refused() -> None:
    world = partitioned()
    queue, groups = batch_over_two_partitions(world)
    for group_id in groups:
        queue.group_at(queue.partition_for(group_id)).change_role("follower", 2)
    world.service.ask = gone
    pending = send_to(world, groups)
    assert isinstance(pending.error, SqsError)
    assert pending.error.row.shape == "QueueDoesNotExist"
