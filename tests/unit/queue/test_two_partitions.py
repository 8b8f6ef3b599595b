"""Two partitions in two groups: everything of a message is where its partition is.

Where only some reads and writes know of partitions, a queue like this loses deduplication, order
and deletes; where partitions share a sequence counter, their sends conflict. So each of these is
looked at apart, for each partition, with the logs of both groups in view.
"""

import pytest

from fastnode.queue import api
from fastnode.queue.live import LiveQueue
from tests.unit.queue.fifo_world import URL, FifoWorld
from tests.unit.queue.test_partitions import HIGH_THROUGHPUT, drain, front


@pytest.fixture
def world() -> FifoWorld:
    world = FifoWorld(2, **HIGH_THROUGHPUT, PartitionCount="2")
    assert sorted(shard.group.number for shard in front(world).shards) == [0, 1]
    return world


@pytest.fixture(params=[0, 1], ids=["first", "second"])
def shard(world: FifoWorld, request: pytest.FixtureRequest) -> LiveQueue:
    number: int = request.param
    return front(world).shards[number]


def group_in(world: FifoWorld, shard: LiveQueue, number: int = 0) -> str:
    """A message group of the partition, one of several."""
    names = (f"g{at}" for at in range(1_000))
    own = [name for name in names if front(world).shard_for(name) is shard]
    return own[number]


def sizes(world: FifoWorld) -> list[int]:
    return [len(log) for log in world.logs]


def written(world: FifoWorld, before: list[int]) -> list[int]:
    """Entries that each group has got since."""
    return [now - then for now, then in zip(sizes(world), before, strict=True)]


def only(shard: LiveQueue) -> list[int]:
    """One entry, in the partition's group."""
    return [int(number == shard.group.number) for number in range(2)]


def stored(shard: LiveQueue) -> tuple[int, int]:
    counter, keys = shard.group.counter, shard.messages
    return counter(keys.total), counter(keys.in_flight)


def test_deduplication_hits(world: FifoWorld, shard: LiveQueue) -> None:
    group = group_in(world, shard)
    first = world.put_one(group, "a", "same")
    before = sizes(world)
    again = world.put_one(group, "b", "same")
    assert (again.message_id, again.sequence_number) == (first.message_id, first.sequence_number)
    assert written(world, before) == [0, 0], "a duplicate writes nothing anywhere"
    assert world.counts(URL) == (1, 0, 0)
    world.crash()
    assert world.put_one(group, "c", "same").message_id == first.message_id
    world.advance(300_000)
    assert world.put_one(group, "d", "same").message_id != first.message_id


def test_the_group_lock_holds(world: FifoWorld, shard: LiveQueue) -> None:
    group = group_in(world, shard)
    world.put(group, "a", "b", "c")
    (a,) = world.get(limit=1, timeout=30)
    for _ in range(4):
        assert world.got() == [], "whichever partition a receive begins with"
    world.crash()
    assert world.got() == []
    world.advance(30_001)
    assert world.got(timeout=30) == ["a", "b", "c"], "the same head again, and in order"
    assert a.body == "a"


def test_a_delete_deletes(world: FifoWorld, shard: LiveQueue) -> None:
    group = group_in(world, shard)
    world.put(group, "a", "b")
    (a,) = world.get(limit=1)
    before = sizes(world)
    world.delete(URL, a.receipt_handle)
    assert written(world, before) == only(shard)
    assert world.counts(URL) == (1, 0, 0) and stored(shard) == (1, 0)
    world.crash()
    assert drain(world) == ["b"]
    rows = [row for engine in world.engines for row in engine.scan_keys(b"!sqs|msg|d", b"~", 99)]
    assert not [row for row in rows if row.startswith(shard.messages.data)]


def test_a_change_of_visibility_changes_it(world: FifoWorld, shard: LiveQueue) -> None:
    group = group_in(world, shard)
    world.put(group, "a")
    (a,) = world.get(timeout=30)
    before = sizes(world)
    world.change(URL, a.receipt_handle, 90)
    assert written(world, before) == only(shard)
    world.advance(60_000)
    assert world.got() == []
    world.change(URL, a.receipt_handle, 0)
    assert world.got() == ["a"]


def test_counters_are_right(world: FifoWorld) -> None:
    first, second = front(world).shards
    for at in range(3):
        world.put(group_in(world, first, at), "x")
        world.put(group_in(world, second, at), "y", "z")
    assert (stored(first), stored(second)) == ((3, 0), (6, 0))
    assert world.counts(URL) == (9, 0, 0)
    taken = world.get(limit=5)
    assert world.counts(URL) == (4, 5, 0)
    assert stored(first)[1] + stored(second)[1] == 5
    world.delete(URL, taken[0].receipt_handle)
    assert world.counts(URL) == (4, 4, 0)
    world.crash()
    assert world.counts(URL) == (4, 4, 0)
    world.advance(30_001)
    assert world.counts(URL) == (8, 0, 0)


def test_a_message_life_is_in_one_log(world: FifoWorld, shard: LiveQueue) -> None:
    before = sizes(world)
    world.put(group_in(world, shard), "a")
    (a,) = world.get()
    world.delete(URL, a.receipt_handle)
    assert written(world, before) == [3 * one for one in only(shard)]


def test_sends_to_different_partitions_do_not_conflict(world: FifoWorld) -> None:
    """All at once: each log gets one entry, nobody plans again, numbers rise in each group."""
    groups = [group_in(world, shard, at) for shard in front(world).shards for at in range(5)]
    before = sizes(world)
    begun = [
        world.begin(
            "SendMessage",
            api.SendMessageRequest(
                URL, f"{group}-{turn}", message_group_id=group, message_deduplication_id=f"d{turn}"
            ),
        )
        for turn in range(3)
        for group in groups
    ]
    assert not any(pending.is_done for pending in begun)
    world.step()
    assert all(pending.is_done and pending.error is None for pending in begun)
    assert written(world, before) == [1, 1]
    numbers = [pending.result.sequence_number for pending in begun]
    assert len(set(numbers)) == 30
    for at in range(len(groups)):
        own = numbers[at :: len(groups)]
        assert own == sorted(own)


def test_receives_and_deletes_of_different_partitions_do_not_conflict(world: FifoWorld) -> None:
    first, second = front(world).shards
    for shard in (first, second):
        world.put(group_in(world, shard), f"p{shard.partition}")
    one = world.begin("ReceiveMessage", api.ReceiveMessageRequest(URL))
    other = world.begin("ReceiveMessage", api.ReceiveMessageRequest(URL))
    before = sizes(world)
    world.step()
    assert written(world, before) == [1, 1]
    taken = [*one.result.messages, *other.result.messages]
    assert sorted(message.body for message in taken) == ["p0", "p1"]
    entries = [
        api.DeleteMessageBatchRequestEntry(f"e{at}", message.receipt_handle)
        for at, message in enumerate(taken)
    ]
    pending = world.begin("DeleteMessageBatch", api.DeleteMessageBatchRequest(URL, entries))
    world.step()
    assert len(pending.result.successful) == 2
    assert world.counts(URL) == (0, 0, 0)


def test_a_batch_that_one_log_refuses_leaves_the_other_partition_whole(world: FifoWorld) -> None:
    """What landed is a duplicate when the client tries again, so nothing is there twice."""
    first, second = front(world).shards
    entries = [
        api.SendMessageBatchRequestEntry(
            f"e{at}",
            f"b{at}",
            message_group_id=group_in(world, (first, second)[at % 2]),
            message_deduplication_id=f"d{at}",
        )
        for at in range(6)
    ]
    request = api.SendMessageBatchRequest(URL, entries)
    world.begin("SendMessageBatch", request)
    taken = first.group.take_entry()
    assert taken is not None
    world.logs[first.group.number].append(taken)
    world.crash()
    assert world.counts(URL) == (3, 0, 0)
    answer = world.call("SendMessageBatch", request)
    assert len(answer.successful) == 6
    assert world.counts(URL) == (6, 0, 0)
    assert sorted(drain(world)) == [f"b{at}" for at in range(6)]


@pytest.mark.parametrize("ahead_ms", [500, 0, -500])
def test_a_poll_wakes_in_time_whatever_the_clocks_of_the_groups_say(
    world: FifoWorld, shard: LiveQueue, ahead_ms: int
) -> None:
    group, queue = group_in(world, shard), front(world)
    world.put(group, "a")
    world.advance(1_000)
    # As if it had a leader whose clock was set before.
    queue.group._clock._anchor_ns += ahead_ms * 1_000_000
    assert [one.body for one in world.get(timeout=2)] == ["a"]
    poll = world.begin("ReceiveMessage", api.ReceiveMessageRequest(URL, wait_time_seconds=20))
    assert [at for at, _ in world.alarms.values()] == [world.now_ms + 2_001]
    # A clock that is being slowed down needs a little more.
    world.advance(2_005)
    assert [one.body for one in poll.result.messages] == ["a"]


def test_a_partition_whose_clock_is_ahead_ends_no_wait(world: FifoWorld) -> None:
    queue = front(world)
    other = next(one for one in queue.shards if one.group is not queue.group)
    other.group._clock._anchor_ns += 5_000_000_000
    world.advance(5)
    assert other.group.now() > queue.group.now()
    waiter = queue.wait((queue.group.now() >> 16) + 1_000)
    other.handed_out((), other.group.now())
    assert not waiter.is_done
    world.advance(1_001)
    assert waiter.is_done


def test_attributes_change_while_somebody_waits_and_a_partition_has_just_come(
    world: FifoWorld,
) -> None:
    queue = front(world)
    poll = world.begin("ReceiveMessage", api.ReceiveMessageRequest(URL, wait_time_seconds=20))
    # As if its lead had been lost and won again, and nobody had asked since.
    queue.doubt(1)
    queue.is_confirmed = True
    world.call("SetQueueAttributes", api.SetQueueAttributesRequest(URL, {"DelaySeconds": "7"}))
    assert [one.settings.delay_seconds for one in queue.shards] == [7, 7]
    assert not poll.is_done
