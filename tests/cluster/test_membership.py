"""A cluster that grows from one node to three, replaces a dead one and shrinks, under load."""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fastnode import config
from tests.cluster.harness import (
    POLL_SECONDS,
    Cluster,
    Member,
    eventually,
    operated,
    static_cluster,
    tolerant,
    transfer,
)
from tests.cluster.network import Loopback
from tests.cluster.replicas import verify_replicas
from tests.cluster.workload import under_load

TRIES = 3
BALANCED_SECONDS = 60.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Node 1, alone."""
    network = Loopback()
    with closing(network), Cluster(tmp_path, network) as made:
        made.add(1)
        made.start()
        made.await_ready()
        yield made


def join(cluster: Cluster, number: int) -> Member:
    """It comes as a learner, catches up and becomes a voter by itself."""
    voters = {*cluster.members, number}
    joined = cluster.add(number, "--join", cluster.network.place(1).raft)
    joined.start()
    cluster.await_voters(voters)
    cluster.await_ready(number)
    return joined


def remove(cluster: Cluster, number: int) -> None:
    """By the operator's command, given to node 1; whether the node lives does not matter."""
    admin = cluster.network.place(1).admin
    operated("cluster", "remove", str(number), "--admin", admin)
    removed = cluster.members.pop(number)
    if removed.is_started:
        removed.kill()
    cluster.await_voters(cluster.members)


@pytest.mark.timeout(900)
def test_one_to_three_replace_and_back_to_three_under_load(cluster: Cluster) -> None:
    with under_load(cluster, "growing") as load:
        join(cluster, 2)
        load.await_progress()
        third = join(cluster, 3)
        cluster.await_leaders()
        load.await_progress()
        third.kill()
        load.await_progress()
        remove(cluster, 3)
        load.await_progress()
        join(cluster, 4)
        cluster.await_leaders()
    verify_replicas(cluster)


def test_whoever_joins_opens_the_gates_again_and_whoever_was_removed_holds_nothing_back(
    tmp_path: Path,
) -> None:
    with static_cluster(tmp_path, Loopback()) as cluster:
        cluster.await_voters({1, 2, 3})
        cluster.members[3].kill()
        remove(cluster, 3)
        join(cluster, 4)
        eventually("all gates are open", tolerant(lambda: are_open(cluster)))
        first = cluster.members[1]
        assert first.stop() == 0
        offset = len(first.stderr())
        first.start()
        # It was told of node 3 and not of node 4 when the cluster was begun.
        assert first.gates() == {1}
        assert "retries are" not in first.stderr()[offset:]


def are_open(cluster: Cluster) -> bool:
    return all(member.gates() == {1} for member in cluster.members.values())


def test_leads_stay_where_an_operator_puts_them(tmp_path: Path) -> None:
    """Whoever is asked, and whoever led before; as long as a test can wait. Calls that come while a
    lead is handed on wait for its next leader.

    A busy machine may stop a node for longer than an election takes: then it is tried again.
    """
    with static_cluster(tmp_path, Loopback()) as cluster:
        for number in range(TRIES):
            problem = turned_away(cluster, f"handed-on-{number}") or moved_by_itself(cluster)
            if not problem:
                break
        assert not problem


def turned_away(cluster: Cluster, label: str) -> str:
    """What calls were told while leads were handed on, unless they were served."""
    with under_load(cluster, label) as load:
        for to, flags in ((2, ()), (1, ()), (3, ("--group", "0"))):
            transfer(cluster, to, *flags)
            load.await_progress()
        return next((reason for reason in load.unknown if reason.startswith("503")), "")


def moved_by_itself(cluster: Cluster) -> str:
    for _ in range(2 * config.BALANCE_STEADY_LOOKS):
        time.sleep(config.BALANCE_SECONDS)
        if (leaders := cluster.await_leaders()) != [3, 1, 1, 1]:
            return f"leads went to {leaders}"
    # Whoever stops hands its leads on, and gets no more than its share when it comes back.
    assert cluster.members[1].stop() == 0
    cluster.members[1].start()
    cluster.await_ready()
    deadline = time.monotonic() + BALANCED_SECONDS
    while cluster.leaders() != [3, 2, 3, 1]:
        if time.monotonic() > deadline:
            return f"leads are balanced as {cluster.leaders()}"
        time.sleep(POLL_SECONDS)
    return ""


@pytest.mark.timeout(900)
def test_three_shrink_to_one_under_load(cluster: Cluster) -> None:
    with under_load(cluster, "shrinking") as load:
        for number in (2, 3):
            join(cluster, number)
        removed = cluster.members[3]
        remove(cluster, 3)
        load.await_progress()
        come_back_removed(cluster, removed)
        remove(cluster, 2)
        load.await_progress()
    verify_replicas(cluster)


@pytest.mark.timeout(900)
def test_a_node_whose_log_has_been_shortened_grows_by_snapshots(cluster: Cluster) -> None:
    """A stop flushes everything, so that the log of a node that is alone begins behind it: whoever
    joins then gets the state itself, under load, and once killed in the middle.
    """
    with under_load(cluster, "before") as load:
        load.await_progress()
    founder = cluster.members[1]
    assert founder.stop() == 0
    founder.start()
    with under_load(cluster, "after") as load:
        joined = cluster.add(2, "--join", cluster.network.place(1).raft)
        joined.start()
        founder.await_line("sending a snapshot")
        joined.kill()
        joined.start()
        cluster.await_voters({1, 2})
        joined.await_line("a snapshot was installed")
        load.await_progress()
        join(cluster, 3).await_line("a snapshot was installed")
        founder.kill()
        load.await_progress()
        founder.start()
        cluster.await_ready()
    verify_replicas(cluster)


def test_a_node_joins_a_cluster_that_nobody_uses(cluster: Cluster) -> None:
    """After a snapshot no entry comes that would show that it has caught up."""
    with under_load(cluster, "before") as load:
        load.await_progress()
    founder = cluster.members[1]
    assert founder.stop() == 0
    founder.start()
    join(cluster, 2).await_line("a snapshot was installed")
    verify_replicas(cluster)


def come_back_removed(cluster: Cluster, removed: Member) -> None:
    """A node that was removed does not vote, serve or disturb when somebody starts it again."""
    with removed.ended():
        offset = len(removed.stderr())
        removed.launch()
        eventually(
            "the removed node ends or listens",
            lambda: removed.process.poll() is not None or removed.has_listener(),
        )
        removed.await_line("was removed|not a member", offset)
        assert not removed.is_ready()
    cluster.await_voters(cluster.members)
