"""Whoever asks learns how a receive spent its budget; nobody else is told."""

import json
import re

from tests.unit.http.lanes import URL, Front, post

RECEIVE = json.dumps({"QueueUrl": URL, "MaxNumberOfMessages": 10}).encode()
EXPLANATION = re.compile(
    rb"\r\nX-Fastnode-Receive: partitions=(\d+);rows=(\d+);us=(\d+);remote=(\d+)\r\n"
)


def received(front: Front, *headers: bytes) -> re.Match[bytes] | None:
    begun = len(front.transport.written)
    front.send(post(RECEIVE, *headers, target=b"ReceiveMessage"))
    answer = front.transport.written[begun:]
    assert answer.startswith(b"HTTP/1.1 200 ")
    return EXPLANATION.search(answer)


def test_a_receive_explains_itself_when_asked() -> None:
    front = Front(uses_lane=False)
    for body in ("a", "b", "c"):
        front.world.send("q", body)
    asked = received(front, b"X-Fastnode-Explain: 1")
    assert asked is not None
    assert [int(value) for value in asked.groups()] == [1, 3, 0, 0], "time stands still here"


def test_an_empty_receive_explains_itself_too() -> None:
    asked = received(Front(uses_lane=False), b"X-Fastnode-Explain: 1")
    assert asked is not None and asked[2] == b"0"


def test_nobody_else_is_told() -> None:
    front = Front(uses_lane=False)
    assert received(front) is None
    assert received(front, b"X-Fastnode-Explain: 0") is None
