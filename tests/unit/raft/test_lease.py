"""The rules of leases and waiting reads, without a cluster; three nodes are in
`test_lease_cluster.py`.
"""

from collections.abc import Callable

import pytest

from fastnode._raftlog import RaftGroups, SimDisk
from fastnode.errors import OperationError, Overloaded, Unavailable
from fastnode.raft.lease import ROUNDS_IN_FLIGHT_MAX, Lease, ReadQueue, Reads, lease_ns


def leading(duration_ns: int = 1_000, term: int = 2) -> Lease:
    lease = Lease(duration_ns)
    assert lease.change_role("leader", term)
    return lease


class Told:
    """A read that remembers what it was told."""

    def __init__(self) -> None:
        self.answers: list[OperationError | None] = []

    def resume(self) -> None:
        self.answers.append(None)

    def fail(self, error: OperationError) -> None:
        self.answers.append(error)


def test_a_lease_is_a_tick_and_the_drift_shorter_than_the_election_timeout() -> None:
    assert lease_ns(election_ticks=10, tick_seconds=0.1, drift_ppm=0) == 900_000_000
    assert lease_ns(election_ticks=10, tick_seconds=0.1, drift_ppm=1_000) == 899_100_000


def test_a_lease_counts_from_the_begin_of_its_round() -> None:
    lease = leading()
    context = lease.begin_round(100)
    assert not lease.is_valid(100)
    assert lease.confirm(context) == 1
    assert lease.is_valid(1_099) and not lease.is_valid(1_100)


def test_a_late_answer_to_an_old_round_does_not_shorten_the_lease() -> None:
    lease = leading()
    first, second = lease.begin_round(100), lease.begin_round(400)
    assert lease.confirm(second) == 2
    assert lease.confirm(first) is None
    assert lease.is_valid(1_399)


def test_a_round_is_due_at_half_time_and_again_when_it_may_be_lost() -> None:
    lease = leading()
    assert lease.needs_round(100)
    lease.confirm(lease.begin_round(100))
    assert not lease.needs_round(599)
    assert lease.needs_round(600)
    lease.begin_round(600)
    assert not lease.needs_round(849)
    assert lease.needs_round(850)


def test_rounds_that_are_never_answered_are_forgotten() -> None:
    lease = leading()
    contexts = [lease.begin_round(at) for at in range(ROUNDS_IN_FLIGHT_MAX + 1)]
    assert lease.confirm(contexts[0]) is None
    assert lease.confirm(contexts[1]) == 2


@pytest.mark.parametrize(
    "end",
    [
        Lease.drop,
        Lease.begin_transfer,
        lambda lease: lease.change_role("follower", 2),
        lambda lease: lease.change_role("leader", 3),
    ],
    ids=["doubt", "transfer", "step-down", "new term"],
)
def test_a_lease_and_its_rounds_end_with(end: Callable[[Lease], object]) -> None:
    lease = leading()
    lease.confirm(lease.begin_round(100))
    on_its_way = lease.begin_round(200)
    end(lease)
    assert not lease.is_valid(201)
    assert lease.confirm(on_its_way) is None
    assert not lease.is_valid(201)


def test_news_about_the_same_leadership_keep_the_lease() -> None:
    lease = leading()
    lease.confirm(lease.begin_round(100))
    assert not lease.change_role("leader", 2)
    assert lease.is_valid(101)


def test_after_a_transfer_there_is_no_lease_until_the_next_term() -> None:
    lease = leading()
    lease.begin_transfer()
    assert lease.can_begin(100) and not lease.needs_round(100)
    assert lease.confirm(lease.begin_round(100)) == 1, "rounds go on"
    assert not lease.is_valid(101)
    lease.change_role("leader", 3)
    lease.confirm(lease.begin_round(200))
    assert lease.is_valid(201)


def test_a_read_waits_for_a_round_that_began_after_it_and_for_its_index() -> None:
    queue, early, late = ReadQueue(10), Told(), Told()
    queue.add(early)
    queue.ask(1)
    queue.add(late)
    queue.confirm(1, 7)
    assert queue.take(6) == []
    assert queue.take(7) == [early]
    assert queue.wants_round
    queue.ask(2)
    queue.confirm(2, 7)
    assert queue.take(7) == [late]
    assert not queue.wants_round and queue.count == 0


def test_a_later_round_serves_the_reads_of_a_lost_one() -> None:
    queue, read = ReadQueue(10), Told()
    queue.add(read)
    queue.ask(1)
    queue.ask(2)
    queue.confirm(2, 5)
    assert queue.take(5) == [read]


def test_reads_beyond_the_bound_are_refused() -> None:
    reads = Reads(1_000, 2)
    reads.change_role("leader", 2)
    reads.wait(Told())
    reads.take_round(0)
    reads.wait(Told())
    with pytest.raises(Overloaded):
        reads.wait(Told())
    reads.confirm((1).to_bytes(8, "big"), 1)
    reads.release(1)
    reads.wait(Told())


def test_a_step_down_fails_reads_wherever_they_wait() -> None:
    reads, told = Reads(1_000, 10), [Told(), Told(), Told()]
    reads.change_role("leader", 2)
    reads.wait(told[0])
    context = reads.take_round(0)
    assert context is not None
    reads.confirm(context, 9)
    reads.wait(told[1])
    assert reads.take_round(1) is not None
    reads.wait(told[2])
    reads.change_role("follower", 3)
    assert all(isinstance(read.answers[0], Unavailable) for read in told)
    reads.release(9)
    assert [len(read.answers) for read in told] == [1, 1, 1]
    with pytest.raises(Unavailable):
        reads.wait(Told())


def test_a_lease_admits_no_read_before_the_state_is_where_the_leader_began() -> None:
    reads = Reads(1_000, 10)
    reads.change_role("leader", 2)
    assert not reads.admit(0, 9)
    context = reads.take_round(0)
    assert context is not None
    reads.confirm(context, 9)
    assert reads.lease.is_valid(1)
    assert not reads.admit(1, 8)
    assert reads.admit(1, 9)


def test_an_idle_group_sends_no_rounds() -> None:
    reads = Reads(1_000, 10)
    reads.change_role("leader", 2)
    assert reads.take_round(0) is None
    reads.admit(0, 0)
    assert reads.take_round(0) is not None
    assert reads.take_round(5_000) is None


def test_a_single_voter_confirms_at_once() -> None:
    raft = RaftGroups(1, "", 1, voters=[1], applied=[0], manual=True, disk=SimDisk(1))
    reads, read = Reads(1_000, 10), Told()
    roles = raft.ready()[3]
    for _group, role, term, _leader in roles:
        reads.change_role(role, term)
    assert raft.persist_step()
    committed = raft.ready()[1]
    raft.applied([(0, committed[-1][1])])
    reads.wait(read)
    context = reads.take_round(1)
    assert context is not None
    raft.read_index(0, context)
    ((group, answered, index),) = raft.ready()[2]
    assert (group, answered) == (0, context)
    reads.confirm(answered, index)
    reads.release(committed[-1][1])
    assert read.answers == [None] and reads.admit(2, index)
