"""Waiting for messages: who is woken, when, by what."""

import pytest

from fastnode.queue import api
from tests.world import Pending, World


@pytest.fixture
def world() -> World:
    return World()


def poll(world: World, url: str, seconds: int = 20, limit: int = 10) -> Pending:
    request = api.ReceiveMessageRequest(
        url, max_number_of_messages=limit, wait_time_seconds=seconds
    )
    return world.begin("ReceiveMessage", request)


def bodies(pending: Pending) -> list[str]:
    assert pending.is_done and pending.error is None
    return [message.body for message in pending.result.messages]


def test_a_send_wakes_the_poll(world: World) -> None:
    url = world.create()
    waiting = poll(world, url)
    assert not waiting.is_done
    world.send(url, "A")
    assert bodies(waiting) == ["A"]


def test_a_poll_ends_empty_at_its_deadline_and_not_before(world: World) -> None:
    url = world.create()
    waiting = poll(world, url, seconds=2)
    world.advance(1_999)
    assert not waiting.is_done
    world.advance(2)
    assert bodies(waiting) == []
    assert world.alarms == {}


def test_the_queues_own_wait_holds_unless_the_call_names_another(world: World) -> None:
    url = world.create(ReceiveMessageWaitTimeSeconds="5")
    waiting = world.begin("ReceiveMessage", api.ReceiveMessageRequest(url))
    assert not waiting.is_done
    at_once = world.begin("ReceiveMessage", api.ReceiveMessageRequest(url, wait_time_seconds=0))
    assert bodies(at_once) == []


def test_the_end_of_a_timeout_wakes_the_poll(world: World) -> None:
    url = world.create()
    world.send(url, "A")
    world.receive(url, timeout=3)
    waiting = poll(world, url)
    world.advance(2_990)
    assert not waiting.is_done
    world.advance(12)
    assert bodies(waiting) == ["A"]


def test_what_came_while_the_node_stood_still_is_found_at_the_end_of_the_wait(
    world: World,
) -> None:
    """One ring is for all that the clock has passed: a timeout is over, and so is the wait."""
    url = world.create()
    world.send(url, "A")
    world.send(url, "B")
    world.receive(url, timeout=1)
    waiting = [poll(world, url, seconds=2, limit=1) for _ in range(3)]
    world.clock.ns += 5_000_000_000
    world.advance(0)
    assert [bodies(each) for each in waiting] == [["A"], ["B"], []]


def test_the_end_of_a_delay_wakes_the_poll(world: World) -> None:
    url = world.create()
    waiting = poll(world, url)
    world.send(url, "A", delay_seconds=3)
    assert not waiting.is_done
    world.advance(3_002)
    assert bodies(waiting) == ["A"]


def test_a_visibility_change_to_zero_wakes_the_poll(world: World) -> None:
    url = world.create()
    world.send(url, "A")
    (message,) = world.receive(url)
    waiting = poll(world, url)
    world.change(url, message.receipt_handle, 0)
    world.advance(2)
    assert bodies(waiting) == ["A"]


def test_who_waits_longest_is_served_first(world: World) -> None:
    url = world.create()
    waiting = [poll(world, url, limit=1) for _ in range(3)]
    for n in range(3):
        world.send(url, f"m{n}")
    assert [bodies(each) for each in waiting] == [["m0"], ["m1"], ["m2"]]


def test_one_batch_serves_several_polls(world: World) -> None:
    url = world.create()
    waiting = [poll(world, url, limit=1) for _ in range(3)]
    entries = [api.SendMessageBatchRequestEntry(str(n), f"m{n}") for n in range(3)]
    world.call("SendMessageBatch", api.SendMessageBatchRequest(url, entries))
    assert [bodies(each) for each in waiting] == [["m0"], ["m1"], ["m2"]]


def test_a_client_that_left_takes_no_message_with_it(world: World) -> None:
    url = world.create()
    left, stays = poll(world, url), poll(world, url)
    left.call.leave()
    assert bodies(left) == []
    world.send(url, "A")
    assert bodies(stays) == ["A"]


def test_polls_on_a_deleted_queue_end_empty(world: World) -> None:
    url = world.create()
    waiting = poll(world, url)
    world.call("DeleteQueue", api.DeleteQueueRequest(url))
    assert bodies(waiting) == []


def test_a_purge_lets_polls_wait_on(world: World) -> None:
    url = world.create()
    waiting = poll(world, url)
    world.call("PurgeQueue", api.PurgeQueueRequest(url))
    assert not waiting.is_done
    world.send(url, "A")
    assert bodies(waiting) == ["A"]


def test_ending_all_polls_answers_them_empty(world: World) -> None:
    url = world.create()
    waiting = poll(world, url)
    world.service.end_polls()
    assert bodies(waiting) == []
