"""What is kept for clients: sums that add up, and bounds that spare whoever keeps little."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.config import (
    HTTP_ARRIVING_BYTES_MAX,
    HTTP_OPEN_BYTES_MAX,
    HTTP_UNREAD_BYTES_MAX,
)
from fastnode.http.connection import Connection
from fastnode.http.holding import SMALL_BYTES, Crowd, Holding
from tests.unit.http.http_fakes import FakeTransport, Node, get

LARGE = 8 * 1_048_576
SIZES = st.integers(0, 2 * LARGE)


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["a", "o", "u", "-"]), SIZES)))
def test_the_sums_are_those_of_all_connections_and_nothing_is_left_of_those_that_ended(
    steps: list[tuple[int, str, int]],
) -> None:
    crowd = Crowd()
    holdings = [Holding(crowd) for _ in range(3)]
    arriving, opened, unread = [0] * 3, [0] * 3, [0] * 3
    for at, what, size in steps:
        if what == "a":
            holdings[at].arriving(size)
            arriving[at] = size
        elif what == "o":
            holdings[at].open(size)
            opened[at] += size
        elif what == "u":
            holdings[at].unread(size)
            unread[at] = size
        else:
            holdings[at].clear()
            arriving[at] = opened[at] = unread[at] = 0
        sums = (crowd.arriving_bytes, crowd.open_bytes, crowd.unread_bytes)
        assert sums == (sum(arriving), sum(opened), sum(unread))


@pytest.mark.parametrize(
    ("kind", "most"),
    [("arriving", HTTP_ARRIVING_BYTES_MAX), ("open", HTTP_OPEN_BYTES_MAX)],
)
def test_beyond_the_bound_only_those_who_keep_little_are_spared(kind: str, most: int) -> None:
    crowd = Crowd()
    assert getattr(Holding(crowd), kind)(most)
    assert getattr(Holding(crowd), kind)(SMALL_BYTES)
    assert not getattr(Holding(crowd), kind)(SMALL_BYTES + 1)


def test_many_small_requests_of_one_client_are_not_little() -> None:
    crowd = Crowd()
    Holding(crowd).open(HTTP_OPEN_BYTES_MAX)
    client = Holding(crowd)
    assert client.open(SMALL_BYTES)
    assert not client.open(1)


# --- connections ----------------------------------------------------------------------------------


def post(size: int) -> bytes:
    return b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % size + bytes(size)


def fill_open(node: Node) -> list[tuple[Connection, FakeTransport]]:
    clients = [node.connect() for _ in range(HTTP_OPEN_BYTES_MAX // LARGE)]
    for connection, _ in clients:
        connection.data_received(post(LARGE))
    assert len(node.open) == len(clients)
    return clients


def test_large_requests_that_wait_have_a_bound_and_small_ones_pass() -> None:
    node = Node()
    clients = fill_open(node)
    late, transport = node.connect()
    late.data_received(post(LARGE))
    assert transport.written.startswith(b"HTTP/1.1 503 ") and transport.has_eof
    assert b"Retry-After: 1\r\n" in transport.written
    assert node.server.crowd.refused["bytes"] == 1
    small, transport = node.connect()
    small.data_received(post(100))
    small.data_received(post(SMALL_BYTES - 100))
    assert len(node.open) == len(clients) + 2
    node.answer(0)
    node.answer(1)
    again, transport = node.connect()
    again.data_received(post(LARGE))
    assert transport.written == b""


def test_what_waits_counts_once_however_it_ends() -> None:
    node = Node()
    clients = fill_open(node)
    for index in range(0, len(clients), 2):
        node.answer(index)
    for connection, _ in clients:
        connection.connection_lost(None)
    for index in range(1, len(clients), 2):
        node.answer(index)
    crowd = node.server.crowd
    assert (crowd.arriving_bytes, crowd.open_bytes, crowd.unread_bytes) == (0, 0, 0)


def test_a_plain_request_that_others_follow_counts_no_bytes_in_the_end() -> None:
    node = Node()
    connection, _ = node.connect()
    connection.data_received(post(100))
    connection.data_received(post(200))
    assert node.server.crowd.open_bytes == 200
    node.answer(0)
    node.answer(1)
    assert node.server.crowd.open_bytes == 0


def test_unread_answers_of_all_clients_have_a_bound() -> None:
    node = Node()
    clients = [node.connect(high_water=1_000) for _ in range(HTTP_UNREAD_BYTES_MAX // LARGE + 1)]
    for index, (connection, _) in enumerate(clients):
        connection.data_received(get())
        node.answer(index, bytes(LARGE - 1_000))
    assert [transport.is_aborted for _, transport in clients].index(True) == len(clients) - 1
    assert node.server.crowd.refused["unread"] == 1
    clients[-1][0].connection_lost(None)
    for _, transport in clients[:-1]:
        transport.peer_reads()
    assert node.server.crowd.unread_bytes == 0


@pytest.mark.parametrize("is_pipelined", [False, True])
def test_an_answer_is_kept_whole_until_all_of_it_is_read(is_pipelined: bool) -> None:
    node = Node()
    connection, transport = node.connect(high_water=1_000)
    connection.data_received(post(1) * (1 + is_pipelined))
    transport.unread = -LARGE // 2  # so much the kernel takes
    node.answer(0, bytes(LARGE))
    assert LARGE <= node.server.crowd.unread_bytes <= LARGE + 1_000
    if is_pipelined:
        node.answer(1, bytes(LARGE))
        assert 2 * LARGE <= node.server.crowd.unread_bytes <= 2 * LARGE + 1_000
    transport.peer_reads()
    assert node.server.crowd.unread_bytes == 0


def test_a_last_answer_that_is_one_too_many_ends_the_connection_at_once() -> None:
    node = Node()
    Holding(node.server.crowd).unread(HTTP_UNREAD_BYTES_MAX)
    connection, transport = node.connect(high_water=1_000)
    connection.data_received(get(b"/", b"Connection: close"))
    node.answer(0, bytes(LARGE))
    assert transport.is_aborted and not transport.has_eof


def test_who_sends_too_slowly_is_counted() -> None:
    node = Node()
    connection, _ = node.connect()
    connection.data_received(b"GET")
    node.pass_seconds(60)
    assert node.server.crowd.refused["late"] == 1
