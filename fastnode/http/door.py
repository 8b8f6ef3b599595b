"""Where a connection stands until TLS is there. Shell.

It counts as a connection of its server, whose sweep ends it in time. Whoever comes with anything
but TLS is told so. The context is asked for when a handshake begins, so that a certificate can be
replaced while others use the old one.
"""

import asyncio
import math
import ssl
from typing import Final, Protocol, cast

from fastnode.config import TLS_HANDSHAKE_SECONDS
from fastnode.http.connection import LINGER_SECONDS, Connection
from fastnode.http.holding import Crowd
from fastnode.http.response import CLOSE, TEXT, whole_response
from fastnode.tls import feed

# How a record of a TLS handshake begins, whatever the version.
_HANDSHAKE: Final = b"\x16"
PLAIN_TEXT: Final = b"this address speaks TLS: begin its URL with https://\n"
_PLAIN: Final = whole_response(400, TEXT, CLOSE, PLAIN_TEXT)


class House(Protocol):
    """What a door needs from its server."""

    coarse_now: float
    crowd: Crowd

    @property
    def tls_context(self) -> ssl.SSLContext: ...

    def admit(self, door: "Door") -> Connection:
        """The connection that takes the door's place."""
        ...

    def forget(self, one: "Door") -> None: ...


class Door(asyncio.Protocol):
    """The protocol object of an accepted socket, and of TLS until its handshake is done."""

    __slots__ = (
        "_connection",
        "_early",
        "_house",
        "_is_over",
        "_securing",
        "_transport",
        "deadline",
    )
    is_idle: Final = True

    def __init__(self, house: House) -> None:
        self._house = house
        self._transport: asyncio.Transport | None = None
        # As they came; and from TLS, before our task learns that it is there.
        self._early: list[bytes] = []
        self._securing: asyncio.Task[None] | None = None
        self._connection: Connection | None = None
        self._is_over = False
        self.deadline = math.inf

    # --- called by the event loop ---------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.deadline = self._house.coarse_now + TLS_HANDSHAKE_SECONDS

    def data_received(self, data: bytes) -> None:
        self._early.append(data)
        if self._securing is not None or self._is_over:
            return
        assert self._transport is not None
        if data.startswith(_HANDSHAKE):
            self._transport.pause_reading()
            securing = self._secure(self._transport)
            self._securing = asyncio.get_running_loop().create_task(securing)
        else:
            self._transport.write(_PLAIN)
            self._transport.close()
            self._fail()

    def eof_received(self) -> bool:
        return False if self._connection is None else self._connection.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        if self._connection is not None:
            # It was on its way to us when the connection took our place.
            self._connection.connection_lost(error)
        else:
            self._end()

    # --- called by the server -------------------------------------------------------------------

    def expire(self) -> None:
        self._fail()
        self.abort()

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if self._securing is not None:
            self._securing.cancel()
        if self._transport is not None:
            self._transport.abort()
        self._end()

    # --- the way in -----------------------------------------------------------------------------

    async def _secure(self, transport: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(feed, transport, b"".join(self._early))
        self._early.clear()
        try:
            secured = await loop.start_tls(
                transport,
                self,
                self._house.tls_context,
                server_side=True,
                ssl_handshake_timeout=TLS_HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=LINGER_SECONDS,
            )
        except OSError:
            transport.abort()
            self._fail()
            return
        assert secured is not None
        if self._is_over:
            secured.abort()
        else:
            self._enter(secured)

    def _enter(self, secured: asyncio.Transport) -> None:
        self._connection = connection = self._house.admit(self)
        self._is_over = True
        secured.set_protocol(connection.protocol)
        connection.connection_made(secured)
        if self._early:
            connection.data_received(b"".join(self._early))

    def _fail(self) -> None:
        if not self._is_over:
            self._house.crowd.refused["handshake"] += 1
        self._end()

    def _end(self) -> None:
        self._is_over = True
        self.deadline = math.inf
        self._house.forget(self)


class ClosedDoor(asyncio.Protocol):
    """One too many: a handshake would cost more than a refusal is worth."""

    __slots__ = ()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).abort()


class SecuredConnection(Connection):
    """TLS has no half-closed connections: the end of the client's stream is that of both. It is
    never moved to another process either, as its keys cannot go along.
    """

    __slots__ = ()

    def eof_received(self) -> bool:
        super().eof_received()
        return False

    def close(self) -> None:
        """The client is told. If all is written, it has no more than a sweep's time to agree."""
        super().close()
        if self._transport is not None and not self._transport.get_write_buffer_size():
            self.deadline = self._host.coarse_now
