"""A transport that only remembers, a server without sockets, and a clock that stands still until it
is moved.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from fastnode.http.connection import Connection
from fastnode.http.exchange import Exchange
from fastnode.http.http1 import Request
from fastnode.http.server import HttpServer


class FakeTransport:
    """What a connection does to its socket, in order. `high_water` bytes unread by the peer pause
    writing.
    """

    def __init__(self, connection: Connection, *, high_water: int = 1 << 62) -> None:
        self.connection = connection
        self.high_water = high_water
        self.written = b""
        self.writes = 0
        self.unread = 0
        self.is_reading = True
        self.has_eof = self.is_closed = self.is_aborted = False

    def write(self, data: bytes) -> None:
        assert not (self.has_eof or self.is_closed or self.is_aborted)
        self.written += data
        self.writes += 1
        self.unread += len(data)
        if self.unread > self.high_water:
            self.connection.pause_writing()

    def writelines(self, parts: Sequence[bytes]) -> None:
        self.write(b"".join(parts))

    def get_write_buffer_size(self) -> int:
        return self.unread

    def peer_reads(self) -> None:
        self.unread = 0
        self.connection.resume_writing()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.has_eof = True

    def is_closing(self) -> bool:
        return self.is_closed or self.is_aborted

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = True

    def pause_reading(self) -> None:
        assert self.is_reading
        self.is_reading = False

    def resume_reading(self) -> None:
        assert not self.is_reading
        self.is_reading = True

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 50_000) if name == "peername" else None


class Node:
    """A server whose requests wait until the test answers them."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.open: list[tuple[Request, Exchange]] = []
        self.server = HttpServer(self.respond, now=lambda: self.now)

    def respond(self, request: Request, exchange: Exchange) -> None:
        self.open.append((request, exchange))

    def connect(self, *, high_water: int = 1 << 62) -> tuple[Connection, FakeTransport]:
        connection = self.server.accept()
        transport = FakeTransport(connection, high_water=high_water)
        connection.connection_made(cast(asyncio.BaseTransport, transport))
        return connection, transport

    def pass_seconds(self, seconds: float) -> None:
        """Time passes as the sweep sees it: once a second."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + 1.0)
            self.server.sweep()

    def answer(self, index: int, body: bytes = b"", headers: bytes = b"") -> None:
        self.open[index][1].reply(200, headers, body)


def get(path: bytes = b"/", *headers: bytes) -> bytes:
    lines = [b"GET " + path + b" HTTP/1.1", b"Host: localhost", *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def bodies(written: bytes) -> list[bytes]:
    """The one-line bodies of a stream of answers."""
    return [part.partition(b"\r\n\r\n")[2] for part in written.split(b"HTTP/1.1 ")[1:]]
