"""Depth and age on the metrics: true, and of no more queues than the bound says."""

import pytest

from fastnode import config
from fastnode.queue import api
from fastnode.queue.queue_meter import QueueMeter
from tests.unit.queue.fifo_world import FifoWorld
from tests.unit.queue.test_partitions import HIGH_THROUGHPUT
from tests.world import World

LABELS = 'account="000000000000",region="us-east-1",queue="{}"'


def depth(metrics: dict[str, float], queue: str) -> tuple[float, ...]:
    label = LABELS.format(queue)
    states = ("visible", "in_flight", "delayed")
    return tuple(metrics[f'fastnode_queue_messages{{{label},state="{state}"}}'] for state in states)


def age(metrics: dict[str, float], queue: str) -> float:
    return metrics[f"fastnode_queue_oldest_seconds{{{LABELS.format(queue)}}}"]


def shown(metrics: dict[str, float]) -> int:
    return sum(name.startswith("fastnode_queue_oldest_seconds") for name in metrics)


def test_depth_and_age_follow_the_queue() -> None:
    world = World(groups=2)
    meter = QueueMeter(world.service)
    url = world.create("q")
    world.create("empty")
    assert shown(meter.metrics()) == 0
    world.send(url, "one")
    world.advance(5_000)
    world.send(url, "two")
    world.send(url, "late", delay_seconds=60)
    (first,) = world.receive(url, limit=1)
    metrics = meter.metrics()
    assert depth(metrics, "q") == (1, 1, 1)
    assert age(metrics, "q") == pytest.approx(5, abs=0.1)
    assert first.receipt_handle is not None
    world.delete(url, first.receipt_handle)
    world.advance(1_000)
    assert age(meter.metrics(), "q") == pytest.approx(1, abs=0.1)
    world.call("PurgeQueue", api.PurgeQueueRequest(queue_url=url))
    assert shown(meter.metrics()) == 0


def test_a_queue_that_nobody_has_used_since_the_start_is_seen() -> None:
    world = World()
    world.send(world.create("q"), "one")
    world.crash()
    assert depth(QueueMeter(world.service).metrics(), "q") == (1, 0, 0)


def test_a_deep_queue_is_found_among_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "METRIC_QUEUES_MAX", 2)
    monkeypatch.setattr(config, "METRIC_QUEUES_LOOK", 3)
    world = World(groups=3)
    for number in range(12):
        url = world.create(f"q{number:02d}")
        for _ in range(number % 5 + 1):
            world.send(url, "x")
    meter = QueueMeter(world.service)
    for _ in range(8):
        metrics = meter.metrics()
        assert shown(metrics) <= 2
    assert depth(metrics, "q04") == depth(metrics, "q09") == (5, 0, 0)


def test_partitions_are_one_queue() -> None:
    world = FifoWorld(2, **HIGH_THROUGHPUT, PartitionCount="4")
    for number in range(20):
        world.put(f"g{number}", str(number))
    world.get(limit=3)
    (name,) = (queue.name for queue in world.service.live_queues())
    assert depth(QueueMeter(world.service).metrics(), name) == (17, 3, 0)


def test_polls_that_wait_are_counted() -> None:
    world = World()
    url = world.create("q")
    world.begin("ReceiveMessage", api.ReceiveMessageRequest(queue_url=url, wait_time_seconds=20))
    assert QueueMeter(world.service).metrics()["fastnode_long_polls_waiting"] == 1
