"""Nodes that die, return, or stand still under load: the rest goes on, and nothing is lost.

One cluster for all; each test leaves it whole. At the end all replicas hold the same.
"""

import statistics
import time
from collections.abc import Iterator

import pytest

from tests.cluster.client import Client, RepeatingClient, Unknown
from tests.cluster.harness import Cluster, static_cluster
from tests.cluster.network import Loopback
from tests.cluster.replicas import verify_replicas
from tests.cluster.workload import under_load, url_of
from tests.nodes import ANSWER_SECONDS

# The promise is a first success within 2.5 s, as a median on a machine with nothing else to do.
FAILOVER_SECONDS = 10.0
KILLS = 3
# Without a leader an answer of 503 comes within a second, and a busy machine adds to that.
NO_LEADER_SECONDS = 3.0
# A send that was not acknowledged may still land, as soon as there is a leader. So the sends that
# no history records go to a queue of their own, where none is judged.
UNPROMISED = "unpromised"
# Longer than an election, so that others lead when the node wakes up.
STANDSTILL_SECONDS = 4.0


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with static_cluster(tmp_path_factory.mktemp("failover"), Loopback()) as made:
        yield made
        verify_replicas(made)


@pytest.fixture
def cluster(started: Cluster) -> Cluster:
    return started.make_whole()


def restart(cluster: Cluster) -> None:
    cluster.start()
    cluster.await_ready()
    cluster.await_leaders()


def test_a_leader_killed_under_load_is_replaced(cluster: Cluster) -> None:
    with under_load(cluster, "leader") as load:
        seconds = []
        for _ in range(KILLS):
            leader = statistics.mode(cluster.await_leaders())
            cluster.members[leader].kill()
            cluster.await_leaders()
            seconds.append(load.await_progress(count=20))
            restart(cluster)
    assert statistics.median(seconds) < FAILOVER_SECONDS, seconds


def test_a_send_succeeds_soon_after_the_leader_of_its_queue_died(cluster: Cluster) -> None:
    """One client that tries again until it is answered, as the promise is worded."""
    client = Client(cluster.endpoints, seconds=1.0)
    client.insist("CreateQueue", QueueName=UNPROMISED)
    cluster.leader_of(UNPROMISED).kill()
    began = time.monotonic()
    while time.monotonic() < began + FAILOVER_SECONDS:
        try:
            client.call("SendMessage", QueueUrl=url_of(UNPROMISED), MessageBody="after the kill")
            break
        except Unknown as error:
            time.sleep(min(error.retry_after or 0.05, 0.1))
    else:
        raise AssertionError(f"no send succeeded within {FAILOVER_SECONDS} s")
    restart(cluster)
    client.close()


def test_a_killed_follower_is_not_missed_and_catches_up(cluster: Cluster) -> None:
    with under_load(cluster, "follower") as load:
        leaders = cluster.await_leaders()
        # With leaders spread over all nodes there is none that leads nothing: the one least missed.
        follower = min(cluster.members, key=leaders.count)
        cluster.members[follower].kill()
        load.await_progress(count=200)
        restart(cluster)


def test_without_a_majority_nothing_is_promised_and_afterwards_nothing_is_lost(
    cluster: Cluster,
) -> None:
    client = RepeatingClient(cluster.endpoints)
    client.insist("CreateQueue", QueueName=UNPROMISED)
    client.close()
    with under_load(cluster, "majority") as load:
        cluster.members[1].kill()
        cluster.members[2].kill()
        survivor = cluster.members[3]
        seconds, retry_after = refusal(survivor.sqs_url)
        assert retry_after is not None, "503 without Retry-After"
        assert seconds < NO_LEADER_SECONDS
        # What it had promised before it said no may still be on its way to clients.
        time.sleep(1.0)
        base = load.acknowledged
        time.sleep(1.0)
        assert not survivor.is_ready(), "ready without a quorum"
        assert load.acknowledged == base, "a send was acknowledged without a majority"
        cluster.members[1].start()
        load.await_progress(count=20)
        restart(cluster)


def refusal(url: str) -> tuple[float, float | None]:
    """How long a node without a leader takes to say so, and what it says about trying again."""
    client, seconds = Client(lambda: [url], seconds=ANSWER_SECONDS), list[float]()
    # The first calls may still meet a node that hopes for a leader of its old term.
    for _ in range(3):
        began = time.monotonic()
        with pytest.raises(Unknown, match="503") as caught:
            client.call("SendMessage", QueueUrl=url_of(UNPROMISED), MessageBody="unknown")
        seconds.append(time.monotonic() - began)
    client.close()
    return min(seconds), caught.value.retry_after


def test_all_nodes_killed_at_once_keep_everything(cluster: Cluster) -> None:
    with under_load(cluster, "all"):
        for member in cluster.members.values():
            member.kill()
        restart(cluster)


def test_a_leader_that_stood_still_answers_nothing_stale_when_it_wakes_up(
    cluster: Cluster,
) -> None:
    with under_load(cluster, "paused") as load:
        sleeper = cluster.members[statistics.mode(cluster.await_leaders())]
        sleeper.pause()
        time.sleep(STANDSTILL_SECONDS)
        load.await_progress()
        sleeper.resume()
        # Asked at once: clients whose calls it had taken get their answers now, too.
        load.await_progress()
        cluster.await_leaders()


def test_an_old_leader_that_wakes_up_shows_what_was_sent_meanwhile(cluster: Cluster) -> None:
    """A counter read from a lease of the past would not have the message."""
    client = RepeatingClient(cluster.endpoints)
    name = "unstale"
    client.insist("CreateQueue", QueueName=name)
    sleeper = cluster.leader_of(name)
    sleeper.pause()
    others = [member for member in cluster.members.values() if member is not sleeper]
    send_eventually(Client(lambda: [others[0].sqs_url]), name)
    sleeper.resume()
    awake = Client(lambda: [sleeper.sqs_url])
    for _ in range(20):
        try:
            assert int(visible(awake, name)) >= 1, "a stale answer"
        except Unknown:
            time.sleep(0.05)
    awake.close()
    cluster.await_leaders()
    client.close()


def send_eventually(client: Client, queue: str) -> None:
    deadline = time.monotonic() + 2 * FAILOVER_SECONDS
    while True:
        try:
            client.call("SendMessage", QueueUrl=url_of(queue), MessageBody="meanwhile")
            break
        except Unknown:
            assert time.monotonic() < deadline, "the others elect no leader"
            time.sleep(0.1)
    client.close()


def visible(client: Client, queue: str) -> str:
    name = "ApproximateNumberOfMessages"
    answer = client.call("GetQueueAttributes", QueueUrl=url_of(queue), AttributeNames=[name])
    count: str = answer["Attributes"][name]
    return count
