"""Repeated calls about a queue with partitions: what has landed in any of them is found before
anything is judged, and belongs to whoever was told of it last.
"""

from typing import Any

import pytest

from fastnode.queue import api
from tests.unit.cluster.retry_events import EventQueue
from tests.unit.cluster.retry_table import Event, Kind
from tests.unit.cluster.retry_world import Client, RetryWorld, is_home, posted

GROUPS = [f"g{at}" for at in range(8)]
# So long are bodies that fit at first, and not when limits are tightened.
GOOD = 2_000 // 2


@pytest.fixture
def world() -> RetryWorld:
    """One partition is led by node 1, the other by node 3."""
    world = RetryWorld(2)
    world.lead_as([1, 3])
    return world


@pytest.fixture
def queue(world: RetryWorld) -> EventQueue:
    name = next(name for name in ("a.fifo", "b.fifo", "c.fifo", "d.fifo") if is_home(name, 0, 2))
    queue = EventQueue(world, Kind.PARTITIONED, name)
    queue.create()
    return queue


def send_all(queue: EventQueue) -> dict[str, Any]:
    """One message in each of many groups, so that both partitions have some."""
    entries = [{"Id": each, "MessageBody": each * GOOD, "MessageGroupId": each} for each in GROUPS]
    return {"QueueUrl": queue.url, "Entries": entries}


def with_handles(queue: EventQueue, messages: list[api.Message], **more: int) -> dict[str, Any]:
    entries = [
        {"Id": f"e{at}", "ReceiptHandle": message.receipt_handle, **more}
        for at, message in enumerate(messages)
    ]
    return {"QueueUrl": queue.url, "Entries": entries}


def repeat(world: RetryWorld, action: str, members: Any, queue: EventQueue, event: Event) -> None:
    """What the second attempt is told is what the first was told."""
    first = world.ask(1, posted(action, members, "call"))
    assert len(first.answer["Successful"]) == len(GROUPS)
    assert queue.happen(event).is_over
    queue.use_up()
    for node in (1, 2, 3):
        assert _entries(world.ask(node, posted(action, members, "call", 2))) == _entries(first)


def _entries(client: Client) -> list[Any]:
    assert client.status == 200 and not client.answer.get("Failed")
    return sorted(client.answer["Successful"], key=lambda entry: str(entry["Id"]))


@pytest.mark.parametrize("event", [Event.TIGHTEN, Event.RECREATE])
def test_messages_that_landed_are_told_and_not_stored_again(
    world: RetryWorld, queue: EventQueue, event: Event
) -> None:
    repeat(world, "SendMessageBatch", send_all(queue), queue, event)
    stored = len(GROUPS) if event is Event.TIGHTEN else 0
    assert world.counts(1, queue.url) == (stored, 0, 0)


@pytest.mark.parametrize("node", [1, 2, 3])
def test_a_single_message_that_landed_is_not_stored_again_in_another_partition(
    world: RetryWorld, queue: EventQueue, node: int
) -> None:
    """A queue that was made anew has other partitions for the same groups. The short way of sends
    must know that too.
    """
    requests = [
        {"QueueUrl": queue.url, "MessageBody": each, "MessageGroupId": each} for each in GROUPS
    ]
    firsts = [world.ask(node, posted("SendMessage", one, "call")).answer for one in requests]
    assert queue.happen(Event.RECREATE).is_over
    # What makes the queue live there, and the client known.
    world.ask(node, posted("SendMessage", {**requests[0], "MessageBody": "other"}))
    again = [world.ask(node, posted("SendMessage", one, "call", 2)).answer for one in requests]
    assert again == firsts
    assert world.counts(node, queue.url) == (1, 0, 0)


@pytest.mark.parametrize("event", [Event.TIGHTEN, Event.RECREATE])
@pytest.mark.parametrize("action", ["DeleteMessageBatch", "ChangeMessageVisibilityBatch"])
def test_what_was_done_to_messages_is_told_whatever_the_queue_has_become(
    world: RetryWorld, queue: EventQueue, action: str, event: Event
) -> None:
    world.ask(1, posted("SendMessageBatch", send_all(queue)))
    messages: list[api.Message] = []
    while len(messages) < len(GROUPS):
        messages += world.receive(1, queue.url, timeout=600)
    more = {"VisibilityTimeout": 900} if action.startswith("Change") else {}
    repeat(world, action, with_handles(queue, messages, **more), queue, event)


@pytest.mark.parametrize("action", ["DeleteMessageBatch", "ChangeMessageVisibilityBatch"])
def test_of_a_batch_that_landed_in_part_that_part_is_told_when_the_queue_is_gone(
    world: RetryWorld, queue: EventQueue, action: str
) -> None:
    world.ask(1, posted("SendMessageBatch", send_all(queue)))
    more = {"VisibilityTimeout": 900} if action.startswith("Change") else {}
    members = with_handles(queue, world.receive(1, queue.url, timeout=600), **more)
    members["Entries"].append({"Id": "bad", "ReceiptHandle": "forged", **more})
    first = world.ask(1, posted(action, members, "call")).answer
    world.call(1, "DeleteQueue", api.DeleteQueueRequest(queue.url))
    second = world.ask(2, posted(action, members, "call", 2)).answer
    assert first["Successful"] == second["Successful"] != []
    assert [entry["Id"] for entry in second["Failed"]] == ["bad"]


@pytest.mark.parametrize("event", [Event.NOTHING, Event.TIGHTEN])
def test_an_entry_that_has_not_landed_is_judged_today(
    world: RetryWorld, queue: EventQueue, event: Event
) -> None:
    """One partition loses its leader and its part of the call."""
    members = send_all(queue)
    world.hold_back()
    world.ask(2, posted("SendMessageBatch", members, "call")).close()
    world.lead(1, 1, survives=False)
    world.commit()
    landed, _, _ = world.counts(1, queue.url)
    assert 0 < landed < len(GROUPS)
    assert queue.happen(event).is_over
    answer = world.ask(3, posted("SendMessageBatch", members, "call", 2)).answer
    stored = landed if event is Event.TIGHTEN else len(GROUPS)
    assert (len(answer["Successful"]), len(answer.get("Failed", []))) == (
        stored,
        len(GROUPS) - stored,
    )
    seen: set[str] = set()
    while messages := world.receive(1, queue.url, timeout=600):
        seen |= {message.message_id for message in messages}
    assert seen == {entry["MessageId"] for entry in answer["Successful"]}
    assert world.counts(1, queue.url) == (0, stored, 0)


@pytest.mark.parametrize("node", [1, 2, 3])
def test_what_a_second_attempt_was_told_is_not_given_back_by_the_first(
    world: RetryWorld, queue: EventQueue, node: int
) -> None:
    """The client of the first has gone before its commit, and repeats its call before it too."""
    world.ask(1, posted("SendMessageBatch", send_all(queue)))
    members = {"QueueUrl": queue.url, "MaxNumberOfMessages": 2, "VisibilityTimeout": 600}
    world.hold_back()
    first = world.ask(1, posted("ReceiveMessage", members, "call"))
    first.close()
    world.settle()
    second = world.ask(node, posted("ReceiveMessage", members, "call", 2))
    world.commit()
    messages = second.answer["Messages"]
    assert len(messages) == 2
    assert world.counts(1, queue.url) == (len(GROUPS) - 2, 2, 0)
    for message in messages:
        world.delete(1, queue.url, message["ReceiptHandle"])
    assert world.counts(1, queue.url) == (len(GROUPS) - 2, 0, 0)


@pytest.mark.parametrize("attempt", [2, 1])
@pytest.mark.parametrize("earlier", [0, 1])
def test_whoever_takes_a_lead_while_it_is_asked_what_a_receive_took_tells_it_once(
    world: RetryWorld, queue: EventQueue, earlier: int, attempt: int
) -> None:
    """Asked for what it leads, and again by whoever waits for a leader of the other group; for a
    call that is repeated, and for another one with the same attempt id. Receives take turns in
    where they begin.
    """
    world.ask(1, posted("SendMessageBatch", send_all(queue)))
    for _ in range(earlier):
        assert len(world.receive(1, queue.url, limit=2)) == 2
    members = {"QueueUrl": queue.url, "MaxNumberOfMessages": 2, "VisibilityTimeout": 600}
    call = "call"
    if attempt == 1:
        members["ReceiveRequestAttemptId"], call = "a", "another call"
    first = world.ask(1, posted("ReceiveMessage", members, "call")).answer["Messages"]
    assert len(first) == 2
    world.depose(1)
    again = world.ask(2, posted("ReceiveMessage", members, call, attempt))
    assert not again.is_answered
    world.lead(1, 1)
    assert sorted(map(str, again.answer["Messages"])) == sorted(map(str, first))
