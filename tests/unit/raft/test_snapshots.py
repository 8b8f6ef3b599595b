"""State moves to a node that entries cannot help any more, seen from Python."""

from itertools import pairwise

import pytest

from fastnode._raftlog import LogCorrupt, RaftGroups
from tests.unit.raft.member_cluster import Cluster, Node

ENTRIES = [b"entry %d" % number for number in range(10)]


def compacted_cluster(*joining: int) -> Cluster:
    """The leader's log does not hold its first entries any more."""
    cluster = Cluster(*joining)
    cluster.write(*ENTRIES)
    cluster.leader.compact()
    return cluster


def held_installation() -> tuple[Cluster, Node]:
    """Node 2 accepted a snapshot and has not begun to install it."""
    cluster = compacted_cluster(2)
    joining = cluster.nodes[2]
    joining.is_installing_held = True
    cluster.change("add-learner", 2)
    assert len(joining.installs) == 1
    return cluster, joining


def test_a_learner_catches_up_by_a_snapshot_and_is_promoted() -> None:
    cluster = compacted_cluster(2)
    cluster.change("add-learner", 2)
    assert cluster.nodes[2].restored is not None
    assert cluster.nodes[2].state == ENTRIES
    cluster.change("add-voter", 2)
    cluster.write(b"more")
    assert cluster.nodes[2].state == [*ENTRIES, b"more"]
    assert cluster.nodes[2].members == ([1, 2], [])


def test_a_snapshot_carries_the_members_and_the_name() -> None:
    cluster, joining = held_installation()
    ((group, index, term, voters, learners, name),) = joining.installs
    leader = cluster.leader
    assert (group, index, voters, learners) == (0, leader.applied_index, [1], [2])
    assert name == b"1 at %d" % index
    assert term == leader.raft.status()["groups"][0]["term"]
    status = leader.raft.status()["groups"][0]
    assert status["snapshot"] == index


def test_a_leader_asks_for_a_snapshot_once_a_second() -> None:
    cluster = compacted_cluster(2)
    leader = cluster.leader
    asked: list[int] = []
    leader.raft.propose_members(0, "add-learner", 2)
    for tick in range(40):
        for node in cluster.up():
            node.raft.tick()
        for _ in range(4):
            sends, committed, _, _, _, _, wanted, _, _ = leader.raft.ready()
            cluster.packets += [(1, to, packet) for to, packet in sends]
            leader.raft.applied([(0, index) for _, index, _, _ in committed][-1:])
            assert wanted in ([], [(0, 2)])
            asked += [tick] * len(wanted)
            leader.raft.persist_step()
            cluster.nodes[2].turn()
            cluster.deliver()
    assert 3 <= len(asked) <= 4
    assert all(later - earlier >= 10 for earlier, later in pairwise(asked))


def test_nothing_is_acknowledged_before_the_snapshot_is_installed() -> None:
    cluster, joining = held_installation()
    cluster.write(b"later")
    cluster.run(20)
    assert joining.state == []
    peer = cluster.leader.raft.status()["groups"][0]["peers"][2]
    assert peer["match"] == 0
    assert joining.raft.status()["groups"][0]["installing"]
    joining.is_installing_held = False
    cluster.run(10)
    assert joining.state == [*ENTRIES, b"later"]
    assert not joining.raft.status()["groups"][0]["installing"]


def test_a_crash_before_the_state_was_replaced_begins_again() -> None:
    cluster, joining = held_installation()
    joining.restart()
    cluster.run(20)
    assert joining.state == ENTRIES


@pytest.mark.parametrize("is_log_told", [False, True])
def test_a_crash_after_the_state_was_replaced_goes_on(is_log_told: bool) -> None:
    cluster, joining = held_installation()
    index = joining.replace_state()
    if is_log_told:
        joining.raft.installed(0, index)
        joining.raft.ready()
    joining.restart()
    assert joining.raft.status()["groups"][0]["applied"] == index
    assert joining.raft.status()["groups"][0]["learners"] == [2]
    cluster.write(b"more")
    cluster.run(20)
    assert joining.state == [*ENTRIES, b"more"]
    joining.restart()
    cluster.write(b"again")
    cluster.run(20)
    assert joining.state == [*ENTRIES, b"more", b"again"]


def test_a_state_ahead_of_its_log_needs_an_explanation() -> None:
    _, joining = held_installation()
    index = joining.replace_state()
    joining.disk.crash()
    with pytest.raises(LogCorrupt, match="do not belong together"):
        RaftGroups(2, "", 1, voters=[], applied=[index], manual=True, disk=joining.disk)


def test_a_wiped_node_does_not_vote_and_comes_back_as_a_learner() -> None:
    cluster = Cluster(2, 3)
    cluster.add(2, 3)
    cluster.write(*ENTRIES)
    cluster.leader.compact()
    cluster.nodes[3] = Node(cluster, 3, [])
    cluster.nodes[1].is_up = False
    cluster.run(60)
    assert [node for node in cluster.up() if node.leads] == []
    cluster.nodes[1].is_up = True
    cluster.run(40)
    cluster.change("remove", 3)
    cluster.change("add-learner", 3, ticks=30)
    cluster.change("add-voter", 3)
    assert cluster.nodes[3].state == ENTRIES
    assert cluster.nodes[3].members == ([1, 2, 3], [])


def test_repeated_and_reordered_packets_change_nothing() -> None:
    cluster = compacted_cluster(2)
    old: list[tuple[int, int, bytes]] = []
    cluster.leader.raft.propose_members(0, "add-learner", 2)
    for _ in range(20):
        for node in cluster.up():
            node.raft.tick()
            node.turn()
        old += cluster.packets + cluster.offers
        cluster.packets.reverse()
        cluster.deliver()
        for _, to, packet in old:
            cluster.nodes[to].raft.step(packet)
    cluster.run(20)
    cluster.write(b"more")
    assert cluster.nodes[2].state == [*ENTRIES, b"more"]


def test_a_snapshot_that_failed_is_offered_again() -> None:
    cluster = compacted_cluster(2)
    leader = cluster.leader
    leader.raft.propose_members(0, "add-learner", 2)
    while not cluster.offers:
        for node in cluster.up():
            node.raft.tick()
            node.turn()
        packets, cluster.packets = cluster.packets, []
        for _, to, packet in packets:
            cluster.nodes[to].raft.step(packet)
    cluster.offers.clear()
    cluster.run(20)
    assert leader.raft.status()["groups"][0]["peers"][2]["state"] == "snapshot"
    assert cluster.nodes[2].state == []
    leader.raft.report_snapshot(0, 2, False)
    cluster.run(10)
    assert cluster.nodes[2].state == ENTRIES


def test_entries_do_not_hold_up_heartbeats() -> None:
    cluster = Cluster(2)
    cluster.add(2)
    leader = cluster.leader
    leader.raft.propose(0, b"x" * 100_000)
    leader.raft.tick()
    sends = leader.raft.ready()[0]
    assert [to for to, _ in sends] == [2, 2]
    assert len(sends[0][1]) < 200 < len(sends[1][1])


def test_a_peer_that_lags_gets_packets_of_bounded_size() -> None:
    cluster = Cluster(2)
    cluster.add(2)
    cluster.change("remove", 2)
    for _ in range(12):
        cluster.leader.raft.propose(0, b"x" * 900_000)
        cluster.leader.turn()
    cluster.leader.raft.propose_members(0, "add-learner", 2)
    sizes: list[int] = []
    for _ in range(10):
        for node in cluster.up():
            node.raft.tick()
            node.turn()
        sizes += [len(packet) for _, to, packet in cluster.packets if to == 2]
        cluster.deliver()
    assert len(cluster.nodes[2].state) == 12
    assert max(sizes) <= 4 << 20 < sum(sizes)
