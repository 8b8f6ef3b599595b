"""A real node with more to do than it can: who is turned away, and that a 503 is honest.

The rules are in `tests/unit/store/test_backlog.py` and `tests/unit/http/test_shedding.py`; here are
sockets, a log and a process whose memory can be looked at.
"""

import json
import re
import resource
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from bench.server_process import parse_metrics
from fastnode.config import (
    BACKLOG_PLACES_MAX,
    HTTP_HEADER_SECONDS,
    HTTP_PIPELINE_MAX,
    HTTP_UNREAD_BYTES_MAX,
)
from tests.nodes import AUTHORIZATION, JsonClient, Node

ANSWER_SECONDS = 30.0
HEAD = re.compile(rb"HTTP/1\.1 (?P<status>\d+) (?s:.*?)Content-Length: (?P<length>\d+)\r\n\r\n")
RETRY_AFTER = re.compile(rb"\r\nRetry-After: (\w+)\r\n")
FILES = 600


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("node") / "data") as node:
        yield node
        assert node.stop() == 0, node.stderr_tail()


@pytest.fixture
def node(running: Node) -> Iterator[Node]:
    """The node with an empty queue."""
    client = JsonClient(running.sqs_url)
    client.call("CreateQueue", QueueName="q")
    client.close()
    yield running
    client = JsonClient(running.sqs_url)
    client.call("DeleteQueue", QueueUrl="q")
    client.close()


def connect(node: Node) -> socket.socket:
    address = urlsplit(node.sqs_url)
    return socket.create_connection((address.hostname, address.port), timeout=ANSWER_SECONDS)


def request(action: str, **members: object) -> bytes:
    body = json.dumps({"QueueUrl": "q", **members}).encode()
    lines = [
        b"POST / HTTP/1.1",
        b"Host: localhost",
        b"Content-Type: application/x-amz-json-1.0",
        b"X-Amz-Target: AmazonSQS." + action.encode(),
        b"Authorization: " + AUTHORIZATION.encode(),
        b"Content-Length: %d" % len(body),
    ]
    return b"\r\n".join([*lines, b"", body])


SEND = request("SendMessage", MessageBody="x")
LOOK = request("GetQueueAttributes")


def statuses(client: socket.socket, count: int) -> Counter[tuple[int, str | None]]:
    """Status and Retry-After of so many answers."""
    seen: Counter[tuple[int, str | None]] = Counter()
    received, at = b"", 0
    while seen.total() < count:
        head = HEAD.match(received, at)
        if head is not None and len(received) >= head.end() + int(head["length"]):
            after = RETRY_AFTER.search(head[0])
            seen[int(head["status"]), after and after[1].decode()] += 1
            at = head.end() + int(head["length"])
        else:
            part = client.recv(262_144)
            assert part, "the node closed the connection"
            received, at = received[at:] + part, 0
    return seen


def metrics(node: Node) -> dict[str, float]:
    with urlopen(f"{node.admin_url}/metrics", timeout=ANSWER_SECONDS) as page:
        text = page.read().decode()
    labelled = [line.rpartition(" ") for line in text.splitlines() if "{" in line]
    return parse_metrics(text) | {name: float(value) for name, _, value in labelled}


def stored(node: Node) -> int:
    client = JsonClient(node.sqs_url)
    asked = client.call("GetQueueAttributes", QueueUrl="q", AttributeNames=["All"])
    client.close()
    return int(asked["Attributes"]["ApproximateNumberOfMessages"])


def await_rest(node: Node) -> None:
    """Nothing is under way any more; a node has work of its own now and then."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while (seen := metrics(node))["fastnode_requests_under_way"] or seen["fastnode_backlog_places"]:
        assert time.monotonic() < deadline, "places are taken for nobody"
        time.sleep(0.02)


def resident_mb(node: Node) -> float:
    pages = int(Path(f"/proc/{node.process.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1_048_576


def flooded(node: Node, flood: list[socket.socket]) -> None:
    """All of it is in the sockets before the node sees any of it: however quick a node is, it reads
    what has come before it carries out the first of it.
    """
    node.process.send_signal(signal.SIGSTOP)
    try:
        for client in flood:
            client.sendall(SEND * HTTP_PIPELINE_MAX)
    finally:
        node.process.send_signal(signal.SIGCONT)


def test_a_flood_is_served_or_turned_away_and_both_answers_are_true(node: Node) -> None:
    """Twice what a node takes on, sent at once; and the node dies right afterwards."""
    clients = 2 * BACKLOG_PLACES_MAX // HTTP_PIPELINE_MAX
    with ExitStack() as stack:
        flood = [stack.enter_context(connect(node)) for _ in range(clients)]
        for client in flood:  # accepted, and read from
            client.sendall(LOOK)
            assert statuses(client, 1) == {(200, None): 1}
        before, shed_before = resident_mb(node), metrics(node)
        flooded(node, flood)
        seen = sum((statuses(client, HTTP_PIPELINE_MAX) for client in flood), Counter())
    assert seen.keys() == {(200, None), (503, "1")}
    assert seen.total() == clients * HTTP_PIPELINE_MAX
    assert resident_mb(node) - before < 200
    counts, shed = metrics(node), 'fastnode_requests_shed_total{reason="overload"}'
    assert counts[shed] - shed_before[shed] == seen[503, "1"]
    await_rest(node)
    other = JsonClient(node.sqs_url)
    other.call("SendMessage", QueueUrl="q", MessageBody="it goes on at once")
    other.close()
    assert stored(node) == seen[200, None] + 1
    node.kill()
    node.start()
    assert stored(node) == seen[200, None] + 1


def test_five_thousand_connections_are_served(node: Node) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 8_000:
        pytest.skip("this machine allows too few open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 8_000), hard))
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        crowd = [stack.enter_context(connect(node)) for _ in range(5_000)]
        for client in crowd:
            client.sendall(SEND)
        seen = sum((statuses(client, 1) for client in crowd), Counter())
        assert seen.total() == 5_000
        assert seen.keys() <= {(200, None), (503, "1")}
        assert stored(node) == seen[200, None] > 0


class FewFiles(Node):
    """A node that the system lets open few files."""

    def command(self) -> list[str]:
        return ["sh", "-c", f'ulimit -n {FILES} && exec "$@"', "sh", *super().command()]


def await_files(node: Node) -> None:
    """Until the node has seen that its clients went away."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while len(list(Path(f"/proc/{node.process.pid}/fd").iterdir())) > FILES // 4:
        assert time.monotonic() < deadline, "connections that were closed still count"
        time.sleep(0.02)


def test_a_node_keeps_files_for_itself_and_tells_those_who_find_none(tmp_path: Path) -> None:
    with FewFiles(tmp_path / "data") as node, ExitStack() as stack:
        first = JsonClient(node.sqs_url)
        first.call("CreateQueue", QueueName="q")
        crowd = [stack.enter_context(connect(node)) for _ in range(FILES - 100)]
        assert statuses(crowd[-1], 1) == {(503, "1"): 1}
        assert crowd[-1].recv(1) == b""
        first.call("SendMessage", QueueUrl="q", MessageBody="x")
        assert metrics(node)['fastnode_requests_shed_total{reason="connections"}'] >= 100
        for client in crowd:
            client.close()
        await_files(node)
        last = stack.enter_context(connect(node))
        last.sendall(SEND)
        assert statuses(last, 1) == {(200, None): 1}
        first.close()
        assert node.stop() == 0, node.stderr_tail()


def test_clients_that_never_read_cannot_fill_the_memory(node: Node) -> None:
    """Each reads a byte of an answer of ten megabytes, and all of them want more than is kept."""
    client = JsonClient(node.sqs_url)
    for _ in range(10):
        client.call("SendMessage", QueueUrl="q", MessageBody="x" * 1_000_000)
    client.call("CreateQueue", QueueName="other")
    asking = request("ReceiveMessage", VisibilityTimeout=0, MaxNumberOfMessages=10)
    before, is_cut = resident_mb(node), 'fastnode_connections_cut_total{reason="unread"}'
    with ExitStack() as stack:
        for _ in range(HTTP_UNREAD_BYTES_MAX // 2_500_000):
            deaf = stack.enter_context(connect(node))
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)  # whatever a system keeps
            deaf.sendall(asking)
            deaf.recv(1)
            client.call("SendMessage", QueueUrl="other", MessageBody="others go on")
            if metrics(node)[is_cut]:
                break
        assert metrics(node)[is_cut] > 0
        assert resident_mb(node) - before < 3 * HTTP_UNREAD_BYTES_MAX / 1_048_576
    client.close()


def test_writers_of_single_bytes_do_not_slow_others_down(node: Node) -> None:
    """In the head and in the body, three hundred of them."""
    with ExitStack() as stack:
        slow = [stack.enter_context(connect(node)) for _ in range(300)]
        body_at = SEND.index(b"\r\n\r\n") + 4
        for number, client in enumerate(slow):
            client.sendall(SEND[:body_at] if number % 2 else SEND[:10])
        other = JsonClient(node.sqs_url)
        slowest = 0.0
        for at in range(20):
            for number, client in enumerate(slow):
                # On a slow machine one that writes its head is too late in the end, and cut off.
                with suppress(ConnectionError):
                    client.send(SEND[at + (body_at if number % 2 else 10) :][:1])
            begun = time.monotonic()
            other.call("SendMessage", QueueUrl="q", MessageBody="x")
            slowest = max(slowest, time.monotonic() - begun)
        other.close()
        # A node that waited for a writer would wait as long as it lets one write a head.
        assert slowest < HTTP_HEADER_SECONDS
        assert stored(node) == 20
