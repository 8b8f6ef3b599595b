"""The mirror of the ready rows in pages of two: what it knows, what it leaves to the engine."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode import _fifo_ref, native
from fastnode.native import Head

ALL_TIME = 1 << 40
PAGE = 2
IMPLEMENTATIONS = [_fifo_ref.Ready, *([native.Ready] if native.COMPILED else [])]


@pytest.fixture(autouse=True, scope="module", params=IMPLEMENTATIONS)
def implementation(request: pytest.FixtureRequest) -> None:
    Paged.implementation = request.param


def waiting(sent: int, group: str) -> Head:
    """Nobody has received the group's first message."""
    return Head(sent, sent << 16, group)


def hidden(sent: int, until: int, group: str) -> Head:
    return Head(until, sent << 16, group)


def row_of(head: Head) -> tuple[bytes, bytes]:
    """As it is stored."""
    key = b"ready" + head.available_at.to_bytes(8, "big") + head.position.to_bytes(10, "big")
    return key, head.group_id.encode()


class Paged:
    """A `Ready` over rows that are stored; loads pages as a queue does."""

    implementation: Any

    def __init__(self, *rows: Head) -> None:
        self.rows = {head.group_id: head for head in rows}
        self.ready = self.implementation(PAGE)
        self.pages = 0

    def load(self, now: int, delay: int = 0) -> None:
        while self.ready.needs_page(now, delay):
            stored = sorted(self.rows.values())
            page = [head for head in stored if head >= self.ready.horizon][:PAGE]
            self.ready.load([row_of(head) for head in page], is_last=len(page) < PAGE)
            self.pages += 1
            assert self.pages < 1_000, "a page after the other, without an end"

    def take(self, now: int, delay: int = 0) -> str | None:
        self.load(now, delay)
        head = self.ready.take(now, delay)
        return None if head is None else head.group_id

    def store(self, head: Head) -> None:
        self.rows[head.group_id] = head
        self.ready.put(head)

    def drop(self, group: str) -> None:
        self.rows.pop(group, None)
        self.ready.renew(group, None)


def test_groups_come_in_the_order_in_which_they_became_available() -> None:
    paged = Paged(*(waiting(100 - n, f"g{n}") for n in range(20)))
    taken = [paged.take(ALL_TIME) for _ in range(21)]
    assert taken == [f"g{n}" for n in reversed(range(20))] + [None]


def test_what_is_behind_the_horizon_is_read_only_when_it_is_needed() -> None:
    paged = Paged(*(waiting(n, f"g{n}") for n in range(20)))
    paged.take(ALL_TIME)
    assert paged.pages == 1
    paged.take(ALL_TIME)
    assert paged.pages == 1
    paged.take(ALL_TIME)
    assert paged.pages == 2


def test_more_rows_of_one_moment_than_a_page_holds() -> None:
    rows = [Head(7, 7 << 16 | n, f"g{n}") for n in range(9)]
    paged = Paged(*rows)
    assert [paged.take(ALL_TIME) for _ in rows] == [head.group_id for head in rows]


def test_what_is_in_the_future_stays_in_the_engine() -> None:
    paged = Paged(*(hidden(1, 1_000 + n, f"g{n}") for n in range(20)))
    assert paged.take(999) is None
    assert paged.pages == 1
    assert paged.ready.next_at(0) == 1_000
    assert paged.take(1_000) == "g0"


def test_beyond_what_is_known_the_next_page_is_the_next_event() -> None:
    paged = Paged(*(hidden(1, 1_000 + n, f"g{n}") for n in range(20)))
    paged.load(0)
    for group in ("g0", "g1"):
        paged.drop(group)
    assert paged.ready.next_at(0) == 1_001, "the horizon is behind the last row of the page"
    assert paged.take(1_001) is None
    assert paged.take(1_002) == "g2"


def test_a_row_behind_the_horizon_is_left_to_the_engine() -> None:
    paged = Paged(*(waiting(n, f"g{n}") for n in range(10)))
    paged.load(ALL_TIME)
    paged.store(waiting(50, "late"))
    assert paged.ready.next_at(0) == 0
    taken = [paged.take(ALL_TIME) for _ in range(11)]
    assert taken[-1] == "late"


def test_a_group_that_moves_behind_the_horizon_is_forgotten_until_then() -> None:
    paged = Paged(*(waiting(n, f"g{n}") for n in range(5)))
    assert paged.take(ALL_TIME) == "g0"
    paged.ready.give_back(["g0"])
    paged.store(hidden(0, 100, "g0"))
    assert [paged.take(ALL_TIME) for _ in range(5)] == ["g1", "g2", "g3", "g4", "g0"]


def test_a_taken_group_is_nobodys_until_it_is_given_back() -> None:
    paged = Paged(waiting(1, "g"))
    assert paged.take(5) == "g" and paged.ready.has_taken
    paged.store(waiting(1, "g"))
    assert paged.take(5) is None
    paged.ready.give_back(["g"])
    paged.store(waiting(1, "g"))
    assert paged.take(5) == "g"


def test_memory_is_bounded_and_what_was_dropped_comes_again() -> None:
    paged = Paged()
    paged.load(0)
    for n in range(100):
        paged.store(waiting(1 + n, f"g{n}"))
    assert paged.ready.horizon[0] < 100, "most rows are in the engine only"
    assert [paged.take(ALL_TIME) for _ in range(100)] == [f"g{n}" for n in range(100)]


def test_rows_that_changed_often_are_known_once() -> None:
    paged = Paged()
    paged.load(0)
    for n in range(1_000):
        paged.store(hidden(1, n, "g"))
    assert paged.take(998) is None
    assert paged.take(999) == "g"


def test_the_delay_holds_back_only_what_nobody_has_received() -> None:
    paged = Paged(waiting(10, "new"), hidden(1, 12, "again"))
    assert paged.take(15, delay=100) == "again"
    assert paged.take(15, delay=100) is None
    assert paged.ready.next_at(100) == 110
    assert paged.take(110, delay=100) == "new"


def test_delayed_groups_do_not_hide_what_lies_behind_them() -> None:
    rows = [waiting(n, f"new{n}") for n in range(50)]
    paged = Paged(*rows, hidden(1, 60, "again"))
    assert paged.take(70, delay=1_000) == "again"
    assert paged.take(70, delay=1_000) is None
    assert paged.take(1_000, delay=1_000) == "new0"


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcdefgh"),
            st.sampled_from(["send", "hide", "drop", "take", "back"]),
            st.integers(0, 40),
        ),
        max_size=60,
    ),
    st.sampled_from([0, 10]),
)
def test_pages_give_what_a_sorted_list_gives(steps: list[tuple[str, str, int]], delay: int) -> None:
    paged, held = Paged(), set[str]()
    for now, (group, kind, number) in enumerate(steps, start=50):
        if kind == "drop":
            paged.drop(group)
        elif kind == "back":
            paged.ready.give_back([group])
            held.discard(group)
            if group in paged.rows:
                paged.store(paged.rows[group])
        elif kind == "take":
            due = [head for head in paged.rows.values() if head.due_at(delay) <= now]
            free = [head for head in due if head.group_id not in held]
            expected = min(free, key=lambda head: (head.due_at(delay), head.position), default=None)
            taken = paged.take(now, delay)
            assert taken == (None if expected is None else expected.group_id)
            held |= {taken} if taken else set()
        else:
            # No two messages of a queue have the same position: it decides which of them is first.
            received = Head(now + number - 20, (now - 1) << 16 | 1, group)
            paged.store(waiting(now, group) if kind == "send" else received)
