"""A world behind a router, with the short ways of requests or without them, and what to send it."""

import itertools
import json
import logging
from typing import Any

from fastnode.http.batch_lane import BATCH_TARGET
from fastnode.http.identity import IdentitySettings
from fastnode.http.router import Router
from fastnode.http.send_lane import TARGET
from fastnode.queue.operations import OPERATIONS
from tests.unit.http.http_fakes import Node
from tests.world import ACCOUNT, ENDPOINT, World

AUTHORIZATION = (
    b"AWS4-HMAC-SHA256 Credential=AKID/20250101/us-east-1/sqs/aws4_request, SignedHeaders=host, "
    b"Signature=00"
)
URL = f"{ENDPOINT}/{ACCOUNT}/q"


class Front:
    """A world behind a router and one connection; everything in it is determined."""

    def __init__(self, *, uses_lane: bool) -> None:
        self.world = World()
        self.world.create(MaximumMessageSize="1024")
        self.world.create("late", DelaySeconds="5")
        self.world.create("ordered.fifo", FifoQueue="true", ContentBasedDeduplication="true")
        self.world.create("strict.fifo", FifoQueue="true", MaximumMessageSize="1024")
        self.world.create(
            "parts.fifo",
            FifoQueue="true",
            DeduplicationScope="messageGroup",
            FifoThroughputLimit="perMessageGroupId",
            PartitionCount="4",
        )
        numbers = itertools.count(1)
        settings = IdentitySettings("us-east-1", ENDPOINT)
        self.router = Router(
            *(OPERATIONS, self.world.service, settings),
            lambda: f"request-{next(numbers)}",
            logging.getLogger("fastnode.test"),
        )
        self.lane_uses = 0
        self.node = Node()
        self.node.server.respond = self.router.respond
        self.connection, self.transport = self.node.connect()
        for target in (TARGET, BATCH_TARGET):
            self._watch(self.router._lanes[target])
        if not uses_lane:
            self.router._lanes.clear()

    def _watch(self, lane: Any) -> None:
        sent = lane._sent

        def counted(*arguments: Any) -> bool:
            is_sent: bool = sent(*arguments)
            self.lane_uses += is_sent
            return is_sent

        lane._sent = counted

    def send(self, raw: bytes) -> None:
        self.connection.data_received(raw)
        self.world.commit()

    def rows(self) -> list[tuple[bytes, bytes]]:
        return self.world.engine.scan(b"", b"\xff", 10_000)


def post(body: bytes, *headers: bytes, target: bytes = b"SendMessage") -> bytes:
    lines = [
        b"POST / HTTP/1.1",
        b"Host: localhost:9324",
        b"Authorization: " + AUTHORIZATION,
        b"Content-Type: application/x-amz-json-1.0",
        b"X-Amz-Target: AmazonSQS." + target,
        b"Content-Length: %d" % len(body),
        *headers,
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def message(**members: object) -> bytes:
    return json.dumps({"QueueUrl": URL} | members).encode()


# What makes a client known and a queue live: the first request always takes the long way.
FIRST = post(message(MessageBody="first"))


def compare(requests: list[bytes]) -> Front:
    short, long = Front(uses_lane=True), Front(uses_lane=False)
    for front in (short, long):
        for request in (FIRST, FIRST, *requests):
            front.send(request)
    assert short.transport.written == long.transport.written
    assert short.rows() == long.rows()
    return short
