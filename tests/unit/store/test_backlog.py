"""How much work a node takes on: the rule against a model of a server, and how groups count."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode import config
from fastnode.clock import GroupClock
from fastnode.config import BACKLOG_PLACES_MAX, BACKLOG_PLACES_MIN, BACKLOG_WAIT_MS
from fastnode.errors import NotLed, Overloaded
from fastnode.flow import Suspension
from fastnode.raft.groups import LEADER
from fastnode.store.backlog import Backlog
from fastnode.store.group import Group
from fastnode.store.memory_engine import MemoryEngine
from tests.world import CountingIds, FakeClock

TICK_MS = round(config.TICK_SECONDS * 1_000)
LATE_MS = BACKLOG_WAIT_MS + 1


# --- the rule -------------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(
            st.integers(1, 5_000),
            st.lists(st.tuples(st.integers(0, 50_000), st.integers(0, 60_000)), max_size=4),
            st.integers(-2_000, 2_000),
        )
    )
)
def test_the_bound_stays_in_its_range_and_never_forgets_what_is_under_way(
    looks: list[tuple[int, list[tuple[int, int]], int]],
) -> None:
    backlog, taken = Backlog(), 0
    for elapsed_ms, groups, change in looks:
        backlog.room -= change
        taken += change
        assert backlog.look(elapsed_ms, groups) == sum(places for places, _ in groups)
        assert BACKLOG_PLACES_MIN <= backlog.limit <= BACKLOG_PLACES_MAX
        assert backlog.places_taken == taken


def test_late_work_lowers_the_bound_to_what_is_done_in_the_time_that_it_may_take() -> None:
    backlog = Backlog()
    backlog.look(100, [(800, LATE_MS)])
    assert backlog.limit == 8 * BACKLOG_WAIT_MS
    backlog.look(100, [(400, LATE_MS)])
    assert backlog.limit == 6 * BACKLOG_WAIT_MS


def test_work_in_time_raises_it_again_to_the_most() -> None:
    backlog = Backlog()
    backlog.look(100, [(0, LATE_MS)])
    assert backlog.limit == BACKLOG_PLACES_MIN
    looks = 0
    while backlog.limit < BACKLOG_PLACES_MAX:
        before = backlog.limit
        backlog.look(TICK_MS, [(10, BACKLOG_WAIT_MS)])
        assert backlog.limit > before
        looks += 1
    assert looks * TICK_MS < 5_000


def test_a_group_that_is_stuck_does_not_lower_the_bound_for_the_others() -> None:
    backlog = Backlog()
    backlog.look(TICK_MS, [(0, 60_000), (100, 5), (0, 0)])
    assert backlog.limit == BACKLOG_PLACES_MAX
    backlog.look(TICK_MS, [(0, 60_000), (0, 0)])
    assert backlog.limit < BACKLOG_PLACES_MAX, "when nothing moves at all it does"


def test_what_makes_room_may_come_in_up_to_twice_the_bound() -> None:
    backlog = Backlog()
    backlog.room = -backlog.limit + 1
    assert backlog.has_reserve
    backlog.room -= 1
    assert not backlog.has_reserve


@given(st.integers(BACKLOG_PLACES_MIN // BACKLOG_WAIT_MS + 1, 40))
def test_a_flood_is_let_in_as_fast_as_it_is_served_and_waits_no_longer_than_it_should(
    served_per_ms: int,
) -> None:
    """A server that does so much per millisecond, and clients that take every place at once."""
    backlog, waiting = Backlog(), deque[tuple[int, int]]()
    waits, served = [0], 0
    for now in range(0, 12_000, TICK_MS):
        if backlog.room > 0:
            waiting.append((now, backlog.room))
            backlog.room = 0
        left = served_per_ms * TICK_MS
        while waiting and left:
            since, places = waiting.popleft()
            done = min(left, places)
            left -= done
            backlog.room += done
            if done < places:
                waiting.appendleft((since, places - done))
            waits.append(now + TICK_MS - since)
        freed = served_per_ms * TICK_MS - left
        served += freed if now > 6_000 else 0
        oldest_ms = now + TICK_MS - waiting[0][0] if waiting else 0
        backlog.look(TICK_MS, [(freed, oldest_ms)])
    assert max(waits[len(waits) // 2 :]) <= 2 * BACKLOG_WAIT_MS + TICK_MS
    assert served >= 0.95 * served_per_ms * (12_000 - 6_000 - TICK_MS)


# --- how groups count -----------------------------------------------------------------------------


class Member:
    """Two groups of one node, led in term 1, with one backlog."""

    def __init__(self) -> None:
        self.clock, self.ids, self.backlog = FakeClock(), CountingIds(), Backlog()
        self.groups = [Group(n, MemoryEngine(), GroupClock(self.clock)) for n in range(2)]
        self.index = 1
        for group in self.groups:
            group.backlog = self.backlog
            group.change_role(LEADER, 1)
            group.commit(1, 1, [])
            assert group.apply()

    def put(self, group: int, value: bytes = b"v") -> Suspension:
        txn = self.groups[group].begin(self.ids.take(16))
        txn.put(txn.request, value)
        return self.groups[group].submit(txn)

    def commit(self, group: int) -> None:
        self.index += 1
        entry = self.groups[group].take_entry()
        assert entry is not None
        self.groups[group].commit(self.index, 1, [entry])
        assert self.groups[group].apply()


@pytest.fixture
def member() -> Member:
    return Member()


def test_groups_share_the_places_and_give_them_back_when_they_have_applied(member: Member) -> None:
    for group in (0, 1, 1):
        member.put(group)
    assert member.backlog.places_taken == 3
    member.commit(1)
    assert member.backlog.places_taken == 1
    assert [group.take_burden()[0] for group in member.groups] == [0, 2]
    assert member.groups[1].take_burden() == (0, 0), "told once"


def test_a_large_transaction_takes_more_places(member: Member) -> None:
    member.put(0, bytes(1_048_576))
    assert member.backlog.places_taken == 65
    member.commit(0)
    assert member.backlog.places_taken == 0
    assert member.groups[0].take_burden() == (65, 0)


def test_what_fails_gives_its_places_back_and_counts_as_no_work(member: Member) -> None:
    member.put(0)
    member.groups[0].take_entry()
    member.groups[0].refuse_entry(Overloaded("no"))
    member.put(0)
    member.groups[0].change_role("follower", 2)
    assert member.backlog.places_taken == 0
    assert member.groups[0].take_burden() == (0, 0)
    with pytest.raises(NotLed):
        member.put(0)


def test_the_age_is_that_of_the_oldest_that_still_waits(member: Member) -> None:
    member.put(0)
    member.clock.ns += 300_000_000
    member.put(0)
    assert member.groups[0].take_burden() == (0, 300)
    member.clock.ns += 100_000_000
    member.commit(0)
    member.put(0)
    assert member.groups[0].take_burden() == (2, 0)


def test_beyond_the_reserve_nothing_is_planned_whatever_it_is_for(member: Member) -> None:
    member.put(0)
    member.backlog.room = -BACKLOG_PLACES_MAX
    with pytest.raises(Overloaded):
        member.put(1)
    member.commit(0)
    member.put(1)
