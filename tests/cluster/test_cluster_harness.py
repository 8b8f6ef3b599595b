"""The harness itself, with a single real node: its processes end, its load finds real faults.

A node without peers is a cluster of one.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.cluster import workload
from tests.cluster.client import Client, Unknown
from tests.cluster.harness import Member, eventually, parse_gauge
from tests.cluster.history import Event, Received, Sent, check
from tests.cluster.network import Loopback, Network
from tests.cluster.replicas import compare
from tests.cluster.workload import Workload

QUEUES = ("plain-a", "order-a.fifo", "wide.fifo")


@pytest.fixture
def network() -> Iterator[Network]:
    with closing(Loopback()) as made:
        yield made


@pytest.fixture
def node(network: Network, tmp_path: Path) -> Iterator[Member]:
    with Member(1, tmp_path / "node1", network.place(1), ("--groups", "4")) as member:
        yield member


def loaded(node: Member) -> Workload:
    load = Workload(lambda: [node.sqs_url], "load", QUEUES)
    load.create_queues()
    load.start()
    return load


def test_a_load_on_a_node_that_dies_and_returns_is_judged_right(node: Member) -> None:
    load = loaded(node)
    load.await_progress()
    node.kill()
    assert not node.is_running
    assert not node.is_ready()
    node.start()
    eventually("ready", node.is_ready)
    load.await_progress()
    node.pause()
    time.sleep(0.2)
    node.resume()
    load.await_progress()
    load.verify()
    assert load.unknown, "no client noticed that the node died"
    kinds = {type(event).__name__ for event in load.history}
    assert kinds == {"Sent", "Received", "Deleted", "Drained"}
    assert planted(load.history), "the judge finds nothing in the same history with faults"


def planted(history: list[Event]) -> bool:
    """The same history with one fault of each of two kinds is refused."""
    (lost,) = [e for e in history if isinstance(e, Sent) and e.message_id][:1]
    lost_too = lost._replace(body="another", message_id="another", number=-1, group="")
    # Of one that took longer than its lease nobody knows when that began.
    answers = [e for e in history if isinstance(e, Received)]
    twice = min(answers, key=lambda e: e.ended - e.began)
    return bool(check([*history, lost_too])) and bool(check([*history, twice]))


def test_a_load_finds_that_a_stranger_purged_a_queue(
    node: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workload, "DELETED_SHARE", 0.3)
    load = loaded(node)
    load.await_progress()
    load.end()
    client = Client(lambda: [node.sqs_url])
    client.insist("PurgeQueue", QueueUrl=workload.url_of("plain-a"))
    client.close()
    with pytest.raises(AssertionError, match=r"plain-a: lost: load/plain-a/\d+: "):
        load.verify()


def test_a_node_that_stands_still_is_an_unknown_outcome(node: Member) -> None:
    client, hasty = Client(lambda: [node.sqs_url]), Client(lambda: [node.sqs_url], seconds=0.5)
    client.insist("CreateQueue", QueueName="plain-a")
    node.pause()
    with pytest.raises(Unknown):
        hasty.call("ListQueues")
    node.resume()
    assert client.insist("ListQueues")["QueueUrls"]
    client.close()
    hasty.close()


def test_leaving_the_context_ends_a_node_that_stands_still(
    network: Network, tmp_path: Path
) -> None:
    with Member(1, tmp_path / "node1", network.place(1)) as node:
        pid = node.process.pid
        node.pause()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def test_a_refused_start_is_told_with_its_reason(node: Member, network: Network) -> None:
    second = Member(1, node.data_dir, network.place(2))
    code, text = second.refuse_start()
    assert code == 1
    assert "in use" in text


def test_a_wiped_directory_is_empty(node: Member) -> None:
    node.kill()
    assert any(node.data_dir.iterdir())
    node.wipe()
    assert not any(node.data_dir.iterdir())


def test_a_line_of_the_log_is_awaited(node: Member) -> None:
    assert node.stop() == 0
    assert node.await_line("level=info.*STOPPING", seconds=60)
    with pytest.raises(AssertionError, match="not within"):
        node.await_line("no such words", seconds=0.1)


def test_replicas_are_compared_row_by_row(network: Network, tmp_path: Path) -> None:
    """Two nodes that know nothing of each other differ; a node does not differ from itself."""
    one, two = tmp_path / "one", tmp_path / "two"
    for directory in (one, two):
        with Member(1, directory, network.place(1), ("--groups", "1")) as node:
            client = Client(lambda: [f"http://{network.place(1).listen}"])
            client.insist("CreateQueue", QueueName=directory.name)
            client.close()
            assert node.stop() == 0
    assert compare([one, one]) == []
    (difference,) = compare([one, two])
    assert difference.startswith("one and two: group 000 in ")


def test_a_gauge_is_read_in_the_order_of_groups() -> None:
    rows = [f'fastnode_raft_leader{{group="{group}"}} {group % 3}.0' for group in range(12)]
    text = "\n".join(["fastnode_log_bytes 7", *sorted(rows)])
    assert parse_gauge("leader", text) == tuple(group % 3 for group in range(12))
    assert parse_gauge("applied", text) == ()
