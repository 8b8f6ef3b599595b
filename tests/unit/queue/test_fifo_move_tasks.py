"""Message move tasks between FIFO queues: the order of each group, locks, pace, and crashes."""

import pytest

from fastnode.queue import api
from tests.unit.queue.fifo_letters import Letters, message_rows, ring
from tests.unit.queue.test_dead_letters import arn, bodies, policy, set_policy
from tests.unit.queue.test_move_tasks import start, tasks


@pytest.fixture(params=[1, 4], ids=["one group", "four groups"])
def letters(request: pytest.FixtureRequest) -> Letters:
    return Letters(request.param)


def test_a_task_takes_everything_back_in_the_order_of_each_group(letters: Letters) -> None:
    ids = letters.bury(30)
    start(letters.world, letters.target)
    (task,) = tasks(letters.world, letters.target)
    assert (task.status, task.approximate_number_of_messages_moved) == ("COMPLETED", 30)
    assert letters.world.counts(letters.target) == (0, 0, 0)
    (again, *_) = letters.receive()
    assert again.body == "0" and again.message_id not in ids
    assert again.attributes["MessageDeduplicationId"] == again.message_id
    assert again.attributes["ApproximateReceiveCount"] == "1"
    assert "DeadLetterQueueSourceArn" not in again.attributes
    set_policy(letters.world, letters.source, policy(letters.target, 1000))
    assert letters.drain(letters.source) == {
        "g0": [str(number) for number in range(0, 30, 2)],
        "g1": [str(number) for number in range(1, 30, 2)],
    }


def test_a_task_moves_to_a_queue_of_ones_own(letters: Letters) -> None:
    letters.bury(3)
    letters.world.put("g0", "sent here directly", url=letters.target)
    start(letters.world, letters.target, letters.other)
    assert letters.drain(letters.other) == {"g0": ["0", "2", "sent here directly"], "g1": ["1"]}


def test_a_task_leaves_a_locked_group(letters: Letters) -> None:
    letters.bury(4)
    letters.world.get(limit=1, timeout=600, url=letters.target)
    start(letters.world, letters.target, letters.other)
    (task,) = tasks(letters.world, letters.target)
    assert task.approximate_number_of_messages_moved == 2
    assert letters.drain(letters.other) == {"g1": ["1", "3"]}
    assert letters.world.counts(letters.target) == (1, 1, 0)


def test_a_group_that_is_free_again_before_the_end_is_moved_too(letters: Letters) -> None:
    """Groups are moved in the order of their ids; those that were passed are looked at again."""
    world, target = letters.world, letters.target
    for group in "abc":
        world.put(group, group, url=target)
    (held,) = world.get(limit=1, timeout=600, url=target)
    assert held.body == "a"
    start(world, target, letters.other, rate=1)
    world.advance(1_500)
    assert world.counts(letters.other) == (2, 0, 0)
    world.change(target, held.receipt_handle, 0)
    world.advance(5_000)
    (task,) = tasks(world, target)
    assert (task.status, task.approximate_number_of_messages_moved) == ("COMPLETED", 3)


def test_a_task_keeps_its_rate_and_leaves_what_comes_later(letters: Letters) -> None:
    letters.bury(4)
    world = letters.world
    world.advance(1)
    start(world, letters.target, letters.other, rate=1)
    world.put("g0", "later", url=letters.target)
    assert world.counts(letters.other) == (1, 0, 0)
    world.advance(10_000)
    assert tasks(world, letters.target)[0].status == "COMPLETED"
    assert letters.drain(letters.other) == {"g0": ["0", "2"], "g1": ["1", "3"]}
    assert letters.drain(letters.target) == {"g0": ["later"]}


def test_a_task_that_leaves_part_of_a_group_does_not_share_it_with_a_poll() -> None:
    """The task looks at the group in the moment before the poll is woken for it."""
    letters = Letters(4)
    world, target = letters.world, letters.target
    letters.send("other", "1", "2", "3")
    letters.send("g", "moves")
    letters.receive()
    letters.receive()
    world.advance(1)
    start(world, target, letters.other, rate=2)
    world.advance(300)
    third, moves = letters.receive(target, timeout=60)
    world.change(target, third.receipt_handle, 0)
    world.advance(199)
    world.change(target, moves.receipt_handle, 1)
    world.advance(700)
    world.put("g", "stays", url=target)
    poll = world.begin("ReceiveMessage", api.ReceiveMessageRequest(target, wait_time_seconds=20))
    world.advance(400)
    assert tasks(world, target)[0].approximate_number_of_messages_moved == 4
    assert poll.is_done and bodies(poll.result.messages) == ["stays"]
    assert letters.drain(letters.other) == {"other": ["1", "2", "3"], "g": ["moves"]}


def test_letters_of_a_task_whose_destination_vanishes_are_back_in_their_place() -> None:
    letters = Letters(4)
    letters.bury(6)
    world = letters.world
    request = api.StartMessageMoveTaskRequest(arn(letters.target), arn(letters.other))
    world.begin("StartMessageMoveTask", request)
    world.step()
    world.begin("DeleteQueue", api.DeleteQueueRequest(letters.other))
    world.commit()
    (task,) = tasks(world, letters.target)
    assert (task.status, task.approximate_number_of_messages_moved) == ("FAILED", 0)
    assert world.counts(letters.target) == (6, 0, 0)
    assert letters.drain(letters.target) == {"g0": ["0", "2", "4"], "g1": ["1", "3", "5"]}
    assert message_rows(world, letters.target) == []


@pytest.mark.parametrize("first", range(1, 14))
def test_crashes_at_any_step_of_a_task_keep_order_and_counts(first: int) -> None:
    letters = Letters(4)
    letters.bury(40)
    world = letters.world
    request = api.StartMessageMoveTaskRequest(arn(letters.target), arn(letters.other))
    world.begin("StartMessageMoveTask", request)
    for steps in (first, 3, 1, 2):
        for _ in range(steps):
            world.step()
        world.crash()
        ring(world)
    world.commit()
    world.advance(5_000)
    (task,) = tasks(world, letters.target)
    assert (task.status, task.approximate_number_of_messages_moved) == ("COMPLETED", 40)
    assert world.counts(letters.target) == (0, 0, 0)
    assert letters.drain(letters.other) == {
        "g0": [str(number) for number in range(0, 40, 2)],
        "g1": [str(number) for number in range(1, 40, 2)],
    }
    assert message_rows(world, letters.other) == []
