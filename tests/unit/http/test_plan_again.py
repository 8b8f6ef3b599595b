"""A call whose plan the state has overtaken is planned again, by either way; not for ever."""

import json

import pytest

from fastnode import config
from fastnode.errors import NotLed
from fastnode.store.txn import Txn
from tests.unit.http.lanes import FIRST, URL, Front, post

SEND = json.dumps({"QueueUrl": URL, "MessageBody": "a"}).encode()
SEND_LATER = json.dumps({"QueueUrl": URL, "MessageBody": "a", "DelaySeconds": 1}).encode()
BATCH = json.dumps({"QueueUrl": URL, "Entries": [{"Id": "1", "MessageBody": "a"}]}).encode()
RECEIVE = json.dumps({"QueueUrl": URL}).encode()


def overtake(front: Front) -> None:
    """Somebody else writes what every plan on this queue relies on, before it."""
    group = front.world.group
    queue = front.world.service.find("000000000000", "us-east-1", "q")
    assert queue is not None
    txn: Txn = group.begin(front.world.service.new_request())
    txn.put(queue.keys.generation, group.get(queue.keys.generation) or b"")
    group.submit(txn)


def answers(front: Front) -> list[bytes]:
    return [part for part in front.transport.written.split(b"HTTP/1.1 ") if part]


def send_overtaken(front: Front, raw: bytes, times: int) -> None:
    """Each plan of the request loses against a transaction that the log has before it."""
    group, stamp = front.world.group, front.world.group.stamp
    left = [times]

    def stale_stamp(request: bytes) -> tuple[int, int]:
        start_ts, commit_ts = stamp(request)
        if left[0] > 0:
            left[0] -= 1
            return start_ts - 1, commit_ts
        return start_ts, commit_ts

    overtake(front)
    front.world.commit()
    group.stamp = stale_stamp  # type: ignore[method-assign] # a plan on old state
    front.send(raw)
    group.stamp = stamp  # type: ignore[method-assign] # as it was


@pytest.mark.parametrize("uses_lane", [True, False])
@pytest.mark.parametrize("body", [SEND, SEND_LATER])
def test_a_send_that_was_overtaken_lands_once(uses_lane: bool, body: bytes) -> None:
    front = Front(uses_lane=uses_lane)
    send_overtaken(front, post(body), 1)
    (answer,) = answers(front)
    assert answer.startswith(b"200 ")
    assert sum(front.world.counts("q")) == 1


@pytest.mark.parametrize(("target", "body"), [(b"SendMessage", SEND), (b"SendMessageBatch", BATCH)])
def test_what_the_short_way_planned_is_planned_again_as_the_same_call(
    target: bytes, body: bytes
) -> None:
    """Nobody may know of the first attempt that it will never land."""
    front = Front(uses_lane=True)
    front.send(FIRST)
    group, stamp = front.world.group, front.world.group.stamp
    identities: list[bytes] = []

    def noted_stamp(request: bytes) -> tuple[int, int]:
        identities.append(request)
        return stamp(request)

    group.stamp = noted_stamp  # type: ignore[method-assign] # it is watched
    send_overtaken(front, post(body, target=target), 1)
    own = identities[1:]  # the first is of whoever overtakes
    assert front.lane_uses == 1
    assert len(own) == 2 and len(set(own)) == 1
    assert sum(front.world.counts("q")) == 2


@pytest.mark.parametrize("uses_lane", [True, False])
def test_a_call_that_never_lands_is_told_to_come_back(uses_lane: bool) -> None:
    front = Front(uses_lane=uses_lane)
    send_overtaken(front, post(SEND), 2 * config.PLANS_MAX)
    (answer,) = answers(front)
    assert answer.startswith(b"503 ") and b"Retry-After: 1\r\n" in answer
    assert sum(front.world.counts("q")) == 0


def test_an_overtaken_receive_gives_its_messages_to_the_next_plan() -> None:
    front = Front(uses_lane=False)
    front.world.send("q", "a")
    send_overtaken(front, post(RECEIVE, target=b"ReceiveMessage"), 1)
    (answer,) = answers(front)
    assert b'"Body":"a"' in answer
    assert front.world.counts("q") == (0, 1, 0)


@pytest.mark.parametrize(("target", "body"), [(b"SendMessage", SEND), (b"SendMessageBatch", BATCH)])
def test_what_the_lead_has_left_behind_is_carried_to_whoever_leads(
    target: bytes, body: bytes
) -> None:
    """The short way's entry was refused, because the lead is being handed on."""
    front = Front(uses_lane=True)
    front.send(FIRST)
    front.connection.data_received(post(body, target=target))
    group = front.world.group
    assert front.lane_uses == 1 and group.take_entry() is not None
    group.refuse_entry(NotLed("the lead is being handed on"))
    front.world.commit()
    assert [answer[:4] for answer in answers(front)] == [b"200 ", b"200 "]
    assert sum(front.world.counts("q")) == 2
