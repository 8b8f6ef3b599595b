"""One connection on a fake transport: order, framing, the end of the client."""

import pytest

from fastnode.config import HTTP_PIPELINE_MAX
from fastnode.http.connection import LINGER_SECONDS
from fastnode.http.exchange import Exchange
from fastnode.http.http1 import Request
from tests.unit.http.http_fakes import Node, bodies, get


def test_an_answer_is_one_write_with_its_length() -> None:
    node = Node()
    connection, transport = node.connect()
    connection.data_received(get())
    node.answer(0, b"hello", b"X-A: b\r\n")
    assert transport.written == b"HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 5\r\n\r\nhello"
    assert transport.writes == 1
    assert not transport.is_closing()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0)])
def test_pipelined_requests_are_answered_in_order(order: tuple[int, ...]) -> None:
    node = Node()
    connection, transport = node.connect()
    connection.data_received(get() * 3)
    for index in order:
        node.answer(index, b"%d" % index)
    assert bodies(transport.written) == [b"0", b"1", b"2"]


def test_answers_that_become_ready_together_leave_in_one_write() -> None:
    node = Node()
    connection, transport = node.connect()
    connection.data_received(get() * 3)
    for index in (2, 1, 0):
        node.answer(index)
    assert transport.writes == 1


def test_a_burst_that_is_answered_at_once_is_one_write() -> None:
    node = Node()
    node.server.respond = lambda _, exchange: exchange.reply(200, b"", b"x")
    connection, transport = node.connect()
    connection.data_received(get() * 10)
    assert len(bodies(transport.written)) == 10
    assert transport.writes == 1


def test_a_large_body_arrives_whole() -> None:
    node = Node()
    connection, transport = node.connect()
    connection.data_received(get())
    node.answer(0, b"z" * 1_000_000)
    assert bodies(transport.written) == [b"z" * 1_000_000]


def test_a_request_is_answered_once() -> None:
    node = Node()
    connection, _ = node.connect()
    connection.data_received(get())
    node.answer(0)
    with pytest.raises(AssertionError):
        node.answer(0)


def test_head_gets_the_length_without_the_body() -> None:
    node = Node()
    connection, transport = node.connect()
    connection.data_received(b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n")
    node.answer(0, b"hello")
    assert transport.written == b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"


@pytest.mark.parametrize(
    ("request_bytes", "mention", "ends"),
    [
        (b"GET / HTTP/1.0\r\n\r\n", b"Connection: close\r\n", True),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", b"Connection: keep-alive\r\n", False),
        (get(b"/", b"Connection: close"), b"Connection: close\r\n", True),
        (get(), b"", False),
    ],
)
def test_the_connection_ends_when_the_client_wants_it(
    request_bytes: bytes, mention: bytes, ends: bool
) -> None:
    node = Node()
    connection, transport = node.connect()
    connection.data_received(request_bytes)
    node.answer(0)
    assert transport.written == b"HTTP/1.1 200 OK\r\n" + mention + b"Content-Length: 0\r\n\r\n"
    assert transport.has_eof is ends


def test_reading_stops_at_the_pipeline_bound_and_goes_on_below_it() -> None:
    node = Node()
    connection, transport = node.connect()
    connection.data_received(get() * (HTTP_PIPELINE_MAX + 5))
    assert len(node.open) == HTTP_PIPELINE_MAX
    assert not transport.is_reading
    node.answer(0)
    assert len(node.open) == HTTP_PIPELINE_MAX + 1
    for index in range(1, HTTP_PIPELINE_MAX + 5):
        node.answer(index)
    assert transport.is_reading
    assert len(bodies(transport.written)) == HTTP_PIPELINE_MAX + 5


def test_a_long_burst_that_is_answered_at_once_is_answered_whole() -> None:
    node = Node()
    node.server.respond = lambda _, exchange: exchange.reply(200, b"", b"x")
    connection, transport = node.connect()
    connection.data_received(get() * (3 * HTTP_PIPELINE_MAX))
    assert len(bodies(transport.written)) == 3 * HTTP_PIPELINE_MAX
    assert transport.is_reading


def test_a_refusal_waits_for_earlier_answers_and_ends_the_connection() -> None:
    node = Node()
    connection, transport = node.connect()
    connection.data_received(get() + b"nonsense\r\n\r\n" + get())
    assert transport.written == b""
    node.answer(0, b"first")
    assert transport.written.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"HTTP/1.1 400 Bad Request\r\n" in transport.written
    assert b"Connection: close\r\n" in transport.written
    assert transport.has_eof
    assert len(node.open) == 1


def test_the_client_gets_time_to_read_the_last_answer() -> None:
    """Closing at once, with bytes of the client unread, could destroy the answer on its way."""
    node = Node()
    connection, transport = node.connect()
    connection.data_received(b"nonsense\r\n\r\n")
    connection.data_received(b"more" * 1_000)
    assert not transport.is_closing()
    node.pass_seconds(LINGER_SECONDS + 1)
    assert transport.is_aborted


# --- Expect: 100-continue -----------------------------------------------------------------------

EXPECTING = b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
GO_AHEAD = b"HTTP/1.1 100 Continue\r\n\r\n"


def test_a_waiting_client_gets_the_go_ahead() -> None:
    node = Node()
    connection, transport = node.connect()
    connection.data_received(EXPECTING)
    assert transport.written == GO_AHEAD
    connection.data_received(b"ok")
    assert node.open[0][0].body == b"ok"


def test_the_go_ahead_never_overtakes_an_answer() -> None:
    node = Node()
    connection, transport = node.connect()
    connection.data_received(get() + EXPECTING)
    assert transport.written == b""
    node.answer(0)
    assert transport.written == b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" + GO_AHEAD


def test_no_go_ahead_once_the_body_is_there() -> None:
    node = Node()
    connection, transport = node.connect()
    connection.data_received(EXPECTING + b"ok")
    assert transport.written == b""


# --- the end of the client ----------------------------------------------------------------------


def watched(node: Node) -> list[str]:
    """Notes which requests were told that their client is gone."""
    gone: list[str] = []

    def respond(request: Request, exchange: Exchange) -> None:
        node.respond(request, exchange)
        exchange.on_close = lambda: gone.append(request.path.decode())

    node.server.respond = respond
    return gone


def test_a_lost_connection_is_told_once_to_each_open_request() -> None:
    node = Node()
    gone = watched(node)
    connection, _ = node.connect()
    connection.data_received(get(b"/a") + get(b"/b") + get(b"/c"))
    node.answer(1)
    connection.eof_received()
    connection.connection_lost(None)
    assert gone == ["/a", "/c"]
    assert node.open[0][1].is_closed
    assert node.server.connection_count == 0


def test_an_answer_to_a_lost_client_is_dropped() -> None:
    node = Node()
    connection, transport = node.connect()
    connection.data_received(get())
    connection.connection_lost(ConnectionResetError())
    node.answer(0, b"nobody")
    assert transport.written == b""


def test_a_client_that_only_finished_sending_gets_its_answers() -> None:
    node = Node()
    gone = watched(node)
    connection, transport = node.connect()
    connection.data_received(get(b"/a") + get(b"/b"))
    assert connection.eof_received() is True
    assert gone == ["/a", "/b"]
    node.answer(0, b"a")
    assert not transport.is_closed
    node.answer(1, b"b")
    assert bodies(transport.written) == [b"a", b"b"]
    assert transport.is_closed


def test_the_end_of_an_idle_client_closes() -> None:
    node = Node()
    connection, transport = node.connect()
    connection.data_received(b"GET / unfinished")
    assert connection.eof_received() is False
    assert transport.written == b""


def test_a_waiter_may_answer_when_told_that_its_client_is_gone() -> None:
    node = Node()

    def respond(request: Request, exchange: Exchange) -> None:
        exchange.on_close = lambda: exchange.reply(200, b"", b"gave up")

    node.server.respond = respond
    connection, transport = node.connect()
    connection.data_received(get() * 2)
    connection.eof_received()
    assert bodies(transport.written) == [b"gave up", b"gave up"]
    assert transport.is_closed


def test_the_peer_is_known_while_it_is_there() -> None:
    node = Node()
    connection, _ = node.connect()
    connection.data_received(get())
    assert node.open[0][1].peer == ("127.0.0.1", 50_000)
    connection.connection_lost(None)
    assert node.open[0][1].peer is None
