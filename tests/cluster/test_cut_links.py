"""Links between nodes cut, cut in one direction, slow and lossy, under load.

By proxies everywhere, and with real packets in network namespaces where root is there to make them.
One cluster for all tests on one network; each test heals it. At the end all replicas hold the same.
"""

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import permutations
from pathlib import Path

import pytest

from tests.cluster.client import Client, Unknown
from tests.cluster.harness import Cluster, static_cluster
from tests.cluster.network import Namespaces, Network, Proxied, namespaces_problem
from tests.cluster.replicas import verify_replicas
from tests.cluster.workload import under_load, url_of
from tests.nodes import ANSWER_SECONDS

# Two elections: long enough for leases to run out and for others to lead.
CUT_SECONDS = 3.0
LOSS, DELAY_SECONDS = 0.05, 0.1
DISTURBED_SECONDS = 5.0


@contextmanager
def cut_cluster(network: Network, directory: Path) -> Iterator[Cluster]:
    with static_cluster(directory, network) as started:
        yield started
        network.heal()
        verify_replicas(started)


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cut_cluster(Proxied(3, seed=7), tmp_path_factory.mktemp("proxied")) as started:
        yield started


@pytest.fixture(scope="module")
def namespaces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if problem := namespaces_problem():
        pytest.skip(problem)
    with cut_cluster(Namespaces(3, seed=7), tmp_path_factory.mktemp("packets")) as started:
        yield started


@pytest.fixture(params=["proxied", "namespaces"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    chosen: Cluster = request.getfixturevalue(request.param)
    return chosen.make_whole()


def most_leading(cluster: Cluster) -> int:
    return statistics.mode(cluster.await_leaders())


def heal(cluster: Cluster) -> None:
    cluster.network.heal()
    cluster.await_ready()
    cluster.await_leaders()


def test_a_leader_without_the_others_promises_nothing(cluster: Cluster) -> None:
    with under_load(cluster, "isolated") as load:
        alone = most_leading(cluster)
        cluster.network.isolate(alone, cluster.members)
        time.sleep(CUT_SECONDS)
        load.await_progress()
        assert_unavailable(cluster.members[alone].sqs_url)
        heal(cluster)


def assert_unavailable(url: str) -> None:
    """A change and a look: both need the majority that this node does not have."""
    client = Client(lambda: [url], seconds=ANSWER_SECONDS)
    for action, members in (
        ("SendMessage", {"MessageBody": "never acknowledged"}),
        ("GetQueueAttributes", {"AttributeNames": ["ApproximateNumberOfMessages"]}),
    ):
        with pytest.raises(Unknown, match="503"):
            client.call(action, QueueUrl=url_of("not-there"), **members)
    client.close()


def test_two_nodes_that_do_not_hear_each_other_both_serve_through_the_third(
    proxied: Cluster,
) -> None:
    """The cluster stays up: every node still reaches a majority, and nobody is elected for ever."""
    with under_load(proxied.make_whole(), "pair") as load:
        first = most_leading(proxied)
        second = next(number for number in proxied.members if number != first)
        proxied.network.cut((first, second))
        time.sleep(CUT_SECONDS)
        load.await_progress()
        heal(proxied)


@pytest.mark.parametrize("direction", ["outgoing", "incoming"])
def test_a_leader_cut_in_one_direction(cluster: Cluster, direction: str) -> None:
    """Outgoing: nobody hears its heartbeats. Incoming: it hears no answer, and must step down."""
    with under_load(cluster, f"one-way-{direction}") as load:
        leader = most_leading(cluster)
        others = [number for number in cluster.members if number != leader]
        pairs = [(leader, other) for other in others]
        if direction == "incoming":
            pairs = [(other, leader) for other in others]
        cluster.network.cut_one_way(*pairs)
        time.sleep(CUT_SECONDS)
        load.await_progress()
        heal(cluster)


def test_no_majority_anywhere_and_then_all_of_it(proxied: Cluster) -> None:
    with under_load(proxied.make_whole(), "all-cut") as load:
        proxied.network.cut(*permutations(proxied.members, 2))
        time.sleep(CUT_SECONDS)
        base = load.acknowledged
        time.sleep(1.0)
        assert load.acknowledged == base, "a send was acknowledged without a majority"
        heal(proxied)


def test_loss_and_delay_only_make_it_slower(cluster: Cluster) -> None:
    with under_load(cluster, "lossy") as load:
        cluster.network.disturb(cluster.members, delay_seconds=DELAY_SECONDS, loss=LOSS)
        until, count = time.monotonic() + DISTURBED_SECONDS, 0
        while time.monotonic() < until or count < 10:
            load.await_progress(count=5)
            count += 5
        heal(cluster)
