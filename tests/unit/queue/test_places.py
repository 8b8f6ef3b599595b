"""What is done in partitions, from any node, and what becomes of queues that are made anew."""

import pytest

from fastnode.errors import Unavailable
from fastnode.queue import api
from fastnode.queue.errors import SqsError
from fastnode.queue.partitions import PartitionedQueue
from tests.unit.cluster.cluster_world import ClusterWorld, answer_of
from tests.world import ACCOUNT, REGION

URL = "p.fifo"
GROUPS = "abcdefgh"


def spread(count: int = 4) -> ClusterWorld:
    world = ClusterWorld()
    world.create_partitioned(1, URL, count)
    return world


def front(world: ClusterWorld, node: int) -> PartitionedQueue:
    queue = world.nodes[node].service.find(ACCOUNT, REGION, URL)
    assert isinstance(queue, PartitionedQueue)
    return queue


def partition_group(world: ClusterWorld, group_id: str) -> int:
    queue = front(world, 1)
    return queue.group_at(queue.partition_for(group_id)).number


def batch(bodies: list[str]) -> api.SendMessageBatchRequest:
    entries = [
        api.SendMessageBatchRequestEntry(f"e{at}", body, message_group_id=body[0])
        for at, body in enumerate(bodies)
    ]
    return api.SendMessageBatchRequest(URL, entries)


@pytest.mark.parametrize("node", [1, 2, 3])
def test_a_batch_is_answered_in_its_order_whoever_stores_what(node: int) -> None:
    world = spread()
    bodies = [f"{group}0" for group in GROUPS] + ["a1", "b1"]
    answer = world.call(node, "SendMessageBatch", batch(bodies))
    assert [one.id for one in answer.successful] == [f"e{at}" for at in range(10)]
    assert answer.failed == []
    again = world.call(node % 3 + 1, "SendMessageBatch", batch(bodies))
    assert [one.message_id for one in again.successful] == [
        one.message_id for one in answer.successful
    ], "what was sent before is recognised at any node"
    assert sorted(world.drain(node, URL)) == sorted(bodies)


@pytest.mark.parametrize("node", [1, 2, 3])
def test_handles_work_at_every_node(node: int) -> None:
    world = spread()
    world.call(1, "SendMessageBatch", batch([f"{group}0" for group in GROUPS]))
    handles: dict[str, str] = {}
    for _ in range(6):
        handles |= {one.body: one.receipt_handle for one in world.receive(node % 3 + 1, URL)}
    assert len(handles) == 8
    world.call(
        node,
        "ChangeMessageVisibility",
        api.ChangeMessageVisibilityRequest(URL, handles.pop("a0"), 0),
    )
    changes = [
        api.ChangeMessageVisibilityBatchRequestEntry(body, handles[body], seconds)
        for body, seconds in (("b0", 0), ("c0", 0), ("d0", 60))
    ]
    changes.append(api.ChangeMessageVisibilityBatchRequestEntry("x", "forged", 0))
    changed = world.call(
        node,
        "ChangeMessageVisibilityBatch",
        api.ChangeMessageVisibilityBatchRequest(URL, changes),
    )
    assert [one.id for one in changed.successful] == ["b0", "c0", "d0"]
    assert [(one.id, one.code) for one in changed.failed] == [("x", "ReceiptHandleIsInvalid")]
    assert world.counts(node, URL) == (3, 5, 0)
    world.delete(node, URL, handles["d0"])
    entries = [
        api.DeleteMessageBatchRequestEntry(body, handles[body])
        for body in ("b0", "e0", "f0", "g0", "h0")
    ]
    deleted = world.call(node, "DeleteMessageBatch", api.DeleteMessageBatchRequest(URL, entries))
    assert [one.id for one in deleted.successful] == ["e0", "f0", "g0", "h0"]
    # It is visible again, and on a FIFO queue the handle is good no more.
    assert [one.id for one in deleted.failed] == ["b0"]
    assert "expired" in (deleted.failed[0].message or "")
    assert sorted(world.drain(node, URL)) == ["a0", "b0", "c0"]


@pytest.mark.parametrize("node", [1, 2, 3])
def test_purge_and_deletion_reach_every_partition(node: int) -> None:
    world = spread()
    world.call(1, "SendMessageBatch", batch([f"{group}0" for group in GROUPS]))
    world.call(node, "PurgeQueue", api.PurgeQueueRequest(URL))
    assert world.counts(node % 3 + 1, URL) == (0, 0, 0)
    world.call(1, "SendMessageBatch", batch([f"{group}1" for group in GROUPS]))
    assert world.counts(node, URL) == (8, 0, 0)
    world.call(node, "DeleteQueue", api.DeleteQueueRequest(URL))
    world.create_partitioned(node % 3 + 1, URL)
    for reader in (1, 2, 3):
        assert world.counts(reader, URL) == (0, 0, 0)
        assert world.receive(reader, URL) == []


@pytest.mark.parametrize("node", [1, 2, 3])
def test_attributes_hold_at_every_node_at_once(node: int) -> None:
    world = spread()
    for group in GROUPS:
        world.send(1, URL, group, group)
    change = api.SetQueueAttributesRequest(URL, {"DelaySeconds": "900"})
    world.call(node, "SetQueueAttributes", change)
    for reader in (1, 2, 3):
        assert world.receive(reader, URL) == []
        assert world.counts(reader, URL) == (0, 0, 8)


def test_attributes_wait_for_a_leader_of_partitions_that_lags() -> None:
    world = spread()
    world.lagging |= {1, 2, 3}
    change = api.SetQueueAttributesRequest(URL, {"DelaySeconds": "900"})
    changing = world.begin(2, "SetQueueAttributes", change)
    world.settle()
    assert not changing.is_done
    world.lagging.clear()
    world.settle()
    assert answer_of(changing) is None


@pytest.mark.parametrize("node", [1, 2, 3])
@pytest.mark.parametrize("leader", [1, 2, 3])
def test_a_send_follows_the_lead_of_its_partition(node: int, leader: int) -> None:
    world = spread()
    world.send(node, URL, "a0", "a")
    sending = world.begin(
        node, "SendMessage", api.SendMessageRequest(URL, "a1", message_group_id="a")
    )
    world.lead(partition_group(world, "a"), leader)
    assert answer_of(sending).sequence_number
    world.depose(partition_group(world, "a"))
    waiting = world.begin(
        node, "SendMessage", api.SendMessageRequest(URL, "a2", message_group_id="a")
    )
    world.advance(1_000)
    assert not waiting.is_done
    world.lead(partition_group(world, "a"), leader)
    assert answer_of(waiting).sequence_number
    assert world.drain(node, URL) == ["a0", "a1", "a2"]


def test_a_front_whose_own_lead_has_just_come_confirms_the_queue_and_goes_on() -> None:
    """It leads the partition, does not lead the home, and has forgotten what it believed."""
    world = spread()
    home = front(world, 1).group.number
    name = next(one for one in GROUPS if partition_group(world, one) != home)
    group = partition_group(world, name)
    world.lead(home, 1)
    world.lead(group, 1)
    world.send(3, URL, "0", name)
    world.link(3, 1).is_held = True
    sending = world.begin(3, "SendMessage", api.SendMessageRequest(URL, "1", message_group_id=name))
    world.settle()
    assert not sending.is_done
    # The lead comes here while the part is on its way; the other node has seen nothing of it.
    world.lead(group, 3)
    world.link(3, 1).is_held = False
    world.settle()
    assert answer_of(sending).sequence_number
    assert world.drain(2, URL) == ["0", "1"]


def test_a_part_that_was_sent_and_not_answered_is_unknown_and_not_repeated() -> None:
    world = spread()
    name = next(one for one in GROUPS if world.leaders[partition_group(world, one)] == 2)
    world.send(1, URL, "0", name)
    world.link(1, 2).are_answers_held = True
    sending = world.begin(1, "SendMessage", api.SendMessageRequest(URL, "1", message_group_id=name))
    world.settle()
    world.cut(1, 2)
    with pytest.raises(Unavailable):
        answer_of(sending)
    world.mend(1, 2)
    assert world.drain(3, URL) == ["0", "1"]


# --- a queue that is made anew ------------------------------------------------------------------


@pytest.mark.parametrize("lagging", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_queue_is_made_anew_while_a_node_lags(lagging: int, count: int) -> None:
    world = spread()
    home = front(world, 1).group.number
    world.lead(home, lagging % 3 + 1)
    for group in GROUPS:
        world.send(lagging, URL, f"old {group}", group)
    world.lagging.add(lagging)
    world.call(lagging % 3 + 1, "DeleteQueue", api.DeleteQueueRequest(URL))
    creating = world.begin(
        lagging % 3 + 1,
        "CreateQueue",
        api.CreateQueueRequest(
            URL,
            {
                "FifoQueue": "true",
                "ContentBasedDeduplication": "true",
                "DeduplicationScope": "messageGroup",
                "FifoThroughputLimit": "perMessageGroupId",
                "PartitionCount": str(count),
            },
        ),
    )
    world.settle()
    assert answer_of(creating).queue_url
    sends = [
        world.begin(
            lagging, "SendMessage", api.SendMessageRequest(URL, group, message_group_id=group)
        )
        for group in GROUPS
    ]
    world.settle()
    world.lagging.clear()
    world.settle()
    for sending in sends:
        assert answer_of(sending).message_id
    assert world.counts(2, URL) == (8, 0, 0)
    assert sorted(world.drain(lagging, URL)) == sorted(GROUPS)


def test_a_partition_that_was_looked_up_during_a_deletion_is_not_used_for_the_next_queue() -> None:
    world = spread()
    home = front(world, 1).group.number
    world.lead(home, 1)
    name = next(one for one in GROUPS if partition_group(world, one) != home)
    world.lead(partition_group(world, name), 3)
    world.send(3, URL, "old", name)
    # The partitions are empty, the queue's own end is not committed: node 3 asks and is told that
    # the queue exists.
    world.stuck.add(home)
    deleting = world.begin(1, "DeleteQueue", api.DeleteQueueRequest(URL))
    world.settle()
    assert not deleting.is_done
    world.send(3, URL, "between", name)
    world.lagging.add(3)
    world.stuck.clear()
    world.settle()
    assert answer_of(deleting) is None
    world.create_partitioned(1, URL)
    sending = world.begin(
        3, "SendMessage", api.SendMessageRequest(URL, "new", message_group_id=name)
    )
    world.settle()
    world.lagging.clear()
    world.settle()
    assert answer_of(sending).message_id
    assert world.drain(2, URL) == ["new"]


def test_a_queue_that_was_deleted_is_not_found_at_a_node_that_lags() -> None:
    world = spread()
    for group in GROUPS:
        world.send(3, URL, group, group)
    home = front(world, 1).group.number
    world.lead(home, 1)
    world.lagging.add(3)
    world.call(1, "DeleteQueue", api.DeleteQueueRequest(URL))
    sends = [
        world.begin(3, "SendMessage", api.SendMessageRequest(URL, "m", message_group_id=group))
        for group in GROUPS
    ]
    world.settle()
    world.lagging.clear()
    world.settle()
    for sending in sends:
        with pytest.raises(SqsError, match="QueueDoesNotExist"):
            answer_of(sending)
