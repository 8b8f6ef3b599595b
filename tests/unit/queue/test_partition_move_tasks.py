"""Message move tasks out of a queue with partitions: one task to its users, a mover for each
partition inside.
"""

import pytest

from fastnode import config
from fastnode.queue import api
from fastnode.queue.errors import SqsError
from tests.unit.queue.fifo_letters import ring
from tests.unit.queue.fifo_world import URL, FifoWorld
from tests.unit.queue.test_dead_letters import arn, policy, set_policy
from tests.unit.queue.test_move_tasks import start, tasks
from tests.unit.queue.test_partitions import HIGH_THROUGHPUT, drain, front

DEAD = "dead.fifo"
OTHER = "other.fifo"
GROUPS = [f"g{number}" for number in range(12)]
BODIES = [f"{group}-{number}" for number in range(2) for group in GROUPS]


def new_world(partitions: int = 4, groups: int = 4, target_partitions: int = 1) -> FifoWorld:
    """A queue, its dead-letter queue with partitions, and one more queue."""
    world = FifoWorld(groups)
    world.create_fifo(DEAD, **HIGH_THROUGHPUT, PartitionCount=str(partitions))
    many = {**HIGH_THROUGHPUT, "PartitionCount": str(target_partitions)}
    world.create_fifo(OTHER, **(many if target_partitions > 1 else {}))
    set_policy(world, URL, policy(DEAD))
    return world


def fill(world: FifoWorld, url: str = DEAD) -> None:
    for body in BODIES:
        world.put(body.split("-")[0], body, url=url)
    world.advance(1)


def in_order(received: list[str]) -> None:
    assert sorted(received) == sorted(BODIES)
    for group in GROUPS:
        own = [body for body in received if body.startswith(f"{group}-")]
        assert own == [f"{group}-0", f"{group}-1"]


def task_rows(world: FifoWorld) -> int:
    return sum(
        len(engine.scan_keys(b"!sqs|queue|parttask|", b"!sqs|queue|parttask}", 10_000))
        for engine in world.engines
    )


@pytest.mark.parametrize("target_partitions", [1, 8])
@pytest.mark.parametrize(("partitions", "groups"), [(2, 2), (4, 4), (32, 3)])
def test_a_task_empties_every_partition(
    partitions: int, groups: int, target_partitions: int
) -> None:
    world = new_world(partitions, groups, target_partitions)
    fill(world)
    start(world, DEAD, OTHER)
    (task,) = tasks(world, DEAD)
    assert (task.status, task.task_handle) == ("COMPLETED", None)
    assert task.approximate_number_of_messages_moved == 24
    assert task.approximate_number_of_messages_to_move == 24
    assert world.counts(DEAD) == (0, 0, 0)
    in_order(drain(world, OTHER))


def test_dead_letters_return_to_where_they_came_from() -> None:
    world = new_world()
    fill(world, URL)
    while world.counts(URL) != (0, 0, 0):
        world.get(timeout=0)
    assert world.counts(DEAD) == (24, 0, 0)
    set_policy(world, URL, policy(DEAD, 1000))
    start(world, DEAD)
    assert tasks(world, DEAD)[0].status == "COMPLETED"
    in_order(drain(world, URL))


def test_the_rate_is_that_of_the_whole_task() -> None:
    world = new_world()
    fill(world)
    started = world.now_ms
    handle = start(world, DEAD, OTHER, rate=4)
    assert tasks(world, DEAD)[0].task_handle == handle
    assert 1 <= world.counts(OTHER)[0] <= 4
    while tasks(world, DEAD)[0].status == "RUNNING":
        world.advance(50)
        assert world.counts(OTHER)[0] <= 4 + (world.now_ms - started) * 4 // 1000
    assert 5_000 <= world.now_ms - started <= 8_000
    assert world.counts(OTHER) == (24, 0, 0)


def test_what_comes_later_stays_in_every_partition() -> None:
    world = new_world()
    fill(world)
    start(world, DEAD, OTHER, rate=4)
    for group in GROUPS:
        world.put(group, f"{group}-later", url=DEAD)
    world.advance(20_000)
    assert tasks(world, DEAD)[0].status == "COMPLETED"
    in_order(drain(world, OTHER))
    assert sorted(drain(world, DEAD)) == sorted(f"{group}-later" for group in GROUPS)


def test_a_locked_group_stays() -> None:
    world = new_world()
    fill(world)
    (taken,) = world.get(limit=1, timeout=600, url=DEAD)
    start(world, DEAD, OTHER)
    (task,) = tasks(world, DEAD)
    assert (task.status, task.approximate_number_of_messages_moved) == ("COMPLETED", 22)
    assert world.counts(DEAD) == (1, 1, 0)
    assert taken.body not in drain(world, OTHER)


def test_a_cancelled_task_leaves_the_rest_in_every_partition() -> None:
    world = new_world()
    fill(world)
    handle = start(world, DEAD, OTHER, rate=2)
    world.advance(2_000)
    moved = world.counts(OTHER)[0]
    answer = world.call("CancelMessageMoveTask", api.CancelMessageMoveTaskRequest(handle))
    assert 2 <= moved <= answer.approximate_number_of_messages_moved <= 8
    assert tasks(world, DEAD)[0].status == "CANCELLING"
    world.advance(3_000)
    (task,) = tasks(world, DEAD)
    assert (task.status, task.task_handle) == ("CANCELLED", None)
    assert task.approximate_number_of_messages_moved == world.counts(OTHER)[0]
    assert world.counts(DEAD)[0] + world.counts(OTHER)[0] == 24
    with pytest.raises(SqsError, match="Only active tasks"):
        world.call("CancelMessageMoveTask", api.CancelMessageMoveTaskRequest(handle))
    in_order(drain(world, OTHER) + drain(world, DEAD))


def test_a_destination_that_vanishes_fails_the_task() -> None:
    world = new_world()
    fill(world)
    start(world, DEAD, OTHER, rate=2)
    moved = world.counts(OTHER)[0]
    world.call("DeleteQueue", api.DeleteQueueRequest(OTHER))
    world.advance(5_000)
    (task,) = tasks(world, DEAD)
    assert task.status == "FAILED"
    assert task.failure_reason == "AWS.SimpleQueueService.NonExistentQueue"
    assert task.approximate_number_of_messages_moved == moved
    assert world.counts(DEAD) == (24 - moved, 0, 0)
    world.create_fifo(OTHER)
    start(world, DEAD, OTHER)
    assert world.counts(DEAD) == (0, 0, 0)


@pytest.mark.parametrize("steps", [1, 2])
def test_letters_to_a_vanished_destination_are_back_in_their_partition(steps: int) -> None:
    world = new_world()
    fill(world)
    world.begin("StartMessageMoveTask", api.StartMessageMoveTaskRequest(arn(DEAD), arn(OTHER)))
    for _ in range(steps):
        world.step()
    world.call("DeleteQueue", api.DeleteQueueRequest(OTHER))
    world.advance(2_000)
    (task,) = tasks(world, DEAD)
    left = world.counts(DEAD)[0]
    assert task.status == "FAILED" and left > 0
    assert task.approximate_number_of_messages_moved == 24 - left
    received = drain(world, DEAD)
    assert len(received) == left
    for group in GROUPS:
        own = [body for body in received if body.startswith(f"{group}-")]
        assert own == sorted(own)


def test_a_message_without_a_source_fails_the_task() -> None:
    world = new_world()
    fill(world)
    start(world, DEAD)
    world.advance(1)
    (task,) = tasks(world, DEAD)
    assert (task.status, task.failure_reason) == ("FAILED", "CouldNotDetermineMessageSource")
    assert task.approximate_number_of_messages_moved == 0
    assert world.counts(DEAD) == (24, 0, 0)


def test_a_task_ends_after_36_hours() -> None:
    world = new_world()
    fill(world)
    start(world, DEAD, OTHER, rate=1)
    world.clock.ns += (36 * 3_600_000 + 1) * 1_000_000
    world.advance(10_000)
    (task,) = tasks(world, DEAD)
    assert (task.status, task.failure_reason) == ("FAILED", "TaskTimeLimitExceeded")


def test_one_task_at_a_time_and_the_last_ten_are_remembered() -> None:
    world = new_world()
    fill(world)
    start(world, DEAD, OTHER, rate=2)
    with pytest.raises(SqsError, match="already a task running"):
        start(world, DEAD, OTHER)
    world.advance(20_000)
    for _ in range(12):
        start(world, DEAD, OTHER)
        world.advance(1)
    assert len(tasks(world, DEAD)) == 10
    assert task_rows(world) == 10 * len(front(world, DEAD).shards)


def test_a_purge_leaves_the_task_with_nothing_to_do() -> None:
    world = new_world()
    fill(world)
    start(world, DEAD, OTHER, rate=2)
    moved = world.counts(OTHER)[0]
    world.call("PurgeQueue", api.PurgeQueueRequest(DEAD))
    world.advance(5_000)
    (task,) = tasks(world, DEAD)
    assert (task.status, task.approximate_number_of_messages_moved) == ("COMPLETED", moved)


@pytest.mark.parametrize("steps", range(5))
def test_deleting_the_source_ends_its_tasks_and_forgets_them(steps: int) -> None:
    world = new_world()
    fill(world)
    start(world, DEAD, OTHER, rate=2)
    world.advance(600)
    world.begin("DeleteQueue", api.DeleteQueueRequest(DEAD))
    for _ in range(steps):
        world.step()
        ring(world, 500)
    world.commit()
    world.advance(5_000)
    assert task_rows(world) == 0
    world.create_fifo(DEAD, **HIGH_THROUGHPUT, PartitionCount="2")
    assert tasks(world, DEAD) == []
    fill(world)
    start(world, DEAD, OTHER)
    assert tasks(world, DEAD)[0].approximate_number_of_messages_moved == 24


@pytest.mark.parametrize("first", range(1, 14))
@pytest.mark.parametrize("flushed", [None, 0, 2])
def test_crashes_at_any_step_keep_order_and_counts(first: int, flushed: int | None) -> None:
    world = new_world(8, 4, 4)
    fill(world)
    world.begin("StartMessageMoveTask", api.StartMessageMoveTaskRequest(arn(DEAD), arn(OTHER)))
    for steps in (first, 3, 1, 2):
        for _ in range(steps):
            world.step()
        if flushed is not None:
            world.engines[flushed].flush()
        world.crash()
        ring(world)
    world.commit()
    world.advance(5_000)
    (task,) = tasks(world, DEAD)
    assert (task.status, task.approximate_number_of_messages_moved) == ("COMPLETED", 24)
    assert world.counts(DEAD) == (0, 0, 0)
    in_order(drain(world, OTHER))


def test_a_refused_log_is_tried_again() -> None:
    world = new_world()
    fill(world)
    world.begin("StartMessageMoveTask", api.StartMessageMoveTaskRequest(arn(DEAD), arn(OTHER)))
    for _ in range(3):
        world.step()
        world.refuse()
        world.advance(1_000)
    world.advance(60_000)
    assert tasks(world, DEAD)[0].approximate_number_of_messages_moved == 24
    assert sorted(drain(world, OTHER)) == sorted(BODIES)


# --- younger messages in front of older ones ---------------------------------------------------


@pytest.mark.parametrize("page", [1, 3, 1_000])
def test_younger_groups_in_front_hide_no_older_ones(
    page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "MOVE_GROUPS_MAX", page)
    world = new_world(2, 2)
    fill(world)
    held = world.get(limit=10, timeout=600, url=DEAD)
    start(world, DEAD, OTHER, rate=2)
    for number in range(40):
        world.put(f"young{number}", f"young{number}", url=DEAD)
    young = [message for _ in range(4) for message in world.get(limit=10, timeout=0, url=DEAD)]
    assert any(message.body.startswith("young") for message in young)
    world.advance(1_000)
    for message in held:
        world.change(DEAD, message.receipt_handle, 0)
    world.advance(60_000)
    assert tasks(world, DEAD)[0].status == "COMPLETED"
    in_order(drain(world, OTHER))
    assert len(drain(world, DEAD)) == 40
