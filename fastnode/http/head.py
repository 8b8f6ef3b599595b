"""One complete request head → a `Request` without its body. Sans-IO.

This function is the seam of the parser: `http1.py` decides where a head begins and ends and what
its body is, and asks only this file what the head says. A compiled scanner may take its place, with
httptools as the judge. What is refused here is refused whatever the packets looked like, because a
head is only read when it is whole.
"""

from typing import Final

import httptools
from msgspec import Struct

from fastnode.config import HTTP_HEADERS_MAX

# Two of these would let two servers in a row disagree about where a request ends or whom it is for.
_ONCE_ONLY: Final = frozenset({b"content-length", b"host"})
_VERSIONS: Final = {b" HTTP/1.1": "1.1", b" HTTP/1.0": "1.0"}
_LINE_FEED: Final = 10
_VERSION_BYTES: Final = len(b" HTTP/1.1")


class RefusedError(Exception):
    """A request that is answered by its status alone; the connection ends with it."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(status, reason)
        self.status = status
        self.reason = reason


class Request(Struct, gc=False):
    """Header names are in lower case; repeated headers are joined by a comma, in their order.
    `target` is what the client wrote: a path with its raw query, as a rule.
    """

    method: bytes
    target: bytes
    http_version: str
    headers: dict[bytes, bytes]
    keep_alive: bool
    body: bytes = b""

    @property
    def path(self) -> bytes:
        """The path alone; the absolute form that is sent to proxies loses its scheme and host."""
        path = self.target.partition(b"?")[0]
        if path[:1] == b"/" or b"://" not in path:
            return path
        return b"/" + path.partition(b"://")[2].partition(b"/")[2]

    @property
    def query(self) -> bytes:
        return self.target.partition(b"?")[2]


class _Collector:
    """What httptools calls. Every judgement waits for the end, so that the first error does not
    depend on order.
    """

    __slots__ = ("headers", "repeated", "target")

    def __init__(self) -> None:
        self.target = b""
        self.headers: dict[bytes, bytes] = {}
        self.repeated: list[bytes] = []

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        headers = self.headers
        if name in headers:
            self.repeated.append(name)
            value = headers[name] + b"," + value
        headers[name] = value.rstrip()


def scan_head(head: bytes) -> Request:
    """The request without its body. `head` ends with its empty line. Raises `RefusedError`."""
    # RFC 9112 §2.2: an empty line before the request is ignored. One is enough.
    head = head.removeprefix(b"\r\n")
    collector = _Collector()
    parser = httptools.HttpRequestParser(collector)
    try:
        parser.feed_data(head)
    except httptools.HttpParserUpgrade:
        # An offer to change the protocol may be ignored (RFC 9110 §7.8), and the framing is ours.
        pass
    except httptools.HttpParserError as error:
        raise RefusedError(400, "malformed request head") from error
    _check_headers(collector)
    method, target, headers = parser.get_method(), collector.target, collector.headers
    version = _version_of(head)
    if method == b"CONNECT":
        raise RefusedError(501, "tunnels are not supported")
    return Request(method, target, version, headers, _keeps_alive(version, headers))


def _version_of(head: bytes) -> str:
    """httptools skips line ends before a request and extra spaces within its first line; the next
    reader may not.
    """
    line_end = head.find(b"\r\n")
    if head.count(b" ", 0, line_end) != 2 or head[0] == _LINE_FEED:
        raise RefusedError(400, "malformed request line")
    version = _VERSIONS.get(head[line_end - _VERSION_BYTES : line_end])
    if version is None:
        raise RefusedError(505, "HTTP/1.1 or HTTP/1.0 only")
    return version


def _keeps_alive(version: str, headers: dict[bytes, bytes]) -> bool:
    connection = headers.get(b"connection")
    if connection is None:
        return version == "1.1"
    options = {option.strip() for option in connection.lower().split(b",")}
    return b"close" not in options and (version == "1.1" or b"keep-alive" in options)


def _check_headers(collector: _Collector) -> None:
    if len(collector.headers) + len(collector.repeated) > HTTP_HEADERS_MAX:
        raise RefusedError(431, "too many headers")
    if not _ONCE_ONLY.isdisjoint(collector.repeated):
        raise RefusedError(400, "repeated Host or Content-Length")
