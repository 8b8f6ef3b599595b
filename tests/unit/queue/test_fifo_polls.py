"""Polls of a FIFO queue beside something that is available and that nobody may take: they wait for
it to change, and are not woken again and again.
"""

import pytest

from fastnode import config
from fastnode.errors import DiskFull
from fastnode.queue import api
from tests.unit.queue.fifo_world import URL, FifoWorld
from tests.world import Pending

# Alarms that may ring while nothing happens.
_RINGS_MAX = 3


def poll(world: FifoWorld) -> Pending:
    request = api.ReceiveMessageRequest(URL, max_number_of_messages=10, wait_time_seconds=20)
    return world.begin("ReceiveMessage", request)


def bodies(pending: Pending) -> list[str]:
    assert pending.is_done and pending.error is None
    return [message.body for message in pending.result.messages]


def ring_due(world: FifoWorld) -> int:
    """How often an alarm rings while time stands still and nothing is committed."""
    for rings in range(_RINGS_MAX + 1):
        due = [(at, alarm) for alarm, (at, _) in world.alarms.items() if at <= world.now_ms]
        if not due:
            return rings
        _, ring = world.alarms.pop(due[0][1])
        ring()
    return _RINGS_MAX + 1


def test_a_poll_sleeps_beside_a_delete_that_is_not_committed() -> None:
    world = FifoWorld()
    world.put("a", "first", "second")
    (first,) = world.get(limit=1, timeout=1)
    deleting = world.begin("DeleteMessage", api.DeleteMessageRequest(URL, first.receipt_handle))
    waiting = poll(world)
    world.clock.ns += 2_000_000_000
    assert ring_due(world) <= _RINGS_MAX
    assert not waiting.is_done and not deleting.is_done
    world.commit()
    assert bodies(waiting) == ["second"]


def test_a_poll_is_woken_if_the_change_beside_it_fails() -> None:
    world = FifoWorld()
    world.put("a", "first")
    (first,) = world.get(limit=1, timeout=1)
    deleting = world.begin("DeleteMessage", api.DeleteMessageRequest(URL, first.receipt_handle))
    waiting = poll(world)
    world.clock.ns += 2_000_000_000
    assert ring_due(world) <= _RINGS_MAX
    assert world.group.take_entry() is not None
    world.group.refuse_entry(DiskFull("the log is full"))
    assert isinstance(deleting.error, DiskFull)
    world.commit()
    assert bodies(waiting) == ["first"]


def test_another_group_is_delivered_beside_it() -> None:
    world = FifoWorld()
    world.put("a", "first")
    (first,) = world.get(limit=1, timeout=1)
    world.begin("DeleteMessage", api.DeleteMessageRequest(URL, first.receipt_handle))
    waiting = poll(world)
    world.clock.ns += 2_000_000_000
    assert ring_due(world) <= _RINGS_MAX
    world.put("b", "other")
    assert bodies(waiting) == ["other"]


def test_a_poll_sleeps_while_too_much_is_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "IN_FLIGHT_MESSAGES_MAX", 1)
    world = FifoWorld()
    world.put("a", "first")
    world.put("b", "second")
    (first,) = world.get(limit=1, timeout=5)
    waiting = poll(world)
    world.clock.ns += 2_000_000
    assert ring_due(world) <= _RINGS_MAX
    world.delete(URL, first.receipt_handle)
    assert bodies(waiting) == ["second"]


def test_the_end_of_a_timeout_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "IN_FLIGHT_MESSAGES_MAX", 1)
    world = FifoWorld()
    world.put("a", "first")
    world.put("b", "second")
    world.get(limit=1, timeout=5)
    waiting = poll(world)
    world.clock.ns += 2_000_000
    assert ring_due(world) <= _RINGS_MAX
    world.advance(4_980)
    assert not waiting.is_done
    world.advance(20)
    assert len(bodies(waiting)) > 0
