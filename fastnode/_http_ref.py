"""One request out of a buffer: its head by httptools, its framing by plain rules. Sans-IO.

The obviously correct version: `_http.pyx` recognises the plain requests that make up the load and
asks this file about all others, so whatever is refused is refused here. What is refused does not
depend on packets, because a head is only read when it is whole. Buffers, bodies that arrive in
parts and the chunked coding are not here.
"""

from typing import Final

import httptools
from msgspec import Struct

from fastnode.config import HTTP_BODY_BYTES_MAX, HTTP_HEADER_BYTES_MAX, HTTP_HEADERS_MAX

CHUNKED: Final = -1
_HEAD_END: Final = b"\r\n\r\n"
# Two of these would let two servers in a row disagree about where a request ends or whom it is for.
_ONCE_ONLY: Final = frozenset({b"content-length", b"host"})
_VERSIONS: Final = {b" HTTP/1.1": "1.1", b" HTTP/1.0": "1.0"}
_VERSION_BYTES: Final = len(b" HTTP/1.1")
# Longer than any length that can be accepted; keeps a number of thousands of digits from being
# parsed.
_LENGTH_DIGITS_MAX: Final = 19


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

    def get(self, name: bytes) -> bytes | None:
        """A header."""
        return self.headers.get(name)

    def has(self, name: bytes) -> bool:
        return name in self.headers

    def says(self, name: bytes, value: bytes) -> bool:
        """Whether the header is there, and is just that."""
        return self.headers.get(name) == value


def take_request(buffer: bytes, start: int, searched: int) -> tuple[Request, int, int] | None:
    """The request whose head begins at `start`, where the buffer goes on after what was taken of
    it, and how many bytes of its body are missing: 0 when it is complete, `CHUNKED` when its chunks
    have to be read. A body of which a part is missing is not taken at all. None while the head has
    no end; none is looked for before `searched`. Raises `RefusedError`.
    """
    end = buffer.find(_HEAD_END, searched, start + HTTP_HEADER_BYTES_MAX)
    if end < 0:
        return None
    end += len(_HEAD_END)
    request = _scan_head(buffer[start:end])
    length = _body_length(request)
    _check_expectation(request)
    if length == CHUNKED or end + length > len(buffer):
        return request, end, length
    request.body = buffer[end : end + length]
    return request, end + length, 0


def take_whole(data: bytes) -> Request | None:
    """The posted request that `data` is, if it is one and no more, and the connection goes on
    after it; None for whatever else it may be.
    """
    try:
        taken = take_request(data, 0, 0)
    except RefusedError:
        return None
    if taken is None:
        return None
    request, end, missing = taken
    is_plain = request.method == b"POST" and request.http_version == "1.1" and request.keep_alive
    return request if is_plain and not missing and end == len(data) else None


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


def _scan_head(head: bytes) -> Request:
    """The request without its body. `head` ends with its empty line."""
    # RFC 9112 §2.2: an empty line before the request is ignored. One is enough.
    head = head.removeprefix(b"\r\n")
    # The parser would go on behind one, and the answer would depend on how the bytes arrived.
    if head.count(b"\n") != head.count(b"\r\n"):
        raise RefusedError(400, "line feed without carriage return")
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
    if head.count(b" ", 0, line_end) != 2 or head.startswith((b"\r", b"\n")):
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


def _body_length(request: Request) -> int:
    """Bytes of the body, or `CHUNKED`; what cannot be framed safely is refused."""
    headers = request.headers
    if request.http_version == "1.1" and not headers.get(b"host"):
        raise RefusedError(400, "Host is missing")
    length = headers.get(b"content-length")
    if b"transfer-encoding" in headers:
        if length is not None or request.http_version == "1.0":
            raise RefusedError(400, "ambiguous body length")
        if headers[b"transfer-encoding"].lower() != b"chunked":
            raise RefusedError(501, "unknown transfer coding")
        return CHUNKED
    if length is None:
        return 0
    if not length.isdigit() or len(length) > _LENGTH_DIGITS_MAX:
        raise RefusedError(400, "malformed Content-Length")
    if int(length) > HTTP_BODY_BYTES_MAX:
        raise RefusedError(413, "request body too large")
    return int(length)


def _check_expectation(request: Request) -> None:
    """HTTP/1.0 knows no expectations, so there the header means nothing."""
    expectation = request.headers.get(b"expect", b"100-continue")
    if request.http_version != "1.0" and expectation.lower() != b"100-continue":
        raise RefusedError(417, "unknown expectation")
