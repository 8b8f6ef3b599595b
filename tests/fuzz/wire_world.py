"""A node's queue layer with its router, without sockets, disk or time: requests in, answers out.

`ask` holds for every request, whatever it says: it is answered within the longest wait, never with
a bug, in a form that a client can parse, and a refusal leaves the stored state as it was. Used by
the fuzzers; what requests they ask is theirs.
"""

import itertools
import json
import logging
from typing import Any, Final
from xml.etree import ElementTree

from fastnode.config import WAIT_SECONDS_MAX
from fastnode.http.exchange import Exchange
from fastnode.http.http1 import Request
from fastnode.http.identity import IdentitySettings
from fastnode.http.router import Router
from fastnode.native import RefusedError, take_request
from fastnode.queue.operations import OPERATIONS
from tests.world import ENDPOINT, REGION, World

JSON_TYPE: Final = b"application/x-amz-json-1.0"
FORM_TYPE: Final = b"application/x-www-form-urlencoded"
RAFT_ROWS: Final = b"!raft|"
ALWAYS: Final = (
    b"Host: localhost:9324",
    b"Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/sqs/aws4_request, "
    b"SignedHeaders=host, Signature=0",
)
Answer = tuple[int, bytes, bytes]


class Bug(Exception):
    """The node would have logged a traceback."""


class Bugs(logging.Handler):
    """Keeps what the router logs, to be raised where the request was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self.found.append(error or Bug(record.getMessage()))


class Peer:
    """The connection of a client that waits for its answer."""

    has_ended = False
    peer = ("127.0.0.1", 50_000)

    def on_answer(self, exchange: Exchange) -> None: ...

    def write_alone(self, exchange: Exchange, response: bytes) -> bool:
        return False


class Desk:
    """The router, made once because that is slow; its service is that of the latest world."""

    def __init__(self) -> None:
        self.bugs = Bugs()
        log = logging.Logger("fuzz")
        log.addHandler(self.bugs)
        numbers = itertools.count()
        self.router = Router(
            OPERATIONS,
            World().service,
            IdentitySettings(REGION, ENDPOINT),
            lambda: f"request-{next(numbers)}",
            log,
        )

    def serve(self, world: World) -> None:
        self.bugs.found.clear()
        self.router._service = world.service
        for lane in self.router._lanes.values():
            lane.service = world.service


DESK: Final = Desk()


class WireWorld:
    """One node with a queue `q`, which holds a message in flight and a message that waits."""

    def __init__(self) -> None:
        self.world = World()
        DESK.serve(self.world)
        self.queue_url = self.world.create("q")
        for body in ("in flight", "waiting"):
            self.world.send(self.queue_url, body)
        (message,) = self.world.receive(self.queue_url, 1)
        self.handle = message.receipt_handle

    def ask_json(self, action: bytes, body: bytes) -> Answer:
        headers = [b"Content-Type: " + JSON_TYPE, b"X-Amz-Target: AmazonSQS." + action]
        return self.ask_bytes(b"POST", b"/", headers, body)

    def ask_query(self, method: bytes, target: bytes, body: bytes, accept: bytes = b"") -> Answer:
        headers = [b"Content-Type: " + FORM_TYPE] + ([b"Accept: " + accept] if accept else [])
        return self.ask_bytes(method, target, headers, body)

    def ask_bytes(self, method: bytes, target: bytes, headers: list[bytes], body: bytes) -> Answer:
        """Through the parser, since it decides which bytes a target and a header may have."""
        lines = [b"%b %b HTTP/1.1" % (method, target), *ALWAYS, *headers]
        lines.append(b"Content-Length: %d" % len(body))
        try:
            taken = take_request(b"\r\n".join(lines) + b"\r\n\r\n" + body, 0, 0)
        except RefusedError as refusal:
            return refusal.status, b"", b""
        if taken is None or taken[2]:
            return 400, b"", b""
        return self.ask(taken[0])

    def ask(self, request: Request) -> Answer:
        before = self.rows()
        answer = self._answer_to(request)
        if DESK.bugs.found:
            raise DESK.bugs.found[0]
        status, headers, body = answer
        assert 200 <= status < 500, answer
        assert status < 300 or self.rows() == before, "a refused request changed the state"
        _check_form(headers, body)
        return answer

    def rows(self) -> dict[bytes, bytes]:
        """What is stored, without the log's own rows: they move with every entry."""
        rows: dict[bytes, bytes] = {}
        for engine in self.world.engines:
            rows |= engine.scan(b"", b"\xff" * 16, 1_000_000)
        return {key: value for key, value in rows.items() if not key.startswith(RAFT_ROWS)}

    def require_service(self) -> None:
        """Whatever was asked, a message still makes its way."""
        url = self.world.create("after")
        self.world.send(url, "still here")
        (message,) = self.world.receive(url)
        self.world.delete(url, message.receipt_handle)

    def _answer_to(self, request: Request) -> Answer:
        exchange = Exchange(Peer(), request)
        DESK.router.respond(request, exchange)
        self.world.commit()
        waited = 0
        while exchange.answer is None:
            assert waited <= WAIT_SECONDS_MAX, "the request hangs"
            self.world.advance(1_000)
            waited += 1
        return exchange.answer


def _check_form(headers: bytes, body: bytes) -> None:
    """Header lines stay lines, and the body is what its content type says."""
    assert headers.endswith(b"\r\n") or not headers, headers
    for line in headers.removesuffix(b"\r\n").split(b"\r\n"):
        assert b": " in line and line.isascii() and b"\n" not in line and b"\r" not in line, headers
    if not body:
        return
    if b"Content-Type: text/xml" in headers:
        ElementTree.fromstring(body)
    elif b"json" in headers:
        json.loads(body)


def member(answer: Answer, name: str) -> Any:
    """A member of a JSON answer; None if it has none of this name."""
    try:
        found = json.loads(answer[2])
    except ValueError:
        return None
    return found.get(name) if isinstance(found, dict) else None
