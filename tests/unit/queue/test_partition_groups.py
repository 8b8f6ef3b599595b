"""The groups of partitions: where new ones go, and where stored ones are found."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.queue import partition_groups as module
from fastnode.queue.api import DeleteQueueRequest
from fastnode.queue.partition_groups import groups_with_partitions, spread_partitions
from tests.world import ACCOUNT, REGION, World

FAST = {
    "FifoQueue": "true",
    "DeduplicationScope": "messageGroup",
    "FifoThroughputLimit": "perMessageGroupId",
    "PartitionCount": "2",
}


def home_of(world: World, name: str) -> int:
    queue = world.service.find(ACCOUNT, REGION, name)
    assert queue is not None
    return queue.group.number


@given(groups=st.integers(1, 256), partitions=st.sampled_from([1, 2, 4, 8, 16, 32]), data=st.data())
def test_a_spread_is_as_even_as_it_can_be(
    groups: int, partitions: int, data: st.DataObject
) -> None:
    home = data.draw(st.integers(0, groups - 1))
    row = spread_partitions("a.fifo", partitions, home, groups=groups)
    loads = [row.count(group) for group in range(groups)]
    assert (len(row), row[0]) == (partitions, home)
    assert max(loads) - min(loads) <= 1


def test_queues_without_partitions_use_no_group_for_them() -> None:
    world = World(groups=3)
    for number in range(10):
        world.create(f"q{number}.fifo", FifoQueue="true")
        world.create(f"q{number}")
    assert groups_with_partitions(world.groups) == frozenset()


def test_partitions_are_found_in_the_groups_that_the_queue_has_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_PAGE_ROWS", 3)
    world = World(groups=8)
    for number in range(30):
        world.create(f"q{number}")
    world.service.placement = lambda _name, _count, _home: (2, 5)
    url = world.create("zz.fifo", **FAST)
    home = home_of(world, "zz.fifo")
    assert groups_with_partitions(world.groups) == {home, 2, 5}
    world.call("DeleteQueue", DeleteQueueRequest(url))
    assert groups_with_partitions(world.groups) == frozenset()


def test_partitions_that_nobody_has_placed_begin_at_home() -> None:
    world = World(groups=8)
    world.create("a.fifo", **FAST)
    home = home_of(world, "a.fifo")
    assert groups_with_partitions(world.groups) == {home, (home + 1) % 8}
