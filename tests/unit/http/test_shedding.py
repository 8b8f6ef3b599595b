"""A node without room: who is turned away, what it is told and when; and nothing has happened."""

import itertools
import json
import logging
import re

import pytest

from fastnode.config import TICK_SECONDS
from fastnode.http.connection import Connection
from fastnode.http.exchange import Exchange
from fastnode.http.health import LEADER_PATH, Health
from fastnode.http.http1 import Request
from fastnode.http.identity import IdentitySettings
from fastnode.http.router import Router
from fastnode.http.shedding import OVERLOADED_TEXT, Shedding, shed_metrics
from fastnode.queue.operations import OPERATIONS
from tests.unit.http.http_fakes import FakeTransport, Node, get
from tests.world import ACCOUNT, ENDPOINT, World

URL = f"{ENDPOINT}/{ACCOUNT}/q"
AUTHORIZATION = (
    b"Authorization: AWS4-HMAC-SHA256 Credential=AKID/20250101/us-east-1/sqs/aws4_request, "
    b"SignedHeaders=host, Signature=00"
)
IDS = [f"{number:08d}-0000-4000-8000-000000000000" for number in range(1, 5_000)]


class Front:
    """A world behind a router with a backlog that the test fills."""

    def __init__(self) -> None:
        self.world = World()
        self.world.create()
        self.backlog = self.world.group.backlog
        ids = itertools.cycle(IDS).__next__
        self.shedding = Shedding(self.backlog, ids)
        health = Health((), lambda: True)
        settings, log = IdentitySettings("us-east-1", ENDPOINT), logging.getLogger("fastnode.test")
        self.router = Router(
            *(OPERATIONS, self.world.service, settings, ids, log), health, shedding=self.shedding
        )
        self.node = Node()
        self.node.server.respond = self.router.respond

    def connect(self) -> tuple[Connection, FakeTransport]:
        return self.node.connect()

    def ask(self, raw: bytes) -> FakeTransport:
        connection, transport = self.connect()
        connection.data_received(raw)
        return transport

    def fill(self) -> None:
        self.backlog.room = 0


@pytest.fixture
def front() -> Front:
    return Front()


def post(body: bytes, *lines: bytes) -> bytes:
    head = [b"POST / HTTP/1.1", b"Host: localhost", AUTHORIZATION, *lines]
    return b"\r\n".join([*head, b"Content-Length: %d" % len(body), b"", body])


def json_call(action: str, **members: object) -> bytes:
    body = json.dumps({"QueueUrl": URL, **members}).encode()
    target = b"X-Amz-Target: AmazonSQS." + action.encode()
    return post(body, b"Content-Type: application/x-amz-json-1.0", target)


def query_call(action: str, *lines: bytes) -> bytes:
    body = f"Action={action}&Version=2012-11-05&QueueUrl={URL}&MessageBody=x&ReceiptHandle=x"
    return post(body.encode(), b"Content-Type: application/x-www-form-urlencoded", *lines)


SEND = json_call("SendMessage", MessageBody="x")
DELETE = json_call("DeleteMessage", ReceiptHandle="x")


def test_a_request_that_finds_no_room_is_told_to_come_back_and_nothing_has_happened(
    front: Front,
) -> None:
    front.fill()
    transport = front.ask(SEND)
    assert front.world.group.gathered_count == 0
    front.shedding.tick(freed=4)
    head, _, body = transport.written.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nRetry-After: 1\r\n" in head + b"\r\n"
    assert b"x-amzn-query-error: ServiceUnavailable;Receiver" in head
    assert json.loads(body) == {
        "__type": "com.amazon.coral.service#ServiceUnavailableException",
        "message": OVERLOADED_TEXT,
    }
    assert not transport.is_closing(), "the client may come back by the same connection"


@pytest.mark.parametrize(
    ("raw", "mark"),
    [
        (query_call("SendMessage"), b"<Code>ServiceUnavailable</Code>"),
        (query_call("SendMessage", b"Accept: application/json"), b'"Code":"ServiceUnavailable"'),
    ],
    ids=["xml", "json"],
)
def test_the_query_protocol_says_it_in_its_own_words(front: Front, raw: bytes, mark: bytes) -> None:
    front.fill()
    transports = [front.ask(raw) for _ in range(2)]
    front.shedding.tick(freed=8)
    ids = set()
    for transport in transports:
        head, _, body = transport.written.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ") and mark in body
        assert int(re.search(rb"Content-Length: (\d+)", head)[1]) == len(body)  # type: ignore[index]  # a missing one fails the test as well
        (named,) = set(re.findall(rb"\d{8}-0000-4000-8000-000000000000", transport.written))
        ids.add(named)
    assert len(ids) == 2, "each has an id of its own"


@pytest.mark.parametrize(
    "action", ["DeleteMessage", "DeleteMessageBatch", "ChangeMessageVisibility"]
)
@pytest.mark.parametrize("call", [json_call, query_call])
def test_what_frees_something_is_turned_away_last(front: Front, action: str, call: object) -> None:
    raw = json_call(action) if call is json_call else query_call(action)
    front.fill()
    assert front.ask(raw).written.startswith(b"HTTP/1.1 4"), "it was looked at"
    front.backlog.room = -front.backlog.limit
    assert front.ask(raw).written == b""
    assert front.shedding.count == 1


def test_health_is_told_without_room(front: Front) -> None:
    front.backlog.room = -front.backlog.limit
    assert front.ask(get(LEADER_PATH.encode())).written.startswith(b"HTTP/1.1 200 ")


def test_with_room_again_requests_are_served(front: Front) -> None:
    front.fill()
    front.ask(SEND)
    front.backlog.room = 1
    transport = front.ask(SEND)
    front.world.commit()
    assert transport.written.startswith(b"HTTP/1.1 200 ")


def crowd(front: Front, count: int) -> list[FakeTransport]:
    front.fill()
    return [front.ask(SEND) for _ in range(count)]


def answered(transports: list[FakeTransport]) -> list[bool]:
    return [bool(transport.written) for transport in transports]


def test_one_is_told_for_four_that_are_served_in_the_order_of_arrival(front: Front) -> None:
    transports = crowd(front, 160)
    front.shedding.tick(freed=80)
    assert answered(transports) == [True] * 20 + [False] * 140


def test_as_many_are_told_as_there_is_room_for_once_nobody_else_was_turned_away(
    front: Front,
) -> None:
    transports = crowd(front, 160)
    front.backlog.room = 100
    front.shedding.tick(freed=0)
    assert sum(answered(transports)) == 0, "it may be full again in a moment"
    front.shedding.tick(freed=0)
    assert sum(answered(transports)) == 100


def test_nobody_waits_for_ever_for_the_answer_even_if_nothing_is_served(front: Front) -> None:
    transports = crowd(front, 160)
    ticks = 0
    while not any(answered(transports)):
        front.shedding.tick(freed=0)
        ticks += 1
    assert ticks * TICK_SECONDS == pytest.approx(5, rel=0.1)
    assert all(answered(transports))


def test_a_client_that_left_meanwhile_is_told_nothing(front: Front) -> None:
    front.fill()
    connection, transport = front.connect()
    connection.data_received(SEND)
    connection.connection_lost(None)
    front.shedding.tick(freed=4)
    assert transport.written == b""


def test_the_answers_of_a_pipeline_stay_in_order(front: Front) -> None:
    front.fill()
    connection, transport = front.connect()
    connection.data_received(SEND + DELETE)
    assert transport.written == b""
    front.shedding.tick(freed=4)
    assert re.findall(rb"HTTP/1.1 (\d+)", transport.written) == [b"503", b"404"]


def test_a_body_that_nobody_will_read_is_not_kept(front: Front) -> None:
    requests: list[Request] = []

    def respond(request: Request, exchange: Exchange) -> None:
        requests.append(request)
        front.router.respond(request, exchange)

    front.node.server.respond = respond
    front.fill()
    front.ask(SEND)
    assert requests[0].body == b""


def test_the_metrics_tell_requests_from_connections(front: Front) -> None:
    front.fill()
    front.ask(SEND)
    refused = front.node.server.crowd.refused | {"bytes": 2, "connections": 3, "late": 4}
    assert shed_metrics(front.shedding, refused) == {
        'fastnode_requests_shed_total{reason="overload"}': 1,
        'fastnode_requests_shed_total{reason="bytes"}': 2,
        'fastnode_requests_shed_total{reason="connections"}': 3,
        'fastnode_connections_cut_total{reason="handshake"}': 0,
        'fastnode_connections_cut_total{reason="late"}': 4,
        'fastnode_connections_cut_total{reason="unread"}': 0,
    }
