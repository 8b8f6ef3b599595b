"""Timers in leader memory: order, exactness, and the bound."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode import config
from fastnode.queue.timers import Timer, Timers


def loaded(*timers: Timer) -> Timers:
    made = Timers()
    made.load(timers, is_last=True)
    return made


def drain(timers: Timers) -> list[int]:
    positions = []
    while (due := timers.take()) is not None:
        positions.append(due[0])
    return positions


def test_due_messages_come_in_send_order_whatever_their_deadline() -> None:
    timers = loaded(Timer(10, 3, True), Timer(20, 1, True), Timer(30, 2, True))
    timers.advance(20)
    assert drain(timers) == [1, 3]
    timers.advance(30)
    assert drain(timers) == [2]


def test_a_changed_timer_counts_once() -> None:
    timers = loaded(Timer(10, 1, True))
    timers.schedule(Timer(50, 1, True))
    timers.advance(49)
    assert not timers.has_due
    timers.advance(50)
    assert timers.due_received == 1
    timers.schedule(Timer(60, 1, True))
    assert timers.due_received == 0 and drain(timers) == []


def test_a_deleted_message_is_never_due() -> None:
    timers = loaded(Timer(10, 1, True), Timer(10, 2, False))
    timers.advance(10)
    timers.forget((1,))
    assert (timers.due_received, timers.due_delayed) == (0, 1)
    assert drain(timers) == [2]


def test_before_the_first_page_nothing_is_kept_and_a_page_is_wanted() -> None:
    timers = Timers()
    timers.schedule(Timer(10, 1, True))
    assert timers.needs_page(0)
    timers.load([Timer(10, 1, True)], is_last=True)
    assert not timers.needs_page(0)
    assert timers.next_at() == 10


def test_the_next_page_is_wanted_when_time_reaches_the_horizon() -> None:
    timers = Timers()
    timers.load([Timer(10, 1, True), Timer(20, 2, True)], is_last=False)
    assert timers.horizon == 20
    assert not timers.needs_page(19)
    assert timers.needs_page(20)
    timers.load([Timer(20, 2, True)], is_last=True)
    timers.advance(20)
    assert drain(timers) == [1, 2]


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "TIMER_PAGE", 4)


@pytest.mark.usefixtures("small_pages")
def test_what_was_deleted_makes_room_before_what_is_alive() -> None:
    timers, far = Timers(), 1_000
    timers.load([], is_last=True)
    for position in range(6):
        timers.schedule(Timer(far + position, position, True))
    for near in range(100):
        timers.hide((100, 101), near, True)
        timers.forget((100, 101))
    assert timers.knows_all
    assert timers.times_of(range(6)) == {n: far + n for n in range(6)}


@pytest.mark.usefixtures("small_pages")
@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.sampled_from(["set", "forget", "advance"]), st.integers()),
        max_size=80,
    )
)
def test_bounded_memory_gives_the_same_as_a_plain_dict(steps: list[tuple[int, str, int]]) -> None:
    """The engine's index is a dict here; whenever a page is wanted it is read from the dict."""
    stored: dict[int, int] = {}
    due: set[int] = set()
    timers, now = Timers(), 0
    for position, step, number in steps:
        if step == "set":
            # Two timers never share a time: a timestamp belongs to one transaction.
            at = (now + abs(number) % 50 + 1) * 64 + position
            stored[position] = at
            due.discard(position)
            timers.schedule(Timer(at, position, True))
        elif step == "forget":
            stored.pop(position, None)
            due.discard(position)
            timers.forget((position,))
        else:
            now += abs(number) % 20
        while timers.needs_page(now * 64):
            rows = sorted((at, p) for p, at in stored.items() if at >= timers.horizon)
            page = [Timer(at, p, True) for at, p in rows[: config.TIMER_PAGE]]
            timers.load(page, is_last=len(page) < config.TIMER_PAGE)
            timers.advance(now * 64)
        timers.advance(now * 64)
        due |= {p for p, at in stored.items() if at <= now * 64}
        assert timers.due_received == len(due)
    assert drain(timers) == sorted(due)
