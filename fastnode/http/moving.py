"""A connection that may belong to another process of the node: its first request decides, before
anything is answered. Shell.
"""

import asyncio
from typing import Protocol

from fastnode.http.connection import Connection
from fastnode.http.host import Host
from fastnode.http.http1 import Request, RequestParser


class Mover(Protocol):
    """Where connections may belong to another process of the node."""

    def owner_of(self, request: Request) -> int | None:
        """Who should have a connection that begins with this request; None if it may stay."""
        ...

    def move(
        self,
        connection: "MovableConnection",
        transport: asyncio.Transport,
        owner: int,
        received: bytes,
    ) -> bool:
        """True: it is on its way, and the connection will be told to `close`, which tells the
        client nothing when another process has the socket, or to `stay`. False: nothing has
        happened.
        """
        ...


class MovableConnection(Connection):
    __slots__ = ("_first_bytes", "_is_moving", "_mover")

    def __init__(self, host: Host, mover: Mover) -> None:
        super().__init__(host)
        self._mover = mover
        # What came until the first request was complete; None from then on.
        self._first_bytes: list[bytes] | None = []
        self._is_moving = False  # another process may have it by now

    def data_received(self, data: bytes) -> None:
        if self._first_bytes is None or self._is_over:
            super().data_received(data)
        else:
            self._first_bytes.append(data)
            self._feed(data)

    @property
    def is_idle(self) -> bool:
        return not self._is_moving and super().is_idle

    def stay(self, received: bytes) -> None:
        """It could not be moved, and goes on as if nobody had tried."""
        self._is_moving = False
        if not self._is_over:
            self._set_reading()
            self._feed(received)

    def _is_blocked(self) -> bool:
        return self._is_moving or super()._is_blocked()

    def _open(self, request: Request) -> None:
        if self._first_bytes is None or not self._leaves(request):
            super()._open(request)

    def _leaves(self, request: Request) -> bool:
        received, self._first_bytes = b"".join(self._first_bytes or ()), None
        transport = self._transport
        assert transport is not None
        owner = None if transport.get_write_buffer_size() else self._mover.owner_of(request)
        if owner is None:
            return False
        # What arrives from now on stays in the kernel, for whoever has the socket then.
        self._is_moving = True
        self._set_reading()
        if not self._mover.move(self, transport, owner, received):
            self._is_moving = False
            self._set_reading()
            return False
        # Whoever reads on finds nothing: all of it goes along, or comes back with `stay`.
        self._parser.end()
        self._parser = RequestParser()
        return True
