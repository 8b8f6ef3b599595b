"""The request parser: what it accepts, what it refuses, and that packets do not matter."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.config import HTTP_BODY_BYTES_MAX, HTTP_HEADER_BYTES_MAX, HTTP_HEADERS_MAX
from fastnode.http.http1 import CONTINUE, Event, Refused, Request, RequestParser, Stage

HEAD = b"POST /q?a=b HTTP/1.1\r\nHost: h\r\n"
THREE = b"GET /1 HTTP/1.1\r\nHost: h\r\n\r\n" * 3


def drained(parser: RequestParser) -> list[Event]:
    events: list[Event] = []
    while (event := parser.next_event()) is not None:
        events.append(event)
    return events


def events_of(*packets: bytes) -> list[Event]:
    parser = RequestParser()
    events: list[Event] = []
    for packet in packets:
        parser.feed(packet)
        events += drained(parser)
    return events


def only(stream: bytes) -> Request:
    (event,) = events_of(stream)
    assert isinstance(event, Request)
    return event


def status_of(stream: bytes) -> int:
    event = events_of(stream)[-1]
    assert isinstance(event, Refused), event
    return event.status


def outcomes(*packets: bytes) -> list[Event | int]:
    """What may not depend on the packets: the requests, and the status of a refusal. The go-ahead
    does depend on them, since it is left out when the body is already there.
    """
    events = [event for event in events_of(*packets) if event is not CONTINUE]
    return [event.status if isinstance(event, Refused) else event for event in events]


STREAMS = {
    "plain get": b"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
    "body": HEAD + b"Content-Length: 5\r\n\r\nhello",
    "empty body": HEAD + b"Content-Length: 0\r\n\r\n",
    "chunks": HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n",
    "trailers": HEAD + b"Transfer-Encoding: Chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n",
    "three in a row": THREE,
    "mixed": HEAD
    + b"Content-Length: 2\r\n\r\n\r\n"
    + HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    + b"GET /2 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\nignored",
    "expectation": HEAD + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\nok",
    "http/1.0": b"GET / HTTP/1.0\r\n\r\nignored",
    "empty line first": b"\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
    "upgrade offer": b"GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
    "lone line feed": b"GET / HTTP/1.1\nHost: h\n\n",
    "late lone line feed": b"GET / HTTP/1.1\r\nHost: h\nA: b\r\n\r\n",
    "line feed first": b"\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
    "line feed after body": HEAD + b"Content-Length: 1\r\n\r\n\r\nGET",
    "good then bad": THREE + b"nonsense\r\n\r\n",
    "bad chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "chunk lies": HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n",
    "chunk line feed": HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n",
    "long head": b"GET / HTTP/1.1\r\nHost: h\r\nA: " + b"a" * HTTP_HEADER_BYTES_MAX,
    "unfinished": HEAD + b"Content-Length: 9\r\n\r\nhell",
}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS.keys())
def test_one_byte_at_a_time_equals_all_at_once(stream: bytes) -> None:
    assert outcomes(*(stream[i : i + 1] for i in range(len(stream)))) == outcomes(stream)


@pytest.mark.parametrize("name", [name for name, s in STREAMS.items() if len(s) < 1_000])
def test_every_cut_in_two_gives_the_same_events(name: str) -> None:
    stream = STREAMS[name]
    whole = outcomes(stream)
    for cut in range(len(stream) + 1):
        assert outcomes(stream[:cut], stream[cut:]) == whole, cut


def test_a_request_shows_what_the_client_sent() -> None:
    request = only(HEAD + b"X-Two: 1 \r\nx-two:\t2\r\nContent-Length: 2\r\n\r\nhi")
    assert request.method == b"POST"
    assert (request.path, request.query) == (b"/q", b"a=b")
    assert request.headers == {b"host": b"h", b"x-two": b"1,2", b"content-length": b"2"}
    assert request.body == b"hi"
    assert request.keep_alive
    assert request.http_version == "1.1"


def test_the_absolute_form_has_a_path() -> None:
    request = only(b"GET http://h:1/a/b?c HTTP/1.1\r\nHost: h:1\r\n\r\n")
    assert (request.path, request.query) == (b"/a/b", b"c")


@pytest.mark.parametrize(
    ("version", "connection", "keep_alive"),
    [
        (b"1.1", b"", True),
        (b"1.1", b"Connection: Close\r\n", False),
        (b"1.1", b"Connection: x, close\r\n", False),
        (b"1.1", b"Connection: keep-alive\r\n", True),
        (b"1.0", b"", False),
        (b"1.0", b"Connection: Keep-Alive\r\n", True),
    ],
)
def test_keep_alive_follows_version_and_header(
    version: bytes, connection: bytes, keep_alive: bool
) -> None:
    request = only(b"GET / HTTP/" + version + b"\r\nHost: h\r\n" + connection + b"\r\n")
    assert request.keep_alive is keep_alive


@pytest.mark.parametrize("method", [b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"PATCH"])
def test_other_methods_are_passed_up(method: bytes) -> None:
    assert only(method + b" / HTTP/1.1\r\nHost: h\r\n\r\n").method == method


def test_chunks_are_joined_and_trailers_ignored() -> None:
    request = only(STREAMS["chunks"])
    assert request.body == b"abcde"
    assert b"x-sum" not in only(STREAMS["trailers"]).headers


def test_an_upgrade_offer_is_a_plain_request_with_its_body() -> None:
    stream = HEAD + b"Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\nhi"
    assert only(stream).body == b"hi"


def test_a_waiting_client_is_told_to_continue_once() -> None:
    head = HEAD + b"Expect: 100-Continue\r\nContent-Length: 2\r\n\r\n"
    first, second = events_of(head, b"o", b"k")
    assert first is CONTINUE
    assert isinstance(second, Request)
    assert second.body == b"ok"


REFUSED = {
    "both lengths": (HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    "both lengths reversed": (
        HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
        400,
    ),
    "two equal lengths": (HEAD + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\n", 400),
    "length list": (HEAD + b"Content-Length: 3, 3\r\n\r\n", 400),
    "signed length": (HEAD + b"Content-Length: +3\r\n\r\n", 400),
    "hex length": (HEAD + b"Content-Length: 0x3\r\n\r\n", 400),
    "length with an underscore": (HEAD + b"Content-Length: 1_0\r\n\r\n", 400),
    "negative length": (HEAD + b"Content-Length: -1\r\n\r\n", 400),
    "empty length": (HEAD + b"Content-Length: \r\n\r\n", 400),
    "endless length": (HEAD + b"Content-Length: " + b"9" * 5_000 + b"\r\n\r\n", 400),
    "two hosts": (HEAD + b"HOST: other\r\n\r\n", 400),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "unknown coding": (HEAD + b"Transfer-Encoding: gzip\r\n\r\n", 400),
    "coding after chunked": (HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n", 400),
    "chunked twice": (
        HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        400,
    ),
    "chunked by another name": (HEAD + b"Transfer-Encoding: xchunked\r\n\r\n", 400),
    "chunked in http/1.0": (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    "space before colon": (b"GET / HTTP/1.1\r\nHost : h\r\n\r\n", 400),
    "folded header": (b"GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n c\r\n\r\n", 400),
    "folded first header": (b"GET / HTTP/1.1\r\n Host: h\r\n\r\n", 400),
    "lone carriage return": (b"GET / HTTP/1.1\r\nHost: h\rA: b\r\n\r\n", 400),
    "nul in a value": (b"GET / HTTP/1.1\r\nHost: h\r\nA: \0\r\n\r\n", 400),
    "no colon": (b"GET / HTTP/1.1\r\nHost\r\n\r\n", 400),
    "two spaces": (b"GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    "no version": (b"GET /\r\n\r\n", 400),
    "empty lines only": (b"\r\n\r\n", 400),
    "two empty lines first": (b"\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    "carriage return first": (b"\rGET / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    "unknown method": (b"BREW / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    "http/2": (b"GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505),
    "http/2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "another protocol": (b"GET / RTSP/1.0\r\nHost: h\r\n\r\n", 505),
    "tunnel": (b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n", 501),
    "unknown expectation": (HEAD + b"Expect: coffee\r\nContent-Length: 1\r\n\r\na", 417),
    "chunk size with a sign": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n+1\r\na\r\n", 400),
    "chunk longer than its size": (
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
        400,
    ),
    "chunk size 0x": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n", 400),
    "chunk size empty": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n\r\n", 400),
    "chunk size endless": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"0" * 300, 400),
    "bad trailer": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\nno colon\r\n\r\n", 400),
    "endless trailers": (
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 10_000,
        400,
    ),
}


@pytest.mark.parametrize(("stream", "status"), REFUSED.values(), ids=REFUSED.keys())
def test_a_shape_that_two_readers_could_see_differently_is_refused(
    stream: bytes, status: int
) -> None:
    assert status_of(stream) == status


def test_nothing_follows_a_refusal() -> None:
    parser = RequestParser()
    parser.feed(b"nonsense\r\n\r\n" + STREAMS["plain get"])
    assert [type(event) for event in drained(parser)] == [Refused]
    parser.feed(STREAMS["plain get"])
    assert drained(parser) == []
    assert parser.stage is Stage.OVER


def test_nothing_follows_the_last_request() -> None:
    parser = RequestParser()
    parser.feed(b"GET / HTTP/1.0\r\n\r\n" + STREAMS["plain get"])
    assert len(drained(parser)) == 1
    parser.feed(STREAMS["plain get"])
    assert drained(parser) == []


def sized_head(size: int) -> bytes:
    start = b"GET / HTTP/1.1\r\nHost: h\r\nA: "
    return start + b"a" * (size - len(start) - 4) + b"\r\n\r\n"


def test_the_head_limit_is_exact() -> None:
    assert only(sized_head(HTTP_HEADER_BYTES_MAX))
    assert status_of(sized_head(HTTP_HEADER_BYTES_MAX + 1)) == 431


def test_a_head_is_refused_before_its_end_comes() -> None:
    assert status_of(sized_head(HTTP_HEADER_BYTES_MAX + 100)[:HTTP_HEADER_BYTES_MAX]) == 431


def test_the_header_count_limit_is_exact() -> None:
    most = b"A: b\r\n" * (HTTP_HEADERS_MAX - 1)
    start = b"GET / HTTP/1.1\r\nHost: h\r\n"
    assert only(start + most + b"\r\n")
    assert status_of(start + most + b"A: b\r\n\r\n") == 431


def test_the_body_limit_is_exact() -> None:
    body = bytes(HTTP_BODY_BYTES_MAX)
    assert len(only(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body).body) == len(body)
    assert status_of(HEAD + b"Content-Length: %d\r\n\r\n" % (len(body) + 1)) == 413


def test_a_chunked_body_is_refused_as_soon_as_it_is_too_large() -> None:
    head = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    chunk = b"%x\r\n" % HTTP_BODY_BYTES_MAX + bytes(HTTP_BODY_BYTES_MAX) + b"\r\n"
    assert only(head + chunk + b"0\r\n\r\n")
    assert status_of(head + chunk + b"1\r\n") == 413


def test_the_stage_says_what_is_awaited() -> None:
    parser = RequestParser()
    stages = []
    for packet in (
        b"",
        b"POST",
        b" / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n",
        b"o",
        b"k",
    ):
        parser.feed(packet)
        drained(parser)
        stages.append(parser.stage)
    assert stages == [Stage.BETWEEN, Stage.HEAD, Stage.BODY, Stage.BODY, Stage.BETWEEN]


# --- parse it or refuse it, nothing else --------------------------------------------------------

FRAGMENTS = st.sampled_from(
    [
        b"GET / HTTP/1.1\r\n",
        b"POST /q HTTP/1.1\r\n",
        b"GET / HTTP/1.0\r\n",
        b"Host: h\r\n",
        b"Content-Length: 3\r\n",
        b"Content-Length: 0\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: close\r\n",
        b"Connection: upgrade\r\n",
        b"Upgrade: x\r\n",
        b"Expect: 100-continue\r\n",
        b"\r\n",
        b"\n",
        b"\r",
        b" ",
        b":",
        b"abc",
        b"3\r\nabc\r\n",
        b"0\r\n\r\n",
        b"0\r\nA: b\r\n\r\n",
    ]
)
STREAM = st.lists(FRAGMENTS | st.binary(max_size=6), max_size=14).map(b"".join)


@given(STREAM, st.lists(st.integers(0, 200), max_size=6))
def test_any_bytes_are_parsed_or_refused_whatever_the_packets(
    stream: bytes, cuts: list[int]
) -> None:
    bounds = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    packets = [stream[a:b] for a, b in pairwise(bounds)]
    pieces = outcomes(*packets)
    assert pieces == outcomes(stream)
    assert all(isinstance(event, Request) for event in pieces[:-1])


@given(STREAM)
def test_an_accepted_head_holds_no_lone_line_end(stream: bytes) -> None:
    head = b"GET / HTTP/1.1\r\nHost: h\r\n" + stream.replace(b"\r\n\r\n", b"") + b"\r\n\r\n"
    parser = RequestParser()
    parser.feed(head)
    event = parser.next_event()
    head_bytes = head[: head.index(b"\r\n\r\n") + 4]
    if isinstance(event, Request):
        assert head_bytes.count(b"\n") == head_bytes.count(b"\r") == head_bytes.count(b"\r\n")


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=8), st.integers(1, 7))
def test_a_chunked_body_is_what_was_sent(chunks: list[bytes], packet_bytes: int) -> None:
    coded = b"".join(b"%X\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    stream = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + coded + b"0\r\n\r\n"
    packets = [stream[i : i + packet_bytes] for i in range(0, len(stream), packet_bytes)]
    (request,) = events_of(*packets)
    assert isinstance(request, Request)
    assert request.body == b"".join(chunks)
