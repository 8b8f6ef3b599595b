"""One answer → its bytes. Sans-IO. What the answer says is the codecs' business; how it is framed
is ours.
"""

from http import HTTPStatus
from typing import Final

_STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
CONTINUE_RESPONSE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
CLOSE: Final = b"Connection: close\r\n"
# HTTP/1.0 clients keep a connection only if the server says so.
KEEP_ALIVE: Final = b"Connection: keep-alive\r\n"
RETRY: Final = b"Retry-After: 1\r\n"
TEXT: Final = b"Content-Type: text/plain; charset=utf-8\r\n"


def response_head(status: int, headers: bytes, connection: bytes, body_bytes: int) -> bytes:
    """`headers` and `connection` are complete header lines, or empty."""
    return b"%b%b%bContent-Length: %d\r\n\r\n" % (
        _STATUS_LINES[status],
        headers,
        connection,
        body_bytes,
    )


def whole_response(status: int, headers: bytes, connection: bytes, body: bytes) -> bytes:
    return b"%b%b%bContent-Length: %d\r\n\r\n%b" % (
        _STATUS_LINES[status],
        headers,
        connection,
        len(body),
        body,
    )
