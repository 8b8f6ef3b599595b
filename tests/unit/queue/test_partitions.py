"""FIFO queues with partitions: many queues inside, one to its users."""

import base64
import json

import pytest

from fastnode.flow import start
from fastnode.queue import api
from fastnode.queue.errors import SqsError
from fastnode.queue.partitions import PartitionedQueue
from fastnode.queue.peek import PeekPage, PeekRequest, peek
from fastnode.queue.retention import Sweeper
from tests.unit.queue.fifo_world import URL, FifoWorld
from tests.world import ACCOUNT, REGION, FakeAlarm

HIGH_THROUGHPUT = {
    "FifoThroughputLimit": "perMessageGroupId",
    "DeduplicationScope": "messageGroup",
}
GROUPS = [f"g{number}" for number in range(12)]


def partitioned(count: int = 4, groups: int = 4, **attributes: str) -> FifoWorld:
    wanted = {**HIGH_THROUGHPUT, "PartitionCount": str(count), **attributes}
    return FifoWorld(groups, **wanted)


def front(world: FifoWorld, name: str = URL) -> PartitionedQueue:
    queue = world.service.find(ACCOUNT, REGION, name)
    assert isinstance(queue, PartitionedQueue)
    return queue


def drain(world: FifoWorld, url: str = URL) -> list[str]:
    """Everything, deleted as it comes: a group goes on when what was received is gone."""
    bodies: list[str] = []
    while messages := world.get(timeout=3_600, url=url):
        for message in messages:
            bodies.append(message.body)
            world.delete(url, message.receipt_handle)
    return bodies


def fill(world: FifoWorld, per_group: int = 2) -> None:
    for number in range(per_group):
        for group in GROUPS:
            world.put(group, f"{group}-{number}")


def test_partitions_are_spread_over_the_groups() -> None:
    world = partitioned(count=8)
    queue = front(world)
    assert [shard.partition for shard in queue.shards] == list(range(8))
    assert {shard.group.number for shard in queue.shards} == {0, 1, 2, 3}
    fill(world)
    used = [shard for shard in queue.shards if sum(shard.counts(shard.group.now()))]
    assert len(used) > 3, "twelve groups must not share three partitions"


def test_the_default_count_needs_no_private_attribute() -> None:
    world = FifoWorld(4, **HIGH_THROUGHPUT)
    assert len(front(world).shards) == 8
    shown = world.call("GetQueueAttributes", api.GetQueueAttributesRequest(URL, ["All"]))
    assert "PartitionCount" not in shown.attributes and len(shown.attributes) == 16


def test_each_group_keeps_its_order_and_every_message_comes_once() -> None:
    world = partitioned()
    fill(world, 3)
    assert world.counts(URL) == (36, 0, 0)
    received = drain(world)
    assert len(received) == len(set(received)) == 36
    for group in GROUPS:
        assert [body for body in received if body.startswith(f"{group}-")] == [
            f"{group}-{number}" for number in range(3)
        ]
    assert world.counts(URL) == (0, 0, 0)


def test_a_receive_fills_up_from_several_partitions() -> None:
    world = partitioned()
    for group in GROUPS:
        world.put(group, group)
    assert len(world.get(limit=10)) == 10
    assert len(world.get(limit=10)) == 2


def test_no_partition_starves() -> None:
    world = partitioned()
    fill(world, 1)
    shards = front(world).shards
    for _ in range(len(shards)):
        world.got(limit=1)
    assert all(shard.counts(shard.group.now()).in_flight == 1 for shard in shards)


def test_a_locked_group_stays_locked() -> None:
    world = partitioned()
    world.put("g1", "a", "b")
    (a,) = world.get(limit=1)
    assert world.got() == []
    world.delete(URL, a.receipt_handle)
    assert world.got() == ["b"]


def test_handles_delete_and_hide() -> None:
    world = partitioned()
    fill(world, 1)
    taken = world.get(limit=10, timeout=60)
    entries = [
        api.DeleteMessageBatchRequestEntry(f"e{at}", message.receipt_handle)
        for at, message in enumerate(taken[:8])
    ]
    answer = world.call("DeleteMessageBatch", api.DeleteMessageBatchRequest(URL, entries))
    assert [entry.id for entry in answer.successful] == [f"e{at}" for at in range(8)]
    world.change(URL, taken[8].receipt_handle, 0)
    changes = [
        api.ChangeMessageVisibilityBatchRequestEntry(f"e{at}", message.receipt_handle, 600)
        for at, message in enumerate([taken[9], taken[0]])
    ]
    request = api.ChangeMessageVisibilityBatchRequest(URL, changes)
    outcome = world.call("ChangeMessageVisibilityBatch", request)
    assert [entry.id for entry in outcome.successful] == ["e0"]
    assert [entry.id for entry in outcome.failed] == ["e1"]
    world.advance(60_001)
    assert world.counts(URL) == (3, 1, 0)


def tampered(handle: str, partition: int) -> str:
    raw = bytearray(base64.urlsafe_b64decode(handle + "=" * (-len(handle) % 4)))
    raw[1:5] = partition.to_bytes(4, "big")
    return base64.urlsafe_b64encode(bytes(raw)).rstrip(b"=").decode()


def test_a_handle_with_another_partition_is_forged() -> None:
    world = partitioned()
    world.put("g1", "a")
    (a,) = world.get()
    partition = next(s.partition for s in front(world).shards if s.counts(s.group.now()).in_flight)
    for other in (0, 1, 2, 3, 4, 2**32 - 1):
        if other == partition:
            continue
        with pytest.raises(SqsError) as caught:
            world.delete(URL, tampered(a.receipt_handle, other))
        assert caught.value.row.shape == "ReceiptHandleIsInvalid"
    assert world.counts(URL) == (0, 1, 0)
    world.delete(URL, a.receipt_handle)
    assert world.counts(URL) == (0, 0, 0)


def test_handles_of_the_other_version_are_refused() -> None:
    world = partitioned()
    world.create_fifo("plain.fifo")
    world.put("g1", "a")
    world.put("g1", "b", url="plain.fifo")
    (new,), (old,) = world.get(), world.get(url="plain.fifo")
    assert (len(new.receipt_handle), len(old.receipt_handle)) == (60, 55)
    for url, handle in ((URL, old.receipt_handle), ("plain.fifo", new.receipt_handle)):
        with pytest.raises(SqsError, match="not a valid receipt handle"):
            world.delete(url, handle)


def test_deduplication_is_per_group() -> None:
    world = partitioned()
    first = world.put_one("g1", "a", "same")
    assert world.put_one("g1", "b", "same").message_id == first.message_id
    assert world.put_one("g2", "c", "same").message_id != first.message_id


def test_a_batch_is_split_and_answered_in_its_order() -> None:
    world = partitioned()
    entries = [
        api.SendMessageBatchRequestEntry(
            f"e{at}", f"b{at}", message_group_id=GROUPS[at % 5], message_deduplication_id=f"d{at}"
        )
        for at in range(10)
    ]
    answer = world.call("SendMessageBatch", api.SendMessageBatchRequest(URL, entries))
    assert [entry.id for entry in answer.successful] == [f"e{at}" for at in range(10)]
    numbers = {entry.id: entry.sequence_number for entry in answer.successful}
    assert len(set(numbers.values())) == 10
    for at in range(5):
        assert numbers[f"e{at}"] < numbers[f"e{at + 5}"], "within a group numbers rise"
    shown = {m.body: m.attributes["SequenceNumber"] for m in world.get()}
    assert shown == {f"b{at}": numbers[f"e{at}"] for at in range(10)}


def test_purge_empties_every_partition() -> None:
    world = partitioned()
    world.put_one("g1", "a", "same")
    fill(world)
    world.get()
    world.call("PurgeQueue", api.PurgeQueueRequest(URL))
    assert world.counts(URL) == (0, 0, 0) and drain(world) == []
    world.put_one("g1", "again", "same")
    world.crash()
    assert drain(world) == ["again"]


def test_delete_and_create_again_starts_clean() -> None:
    world = partitioned()
    fill(world)
    world.call("DeleteQueue", api.DeleteQueueRequest(URL))
    with pytest.raises(SqsError, match="does not exist"):
        world.got()
    assert not [row for engine in world.engines for row in engine.scan(b"!sqs|msg", b"!sqs|n", 9)]
    world.create_fifo(URL, **HIGH_THROUGHPUT, PartitionCount="2")
    assert len(front(world).shards) == 2
    assert world.counts(URL) == (0, 0, 0)
    fill(world, 1)
    assert len(drain(world)) == 12


def test_a_repeated_create_leaves_the_messages_alone() -> None:
    world = partitioned()
    fill(world, 1)
    world.create_fifo(URL, **HIGH_THROUGHPUT, PartitionCount="4")
    first = world.begin("CreateQueue", api.CreateQueueRequest(URL, {"FifoQueue": "true"}))
    second = world.begin("CreateQueue", api.CreateQueueRequest(URL, {"FifoQueue": "true"}))
    world.commit()
    assert first.error is None and second.error is None
    assert world.counts(URL) == (12, 0, 0)


@pytest.mark.parametrize("steps", range(4))
def test_an_interrupted_delete_or_create_can_be_repeated(steps: int) -> None:
    world = partitioned()
    fill(world, 1)
    world.begin("DeleteQueue", api.DeleteQueueRequest(URL))
    for _ in range(steps):
        world.step()
    world.crash()
    if world.service.find(ACCOUNT, REGION, URL) is not None:
        world.call("DeleteQueue", api.DeleteQueueRequest(URL))
    wanted = {"FifoQueue": "true", **HIGH_THROUGHPUT, "PartitionCount": "4"}
    world.begin("CreateQueue", api.CreateQueueRequest(URL, wanted))
    for _ in range(steps):
        world.step()
    world.crash()
    world.create_fifo(URL, **HIGH_THROUGHPUT, PartitionCount="4")
    assert world.counts(URL) == (0, 0, 0)
    fill(world, 1)
    assert len(drain(world)) == 12


def test_changes_of_the_throughput_limit_are_shown_and_move_nothing() -> None:
    world = partitioned()
    fill(world, 1)
    change = {"FifoThroughputLimit": "perQueue", "DeduplicationScope": "queue"}
    world.call("SetQueueAttributes", api.SetQueueAttributesRequest(URL, change))
    assert len(front(world).shards) == 4
    world.crash()
    assert len(drain(world)) == 12


def test_a_poll_wakes_for_any_partition() -> None:
    world = partitioned()
    request = api.ReceiveMessageRequest(URL, wait_time_seconds=20)
    for group in GROUPS:
        poll = world.begin("ReceiveMessage", request)
        assert not poll.is_done
        world.put(group, group)
        assert poll.is_done and [m.body for m in poll.result.messages] == [group]


def test_a_poll_wakes_when_a_delay_or_a_timeout_ends() -> None:
    world = partitioned(DelaySeconds="5")
    world.put("g1", "a")
    request = api.ReceiveMessageRequest(URL, wait_time_seconds=20, visibility_timeout=7)
    poll = world.begin("ReceiveMessage", request)
    world.advance(5_001)
    assert poll.is_done and [m.body for m in poll.result.messages] == ["a"]
    again = world.begin("ReceiveMessage", request)
    world.advance(7_001)
    assert again.is_done and [m.body for m in again.result.messages] == ["a"]


def test_a_gone_client_takes_nothing_from_any_partition() -> None:
    world = partitioned()
    fill(world, 1)
    poll = world.begin("ReceiveMessage", api.ReceiveMessageRequest(URL, max_number_of_messages=10))
    poll.call.leave()
    world.commit()
    assert world.counts(URL) == (12, 0, 0)


def test_a_repeated_attempt_gives_the_same_messages_from_all_partitions() -> None:
    world = partitioned()
    fill(world, 1)
    first = world.get(limit=10, attempt="try")
    again = world.get(limit=10, attempt="try")
    assert {m.receipt_handle for m in first} == {m.receipt_handle for m in again}
    assert len(again) == 10


@pytest.mark.parametrize("target_count", [1, 4])
def test_dead_letters_keep_their_groups(target_count: int) -> None:
    world = partitioned()
    limit = HIGH_THROUGHPUT if target_count > 1 else {}
    count = {"PartitionCount": "4"} if target_count > 1 else {}
    world.create_fifo("dead.fifo", **limit, **count)
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:dead.fifo"
    text = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    world.call("SetQueueAttributes", api.SetQueueAttributesRequest(URL, {"RedrivePolicy": text}))
    fill(world, 2)
    while world.got(timeout=1):
        pass
    world.advance(1_001)
    while world.counts(URL) != (0, 0, 0):
        world.got()
    received = drain(world, "dead.fifo")
    assert len(received) == 24
    for group in GROUPS:
        assert [body for body in received if body.startswith(f"{group}-")] == [
            f"{group}-0",
            f"{group}-1",
        ]


def test_letters_to_a_queue_that_vanished_come_back_to_their_partition() -> None:
    world = partitioned()
    world.create_fifo("dead.fifo")
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:dead.fifo"
    text = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    world.call("SetQueueAttributes", api.SetQueueAttributesRequest(URL, {"RedrivePolicy": text}))
    world.put("g1", "a", "b")
    assert world.got(timeout=0) == ["a", "b"]
    world.begin("ReceiveMessage", api.ReceiveMessageRequest(URL, max_number_of_messages=10))
    world.step()
    world.refuse()
    assert world.counts(URL) == (0, 0, 0)
    world.call("DeleteQueue", api.DeleteQueueRequest("dead.fifo"))
    world.advance(1_000)
    assert world.counts(URL) == (2, 0, 0)
    world.crash()
    assert drain(world) == ["a", "b"]


def test_retention_sweeps_every_partition() -> None:
    world = partitioned(MessageRetentionPeriod="60")
    fill(world)
    world.get(timeout=600)
    world.advance(60_001)
    Sweeper(world.service, FakeAlarm(world)).start()
    world.advance(10_000)
    assert world.counts(URL) == (0, 0, 0)


def test_a_crash_keeps_order_and_locks() -> None:
    world = partitioned()
    fill(world, 2)
    taken = world.get(limit=10)
    world.crash()
    rest = drain(world)
    locked = {message.body.split("-")[0] for message in taken}
    assert not locked & {body.split("-")[0] for body in rest}
    for message in taken:
        world.delete(URL, message.receipt_handle)
    assert len(drain(world)) == 24 - len(taken) - len(rest)
    assert world.counts(URL) == (0, 0, 0)


def test_peek_walks_through_every_partition() -> None:
    world = partitioned()
    fill(world)
    seen: list[str] = []
    pages: list[PeekPage] = []

    def keep(page: PeekPage, error: BaseException | None) -> None:
        assert error is None
        pages.append(page)

    cursor: str | None = ""
    while cursor is not None:
        request = PeekRequest("visible", 5, 4_096, cursor)
        start(peek(world.service, ACCOUNT, REGION, URL, request), keep)
        seen += [message.body for message in pages[-1].messages]
        cursor = pages[-1].cursor
    assert sorted(seen) == sorted(f"{group}-{number}" for group in GROUPS for number in range(2))
