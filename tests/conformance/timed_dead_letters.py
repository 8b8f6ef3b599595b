"""The contract, section 8, as far as a clock has to run: long polls and slow move tasks."""

import time

from tests.conformance.client import Client
from tests.conformance.kinds import INVALID_PARAMETER
from tests.conformance.kit import (
    arn_of,
    bodies,
    counts,
    delete,
    new_queue,
    receive,
    receive_one,
    redrive_policy,
    send,
    until,
)
from tests.conformance.test_section_8_tasks import dead_letter_queue, finished, start, tasks
from tests.conformance.timed import timed, while_it_lasts
from tests.conformance.timed_receiving import LATE, POLL_SECONDS, poll


@timed("8.2.wakes")
def dead_letter_wakes_a_poll(sqs: Client) -> None:
    queue = new_queue(sqs)
    source = new_queue(sqs, RedrivePolicy=redrive_policy(queue), VisibilityTimeout="0")
    send(sqs, source, "letter")
    receive_one(sqs, source)
    waiting = poll(sqs, queue)
    assert receive(sqs, source) == []
    assert bodies(waiting.result(timeout=LATE)) == ["letter"]


def slow_task(sqs: Client, count: int) -> tuple[str, str, str]:
    """A task that moves one message a second: its source, its destination, its handle."""
    queue, _ = dead_letter_queue(sqs)
    for number in range(count):
        send(sqs, queue, str(number))
    destination = new_queue(sqs)
    handle = start(sqs, queue, DestinationArn=arn_of(destination), MaxNumberOfMessagesPerSecond=1)
    return queue, destination, handle


@timed("8.4.moves.rate", "8.4.list.numbers", "8.4.list.handle")
def one_message_a_second(sqs: Client) -> None:
    begun = time.monotonic()
    queue, destination, handle = slow_task(sqs, 4)
    (task,) = while_it_lasts(begun, 3, lambda: tasks(sqs, queue))
    assert task["Status"] == "RUNNING"
    assert task["TaskHandle"] == handle
    assert task["ApproximateNumberOfMessagesToMove"] == 4
    until(lambda: counts(sqs, destination) == (4, 0, 0))
    assert time.monotonic() - begun > 2.8
    task = finished(sqs, queue)
    assert task["Status"] == "COMPLETED"
    assert "TaskHandle" not in task
    assert task["ApproximateNumberOfMessagesMoved"] == 4
    assert task["ApproximateNumberOfMessagesToMove"] == 4


@timed("8.4.start.running", "0.2.move-one", "8.4.cancel.running")
def a_running_task_is_the_only_one_until_cancelled(sqs: Client) -> None:
    begun = time.monotonic()
    queue, destination, handle = slow_task(sqs, 60)
    text = (
        "There is already a task running. Only one active task is allowed for a source queue arn "
        "at a given time."
    )
    refusal = sqs.refused("StartMessageMoveTask", SourceArn=arn_of(queue))
    refusal.assert_is(INVALID_PARAMETER, text)
    answer = sqs.call("CancelMessageMoveTask", TaskHandle=handle)
    assert set(answer) == {"ApproximateNumberOfMessagesMoved"}
    assert answer["ApproximateNumberOfMessagesMoved"] <= 2 + time.monotonic() - begun
    task = finished(sqs, queue)
    assert task["Status"] == "CANCELLED"
    assert "TaskHandle" not in task
    moved = task["ApproximateNumberOfMessagesMoved"]
    until(lambda: counts(sqs, destination)[0] == moved)
    assert counts(sqs, queue)[0] == 60 - moved


@timed("8.4.list.failed-destination", "2.1.delete.fails-tasks")
def a_vanished_destination_fails_the_task(sqs: Client) -> None:
    queue, destination, _ = slow_task(sqs, 30)
    sqs.call("DeleteQueue", QueueUrl=destination)
    task = finished(sqs, queue)
    assert task["Status"] == "FAILED"
    assert task["FailureReason"] == "AWS.SimpleQueueService.NonExistentQueue"


@timed("8.4.moves.in-flight")
def messages_in_flight_stay(sqs: Client) -> None:
    queue, _ = dead_letter_queue(sqs)
    send(sqs, queue, "held")
    held = receive_one(sqs, queue, VisibilityTimeout=60)
    send(sqs, queue, "free")
    destination = new_queue(sqs)
    start(sqs, queue, DestinationArn=arn_of(destination))
    assert bodies(receive(sqs, destination, WaitTimeSeconds=POLL_SECONDS)) == ["free"]
    assert counts(sqs, queue) == (0, 1, 0)
    delete(sqs, queue, held)
    assert counts(sqs, queue) == (0, 0, 0)
