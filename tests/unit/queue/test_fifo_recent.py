"""The memory of deduplication ids: it may ask the engine in vain, and never forgets to ask."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode import config
from fastnode.queue import fifo_recent
from fastnode.queue.fifo_recent import Recent
from tests.unit.queue.fifo_world import URL, FifoWorld
from tests.world import ACCOUNT, REGION

WINDOW_MS = config.DEDUPLICATION_MS


def key(number: int) -> bytes:
    return b"id-%d" % number


def test_what_was_added_may_be_there_and_little_else() -> None:
    recent = Recent(0, lambda: 1)
    for number in range(5_000):
        recent.add(key(number), now_ms=1)
    assert all(recent.may_have(key(number)) for number in range(5_000))
    assert sum(recent.may_have(key(number)) for number in range(10_000, 20_000)) < 500


def test_everything_may_be_there_before_it_is_complete() -> None:
    now = [99]
    recent = Recent(100, lambda: now[0])
    assert recent.may_have(b"id")
    now[0] = 100
    assert not recent.may_have(b"id")


@given(st.lists(st.integers(0, WINDOW_MS // 3), min_size=1, max_size=400))
def test_nothing_within_the_window_is_forgotten(steps: list[int]) -> None:
    """Small filters and few of them, so that they are dropped by age and by number."""
    now = [1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fifo_recent, "_FIRST_BITS", 64)
        patch.setattr(fifo_recent, "_BITS_MAX", 256)
        patch.setattr(fifo_recent, "_FILTERS_MAX", 3)
        recent = Recent(0, lambda: now[0])
        used: dict[bytes, int] = {}
        for number, step in enumerate(steps):
            now[0] += step
            recent.add(key(number), now[0])
            used[key(number)] = now[0]
            young = [name for name, at in used.items() if now[0] - at < WINDOW_MS]
            assert all(recent.may_have(name) for name in young)
            assert len(recent._filters) <= 3


def test_a_queue_read_again_still_knows_its_duplicates() -> None:
    world = FifoWorld()
    first = world.put_one("g", "m", "d")
    world.engine.flush()
    world.crash()
    again = world.put_one("g", "m", "d")
    assert (again.message_id, again.sequence_number) == (first.message_id, first.sequence_number)
    world.advance(WINDOW_MS)
    assert world.put_one("g", "m", "d").message_id != first.message_id
    # By now it is complete, and it holds what was sent since it was read.
    assert world.put_one("g", "m", "d").message_id == world.put_one("g", "m", "d").message_id


def test_a_new_id_asks_the_engine_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = FifoWorld()
    world.put("g", "first")
    queue = world.service.find(ACCOUNT, REGION, URL)
    assert queue is not None
    asked: list[bytes] = []
    get_many = world.group.get_many

    def watched(keys: Sequence[bytes]) -> list[bytes | None]:
        asked.extend(keys)
        return get_many(keys)

    monkeypatch.setattr(world.group, "get_many", watched)
    world.put("g", "second")
    assert not [key for key in asked if key.startswith(queue.messages.dedup)]
