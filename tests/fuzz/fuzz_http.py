"""Any bytes in any packets → the request parser. The first byte picks how the rest is cut.

Whatever arrives: requests or one refusal, nothing else; the same for every cut; the compiled reader
agrees with its twin; what is accepted has one reading only (a strict grammar of our own, and a
second parser, must see the same request); nothing is kept that was not sent.
"""

import re
from typing import Final

import httptools

from fastnode import _http, _http_ref
from fastnode.config import HTTP_HEADER_BYTES_MAX, HTTP_HEADERS_MAX
from fastnode.http.http1 import CONTINUE, Event, Refused, Request, RequestParser
from fastnode.native import CHUNKED, RefusedError
from tests.unit.http.signed_requests import parts_of

STATUSES: Final = frozenset({400, 413, 417, 431, 501, 505})
_TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_VALUE: Final = rb"[\t\x20-\x7e\x80-\xff]*"
_HEAD: Final = re.compile(
    rb"(?:\r\n)?[A-Z-]+ [^\x00-\x20\x7f]+ HTTP/1\.[01]\r\n"
    rb"(?:" + _TOKEN + rb":" + _VALUE + rb"\r\n)*\r\n"
)
_LENGTH: Final = re.compile(rb"^content-length:[ \t]*([^\r]*?)[ \t]*\r$", re.M | re.I)
_CODING: Final = re.compile(rb"^transfer-encoding:", re.M | re.I)


def check(data: bytes) -> None:
    cut, stream = data[:1], data[1:]
    whole = _outcomes([stream])
    assert _outcomes(_packets(stream, cut[0] if cut else 0)) == whole
    _check_twins(stream)
    requests = [event for event in whole if isinstance(event, Request)]
    assert sum(len(request.body) for request in requests) <= len(stream)
    assert all(len(request.headers) <= HTTP_HEADERS_MAX for request in requests)
    _check_readings(stream, len(requests))
    _check_judge(stream, requests)


def _packets(stream: bytes, cut: int) -> list[bytes]:
    """One byte each, or pieces whose sizes only the first byte decides."""
    sizes = [1] if cut == 0 else [cut % 7 + 1, cut // 7 + 1, cut]
    packets, at, turn = [], 0, 0
    while at < len(stream):
        size = sizes[turn % len(sizes)]
        packets.append(stream[at : at + size])
        at, turn = at + size, turn + 1
    return packets


def _outcomes(packets: list[bytes]) -> list[Event | int]:
    """Requests, and the status of a refusal, which must be the last. The go-ahead is left out: it
    depends on whether the body is there already.
    """
    parser, events = RequestParser(), list[Event]()
    for packet in packets:
        parser.feed(packet)
        while (event := parser.next_event()) is not None:
            events.append(event)
    refusals = [event for event in events if isinstance(event, Refused)]
    assert not refusals or refusals == events[-1:], events
    assert all(refused.status in STATUSES for refused in refusals), refusals
    shown = [event for event in events if event is not CONTINUE]
    return [event.status if isinstance(event, Refused) else event for event in shown]


def _check_twins(stream: bytes) -> None:
    for start in {0, len(stream) // 2}:
        compiled = _taken(_http.take_request, stream, start)
        assert compiled == _taken(_http_ref.take_request, stream, start), start


def _taken(take: object, stream: bytes, start: int) -> object:
    assert callable(take)
    try:
        taken = take(stream, start, start)
        return taken and (parts_of(taken[0]), *taken[1:])
    except RefusedError as refusal:
        return refusal.status, refusal.reason


def _check_readings(stream: bytes, count: int) -> None:
    """Every accepted head fits a grammar without lone line feeds, folded lines or spaces before a
    colon, and says the length of its body at most once.
    """
    at = 0
    for _ in range(count):
        taken = _http_ref.take_request(stream, at, at)
        assert taken is not None
        _, end, missing = taken
        head_end = stream.index(b"\r\n\r\n", at) + 4
        head = stream[at:head_end]
        assert len(head) <= HTTP_HEADER_BYTES_MAX
        assert _HEAD.fullmatch(head), head
        lengths = _LENGTH.findall(head)
        assert len(lengths) + len(_CODING.findall(head)) <= 1, head
        assert all(length.isdigit() for length in lengths), head
        if missing:
            # A body in chunks: where it ends is the judge's business.
            assert missing == CHUNKED
            return
        at = end


class _Judge:
    """What httptools makes of the stream on its own."""

    def __init__(self) -> None:
        self.requests: list[tuple[bytes, bytes]] = []
        self._target = self._body = b""

    def on_message_begin(self) -> None:
        self._target = self._body = b""

    def on_url(self, target: bytes) -> None:
        self._target += target

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self.requests.append((self._target, self._body))


def _check_judge(stream: bytes, requests: list[Request]) -> None:
    """Both see the same requests, as far as both go. An offer to change the protocol ends the
    judge's reading, and it refuses some trailers that we ignore; it must not read a request
    otherwise, or wait for more where we have seen an end.
    """
    judge = _Judge()
    parser, has_refused = httptools.HttpRequestParser(judge), False
    try:
        parser.feed_data(stream)
    except (httptools.HttpParserError, httptools.HttpParserUpgrade):
        has_refused = True
    ours = [(request.target, request.body) for request in requests]
    both = min(len(ours), len(judge.requests))
    if not any(b"upgrade" in request.headers for request in requests):
        assert ours[:both] == judge.requests[:both]
        assert has_refused or len(ours) <= len(judge.requests), "we saw an end too early"
