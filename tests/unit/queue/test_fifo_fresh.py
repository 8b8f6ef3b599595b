"""Records kept for the receives to come, and messages that come back: it is always the same one."""

from collections.abc import Sequence

import pytest

from fastnode import config, native
from tests.unit.queue.fifo_world import URL, FifoWorld


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


def test_a_backlog_without_room_is_read_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "READ_AHEAD_BYTES", 4_000)
    world, wanted = FifoWorld(), list[bytes]()
    for number in range(100):
        world.put(f"g{number % 20}", f"{number}")
    group = world.groups[0]
    read_one_by_one = group.get_many

    def get_many(keys: Sequence[bytes]) -> list[bytes | None]:
        wanted.extend(key for key in keys if key.startswith(native.FAMILY_DATA))
        return read_one_by_one(keys)

    monkeypatch.setattr(group, "get_many", get_many)
    for turn in range(20):
        messages = world.get(limit=5)
        assert [message.body for message in messages] == [str(turn + 20 * n) for n in range(5)]
        for message in messages:
            world.delete(URL, message.receipt_handle)
    assert len(wanted) < 40, "most of a hundred came with others"
