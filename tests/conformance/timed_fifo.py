"""The contract, sections 5.4 and 6.2, as far as a clock has to run."""

import time

from tests.conformance.client import Client
from tests.conformance.fifo_kit import got, new_fifo, put, put_all
from tests.conformance.kinds import INVALID_PARAMETER
from tests.conformance.kit import bodies, change, counts, delete, receive, receive_one, until
from tests.conformance.timed import timed, while_it_lasts
from tests.conformance.timed_receiving import LATE, POLL_SECONDS, poll


@timed("6.2.both-deleted")
def a_freed_group_wakes_a_poll(sqs: Client) -> None:
    queue = new_fifo(sqs)
    put_all(sqs, queue, "g:a g:b g:c")
    first, second = receive(sqs, queue, MaxNumberOfMessages=2)
    waiting = poll(sqs, queue)
    delete(sqs, queue, first)
    time.sleep(0.3)
    assert not waiting.done()
    delete(sqs, queue, second)
    assert bodies(waiting.result(timeout=LATE)) == ["c"]


@timed("6.2.one-extended", "11.fifo-extension")
def an_extended_message_blocks_itself_and_its_successors(sqs: Client) -> None:
    queue = new_fifo(sqs)
    put_all(sqs, queue, "g:a g:b g:c g:d")
    begun = time.monotonic()
    _, second, _ = receive(sqs, queue, MaxNumberOfMessages=3, VisibilityTimeout=2)
    while_it_lasts(begun, 2, lambda: change(sqs, queue, second, 600))
    until(lambda: counts(sqs, queue) == (3, 1, 0))
    assert got(sqs, queue) == ["a"]


@timed("6.2.all-expired", "5.4.fifo.expired")
def when_timeouts_expire_the_order_returns_and_handles_are_worth_nothing(sqs: Client) -> None:
    queue = new_fifo(sqs)
    put_all(sqs, queue, "g:a g:b g:c")
    first, _ = receive(sqs, queue, MaxNumberOfMessages=2, VisibilityTimeout=1)
    until(lambda: counts(sqs, queue) == (3, 0, 0))
    handle = first["ReceiptHandle"]
    text = f"Value {handle} for parameter ReceiptHandle is invalid. Reason: "
    deleted = sqs.refused("DeleteMessage", QueueUrl=queue, ReceiptHandle=handle)
    deleted.assert_is(INVALID_PARAMETER, text + "The receipt handle has expired.")
    changed = sqs.refused(
        "ChangeMessageVisibility", QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=9
    )
    reason = "Message does not exist or is not available for visibility timeout change."
    changed.assert_is(INVALID_PARAMETER, text + reason)
    assert got(sqs, queue) == ["a", "b", "c"]


@timed("5.4.fifo.extended")
def an_extended_handle_deletes_after_the_queues_own_timeout(sqs: Client) -> None:
    queue = new_fifo(sqs, VisibilityTimeout="1")
    put(sqs, queue, "g", "a")
    begun = time.monotonic()
    message = receive_one(sqs, queue)
    while_it_lasts(begun, 1, lambda: change(sqs, queue, message, 600))
    time.sleep(1.5)
    delete(sqs, queue, message)
    assert counts(sqs, queue) == (0, 0, 0)


@timed("6.3.queue-delay")
def a_group_waits_behind_a_delayed_message(sqs: Client) -> None:
    queue, begun = new_fifo(sqs, DelaySeconds="1"), time.monotonic()
    put(sqs, queue, "g", "a")
    assert while_it_lasts(begun, 1, lambda: got(sqs, queue)) == []
    assert got(sqs, queue, WaitTimeSeconds=POLL_SECONDS) == ["a"]


@timed("5.5.ordinary")
def an_attempt_whose_timeout_expired_is_an_ordinary_receive(sqs: Client) -> None:
    queue = new_fifo(sqs)
    put_all(sqs, queue, "g1:a g2:x")
    named = {"ReceiveRequestAttemptId": "attempt", "MaxNumberOfMessages": 1}
    (first,) = receive(sqs, queue, VisibilityTimeout=1, **named)
    until(lambda: counts(sqs, queue) == (2, 0, 0))
    (again,) = receive(sqs, queue, **named)
    assert (first["Body"], again["Body"]) == ("a", "x"), "its group became visible last"
