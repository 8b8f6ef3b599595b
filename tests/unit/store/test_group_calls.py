"""What a group knows of calls: those that landed, those on their way, and that none lands twice."""

import pytest

from fastnode.clock import GroupClock
from fastnode.errors import DiskFull, NotLed, PlanAgain, Unsettled
from fastnode.flow import Suspension
from fastnode.raft.groups import LEADER
from fastnode.store.group import Group
from fastnode.store.memory_engine import MemoryEngine
from tests.world import FakeClock

CALL = b"a call's request"
OTHER = b"another request."


class Replica:
    """A group that takes the lead when it is told to, and commits on demand."""

    def __init__(self) -> None:
        self.engine = MemoryEngine()
        self.log: list[bytes] = []
        self.term = 0
        self._start()

    def _start(self) -> None:
        self.group = Group(0, self.engine, GroupClock(FakeClock()))
        self.index = self.group.applied_index

    def lead(self) -> None:
        self.term += 1
        self.group.change_role(LEADER, self.term)
        self.apply([])

    def follow(self) -> None:
        self.term += 1
        self.group.change_role("follower", self.term)

    def restart(self) -> None:
        self.engine.flush()
        self._start()

    def apply(self, entries: list[bytes]) -> None:
        self.index += 1
        self.group.commit(self.index, self.term, entries)
        assert self.group.apply()

    def attempt(self, request: bytes = CALL, mask: int = 0, retention: int = 1) -> Suspension:
        txn = self.group.begin(request, retention)
        txn.mask = mask
        return self.group.submit(txn)

    def take(self) -> bytes:
        entry = self.group.take_entry()
        assert entry is not None
        return entry

    def land(self, request: bytes = CALL, mask: int = 0) -> int:
        """Commit timestamp of a call that takes effect."""
        outcome = self.attempt(request, mask)
        self.apply([self.take()])
        assert outcome.is_done
        landed = self.group.landed(request)
        assert landed is not None
        return landed[0]


@pytest.fixture
def replica() -> Replica:
    replica = Replica()
    replica.lead()
    return replica


def error_of(suspension: Suspension) -> BaseException | None:
    """How it failed, if it did."""
    try:
        next(suspension.__await__())
    except StopIteration:
        return None
    except BaseException as error:
        return error
    raise AssertionError("it still waits")


def test_a_call_that_nobody_made_is_unknown(replica: Replica) -> None:
    assert replica.group.landed(CALL) is None
    assert replica.group.attempted(CALL) is None
    assert not replica.group.has_seen(CALL)


def test_a_call_on_its_way_is_seen_and_has_not_landed(replica: Replica) -> None:
    replica.attempt()
    assert replica.group.has_seen(CALL)
    assert replica.group.landed(CALL) is None
    waiting = replica.group.attempted(CALL)
    assert waiting is not None and not waiting.is_done
    replica.apply([replica.take()])
    assert waiting.is_done
    assert replica.group.attempted(CALL) is None
    assert replica.group.has_seen(CALL)


def test_when_and_with_which_entries_it_landed_is_known(replica: Replica) -> None:
    first = replica.land(mask=0b101)
    second = replica.land(OTHER, mask=0b11)
    assert replica.group.landed(CALL) == (first, 0b101)
    assert replica.group.landed(OTHER) == (second, 0b11)
    assert first < second


@pytest.mark.parametrize("has_landed", [True, False], ids=["landed", "on its way"])
def test_a_known_call_is_not_planned(replica: Replica, has_landed: bool) -> None:
    if has_landed:
        replica.land()
    else:
        replica.attempt()
    with pytest.raises(PlanAgain):
        replica.group.begin(CALL)
    replica.group.begin(OTHER)


def test_a_known_call_is_told_so_also_where_nothing_can_be_planned(replica: Replica) -> None:
    """Whoever hears that nobody leads here would ask elsewhere, and never look."""
    replica.land()
    replica.follow()
    with pytest.raises(PlanAgain):
        replica.group.begin(CALL)
    with pytest.raises(NotLed):
        replica.group.begin(OTHER)


def test_an_attempt_that_no_log_has_seen_may_be_made_elsewhere(replica: Replica) -> None:
    outcome = replica.attempt()
    waiting = replica.group.attempted(CALL)
    replica.follow()
    assert isinstance(error_of(outcome), NotLed)
    assert waiting is not None and waiting.is_done
    assert not replica.group.has_seen(CALL)


def test_an_attempt_that_a_log_may_hold_is_unsettled_and_found_if_it_lands(
    replica: Replica,
) -> None:
    outcome = replica.attempt(mask=1)
    entry = replica.take()
    replica.follow()
    assert isinstance(error_of(outcome), Unsettled)
    assert not replica.group.has_seen(CALL)
    replica.apply([entry])
    landed = replica.group.landed(CALL)
    assert landed is not None and landed[1] == 1


def test_an_attempt_that_the_log_refused_can_be_made_again(replica: Replica) -> None:
    outcome = replica.attempt()
    waiting = replica.group.attempted(CALL)
    replica.take()
    replica.group.refuse_entry(DiskFull("full"))
    assert isinstance(error_of(outcome), DiskFull)
    assert waiting is not None and waiting.is_done
    assert replica.group.attempted(CALL) is None
    replica.land()


def test_a_late_first_attempt_writes_nothing_and_leaves_the_answer_as_it_was() -> None:
    """Two leaders have planned the same call; both entries get into the log."""
    old, new = Replica(), Replica()
    for replica in (old, new):
        replica.lead()
    old.attempt(mask=0b01)
    late = old.take()
    landed = new.land(mask=0b10)
    new.apply([late])
    assert new.group.landed(CALL) == (landed, 0b10)


def test_two_calls_with_one_timestamp_are_two_calls() -> None:
    """Leaders that do not know of each other may stamp alike; who comes second plans anew."""
    one, other = Replica(), Replica()
    for replica in (one, other):
        replica.lead()
    one.attempt(CALL)
    outcome = other.attempt(OTHER)
    entries = [one.take(), other.take()]
    one.apply(entries[:1])
    other.apply(entries)
    assert other.group.landed(CALL) == one.group.landed(CALL)
    assert other.group.landed(OTHER) is None
    assert isinstance(error_of(outcome), PlanAgain)
    retried = Replica()
    retried.lead()
    retried.apply(entries[::-1])
    stamps = [one.group.landed(CALL), retried.group.landed(OTHER)]
    assert stamps[0] is not None and stamps[0] == stamps[1], "the same moment"


def test_it_is_known_after_a_restart(replica: Replica) -> None:
    commit_ts = replica.land(mask=0b1001)
    replica.restart()
    assert replica.group.landed(CALL) == (commit_ts, 0b1001)
    assert replica.group.has_seen(CALL)
    assert replica.group.attempted(CALL) is None


def test_a_replica_that_takes_over_a_snapshot_knows_what_its_leader_knew(
    replica: Replica,
) -> None:
    commit_ts = replica.land(mask=0b110)
    late = Replica()
    batch = late.engine.batch()
    for key, value in replica.engine.scan(b"", b"\xff", 1_000):
        batch.put(key, value)
    late.engine.write(batch)
    assert not late.group.has_seen(CALL)
    late.group.replaced()
    assert late.group.landed(CALL) == (commit_ts, 0b110)
