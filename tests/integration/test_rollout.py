"""Real nodes with and without a capability: their health pages, what CreateQueue says, what a
partition map allows, and what the log tells the operator and nobody else.
"""

import http.client
import json
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ClientError

from tests.nodes import Node, boto3_client, refused_start

FIFO = {"FifoQueue": "true"}
FAST = FIFO | {"DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}
REFUSAL = (
    "High throughput for FIFO queues, with more than one partition, is not available at the moment."
)
LOG_SECONDS = 60.0


def fetch(node: Node, method: str, path: str, **headers: str) -> tuple[int, str | None, bytes]:
    address = urlsplit(node.sqs_url)
    connection = http.client.HTTPConnection(address.netloc, timeout=60)
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    answer = response.status, response.getheader("Content-Type"), response.read()
    connection.close()
    return answer


def create(node: Node, name: str, attributes: dict[str, str]) -> str:
    url: str = boto3_client(node.sqs_url).create_queue(QueueName=name, Attributes=attributes)[
        "QueueUrl"
    ]
    return url


def refusal(node: Node, name: str, attributes: dict[str, str]) -> tuple[int, str, str]:
    with pytest.raises(ClientError) as caught:
        create(node, name, attributes)
    answer: Any = caught.value.response
    return (
        answer["ResponseMetadata"]["HTTPStatusCode"],
        answer["Error"]["Code"],
        answer["Error"]["Message"],
    )


def logged(node: Node, text: str) -> str:
    """The line of the node's log with the text, once it is there."""
    deadline = time.monotonic() + LOG_SECONDS
    while time.monotonic() < deadline:
        for line in node.stderr_tail().splitlines():
            if text in line:
                return line
        time.sleep(0.02)
    raise AssertionError(f"{text!r} is not in the log:\n{node.stderr_tail()}")


@pytest.fixture(scope="module")
def capable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    keys = tmp_path_factory.mktemp("capable") / "keys.json"
    keys.write_text(json.dumps({"credentials": [key_row()]}))
    keys.chmod(0o600)
    with Node(keys.parent / "data", "--credentials", str(keys)) as node:
        yield node


def key_row() -> dict[str, str]:
    return {"access_key_id": "test", "secret_access_key": "test"}


@pytest.fixture(scope="module")
def incapable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    data = tmp_path_factory.mktemp("incapable") / "data"
    with Node(data, "--without-capability", "htfifo") as node:
        yield node


def test_health_needs_no_signature(capable: Node) -> None:
    text = (200, "text/plain; charset=utf-8", b"ok\n")
    assert fetch(capable, "GET", "/sqs_health") == text
    assert fetch(capable, "GET", "/sqs_leader_health") == text
    assert fetch(capable, "HEAD", "/sqs_health")[::2] == (200, b"")
    assert fetch(capable, "POST", "/sqs_health")[0] == 405
    assert fetch(capable, "GET", "/?Action=ListQueues")[0] == 403


def test_health_tells_what_the_node_can_do(capable: Node, incapable: Node) -> None:
    bodies = [
        fetch(node, "GET", "/sqs_health", Accept="application/json")[1:]
        for node in (capable, incapable)
    ]
    assert bodies == [
        ("application/json", b'{"status":"ok","capabilities":["htfifo","dedup"]}\n'),
        ("application/json", b'{"status":"ok","capabilities":["dedup"]}\n'),
    ]


def test_a_node_that_asks_itself_is_admitted(capable: Node) -> None:
    url = create(capable, "fast.fifo", FAST)
    assert create(capable, "fast.fifo", FAST) == url
    assert create(capable, "counted.fifo", FAST | {"PartitionCount": "32"}).endswith("counted.fifo")


def test_a_node_without_the_capability_refuses_and_says_why_in_its_log(incapable: Node) -> None:
    assert refusal(incapable, "fast.fifo", FAST) == (400, "InvalidAttributeValue", REFUSAL)
    line = logged(incapable, "a partitioned queue is refused")
    assert "queue=fast.fifo partitions=8" in line
    assert 'reason="this node runs without htfifo"' in line


@pytest.mark.parametrize(
    ("name", "attributes"), [("plain", {}), ("one.fifo", FAST | {"PartitionCount": "1"})]
)
def test_queues_of_one_partition_need_no_capability(
    incapable: Node, name: str, attributes: dict[str, str]
) -> None:
    assert create(incapable, name, attributes).endswith(name)


def test_a_queue_that_exists_outlives_the_capability(tmp_path: Path) -> None:
    with Node(tmp_path / "data") as node:
        create(node, "fast.fifo", FAST)
        assert node.stop() == 0
    with Node(tmp_path / "data", "--without-capability", "htfifo") as node:
        assert create(node, "fast.fifo", FAST).endswith("fast.fifo")
        assert refusal(node, "other.fifo", FAST)[1] == "InvalidAttributeValue"
        line = logged(node, "leading a group with partitions without htfifo")
        assert 'reason="no other voter can be reached"' in line
        assert fetch(node, "GET", "/sqs_leader_health")[0] == 200
        assert node.stop() == 0


def test_a_map_must_have_room_for_every_partition(tmp_path: Path) -> None:
    with Node(tmp_path / "data", "--partition-map", "fast.fifo:2=0,1") as node:
        counted = FAST | {"PartitionCount": "2"}
        assert refusal(node, "fast.fifo", FAST) == (400, "InvalidAttributeValue", REFUSAL)
        assert "the partition map has fewer groups" in logged(node, "is refused")
        assert create(node, "fast.fifo", counted).endswith("fast.fifo")
        assert create(node, "other.fifo", FAST).endswith("other.fifo")


def test_a_map_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    code, stderr = refused_start(
        tmp_path / "data", "--groups", "2", "--partition-map", "fast.fifo:2=0,2"
    )
    assert code == 2
    assert "--partition-map: fast.fifo is in group '2': write numbers from 0 to 1" in stderr


def test_a_capability_nobody_knows_stops_the_start(tmp_path: Path) -> None:
    code, stderr = refused_start(tmp_path / "data", "--without-capability", "htfif")
    assert code == 2
    assert "--without-capability must be empty or one of htfifo, dedup, not 'htfif'" in stderr


@pytest.mark.parametrize(
    ("flags", "gates"),
    [
        ((), ("1", "1")),
        (("--dedup-batch-send=false",), ("0", "1")),
        (("--dedup-sdk-retries", "false"), ("1", "0")),
        (("--without-capability", "dedup"), ("0", "0")),
    ],
)
def test_the_gates_of_a_node_that_is_alone_are_as_it_was_told(
    tmp_path: Path, flags: tuple[str, ...], gates: tuple[str, str]
) -> None:
    with Node(tmp_path / "data", *flags) as node:
        shown = metrics(node)
        names = ("dedup_batch_send", "dedup_sdk_retries")
        assert tuple(shown[f'fastnode_retry_gate{{gate="{name}"}}'] for name in names) == gates
        assert "retries are" not in node.stderr_tail()


def test_what_is_remembered_of_calls_is_on_the_metrics_page(capable: Node) -> None:
    create(capable, "remembered", {})
    shown = metrics(capable)
    assert int(shown["fastnode_requests_remembered"]) > 0
    assert shown['fastnode_retry_window_seconds{class="server_attempts"}'] == "60.0"
    assert shown['fastnode_retry_window_seconds{class="client_retries"}'] == "300.0"
    assert {"fastnode_calls_repeated_total", "fastnode_calls_recognised_total"} <= shown.keys()


def metrics(node: Node) -> dict[str, str]:
    with urllib.request.urlopen(f"{node.admin_url}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return dict(line.rsplit(" ", 1) for line in lines)


def test_a_declared_queue_with_partitions_is_there_at_the_start(tmp_path: Path) -> None:
    """Before the node can be asked by anybody, itself included."""
    config = tmp_path / "node.toml"
    lines = [f'{name} = "{value}"' for name, value in FAST.items()]
    config.write_text('[queues."fast.fifo"]\n' + "\n".join(lines))
    with Node(tmp_path / "data", "--config", str(config)) as node:
        url = boto3_client(node.sqs_url).get_queue_url(QueueName="fast.fifo")["QueueUrl"]
        assert url.endswith("fast.fifo")
