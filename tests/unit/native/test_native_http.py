"""The compiled request scanner against its twin: the same requests, the same refusals, on any
bytes, wherever the buffer ends.
"""

from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastnode import _http_ref, native
from fastnode.config import HTTP_BODY_BYTES_MAX, HTTP_HEADER_BYTES_MAX, HTTP_HEADERS_MAX
from fastnode.native import CHUNKED, RefusedError, take_request, take_whole
from tests.unit.http.signed_requests import parts_of

compiled_only = pytest.mark.skipif(not native.COMPILED, reason="pure mode has nothing to compare")

Taken = tuple[Any, int, int] | None
Scanner = Callable[[bytes, int, int], Taken]

TYPICAL = (
    b"POST /123456789012/orders?x=%20y HTTP/1.1\r\n"
    b"Host: 127.0.0.1:9324\r\n"
    b"Accept-Encoding: identity\r\n"
    b"X-Amz-Target: AmazonSQS.SendMessage\r\n"
    b"x-amzn-query-mode: true\r\n"
    b"Content-Type: application/x-amz-json-1.0\r\n"
    b"User-Agent: Boto3/1.44.0 md/Botocore#1.44.0 ua/2.1 os/linux#6.8.0 lang/python#3.12.3\r\n"
    b"X-Amz-Date: 20260101T000000Z\r\n"
    b"Authorization: AWS4-HMAC-SHA256 Credential=AKID/20260101/eu-west-1/sqs/aws4_request,"
    b" SignedHeaders=host;x-amz-date, Signature=0123456789abcdef\r\n"
    b"amz-sdk-invocation-id: 6f1c4a52-0d3e-4b77-9c18-000000000000\r\n"
    b"amz-sdk-request: attempt=1\r\n"
    b"X-Own-Header: \xe4 \t b \r\n"
    b"Content-Length: 5\r\n"
    b"Connection: Keep-Alive\r\n"
    b"\r\nhello"
)
START = b"POST / HTTP/1.1\r\nHost: h\r\n"
PLAIN = {
    "typical": TYPICAL,
    "get": b"GET / HTTP/1.1\r\nhost:h\r\n\r\n",
    "pipelined": TYPICAL + TYPICAL,
    "body to come": TYPICAL[:-1],
    "many headers": START + b"".join(b"n%d: v\r\n" % n for n in range(23)) + b"\r\n",
    "largest head": START
    + b"a: ".ljust(HTTP_HEADER_BYTES_MAX - len(START) - 4, b"a")
    + b"\r\n\r\n",
    "largest body": START + b"Content-Length: %d\r\n\r\n" % HTTP_BODY_BYTES_MAX,
    "blank value": START + b"A: \t \r\n\r\n",
    "blanks around a length": START + b"Content-Length:\t 3 \t\r\n\r\nabc",
}


def outcome(scan: Scanner, buffer: bytes, start: int = 0, searched: int = 0) -> object:
    """The reason of a refusal is prose; its status is not."""
    try:
        taken = scan(buffer, start, searched)
    except RefusedError as refusal:
        return refusal.status
    if taken is None:
        return None
    request, end, missing = taken
    # Dictionaries are equal in any order, so their names are told apart.
    said = request.method, request.target, request.http_version, request.keep_alive, request.body
    return (*said, request.headers, list(request.headers), end, missing)


def assert_equal(buffer: bytes, start: int = 0, searched: int = 0) -> None:
    ours = outcome(take_request, buffer, start, searched)
    assert ours == outcome(_http_ref.take_request, buffer, start, searched)
    whole = take_whole(buffer)
    if whole is not None:
        twin = _http_ref.take_whole(buffer)
        assert twin is not None
        assert_same_headers(whole, twin)
        assert parts_of(whole) == parts_of(cast(Any, twin))


def assert_same_headers(ours: Any, twin: _http_ref.Request) -> None:
    """Asked for one by one, while they are where they came."""
    for name in (*twin.headers, b"host", b"Host", b"x-amz-target", b"x-missing", b""):
        value = twin.get(name)
        assert (ours.get(name), ours.has(name)) == (value, twin.has(name))
        for said in (b"", value or b"", (value or b"") + b"x", (value or b"")[1:]):
            assert ours.says(name, said) == twin.says(name, said)


@pytest.mark.parametrize(
    "data",
    [TYPICAL, START + b"\r\n", START + b"a: b\r\nA-B: c\r\nc: \r\n\r\n"],
    ids=["typical", "bare", "unknown names"],
)
def test_a_packet_that_is_a_request_is_taken_whole(data: bytes) -> None:
    assert take_whole(data) is not None
    assert_equal(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        TYPICAL[:-1],
        TYPICAL + b"P",
        TYPICAL.replace(b"POST", b"GET"),
        TYPICAL.replace(b"Keep-Alive", b"close"),
        TYPICAL.replace(b"HTTP/1.1", b"HTTP/1.0"),
        TYPICAL.replace(b"Host", b"No-Host"),
        TYPICAL.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n").replace(b"hello", b""),
    ],
    ids=["nothing", "cut off", "more", "get", "last", "old", "refused", "continue"],
)
def test_any_other_packet_is_not_taken_whole(data: bytes) -> None:
    assert take_whole(data) is None
    assert _http_ref.take_whole(data) is None


def test_a_typical_request_is_taken_whole() -> None:
    taken = take_request(b"xy" + TYPICAL + b"GET", 2, 2)
    assert taken is not None
    request, end, missing = taken
    assert (end, missing) == (len(TYPICAL) + 2, 0)
    assert (request.method, request.target) == (b"POST", b"/123456789012/orders?x=%20y")
    assert (request.http_version, request.keep_alive, request.body) == ("1.1", True, b"hello")
    assert len(request.headers) == 13
    assert request.headers[b"x-amz-target"] == b"AmazonSQS.SendMessage"
    assert request.headers[b"x-own-header"] == b"\xe4 \t b"


def test_a_body_that_is_not_all_there_is_left_in_the_buffer() -> None:
    taken = take_request(TYPICAL[:-1], 0, 0)
    assert taken is not None
    assert taken[0].body == b""
    assert taken[1:] == (len(TYPICAL) - 5, 5)


def test_chunks_are_left_in_the_buffer() -> None:
    head = START + b"Transfer-Encoding: chunked\r\n\r\n"
    taken = take_request(head + b"0\r\n\r\n", 0, 0)
    assert taken is not None
    assert taken[1:] == (len(head), CHUNKED)


def test_a_head_without_an_end_is_no_request_yet() -> None:
    head = TYPICAL[: TYPICAL.index(b"\r\n\r\n") + 3]
    assert take_request(head, 0, 0) is None
    assert take_request(head, 0, len(head) - 3) is None


def test_a_head_is_found_from_where_it_was_searched_last() -> None:
    searched = TYPICAL.index(b"\r\n\r\n") - 1
    assert outcome(take_request, TYPICAL, 0, searched) == outcome(take_request, TYPICAL)


@compiled_only
@pytest.mark.parametrize("name", PLAIN)
def test_plain_requests_never_reach_the_twin(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = outcome(_http_ref.take_request, PLAIN[name])
    monkeypatch.setattr(_http_ref, "httptools", None)
    assert isinstance(expected, tuple)
    assert outcome(take_request, PLAIN[name]) == expected


HOSTILE = {
    "most headers": START
    + b"".join(b"n%d: v\r\n" % n for n in range(HTTP_HEADERS_MAX - 1))
    + b"\r\n",
    "empty": b"",
    "empty line": b"\r\n\r\n",
    "folded": START + b"A: b\r\n c\r\n\r\n",
    "folded by a tab": START + b"A: b\r\n\tc\r\n\r\n",
    "lone line feed": START + b"A: b\nB: c\r\n\r\n",
    "lone carriage return": START + b"A: b\rB: c\r\n\r\n",
    "carriage return at the end": START + b"A: b\r\r\n\r\n",
    "carriage return first": b"\r" + START + b"\r\n",
    "empty line first": b"\r\n" + START + b"\r\n",
    "no colon": START + b"A\r\n\r\n",
    "no name": START + b": b\r\n\r\n",
    "colon only": START + b":\r\n\r\n",
    "space before colon": START + b"A : b\r\n\r\n",
    "space before name": START + b" A: b\r\n\r\n",
    "repeated host": START + b"HOST: i\r\n\r\n",
    "repeated length": START + b"Content-Length: 1\r\ncontent-length: 1\r\n\r\na",
    "repeated name": START + b"A: b\r\na: c\r\n\r\n",
    "repeated long name": START + (b"a" * 70 + b": b\r\n") * 2 + b"\r\n",
    "both lengths": START + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "no host": b"POST / HTTP/1.1\r\n\r\n",
    "empty host": b"POST / HTTP/1.1\r\nHost: \r\n\r\n",
    "too many headers": START
    + b"".join(b"n%d: v\r\n" % n for n in range(HTTP_HEADERS_MAX))
    + b"\r\n",
    "too large": START + b"a: ".ljust(HTTP_HEADER_BYTES_MAX - len(START) - 3, b"a") + b"\r\n\r\n",
    "too large a body": START + b"Content-Length: %d\r\n\r\n" % (HTTP_BODY_BYTES_MAX + 1),
    "old": b"GET / HTTP/1.0\r\nHost: h\r\n\r\n",
    "new": b"GET / HTTP/2.0\r\nHost: h\r\n\r\n",
    "unknown version": b"GET / HTTP/1.2\r\nHost: h\r\n\r\n",
    "lower case version": b"GET / http/1.1\r\nHost: h\r\n\r\n",
    "lower case method": b"get / HTTP/1.1\r\nHost: h\r\n\r\n",
    "absolute form": b"GET http://h/a HTTP/1.1\r\nHost: h\r\n\r\n",
    "asterisk form": b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
    "tunnel": b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n",
    "no target": b"GET  HTTP/1.1\r\nHost: h\r\n\r\n",
    "two spaces": b"GET /  HTTP/1.1\r\nHost: h\r\n\r\n",
    "two targets": b"GET / / HTTP/1.1\r\nHost: h\r\n\r\n",
    "high byte in the target": b"GET /\xe4 HTTP/1.1\r\nHost: h\r\n\r\n",
    "line end in the target": b"GET /\r\n HTTP/1.1\r\nHost: h\r\n\r\n",
    "upgrade": START + b"Connection: upgrade\r\nUpgrade: h2c\r\n\r\n",
    "close": START + b"Connection: close\r\n\r\n",
    "keep-alive and close": START + b"Connection: keep-alive, close\r\n\r\n",
    "expectation": START + b"Expect: 100-continue\r\nContent-Length: 1\r\n\r\n",
    "unknown expectation": START + b"Expect: x\r\n\r\n",
}
LENGTHS = (b"", b"+1", b"-1", b"0x1", b"1_0", b"1,1", b"1 1", b"01", b"1\t", b"\xb2", b"/", b":")
LONG_LENGTHS = (b"9" * 15, b"9" * 16, b"9" * 19, b"9" * 20, b"0" * 15 + b"1", b"0" * 30 + b"1")


@pytest.mark.parametrize("buffer", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_and_rare_heads_end_as_the_twin_says(buffer: bytes) -> None:
    assert_equal(buffer)


@pytest.mark.parametrize("length", LENGTHS + LONG_LENGTHS)
def test_lengths_end_as_the_twin_says(length: bytes) -> None:
    assert_equal(START + b"Content-Length: " + length + b"\r\n\r\nab")


PLACES = {
    "method": b"GE@T / HTTP/1.1\r\nHost: h\r\n\r\n",
    "after the method": b"GET@/ HTTP/1.1\r\nHost: h\r\n\r\n",
    "target": b"GET /@ HTTP/1.1\r\nHost: h\r\n\r\n",
    "query": b"GET /?@ HTTP/1.1\r\nHost: h\r\n\r\n",
    "version": b"GET / HTTP/1.1@\r\nHost: h\r\n\r\n",
    "first of a name": START + b"@b: c\r\n\r\n",
    "middle of a name": START + b"a@b: c\r\n\r\n",
    "end of a name": START + b"a@: c\r\n\r\n",
    "start of a value": START + b"a:@c\r\n\r\n",
    "middle of a value": START + b"a: b@c\r\n\r\n",
    "end of a value": START + b"a: b@\r\n\r\n",
    "long value": START + b"a: " + b"b" * 70 + b"@" + b"b" * 70 + b"\r\n\r\n",
    "length": START + b"Content-Length: 1@\r\n\r\nab",
    "connection": START + b"Connection: keep@alive\r\n\r\n",
    "after a line": START + b"a: b\r@\r\n\r\n",
    "before the head": b"@" + START + b"\r\n",
}


@pytest.mark.parametrize("place", PLACES)
def test_every_byte_in_every_place_ends_as_the_twin_says(place: str) -> None:
    for byte in range(256):
        assert_equal(PLACES[place].replace(b"@", bytes([byte])))


@pytest.mark.parametrize("name", [name for name, head in PLAIN.items() if len(head) < 2_000])
def test_every_end_of_the_buffer_ends_as_the_twin_says(name: str) -> None:
    buffer = PLAIN[name]
    for size in range(len(buffer)):
        assert_equal(buffer[:size])


BITS = st.sampled_from(
    [b"\r", b"\n", b"\r\n", b"\r\n\r\n", b" ", b"\t", b":", b"\0", b"\x7f", b"\xff", b",", b""]
) | st.binary(min_size=1, max_size=1)
HEADERS = st.builds(
    lambda name, middle, value: name + middle + value + b"\r\n",
    st.sampled_from([b"Host", b"Content-Length", b"Connection", b"Transfer-Encoding", b"Expect"])
    | st.sampled_from([b"Upgrade", b"Proxy-Connection", b"X-Amz-Target", b"a", b"A", b"x" * 64]),
    st.sampled_from([b": ", b":", b":\t", b" : "]),
    st.sampled_from([b"h", b"", b"3", b"0", b"5 ", b"keep-alive", b"close", b"chunked", b"upgrade"])
    | st.binary(max_size=4),
)
HEADS = st.builds(
    lambda line, headers: line + b"".join(headers) + b"\r\nabcdef",
    st.sampled_from([START, START, b"GET /a?b HTTP/1.1\r\n", b"PUT / HTTP/1.0\r\n"]),
    st.lists(HEADERS, max_size=6),
)
EDITS = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 3), BITS), max_size=3)


def edited(buffer: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    for at, removed, bits in edits:
        at %= len(buffer) + 1
        buffer = buffer[:at] + bits + buffer[at + removed :]
    return buffer


@settings(max_examples=300)
@given(st.sampled_from([TYPICAL, START + b"\r\n"]) | HEADS, EDITS, st.binary(max_size=3), st.data())
def test_any_head_ends_as_the_twin_says(
    head: bytes, edits: list[tuple[int, int, bytes]], before: bytes, data: st.DataObject
) -> None:
    buffer, start = before + edited(head, edits), len(before)
    head_end = buffer.find(b"\r\n\r\n", start)
    last = head_end if head_end >= 0 else len(buffer)
    assert_equal(buffer, start, data.draw(st.just(start) | st.integers(start, last)))


@given(st.binary(max_size=60))
def test_any_bytes_end_as_the_twin_says(buffer: bytes) -> None:
    assert_equal(buffer)
    assert_equal(START + buffer)


@pytest.mark.parametrize("start", [-(2**62), -1, len(TYPICAL), len(TYPICAL) + 1, 2**62])
def test_a_start_outside_of_the_buffer_reads_nothing_outside_of_it(start: int) -> None:
    assert_equal(TYPICAL, start, max(start, 0))
