"""From request to answer, with real Structs, a real codec and handlers made for the test."""

import json
import logging
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

import pytest
from msgspec import Struct

from fastnode.errors import DiskFull, Overloaded, Unavailable
from fastnode.flow import Suspension
from fastnode.http.admin import Admin
from fastnode.http.connection import Connection
from fastnode.http.identity import IdentitySettings
from fastnode.http.router import Router
from fastnode.queue.caller import CLIENT_RETRIES, Call
from fastnode.queue.errors import queue_does_not_exist
from fastnode.queue.retry import Gates
from tests.unit.http.http_fakes import FakeTransport, Node


class SayRequest(Struct, rename="pascal"):
    text: str | None = None


class SayResponse(Struct, rename="pascal", omit_defaults=True):
    text: str | None = None
    account: str | None = None


class Row(NamedTuple):
    name: str
    request: type[Struct]
    response: type[Struct] | None
    handler: Callable[..., Coroutine[Suspension, Any, Any]]


class Service:
    """What handlers work on: the point where they wait, and what they were told."""

    def __init__(self) -> None:
        self.waiting = Suspension()
        self.calls: list[Call] = []
        self.finished = 0
        self.error: Exception | None = None
        self.gates = Gates()


async def say(service: Service, call: Call, request: SayRequest) -> SayResponse:
    return SayResponse(request.text, call.caller.account)


async def drop(service: Service, call: Call, request: SayRequest) -> None:
    return None


async def wait(service: Service, call: Call, request: SayRequest) -> SayResponse:
    service.calls.append(call)
    text = await service.waiting
    service.finished += 1
    return SayResponse(text)


async def fail(service: Service, call: Call, request: SayRequest) -> None:
    assert service.error is not None
    raise service.error


OPERATIONS = {
    row.name: row
    for row in (
        Row("Say", SayRequest, SayResponse, say),
        Row("Drop", SayRequest, None, drop),
        Row("Wait", SayRequest, SayResponse, wait),
        Row("Fail", SayRequest, None, fail),
    )
}


class Setup:
    """A router behind one fake connection."""

    def __init__(self) -> None:
        self.service = Service()
        self.node = Node()
        ids = iter(f"id-{number}" for number in range(1, 100))
        router = Router(
            OPERATIONS,
            self.service,
            IdentitySettings("us-east-1", "http://127.0.0.1:9324"),
            lambda: next(ids),
            logging.getLogger("fastnode.test"),
        )
        self.node.server.respond = router.respond
        self.connection: Connection
        self.transport: FakeTransport
        self.connection, self.transport = self.node.connect()

    def send(self, raw: bytes) -> tuple[int, dict[str, str], bytes]:
        before = len(self.transport.written)
        self.connection.data_received(raw)
        return parsed(self.transport.written[before:])


def parsed(raw: bytes) -> tuple[int, dict[str, str], bytes]:
    head, _, body = raw.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return int(status.split()[1]), headers, body


def post(action: str, body: bytes = b"{}", *headers: bytes) -> bytes:
    lines = [
        b"POST / HTTP/1.1",
        b"Host: localhost",
        b"Content-Type: application/x-amz-json-1.0",
        b"X-Amz-Target: AmazonSQS." + action.encode(),
        b"Content-Length: %d" % len(body),
        *headers,
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


@pytest.fixture
def setup() -> Setup:
    return Setup()


def test_a_call_is_answered_with_its_result_and_id(setup: Setup) -> None:
    status, headers, body = setup.send(post("Say", b'{"Text":"hi"}'))
    assert status == 200
    assert headers["content-type"] == "application/x-amz-json-1.0"
    assert headers["x-amzn-requestid"] == "id-1"
    assert json.loads(body) == {"Text": "hi", "Account": "000000000000"}


def test_a_call_without_output_has_no_body(setup: Setup) -> None:
    status, headers, body = setup.send(post("Drop"))
    assert (status, headers["content-length"], body) == (200, "0", b"")


def test_an_unknown_action_is_refused_as_json(setup: Setup) -> None:
    status, headers, body = setup.send(post("Nonsense"))
    assert (status, headers["x-amzn-query-error"]) == (400, "invalidaction;sender")
    assert json.loads(body)["__type"] == "com.amazon.coral.service#UnknownOperationException"


def test_a_body_that_is_not_json_is_refused(setup: Setup) -> None:
    status, _, body = setup.send(post("Say", b"nonsense"))
    assert status == 400
    assert json.loads(body)["__type"] == "com.amazon.coral.service#SerializationException"


def test_a_foreign_page_reaches_no_handler_in_either_protocol(setup: Setup) -> None:
    origin = b"Origin: http://evil.example"
    assert setup.send(post("Say", b"{}", origin))[0] == 403
    status, headers, body = setup.send(
        b"GET /?Action=ListQueues HTTP/1.1\r\nHost: localhost\r\n" + origin + b"\r\n\r\n"
    )
    assert (status, headers["content-type"]) == (403, "text/xml")
    assert b"<Code>AccessDenied</Code>" in body


@pytest.mark.parametrize(
    ("error", "status", "code", "retry_after"),
    [
        (queue_does_not_exist(), 400, "aws.simplequeueservice.nonexistentqueue;sender", None),
        (Overloaded(), 503, "serviceunavailable;receiver", "1"),
        (Unavailable(), 503, "serviceunavailable;receiver", "1"),
        (DiskFull(), 503, "serviceunavailable;receiver", "5"),
    ],
)
def test_errors_become_answers(
    setup: Setup, error: Exception, status: int, code: str, retry_after: str | None
) -> None:
    setup.service.error = error
    answer = setup.send(post("Fail"))
    assert answer[0] == status
    assert answer[1]["x-amzn-query-error"] == code
    assert answer[1].get("retry-after") == retry_after


def test_a_bug_is_logged_with_its_trace_and_hidden_from_the_client(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    setup.service.error = KeyError("secret")
    status, _, body = setup.send(post("Fail"))
    assert status == 500
    assert b"secret" not in body
    assert json.loads(body)["__type"] == "com.amazon.coral.service#InternalFailure"
    (record,) = caplog.records
    assert record.exc_info is not None
    assert "id-1" in record.getMessage()
    assert setup.send(post("Say"))[0] == 200


def test_a_waiting_call_is_answered_when_it_is_resumed(setup: Setup) -> None:
    setup.connection.data_received(post("Wait"))
    assert setup.transport.written == b""
    setup.service.waiting.resume("woken")
    assert parsed(setup.transport.written)[2] == b'{"Text":"woken"}'


def test_a_client_that_leaves_is_noticed_and_its_call_runs_on(setup: Setup) -> None:
    setup.connection.data_received(post("Wait"))
    (call,) = setup.service.calls
    told: list[bool] = []
    call.on_gone = lambda: told.append(call.is_gone)
    setup.connection.connection_lost(None)
    assert told == [True]
    assert setup.service.finished == 0
    setup.service.waiting.resume("unheard")
    assert setup.service.finished == 1
    assert setup.transport.written == b""


def test_a_call_that_starts_after_the_end_knows_that_nobody_waits(setup: Setup) -> None:
    setup.connection.has_ended = True
    setup.connection.data_received(post("Wait"))
    assert setup.service.calls[0].is_gone


# --- the Query protocol -------------------------------------------------------------------------


def query(method: bytes, target: bytes, body: bytes = b"", *headers: bytes) -> bytes:
    lines = [
        method + b" " + target + b" HTTP/1.1",
        b"Host: localhost",
        b"Content-Length: %d" % len(body),
        *headers,
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


@pytest.mark.parametrize(
    "raw",
    [
        query(b"GET", b"/?Action=Say&Text=hi"),
        query(b"POST", b"/", b"Action=Say&Text=hi"),
        query(b"POST", b"/?Action=Say", b"Text=hi", b"Content-Type: text/plain"),
        query(b"GET", b"/?Action=Say&Text=hi", b"", b"Content-Type: application/x-amz-json-1.0"),
    ],
)
def test_a_query_call_is_answered_in_xml(setup: Setup, raw: bytes) -> None:
    status, headers, body = setup.send(raw)
    assert (status, headers["content-type"], headers["x-amzn-requestid"]) == (
        200,
        "text/xml",
        "id-1",
    )
    assert b"<SayResult><Text>hi</Text><Account>000000000000</Account></SayResult>" in body


def test_a_query_client_may_ask_for_json(setup: Setup) -> None:
    raw = query(b"POST", b"/", b"Action=Say&Text=hi", b"Accept: application/json")
    _, headers, body = setup.send(raw)
    assert headers["content-type"] == "application/json"
    assert json.loads(body)["SayResponse"]["SayResult"]["Text"] == "hi"


def test_errors_of_query_calls_are_xml(setup: Setup) -> None:
    setup.service.error = queue_does_not_exist()
    status, headers, body = setup.send(query(b"POST", b"/", b"Action=Fail"))
    assert (status, headers["content-type"]) == (400, "text/xml")
    assert b"<Code>AWS.SimpleQueueService.NonExistentQueue</Code>" in body
    setup.service.error = Overloaded()
    status, headers, body = setup.send(query(b"POST", b"/", b"Action=Fail"))
    assert (status, headers["retry-after"]) == (503, "1")
    assert b"<Type>Receiver</Type>" in body


def test_a_get_without_action_is_404_with_the_contracts_root(setup: Setup) -> None:
    """Contract §1.1: also when the client would rather have JSON."""
    raw = query(b"GET", b"/000000000000/q", b"", b"Accept: application/json")
    status, headers, body = setup.send(raw)
    assert (status, headers["content-type"]) == (404, "text/xml")
    assert body == b"<UnknownOperationException/>\n"


def test_a_head_is_a_get_without_body(setup: Setup) -> None:
    status, headers, body = setup.send(query(b"HEAD", b"/"))
    assert (status, headers["content-type"], body) == (404, "text/xml", b"")


@pytest.mark.parametrize("method", [b"PUT", b"DELETE", b"OPTIONS", b"PATCH"])
def test_other_methods_are_not_allowed(setup: Setup, method: bytes) -> None:
    status, headers, _ = setup.send(query(method, b"/?Action=Say"))
    assert (status, headers["allow"]) == (405, "post, get, head")


# --- the admin listener -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "is_ready", "status", "body"),
    [
        (b"/healthz", False, 200, b"ok\n"),
        (b"/readyz", True, 200, b"ready\n"),
        (b"/readyz?verbose", False, 503, b"not ready\n"),
        (
            b"/metrics",
            True,
            200,
            b"# HELP fastnode_log_bytes size of the log\n"
            b"# TYPE fastnode_log_bytes gauge\nfastnode_log_bytes 1\n",
        ),
        (b"/", True, 404, b"not found\n"),
    ],
)
def test_admin_pages(target: bytes, is_ready: bool, status: int, body: bytes) -> None:
    setup = Setup()
    admin = Admin(lambda: is_ready, lambda: {"fastnode_log_bytes": 1})
    setup.node.server.respond = admin.respond
    answer = setup.send(b"GET " + target + b" HTTP/1.1\r\nHost: h\r\n\r\n")
    assert (answer[0], answer[2]) == (status, body)


def test_admin_pages_are_read_only() -> None:
    setup = Setup()
    setup.node.server.respond = Admin(lambda: True, dict).respond
    status, headers, _ = setup.send(b"POST /healthz HTTP/1.1\r\nHost: h\r\n\r\n")
    assert (status, headers["allow"]) == (405, "get, head")


def test_what_the_sdk_adds_is_passed_on(setup: Setup) -> None:
    sdk = (b"amz-sdk-invocation-id: abc", b"amz-sdk-request: attempt=2; max=3")
    added = (b"X-Amzn-Trace-Id: Root=1-2", *sdk)
    setup.connection.data_received(post("Wait", b"{}", *added))
    setup.connection.data_received(post("Wait"))
    first, second = setup.service.calls
    assert (first.trace_header, first.request_id) == ("Root=1-2", "id-1")
    assert len(first.request) == 16 and first.is_repeated and first.retention == CLIENT_RETRIES
    assert (second.trace_header, second.request, second.is_repeated) == (None, b"", False)
