"""Partitions, rule by rule, where no other test looks: how groups spread, what is apart, what is
swept, what cannot be changed, whose turn it is.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode import native
from fastnode.queue import api
from fastnode.queue.errors import SqsError
from fastnode.queue.retention import Sweeper
from fastnode.store.keyspace import MessageKeys
from tests.unit.queue.fifo_world import URL, FifoWorld
from tests.unit.queue.test_partitions import (
    GROUPS,
    HIGH_THROUGHPUT,
    drain,
    fill,
    front,
    partitioned,
)
from tests.world import FakeAlarm

IDS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=6)


def test_a_hundred_thousand_groups_spread_evenly() -> None:
    counts = [0] * 8
    for number in range(100_000):
        counts[native.partition_for(f"group-{number}", 7, 8, False)] += 1
    assert all(abs(count - 12_500) <= 625 for count in counts), counts


@given(st.tuples(IDS, IDS), st.tuples(IDS, IDS))
def test_group_and_deduplication_id_are_apart_in_the_key(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    """`ab` and `c` are not `a` and `bc`."""
    keys = MessageKeys(native.queue_segment("000000000000", "us-east-1", URL), 1, 3)
    assert (keys.dedup_key(*one) == keys.dedup_key(*other)) == (one == other)


def test_groups_that_share_a_partition_deduplicate_apart() -> None:
    world = partitioned(2, 2)
    shard = front(world).shards[0]
    one, other = [group for group in GROUPS if front(world).shard_for(group) is shard][:2]
    first = world.put_one(one, "a", "same")
    assert world.put_one(other, "b", "same").message_id != first.message_id
    assert world.put_one(one, "c", "same").message_id == first.message_id
    assert world.counts(URL) == (2, 0, 0)


def test_scopes_of_partitions_generations_and_plain_queues_are_apart() -> None:
    segment = native.queue_segment("000000000000", "us-east-1", URL)
    scopes = [
        MessageKeys(segment, generation, partition).prefixes()
        for generation in (1, 2)
        for partition in (native.UNPARTITIONED, 0, 1, 31)
    ]
    every = [prefix for prefixes in scopes for prefix in prefixes]
    assert len(set(every)) == len(every)
    for prefix in every:
        assert sum(1 for other in every if other.startswith(prefix)) == 1


def test_a_limit_per_queue_makes_one_partition() -> None:
    world = FifoWorld(4, FifoThroughputLimit="perQueue", DeduplicationScope="queue")
    queue = world.service.find("000000000000", "us-east-1", URL)
    assert queue is not None and queue.partition == native.UNPARTITIONED
    world.put("g", "a")
    assert len(world.get()[0].receipt_handle) == 55, "a handle of the first version"


def test_a_refused_change_of_the_count_changes_nothing_else() -> None:
    world = partitioned(4)
    wanted = {"VisibilityTimeout": "77", "PartitionCount": "8"}
    with pytest.raises(SqsError) as caught:
        world.call("SetQueueAttributes", api.SetQueueAttributesRequest(URL, wanted))
    assert caught.value.row.shape == "InvalidAttributeValue"
    asked = api.GetQueueAttributesRequest(URL, ["VisibilityTimeout", "PartitionCount"])
    shown = world.call("GetQueueAttributes", asked).attributes
    assert shown == {"VisibilityTimeout": "30", "PartitionCount": "4"}


def test_what_is_remembered_for_five_minutes_goes_from_every_partition() -> None:
    world = partitioned(4)
    fill(world, 1)
    world.get(attempt="try")
    shards = front(world).shards

    def rows() -> list[int]:
        return [
            len(shard.group.scan_keys(prefix, native.prefix_end(prefix), 100))
            for shard in shards
            for keys in (shard.messages,)
            for prefix in (keys.dedup, keys.attempt, keys.attempt_age)
        ]

    assert sum(1 for count in rows() if count) >= 9
    world.advance(300_001)
    Sweeper(world.service, FakeAlarm(world)).start()
    world.advance(10_000)
    assert not any(rows())
    assert sum(world.counts(URL)) == 12, "messages stay"


def test_each_queue_has_turns_of_its_own() -> None:
    world = partitioned(4)
    world.create_fifo("other.fifo", **HIGH_THROUGHPUT, PartitionCount="4")
    for url in (URL, "other.fifo"):
        for group in GROUPS:
            world.put(group, group, url=url)
    for _ in range(4):
        world.get(limit=1, timeout=600)
        world.get(limit=1, timeout=600, url="other.fifo")
    for url in (URL, "other.fifo"):
        held = [shard.counts(shard.group.now()).in_flight for shard in front(world, url).shards]
        assert held == [1, 1, 1, 1]


def test_a_new_queue_of_the_name_begins_its_turns_anew() -> None:
    world = partitioned(4)
    fill(world, 1)
    old = front(world)
    world.get(limit=1)
    world.call("DeleteQueue", api.DeleteQueueRequest(URL))
    assert world.service.live_queues() == []
    world.create_fifo(URL, **HIGH_THROUGHPUT, PartitionCount="4")
    assert front(world) is not old
    fill(world, 1)
    assert len(drain(world)) == 12
