"""The contract, section 0.2: the two limits that take many calls to reach."""

import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.conformance import kinds
from tests.conformance.client import JSON_TYPE, Client, claim
from tests.conformance.contract import covers
from tests.conformance.kit import arn_of, counts, new_queue, receive, redrive_policy, send
from tests.nodes import Node

IN_FLIGHT = 120_000
PIPELINED = 200
BATCH = 10


def request_bytes(action: str, members: dict[str, object]) -> bytes:
    body = json.dumps(members).encode()
    head = (
        f"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON_TYPE}\r\n"
        f"X-Amz-Target: AmazonSQS.{action}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def pipeline(url: str, request: bytes, count: int) -> None:
    """Send one request many times over, a window at a time, and count the answers."""
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
        for first in range(0, count, PIPELINED):
            window = min(PIPELINED, count - first)
            connection.sendall(request * window)
            answered, tail = 0, b""
            while answered < window:
                part = connection.recv(1 << 20)
                assert part, "the node closed the connection"
                seen = tail + part
                answered += seen.count(b"HTTP/1.1 200 ")
                assert b"HTTP/1.1 4" not in seen, seen[:500]
                # One byte short of a status line: what is cut is seen whole, what was seen is not.
                tail = seen[-12:]


@pytest.fixture(scope="session")
def full_queue(node: Node) -> Iterator[str]:
    """A queue with as many messages in flight as it may have, and one that waits."""
    client = Client(node.sqs_url, "json")
    queue = new_queue(client)
    entries = [{"Id": str(number), "MessageBody": "x"} for number in range(BATCH)]
    sent = request_bytes("SendMessageBatch", {"QueueUrl": queue, "Entries": entries})
    pipeline(node.sqs_url, sent, IN_FLIGHT // BATCH)
    taken = {"QueueUrl": queue, "MaxNumberOfMessages": BATCH, "VisibilityTimeout": 43_200}
    pipeline(node.sqs_url, request_bytes("ReceiveMessage", taken), IN_FLIGHT // BATCH)
    while counts(client, queue)[1] < IN_FLIGHT:
        assert receive(client, queue, VisibilityTimeout=43_200)
    send(client, queue)
    yield queue
    client.close()


@covers("0.2.in-flight-standard", "2.2.receive.over-limit", "1.6.over-limit")
def test_a_queue_with_too_many_messages_in_flight_refuses_a_short_poll(
    sqs: Client, full_queue: str
) -> None:
    assert counts(sqs, full_queue) == (1, IN_FLIGHT, 0)
    sqs.refused("ReceiveMessage", QueueUrl=full_queue).assert_is(kinds.OVER_LIMIT)


@covers("0.2.move-active")
def test_an_account_has_a_hundred_active_tasks(sqs: Client) -> None:
    own = sqs.another(claim("555555555555" if sqs.is_json else "666666666666"))
    entries = [{"Id": str(number), "MessageBody": "x"} for number in range(BATCH)]

    def slow_source() -> dict[str, str | int]:
        queue = new_queue(own)
        new_queue(own, RedrivePolicy=redrive_policy(queue))
        own.call("SendMessageBatch", QueueUrl=queue, Entries=entries)
        destination = arn_of(new_queue(own))
        return {
            "SourceArn": arn_of(queue),
            "DestinationArn": destination,
            "MaxNumberOfMessagesPerSecond": 1,
        }

    sources = [slow_source() for _ in range(101)]
    handles = [own.call("StartMessageMoveTask", **one)["TaskHandle"] for one in sources[:100]]
    own.refused("StartMessageMoveTask", **sources[100]).assert_is(kinds.OVER_LIMIT)
    for handle in handles:
        own.call("CancelMessageMoveTask", TaskHandle=handle)
