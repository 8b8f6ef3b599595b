"""A world behind a router, and clients whose SDKs repeat calls: request bytes in, answers out.

Every request has a connection of its own, so that one attempt may wait while another is made.
"""

import itertools
import json
import logging
import re
from typing import Any, NamedTuple

from fastnode.http.batch_lane import BATCH_TARGET
from fastnode.http.identity import IdentitySettings
from fastnode.http.router import Router
from fastnode.http.send_lane import TARGET
from fastnode.queue.operations import OPERATIONS
from tests.unit.http.http_fakes import FakeTransport, Node
from tests.world import ACCOUNT, ENDPOINT, World

NUMBERED = re.compile(rb"request-\d+")
AUTHORIZATION = (
    "AWS4-HMAC-SHA256 Credential={key}/20250101/us-east-1/sqs/aws4_request, SignedHeaders=host, "
    "Signature=00"
)
QUEUES: dict[str, dict[str, str]] = {
    "q": {},
    "ordered.fifo": {"FifoQueue": "true", "ContentBasedDeduplication": "true"},
    "parts.fifo": {
        "FifoQueue": "true",
        "ContentBasedDeduplication": "true",
        "DeduplicationScope": "messageGroup",
        "FifoThroughputLimit": "perMessageGroupId",
        "PartitionCount": "4",
    },
}


class Answer(NamedTuple):
    """`text` is all of it but the request's id."""

    status: int
    text: bytes
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Asked:
    """A request that was sent."""

    def __init__(self, transport: FakeTransport) -> None:
        self.transport = transport

    @property
    def is_answered(self) -> bool:
        return bool(self.transport.written)

    @property
    def answer(self) -> Answer:
        written = NUMBERED.sub(b"request", self.transport.written)
        head, _, body = written.partition(b"\r\n\r\n")
        return Answer(int(head.split()[1]), written, body)


def url_of(name: str) -> str:
    return f"{ENDPOINT}/{ACCOUNT}/{name}"


def sdk(invocation: str, attempt: int) -> list[str]:
    """What an SDK says of each attempt of a call."""
    return [
        f"amz-sdk-invocation-id: {invocation}",
        f"amz-sdk-request: attempt={attempt}; max=3",
    ]


def request_bytes(content_type: str, body: bytes, key: str, *headers: str) -> bytes:
    lines = [
        "POST / HTTP/1.1",
        "Host: localhost:9324",
        f"Authorization: {AUTHORIZATION.format(key=key)}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class RepeatsFront:
    """Its client is known, and its queues are live: what can take the short way does."""

    def __init__(self, *, uses_lane: bool = True, groups: int = 1) -> None:
        self.world = World(groups=groups)
        self._uses_lane = uses_lane
        self._numbers = itertools.count(1)
        self.lane_uses = 0
        for name, attributes in QUEUES.items():
            self.world.create(name, **attributes)
        self._wire()

    def _wire(self) -> None:
        self.router = Router(
            *(OPERATIONS, self.world.service, IdentitySettings("us-east-1", ENDPOINT)),
            lambda: f"request-{next(self._numbers)}",
            logging.getLogger("fastnode.test"),
        )
        for target in (TARGET, BATCH_TARGET):
            self._watch(self.router._lanes[target])
        if not self._uses_lane:
            self.router._lanes.clear()
        for name in QUEUES:
            self.ask("GetQueueAttributes", {"QueueUrl": url_of(name)}, invocation=None)

    def _watch(self, lane: Any) -> None:
        sent = lane._sent

        def counted(*arguments: Any) -> bool:
            is_sent: bool = sent(*arguments)
            self.lane_uses += is_sent
            return is_sent

        lane._sent = counted

    def restart(self) -> None:
        """Memory is gone, and whoever called."""
        self.world.crash()
        self._wire()

    # --- requests ------------------------------------------------------------------------------

    def begin_raw(self, raw: bytes) -> Asked:
        node = Node()
        node.server.respond = self.router.respond
        connection, transport = node.connect()
        connection.data_received(raw)
        return Asked(transport)

    def begin(
        self,
        action: str,
        members: dict[str, Any],
        *,
        invocation: str | None = "one",
        attempt: int = 1,
        key: str = "AKID",
    ) -> Asked:
        headers = [] if invocation is None else sdk(invocation, attempt)
        target = f"X-Amz-Target: AmazonSQS.{action}"
        body = json.dumps(members).encode()
        return self.begin_raw(
            request_bytes("application/x-amz-json-1.0", body, key, target, *headers)
        )

    def ask(self, action: str, members: dict[str, Any], **how: Any) -> Answer:
        asked = self.begin(action, members, **how)
        self.world.commit()
        return asked.answer

    def again(self, action: str, members: dict[str, Any], **how: Any) -> Answer:
        """The same call, as the SDK repeats it."""
        return self.ask(action, members, **({"attempt": 2} | how))

    # --- what is there -------------------------------------------------------------------------

    def rows(self) -> list[list[tuple[bytes, bytes]]]:
        return [engine.scan(b"", b"\xff", 10_000) for engine in self.world.engines]

    def counts(self, name: str = "q") -> tuple[int, int, int]:
        return self.world.counts(url_of(name))

    def bodies(self, name: str = "q", timeout: int = 30) -> list[str]:
        found: list[str] = []
        while messages := self.world.receive(url_of(name), timeout=timeout):
            found += [message.body for message in messages]
        return found

    def visible_at(self, name: str) -> set[int]:
        """The moments until which messages of the queue are hidden."""
        queue = self.world.service.find(ACCOUNT, "us-east-1", name)
        assert queue is not None
        keys = queue.messages
        begin, end = keys.timer_key(0, 0), keys.timer_key((1 << 64) - 1, 0)
        return {keys.timer_of(key)[0] for key in queue.group.scan_keys(begin, end, 100)}

    def set_attributes(self, name: str, **attributes: str) -> None:
        members = {"QueueUrl": url_of(name), "Attributes": attributes}
        assert self.ask("SetQueueAttributes", members, invocation=None).status == 200
