"""The chunked transfer coding of a request body, strictly (RFC 9112 §7.1). Sans-IO.

Chunk extensions and trailers are read, bounded and ignored. Line ends are CRLF and nothing else: a
reader that takes a lone LF as well would see another request where the next server sees a body.
"""

import re
from collections.abc import Callable
from typing import Final

from fastnode.config import HTTP_BODY_BYTES_MAX, HTTP_HEADER_BYTES_MAX
from fastnode.native import RefusedError

_LINE_BYTES_MAX: Final = 256
_SIZE_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,16})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?")
_TRAILER_LINE: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*")


class ChunkedBody:
    """Takes bytes from a buffer until the body is complete; keeps only the decoded body."""

    __slots__ = ("_missing", "_step", "_trailer_bytes", "body", "is_complete")

    def __init__(self) -> None:
        # Not a list of parts: a body of one-byte chunks would cost forty times its size.
        self.body = bytearray()
        self.is_complete = False
        self._missing = 0
        self._trailer_bytes = 0
        # A plain function: a bound method would tie the object to itself and leave it to the
        # collector.
        self._step: Callable[[ChunkedBody, bytes, int], int] = ChunkedBody._take_size

    def take(self, buffer: bytes, at: int) -> int:
        """Consume what can be consumed from `at` on and return where it stopped. Raises
        `RefusedError`.
        """
        while not self.is_complete:
            after = self._step(self, buffer, at)
            if after < 0:
                break
            at = after
        return at

    def _take_size(self, buffer: bytes, at: int) -> int:
        line = _line_at(buffer, at, _LINE_BYTES_MAX)
        if line is None:
            return -1
        match = _SIZE_LINE.fullmatch(line)
        if match is None:
            raise RefusedError(400, "malformed chunk size")
        self._missing = int(match[1], 16)
        if len(self.body) + self._missing > HTTP_BODY_BYTES_MAX:
            raise RefusedError(413, "request body too large")
        self._step = ChunkedBody._take_chunk if self._missing else ChunkedBody._take_trailer
        return at + len(line) + 2

    def _take_chunk(self, buffer: bytes, at: int) -> int:
        part = buffer[at : at + self._missing]
        if not part:
            return -1
        self.body += part
        self._missing -= len(part)
        if not self._missing:
            self._step = ChunkedBody._take_chunk_end
        return at + len(part)

    def _take_chunk_end(self, buffer: bytes, at: int) -> int:
        line_end = buffer[at : at + 2]
        if line_end == b"\r\n":
            self._step = ChunkedBody._take_size
            return at + 2
        if line_end not in (b"", b"\r"):
            raise RefusedError(400, "chunk longer than its size")
        return -1

    def _take_trailer(self, buffer: bytes, at: int) -> int:
        line = _line_at(buffer, at, HTTP_HEADER_BYTES_MAX - self._trailer_bytes)
        if line is None:
            return -1
        self._trailer_bytes += len(line) + 2
        if not line:
            self.is_complete = True
        elif _TRAILER_LINE.fullmatch(line) is None:
            raise RefusedError(400, "malformed trailer")
        return at + len(line) + 2


def _line_at(buffer: bytes, at: int, bytes_max: int) -> bytes | None:
    """The line that starts at `at`, without its CRLF; None while its end has not come."""
    line_end = buffer.find(b"\r\n", at, at + bytes_max)
    if line_end >= 0:
        return buffer[at:line_end]
    if len(buffer) - at >= bytes_max or b"\n" in buffer[at:]:
        raise RefusedError(400, "malformed line in a chunked body")
    return None
