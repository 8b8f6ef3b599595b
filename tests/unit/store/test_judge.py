"""An entry that is judged ahead: it counts if it is the one that is committed, and leaves no trace
if it is not.
"""

import itertools

import pytest

from fastnode.clock import GroupClock
from fastnode.errors import Unsettled
from fastnode.flow import Suspension
from fastnode.native import Resolver
from fastnode.queue import api
from fastnode.raft.groups import LEADER
from fastnode.store.apply import load_resolver
from fastnode.store.engine import Batch
from fastnode.store.group import Group
from fastnode.store.memory_engine import MemoryEngine
from tests.world import FakeClock, World

CALL = b"\x01" * 16
OTHER = b"\x02" * 16


class Member:
    """A group that is led in term 1."""

    def __init__(self) -> None:
        self.engine = MemoryEngine()
        self.group = Group(0, self.engine, GroupClock(FakeClock()))
        self.group.change_role(LEADER, 1)
        self.group.commit(1, 1, [])
        assert self.group.apply()

    def put(self, request: bytes, key: bytes = b"k") -> Suspension:
        txn = self.group.begin(request)
        txn.put(key, request)
        return self.group.submit(txn)

    def propose(self) -> bytes:
        entry = self.group.take_entry()
        assert entry is not None and self.group.take_entry() is None
        return entry

    def commit(self, index: int, *entries: bytes, term: int = 1) -> None:
        self.group.commit(index, term, entries)
        assert self.group.apply()

    def check_memory(self) -> None:
        """It is what a restart would find."""
        stored = load_resolver(self.engine, self.group._position)
        assert known(self.group._judge.resolver) == known(stored)


def known(resolver: Resolver) -> tuple[object, ...]:
    found = resolver.find(CALL), resolver.find(OTHER)
    counts = resolver.key_count, resolver.request_count
    return found, counts, resolver.last_commit_ts, resolver.floor, resolver.class_floors


def entry_of(request: bytes, key: bytes = b"k") -> bytes:
    """Somebody else's."""
    other = Member()
    other.put(request, key)
    return other.propose()


@pytest.fixture
def member() -> Member:
    return Member()


def test_nobody_is_told_before_it_is_committed(member: Member) -> None:
    outcome = member.put(CALL)
    entry = member.propose()
    member.group.look_ahead()
    assert member.group._judge.resolver.find(CALL) is not None, "it is judged"
    assert member.group.landed(CALL) is None
    assert member.group.attempted(CALL) is not None
    assert not outcome.is_done and member.engine.get(b"k") is None
    assert member.group.applied_index == 1
    member.commit(2, entry)
    assert member.group._judge._last == b"", "nothing of it stays in memory"
    assert outcome.is_done and member.engine.get(b"k") == CALL
    assert member.group.landed(CALL) is not None
    member.check_memory()


def test_it_is_judged_and_filled_once(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[Batch] = []
    usual = member.engine.batch

    def counted() -> Batch:
        batches.append(usual())
        return batches[-1]

    monkeypatch.setattr(member.engine, "batch", counted)
    member.put(CALL)
    entry = member.propose()
    member.group.look_ahead()
    member.group.look_ahead()
    member.commit(2, entry)
    assert len(batches) == 1
    assert member.engine.get(b"k") == CALL


def test_another_entry_is_committed_in_its_place(member: Member) -> None:
    member.put(CALL)
    entry = member.propose()
    member.group.look_ahead()
    member.commit(2, entry_of(OTHER))
    assert member.engine.get(b"k") == OTHER
    assert member.group._judge.resolver.find(CALL) is None
    member.check_memory()
    # It comes after all, and meets what the other has written.
    member.commit(3, entry)
    assert member.engine.get(b"k") == OTHER
    member.check_memory()


def test_others_follow_it_in_the_same_breath(member: Member) -> None:
    outcomes = [member.put(CALL, b"a")]
    entries = [member.propose()]
    member.group.look_ahead()
    outcomes.append(member.put(OTHER, b"b"))
    entries.append(member.propose())
    member.group.look_ahead()
    member.commit(3, *entries)
    assert all(outcome.is_done for outcome in outcomes)
    assert (member.engine.get(b"a"), member.engine.get(b"b")) == (CALL, OTHER)
    member.check_memory()


def test_what_follows_an_entry_under_way_is_not_judged_by_the_state_before_it(
    member: Member,
) -> None:
    first = member.put(CALL, b"a")
    entries = [member.propose()]
    second = member.put(OTHER, b"b")
    entries.append(member.propose())
    member.group.look_ahead()
    assert member.group._judge.resolver.find(OTHER) is None
    member.commit(2, entries[0])
    assert first.is_done and not second.is_done
    member.group.look_ahead()
    member.commit(3, entries[1])
    assert second.is_done
    member.check_memory()


def test_an_index_without_content_leaves_the_guess_and_the_time_alone(member: Member) -> None:
    outcome = member.put(CALL)
    entry = member.propose()
    before = member.group._position.commit_ts
    member.group.look_ahead()
    member.commit(2)
    assert member.group._position.commit_ts == before
    assert member.group.stamp(OTHER)[0] == before, "plans start from what is applied"
    member.commit(3, entry)
    assert outcome.is_done
    member.check_memory()


def test_an_index_without_content_leaves_sums_and_heads_alone() -> None:
    world = World()
    url = world.create("q.fifo", FifoQueue="true")
    world.call("SendMessage", send(url, "A", "g", "1"))
    (queue,) = world.service.live_queues()
    indexes = itertools.count(1 + len(world.logs[0]) + 1)
    for number in range(2, 6):
        pending = world.begin("SendMessage", send(url, "B", f"g{number % 2}", str(number)))
        entry = world.group.take_entry()
        assert entry is not None
        world.group.look_ahead()
        for entries in ([], [entry]):
            world.group.commit(next(indexes), 1, entries)
            assert world.group.apply()
            assert pending.is_done == bool(entries)
            check_kept_rows(world)
        assert world.group.counter(queue.messages.total) == number


def check_kept_rows(world: World) -> None:
    """What is kept at hand is what is stored."""
    rows = world.group.head_rows
    assert rows.known and rows.sums.rows
    for key, row in [*rows.known.items(), *rows.sums.rows.items()]:
        assert world.engine.get(key) == row


def test_a_lost_lead_makes_the_guess_forgotten(member: Member) -> None:
    outcome = member.put(CALL)
    entry = member.propose()
    member.group.look_ahead()
    member.group.change_role("follower", 2)
    assert member.group.landed(CALL) is None, "whoever asks now is told the truth"
    member.check_memory()
    with pytest.raises(Unsettled):
        outcome.__await__().send(None)
    member.commit(2, entry, term=2)
    assert member.group.landed(CALL) is not None
    assert member.engine.get(b"k") == CALL
    member.check_memory()


def test_a_refused_entry_is_not_judged(member: Member) -> None:
    member.put(CALL)
    assert member.group.take_entry() is not None
    member.group.refuse_entry(Unsettled("the log is gone"))
    member.group.look_ahead()
    assert member.group._judge.resolver.find(CALL) is None
    member.put(OTHER)
    entry = member.propose()
    member.group.look_ahead()
    member.commit(2, entry)
    assert member.engine.get(b"k") == OTHER
    member.check_memory()


def test_a_counter_that_is_read_between_is_not_believed_after_its_range_is_dropped() -> None:
    world = World()
    url = world.create("q")
    world.send(url, "A")
    (queue,) = world.service.live_queues()
    total = queue.messages.total
    world.begin("PurgeQueue", api.PurgeQueueRequest(url))
    entry = world.group.take_entry()
    assert entry is not None
    world.group.look_ahead()
    assert world.group.counter(total) == 1
    world.logs[0].append(entry)
    world.group.commit(1 + len(world.logs[0]), 1, [entry])
    assert world.group.apply()
    assert world.group.counter(total) == 0
    world.commit()


def test_heads_that_were_worked_out_ahead_are_forgotten_with_the_guess() -> None:
    world = World()
    url = world.create("q.fifo", FifoQueue="true")
    world.call("SendMessage", send(url, "A", "g", "1"))
    world.begin("ReceiveMessage", api.ReceiveMessageRequest(url))
    assert world.group.take_entry() is not None
    world.group.look_ahead()
    world.group.change_role("follower", 2)
    # What the new leader does has nothing to do with groups.
    world.group.commit(9, 2, [entry_of(OTHER)])
    assert world.group.apply()
    check_kept_rows(world)


def send(url: str, body: str, group: str | None, number: str) -> api.SendMessageRequest:
    if group is None:
        return api.SendMessageRequest(url, body)
    return api.SendMessageRequest(
        url, body, message_group_id=group, message_deduplication_id=number
    )


def live(world: World, url: str, group: str | None = None) -> None:
    """All that a queue may go through in one group of nodes."""
    for number in range(20):
        world.call("SendMessage", send(url, "x", group, str(number)))
        if number % 3 == 0:
            world.receive(url, limit=3, timeout=number)
    for message in world.receive(url, limit=10):
        assert message.receipt_handle is not None
        world.delete(url, message.receipt_handle)
    world.advance(30_000)
    assert world.receive(url, limit=1)
    world.call("PurgeQueue", api.PurgeQueueRequest(url))


def test_a_history_is_the_same_whether_or_not_somebody_looks_ahead() -> None:
    looking, waiting = World(), World()
    vars(waiting.group)["look_ahead"] = lambda: None
    for world in (looking, waiting):
        live(world, world.create("q"))
        live(world, world.create("q.fifo", FifoQueue="true"), "g")
    rows = [world.engine.scan(b"", b"\xff", 10_000) for world in (looking, waiting)]
    assert rows[0] == rows[1]
