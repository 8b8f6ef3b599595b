"""Message move tasks: what they move and where to, their pace, their end, and crashes."""

import base64
import json

import pytest

from fastnode.queue import api
from fastnode.queue.errors import SqsError
from tests.unit.queue.fifo_letters import ring
from tests.unit.queue.test_dead_letters import (
    arn,
    bodies,
    policy,
    queues_in_different_groups,
    receive_all,
    set_policy,
)
from tests.world import World

Entry = api.ListMessageMoveTasksResultEntry


def start(
    world: World, source: str, destination: str | None = None, rate: int | None = None
) -> str:
    request = api.StartMessageMoveTaskRequest(
        arn(source), None if destination is None else arn(destination), rate
    )
    handle: str = world.call("StartMessageMoveTask", request).task_handle
    return handle


def tasks(world: World, source: str, limit: int | None = 10) -> list[Entry]:
    request = api.ListMessageMoveTasksRequest(arn(source), limit)
    found: list[Entry] = world.call("ListMessageMoveTasks", request).results
    return found


def drain(world: World, name: str) -> list[str]:
    received: list[str] = []
    while messages := receive_all(world, name, timeout=3600):
        received += bodies(messages)
    return received


def dead_letters(world: World, source: str, count: int) -> None:
    """So many messages of the source go the way of all dead letters."""
    for number in range(count):
        world.send(source, f"{source}-{number}")
    for _ in range(-(-count // 10)):
        receive_all(world, source, timeout=30)
    world.advance(30_001)
    while world.counts(source)[0]:
        receive_all(world, source)


@pytest.fixture
def world() -> World:
    return World(groups=4)


@pytest.fixture
def names(world: World) -> list[str]:
    """A source, its dead-letter queue, and one more, each in another group."""
    source, target, other = queues_in_different_groups(world, 3)
    set_policy(world, source, policy(target))
    return [source, target, other]


def test_everything_returns_to_where_it_came_from(world: World, names: list[str]) -> None:
    source, target, other = names
    set_policy(world, other, policy(target))
    dead_letters(world, source, 20)
    dead_letters(world, other, 3)
    (before,) = receive_all(world, target, timeout=0)[:1]
    start(world, target)
    (task,) = tasks(world, target)
    assert task.status == "COMPLETED"
    assert task.task_handle is None and task.destination_arn is None
    assert task.approximate_number_of_messages_moved == 23
    assert task.approximate_number_of_messages_to_move == 23
    assert task.started_timestamp == world.now_ms
    assert world.counts(target) == (0, 0, 0)
    (again,) = receive_all(world, source, timeout=0)[:1]
    assert again.message_id != before.message_id, "a redriven message is a new message"
    assert again.attributes["ApproximateReceiveCount"] == "1"
    assert again.attributes["SentTimestamp"] == str(world.now_ms)
    assert "DeadLetterQueueSourceArn" not in again.attributes
    assert world.counts(other) == (3, 0, 0)


def test_a_destination_of_ones_own_takes_everything_oldest_first(
    world: World, names: list[str]
) -> None:
    source, target, other = names
    dead_letters(world, source, 35)
    world.send(target, "sent here directly")
    start(world, target, other)
    expected = [f"{source}-{number}" for number in range(35)]
    assert drain(world, other) == [*expected, "sent here directly"]
    (task,) = tasks(world, target)
    assert (task.destination_arn, task.approximate_number_of_messages_moved) == (arn(other), 36)


def test_the_rate_is_kept(world: World, names: list[str]) -> None:
    source, target, other = names
    dead_letters(world, source, 4)
    started = world.now_ms
    handle = start(world, target, other, rate=1)
    (task,) = tasks(world, target)
    assert (task.status, task.task_handle) == ("RUNNING", handle)
    assert task.max_number_of_messages_per_second == 1
    assert task.approximate_number_of_messages_to_move == 4
    assert world.counts(other)[0] == 1
    while tasks(world, target)[0].status == "RUNNING":
        world.advance(100)
    assert 3_000 <= world.now_ms - started <= 5_000
    assert world.counts(other) == (4, 0, 0)


def test_what_comes_later_is_not_moved(world: World, names: list[str]) -> None:
    """Otherwise a message that fails again and again would go in circles."""
    source, target, other = names
    dead_letters(world, source, 2)
    start(world, target, other, rate=1)
    world.send(target, "later")
    world.advance(10_000)
    assert tasks(world, target)[0].status == "COMPLETED"
    assert drain(world, target) == ["later"]


@pytest.mark.parametrize("tenant", [None, "noisy"], ids=["plain", "fair"])
def test_younger_messages_in_front_hide_no_older_ones(
    world: World, names: list[str], tenant: str | None
) -> None:
    """What was delayed is delivered before what nobody has received, however young it is."""
    _, target, other = names

    def send(body: str, delay_seconds: int | None = None) -> None:
        request = api.SendMessageRequest(target, body, delay_seconds, message_group_id=tenant)
        world.call("SendMessage", request)

    for number in range(30):
        send(f"old{number}")
    world.advance(1)
    start(world, target, other, rate=10)
    for number in range(20):
        send(f"young{number}", 1)
    world.advance(10_000)
    (task,) = tasks(world, target)
    assert (task.status, task.approximate_number_of_messages_moved) == ("COMPLETED", 30)
    assert drain(world, other) == [f"old{number}" for number in range(30)]
    assert sorted(drain(world, target)) == sorted(f"young{number}" for number in range(20))


def test_messages_in_flight_stay(world: World, names: list[str]) -> None:
    source, target, other = names
    dead_letters(world, source, 2)
    world.receive(target, limit=1, timeout=600)
    start(world, target, other)
    assert (world.counts(target), world.counts(other)) == ((0, 1, 0), (1, 0, 0))


def test_a_cancelled_task_leaves_the_rest(world: World, names: list[str]) -> None:
    source, target, other = names
    dead_letters(world, source, 4)
    handle = start(world, target, other, rate=1)
    answer = world.call("CancelMessageMoveTask", api.CancelMessageMoveTaskRequest(handle))
    assert answer.approximate_number_of_messages_moved == 1
    assert tasks(world, target)[0].status == "CANCELLING"
    world.advance(2_000)
    (task,) = tasks(world, target)
    assert (task.status, task.task_handle) == ("CANCELLED", None)
    assert world.counts(target)[0] + world.counts(other)[0] == 4
    with pytest.raises(SqsError, match="Only active tasks"):
        world.call("CancelMessageMoveTask", api.CancelMessageMoveTaskRequest(handle))


def test_one_task_at_a_time_and_the_last_ten_are_remembered(world: World, names: list[str]) -> None:
    source, target, other = names
    dead_letters(world, source, 4)
    start(world, target, other, rate=1)
    with pytest.raises(SqsError, match="already a task running"):
        start(world, target, other)
    world.advance(10_000)
    for _ in range(12):
        start(world, target, other)
        world.advance(1)
    assert len(tasks(world, target)) == 10
    assert len(tasks(world, target, None)) == 1
    times = [task.started_timestamp for task in tasks(world, target)]
    assert times == sorted(times, reverse=True)


def test_two_starts_at_once_make_one_task(world: World, names: list[str]) -> None:
    _, target, other = names
    request = api.StartMessageMoveTaskRequest(arn(target), arn(other))
    first = world.begin("StartMessageMoveTask", request)
    second = world.begin("StartMessageMoveTask", request)
    world.commit()
    assert first.error is None and isinstance(second.error, SqsError)
    assert len(tasks(world, target)) == 1


def test_a_destination_that_vanishes_fails_the_task(world: World, names: list[str]) -> None:
    source, target, other = names
    dead_letters(world, source, 4)
    start(world, target, other, rate=1)
    world.call("DeleteQueue", api.DeleteQueueRequest(other))
    world.advance(3_000)
    (task,) = tasks(world, target)
    assert task.status == "FAILED"
    assert task.failure_reason == "AWS.SimpleQueueService.NonExistentQueue"
    assert world.counts(target) == (3, 0, 0)


def test_letters_on_their_way_to_a_vanishing_destination_come_back(
    world: World, names: list[str]
) -> None:
    source, target, other = names
    dead_letters(world, source, 4)
    world.begin("StartMessageMoveTask", api.StartMessageMoveTaskRequest(arn(target), arn(other)))
    world.step()
    world.begin("DeleteQueue", api.DeleteQueueRequest(other))
    world.commit()
    (task,) = tasks(world, target)
    assert (task.status, task.approximate_number_of_messages_moved) == ("FAILED", 0)
    assert world.counts(target) == (4, 0, 0)
    (again, *_) = receive_all(world, target, timeout=0)
    assert again.attributes["ApproximateReceiveCount"] == "2"
    world.delete(target, again.receipt_handle)
    assert world.counts(target) == (3, 0, 0)


def test_a_message_without_a_source_fails_a_task_without_a_destination(
    world: World, names: list[str]
) -> None:
    source, target, _ = names
    dead_letters(world, source, 1)
    world.send(target, "sent here directly")
    start(world, target)
    (task,) = tasks(world, target)
    assert (task.status, task.failure_reason) == ("FAILED", "CouldNotDetermineMessageSource")
    assert world.counts(source) == (1, 0, 0)
    assert drain(world, target) == ["sent here directly"]


def test_a_task_ends_after_36_hours(world: World, names: list[str]) -> None:
    source, target, other = names
    dead_letters(world, source, 3)
    start(world, target, other, rate=1)
    world.clock.ns += (36 * 3_600_000 + 1) * 1_000_000
    world.advance(10_000)
    (task,) = tasks(world, target)
    assert (task.status, task.failure_reason) == ("FAILED", "TaskTimeLimitExceeded")
    assert task.approximate_number_of_messages_moved == 1
    assert world.counts(target) == (2, 0, 0)


def test_deleting_the_source_ends_its_tasks(world: World, names: list[str]) -> None:
    source, target, other = names
    dead_letters(world, source, 4)
    start(world, target, other, rate=1)
    world.call("DeleteQueue", api.DeleteQueueRequest(target))
    world.advance(5_000)
    world.create(target)
    assert tasks(world, target) == []
    assert world.counts(other)[0] == 1
    start(world, target, other)


def test_the_handle_says_what_aws_says(world: World, names: list[str]) -> None:
    _, target, other = names
    opened = json.loads(base64.b64decode(start(world, target, other)))
    assert opened["sourceArn"] == arn(target)
    assert len(opened["taskId"]) == 36 and set(opened) == {"taskId", "sourceArn"}


# --- bad requests ------------------------------------------------------------------------------

NO_SOURCE_TEXT = "The resource that you specified for the SourceArn parameter doesn't exist."
BAD_STARTS = [
    (None, None, None, "MissingRequiredParameterException", "parameter SourceArn"),
    ("what", None, None, "InvalidParameterValueException", "to specify the SourceArn: arn:<part"),
    (arn("nobody"), None, None, "ResourceNotFoundException", NO_SOURCE_TEXT),
    ("arn:aws:sns:us-east-1:000000000000:x", None, None, "ResourceNotFoundException", "SourceArn"),
    (arn("plain"), None, None, "InvalidParameterValueException", "configured as a Dead Letter"),
    (arn("dead"), "what", None, "InvalidParameterValueException", "specify the DestinationArn"),
    (arn("dead"), arn("nobody"), None, "ResourceNotFoundException", "DestinationArn parameter"),
    (arn("dead"), arn("dead"), None, "InvalidParameterValueException", "cannot be the same"),
    (arn("dead"), None, 0, "InvalidParameterValueException", "between 1 and 500"),
    (arn("dead"), None, 501, "InvalidParameterValueException", "between 1 and 500"),
]


@pytest.mark.parametrize(("source", "destination", "rate", "shape", "text"), BAD_STARTS)
def test_bad_starts_are_refused(
    source: str | None, destination: str | None, rate: int | None, shape: str, text: str
) -> None:
    world = World()
    for name in ("dead", "plain", "source"):
        world.create(name)
    set_policy(world, "source", policy("dead"))
    with pytest.raises(SqsError) as caught:
        request = api.StartMessageMoveTaskRequest(source, destination, rate)
        world.call("StartMessageMoveTask", request)
    assert (caught.value.row.shape, text in caught.value.message) == (shape, True), caught.value


def handle(source: str, task_id: str = "0") -> str:
    return base64.b64encode(json.dumps({"taskId": task_id, "sourceArn": source}).encode()).decode()


@pytest.mark.parametrize(
    ("given", "shape", "text"),
    [
        (None, "MissingRequiredParameterException", "parameter TaskHandle"),
        ("???", "InvalidParameterValueException", "Value for parameter TaskHandle is invalid."),
        ("e30=", "InvalidParameterValueException", "Value for parameter TaskHandle is invalid."),
        ("é", "InvalidParameterValueException", "Value for parameter TaskHandle is invalid."),
        ("A" * 2_000, "InvalidParameterValueException", "TaskHandle is invalid."),
        (handle(arn("nobody")), "ResourceNotFoundException", NO_SOURCE_TEXT),
        (handle(arn("q")), "ResourceNotFoundException", "Task does not exist."),
    ],
)
def test_bad_cancels_are_refused(given: str | None, shape: str, text: str) -> None:
    world = World()
    world.create("q")
    with pytest.raises(SqsError) as caught:
        world.call("CancelMessageMoveTask", api.CancelMessageMoveTaskRequest(given))
    assert (caught.value.row.shape, text in caught.value.message) == (shape, True), caught.value


@pytest.mark.parametrize("limit", [0, 11])
def test_a_bad_page_size_is_refused(limit: int) -> None:
    world = World()
    world.create("q")
    with pytest.raises(SqsError, match="MaxResults"):
        tasks(world, "q", limit)


# --- crashes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("first", range(1, 14))
def test_crashes_at_any_step_keep_every_message_and_every_count(first: int) -> None:
    world = World(groups=4)
    source, target, other = queues_in_different_groups(world, 3)
    set_policy(world, source, policy(target))
    dead_letters(world, source, 40)
    start_request = api.StartMessageMoveTaskRequest(arn(target), arn(other))
    world.begin("StartMessageMoveTask", start_request)
    for steps in (first, 3, 1, 2):
        for _ in range(steps):
            world.step()
        world.crash()
        ring(world)
    world.commit()
    world.advance(5_000)
    (task,) = tasks(world, target)
    assert (task.status, task.approximate_number_of_messages_moved) == ("COMPLETED", 40)
    assert world.counts(target) == (0, 0, 0)
    assert drain(world, other) == [f"{source}-{number}" for number in range(40)]
    assert world.counts(other) == (0, 40, 0)


def test_a_refused_log_is_tried_again(world: World, names: list[str]) -> None:
    source, target, other = names
    dead_letters(world, source, 20)
    world.begin("StartMessageMoveTask", api.StartMessageMoveTaskRequest(arn(target), arn(other)))
    for _ in range(3):
        world.step()
        world.refuse()
        world.advance(1_000)
    world.advance(60_000)
    assert tasks(world, target)[0].approximate_number_of_messages_moved == 20
    assert sorted(drain(world, other)) == sorted(f"{source}-{number}" for number in range(20))
