"""A connection whose first request belongs to another process goes there, or stays, whole."""

import asyncio

import pytest

from fastnode.http.connection import Connection
from fastnode.http.http1 import Request
from fastnode.http.moving import MovableConnection
from tests.unit.http.http_fakes import FakeTransport, Node, bodies, get

POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n"
SIBLING = 1


class FakeMover:
    """Wants every connection, and takes it or not."""

    def __init__(self) -> None:
        self.is_willing = True
        self.owner: int | None = SIBLING
        self.asked: list[Request] = []
        self.moves: list[tuple[MovableConnection, int, bytes]] = []

    def owner_of(self, request: Request) -> int | None:
        self.asked.append(request)
        return self.owner

    def move(
        self,
        connection: MovableConnection,
        transport: asyncio.Transport,
        owner: int,
        received: bytes,
    ) -> bool:
        if self.is_willing:
            self.moves.append((connection, owner, received))
        return self.is_willing


@pytest.fixture
def mover() -> FakeMover:
    return FakeMover()


@pytest.fixture
def node(mover: FakeMover) -> Node:
    made = Node()
    made.server.mover = mover
    return made


def receive(connection: Connection, data: bytes, piece_bytes: int) -> None:
    for at in range(0, len(data), piece_bytes):
        connection.data_received(data[at : at + piece_bytes])


def let_stay(mover: FakeMover) -> None:
    connection, _, received = mover.moves[0]
    connection.stay(received)


def is_left_alone(transport: FakeTransport) -> bool:
    return not (transport.written or transport.has_eof or transport.is_aborted)


@pytest.mark.parametrize("piece_bytes", [1, 7, 1_000])
@pytest.mark.parametrize("more", [b"", POST[:20], POST + b"world" + get()])
def test_all_that_was_received_goes_along(
    node: Node, mover: FakeMover, piece_bytes: int, more: bytes
) -> None:
    connection, transport = node.connect()
    data = POST + b"hello"
    receive(connection, data + more if piece_bytes == 1_000 else data, piece_bytes)
    assert mover.moves == [(connection, SIBLING, data + more if piece_bytes == 1_000 else data)]
    assert not transport.is_reading
    assert not node.open
    connection.close()
    assert transport.is_closed and is_left_alone(transport)
    connection.connection_lost(None)
    assert node.server.connection_count == 0


def test_a_connection_that_has_to_stay_is_served_as_if_nothing_had_been_tried(
    node: Node, mover: FakeMover
) -> None:
    connection, transport = node.connect()
    receive(connection, POST + b"hello" + get(b"/second"), 1_000)
    let_stay(mover)
    assert transport.is_reading
    assert [request.body for request, _ in node.open] == [b"hello", b""]
    node.answer(0, b"first")
    node.answer(1, b"second")
    assert bodies(transport.written) == [b"first", b"second"]
    receive(connection, POST + b"world", 1_000)
    assert len(mover.asked) == 1
    assert node.open[2][0].body == b"world"


@pytest.mark.parametrize("piece_bytes", [9, 1_000])
def test_a_connection_that_nobody_takes_is_served(
    node: Node, mover: FakeMover, piece_bytes: int
) -> None:
    mover.is_willing = False
    connection, transport = node.connect()
    receive(connection, POST + b"hello", piece_bytes)
    assert transport.is_reading
    node.answer(0, b"here")
    assert bodies(transport.written) == [b"here"]


def test_only_the_first_request_decides(node: Node, mover: FakeMover) -> None:
    mover.owner = None
    connection, _ = node.connect()
    receive(connection, POST + b"hello", 1_000)
    node.answer(0)
    mover.owner = SIBLING
    receive(connection, POST + b"world", 1_000)
    assert len(mover.asked) == 1
    assert not mover.moves


def test_the_go_ahead_for_a_body_is_not_given_twice(node: Node, mover: FakeMover) -> None:
    connection, transport = node.connect()
    head = POST.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")
    receive(connection, head, 1_000)
    assert transport.written == b"HTTP/1.1 100 Continue\r\n\r\n"
    transport.unread = 0
    receive(connection, b"hello", 1_000)
    assert mover.moves[0][2] == head + b"hello"
    let_stay(mover)
    node.answer(0, b"done")
    assert transport.written.count(b"100 Continue") == 1


def test_a_connection_with_bytes_on_their_way_to_the_client_stays(
    node: Node, mover: FakeMover
) -> None:
    connection, transport = node.connect()
    transport.unread = 1
    receive(connection, POST + b"hello", 1_000)
    assert not mover.moves
    assert len(node.open) == 1


def test_a_client_that_goes_while_its_connection_moves_is_forgotten(
    node: Node, mover: FakeMover
) -> None:
    connection, transport = node.connect()
    receive(connection, POST + b"hello", 1_000)
    connection.connection_lost(None)
    let_stay(mover)
    connection.close()
    assert not node.open
    assert is_left_alone(transport)


def test_a_connection_on_its_way_is_not_idle(node: Node) -> None:
    connection, _ = node.connect()
    receive(connection, POST + b"hello", 1_000)
    assert not connection.is_idle


def test_what_was_received_is_not_held_twice(node: Node) -> None:
    connection, _ = node.connect()
    receive(connection, POST, 1_000)
    receive(connection, b"hell", 1_000)
    assert node.server.crowd.arriving_bytes == 4
    receive(connection, b"o", 1_000)
    assert node.server.crowd.arriving_bytes == 0
