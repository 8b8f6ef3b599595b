"""A client of the simulation: HTTP by hand over simulated connections, with the retries of an SDK.

It speaks bytes, so what it gets is what the node's own parser, codec and connection wrote.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, NamedTuple

from tests.model.spans import Span
from tests.sim.clockwork import SimLoop

ACCESS_KEY: Final = "AKIDSIM"
_DIAL_SECONDS: Final = 2.0
# Longer than the longest receive waits.
ANSWER_SECONDS: Final = (5.0, 26.0)
_HEAD: Final = (
    "POST / HTTP/1.1\r\nHost: {host}:9324\r\nContent-Type: application/x-amz-json-1.0\r\n"
    "X-Amz-Target: AmazonSQS.{action}\r\nContent-Length: {length}\r\n"
    "Authorization: AWS4-HMAC-SHA256 Credential=AKIDSIM/20231114/us-east-1/sqs/aws4_request, "
    "SignedHeaders=host, Signature=0\r\n"
    "amz-sdk-invocation-id: {invocation}\r\namz-sdk-request: attempt={attempt}; max=9\r\n\r\n"
)


class Answer(NamedTuple):
    """`code` is empty when the call succeeded, and "Unknown" when nobody can tell."""

    code: str
    body: dict[str, Any]
    text: str = ""
    attempts: int = 1
    # When the last attempt was begun.
    tried_ns: int = 0

    @property
    def is_unknown(self) -> bool:
        return self.code == "Unknown"


UNKNOWN: Final = Answer("Unknown", {}, attempts=2)


class _Wire(asyncio.Protocol):
    """One connection; one request at a time."""

    def __init__(self) -> None:
        self._received = b""
        self._waiting: asyncio.Future[tuple[int, bytes]] | None = None
        self.is_open = False
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, rest = self._received.partition(b"\r\n\r\n")
        if not separator:
            return
        lines = head.lower().split(b"\r\n")
        length = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
        if len(rest) < length:
            return
        self._received = rest[length:]
        if b"connection: close" in lines:
            self.is_open = False
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result((int(head.split(b" ", 2)[1]), rest[:length]))

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ConnectionError("the connection was lost"))

    @property
    def is_busy(self) -> bool:
        return self._waiting is not None

    async def exchange(self, request: bytes) -> tuple[int, bytes]:
        assert self._waiting is None, "one request at a time"
        self._waiting = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        try:
            return await self._waiting
        finally:
            self._waiting = None


class Client:
    """Calls nodes in a random order; `hosts` tells which it knows."""

    def __init__(
        self, name: str, loop: SimLoop, random: Random, hosts: Callable[[], Sequence[str]]
    ) -> None:
        self.name = name
        self.random = random
        self._loop = loop
        self._hosts = hosts
        self._wires: dict[str, _Wire] = {}
        self.attempts = 8
        # One in so many attempts is left before its answer comes.
        self.leaves = 0
        self.patience = ANSWER_SECONDS[-1]
        # How many of its attempts go to any node; the others to the one that answered last.
        self.wanders = 1.0
        self._home = ""
        # Whether it tries again at once, somewhere, before anybody knows that it has left.
        self.is_hasty = False

    async def call(
        self, action: str, request: dict[str, Any], repeated: Sequence[Span] = ()
    ) -> Answer:
        """With the retries of an SDK: the same invocation id every time. `repeated` are told so."""
        invocation = self.random.randbytes(16).hex()
        for attempt in range(1, self.attempts + 1):
            host = self._choose()
            head = _HEAD.format(
                host=host,
                action=action,
                length=len(json.dumps(request).encode()),
                invocation=invocation,
                attempt=attempt,
            )
            self._loop.work.note(f"{self.name} tries {action} at {host}, {invocation} {attempt}")
            for span in repeated if attempt > 1 else ():
                span.repeats += 1
            tried_ns = self._loop.work.now_ns
            answer = await self._attempt(host, head.encode() + json.dumps(request).encode())
            if not answer.is_unknown:
                self._home = host
                return answer._replace(attempts=attempt, tried_ns=tried_ns)
            if attempt > 1 or not self.is_hasty:
                await asyncio.sleep(min(0.05 * 2**attempt, 2.0) * (0.5 + self.random.random()))
        return UNKNOWN

    def _choose(self) -> str:
        hosts = self._hosts()
        if self._home in hosts and self.random.random() >= self.wanders:
            return self._home
        self._home = ""
        return self.random.choice(hosts)

    async def _attempt(self, host: str, request: bytes) -> Answer:
        patience = self.patience
        if self.leaves and self.random.randrange(self.leaves) == 0:
            # Mostly about as long as an answer takes, so that some of them just get lost.
            patience = self.random.random() * self.random.choice((0.004, 0.012, 0.5))
        try:
            async with asyncio.timeout(patience):
                wire = await self._wire(host)
                status, body = await wire.exchange(request)
        except (OSError, TimeoutError) as error:
            self._loop.work.note(f"{self.name} has no answer from {host}: {error!r}")
            self._hang_up(host)
            return UNKNOWN
        if status == 200:
            return Answer("", json.loads(body) if body else {})
        if status in (408, 503):
            self._loop.work.note(f"{self.name} gets {status} from {host}: {body!r}")
            return UNKNOWN
        failure = json.loads(body)
        return Answer(failure["__type"].rpartition("#")[2], {}, failure.get("message", ""))

    async def _wire(self, host: str) -> _Wire:
        wire = self._wires.get(host)
        if wire is None or not wire.is_open or wire.is_busy:
            async with asyncio.timeout(_DIAL_SECONDS):
                _, wire = await self._loop.create_connection(_Wire, host, 9324)
            assert wire is not None
            self._wires[host] = wire
        return wire

    def _hang_up(self, host: str) -> None:
        wire = self._wires.pop(host, None)
        if wire is not None and wire.transport is not None:
            wire.transport.abort()
