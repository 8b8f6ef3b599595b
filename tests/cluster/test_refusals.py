"""Nodes that were set up wrong: a clear line, and no damage to those that were not.

Node 3 of a healthy cluster is started again with a mistake, while the others work under load; then
with the mistake corrected. Its number is the highest, so it is the one that dials the others.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.harness import Cluster, Member, eventually, peers_flag, static_cluster
from tests.cluster.network import Loopback
from tests.cluster.replicas import verify_replicas
from tests.cluster.workload import under_load

MEMBERS = (1, 2, 3)
DOUBLE = 9


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with static_cluster(tmp_path_factory.mktemp("refusals"), Loopback()) as made:
        yield made
        verify_replicas(made)


@pytest.fixture
def cluster(started: Cluster) -> Cluster:
    return started.make_whole()


@contextmanager
def replaced(cluster: Cluster, node: Member) -> Iterator[dict[int, int]]:
    """The given node in the place of node 3, which runs again afterwards; where the logs of the
    others end before.
    """
    assert cluster.members[3].stop() == 0
    try:
        yield {number: len(cluster.members[number].stderr()) for number in (1, 2)}
    finally:
        if node.is_started:
            node.kill()
        cluster.members[3].start()
    cluster.await_ready()


def wrong_node(cluster: Cluster, directory: Path, *flags: str, place: int = 3) -> Member:
    """A node 3 that is not the real one."""
    directory.mkdir(exist_ok=True)
    defaults = ("--groups", "4", "--cluster-secret", str(cluster.secret))
    return Member(3, directory, cluster.network.place(place), (*defaults, *flags))


def await_refusal(node: Member, pattern: str) -> None:
    """Refused at the start, or running and never ready; in both cases it says why."""
    offset = len(node.stderr())
    node.launch()
    eventually(
        "the node ends or listens",
        lambda: node.process.poll() is not None or node.has_listener(),
    )
    if node.process.poll() is not None:
        assert node.process.returncode in (1, 2), node.stderr_tail()
    node.await_line(pattern, offset)
    assert not node.is_ready()


def test_another_secret_is_refused_on_both_sides(cluster: Cluster, tmp_path: Path) -> None:
    """The real node 3 with its own directory, and a file that somebody mixed up."""
    secret = tmp_path / "secret"
    secret.write_text(secrets.token_hex(32) + "\n")
    secret.chmod(0o600)
    real = cluster.members[3]
    flags = ("--cluster-secret", str(secret), "--peers", peers_flag(cluster.network, MEMBERS))
    wrong = wrong_node(cluster, real.data_dir, *flags)
    with under_load(cluster, "secret"), replaced(cluster, wrong) as offsets:
        await_refusal(wrong, "secret")
        for number in (1, 2):
            cluster.members[number].await_line("secret", offsets[number])
        for text in (secret.read_text().strip(), cluster.secret.read_text().strip()):
            assert text not in wrong.stderr() + cluster.members[1].stderr()


def test_a_node_of_another_cluster_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    """It began alone, as a cluster of its own, and then somebody gave it these peers."""
    directory = tmp_path / "foreign"
    peers = peers_flag(cluster.network, MEMBERS)
    foreign = wrong_node(cluster, directory, "--peers", peers)
    with under_load(cluster, "foreign"), replaced(cluster, foreign):
        with wrong_node(cluster, directory) as alone:
            assert alone.stop() == 0
        await_refusal(foreign, "different clusters|another cluster|--peers")


def test_a_second_node_with_the_same_number_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    """The real one runs on: whoever came first is known by its incarnation."""
    peers = peers_flag(cluster.network, MEMBERS)
    double = wrong_node(cluster, tmp_path / "double", "--peers", peers, place=DOUBLE)
    with under_load(cluster, "double"), double.ended():
        await_refusal(double, "incarnation|another data directory|same id|--node-id")
        assert cluster.members[3].is_ready()


def test_addresses_that_were_swapped_are_named(cluster: Cluster) -> None:
    """Node 3 finds node 2 where it was told that node 1 is."""
    real, place = cluster.members[3], cluster.network.place
    peers = f"1={place(2).raft},2={place(1).raft},3={place(3).raft}"
    swapped = wrong_node(cluster, real.data_dir, "--peers", peers)
    with under_load(cluster, "swapped"), replaced(cluster, swapped):
        await_refusal(swapped, "another node than expected|--peers")


def test_another_number_of_groups_is_refused(cluster: Cluster) -> None:
    real, peers = cluster.members[3], peers_flag(cluster.network, MEMBERS)
    wrong = wrong_node(cluster, real.data_dir, "--peers", peers, "--groups", "8")
    with replaced(cluster, wrong):
        code, text = wrong.refuse_start()
    assert code == 2
    assert "--groups" in text


@pytest.mark.parametrize(
    "peers",
    [
        "1=127.0.0.1:20001,2=127.0.0.1:20002",
        "1=127.0.0.1:20001,2=127.0.0.1:20002,3=127.0.0.1",
        "1=127.0.0.1:20001,2=127.0.0.1:20001,3=127.0.0.1:20003",
        "1=127.0.0.1:20001,3=127.0.0.1:20002,3=127.0.0.1:20003",
        "127.0.0.1:20001,127.0.0.1:20002,127.0.0.1:20003",
        "1=127.0.0.1:20001;2=127.0.0.1:20002;3=127.0.0.1:20003",
    ],
    ids=["own number missing", "no port", "address twice", "number twice", "no numbers", "commas"],
)
def test_a_typo_in_peers_is_a_usage_error(cluster: Cluster, tmp_path: Path, peers: str) -> None:
    wrong = wrong_node(cluster, tmp_path / "typo", "--peers", peers, place=DOUBLE)
    code, text = wrong.refuse_start()
    assert code == 2
    assert "--peers" in text
    assert not any((tmp_path / "typo").iterdir()), "a refused start left something behind"
