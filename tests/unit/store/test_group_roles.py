"""One group whose leader changes: who may plan, who is told, and what becomes of what waits."""

import pytest

from fastnode import config
from fastnode.clock import GroupClock
from fastnode.errors import NotLed, Overloaded, Unavailable
from fastnode.flow import Suspension, start
from fastnode.raft.groups import LEADER
from fastnode.store.group import Group
from fastnode.store.memory_engine import MemoryEngine
from tests.world import CountingIds, FakeClock


class Follower:
    """Node 1's replica of a group that node 2 leads in term 1."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.engine = MemoryEngine()
        self._ids = CountingIds()
        self.group = Group(0, self.engine, GroupClock(FakeClock()), is_sole_voter=False)
        self.group.on_ready = lambda _group: self.told.append("ready")
        self.group.on_lost = lambda _group: self.told.append("lost")
        self.group.on_leader = lambda: self.told.append("leader")
        self.group.change_role("follower", 1, 2)

    def put(self, key: bytes) -> Suspension:
        txn = self.group.begin(self._ids.take(16))
        txn.put(key, b"1")
        return self.group.submit(txn)


@pytest.fixture
def follower() -> Follower:
    return Follower()


@pytest.fixture
def leader() -> Follower:
    """It leads in term 2 and is ready."""
    leader = Follower()
    leader.group.change_role(LEADER, 2, 1)
    leader.group.commit(1, 2, [])
    assert leader.group.apply()
    return leader


def outcome_of(suspension: Suspension) -> list[object]:
    """What it was resumed with or failed by, if it was."""
    ended: list[object] = []

    async def wait() -> object:
        return await suspension

    start(wait(), lambda result, error: ended.append(error or result))
    return ended


def test_a_follower_knows_who_leads_and_plans_nothing(follower: Follower) -> None:
    group = follower.group
    assert (group.leader, group.term, group.leads, group.is_ready) == (2, 1, False, False)
    assert not group.is_readable
    with pytest.raises(NotLed):
        group.begin(b"r" * 16)
    assert follower.told == ["leader"]


def test_a_leader_is_ready_when_an_entry_of_its_term_is_applied(follower: Follower) -> None:
    group = follower.group
    group.commit(1, 1, [])
    assert group.apply()
    group.change_role(LEADER, 2, 1)
    assert group.leads and not group.is_ready and "ready" not in follower.told
    with pytest.raises(NotLed):
        group.begin(b"r" * 16)
    group.commit(2, 2, [])
    assert group.apply()
    assert group.is_ready
    assert follower.told == ["leader", "leader", "ready", "leader"]
    group.commit(3, 2, [])
    assert group.apply()
    assert follower.told.count("ready") == 1


def test_a_leader_that_goes_on_in_another_term_begins_anew(follower: Follower) -> None:
    group = follower.group
    for index, term in ((1, 2), (2, 3)):
        group.change_role(LEADER, term, 1)
        group.commit(index, term, [])
        assert group.apply()
    assert follower.told == [
        *("leader", "leader", "ready", "leader"),
        *("lost", "leader", "ready", "leader"),
    ]


def test_the_same_role_again_tells_only_of_the_leader(follower: Follower) -> None:
    follower.group.change_role("follower", 1, 3)
    follower.group.change_role("candidate", 1, 0)
    assert follower.told == ["leader"] * 3
    assert follower.group.leader == 0


def test_what_was_not_taken_may_be_asked_of_the_next_leader_and_the_rest_is_unknown(
    leader: Follower,
) -> None:
    taken = outcome_of(leader.put(b"a"))
    assert leader.group.take_entry() is not None
    gathered = outcome_of(leader.put(b"b"))
    blocked = leader.group.latches.wait_for([b"a"])
    assert blocked is not None
    waiting = outcome_of(blocked)
    leader.group.change_role("follower", 3, 3)
    assert isinstance(taken[0], Unavailable) and not isinstance(taken[0], NotLed)
    assert isinstance(gathered[0], NotLed)
    assert waiting == [None] and len(leader.group.latches) == 0
    assert leader.group.take_entry() is None


def test_what_was_taken_is_applied_by_whoever_commits_it(leader: Follower) -> None:
    ended = outcome_of(leader.put(b"a"))
    entry = leader.group.take_entry()
    assert entry is not None
    leader.group.change_role("follower", 3, 3)
    leader.group.commit(2, 2, [entry])
    assert leader.group.apply()
    assert leader.engine.get(b"a") == b"1"
    assert len(ended) == 1


def test_who_is_told_that_the_lead_is_lost_cannot_plan_any_more(leader: Follower) -> None:
    tried: list[type] = []

    def plan(group: Group) -> None:
        try:
            group.begin(b"r" * 16)
        except NotLed as error:
            tried.append(type(error))

    leader.group.on_lost = plan
    leader.group.change_role("follower", 3, 3)
    assert tried == [NotLed]


def test_a_read_that_waits_when_the_lead_is_lost_is_for_the_next_leader(
    leader: Follower,
) -> None:
    read = outcome_of(leader.group.readable())
    leader.group.change_role("follower", 3, 2)
    assert isinstance(read[0], NotLed)


def test_a_replica_says_when_it_has_reached_an_index(follower: Follower) -> None:
    group = follower.group
    waits = {index: outcome_of(group.reached(index)) for index in (0, 1, 2, 3)}
    assert waits[0] == [None] and waits[1] == waits[2] == []
    group.commit(2, 1, [])
    assert group.apply()
    assert waits[1] == waits[2] == [None] and waits[3] == []
    group.change_role(LEADER, 2, 1)
    group.change_role("follower", 3, 2)
    group.commit(3, 3, [])
    assert group.apply()
    assert waits[3] == [None], "whoever leads, the index is the same"


def test_who_waits_for_an_index_goes_on_when_memory_is_that_of_the_new_leader(
    follower: Follower,
) -> None:
    """He may plan at once, and memory from before would undo what others have changed."""
    group = follower.group
    wait = outcome_of(group.reached(2))
    gone_on: list[bool] = []
    group.on_ready = lambda _group: gone_on.append(bool(wait))
    group.change_role(LEADER, 2, 1)
    group.commit(2, 2, [])
    assert group.apply() and group.is_ready
    assert wait == [None] and gone_on == [False]


def test_too_many_that_wait_for_an_index_are_refused(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "WAITING_READS_MAX", 2)
    for _ in range(2):
        follower.group.reached(9)
    with pytest.raises(Overloaded):
        follower.group.reached(9)
    follower.group.commit(9, 1, [])
    assert follower.group.apply()
    assert outcome_of(follower.group.reached(9)) == [None]
