"""A world behind a router, with the short ways of receives and deletes or without them."""

import itertools
import json
import logging
import re
from typing import Any, Final

from msgspec.structs import replace

from fastnode.http.identity import IdentitySettings
from fastnode.http.router import HANDOUT_LANES, Router
from fastnode.queue import api
from fastnode.queue.operations import OPERATIONS
from tests.unit.http.http_fakes import Node
from tests.world import ACCOUNT, ENDPOINT, World

CREDENTIAL: Final = b"AWS4-HMAC-SHA256 Credential=AKID/20250101/us-east-1/sqs/aws4_request, S=0"
URL: Final = f"{ENDPOINT}/{ACCOUNT}/q"
NUMBERED: Final = re.compile(rb"request-\d+")
HANDLE: Final = re.compile(rb'"ReceiptHandle":"([^"]+)"')


class Front:
    """A world behind a router and one connection; everything in it is determined."""

    def __init__(self, *, uses_lane: bool, suffix: str = "") -> None:
        self.world = World()
        self.is_fifo = suffix == ".fifo"
        kind = {"FifoQueue": "true"} if self.is_fifo else {}
        arn = f"arn:aws:sqs:us-east-1:{ACCOUNT}:dead{suffix}"
        dead = {"deadLetterTargetArn": arn, "maxReceiveCount": 2}
        self.world.create("dead" + suffix, **kind)
        attributes = {"RedrivePolicy": json.dumps(dead), "MessageRetentionPeriod": "60"}
        self.url = self.world.create("q" + suffix, **attributes, **kind)
        self._sent = itertools.count()
        numbers = itertools.count(1)
        self.router = Router(
            *(OPERATIONS, self.world.service, IdentitySettings("us-east-1", ENDPOINT)),
            lambda: f"request-{next(numbers)}",
            logging.getLogger("fastnode.test"),
        )
        self.node = Node()
        self.node.server.respond = self.router.respond
        self.connection, self.transport = self.node.connect()
        self.lane_uses = 0
        self._watch(uses_lane=uses_lane)
        # What makes the client known: the first request always takes the long way.
        self.ask("ListQueues")

    def _watch(self, *, uses_lane: bool) -> None:
        def counted(way: Any) -> Any:
            def take(*arguments: Any) -> bool:
                is_taken: bool = way(*arguments)
                self.lane_uses += is_taken
                return is_taken

            return take

        lanes: Any = self.router._lanes
        for target in HANDOUT_LANES:
            lane = lanes[target]
            lane._begin = counted(lane._begin)
            if not uses_lane:
                del lanes[target]

    def begin(self, action: str, *headers: bytes, **members: object) -> None:
        self.connection.data_received(post(action, *headers, **({"QueueUrl": self.url} | members)))

    def ask(self, action: str, *headers: bytes, **members: object) -> bytes:
        """The answer."""
        before = len(self.transport.written)
        self.begin(action, *headers, **members)
        self.world.commit()
        return self.transport.written[before:]

    def send(self, *bodies: str, group: str | None = None) -> None:
        """In a FIFO queue three groups take turns."""
        for body in bodies:
            number, sent = next(self._sent), api.SendMessageRequest(self.url, body)
            if self.is_fifo:
                ids = {"message_group_id": group or f"g{number % 3}"}
                sent = replace(sent, **ids, message_deduplication_id=str(number))
            self.world.call("SendMessage", sent)

    def receive(self, **members: object) -> list[str]:
        """The handles of what was received."""
        answer = self.ask("ReceiveMessage", **({"MaxNumberOfMessages": 10} | members))
        return [handle.decode() for handle in HANDLE.findall(answer)]

    def rows(self) -> list[tuple[bytes, bytes]]:
        return self.world.engine.scan(b"", b"\xff", 10_000)


def post(action: str, *headers: bytes, **members: object) -> bytes:
    return post_body(action, json.dumps({"QueueUrl": URL} | members).encode(), *headers)


def post_body(action: str, body: bytes, *headers: bytes) -> bytes:
    lines = [
        b"POST / HTTP/1.1",
        b"Host: localhost:9324",
        b"Authorization: " + CREDENTIAL,
        b"Content-Type: application/x-amz-json-1.0",
        b"X-Amz-Target: AmazonSQS." + action.encode(),
        b"Content-Length: %d" % len(body),
        *headers,
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def entries(handles: list[str]) -> list[dict[str, str]]:
    return [{"Id": f"e-{at}", "ReceiptHandle": handle} for at, handle in enumerate(handles)]


def assert_alike(short: Front, long: Front) -> None:
    assert long.lane_uses == 0
    written = [NUMBERED.sub(b"", front.transport.written) for front in (short, long)]
    assert written[0] == written[1]
    assert short.rows() == long.rows()
    assert short.world.counts(short.url) == long.world.counts(long.url)
