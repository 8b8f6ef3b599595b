"""A node of two workers is one node: queues of both, letters between them, connections that change
workers, one admin listener.
"""

import json
import threading
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.integration.worker_kit import (
    WORKERS,
    RawClient,
    admin,
    eventually,
    is_ready,
    md5_of,
    metric,
    names_of,
    owner_of,
    worker_pids,
)
from tests.nodes import REGION, Node, boto3_client, refused_start

BOTH = (0, 1)
MOVED = "fastnode_connections_handed_over_total"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("workers") / "data", *WORKERS) as running:
        eventually("all workers are ready", lambda: is_ready(running))
        yield running
        assert running.stop() == 0, running.stderr_tail()


@pytest.fixture(scope="module")
def sqs(node: Node) -> Iterator[Any]:
    client = boto3_client(node.sqs_url)
    yield client
    client.close()


def create(sqs: Any, name: str, **attributes: str) -> str:
    url: str = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    return url


def arn_of(sqs: Any, url: str) -> str:
    named = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    arn: str = named["Attributes"]["QueueArn"]
    return arn


def take(sqs: Any, url: str, count: int, **members: Any) -> list[dict[str, Any]]:
    """So many messages, deleted."""
    taken: list[dict[str, Any]] = []

    def has_all() -> bool:
        answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, **members)
        for message in answer.get("Messages", []):
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            taken.append(message)
        return len(taken) >= count

    eventually(f"{count} messages of {url}", has_all)
    assert len(taken) == count
    return taken


def test_the_node_has_two_workers_and_serves_the_queues_of_both(node: Node, sqs: Any) -> None:
    assert len(worker_pids(node)) == 2
    names = [name for worker in BOTH for name in names_of(worker, 3)]
    urls = [create(sqs, name) for name in names]
    for url in urls:
        sqs.send_message(QueueUrl=url, MessageBody=url)
    listed = sqs.list_queues(QueueNamePrefix="queue-")["QueueUrls"]
    assert sorted(listed) == sorted(urls)
    for url in urls:
        assert [message["Body"] for message in take(sqs, url, 1)] == [url]


@pytest.mark.parametrize("worker", BOTH)
def test_a_long_poll_hears_of_a_message(node: Node, worker: int) -> None:
    """Whichever worker the poll and the message come to."""
    (name,) = names_of(worker, 1, "poll-{}")
    clients = [boto3_client(node.sqs_url) for _ in range(4)]
    url = create(clients[0], name)
    heard: list[dict[str, Any]] = []

    def poll(client: Any) -> None:
        heard.extend(client.receive_message(QueueUrl=url, WaitTimeSeconds=20).get("Messages", []))

    threads = [threading.Thread(target=poll, args=(client,)) for client in clients[1:]]
    for thread in threads:
        thread.start()
    for number in range(3):
        clients[0].send_message(QueueUrl=url, MessageBody=str(number))
    for thread in threads:
        thread.join(60)
    assert sorted(message["Body"] for message in heard) == ["0", "1", "2"]
    for client in clients:
        client.close()


@pytest.mark.parametrize("worker", BOTH)
def test_a_partitioned_queue_keeps_the_order_of_its_groups(sqs: Any, worker: int) -> None:
    """Its partitions are spread over all groups, and so over both workers."""
    (name,) = names_of(worker, 1, "wide-{}.fifo")
    url = create(
        sqs,
        name,
        FifoQueue="true",
        ContentBasedDeduplication="true",
        DeduplicationScope="messageGroup",
        FifoThroughputLimit="perMessageGroupId",
    )
    for number in range(30):
        sqs.send_message(QueueUrl=url, MessageBody=str(number), MessageGroupId=f"g{number % 6}")
    counts = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])[
        "Attributes"
    ]
    assert counts == {"ApproximateNumberOfMessages": "30"}
    order = [int(message["Body"]) for message in take(sqs, url, 30)]
    for group in range(6):
        assert [n for n in order if n % 6 == group] == list(range(group, 30, 6))
    sqs.delete_queue(QueueUrl=url)
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix=name)


@pytest.mark.parametrize(("source", "target"), [(0, 1), (1, 0)])
def test_a_dead_letter_crosses_workers_and_a_move_task_brings_it_back(
    sqs: Any, source: int, target: int
) -> None:
    dead = create(sqs, *names_of(target, 1, f"dead-{source}-{{}}"))
    policy = {"deadLetterTargetArn": arn_of(sqs, dead), "maxReceiveCount": "1"}
    (name,) = names_of(source, 1, f"source-{source}-{{}}")
    url = create(sqs, name, RedrivePolicy=json.dumps(policy))
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [url]
    sqs.send_message(QueueUrl=url, MessageBody="dies")
    assert sqs.receive_message(QueueUrl=url, VisibilityTimeout=0)["Messages"]
    assert "Messages" not in sqs.receive_message(QueueUrl=url, VisibilityTimeout=0)
    sqs.receive_message(QueueUrl=dead, WaitTimeSeconds=20, VisibilityTimeout=0)["Messages"]
    sqs.start_message_move_task(SourceArn=arn_of(sqs, dead))
    assert [message["Body"] for message in take(sqs, url, 1, WaitTimeSeconds=1)] == ["dies"]


def test_a_dead_letter_queue_that_was_made_anew_is_seen_by_the_sibling(sqs: Any) -> None:
    """Nobody asks for it: its worker has to tell."""
    (target,), (source,) = names_of(0, 1, "anew-dead-{}"), names_of(1, 1, "anew-source-{}")
    dead = create(sqs, target)
    policy = {"deadLetterTargetArn": arn_of(sqs, dead), "maxReceiveCount": "1"}
    url = create(sqs, source, RedrivePolicy=json.dumps(policy))
    sqs.delete_queue(QueueUrl=dead)
    sqs.send_message(QueueUrl=url, MessageBody="dies")
    for _ in range(3):
        assert sqs.receive_message(QueueUrl=url, VisibilityTimeout=0)["Messages"]
    create(sqs, target)
    eventually(
        "the letter leaves",
        lambda: "Messages" not in sqs.receive_message(QueueUrl=url, VisibilityTimeout=0),
    )
    assert [message["Body"] for message in take(sqs, dead, 1)] == ["dies"]


@pytest.mark.parametrize("piece_bytes", [7, 1_000, 1_000_000])
@pytest.mark.parametrize("worker", BOTH)
def test_a_connection_goes_to_the_worker_of_its_first_queue_with_all_that_was_sent(
    node: Node, sqs: Any, worker: int, piece_bytes: int
) -> None:
    """Requests in many pieces and many requests in one, and then a queue of the other worker."""
    (own,), (other,) = names_of(worker, 1, "moved-{}"), names_of(1 - worker, 1, "moved-{}")
    for name in (own, other):
        create(sqs, name)
    before = metric(node, MOVED)
    large = 5_000 if piece_bytes < 100 else 400_000
    bodies = ["small", "x" * large, "last"]
    connections = [RawClient(node) for _ in range(6)]
    for connection in connections:
        requests = [connection.send_request(own, body) for body in bodies]
        connection.write(b"".join(requests), piece_bytes)
    for connection in connections:
        answered = [answer["MD5OfMessageBody"] for answer in connection.answers(len(bodies))]
        assert answered == list(map(md5_of, bodies))
        connection.write(connection.send_request(other, "elsewhere"), piece_bytes)
        assert [answer["MD5OfMessageBody"] for answer in connection.answers(1)] == [
            md5_of("elsewhere")
        ]
        connection.close()
    assert before <= metric(node, MOVED) <= before + len(connections)


def test_connections_are_handed_over(node: Node, sqs: Any) -> None:
    """The system chooses who accepts a connection, so in the end some are at the wrong worker."""
    names = [names_of(worker, 1, "often-{}")[0] for worker in BOTH]
    for name in names:
        create(sqs, name)
    before = metric(node, MOVED)

    def send_on_new_connections() -> bool:
        for name in names:
            connection = RawClient(node)
            connection.write(connection.send_request(name, "x"), 1_000)
            list(connection.answers(1))
            connection.close()
        return metric(node, MOVED) >= before + 3

    eventually("connections are handed over", send_on_new_connections)


# --- the admin listener ------------------------------------------------------------------------


@pytest.mark.parametrize("worker", BOTH)
def test_the_admin_listener_knows_the_queues_of_both(node: Node, sqs: Any, worker: int) -> None:
    (name,) = names_of(worker, 1, "admin-{}")
    sqs.send_message(QueueUrl=create(sqs, name), MessageBody="seen")
    path = f"/api/v1/queues/000000000000/{REGION}/{name}"
    assert json.loads(admin(node, path))["messages"]["visible"] == 1
    assert json.loads(admin(node, path + "/messages"))["messages"][0]["body"] == "seen"
    listed = json.loads(admin(node, f"/api/v1/queues?prefix={name}"))["queues"]
    assert [queue["name"] for queue in listed] == [name]
    with pytest.raises(HTTPError, match="400"):
        admin(node, path + "/messages?cursor=none")
    with pytest.raises(HTTPError, match="404"):
        admin(node, path + "-missing")


def test_messages_of_a_partitioned_queue_are_seen_wherever_they_are(node: Node, sqs: Any) -> None:
    attributes = {"FifoQueue": "true", "FifoThroughputLimit": "perMessageGroupId"}
    name = "peeked.fifo"
    url = create(sqs, name, **attributes, DeduplicationScope="messageGroup")
    sent = {f"body-{number}" for number in range(20)}
    for body in sent:
        sqs.send_message(
            QueueUrl=url, MessageBody=body, MessageGroupId=body, MessageDeduplicationId=body
        )
    seen: set[str] = set()
    cursor: str | None = ""
    while cursor is not None:
        path = f"/api/v1/queues/000000000000/{REGION}/{name}/messages?limit=100&cursor={cursor}"
        page = json.loads(admin(node, path))
        seen |= {message["body"] for message in page["messages"]}
        cursor = page.get("cursor")
    assert seen == sent


def test_the_admin_listener_counts_what_all_workers_do(node: Node) -> None:
    groups = {f'fastnode_raft_applied{{group="{group}"}}' for group in range(8)}
    shown = {line.split(" ")[0] for line in admin(node, "/metrics").splitlines()}
    assert groups <= shown
    status = json.loads(admin(node, "/api/v1/cluster"))
    assert status["verdict"] == "healthy"
    assert [row["group"] for row in status["groups"]] == list(range(8))


def test_nobody_can_be_added_to_it(node: Node) -> None:
    request = Request(
        node.admin_url + "/api/v1/cluster/members",
        json.dumps({"node": 2, "raft": "127.0.0.1:9"}).encode(),
        {"Content-Type": "application/json"},
    )
    with pytest.raises(HTTPError, match="409") as refused:
        urlopen(request, timeout=60)
    assert "--workers 1" in refused.value.read().decode()


def test_two_nodes_with_workers_do_not_share_an_address(node: Node) -> None:
    """The system would let them."""
    address = node.sqs_url.removeprefix("http://")
    other = node.data_dir.with_name("other")
    code, line = refused_start(other, *WORKERS, "--listen", address)
    assert code == 1
    assert "stop what uses it or choose another address" in line


def test_names_belong_to_the_workers_that_the_tests_think() -> None:
    assert [owner_of(name) for name in names_of(1, 3)] == [1, 1, 1]
