"""A leader answers reads only while nobody else can have been elected: three nodes of the real
consensus, cut off, restarted and delayed at chosen and at random moments.

That these tests can fail is shown by the wrong leases in the middle: each is a mistake that is
easily made, and each is caught.
"""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastnode.raft.lease import Reads, lease_ns
from tests.unit.raft.raft_cluster import (
    DRIFT_PPM,
    ELECTION_TICKS,
    LEASE_NS,
    NODES,
    READS_MAX,
    TICK_NS,
    TIMEOUT_NOW,
    Cluster,
    Node,
    Read,
    make_reads,
)

MS = 1_000_000


def test_a_read_before_the_first_commit_of_the_term_is_asked_again() -> None:
    """The consensus drops the question silently; the round after it is answered."""
    cluster = Cluster()

    def leads() -> list[Node]:
        return [node for node in cluster.nodes.values() if node.leads]

    cluster.run_until(lambda: bool(leads()))
    (leader,) = leads()
    assert leader.raft.status()["groups"][0]["commit"] == 0
    read = leader.read()
    assert leader.round_count == 1
    cluster.run_until(lambda: leader.applied_index > 0, ticks_max=1)
    assert not read.is_served
    cluster.run_until(lambda: read.is_served, ticks_max=3)
    assert leader.round_count == 2


def test_reads_of_a_turn_share_a_round() -> None:
    cluster = Cluster()
    leader = cluster.elect()
    cluster.run(10 * TICK_NS)
    assert not leader.has_lease
    begun_count = leader.round_count
    reads = [Read(leader) for _ in range(50)]
    for read in reads:
        leader.reads.wait(read)
    leader.turn()
    cluster.run(TICK_NS // 20)
    assert all(read.is_served for read in reads)
    assert leader.round_count == begun_count + 1


def test_a_lease_in_use_is_renewed_without_a_gap() -> None:
    cluster = Cluster()
    leader = cluster.elect()
    for _ in range(200):
        cluster.run(TICK_NS // 10)
        assert leader.has_lease and leader.read().is_served


def test_a_leader_cut_off_stops_serving_before_another_can_commit() -> None:
    cluster = Cluster()
    leader = cluster.elect()
    leader.write(1)
    cluster.run(TICK_NS)
    cluster.cut(leader.number)
    others = [node for node in cluster.nodes.values() if node is not leader]
    served: list[int] = []

    def is_replaced() -> bool:
        served.append(leader.read().is_served)
        return any(node.leads for node in others)

    cluster.run_until(is_replaced)
    assert any(served), "the lease outlives the cut"
    assert not served[-1]
    (successor,) = [node for node in others if node.leads]
    cluster.run(TICK_NS)
    successor.write(2)
    cluster.run_until(lambda: 2 in cluster.acknowledged)
    assert not leader.read().is_served
    cluster.heal()
    assert cluster.elect().read().is_served


def test_a_transfer_moves_the_lease() -> None:
    cluster = Cluster()
    leader = cluster.elect()
    to = cluster.nodes[leader.number % len(NODES) + 1]
    leader.transfer(to.number)
    assert not leader.has_lease
    cluster.run_until(lambda: to.leads)
    assert cluster.elect() is to


def late_transfer(cluster: Cluster) -> None:
    """The order to campaign arrives after the transfer was given up and the lease renewed."""
    leader = cluster.elect()
    to = leader.number % len(NODES) + 1
    cluster.held_kind = TIMEOUT_NOW
    leader.transfer(to)
    cluster.held_kind = -1
    for _ in range(20):
        cluster.run(TICK_NS // 2)
        read = leader.read()
        cluster.run(TICK_NS // 20)
        assert read.is_served
    # The leader learns of the election last.
    cluster.cut_link(to, leader.number)
    cluster.release_held()
    cluster.run_until(lambda: cluster.nodes[to].leads, ticks_max=1)


def test_a_transfer_that_comes_late_finds_no_lease() -> None:
    late_transfer(Cluster())


def restarted_voter(cluster: Cluster) -> None:
    """A voter that promised restarts at once and is asked for its vote by the third node."""
    leader = cluster.elect()
    voter, candidate = (node for node in cluster.nodes.values() if node is not leader)
    cluster.cut_link(leader.number, candidate.number)
    for _ in range(20 * ELECTION_TICKS):
        cluster.run(TICK_NS // 10)
        leader.read()
        voter.restart()
        cluster.check()


def test_a_voter_that_restarts_keeps_its_promise() -> None:
    restarted_voter(Cluster())


# --- wrong leases ---------------------------------------------------------------------------------

FULL_NS = ELECTION_TICKS * TICK_NS


def count_from_answer(cluster: Cluster) -> None:
    """Break the leases of the cluster: valid from the answer on."""
    for node in cluster.nodes.values():
        node.reads = AnswerReads(node)


class AnswerReads(Reads):
    def __init__(self, node: Node) -> None:
        super().__init__(LEASE_NS, READS_MAX)
        self._node = node

    def confirm(self, context: bytes, index: int) -> None:
        super().confirm(context, index)
        self.lease.confirm(self.lease.begin_round(self._node.clock_ns))


def cut_off(cluster: Cluster, offset: int, *, answer_ms: int = 1) -> None:
    """One follower does not hear the leader and asks for votes again and again; then the leader is
    cut off from the other, at any moment.
    """
    leader = cluster.elect()
    voter, candidate = (node for node in cluster.nodes.values() if node is not leader)
    cluster.cut_link(leader.number, candidate.number)
    cluster.cut_link(candidate.number, leader.number)
    cluster.delays_ns[voter.number, leader.number] = answer_ms * MS
    for _ in range(200 + offset):
        cluster.run(TICK_NS // 20)
        leader.read()
    cluster.cut_link(leader.number, voter.number)
    for _ in range(40 * ELECTION_TICKS):
        cluster.run(TICK_NS // 20)
        leader.read()


def scan(
    make: Callable[[], Reads] = make_reads,
    *,
    voter_offset_ns: int = 33 * MS,
    answer_ms: int = 1,
    spoil: Callable[[Cluster], None] = lambda _cluster: None,
) -> None:
    for offset in range(0, 180, 4):
        cluster = Cluster(offsets_ns=(0, voter_offset_ns, voter_offset_ns), make_reads=make)
        spoil(cluster)
        cut_off(cluster, offset, answer_ms=answer_ms)


@pytest.mark.parametrize("voter_offset_ns", [1_500_000, 33 * MS, 98 * MS])
@pytest.mark.parametrize("answer_ms", [1, 250])
def test_a_cut_at_any_moment_leaves_no_lease_to_the_old_leader(
    voter_offset_ns: int, answer_ms: int
) -> None:
    scan(voter_offset_ns=voter_offset_ns, answer_ms=answer_ms)


@pytest.mark.parametrize("duration_ns", [2 * FULL_NS, FULL_NS * 3 // 2, FULL_NS])
def test_a_lease_that_is_too_long_is_caught(duration_ns: int) -> None:
    """Even the plain election timeout is a tick too long."""
    with pytest.raises(AssertionError, match="holds a lease"):
        scan(lambda: Reads(duration_ns, READS_MAX), voter_offset_ns=1_500_000)


def test_a_lease_that_allows_for_no_drift_is_caught() -> None:
    """A slow leader and fast voters, at a moment when nothing else is to spare."""
    slow_leader = (-DRIFT_PPM // 2, DRIFT_PPM // 2, DRIFT_PPM // 2)
    offsets_ns = (0, 46 * MS, 65 * MS)
    cut_off(Cluster(rates_ppm=slow_leader, offsets_ns=offsets_ns), 172)
    driftless_ns = lease_ns(election_ticks=ELECTION_TICKS, tick_seconds=0.1, drift_ppm=0)
    cluster = Cluster(
        rates_ppm=slow_leader,
        offsets_ns=offsets_ns,
        make_reads=lambda: Reads(driftless_ns, READS_MAX),
    )
    with pytest.raises(AssertionError, match="holds a lease"):
        cut_off(cluster, 172)


def test_a_lease_that_counts_from_the_answer_is_caught() -> None:
    with pytest.raises(AssertionError, match="holds a lease"):
        scan(answer_ms=250, spoil=count_from_answer)


def test_a_lease_after_a_transfer_in_the_same_term_is_caught() -> None:
    class Forgetful(Reads):
        def begin_transfer(self) -> None:
            self.lease.drop()

    with pytest.raises(AssertionError, match="holds a lease"):
        late_transfer(Cluster(make_reads=lambda: Forgetful(LEASE_NS, READS_MAX)))


def test_a_leader_that_trusts_its_role_is_caught() -> None:
    class Trusting(Reads):
        def admit(self, _now_ns: int, _applied_index: int) -> bool:
            return self.lease.leads

    with pytest.raises(AssertionError, match="missed"):
        for offset in range(0, 100, 5):
            cluster = Cluster(make_reads=lambda: Trusting(LEASE_NS, READS_MAX))
            schedule = Schedule(cluster)
            cluster.elect()
            schedule.run(offset)
            schedule.act("cut", 20 * ELECTION_TICKS, 0, 0, 0)


# --- random schedules -----------------------------------------------------------------------------

# An action, how long to run after it in tenths of a tick, two nodes counted from the leader on, and
# a delay.
ACTIONS = st.tuples(
    st.sampled_from("cut cut cut_link cut_link delay delay_all heal heal restart transfer".split()),
    st.sampled_from([0, 1, 3, 8, 25, 45, 60, 80, 100]),
    st.sampled_from([0, 0, 1, 2]),
    st.sampled_from([1, 2, 0]),
    st.sampled_from([0, 1, 5, 20, 60, 150, 300, 450, 600]),
)
RATES = st.sampled_from([-DRIFT_PPM // 2 + 1, 0, DRIFT_PPM // 2 - 101])
OFFSETS = st.integers(0, 99).map(lambda ms: ms * MS)


class Schedule:
    """Carries out drawn actions; all nodes are read from all the time."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._written = 0

    def act(self, name: str, tenths: int, first: int, second: int, delay_ms: int) -> None:
        nodes, cluster = self.cluster.nodes, self.cluster
        leader = max(nodes.values(), key=lambda node: (node.leads, node.term))
        one, two = ((leader.number + offset - 1) % len(NODES) + 1 for offset in (first, second))
        if name == "cut":
            cluster.cut(one)
        elif name == "cut_link":
            cluster.cut_link(one, two)
        elif name == "delay" and (one, two) in cluster.delays_ns:
            cluster.delays_ns[one, two] = delay_ms * MS
        elif name in ("heal", "delay_all"):
            cluster.heal(MS if name == "heal" else delay_ms * MS // 4)
        elif name == "restart":
            nodes[one].restart()
        elif name == "transfer" and one != two:
            nodes[one].transfer(two)
        cluster.check()
        # Long enough for an election, so that the next fault finds a leader to hurt.
        self.run(100 if name == "heal" else tenths)

    def write(self, node: Node) -> None:
        self._written += 1
        node.write(self._written)

    def run(self, tenths: int) -> None:
        for step in range(tenths):
            self.cluster.run(TICK_NS // 10)
            for node in self.cluster.nodes.values():
                node.read()
                if node.leads and step % 4 == 0:
                    self.write(node)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(ACTIONS, min_size=5, max_size=25),
    st.tuples(RATES, RATES, RATES),
    st.tuples(OFFSETS, OFFSETS, OFFSETS),
)
def test_no_schedule_gives_two_leases_or_a_stale_read(
    actions: list[tuple[str, int, int, int, int]],
    rates: tuple[int, int, int],
    offsets: tuple[int, int, int],
) -> None:
    cluster = Cluster(rates_ppm=rates, offsets_ns=offsets)
    schedule = Schedule(cluster)
    schedule.run(100)
    for action in actions:
        schedule.act(*action)
    cluster.heal()
    cluster.elect()
    acknowledged = len(cluster.acknowledged)
    cluster.run(5 * TICK_NS)
    schedule.run(50)
    assert len(cluster.acknowledged) > acknowledged
