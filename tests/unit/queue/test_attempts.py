"""ReceiveRequestAttemptId: a repeated receive gives the same messages, if nobody touched them."""

import pytest

from fastnode.queue import api
from tests.unit.queue.fifo_world import URL, FifoWorld


@pytest.fixture
def world() -> FifoWorld:
    return FifoWorld()


def handles(messages: list[api.Message]) -> list[str]:
    return [message.receipt_handle for message in messages]


def test_a_repeated_attempt_gives_the_same_messages_and_handles(world: FifoWorld) -> None:
    world.put("g1", "a", "b")
    world.put("g2", "x")
    first = world.get(limit=2, timeout=30, attempt="try")
    world.advance(20_000)
    again = world.get(limit=2, timeout=30, attempt="try")
    assert handles(again) == handles(first)
    assert [m.attributes["ApproximateReceiveCount"] for m in again] == ["1", "1"]
    world.advance(20_000)
    assert world.got() == ["x"], "hidden anew for thirty seconds"
    world.advance(10_001)
    assert world.got(timeout=600) == ["a", "b"]


def test_an_attempt_is_remembered_across_a_crash(world: FifoWorld) -> None:
    world.put("g1", "a")
    first = world.get(attempt="try")
    world.crash()
    assert handles(world.get(attempt="try")) == handles(first)


@pytest.mark.parametrize("touch", ["delete", "change", "expire", "forget"])
def test_an_attempt_whose_messages_were_touched_is_an_ordinary_receive(
    world: FifoWorld, touch: str
) -> None:
    world.put("g1", "a")
    world.put("g2", "x")
    (a,) = world.get(limit=1, timeout=310 if touch == "forget" else 30, attempt="try")
    if touch == "delete":
        world.delete(URL, a.receipt_handle)
    elif touch == "change":
        world.change(URL, a.receipt_handle, 100)
    else:
        world.advance(30_001 if touch == "expire" else 300_000)
    (message,) = world.get(limit=1, attempt="try")
    assert message.body == "x"
    assert message.receipt_handle != a.receipt_handle


def test_another_attempt_is_another_receive(world: FifoWorld) -> None:
    world.put("g1", "a")
    world.get(attempt="try")
    assert world.get(attempt="another") == []
