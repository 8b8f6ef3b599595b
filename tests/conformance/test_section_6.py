"""The contract, sections 6 and 5.5, as far as no clock has to run: deduplication, the order of FIFO
delivery, receive attempts.
"""

import hashlib
from collections.abc import Callable

import pytest

from tests.conformance.client import Client
from tests.conformance.contract import covers
from tests.conformance.fifo_kit import HIGH_THROUGHPUT, entry, got, new_fifo, put, put_all
from tests.conformance.kinds import INVALID_PARAMETER
from tests.conformance.kit import (
    Message,
    bodies,
    change,
    counts,
    delete,
    receive,
    receive_one,
    set_attributes,
)

ALL = {"MessageSystemAttributeNames": ["All"]}


@pytest.fixture
def fifo(sqs: Client) -> str:
    return new_fifo(sqs)


# --- deduplication ------------------------------------------------------------------------------


@covers("6.1.duplicate", "6.1.queue-scope")
def test_a_duplicate_names_the_original_and_digests_the_request(sqs: Client, fifo: str) -> None:
    first = put(sqs, fifo, "g", "first", MessageDeduplicationId="same")
    again = put(sqs, fifo, "other", "second", MessageDeduplicationId="same")
    assert again["MessageId"] == first["MessageId"]
    assert again["SequenceNumber"] == first["SequenceNumber"]
    digest = hashlib.md5(b"second", usedforsecurity=False).hexdigest()
    assert again["MD5OfMessageBody"] == digest
    assert got(sqs, fifo) == ["first"]


@covers("6.1.key", "4.3.content-deduplication", "4.4.deduplication")
def test_content_stands_for_an_id_and_an_explicit_id_beats_it(sqs: Client) -> None:
    queue = new_fifo(sqs, ContentBasedDeduplication="true")
    digest = "0967115f2813a3541eaef77de9d9d5773f1c0c04314b0bbfe4ff3b3b1c55b5d5"
    members = {"QueueUrl": queue, "MessageBody": "same", "MessageGroupId": "g"}
    first = sqs.call("SendMessage", **members)
    assert sqs.call("SendMessage", **members)["MessageId"] == first["MessageId"]
    other = sqs.call("SendMessage", **members, MessageDeduplicationId="explicit")
    assert other["MessageId"] != first["MessageId"]
    hashed = put(sqs, queue, "g", "another body", MessageDeduplicationId=digest)
    assert hashed["MessageId"] == first["MessageId"]
    ids = [one["Attributes"]["MessageDeduplicationId"] for one in receive(sqs, queue, **ALL)]
    assert ids == [digest, "explicit"]


@covers("6.1.blocked")
def test_an_id_stays_blocked_after_receive_and_delete(sqs: Client, fifo: str) -> None:
    first = put(sqs, fifo, "g", "first", MessageDeduplicationId="same")
    message = receive_one(sqs, fifo)
    received = put(sqs, fifo, "g", "second", MessageDeduplicationId="same")
    delete(sqs, fifo, message)
    deleted = put(sqs, fifo, "g", "third", MessageDeduplicationId="same")
    assert {first["MessageId"]} == {received["MessageId"], deleted["MessageId"]}
    assert counts(sqs, fifo) == (0, 0, 0)


@covers("6.1.group-scope", "6.1.key")
def test_per_group_the_same_id_is_another_message(sqs: Client) -> None:
    queue = new_fifo(sqs, DeduplicationScope="messageGroup")
    for group in ("g1", "g2", "g1"):
        put(sqs, queue, group, group, MessageDeduplicationId="same")
    assert got(sqs, queue) == ["g1", "g2"]


@covers("6.1.purge", "2.1.purge.deduplication", "12.purge-deduplication")
def test_a_purge_clears_the_history(sqs: Client, fifo: str) -> None:
    first = put(sqs, fifo, "g", "first", MessageDeduplicationId="same")
    sqs.call("PurgeQueue", QueueUrl=fifo)
    again = put(sqs, fifo, "g", "again", MessageDeduplicationId="same")
    assert again["MessageId"] != first["MessageId"]
    assert got(sqs, fifo) == ["again"]


@covers("6.1.scope-change", "3.3.scope-frozen", "11.fifo-deduplication")
@pytest.mark.parametrize(
    ("created", "changed", "count"), [("queue", "messageGroup", 1), ("messageGroup", "queue", 2)]
)
def test_the_scope_of_the_creation_stays_in_force(
    sqs: Client, created: str, changed: str, count: int
) -> None:
    queue = new_fifo(sqs, DeduplicationScope=created)
    set_attributes(sqs, queue, DeduplicationScope=changed)
    for group in ("g1", "g2"):
        put(sqs, queue, group, group, MessageDeduplicationId="same")
    assert len(receive(sqs, queue)) == count


@covers("6.1.failed")
def test_a_failed_send_does_not_enter_the_history(sqs: Client, fifo: str) -> None:
    refusal = sqs.refused(
        "SendMessage",
        QueueUrl=fifo,
        MessageBody="first",
        MessageGroupId="g",
        MessageDeduplicationId="same",
        DelaySeconds=1,
    )
    refusal.assert_is(INVALID_PARAMETER)
    put(sqs, fifo, "g", "second", MessageDeduplicationId="same")
    assert got(sqs, fifo) == ["second"]


@covers("6.1.in-batch", "6.3.batch-order", "6.3.sequence", "4.4.sequence")
def test_a_batch_is_enqueued_in_order_and_knows_its_own_duplicates(sqs: Client, fifo: str) -> None:
    entries = [entry(number, body=str(number)) for number in range(9)]
    entries.append(entry(9, body="again", MessageDeduplicationId="entry-4"))
    answer = sqs.call("SendMessageBatch", QueueUrl=fifo, Entries=entries)
    results = answer["Successful"]
    assert [one["Id"] for one in results] == [one["Id"] for one in entries]
    assert results[9]["MessageId"] == results[4]["MessageId"]
    assert results[9]["SequenceNumber"] == results[4]["SequenceNumber"]
    numbers = [one["SequenceNumber"] for one in results[:9]]
    assert numbers == sorted(set(numbers)) and {len(number) for number in numbers} == {20}
    later = put(sqs, fifo, "other", "later")
    assert later["SequenceNumber"] > numbers[-1]
    messages = receive(sqs, fifo, **ALL)
    assert bodies(messages) == [*map(str, range(9)), "later"]
    shown = [one["Attributes"]["SequenceNumber"] for one in messages]
    assert shown == [*numbers, later["SequenceNumber"]]


# --- delivery -----------------------------------------------------------------------------------


@covers("6.2.groups-in-turn")
def test_all_of_the_first_group_then_the_next(sqs: Client, fifo: str) -> None:
    put_all(sqs, fifo, "g1:a g2:x g1:b g1:c")
    assert got(sqs, fifo) == ["a", "b", "c", "x"]


@covers("6.2.blocked-group", "3.2.counts-fifo")
def test_a_group_with_messages_in_flight_is_blocked(sqs: Client, fifo: str) -> None:
    put_all(sqs, fifo, "g1:a g1:b g2:x g2:y g3:p g3:q")
    assert got(sqs, fifo, MaxNumberOfMessages=1) == ["a"]
    assert got(sqs, fifo, MaxNumberOfMessages=1) == ["x"]
    assert counts(sqs, fifo) == (4, 2, 0)
    assert got(sqs, fifo) == ["p", "q"]
    assert got(sqs, fifo) == []


@covers("6.2.new-in-blocked", "6.2.empty-group")
def test_a_new_message_in_a_blocked_group_waits(sqs: Client, fifo: str) -> None:
    put(sqs, fifo, "g", "a")
    first = receive_one(sqs, fifo)
    put(sqs, fifo, "g", "b")
    assert got(sqs, fifo) == []
    delete(sqs, fifo, first)
    second = receive_one(sqs, fifo)
    assert second["Body"] == "b"
    delete(sqs, fifo, second)
    assert got(sqs, fifo) == []
    put(sqs, fifo, "g", "c")
    assert got(sqs, fifo) == ["c"]


@covers("6.2.one-deleted", "6.2.both-deleted")
def test_a_group_is_free_when_everything_received_is_deleted(sqs: Client, fifo: str) -> None:
    put_all(sqs, fifo, "g:a g:b g:c")
    first, second = receive(sqs, fifo, MaxNumberOfMessages=2)
    delete(sqs, fifo, first)
    assert got(sqs, fifo) == []
    delete(sqs, fifo, second)
    assert got(sqs, fifo) == ["c"]


@covers("6.2.head-visible")
def test_a_head_made_visible_comes_alone_and_after_older_groups(sqs: Client, fifo: str) -> None:
    put_all(sqs, fifo, "g1:a g1:b")
    head, _ = receive(sqs, fifo)
    put(sqs, fifo, "g2", "x")
    change(sqs, fifo, head, 0)
    assert got(sqs, fifo) == ["x", "a"]


@covers("6.2.zero-timeout", "5.4.fifo.zero")
def test_timeout_zero_locks_nothing_and_its_handle_is_worth_nothing(sqs: Client, fifo: str) -> None:
    put_all(sqs, fifo, "g1:a g2:x")
    first = receive_one(sqs, fifo, VisibilityTimeout=0)
    assert first["Body"] == "a"
    refusal = sqs.refused("DeleteMessage", QueueUrl=fifo, ReceiptHandle=first["ReceiptHandle"])
    text = (
        f"Value {first['ReceiptHandle']} for parameter ReceiptHandle is invalid. Reason: The "
        "receipt handle has expired."
    )
    refusal.assert_is(INVALID_PARAMETER, text)
    assert got(sqs, fifo) == ["x", "a"]


@covers("6.2.two-consumers")
def test_two_consumers_never_hold_messages_of_one_group(sqs: Client, fifo: str) -> None:
    put_all(sqs, fifo, "g1:a g1:b g2:x g2:y")
    other = sqs.another()
    held = [got(one, fifo, MaxNumberOfMessages=1) for one in (sqs, other, sqs, other)]
    assert held == [["a"], ["x"], [], []]


@covers("6.3.queue-delay", "2.2.send.delay-fifo-zero", "5.1.delay-zero-fifo")
def test_the_queues_delay_holds_for_every_message(sqs: Client) -> None:
    queue = new_fifo(sqs, DelaySeconds="900")
    put(sqs, queue, "g1", "a")
    put(sqs, queue, "g1", "b", DelaySeconds=0)
    assert counts(sqs, queue) == (0, 0, 2)
    assert got(sqs, queue) == []


@covers("3.2.delay-change-fifo")
def test_a_change_of_the_delay_affects_waiting_messages(sqs: Client) -> None:
    queue = new_fifo(sqs, DelaySeconds="900")
    put(sqs, queue, "g", "a")
    assert got(sqs, queue) == []
    set_attributes(sqs, queue, DelaySeconds="0")
    assert got(sqs, queue) == ["a"]
    put(sqs, queue, "other", "b")
    set_attributes(sqs, queue, DelaySeconds="900")
    assert got(sqs, queue) == []
    assert counts(sqs, queue) == (0, 1, 1)


@covers("6.3.high-throughput", "3.3.high-throughput")
def test_high_throughput_keeps_order_and_locks(sqs: Client) -> None:
    queue = new_fifo(sqs, **HIGH_THROUGHPUT)
    put_all(sqs, queue, " ".join(f"g{n % 5}:{n}" for n in range(20)))
    seen: dict[str, list[int]] = {}
    while messages := receive(sqs, queue, **ALL):
        groups = {one["Attributes"]["MessageGroupId"] for one in messages}
        assert groups.isdisjoint(got_groups(sqs, queue)), "a locked group delivers nothing"
        for message in messages:
            group = message["Attributes"]["MessageGroupId"]
            seen.setdefault(group, []).append(int(message["Body"]))
            delete(sqs, queue, message)
    assert seen == {f"g{n}": list(range(n, 20, 5)) for n in range(5)}


def got_groups(sqs: Client, queue: str) -> set[str]:
    """The groups of one receive, which gives back what it took."""
    messages = receive(sqs, queue, VisibilityTimeout=0, **ALL)
    return {one["Attributes"]["MessageGroupId"] for one in messages}


# --- receive attempts ---------------------------------------------------------------------------


@covers("5.5.replay", "5.5.count")
def test_a_repeated_attempt_gives_the_same_messages_and_handles(sqs: Client, fifo: str) -> None:
    put_all(sqs, fifo, "g1:a g1:b g2:x")
    named = {"ReceiveRequestAttemptId": "attempt", "MaxNumberOfMessages": 2} | ALL
    first = receive(sqs, fifo, **named)
    again = receive(sqs, fifo, **named)
    assert bodies(first) == ["a", "b"]
    handles = [[one["ReceiptHandle"] for one in messages] for messages in (first, again)]
    assert handles[0] == handles[1]
    assert [one["Attributes"]["ApproximateReceiveCount"] for one in again] == ["1", "1"]
    assert got(sqs, fifo) == ["x"]
    delete(sqs, fifo, again[0])


def hide(sqs: Client, queue: str, message: Message) -> None:
    change(sqs, queue, message, 60)


@covers("5.5.ordinary")
@pytest.mark.parametrize("spoil", [delete, hide], ids=["delete", "change"])
def test_an_attempt_whose_messages_were_touched_is_an_ordinary_receive(
    sqs: Client, fifo: str, spoil: Callable[[Client, str, Message], None]
) -> None:
    put_all(sqs, fifo, "g1:a g1:b g2:x")
    named = {"ReceiveRequestAttemptId": "attempt", "MaxNumberOfMessages": 2}
    first = receive(sqs, fifo, **named)
    assert bodies(first) == ["a", "b"]
    spoil(sqs, fifo, first[0])
    assert got(sqs, fifo, **named) == ["x"]


@covers("5.5.ordinary")
def test_another_attempt_is_an_ordinary_receive(sqs: Client, fifo: str) -> None:
    put_all(sqs, fifo, "g1:a g2:x")
    for attempt, body in (("first", "a"), ("second", "x")):
        named = {"ReceiveRequestAttemptId": attempt, "MaxNumberOfMessages": 1}
        assert got(sqs, fifo, **named) == [body]
