"""One group: gathering, applying, stalling, refusing; latches; the leader's barrier."""

import pytest

from fastnode import config
from fastnode.clock import GroupClock
from fastnode.errors import DiskFull, Overloaded, Unavailable
from fastnode.flow import Suspension, start
from fastnode.raft.groups import LEADER
from fastnode.store.group import Group
from fastnode.store.latches import WAIT_TICKS_MAX
from fastnode.store.memory_engine import MemoryEngine
from tests.world import CountingIds, FakeClock


class Member:
    """A group with its engine, led in term 1, and a log that commits on demand."""

    def __init__(self) -> None:
        self.engine = MemoryEngine()
        self.woken: list[int] = []
        self.group = Group(0, self.engine, GroupClock(FakeClock()))
        self.group.on_gathered = self.woken.append
        self.ids = CountingIds()
        self.index = 1
        self.group.change_role(LEADER, 1)
        self.group.commit(1, 1, [])
        assert self.group.apply()

    def put(self, key: bytes, value: bytes) -> Suspension:
        txn = self.group.begin(self.ids.take(16))
        txn.put(key, value)
        return self.group.submit(txn)

    def commit(self) -> bool:
        while (entry := self.group.take_entry()) is not None:
            self.index += 1
            self.group.commit(self.index, 1, [entry])
        return self.group.apply()


@pytest.fixture
def member() -> Member:
    return Member()


def test_all_that_is_gathered_goes_into_one_entry(member: Member) -> None:
    outcomes = [member.put(b"k%d" % n, b"v") for n in range(64)]
    assert member.woken == [0]
    assert member.group.gathered_count == 64
    entry = member.group.take_entry()
    assert entry is not None and member.group.take_entry() is None
    assert not any(outcome.is_done for outcome in outcomes)
    member.group.commit(2, 1, [entry])
    assert member.group.apply()
    assert all(outcome.is_done for outcome in outcomes)
    assert member.group.applied_index == 2
    assert member.engine.get(b"k63") == b"v"


def test_entries_stay_within_their_bound(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "ENTRY_BYTES_MAX", 1000)
    for n in range(5):
        member.put(b"k%d" % n, b"v" * 400)
    sizes = []
    while (entry := member.group.take_entry()) is not None:
        sizes.append(len(entry))
    assert len(sizes) == 3 and max(sizes) < 1100


def test_an_unapplied_write_latches_its_key_until_it_is_applied(member: Member) -> None:
    member.put(b"k", b"1")
    latches = member.group.latches
    blocked = latches.wait_for([b"other", b"k"])
    assert blocked is not None and not blocked.is_done
    assert latches.wait_for([b"other"]) is None
    member.commit()
    assert blocked.is_done
    assert len(latches) == 0


def test_who_waits_for_a_latch_goes_on_after_the_state_has_changed(member: Member) -> None:
    seen: list[bytes | None] = []

    async def reader() -> None:
        while (blocked := member.group.latches.wait_for([b"k"])) is not None:
            await blocked
        seen.append(member.group.get(b"k"))

    member.put(b"k", b"1")
    start(reader(), lambda _result, _error: None)
    assert seen == []
    member.commit()
    assert seen == [b"1"]


def test_a_stalled_engine_keeps_entries_and_applies_them_once(member: Member) -> None:
    outcome = member.put(b"k", b"1")
    txn = member.group.begin(member.ids.take(16))
    txn.add(b"count", 5)
    counting = member.group.submit(txn)
    member.engine.stalled = True
    assert not member.commit()
    assert not outcome.is_done and member.group.applied_index == 1
    member.engine.stalled = False
    assert member.group.apply()
    assert outcome.is_done and counting.is_done
    assert member.group.counter(b"count") == 5
    assert member.group.applied_index == 2


def test_a_group_keeps_nothing_of_what_was_proposed(member: Member) -> None:
    member.put(b"k", b"v" * 1000)
    assert member.group.take_entry() is not None
    assert member.group.take_entry() is None
    assert member.group._taken == []


def test_a_refused_entry_frees_its_latches_and_tells_everybody(member: Member) -> None:
    errors: list[BaseException | None] = []

    async def writer() -> None:
        await member.put(b"k", b"1")

    start(writer(), lambda _result, error: errors.append(error))
    member.group.take_entry()
    member.group.refuse_entry(DiskFull("full"))
    assert isinstance(errors[0], DiskFull)
    assert len(member.group.latches) == 0
    member.put(b"k", b"2")
    assert member.commit()
    assert member.engine.get(b"k") == b"2"


def test_too_much_unapplied_work_is_refused_before_it_costs_anything(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "UNAPPLIED_TRANSACTIONS_MAX", 3)
    for n in range(3):
        member.put(b"k%d" % n, b"v")
    with pytest.raises(Overloaded):
        member.group.begin(member.ids.take(16))
    member.commit()
    member.put(b"k", b"v")


def test_a_leader_plans_nothing_before_an_entry_of_its_term_is_applied(member: Member) -> None:
    member.group.change_role(LEADER, 2)
    with pytest.raises(Unavailable):
        member.group.begin(member.ids.take(16))
    member.group.commit(2, 2, [])
    member.group.apply()
    assert member.group.begin(member.ids.take(16)).commit_ts > 0


def test_losing_the_lead_fails_what_is_unapplied_and_frees_all_latches(member: Member) -> None:
    outcome = member.put(b"k", b"1")
    errors: list[BaseException | None] = []

    async def wait() -> None:
        await outcome

    start(wait(), lambda _result, error: errors.append(error))
    member.group.change_role("follower", 2)
    assert isinstance(errors[0], Unavailable)
    assert len(member.group.latches) == 0
    assert member.group.take_entry() is None


def test_an_entry_of_another_leader_is_applied_without_anybody_waiting(member: Member) -> None:
    other = Member()
    other.put(b"k", b"theirs")
    entry = other.group.take_entry()
    assert entry is not None
    member.group.commit(2, 1, [entry])
    assert member.group.apply()
    assert member.engine.get(b"k") == b"theirs"


def test_time_goes_on_from_the_applied_state_after_a_restart(member: Member) -> None:
    member.put(b"k", b"1")
    member.commit()
    past = FakeClock()
    past.ns -= 3_600_000_000_000
    again = Group(0, member.engine, GroupClock(past))
    again.change_role(LEADER, 2)
    again.commit(member.index + 1, 2, [])
    again.apply()
    txn = again.begin(member.ids.take(16))
    assert txn.commit_ts > txn.start_ts > 0


def test_too_many_waiters_for_latches_are_refused(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "LATCH_WAITERS_MAX", 2)
    member.put(b"k", b"1")
    for _ in range(2):
        assert member.group.latches.wait_for([b"k"]) is not None
    with pytest.raises(Overloaded):
        member.group.latches.wait_for([b"k"])
    member.commit()
    member.put(b"k", b"2")
    assert member.group.latches.wait_for([b"k"]) is not None


def test_who_waits_too_long_for_a_latch_is_refused_in_order_of_arrival(member: Member) -> None:
    told: list[tuple[int, BaseException | None]] = []

    def wait(number: int) -> None:
        async def plan() -> None:
            while (blocked := member.group.latches.wait_for([b"k"])) is not None:
                await blocked

        start(plan(), lambda _result, error: told.append((number, error)))

    member.put(b"k", b"1")
    wait(0)
    wait(1)
    for _ in range(WAIT_TICKS_MAX):
        member.group.tick()
    assert told == []
    wait(2)
    member.group.tick()
    assert [number for number, _ in told] == [0, 1]
    assert all(isinstance(error, Overloaded) for _, error in told)
    member.commit()
    assert told[2:] == [(2, None)], "who has waited for less goes on waiting"
    assert len(member.group.latches) == 0


def test_a_refused_wait_makes_room_for_another(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "LATCH_WAITERS_MAX", 1)
    member.put(b"k", b"1")
    assert member.group.latches.wait_for([b"k"]) is not None
    for _ in range(WAIT_TICKS_MAX + 1):
        member.group.tick()
    later = member.group.latches.wait_for([b"k"])
    assert later is not None
    member.commit()
    assert later.is_done


def test_a_sole_voter_is_readable_from_its_barrier_until_it_stops_leading(member: Member) -> None:
    assert member.group.is_readable
    member.group.change_role("follower", 2)
    assert not member.group.is_readable
    with pytest.raises(Unavailable):
        member.group.readable()
    member.group.change_role(LEADER, 3)
    assert not member.group.is_readable
    member.group.commit(2, 3, [])
    member.group.apply()
    assert member.group.is_readable


def test_nothing_is_planned_while_the_disk_is_too_full_to_apply(member: Member) -> None:
    outcome = member.put(b"k", b"1")
    member.engine.is_full = True
    assert not member.commit()
    with pytest.raises(DiskFull):
        member.put(b"other", b"1")
    member.engine.is_full = False
    assert member.group.apply()
    assert outcome.is_done
    member.put(b"other", b"1")
    assert member.commit()
