"""One request and the answer it is owed: what a router works with. `connection.py` writes it."""

from collections.abc import Callable
from typing import Final, Protocol

from fastnode.http.http1 import Refused, Request
from fastnode.http.response import (
    CLOSE,
    KEEP_ALIVE,
    RETRY,
    TEXT,
    response_head,
    whole_response,
)

# Joining head and body copies; above this, two buffers are cheaper than one.
_JOIN_BYTES_MAX: Final = 64 * 1024
_OVERDUE: Final = Refused(503, "the request was not completed in time; it may have taken effect")


class Owner(Protocol):
    """The connection that the request came by."""

    @property
    def has_ended(self) -> bool: ...

    @property
    def peer(self) -> tuple[str, int] | None: ...

    def on_answer(self, exchange: "Exchange") -> None: ...
    def write_alone(self, exchange: "Exchange", response: bytes) -> bool:
        """As `reply` does, with all bytes of an answer that says nothing about the connection.
        False, and nothing has happened, if other answers, or its end, have to be thought of.
        """
        ...


class Exchange:
    """One request and the answer it is owed.

    `on_close` is called at most once, if the client goes away before the answer. The end of its
    stream counts as going away: a client that closed and one that only finished sending look the
    same. `reply` is called exactly once all the same; what can still be written is written.
    """

    __slots__ = (
        "_request",
        "answer",
        "began_ns",
        "connection",
        "held_bytes",
        "is_overdue",
        "on_close",
    )

    def __init__(self, connection: Owner, request: Request | None) -> None:
        self.connection = connection
        self._request = request  # None: the bytes were no request
        self.answer: tuple[int, bytes, bytes] | None = None
        self.is_overdue = False  # the client was told to try again; what still comes is dropped
        self.on_close: Callable[[], None] | None = None
        self.held_bytes = 0  # of the request, as far as its connection counts them
        self.began_ns = 0  # when a router got it, by the clock of `native.now_ns`

    def reply(self, status: int, headers: bytes, body: bytes) -> None:
        """`headers` are complete lines with CRLF; length and connection are added."""
        if self.is_overdue:
            return
        assert self.answer is None, "a request is answered once"
        self.answer = (status, headers, body)
        # Whoever watches holds the exchange too: in a circle the request would stay in memory.
        self.on_close = None
        self.connection.on_answer(self)

    def tap(self, tap: "Callable[[Owner], Owner]") -> None:
        """Let somebody see the answer on its way to the connection."""
        self.connection = tap(self.connection)

    @property
    def is_closed(self) -> bool:
        return self.connection.has_ended

    @property
    def peer(self) -> tuple[str, int] | None:
        return self.connection.peer

    @property
    def keep_alive(self) -> bool:
        return self._request is not None and self._request.keep_alive

    def append_to(self, parts: list[bytes], *, is_last: bool) -> None:
        assert self.answer is not None
        status, headers, body = self.answer
        request = self._request
        connection = CLOSE if is_last else b""
        if request is not None and request.http_version == "1.0" and not is_last:
            connection = KEEP_ALIVE
        if request is not None and request.method == b"HEAD":
            parts.append(response_head(status, headers, connection, len(body)))
        elif len(body) <= _JOIN_BYTES_MAX:
            parts.append(whole_response(status, headers, connection, body))
        else:
            parts.append(response_head(status, headers, connection, len(body)))
            parts.append(body)

    def expire(self) -> None:
        """The node took too long. What the request did or will do, nobody knows any more."""
        if self.answer is None:
            self.close()
            self.answer = _OVERDUE.status, TEXT + RETRY, _OVERDUE.reason.encode() + b"\n"
            self.is_overdue = True

    def close(self) -> None:
        """The client is gone; whoever works for it may want to stop."""
        on_close, self.on_close = self.on_close, None
        if on_close is not None and self.answer is None:
            on_close()
