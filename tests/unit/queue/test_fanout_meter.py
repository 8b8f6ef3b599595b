"""What receives cost is counted: looks, partitions, rows, and how long choosing took."""

import pytest

from fastnode import config
from fastnode.queue import api
from fastnode.queue.fanout_meter import FanoutMeter
from tests.unit.queue.fifo_world import URL, FifoWorld
from tests.unit.queue.test_partitions import HIGH_THROUGHPUT

CHOOSING = "fastnode_receive_choosing_seconds"


def sums(world: FifoWorld) -> tuple[float, float, float]:
    metrics = world.service.fanout.metrics()
    names = ("looks", "partitions", "rows")
    looks, partitions, rows = (metrics[f"fastnode_receive_{name}_total"] for name in names)
    return looks, partitions, rows


@pytest.mark.parametrize("partitions", [1, 4])
def test_a_receive_counts_what_it_looked_at(partitions: int) -> None:
    world = FifoWorld(2, **HIGH_THROUGHPUT, PartitionCount=str(partitions))
    for number in range(20):
        world.put(f"g{number}", str(number))
    assert sums(world) == (0, 0, 0)
    assert len(world.get(limit=10)) == 10
    looks, visited, rows = sums(world)
    assert looks == 1 and 1 <= visited <= partitions and rows == 10
    world.get(limit=10)
    assert sums(world)[2] == 20
    world.get(limit=10)
    assert sums(world)[::2] == (3, 20), "nothing is left to look at"


def test_a_poll_looks_once_for_each_time_it_is_woken() -> None:
    world = FifoWorld()
    poll = world.begin("ReceiveMessage", api.ReceiveMessageRequest(URL, wait_time_seconds=20))
    assert sums(world)[0] == 1
    world.put("g", "a")
    assert poll.is_done and sums(world)[0] == 2


def test_times_are_sorted_into_buckets_that_end_with_the_budget() -> None:
    meter = FanoutMeter()
    budget_ns = config.FANOUT_MS * 1_000_000
    for nanoseconds in (0, 100_000, 100_001, 5_000_000, budget_ns, budget_ns + 1):
        meter.add(1, 1, nanoseconds)
    metrics = meter.metrics()
    buckets = {name: count for name, count in metrics.items() if "_bucket" in name}
    assert buckets == {
        f'{CHOOSING}_bucket{{le="0.0001"}}': 2,
        f'{CHOOSING}_bucket{{le="0.001"}}': 3,
        f'{CHOOSING}_bucket{{le="0.01"}}': 4,
        f'{CHOOSING}_bucket{{le="0.1"}}': 5,
        f'{CHOOSING}_bucket{{le="+Inf"}}': 6,
    }
    assert metrics[f"{CHOOSING}_count"] == 6
    assert metrics[f"{CHOOSING}_max"] == pytest.approx(0.100000001)
    assert metrics[f"{CHOOSING}_sum"] == pytest.approx(0.205200002)
