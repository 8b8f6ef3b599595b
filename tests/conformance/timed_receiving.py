"""The contract, section 5, as far as a clock has to run: delays, timeouts, long polls."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from tests.conformance import kinds
from tests.conformance.client import Client, Refused
from tests.conformance.kit import (
    Message,
    bodies,
    change,
    counts,
    delete,
    new_queue,
    receive,
    receive_one,
    send,
    sent_and_received,
    until,
)
from tests.conformance.timed import timed, while_it_lasts

# A timer of one second fires in this window; the upper end allows for a busy machine, and is still
# earlier than the end of a poll that nothing wakes.
SOON, LATE = 0.8, 15.0
POLL_SECONDS = 20


def took(action: Callable[[], Any]) -> tuple[Any, float]:
    begun = time.monotonic()
    return action(), time.monotonic() - begun


def in_background(work: Callable[[], Any]) -> Future[Any]:
    pool = ThreadPoolExecutor(max_workers=1)
    future = pool.submit(work)
    pool.shutdown(wait=False)
    return future


def poll(sqs: Client, queue: str, seconds: int = POLL_SECONDS) -> Future[Any]:
    """A long poll on a connection of its own, which is waiting when this returns."""
    future = in_background(lambda: receive(sqs.another(), queue, WaitTimeSeconds=seconds))
    time.sleep(0.3)
    assert not future.done()
    return future


# --- delays -------------------------------------------------------------------------------------


@timed("5.1.delay-message", "5.1.poll-wakes-delay")
def delay_of_a_message(sqs: Client) -> None:
    queue, begun = new_queue(sqs), time.monotonic()
    send(sqs, queue, "late", DelaySeconds=1)
    send(sqs, queue, "at once")
    assert while_it_lasts(begun, 1, lambda: bodies(receive(sqs, queue))) == ["at once"]
    assert bodies(receive(sqs, queue, WaitTimeSeconds=POLL_SECONDS)) == ["late"]
    assert SOON < time.monotonic() - begun < LATE


@timed("5.1.delay-queue", "5.1.delay-zero")
def delay_of_a_queue(sqs: Client) -> None:
    queue, begun = new_queue(sqs, DelaySeconds="1"), time.monotonic()
    send(sqs, queue, "late")
    send(sqs, queue, "at once", DelaySeconds=0)
    assert while_it_lasts(begun, 1, lambda: bodies(receive(sqs, queue))) == ["at once"]
    assert while_it_lasts(begun, 1, lambda: counts(sqs, queue)) == (0, 1, 1)
    assert bodies(receive(sqs, queue, WaitTimeSeconds=POLL_SECONDS)) == ["late"]


# --- visibility ---------------------------------------------------------------------------------


@timed("5.1.visibility-queue", "5.1.poll-wakes-visibility")
def timeout_of_a_queue(sqs: Client) -> None:
    queue, begun = new_queue(sqs, VisibilityTimeout="1"), time.monotonic()
    sent_and_received(sqs, queue)
    assert while_it_lasts(begun, 1, lambda: receive(sqs, queue)) == []
    assert len(receive(sqs, queue, WaitTimeSeconds=POLL_SECONDS)) == 1
    assert SOON < time.monotonic() - begun < LATE


@timed("5.1.visibility-request")
def timeout_of_a_receive(sqs: Client) -> None:
    queue, begun = new_queue(sqs), time.monotonic()
    sent_and_received(sqs, queue, VisibilityTimeout=1)
    assert while_it_lasts(begun, 1, lambda: receive(sqs, queue)) == []
    assert len(receive(sqs, queue, WaitTimeSeconds=POLL_SECONDS)) == 1


@timed("5.1.change", "5.4.change.current")
def change_counts_from_now_and_is_forgotten(sqs: Client) -> None:
    queue = new_queue(sqs, VisibilityTimeout="600")
    message = sent_and_received(sqs, queue)
    change(sqs, queue, message, 1)
    again = receive_one(sqs, queue, WaitTimeSeconds=POLL_SECONDS)
    assert again["MessageId"] == message["MessageId"]
    time.sleep(1.2)
    assert receive(sqs, queue) == []


@timed("5.2.expired-first")
def expired_before_younger(sqs: Client) -> None:
    queue = new_queue(sqs)
    send(sqs, queue, "A")
    receive_one(sqs, queue, VisibilityTimeout=1)
    send(sqs, queue, "B")
    until(lambda: counts(sqs, queue) == (2, 0, 0))
    assert receive_one(sqs, queue)["Body"] == "A"
    assert receive_one(sqs, queue)["Body"] == "B"


def expired(sqs: Client, queue: str) -> Message:
    """A message whose timeout ran out, with the handle of its last receive."""
    message = sent_and_received(sqs, queue, VisibilityTimeout=1)
    until(lambda: counts(sqs, queue) == (1, 0, 0))
    return message


@timed("5.4.delete.expired")
def expired_handle_deletes(sqs: Client) -> None:
    queue = new_queue(sqs)
    delete(sqs, queue, expired(sqs, queue))
    assert counts(sqs, queue) == (0, 0, 0)


@timed("5.4.change.expired", "11.hides-visible")
def expired_handle_hides_again(sqs: Client) -> None:
    queue = new_queue(sqs)
    change(sqs, queue, expired(sqs, queue), 600)
    assert counts(sqs, queue) == (0, 1, 0)
    assert receive(sqs, queue) == []


# --- long polls ---------------------------------------------------------------------------------


@timed("5.1.wait-queue", "5.3.nothing")
def wait_of_a_queue(sqs: Client) -> None:
    queue = new_queue(sqs, ReceiveMessageWaitTimeSeconds="1")
    answer, seconds = took(lambda: sqs.call("ReceiveMessage", QueueUrl=queue))
    assert answer == {}
    assert SOON < seconds < LATE


@timed("5.1.wait-request", "5.3.nothing")
def wait_of_a_receive(sqs: Client) -> None:
    queue = new_queue(sqs, ReceiveMessageWaitTimeSeconds="20")
    answer, seconds = took(lambda: sqs.call("ReceiveMessage", QueueUrl=queue, WaitTimeSeconds=0))
    assert answer == {}
    assert seconds < LATE
    _, seconds = took(lambda: receive(sqs, queue, WaitTimeSeconds=1))
    assert SOON < seconds < LATE


@timed("5.1.poll-first")
def poll_returns_with_the_first_message(sqs: Client) -> None:
    queue = new_queue(sqs)
    waiting = poll(sqs, queue)
    send(sqs, queue, "first")
    assert bodies(waiting.result(timeout=LATE)) == ["first"]


@timed("5.3.deleted", "2.1.delete.ends-polls")
def deleted_queue_ends_a_poll(sqs: Client) -> None:
    queue = new_queue(sqs)
    waiting = poll(sqs, queue)
    sqs.call("DeleteQueue", QueueUrl=queue)
    try:
        assert waiting.result(timeout=LATE) == []
    except Refused as refusal:
        refusal.assert_is(kinds.NO_QUEUE)


@timed("5.3.purged")
def purge_does_not_end_a_poll(sqs: Client) -> None:
    queue = new_queue(sqs)
    waiting = poll(sqs, queue)
    sqs.call("PurgeQueue", QueueUrl=queue)
    time.sleep(0.3)
    assert not waiting.done()
    send(sqs, queue, "after")
    assert bodies(waiting.result(timeout=LATE)) == ["after"]
