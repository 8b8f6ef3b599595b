"""The contract, section 8, between FIFO queues."""

from typing import Any

from tests.conformance.client import Client
from tests.conformance.contract import covers
from tests.conformance.fifo_kit import got, new_fifo, put, put_all
from tests.conformance.kinds import INVALID_PARAMETER
from tests.conformance.kit import (
    arn_of,
    counts,
    new_name,
    new_queue,
    receive,
    receive_one,
    redrive_policy,
    until,
)
from tests.conformance.test_section_8 import EVERYTHING, dead_letter, reason_text
from tests.conformance.test_section_8_tasks import finished, start


def source_of(sqs: Client, dead_letters: str) -> str:
    """A queue whose messages are visible again at once, and dead after one receive."""
    policy = redrive_policy(dead_letters)
    return new_fifo(sqs, RedrivePolicy=policy, VisibilityTimeout="0")


@covers("8.1.other-type")
def test_a_target_of_the_other_type_is_refused(sqs: Client, queue: str) -> None:
    fifo = new_fifo(sqs)
    reason = "Dead-letter queue must be same type of queue as the source."
    for source, target in ((queue, fifo), (fifo, queue)):
        value = redrive_policy(target)
        refusal = sqs.refused(
            "SetQueueAttributes", QueueUrl=source, Attributes={"RedrivePolicy": value}
        )
        refusal.assert_is(INVALID_PARAMETER, reason_text("RedrivePolicy", value, reason))


@covers("8.2.deduplication-fifo", "8.2.sequence-fifo", "8.2.sent-fifo", "11.fifo-redrive")
@covers("8.2.kept", "8.2.count-continues", "8.2.group-kept", "11.fifo-deduplication")
def test_what_a_dead_letter_keeps_and_what_it_gets_anew(sqs: Client) -> None:
    fifo = new_fifo(sqs)
    source = source_of(sqs, fifo)
    sent = put(sqs, source, "g", "letter", MessageDeduplicationId="own")
    before = receive_one(sqs, source, **EVERYTHING)
    assert before["Attributes"]["MessageDeduplicationId"] == "own"
    assert receive(sqs, source) == []
    after = dead_letter(sqs, fifo)
    assert (after["MessageId"], after["Body"]) == (sent["MessageId"], "letter")
    old, new = before["Attributes"], after["Attributes"]
    assert new["MessageGroupId"] == "g"
    assert new["MessageDeduplicationId"] == sent["MessageId"]
    assert new["SequenceNumber"] > old["SequenceNumber"]
    assert new["ApproximateReceiveCount"] == "2"
    assert int(new["SentTimestamp"]) >= int(old["ApproximateFirstReceiveTimestamp"])
    assert new["DeadLetterQueueSourceArn"] == arn_of(source)


@covers("8.2.fifo-unblocks", "6.1.blocked")
def test_the_move_frees_the_group_and_leaves_its_id_blocked(sqs: Client) -> None:
    fifo = new_fifo(sqs)
    source = source_of(sqs, fifo)
    sent = put(sqs, source, "g", "dead", MessageDeduplicationId="own")
    put(sqs, source, "g", "alive")
    assert got(sqs, source, MaxNumberOfMessages=1) == ["dead"]
    assert got(sqs, source, VisibilityTimeout=60) == ["alive"]
    assert dead_letter(sqs, fifo)["Body"] == "dead"
    again = put(sqs, source, "g", "dead", MessageDeduplicationId="own")
    assert again["MessageId"] == sent["MessageId"]


@covers("8.2.available")
def test_a_moved_message_is_available_at_once(sqs: Client) -> None:
    fifo = new_fifo(sqs, DelaySeconds="900")
    source = source_of(sqs, fifo)
    put(sqs, source, "g", "letter")
    receive_one(sqs, source)
    assert receive(sqs, source) == []
    assert dead_letter(sqs, fifo)["Body"] == "letter"


@covers("8.4.start.types")
def test_a_task_needs_queues_of_one_type(sqs: Client, queue: str) -> None:
    fifo = new_fifo(sqs)
    source_of(sqs, fifo)
    refusal = sqs.refused(
        "StartMessageMoveTask", SourceArn=arn_of(fifo), DestinationArn=arn_of(queue)
    )
    text = "The source queue and destination queue must be of the same queue type."
    refusal.assert_is(INVALID_PARAMETER, text)
    dead = new_queue(sqs)
    policy = {"RedrivePolicy": redrive_policy(dead)}
    sqs.call("CreateQueue", QueueName=new_name(), Attributes=policy)
    refusal = sqs.refused(
        "StartMessageMoveTask", SourceArn=arn_of(dead), DestinationArn=arn_of(fifo)
    )
    refusal.assert_is(INVALID_PARAMETER, text)


@covers("8.4.moves.fifo", "11.fifo-redrive")
def test_a_task_moves_a_fifo_queue_in_order(sqs: Client) -> None:
    fifo = new_fifo(sqs)
    source = source_of(sqs, fifo)
    put_all(sqs, source, "g1:a g2:x g1:b g1:c")
    assert got(sqs, source) == ["a", "b", "c", "x"]
    assert got(sqs, source) == []
    until(lambda: counts(sqs, fifo) == (4, 0, 0))
    start(sqs, fifo)
    task: dict[str, Any] = finished(sqs, fifo)
    assert (task["Status"], task["ApproximateNumberOfMessagesMoved"]) == ("COMPLETED", 4)
    until(lambda: counts(sqs, source) == (4, 0, 0))
    assert got(sqs, source) == ["a", "b", "c", "x"]
