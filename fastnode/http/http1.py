"""Bytes → request events of one HTTP/1.x connection. Sans-IO: no socket, no clock, no answer.

Feed what arrived, then ask for events until there is none. The caller asks, instead of being
called, so that it can stop at its own bound with a whole burst of pipelined requests still unread.
What comes out does not depend on how the bytes were cut into packets. The events: `Request`
(complete, with its body), `CONTINUE` (the client waits for a go-ahead before it sends the body),
`Refused` (the last event: answer with its status and close).

What a head says and how long its body is, `native.take_request` decides, from the headers and never
by guessing: a request whose end two readers could see in different places (both lengths given,
repeated lengths, lone LF, folded headers) is refused.
"""

import enum
from typing import Final

from msgspec import Struct

from fastnode.config import HTTP_HEADER_BYTES_MAX
from fastnode.http.chunked import ChunkedBody
from fastnode.native import CHUNKED, RefusedError, Request, take_request, take_whole

__all__ = [
    "BETWEEN",
    "CONTINUE",
    "Event",
    "Refused",
    "Request",
    "RequestParser",
    "Signal",
    "Stage",
]

_HEAD_END_BYTES: Final = len(b"\r\n\r\n")
_CARRIAGE_RETURN: Final = 13
# A body that comes in tiny pieces must not cost many times its size.
_PARTS_MAX: Final = 1_024


class Refused(Struct, frozen=True):
    """The bytes are no acceptable request; nothing after them can be trusted."""

    status: int
    reason: str


class Signal(enum.Enum):
    """An event that carries nothing."""

    CONTINUE = enum.auto()


CONTINUE: Final = Signal.CONTINUE
Event = Request | Refused | Signal


class Stage(enum.Enum):
    """Where the connection stands once no event is left; decides which time limit runs."""

    BETWEEN = enum.auto()
    HEAD = enum.auto()
    BODY = enum.auto()
    OVER = enum.auto()


# Reaching a member through its class is slow, and this one is asked for several times per request.
BETWEEN: Final = Stage.BETWEEN


class RequestParser:
    """One per connection."""

    __slots__ = (
        "_at",
        "_buffer",
        "_chunked",
        "_is_over",
        "_missing",
        "_parts",
        "_parts_bytes",
        "_request",
        "_searched",
    )

    def __init__(self) -> None:
        self._buffer = b""
        self._at = 0  # everything before it is consumed
        self._searched = 0  # no head ends before it
        self._request: Request | None = None  # its head is read, its body is not complete
        self._chunked: ChunkedBody | None = None
        self._missing = 0
        self._parts: list[bytes] = []
        self._parts_bytes = 0
        self._is_over = False

    @property
    def stage(self) -> Stage:
        if self._is_over:
            return Stage.OVER
        if self._request is not None:
            return Stage.BODY
        return Stage.HEAD if self._at < len(self._buffer) else BETWEEN

    @property
    def held_bytes(self) -> int:
        """What has arrived and is not handed on yet."""
        body = self._parts_bytes if self._chunked is None else len(self._chunked.body)
        return len(self._buffer) - self._at + body

    def feed(self, data: bytes) -> None:
        if self._is_over:
            return
        if self._at < len(self._buffer):
            self._buffer = self._buffer[self._at :] + data
            self._searched -= self._at
        else:
            self._buffer = data
            self._searched = 0
        self._at = 0

    def take_whole(self, data: bytes) -> Request | None:
        """The posted request that `data` is, if it is one and no more, and nothing is under way; as
        nearly all packets are. Otherwise nothing has happened, and `data` wants to be fed.
        """
        if self._buffer or self._request is not None or self._is_over:
            return None
        return take_whole(data)

    def next_event(self) -> Event | None:
        """The next event, or None until more is fed. After `Refused`, or a request that does not
        keep the connection alive, there is none ever again.
        """
        if self._at == len(self._buffer):
            return None
        try:
            return self._take_head() if self._request is None else self._take_body()
        except RefusedError as refusal:
            self.end()
            return Refused(refusal.status, refusal.reason)

    def end(self) -> None:
        """Nothing that still comes is a request; what is half read is dropped."""
        self._is_over = True
        self._buffer, self._at = b"", 0
        self._request = self._chunked = None
        self._parts = []
        self._parts_bytes = 0

    def _take_head(self) -> Event | None:
        taken = take_request(self._buffer, self._at, self._searched)
        if taken is None:
            self._wait_for_head()
            return None
        request, end, missing = taken
        if missing == 0:
            return self._complete(request, end)
        self._begin_body(request, missing)
        self._at = self._searched = end
        expects_continue = b"expect" in request.headers and request.http_version == "1.1"
        return CONTINUE if expects_continue else self._take_body()

    def _wait_for_head(self) -> None:
        """A head that is refused when it is whole is refused as soon as that is certain."""
        start, stop = self._at, min(len(self._buffer), self._at + HTTP_HEADER_BYTES_MAX)
        if _has_lone_line_feed(self._buffer, start, max(start, self._searched), stop):
            raise RefusedError(400, "line feed without carriage return")
        if stop - start == HTTP_HEADER_BYTES_MAX:
            raise RefusedError(431, "request head too large")
        self._searched = max(start, stop - _HEAD_END_BYTES + 1)

    def _begin_body(self, request: Request, length: int) -> None:
        self._request = request
        self._chunked = ChunkedBody() if length == CHUNKED else None
        self._missing = length

    def _take_body(self) -> Event | None:
        request = self._request
        assert request is not None
        if self._chunked is not None:
            self._at = self._chunked.take(self._buffer, self._at)
            if not self._chunked.is_complete:
                return None
            request.body = bytes(self._chunked.body)
            return self._complete(request, self._at)
        part = self._buffer[self._at : self._at + self._missing]
        if part:
            self._parts.append(part)
            self._parts_bytes += len(part)
            if len(self._parts) > _PARTS_MAX:
                self._parts = [b"".join(self._parts)]
            self._missing -= len(part)
            self._at += len(part)
        if self._missing:
            return None
        request.body = b"".join(self._parts)
        return self._complete(request, self._at)

    def _complete(self, request: Request, end: int) -> Request:
        if end == len(self._buffer):
            self._buffer, end = b"", 0  # an idle connection must not hold on to its last packet
        self._at = self._searched = end
        self._request = self._chunked = None
        if self._parts:
            self._parts = []
            self._parts_bytes = 0
        if not request.keep_alive:
            self.end()
        return request


def _has_lone_line_feed(buffer: bytes, start: int, searched: int, stop: int) -> bool:
    at = buffer.find(b"\n", searched, stop)
    while at >= 0:
        if at == start or buffer[at - 1] != _CARRIAGE_RETURN:
            return True
        at = buffer.find(b"\n", at + 1, stop)
    return False
