"""Records kept for the receives to come: a bounded number of bytes, and never a wrong one."""

import pytest

from fastnode import config
from fastnode.queue import fifo_fresh
from fastnode.queue.fifo_fresh import Fresh
from tests.unit.queue.fifo_world import URL, FifoWorld


def test_a_record_is_there_once() -> None:
    fresh = Fresh()
    fresh.add(1, b"one")
    assert fresh.take([1]) == [b"one"]
    assert fresh.take([1]) == [None]
    assert fresh.take([2]) == [None]


def test_what_finds_no_room_is_left_out_until_there_is_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(config, "READ_AHEAD_BYTES", 10)
    fresh = Fresh()
    for position in range(4):
        fresh.add(position, b"four")
    assert fresh.take(range(4)) == [b"four", b"four", None, None]
    fresh.add(4, b"four")
    assert fresh.take([4]) == [b"four"]


def test_those_that_nobody_asks_for_make_room_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "READ_AHEAD_BYTES", 10)
    monkeypatch.setattr(fifo_fresh, "_REFUSED_MAX", 3)
    fresh = Fresh()
    for position in range(6):
        fresh.add(position, b"four")
    assert fresh.take(range(6)) == [None] * 4 + [b"four"] * 2


def test_a_message_that_comes_back_is_the_same() -> None:
    world = FifoWorld()
    world.put("g", "a", "b")
    assert world.got(timeout=1) == ["a", "b"]
    world.advance(1_001)
    assert world.got() == ["a", "b"]


def test_a_large_message_is_deleted_and_hidden_like_a_small_one() -> None:
    world = FifoWorld()
    world.put("g", "x" * 5_000, "small")
    large, small = world.get()
    world.change(URL, large.receipt_handle, 0)
    world.advance(1)
    (large,) = world.get()
    assert large.body == "x" * 5_000
    for message in (large, small):
        world.delete(URL, message.receipt_handle)
    assert world.counts(URL) == (0, 0, 0)
