"""One connection on a fake clock: time limits, and a peer that does not read its answers."""

import pytest

from fastnode.config import (
    HTTP_ANSWER_SECONDS,
    HTTP_ARRIVING_BYTES_MAX,
    HTTP_BODY_SECONDS,
    HTTP_HEADER_SECONDS,
    HTTP_IDLE_SECONDS,
    HTTP_PIPELINE_MAX,
    HTTP_WRITE_BUFFER_BYTES_MAX,
)
from fastnode.http.connection import LINGER_SECONDS, Connection
from tests.unit.http.http_fakes import FakeTransport, Node, get

# --- time limits --------------------------------------------------------------------------------


def test_an_idle_connection_is_closed() -> None:
    node = Node()
    connection, transport = node.connect()
    connection.data_received(get())
    node.answer(0)
    node.pass_seconds(HTTP_IDLE_SECONDS - 2)
    assert not transport.is_closing()
    node.pass_seconds(3)
    assert transport.is_closed
    assert b"408" not in transport.written


def test_a_half_sent_head_is_refused_in_time() -> None:
    node = Node()
    connection, transport = node.connect()
    connection.data_received(b"GET / HT")
    node.pass_seconds(HTTP_HEADER_SECONDS - 2)
    connection.data_received(b"TP/1.1\r\n")  # a byte now and then gains no time
    assert transport.written == b""
    node.pass_seconds(3)
    assert transport.written.startswith(b"HTTP/1.1 408 ")
    assert transport.has_eof


def test_a_half_sent_body_is_refused_in_time() -> None:
    node = Node()
    connection, transport = node.connect()
    connection.data_received(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n")
    for _ in range(int(HTTP_BODY_SECONDS) - 2):
        connection.data_received(b"x")
        node.pass_seconds(1)
    assert transport.written == b""
    node.pass_seconds(3)
    assert transport.written.startswith(b"HTTP/1.1 408 ")


def test_each_request_has_its_own_time() -> None:
    node = Node()
    node.server.respond = lambda _, exchange: exchange.reply(200, b"", b"")
    connection, transport = node.connect()
    half = len(get()) // 2
    connection.data_received(get()[:half])
    for _ in range(5):
        node.pass_seconds(HTTP_HEADER_SECONDS - 2)
        connection.data_received(get()[half:] + get()[:half])
    assert b"408" not in transport.written
    node.pass_seconds(HTTP_HEADER_SECONDS + 1)
    assert b"HTTP/1.1 408 " in transport.written


@pytest.mark.parametrize("raw", [get(), get().replace(b"GET", b"POST")])
def test_a_node_that_takes_too_long_is_given_up(raw: bytes) -> None:
    node = Node()
    connection, transport = node.connect()
    connection.data_received(raw)
    gone: list[bool] = []
    node.open[0][1].on_close = lambda: gone.append(True)
    node.pass_seconds(HTTP_ANSWER_SECONDS - 2)
    assert transport.written == b""
    node.pass_seconds(3)
    assert transport.written.startswith(b"HTTP/1.1 503 ")
    assert b"Retry-After: 1" in transport.written
    assert b"Connection: close" in transport.written
    assert gone == [True] and transport.has_eof
    before = transport.written
    node.answer(0, b"late")
    assert transport.written == before


def test_only_the_last_of_several_overdue_answers_ends_the_connection() -> None:
    node = Node()
    connection, transport = node.connect()
    connection.data_received(get() * 3)
    node.pass_seconds(HTTP_ANSWER_SECONDS + 1)
    answers = transport.written.split(b"HTTP/1.1 ")[1:]
    assert [answer[:3] for answer in answers] == [b"503"] * 3
    assert [b"Connection: close" in answer for answer in answers] == [False, False, True]
    assert transport.has_eof


def test_more_bytes_do_not_buy_more_time() -> None:
    node = Node()
    connection, transport = node.connect()
    connection.data_received(get())
    for _ in range(int(HTTP_ANSWER_SECONDS)):
        node.pass_seconds(1)
        connection.data_received(get())
    node.pass_seconds(2)
    assert transport.written.startswith(b"HTTP/1.1 503 ")


def test_a_half_sent_request_does_not_hide_an_overdue_answer() -> None:
    node = Node()
    connection, transport = node.connect()
    connection.data_received(get() + b"GET")
    node.pass_seconds(HTTP_ANSWER_SECONDS + 2)
    assert transport.written.startswith(b"HTTP/1.1 503 ")


def test_a_late_refusal_waits_for_the_earlier_answer() -> None:
    node = Node()
    connection, transport = node.connect()
    connection.data_received(get() + b"GET")
    node.pass_seconds(HTTP_HEADER_SECONDS + 5)
    assert transport.written == b""
    connection.data_received(b" / HTTP/1.1\r\nHost: h\r\n\r\n")
    node.answer(0)
    assert [part[:3] for part in transport.written.split(b"HTTP/1.1 ")[1:]] == [b"200", b"408"]
    assert len(node.open) == 1


def test_a_head_behind_a_full_pipeline_still_has_a_limit_afterwards() -> None:
    node = Node()
    connection, transport = node.connect()
    connection.data_received(get() * HTTP_PIPELINE_MAX + b"GET")
    node.pass_seconds(2 * HTTP_HEADER_SECONDS)
    assert transport.written == b""
    for index in range(HTTP_PIPELINE_MAX):
        node.answer(index)
    node.pass_seconds(HTTP_HEADER_SECONDS + 1)
    assert b"HTTP/1.1 408 " in transport.written


# --- a client that does not read ----------------------------------------------------------------


def test_no_request_is_taken_while_the_peer_does_not_read() -> None:
    node = Node()
    connection, transport = node.connect(high_water=1_000)
    connection.data_received(get())
    node.answer(0, bytes(2_000))
    assert not transport.is_reading
    connection.data_received(get())
    assert len(node.open) == 1
    transport.peer_reads()
    assert transport.is_reading
    assert len(node.open) == 2


def test_a_peer_that_never_reads_is_cut_off() -> None:
    node = Node()
    connection, transport = node.connect(high_water=1_000)
    connection.data_received(get())
    node.answer(0, bytes(2_000))
    node.pass_seconds(HTTP_BODY_SECONDS - 2)
    assert not transport.is_aborted
    node.pass_seconds(3)
    assert transport.is_aborted


def test_unread_answers_have_a_bound() -> None:
    node = Node()
    connection, transport = node.connect(high_water=1_000)
    connection.data_received(get() * 3)
    node.answer(0, bytes(HTTP_WRITE_BUFFER_BYTES_MAX + 1))
    assert not transport.is_aborted
    node.answer(1, b"one more")
    assert transport.is_aborted
    node.answer(2, b"dropped")


def test_a_head_that_came_before_the_pause_has_its_limit_after_it() -> None:
    node = Node()
    connection, transport = node.connect(high_water=1_000)
    connection.data_received(get() + b"GET")
    node.answer(0, bytes(2_000))
    node.pass_seconds(HTTP_HEADER_SECONDS + 5)
    assert b"408" not in transport.written
    transport.peer_reads()
    node.pass_seconds(HTTP_HEADER_SECONDS + 1)
    assert b"HTTP/1.1 408 " in transport.written


def test_a_large_last_answer_gets_the_time_it_needs() -> None:
    node = Node()
    connection, transport = node.connect(high_water=1_000)
    connection.data_received(get(b"/", b"Connection: close"))
    node.answer(0, bytes(100_000))
    node.pass_seconds(LINGER_SECONDS + 5)
    assert not transport.is_aborted
    node.pass_seconds(HTTP_BODY_SECONDS)
    assert transport.is_aborted


# --- requests that arrive in pieces --------------------------------------------------------------

HALF_BODY = 4 * 1_048_576
LARGE_HEAD = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % (2 * HALF_BODY)
CHUNKED_HEAD = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"


def crowd(node: Node) -> list[tuple[Connection, FakeTransport]]:
    """As many half-sent large requests as the node keeps."""
    clients = [node.connect() for _ in range(HTTP_ARRIVING_BYTES_MAX // HALF_BODY)]
    body = bytes(HALF_BODY)
    for connection, _ in clients:
        connection.data_received(LARGE_HEAD)
        connection.data_received(body)
    assert node.server.crowd.arriving_bytes == HTTP_ARRIVING_BYTES_MAX
    return clients


@pytest.mark.parametrize("head", [LARGE_HEAD, CHUNKED_HEAD + b"%x\r\n" % HALF_BODY])
def test_one_large_request_too_many_is_told_to_come_back(head: bytes) -> None:
    node = Node()
    clients = crowd(node)
    connection, transport = node.connect()
    connection.data_received(head)
    connection.data_received(bytes(HALF_BODY))
    assert transport.written.startswith(b"HTTP/1.1 503 ")
    assert node.server.crowd.arriving_bytes == HTTP_ARRIVING_BYTES_MAX
    clients[0][0].data_received(bytes(HALF_BODY))
    assert len(node.open) == 1, "those who came before are served"
    assert node.server.crowd.arriving_bytes == HTTP_ARRIVING_BYTES_MAX - HALF_BODY


def test_small_requests_pass_through_the_crowd() -> None:
    node = Node()
    crowd(node)
    connection, transport = node.connect()
    connection.data_received(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nab")
    connection.data_received(b"cd")
    assert len(node.open) == 1 and transport.written == b""


def test_whoever_goes_away_makes_room() -> None:
    node = Node()
    for connection, _ in crowd(node):
        connection.connection_lost(None)
    assert node.server.crowd.arriving_bytes == 0


def test_a_body_in_tiny_pieces_arrives_whole() -> None:
    node = Node()
    connection, _ = node.connect()
    body = bytes(range(256)) * 40
    connection.data_received(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10240\r\n\r\n")
    for at in range(0, len(body), 2):
        connection.data_received(body[at : at + 2])
    assert node.open[0][0].body == body
    assert node.server.crowd.arriving_bytes == 0
