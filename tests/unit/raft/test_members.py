"""Members of a group change, seen from Python."""

import pytest

from fastnode._raftlog import MembersBusy, NotLeader, RaftGroups, SimDisk, TooMuchPending
from fastnode.errors import Busy, Overloaded, Unavailable
from fastnode.raft.groups import Groups
from tests.unit.raft.member_cluster import Cluster


def test_a_group_grows_to_three_and_shrinks_to_one() -> None:
    cluster = Cluster(2, 3)
    cluster.write(b"alone")
    cluster.add(2, 3)
    cluster.write(b"of three")
    assert [node.members for node in cluster.nodes.values()] == [([1, 2, 3], [])] * 3
    cluster.change("remove", 3)
    assert cluster.nodes[3].members == ([1, 2], []), "a removed node knows that it is"
    cluster.write(b"of two")
    cluster.change("remove", 2)
    cluster.write(b"last")
    assert cluster.nodes[1].members == ([1], [])
    assert cluster.nodes[1].state == [b"alone", b"of three", b"of two", b"last"]
    assert cluster.nodes[2].state == cluster.nodes[1].state[:3]
    assert cluster.nodes[3].state == cluster.nodes[1].state[:2]


def test_a_node_that_joins_gets_all_entries_and_never_campaigns() -> None:
    cluster = Cluster(2)
    cluster.write(b"one", b"two")
    cluster.run(50)
    status = cluster.nodes[2].raft.status()["groups"][0]
    assert (status["role"], status["term"], status["voters"]) == ("follower", 1, [])
    cluster.nodes[2].raft.campaign(0)
    assert cluster.nodes[2].raft.status()["groups"][0]["role"] == "follower"
    cluster.change("add-learner", 2)
    assert cluster.nodes[2].state == [b"one", b"two"]
    assert cluster.nodes[2].members == ([1], [2])
    cluster.nodes[1].is_up = False
    cluster.run(50)
    assert not cluster.nodes[2].leads, "a learner never leads"


def test_a_removed_node_does_not_disturb_the_others() -> None:
    cluster = Cluster(2, 3)
    cluster.add(2, 3)
    cluster.nodes[3].is_up = False
    cluster.change("remove", 3)
    term = cluster.leader.raft.status()["groups"][0]["term"]
    cluster.nodes[3].is_up = True
    cluster.run(50)
    assert cluster.leader.raft.status()["groups"][0]["term"] == term
    assert any("node 3 is not a member" in reason for reason in cluster.refused)


def test_a_leader_can_remove_itself() -> None:
    cluster = Cluster(2, 3)
    cluster.add(2, 3)
    cluster.change("remove", 1, ticks=40)
    assert cluster.leader.number in (2, 3)
    cluster.write(b"without the first")
    assert cluster.leader.state == [b"without the first"]
    assert not cluster.nodes[1].leads


def test_a_change_that_was_lost_with_its_leader_can_be_made_again() -> None:
    cluster = Cluster(2, 3, 4)
    cluster.add(2, 3)
    old = cluster.leader
    old.is_up = False
    old.raft.propose_members(0, "add-learner", 4)
    cluster.run(40)
    assert cluster.leader is not old
    cluster.change("add-learner", 4)
    old.restart()
    cluster.run(20)
    assert [node.members for node in cluster.nodes.values()] == [([1, 2, 3], [4])] * 4


def test_members_survive_a_crash_of_everybody() -> None:
    cluster = Cluster(2, 3)
    cluster.add(2)
    cluster.change("add-learner", 3)
    for node in cluster.nodes.values():
        node.restart()
    cluster.run(40)
    assert [node.members for node in cluster.nodes.values()] == [([1, 2], [3])] * 3
    cluster.write(b"after")
    assert all(node.state == [b"after"] for node in cluster.nodes.values())


def test_a_change_is_refused_while_another_is_not_applied() -> None:
    cluster = Cluster(2)
    raft = cluster.leader.raft
    raft.propose_members(0, "add-learner", 2)
    with pytest.raises(MembersBusy, match="not applied"):
        raft.propose_members(0, "add-learner", 3)
    with pytest.raises(NotLeader):
        cluster.nodes[2].raft.propose_members(0, "add-learner", 3)


def test_a_learner_that_has_not_caught_up_is_not_promoted() -> None:
    cluster = Cluster(2)
    cluster.nodes[2].is_up = False
    cluster.change("add-learner", 2)
    with pytest.raises(MembersBusy, match="caught up"):
        cluster.leader.raft.propose_members(0, "add-voter", 2)
    cluster.nodes[2].is_up = True
    cluster.run(5)
    cluster.change("add-voter", 2)
    assert cluster.nodes[1].members == ([1, 2], [])


@pytest.mark.parametrize(
    ("kind", "node"), [("promote", 2), ("add-learner", 0), ("add-learner", 1 << 16), ("remove", 1)]
)
def test_a_change_that_makes_no_sense_is_an_error(kind: str, node: int) -> None:
    with pytest.raises(ValueError, match=r"kind|range|last voter"):
        Cluster().leader.raft.propose_members(0, kind, node)


def test_status_tells_what_a_leader_knows_of_its_peers() -> None:
    cluster = Cluster(2, 3)
    cluster.add(2)
    cluster.change("add-learner", 3)
    status = cluster.leader.raft.status()["groups"][0]
    assert (status["voters"], status["learners"], status["transferee"]) == ([1, 2], [3], 0)
    last = status["last"]
    for peer in (2, 3):
        seen = status["peers"][peer]
        assert (seen["match"], seen["next"], seen["state"]) == (last, last + 1, "replicate")
        assert (seen["recent_active"], seen["pending_snapshot"]) == (True, 0)
    assert cluster.nodes[2].raft.status()["groups"][0]["peers"] == {}


def test_too_much_that_waits_to_be_committed_is_refused() -> None:
    raft = RaftGroups(
        *(1, "", 1),
        voters=[1],
        applied=[0],
        uncommitted_bytes=1_000,
        manual=True,
        disk=SimDisk(1),
    )
    while raft.ready()[4]:
        raft.persist_step()
    raft.propose(0, b"x" * 2_000)
    with pytest.raises(TooMuchPending):
        raft.propose(0, b"x")
    with pytest.raises(Overloaded):
        Groups(raft).propose(0, b"x")
    while raft.ready()[4]:
        raft.persist_step()
    raft.propose(0, b"x" * 1_000)


def test_errors_of_the_extension_become_ours() -> None:
    cluster = Cluster(2)
    groups = Groups(cluster.leader.raft)
    groups.propose_members(0, "add-learner", 2)
    with pytest.raises(Busy):
        groups.propose_members(0, "remove", 2)
    with pytest.raises(Unavailable):
        Groups(cluster.nodes[2].raft).snapshot_ready(0, 1, b"")
    with pytest.raises(Unavailable):
        Groups(cluster.nodes[2].raft).transfer_leader(0, 1)
