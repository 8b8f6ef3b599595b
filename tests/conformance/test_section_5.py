"""The contract, section 5, as far as no clock has to run: order, handles, timeout zero."""

from tests.conformance.client import Client
from tests.conformance.contract import covers
from tests.conformance.kit import (
    bodies,
    change,
    counts,
    delete,
    receive,
    receive_one,
    send,
    sent_and_received,
)


@covers("5.1.visibility-zero", "5.4.new-handle")
def test_timeout_zero_leaves_a_message_but_counts_and_issues_a_handle(
    sqs: Client, queue: str
) -> None:
    send(sqs, queue)
    names = {"MessageSystemAttributeNames": ["ApproximateReceiveCount"], "VisibilityTimeout": 0}
    received = [receive_one(sqs, queue, **names) for _ in range(3)]
    counted = [one["Attributes"]["ApproximateReceiveCount"] for one in received]
    assert counted == ["1", "2", "3"]
    assert len({one["ReceiptHandle"] for one in received}) == 3
    delete(sqs, queue, received[-1])
    assert counts(sqs, queue) == (0, 0, 0)


@covers("5.2.order")
def test_messages_come_in_send_order(sqs: Client, queue: str) -> None:
    for number in range(12):
        send(sqs, queue, str(number))
    got = bodies(receive(sqs, queue, MaxNumberOfMessages=5))
    got += bodies(receive(sqs, queue))
    assert got == [str(number) for number in range(12)]


@covers("5.3.nothing")
def test_a_short_poll_that_finds_nothing_is_empty(sqs: Client, queue: str) -> None:
    assert sqs.call("ReceiveMessage", QueueUrl=queue) == {}


@covers("5.4.new-handle", "0.2.receipt-handle")
def test_every_receive_gives_a_new_handle(sqs: Client, queue: str) -> None:
    first = sent_and_received(sqs, queue)
    change(sqs, queue, first, 0)
    second = receive_one(sqs, queue)
    assert first["MessageId"] == second["MessageId"]
    assert first["ReceiptHandle"] != second["ReceiptHandle"]
    assert max(len(first["ReceiptHandle"]), len(second["ReceiptHandle"])) <= 1_024


@covers("5.4.delete.current")
def test_the_current_handle_deletes(sqs: Client, queue: str) -> None:
    delete(sqs, queue, sent_and_received(sqs, queue))
    assert counts(sqs, queue) == (0, 0, 0)


@covers("5.4.change.current", "5.4.delete.made-visible")
def test_a_message_made_visible_can_be_deleted_by_its_handle(sqs: Client, queue: str) -> None:
    message = sent_and_received(sqs, queue)
    change(sqs, queue, message, 0)
    assert counts(sqs, queue) == (1, 0, 0)
    delete(sqs, queue, message)
    assert counts(sqs, queue) == (0, 0, 0)


@covers("5.4.change.made-visible", "11.hides-visible")
def test_a_message_made_visible_can_be_hidden_by_its_handle(sqs: Client, queue: str) -> None:
    message = sent_and_received(sqs, queue)
    change(sqs, queue, message, 0)
    change(sqs, queue, message, 600)
    assert counts(sqs, queue) == (0, 1, 0)
    assert receive(sqs, queue) == []


@covers("5.4.change.older", "12.old-handles")
def test_an_older_handle_acts_on_the_message(sqs: Client, queue: str) -> None:
    older = sent_and_received(sqs, queue, VisibilityTimeout=0)
    receive_one(sqs, queue, VisibilityTimeout=600)
    assert counts(sqs, queue) == (0, 1, 0)
    change(sqs, queue, older, 0)
    assert receive_one(sqs, queue)["MessageId"] == older["MessageId"]


@covers("5.4.delete.older")
def test_an_older_handle_is_accepted_by_a_delete(sqs: Client, queue: str) -> None:
    older = sent_and_received(sqs, queue, VisibilityTimeout=0)
    receive_one(sqs, queue)
    delete(sqs, queue, older)


@covers("5.4.not-in-flight")
def test_a_message_that_is_not_in_flight_is_no_error(sqs: Client, queue: str) -> None:
    message = sent_and_received(sqs, queue, VisibilityTimeout=0)
    change(sqs, queue, message, 5)
    change(sqs, queue, message, 0)
