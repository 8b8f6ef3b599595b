"""The memory of deduplication ids: it may ask the engine in vain, and never forgets to ask."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode import config, native
from fastnode._plan_ref import Recent as Twin
from tests.unit.conftest import Impl
from tests.unit.queue.fifo_world import URL, FifoWorld
from tests.world import ACCOUNT, REGION

WINDOW_MS = config.DEDUPLICATION_MS


def key(number: int) -> bytes:
    return b"id-%d" % number


def make(impl: Impl, complete_ms: int, now_ms: Callable[[], int]) -> native.Recent:
    recent: native.Recent = impl.plan.Recent(complete_ms, now_ms, WINDOW_MS)
    return recent


def test_what_was_added_may_be_there_and_little_else(impl: Impl) -> None:
    recent = make(impl, 0, lambda: 1)
    for number in range(5_000):
        recent.add(key(number), 1)
    assert all(recent.may_have(key(number)) for number in range(5_000))
    assert sum(recent.may_have(key(number)) for number in range(10_000, 20_000)) < 500


def test_everything_may_be_there_before_it_is_complete(impl: Impl) -> None:
    now = [99]
    recent = make(impl, 100, lambda: now[0])
    assert recent.may_have(b"id")
    now[0] = 100
    assert not recent.may_have(b"id")


@given(st.lists(st.integers(0, WINDOW_MS // 3), min_size=1, max_size=400))
def test_nothing_within_the_window_is_forgotten(steps: list[int]) -> None:
    """Small filters and few of them, so that they are dropped by age and by number. Both versions
    take the same ids for used.
    """
    now = [1]
    recent, twin = (one(0, lambda: now[0], WINDOW_MS, 64, 256, 3) for one in (native.Recent, Twin))
    used: dict[bytes, int] = {}
    for number, step in enumerate(steps):
        now[0] += step
        used[key(number)] = now[0]
        for one in (recent, twin):
            one.add(key(number), now[0])
            young = [name for name, at in used.items() if now[0] - at < WINDOW_MS]
            assert all(one.may_have(name) for name in young)
            assert one.filter_count <= 3
        asked = [key(other) for other in range(number, number + 20)]
        assert [recent.may_have(one) for one in asked] == [twin.may_have(one) for one in asked]


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
