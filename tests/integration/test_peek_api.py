"""The admin API of a real node: looking at messages changes nothing, and web pages stay out."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.nodes import JsonClient, Node

QUEUE = "/api/v1/queues/000000000000/us-east-1/q"
URL = "http://localhost/000000000000/q"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    path: Path = tmp_path_factory.mktemp("peek")
    with Node(path / "data") as node:
        yield node
        assert node.stop() == 0


def get(node: Node, target: str, **headers: str) -> tuple[int, Any]:
    address = urlsplit(node.admin_url)
    assert address.hostname is not None
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
    try:
        connection.request("GET", target, headers=headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_a_queue_is_looked_at_page_by_page(node: Node) -> None:
    client = JsonClient(node.sqs_url)
    client.call("CreateQueue", QueueName="q", tags={"team": "blue"})
    for number in range(25):
        client.call("SendMessage", QueueUrl=URL, MessageBody=f"m{number}")
    client.call("ReceiveMessage", QueueUrl=URL, MaxNumberOfMessages=5, VisibilityTimeout=600)
    bodies, target = [], f"{QUEUE}/messages"
    for _ in range(2):
        status, page = get(node, target)
        assert status == 200
        bodies += [message["body"] for message in page["messages"]]
        target = f"{QUEUE}/messages?cursor={page.get('cursor', '')}"
    assert bodies == [f"m{number}" for number in range(5, 25)]
    _, held = get(node, f"{QUEUE}/messages?state=in_flight&limit=100")
    assert sorted(message["body"] for message in held["messages"]) == [f"m{n}" for n in range(5)]
    assert {message["receive_count"] for message in held["messages"]} == {1}
    _, details = get(node, QUEUE)
    assert details["messages"] == {"visible": 20, "in_flight": 5, "delayed": 0}
    assert details["tags"] == {"team": "blue"}
    _, queues = get(node, "/api/v1/queues?prefix=q")
    assert queues == {"queues": [{"account": "000000000000", "region": "us-east-1", "name": "q"}]}
    client.close()


def test_strangers_are_refused(node: Node) -> None:
    assert get(node, "/api/v1/queues", Host="evil.example")[0] == 403
    assert get(node, "/api/v1/queues", Origin="http://evil.example")[0] == 403
    assert get(node, "/api/v1/queues/%2e%2e")[0] == 400
    assert get(node, f"{QUEUE}missing/messages")[0] == 404
