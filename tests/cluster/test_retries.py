"""Batches sent with boto3 while leaders die and are cut off, and answers are lost on their way:
every acknowledged entry is stored exactly once, every other one at most once.

The same run without the gates of deduplication shows duplicates: the test can see them.
RETRIES_SECONDS=60 makes the runs that long; they are short otherwise.
"""

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.cluster.batch_senders import BATCH, Senders, Stored, Told, duplicates, judge
from tests.cluster.client import Client
from tests.cluster.harness import Cluster, Member, eventually, static_cluster, tolerant
from tests.cluster.network import Proxied
from tests.cluster.replicas import verify_replicas
from tests.cluster.workload import ATTRIBUTES, url_of
from tests.cut_proxy import CutProxy, LosesEvery, loses_nothing

RUN_SECONDS = float(os.environ.get("RETRIES_SECONDS", "12"))
FAULT_SECONDS = 3.0
# The rest of a fault's time is for what was disturbed to come back.
CUT_SECONDS = 2.0
LOST_PERIOD = 7
ATTEMPTS = 6
# Of the drain: long enough to delete what was received, and over soon if that was not told.
LEASE_SECONDS = 5
DRAIN_SECONDS = 120.0 + RUN_SECONDS
PLAIN = "plain-a"
# Its partitions are in different groups, so parts of one batch are led by different nodes.
WIDE = "wide.fifo"
NO_SDK_RETRIES = {"FASTNODE_DEDUP_SDK_RETRIES": "0"}
NO_GATES = NO_SDK_RETRIES | {"FASTNODE_DEDUP_BATCH_SEND": "0"}

pytestmark = pytest.mark.timeout(600 + 2 * RUN_SECONDS)


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """With the variables that the test chooses."""
    environment = getattr(request, "param", {})
    expected = {int(environment.get(name, "1")) for name in NO_GATES}
    with static_cluster(tmp_path, Proxied(3, seed=8), environment=environment) as started:
        members = started.members.values()
        eventually(
            "the gates are as configured",
            tolerant(lambda: all(member.gates() == expected for member in members)),
        )
        yield started


def disturb(cluster: Cluster, queue: str) -> None:
    """Every three seconds the leader of the queue dies and comes back, or is alone for a while."""
    until = time.monotonic() + RUN_SECONDS
    for fault in itertools.cycle([kill, cut_off]):
        due = time.monotonic() + FAULT_SECONDS
        fault(cluster, cluster.leader_of(queue))
        time.sleep(max(0.0, due - time.monotonic()))
        if time.monotonic() > until:
            return


def kill(_cluster: Cluster, leader: Member) -> None:
    leader.kill()
    leader.start()


def cut_off(cluster: Cluster, leader: Member) -> None:
    cluster.network.isolate(leader.number, cluster.members)
    time.sleep(CUT_SECONDS)
    cluster.network.heal()


def run(
    cluster: Cluster, queue: str, *, attempts: int, loses_answers: bool
) -> tuple[list[Told], list[Stored]]:
    """What the senders were told, and what the queue holds."""
    with closing(Client(cluster.endpoints)) as client:
        client.insist("CreateQueue", QueueName=queue, Attributes=ATTRIBUTES[queue])
    loses = LosesEvery(LOST_PERIOD) if loses_answers else loses_nothing
    with CutProxy(cluster.endpoints, loses) as proxy:
        with Senders(proxy.url, url_of(queue), attempts=attempts) as senders:
            senders.await_progress()
            disturb(cluster, queue)
            cluster.make_whole()
            senders.await_progress()
        senders.check()
        proxy.await_idle()
    assert bool(proxy.lost) == loses_answers
    cluster.await_same_applied()
    with closing(Client(cluster.endpoints)) as client:
        return senders.told, drain(client, queue)


def drain(client: Client, queue: str) -> list[Stored]:
    """Everything, once: a message that comes again, since an answer was lost, has the same id, and
    the counter from before says whether that hides a copy.
    """
    (expected, _), found = counters(client, queue), set[Stored]()
    url = url_of(queue)
    members = {"QueueUrl": url, "MaxNumberOfMessages": BATCH, "VisibilityTimeout": LEASE_SECONDS}
    deadline = time.monotonic() + DRAIN_SECONDS
    while counters(client, queue) != (0, 0):
        assert time.monotonic() < deadline, f"{queue} does not become empty"
        while rows := client.insist("ReceiveMessage", **members).get("Messages"):
            found |= {Stored(row["Body"], row["MessageId"]) for row in rows}
            handles = [
                {"Id": str(n), "ReceiptHandle": r["ReceiptHandle"]} for n, r in enumerate(rows)
            ]
            client.insist("DeleteMessageBatch", QueueUrl=url, Entries=handles)
    assert len(found) == expected
    return sorted(found)


def counters(client: Client, queue: str) -> tuple[int, int]:
    """Visible, in flight."""
    names = [f"ApproximateNumberOfMessages{which}" for which in ("", "NotVisible")]
    answer = client.insist("GetQueueAttributes", QueueUrl=url_of(queue), AttributeNames=names)
    visible, in_flight = (int(answer["Attributes"][name]) for name in names)
    return visible, in_flight


def assert_exact(told: list[Told], stored: list[Stored]) -> None:
    complaints = judge(told, stored)
    assert not complaints, f"{len(complaints)} complaints: " + "; ".join(complaints[:8])
    assert any(entry.message_id for entry in told)


@pytest.mark.parametrize("queue", [PLAIN, WIDE])
def test_nothing_acknowledged_is_lost_and_nothing_is_stored_twice(
    cluster: Cluster, queue: str
) -> None:
    assert_exact(*run(cluster, queue, attempts=ATTEMPTS, loses_answers=True))
    verify_replicas(cluster)


@pytest.mark.parametrize("cluster", [NO_SDK_RETRIES], indirect=True)
def test_what_the_nodes_repeat_by_themselves_is_stored_once(cluster: Cluster) -> None:
    """A client that repeats nothing and is not recognised."""
    assert_exact(*run(cluster, PLAIN, attempts=1, loses_answers=False))


@pytest.mark.parametrize("cluster", [NO_GATES], indirect=True)
def test_without_deduplication_repeated_batches_are_seen_twice(cluster: Cluster) -> None:
    told, stored = run(cluster, PLAIN, attempts=ATTEMPTS, loses_answers=True)
    assert duplicates(stored) > 0
    assert any("stored 2 times" in complaint for complaint in judge(told, stored))
    # At least once all the same.
    kept = {message.message_id for message in stored}
    assert all(entry.message_id in kept for entry in told if entry.message_id)


# --- the judge ----------------------------------------------------------------------------------


def test_the_judge_accepts_one_copy_and_unknown_entries() -> None:
    told = [Told("a", "1"), Told("b"), Told("c"), Told("d", is_refused=True)]
    assert judge(told, [Stored("a", "1"), Stored("b", "2")]) == []


@pytest.mark.parametrize(
    ("told", "stored", "complaint"),
    [
        ([Told("a", "1")], [Stored("a", "1"), Stored("a", "2")], "stored 2 times"),
        ([Told("a")], [Stored("a", "1"), Stored("a", "2")], "stored 2 times"),
        ([Told("a", "1")], [], "acknowledged as 1"),
        ([Told("a", "1")], [Stored("a", "2")], "acknowledged as 1"),
        ([Told("a", is_refused=True)], [Stored("a", "1")], "was refused and is stored"),
        ([], [Stored("a", "1")], "never sent"),
    ],
)
def test_the_judge_complains(told: list[Told], stored: list[Stored], complaint: str) -> None:
    (found,) = judge(told, stored)
    assert complaint in found
