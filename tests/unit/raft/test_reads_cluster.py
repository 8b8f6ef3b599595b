"""Reads through driver and group on three nodes: none is stale, none sees what is not applied, and
a round is shared. The rules of leases alone are in `test_lease_cluster.py`.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from fastnode.errors import Unavailable
from tests.unit.raft.driven_cluster import DrivenNode, driven, driven_cluster
from tests.unit.raft.raft_cluster import NODES, TICK_NS, Cluster
from tests.unit.raft.test_lease_cluster import ACTIONS, OFFSETS, Schedule

# Real clocks, which is what the lease of a group allows for.
RATES = st.sampled_from([-400, 0, 400])


def led(cluster: Cluster) -> DrivenNode:
    return driven(cluster.elect())


def others_of(cluster: Cluster, leader: DrivenNode) -> list[DrivenNode]:
    return [driven(node) for node in cluster.nodes.values() if node is not leader]


def test_reads_of_one_turn_share_one_round() -> None:
    cluster = driven_cluster()
    leader = led(cluster)
    cluster.run(20 * TICK_NS)
    assert not leader.has_lease, "an idle group renews nothing"
    before = leader.consensus.round_count
    reads = [leader.begin_read() for _ in range(50)]
    assert not any(read.is_served for read in reads)
    leader.turn()
    cluster.run(TICK_NS // 20)
    assert all(read.is_served for read in reads)
    assert leader.consensus.round_count == before + 1
    assert not leader.driver.reading


def test_reads_that_come_during_a_round_get_a_round_of_their_own_at_once() -> None:
    cluster = driven_cluster()
    leader = led(cluster)
    cluster.run(20 * TICK_NS)
    first = leader.read()
    before = leader.consensus.round_count
    late = [leader.read() for _ in range(10)]
    assert leader.consensus.round_count == before, "one round at a time"
    cluster.run(TICK_NS // 20)
    assert first.is_served and all(read.is_served for read in late)
    assert leader.consensus.round_count == before + 1


def test_a_lease_in_use_serves_reads_without_waiting_and_few_rounds() -> None:
    cluster = driven_cluster()
    leader = led(cluster)
    before = leader.consensus.round_count
    for _ in range(500):
        cluster.run(TICK_NS // 10)
        assert leader.begin_read().is_served, "the lease is renewed before it ends"
    assert leader.consensus.round_count - before <= 500 // 40


def test_a_leader_that_lost_its_quorum_serves_no_read() -> None:
    cluster = driven_cluster()
    leader = led(cluster)
    leader.write(1)
    cluster.run(TICK_NS)
    cluster.cut(leader.number)
    served: list[bool] = []

    def is_replaced() -> bool:
        served.append(leader.read().is_served)
        return any(node.leads for node in others_of(cluster, leader))

    cluster.run_until(is_replaced)
    assert any(served), "the lease outlives the cut"
    assert not served[-1]
    (successor,) = [node for node in others_of(cluster, leader) if node.leads]
    cluster.run(2 * TICK_NS)
    successor.write(2)
    cluster.run_until(lambda: 2 in cluster.acknowledged)
    assert not leader.read().is_served
    cluster.heal()
    assert led(cluster).read().is_served


def test_reads_that_wait_fail_when_their_leader_steps_down() -> None:
    cluster = driven_cluster()
    leader = led(cluster)
    cluster.run(20 * TICK_NS)
    cluster.cut(leader.number)
    read = leader.read()
    assert read.error is None and not read.is_served
    cluster.run_until(lambda: not leader.leads)
    assert isinstance(read.error, Unavailable)
    assert isinstance(leader.read().error, Unavailable)


def test_a_read_waits_for_what_is_committed_and_not_yet_applied() -> None:
    cluster = driven_cluster()
    leader = led(cluster)
    cluster.run(20 * TICK_NS)
    leader.engine.stalled = True
    leader.write(1)
    cluster.run(TICK_NS)
    read = leader.read()
    cluster.run(TICK_NS)
    assert not read.is_served and not leader.has(1)
    leader.engine.stalled = False
    leader.driver.apply(list(leader.driver.stalled))
    assert read.is_served and leader.has(1)


def test_a_new_leader_serves_no_read_before_it_applied_what_its_predecessor_promised() -> None:
    cluster = driven_cluster()
    leader = led(cluster)
    heir, third = others_of(cluster, leader)
    heir.engine.stalled = True
    leader.write(1)
    cluster.run_until(lambda: 1 in cluster.acknowledged)
    cluster.run(TICK_NS)
    leader.transfer(heir.number)
    cluster.run_until(lambda: heir.leads)
    cluster.run(5 * TICK_NS)
    read = heir.read()
    cluster.run(5 * TICK_NS)
    assert not read.is_served and not heir.group.is_readable and read.error is None
    heir.engine.stalled = False
    heir.driver.apply(list(heir.driver.stalled))
    cluster.run(heir.tick_ns)
    assert read.is_served and heir.has(1) and third.has(1)


def test_a_transfer_ends_the_lease_before_it_is_asked_for() -> None:
    cluster = driven_cluster()
    leader = led(cluster)
    assert leader.group.is_readable
    to = cluster.nodes[leader.number % len(NODES) + 1]
    leader.transfer(to.number)
    assert not leader.group.is_readable
    cluster.run_until(lambda: to.leads)
    assert led(cluster) is to


@settings(max_examples=15, deadline=None)
@given(
    st.lists(ACTIONS, min_size=5, max_size=15),
    st.tuples(RATES, RATES, RATES),
    st.tuples(OFFSETS, OFFSETS, OFFSETS),
)
def test_no_schedule_gives_a_stale_read(
    actions: list[tuple[str, int, int, int, int]],
    rates: tuple[int, int, int],
    offsets: tuple[int, int, int],
) -> None:
    cluster = driven_cluster(rates_ppm=rates, offsets_ns=offsets)
    schedule = Schedule(cluster)
    schedule.run(100)
    for action in actions:
        schedule.act(*action)
    cluster.heal()
    cluster.elect()
    acknowledged = len(cluster.acknowledged)
    schedule.run(50)
    assert len(cluster.acknowledged) > acknowledged
