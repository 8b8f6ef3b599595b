"""Short ways of receives and deletes that end early: nothing is lost, and nobody waits in vain."""

import pytest

from fastnode.config import HTTP_ANSWER_SECONDS
from fastnode.queue import api
from fastnode.queue.live import LiveQueue
from fastnode.queue.waiting import Item
from tests.unit.http.handout_front import HANDLE, URL, Front, assert_alike, post
from tests.world import ACCOUNT


@pytest.mark.parametrize("action", ["ReceiveMessage", "DeleteMessage"])
def test_both_ways_say_when_the_log_is_full(action: str) -> None:
    for front in (short := Front(uses_lane=True), long := Front(uses_lane=False)):
        front.send("m", "n")
        handle, *_ = front.receive(MaxNumberOfMessages=1)
        before = len(front.transport.written)
        front.begin(action, ReceiptHandle=handle)
        front.world.refuse()
        assert front.transport.written[before:].startswith(b"HTTP/1.1 503")
        assert len(front.receive()) == 1
        assert front.ask("DeleteMessage", ReceiptHandle=handle).startswith(b"HTTP/1.1 200")
    assert_alike(short, long)


def test_what_a_failed_receive_took_comes_in_its_old_place() -> None:
    front = Front(uses_lane=True)
    front.send("a", "b", "c", "d")
    front.begin("ReceiveMessage", MaxNumberOfMessages=2)
    front.world.refuse()
    assert [one.body for one in front.world.receive(URL)] == ["a", "b", "c", "d"]


def test_a_receive_that_cannot_be_planned_leaves_everything() -> None:
    front = Front(uses_lane=True)
    front.send("a", "b")
    front.receive(MaxNumberOfMessages=1)
    front.world.group.backlog.room -= 1 << 40
    assert front.ask("ReceiveMessage").startswith(b"HTTP/1.1 503")
    front.world.group.backlog.room += 1 << 40
    assert [one.body for one in front.world.receive(URL)] == ["b"]


@pytest.mark.parametrize("uses_lane", [True, False])
def test_what_nobody_reads_is_available_again(uses_lane: bool) -> None:
    front = Front(uses_lane=uses_lane)
    front.send("m")
    front.begin("ReceiveMessage")
    front.connection.eof_received()
    front.world.commit()
    assert front.lane_uses == uses_lane
    assert front.transport.written.endswith(b"\r\n\r\n{}")
    assert [one.body for one in front.world.receive(URL)] == ["m"]


@pytest.mark.parametrize("uses_lane", [True, False])
def test_what_comes_too_late_is_available_again(uses_lane: bool) -> None:
    front = Front(uses_lane=uses_lane)
    front.send("m")
    front.begin("ReceiveMessage")
    front.node.server.coarse_now += HTTP_ANSWER_SECONDS
    front.connection.expire()
    front.world.commit()
    assert front.lane_uses == uses_lane
    assert b"HTTP/1.1 503" in front.transport.written
    assert [one.body for one in front.world.receive(URL)] == ["m"]


@pytest.mark.parametrize("uses_lane", [True, False])
def test_an_attempt_that_follows_gets_the_messages_of_the_first(uses_lane: bool) -> None:
    headers = b"amz-sdk-invocation-id: 7", b"amz-sdk-request: attempt=%d"
    front = Front(uses_lane=uses_lane)
    front.send("m", "n")
    first, second = (
        front.ask("ReceiveMessage", headers[0], headers[1] % attempt) for attempt in (1, 2)
    )
    assert HANDLE.findall(first) == HANDLE.findall(second) != []


def test_a_poll_that_was_given_up_ends_when_the_call_is_repeated() -> None:
    headers = b"amz-sdk-invocation-id: 7", b"amz-sdk-request: attempt=1"
    front = Front(uses_lane=True)
    queue, items = unseen(front, "m")
    poll = post("ReceiveMessage", *headers, WaitTimeSeconds=20)
    front.connection.data_received(poll)
    queue.waiting.put_back(items)
    other, transport = front.node.connect()
    other.data_received(poll)
    front.world.commit()
    assert front.transport.written.endswith(b"\r\n\r\n{}")
    assert HANDLE.search(transport.written)


def test_a_receive_that_leaves_something_wakes_who_waits() -> None:
    front = Front(uses_lane=True)
    queue, items = unseen(front, "m", "n")
    poll = front.world.begin("ReceiveMessage", api.ReceiveMessageRequest(URL, wait_time_seconds=20))
    queue.waiting.put_back(items)
    assert len(front.receive(MaxNumberOfMessages=1)) == front.lane_uses == 1
    assert [one.body for one in poll.result.messages] == ["n"]


def unseen(front: Front, *bodies: str) -> tuple[LiveQueue, list[Item]]:
    """The queue, and messages to put back: as after a receive that failed, before anybody who waits
    is told.
    """
    front.send(*bodies)
    queue = front.world.service.find(ACCOUNT, "us-east-1", "q")
    assert queue is not None
    queue._load_waiting()
    return queue, queue.waiting.take(len(bodies))
