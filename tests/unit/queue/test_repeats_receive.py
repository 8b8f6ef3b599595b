"""Receives that a client repeats: the same messages with the same handles while nobody has touched
them; a receive like any other when somebody has.
"""

import json
from typing import Any

import pytest

from fastnode.flow import start
from fastnode.queue import api
from fastnode.queue.caller import Call, Caller
from fastnode.queue.receive import receive_message
from tests.unit.queue.repeats_front import Answer, RepeatsFront, url_of
from tests.world import ACCOUNT, ENDPOINT, REGION, Pending, World

NAMES = ["q", "ordered.fifo", "parts.fifo"]
EVERY_QUEUE = pytest.mark.parametrize("name", NAMES)


def receive(name: str, **members: object) -> tuple[str, dict[str, Any]]:
    asked = {"MaxNumberOfMessages": 3, "AttributeNames": ["All"]} | members
    return "ReceiveMessage", {"QueueUrl": url_of(name), **asked}


def filled(name: str, count: int = 3) -> RepeatsFront:
    front = RepeatsFront(groups=2)
    for number in range(count):
        send(front, name, f"m{number}", number)
    return front


def send(front: RepeatsFront, name: str, body: str, number: int = 0) -> None:
    ids = {"MessageGroupId": f"g{number}"} if name.endswith(".fifo") else {}
    members = {"QueueUrl": url_of(name), "MessageBody": body, **ids}
    assert front.ask("SendMessage", members, invocation=None).status == 200


def bodies(answer: Answer) -> set[str]:
    return {message["Body"] for message in answer.json.get("Messages", [])}


def handles(answer: Answer) -> set[str]:
    return {message["ReceiptHandle"] for message in answer.json.get("Messages", [])}


def in_any_order(answer: Answer) -> list[Any]:
    """Messages of several partitions have no order among them."""
    messages: list[Any] = answer.json["Messages"]
    return sorted(messages, key=lambda message: str(message["MessageId"]))


@EVERY_QUEUE
def test_a_repeated_receive_gives_the_same_messages_and_handles(name: str) -> None:
    front = filled(name)
    first = front.ask(*receive(name))
    assert len(handles(first)) == 3
    rows = front.rows()
    front.world.advance(20_000)
    for attempt in (2, 3):
        again = front.again(*receive(name), attempt=attempt)
        assert in_any_order(again) == in_any_order(first)
        if name != "parts.fifo":
            assert again == first
    assert front.rows() == rows
    assert front.counts(name) == (0, 3, 0)
    assert front.world.service.gates.recognised == 2


@EVERY_QUEUE
def test_the_handles_that_were_given_twice_delete(name: str) -> None:
    front = filled(name)
    front.ask(*receive(name))
    for handle in handles(front.again(*receive(name))):
        front.world.delete(url_of(name), handle)
    assert front.counts(name) == (0, 0, 0)


@EVERY_QUEUE
def test_messages_that_came_later_are_left_to_others(name: str) -> None:
    front = filled(name)
    first = front.ask(*receive(name, MaxNumberOfMessages=10))
    send(front, name, "late", 9)
    again = front.again(*receive(name, MaxNumberOfMessages=10))
    assert in_any_order(again) == in_any_order(first)
    assert bodies(front.ask(*receive(name), invocation="another")) == {"late"}


def test_two_receives_that_hid_their_messages_until_the_same_moment_are_told_apart() -> None:
    """The later one for a shorter time: only the states of the messages tell."""
    front = filled("q", 4)
    calls = [receive("q", MaxNumberOfMessages=2, VisibilityTimeout=each) for each in (30, 29)]
    answers: list[Answer] = []
    for call, milliseconds in zip(calls, (5, 1_000), strict=True):
        front.world.advance(milliseconds)
        answers.append(front.ask(*call))
    assert len(front.visible_at("q")) == 1
    assert [front.again(*call) for call in calls] == answers


# --- when it is not as it was any more -----------------------------------------------------------


def delete_one(front: RepeatsFront, name: str, first: Answer) -> None:
    front.world.delete(url_of(name), min(handles(first)))


def change_one(front: RepeatsFront, name: str, first: Answer) -> None:
    front.world.change(url_of(name), min(handles(first)), 600)


def release_one(front: RepeatsFront, name: str, first: Answer) -> None:
    front.world.change(url_of(name), min(handles(first)), 0)


def time_out(front: RepeatsFront, _name: str, _first: Answer) -> None:
    front.world.advance(31_000)


def change_default(front: RepeatsFront, name: str, _first: Answer) -> None:
    """The receive said nothing of a timeout: which messages it hid cannot be told any more."""
    front.set_attributes(name, VisibilityTimeout="45")


def purge(front: RepeatsFront, name: str, _first: Answer) -> None:
    front.world.call("PurgeQueue", api.PurgeQueueRequest(url_of(name)))


MEDDLING = {
    each.__name__: each
    for each in (delete_one, change_one, release_one, time_out, change_default, purge)
}


@EVERY_QUEUE
@pytest.mark.parametrize("meddling", MEDDLING)
def test_what_was_touched_makes_it_a_new_receive(name: str, meddling: str) -> None:
    front = filled(name)
    first = front.ask(*receive(name))
    MEDDLING[meddling](front, name, first)
    for number in range(3):
        send(front, name, f"new {number}", 20 + number)
    again = front.again(*receive(name))
    assert again.status == 200
    assert len(bodies(again)) == 3, "a receive like any other"
    assert not handles(again) & handles(first)


@EVERY_QUEUE
def test_a_new_receive_of_an_old_call_can_be_repeated_too(name: str) -> None:
    front = filled(name)
    first = front.ask(*receive(name))
    front.world.delete(url_of(name), min(handles(first)))
    for number in range(3):
        send(front, name, f"new {number}", 20 + number)
    second = front.again(*receive(name))
    rows = front.rows()
    third = front.again(*receive(name), attempt=3)
    assert in_any_order(third) == in_any_order(second)
    assert front.rows() == rows


def test_a_call_that_is_always_a_new_receive_finds_an_end() -> None:
    front = filled("q", 0)
    seen: set[str] = set()
    for attempt in range(1, 40):
        send(front, "q", f"m{attempt}")
        answer = front.ask(*receive("q"), attempt=attempt)
        assert bodies(answer) == {f"m{attempt}"}
        (handle,) = handles(answer)
        assert handle not in seen
        seen.add(handle)
        front.world.delete(url_of("q"), handle)


def test_nothing_is_given_of_a_queue_that_is_gone() -> None:
    front = filled("q")
    front.ask(*receive("q"))
    front.world.call("DeleteQueue", api.DeleteQueueRequest(url_of("q")))
    assert front.again(*receive("q")).status == 400


def test_an_empty_receive_is_not_remembered() -> None:
    front = filled("q", 0)
    assert bodies(front.ask(*receive("q"))) == set()
    send(front, "q", "now")
    assert bodies(front.again(*receive("q"))) == {"now"}


def test_the_identity_of_a_poll_is_kept_for_what_it_gives() -> None:
    """At first it only moves a dead letter, which is no answer."""
    world = World()
    dead = world.create("dead")
    asked = api.GetQueueAttributesRequest(dead, ["QueueArn"])
    arn = world.call("GetQueueAttributes", asked).attributes["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    url = world.create("q", RedrivePolicy=policy)
    world.send(url, "dead")
    world.receive(url, timeout=1)
    world.advance(1_001)
    call = Call(Caller(ACCOUNT, REGION, ENDPOINT, "AIDA"), "ReceiveMessage", "request")
    call.request = b"the poll's name."
    pending = Pending(call)
    request = api.ReceiveMessageRequest(url, wait_time_seconds=20)
    start(receive_message(world.service, call, request), pending.finish)
    world.commit()
    assert world.counts(dead) == (1, 0, 0) and not pending.is_done
    assert not world.group.has_seen(call.request)
    world.send(url, "alive")
    assert [message.body for message in pending.result.messages] == ["alive"]
    assert world.group.has_seen(call.request)


@EVERY_QUEUE
def test_a_receive_is_known_after_a_restart(name: str) -> None:
    front = filled(name)
    first = front.ask(*receive(name))
    front.restart()
    again = front.again(*receive(name))
    assert in_any_order(again) == in_any_order(first)


@EVERY_QUEUE
def test_with_the_gate_closed_it_is_a_new_receive(name: str) -> None:
    front = filled(name)
    front.world.service.gates.recognises_retries = False
    assert len(bodies(front.ask(*receive(name)))) == 3
    assert bodies(front.again(*receive(name))) == set()


def test_a_repeated_receive_is_not_charged() -> None:
    front = filled("q")
    limits = {"ThrottleRecvCapacity": "10", "ThrottleRecvRefillPerSecond": "0.001"}
    front.set_attributes("q", **limits)
    first = front.ask(*receive("q"))
    assert [front.again(*receive("q"), attempt=n) for n in range(2, 20)] == [first] * 18


def test_a_receive_is_remembered_for_a_minute() -> None:
    front = filled("q")
    call = receive("q", VisibilityTimeout=600)
    first = front.ask(*call)
    front.world.advance(59_000)
    send(front, "q", "another")
    assert front.again(*call) == first
    front.world.advance(2_000)
    send(front, "q", "a third")
    assert bodies(front.again(*call)) == {"another", "a third"}


# --- long polls ----------------------------------------------------------------------------------


@EVERY_QUEUE
def test_a_newer_attempt_ends_the_wait_of_the_older_one(name: str) -> None:
    front = filled(name, 0)
    call = receive(name, WaitTimeSeconds=20)
    older = front.begin(*call)
    front.world.commit()
    assert not older.is_answered
    newer = front.begin(*call, attempt=2)
    front.world.commit()
    assert (older.answer.status, bodies(older.answer)) == (200, set())
    assert not newer.is_answered
    send(front, name, "for the newer one")
    assert bodies(newer.answer) == {"for the newer one"}


def test_another_poll_is_left_alone() -> None:
    front = filled("q", 0)
    call = receive("q", WaitTimeSeconds=20)
    asked = [
        front.begin(*call),
        front.begin(*call, invocation="another"),
        front.begin(*call, key="AKIE"),
        front.begin(*call, invocation=None),
    ]
    front.world.commit()
    assert not any(one.is_answered for one in asked)


def test_a_poll_that_ended_leaves_nothing_behind() -> None:
    front = filled("q", 0)
    call = receive("q", WaitTimeSeconds=20)
    asked = [front.begin(*call, attempt=attempt) for attempt in (1, 2, 3)]
    front.world.commit()
    front.world.advance(20_000)
    assert all(one.is_answered for one in asked)
    assert not front.world.service.polls._calls


@EVERY_QUEUE
def test_an_attempt_waits_for_the_one_that_is_being_stored(name: str) -> None:
    front = filled(name)
    asked = [front.begin(*receive(name), attempt=attempt) for attempt in (1, 2)]
    assert not any(one.is_answered for one in asked)
    front.world.commit()
    first, second = (one.answer for one in asked)
    assert len(handles(first)) == 3
    assert handles(second) == handles(first)
    assert front.counts(name) == (0, 3, 0)


@EVERY_QUEUE
@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("milliseconds", [0, 1_001])
def test_an_attempt_waits_for_what_one_that_was_left_gives_back(
    name: str, is_stored: bool, milliseconds: int
) -> None:
    """Also if its time is over by then: it is being changed, and nobody else finds it."""
    front = filled(name)
    call = receive(name, VisibilityTimeout=1)
    left = front.begin(*call)
    left.transport.connection.connection_lost(None)
    if is_stored:
        front.world.step()
    newer = front.begin(*call, attempt=2)
    front.world.advance(milliseconds)
    front.world.commit()
    assert bodies(newer.answer) == {"m0", "m1", "m2"}
    assert front.counts(name) == (0, 3, 0)
