"""Attempts of one call: at the same time, after a restart, by both protocols, within the window,
and with the gates closed.
"""

from typing import Any
from urllib.parse import urlencode

import pytest

from fastnode import native
from fastnode.errors import DiskFull
from fastnode.queue.caller import CLIENT_RETRIES
from tests.unit.queue.repeats_front import Asked, RepeatsFront, request_bytes, sdk, url_of

SEND = "SendMessage", {"QueueUrl": url_of("q"), "MessageBody": "m"}
FIFO = (
    "SendMessage",
    {"QueueUrl": url_of("ordered.fifo"), "MessageBody": "m", "MessageGroupId": "g"},
)
BATCH = (
    "SendMessageBatch",
    {
        "QueueUrl": url_of("q"),
        "Entries": [{"Id": f"e{n}", "MessageBody": f"m{n}"} for n in range(10)],
    },
)
SENDS = pytest.mark.parametrize("call", [SEND, FIFO, BATCH], ids=["plain", "fifo", "batch"])
WAYS = pytest.mark.parametrize("uses_lane", [True, False], ids=["short", "general"])
Call = tuple[str, dict[str, Any]]


def messages_in(front: RepeatsFront) -> int:
    return sum(front.counts("q")) + sum(front.counts("ordered.fifo"))


def size_of(call: Call) -> int:
    return len(call[1].get("Entries", "1"))


# --- at the same time ----------------------------------------------------------------------------


@WAYS
@SENDS
def test_attempts_at_the_same_time_are_one_message(call: Call, uses_lane: bool) -> None:
    front = RepeatsFront(uses_lane=uses_lane)
    asked = [front.begin(*call, attempt=attempt) for attempt in (1, 2, 3)]
    assert not any(one.is_answered for one in asked)
    front.world.commit()
    first, *others = [one.answer for one in asked]
    assert first.status == 200 and others == [first, first]
    assert messages_in(front) == size_of(call)


@WAYS
@SENDS
def test_who_waits_for_an_attempt_that_fails_makes_its_own(call: Call, uses_lane: bool) -> None:
    front = RepeatsFront(uses_lane=uses_lane)
    first, second = front.begin(*call), front.begin(*call, attempt=2)
    assert front.world.group.take_entry() is not None
    front.world.group.refuse_entry(DiskFull("the log is full"))
    assert first.answer.status == 503
    assert not second.is_answered
    front.world.commit()
    assert second.answer.status == 200
    assert messages_in(front) == size_of(call)


def test_an_attempt_that_waits_behind_a_purge_does_not_land_beside_the_other() -> None:
    """It has looked for what landed before it had to wait."""
    front = RepeatsFront()
    front.begin("PurgeQueue", {"QueueUrl": url_of("q")}, invocation=None)
    asked = [front.begin(*SEND, attempt=attempt) for attempt in (1, 2)]
    front.world.commit()
    first, second = (one.answer for one in asked)
    assert first.status == 200 and second == first
    assert messages_in(front) == 1


# --- whose call it is ----------------------------------------------------------------------------


@WAYS
def test_the_same_invocation_of_another_caller_is_another_call(uses_lane: bool) -> None:
    front = RepeatsFront(uses_lane=uses_lane)
    mine, theirs = front.ask(*SEND), front.again(*SEND, key="AKIE")
    assert mine.json["MessageId"] != theirs.json["MessageId"]
    assert messages_in(front) == 2


@WAYS
def test_calls_without_an_invocation_are_calls_of_their_own(uses_lane: bool) -> None:
    front = RepeatsFront(uses_lane=uses_lane)
    for _ in range(2):
        assert front.ask(*SEND, invocation=None).status == 200
    assert messages_in(front) == 2


def test_another_body_under_the_same_invocation_is_another_call() -> None:
    front = RepeatsFront()
    front.ask(*SEND)
    front.again("SendMessage", SEND[1] | {"MessageBody": "n"})
    assert sorted(front.bodies()) == ["m", "n"]


# --- the Query protocol --------------------------------------------------------------------------


def query(members: dict[str, str], attempt: int) -> bytes:
    body = urlencode({"Version": "2012-11-05"} | members).encode()
    return request_bytes("application/x-www-form-urlencoded", body, "AKID", *sdk("one", attempt))


QUERY_SEND = {
    "Action": "SendMessage",
    "QueueUrl": url_of("q"),
    "MessageBody": "m",
    "MessageAttribute.1.Name": "a",
    "MessageAttribute.1.Value.DataType": "String",
    "MessageAttribute.1.Value.StringValue": "v",
}
QUERY_BATCH = {
    "Action": "SendMessageBatch",
    "QueueUrl": url_of("ordered.fifo"),
    "SendMessageBatchRequestEntry.1.Id": "a",
    "SendMessageBatchRequestEntry.1.MessageBody": "a",
    "SendMessageBatchRequestEntry.1.MessageGroupId": "g",
    "SendMessageBatchRequestEntry.2.Id": "b",
    "SendMessageBatchRequestEntry.2.MessageBody": "b",
    "SendMessageBatchRequestEntry.2.MessageGroupId": "h",
}


@pytest.mark.parametrize("members", [QUERY_SEND, QUERY_BATCH], ids=["single", "batch"])
def test_a_call_of_the_query_protocol_gets_its_first_answer_again(members: dict[str, str]) -> None:
    front = RepeatsFront()

    def ask(attempt: int) -> Asked:
        asked = front.begin_raw(query(members, attempt))
        front.world.commit()
        return asked

    first = ask(1).answer
    rows = front.rows()
    assert first.status == 200 and b"MessageId" in first.body
    assert ask(2).answer == first
    assert front.rows() == rows


# --- later ---------------------------------------------------------------------------------------


@SENDS
@pytest.mark.parametrize("is_flushed", [True, False], ids=["flushed", "replayed"])
def test_a_call_is_known_after_a_restart(call: Call, is_flushed: bool) -> None:
    front = RepeatsFront()
    first = front.ask(*call)
    if is_flushed:
        front.world.group.flush()
    front.restart()
    rows = front.rows()
    assert front.again(*call) == first
    assert front.rows() == rows


def test_a_call_that_was_in_the_log_when_the_node_died_is_answered_when_it_is_repeated() -> None:
    front = RepeatsFront()
    cut = front.begin(*SEND)
    entry = front.world.group.take_entry()
    assert entry is not None
    front.world.logs[0].append(entry)
    front.restart()
    assert not cut.is_answered
    rows = front.rows()
    answer = front.again(*SEND)
    assert answer.status == 200
    assert front.rows() == rows
    (message,) = front.world.receive(url_of("q"))
    assert message.message_id == answer.json["MessageId"]


def test_a_call_that_never_reached_the_log_lands_when_it_is_repeated() -> None:
    front = RepeatsFront()
    front.begin(*SEND)
    front.restart()
    assert front.again(*SEND).status == 200
    assert front.bodies() == ["m"]


def test_limits_that_were_tightened_hold_for_a_call_that_never_reached_the_log() -> None:
    front = RepeatsFront()
    call = "SendMessage", {"QueueUrl": url_of("q"), "MessageBody": "m" * 2_000}
    front.begin(*call)
    front.restart()
    front.set_attributes("q", MaximumMessageSize="1024")
    assert front.again(*call).status == 400
    assert messages_in(front) == 0


@SENDS
def test_a_call_is_known_for_five_minutes(call: Call) -> None:
    front = RepeatsFront()
    first = front.ask(*call)
    front.world.advance(299_000)
    front.ask(*SEND, invocation="another")
    assert front.again(*call) == first
    front.world.advance(2_000)
    front.ask(*SEND, invocation="a third")
    late = front.again(*call)
    assert late.status == 200 and late != first


def test_a_call_without_an_invocation_is_known_for_a_minute() -> None:
    """Long enough for the node that took it: its client waits for half of that."""
    front = RepeatsFront()
    assert native.CLASSES[0].retention_ms == 60_000
    front.ask(*SEND, invocation=None)
    front.world.advance(61_000)
    front.ask(*SEND, invocation=None)
    assert front.world.group.request_count == 1


def test_the_oldest_call_makes_room_when_there_are_too_many() -> None:
    front = RepeatsFront()
    group, ids = front.world.group, front.world.service.new_request
    assert native.CLASSES[CLIENT_RETRIES].rows_max == 131_072
    first = front.ask(*SEND)

    def land(count: int) -> None:
        for number in range(count):
            group.submit(group.begin(ids(), CLIENT_RETRIES))
            if number % 8_192 == 8_191:
                front.world.commit()
        front.world.commit()

    land(131_071)
    assert front.again(*SEND) == first
    land(1)
    assert front.again(*SEND).json["MessageId"] != first.json["MessageId"]
    assert messages_in(front) == 2


# --- gates ---------------------------------------------------------------------------------------


@WAYS
@SENDS
def test_with_the_gate_closed_a_repeated_call_is_a_new_one(call: Call, uses_lane: bool) -> None:
    front = RepeatsFront(uses_lane=uses_lane)
    front.world.service.gates.recognises_retries = False
    first, second = front.ask(*call), front.again(*call)
    assert first.status == second.status == 200
    if call is FIFO:
        # Its own deduplication sees to that.
        assert first == second and messages_in(front) == 1
    else:
        assert first != second and messages_in(front) == 2 * size_of(call)
    if call is SEND and uses_lane:
        assert front.lane_uses == 2, "nothing is written that another node would have to know"
    assert front.world.service.gates.recognised == 0


def test_repeated_calls_are_counted() -> None:
    front = RepeatsFront()
    front.ask(*SEND)
    assert front.world.service.gates.recognised == 0
    for attempt in (2, 3):
        front.again(*SEND, attempt=attempt)
    assert front.world.service.gates.recognised == 2
    assert front.world.service.gates.repeated == 0


@WAYS
@pytest.mark.parametrize("repeats", [True, False], ids=["open", "closed"])
def test_a_call_whose_leader_is_lost_is_not_said_to_have_failed(
    uses_lane: bool, repeats: bool
) -> None:
    """Nobody leads any more: also a node that may repeat the call can only say that it does not
    know.
    """
    front = RepeatsFront(uses_lane=uses_lane)
    front.world.service.gates.repeats_calls = repeats
    asked = front.begin(*SEND)
    assert front.world.group.take_entry() is not None
    front.world.group.change_role("follower", 2)
    answer = asked.answer
    assert answer.status == 503
    assert b"it may have taken effect" in answer.body
    assert front.world.service.gates.repeated == repeats


@WAYS
def test_a_call_that_no_log_has_seen_has_not_taken_effect(uses_lane: bool) -> None:
    front = RepeatsFront(uses_lane=uses_lane)
    asked = front.begin(*SEND)
    front.world.group.change_role("follower", 2)
    assert asked.answer.status == 503
    assert b"may have taken effect" not in asked.answer.body
