"""The listener and its connections: accepting, time limits, drain. Shell.

`HttpServer` counts connections, sweeps them once a second for passed deadlines (one timer for all
of them) and ends them. What happens within a connection is in `connection.py`; what a request means
is in `respond`.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Final

from fastnode.config import DRAIN_SECONDS, HTTP_CONNECTIONS_MAX
from fastnode.http.connection import Connection
from fastnode.http.door import ClosedDoor, Door, SecuredConnection
from fastnode.http.holding import Crowd
from fastnode.http.host import Respond
from fastnode.http.http1 import Refused
from fastnode.http.listener_tls import ListenerTls
from fastnode.http.moving import MovableConnection, Mover

SWEEP_SECONDS: Final = 1.0
_BACKLOG: Final = 1024
_FULL: Final = Refused(503, "too many connections")


class HttpServer:
    """One listening address. `respond` is called per request and answers by the exchange."""

    def __init__(self, respond: Respond, *, now: Callable[[], float]) -> None:
        self.respond = respond
        # Set before it starts, where several processes of a node share its address.
        self.mover: Mover | None = None
        # Set before it starts, where it speaks TLS and nothing else.
        self.tls: ListenerTls | None = None
        self.coarse_now = now()
        self.is_draining = False
        self.crowd = Crowd()
        self.connections_max = HTTP_CONNECTIONS_MAX
        self._now = now
        # In the order in which they came, which a simulated run repeats.
        self._connections: dict[Connection | Door, None] = {}
        self._adopting: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Event | None = None

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    async def start(self, host: str, port: int, *, is_shared: bool = False) -> tuple[str, int]:
        """Listen; returns the bound address. Raises OSError if it cannot be bound. `is_shared`:
        other processes of this node listen there too, and the system chooses among them.
        """
        assert self._listener is None, "a server starts once"
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            (lambda: self.accept().protocol) if self.tls is None else self._accept_secured,
            host,
            port,
            backlog=_BACKLOG,
            reuse_port=is_shared,
        )
        self._sweep_forever(loop)
        address = self._listener.sockets[0].getsockname()
        return (address[0], address[1])

    def accept(self) -> Connection:
        is_full = len(self._connections) >= self.connections_max
        connection = _RefusedConnection(self) if is_full else self._served()
        self.crowd.refused["connections"] += is_full
        self._connections[connection] = None
        return connection

    def _accept_secured(self) -> Door | ClosedDoor:
        if len(self._connections) >= self.connections_max:
            self.crowd.refused["connections"] += 1
            return ClosedDoor()
        door = Door(self)
        self._connections[door] = None
        return door

    def admit(self, door: Door) -> Connection:
        del self._connections[door]
        connection = SecuredConnection(self)
        self._connections[connection] = None
        return connection

    @property
    def tls_context(self) -> ssl.SSLContext:
        assert self.tls is not None
        return self.tls.context

    def _served(self) -> Connection:
        return Connection(self) if self.mover is None else MovableConnection(self, self.mover)

    @property
    def is_open(self) -> bool:
        """Whether it takes connections from other processes."""
        return not self.is_draining and len(self._connections) < self.connections_max

    def adopt(self, accepted: socket.socket, received: bytes) -> None:
        """Serve a connection that another process has accepted, and has received so much of."""
        connection = _AdoptedConnection(self, received)
        self._connections[connection] = None
        loop = asyncio.get_running_loop()
        adopting = loop.create_task(_connect(loop, connection, accepted))
        self._adopting.add(adopting)
        adopting.add_done_callback(self._adopting.discard)

    def forget(self, connection: Connection | Door) -> None:
        self._connections.pop(connection, None)
        if self._emptied is not None and not self._connections:
            self._emptied.set()

    def sweep(self) -> None:
        """End what has passed its deadline."""
        self.coarse_now = now = self._now()
        for connection in [each for each in self._connections if each.deadline <= now]:
            connection.expire()

    async def drain(self) -> None:
        """Stop accepting, let idle connections go, answer what is owed; what is not done in time is
        cut off.
        """
        self.is_draining = True
        self._stop_listening()
        self._emptied = asyncio.Event()
        for connection in tuple(self._connections):
            if connection.is_idle:
                connection.close()
        try:
            if self._connections:
                await asyncio.wait_for(self._emptied.wait(), DRAIN_SECONDS)
        except TimeoutError:
            pass
        self.close()

    def close(self) -> None:
        """End everything now."""
        self._stop_listening()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in tuple(self._connections):
            connection.abort()

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._listener.close()

    def _sweep_forever(self, loop: asyncio.AbstractEventLoop) -> None:
        self.sweep()
        self._sweeper = loop.call_later(SWEEP_SECONDS, self._sweep_forever, loop)


async def _connect(
    loop: asyncio.AbstractEventLoop, connection: Connection, accepted: socket.socket
) -> None:
    try:
        await loop.connect_accepted_socket(lambda: connection.protocol, accepted)
    except OSError:
        # The client has gone meanwhile.
        accepted.close()
        connection.connection_lost(None)


class _AdoptedConnection(Connection):
    """It begins with what another process has received, and stays."""

    __slots__ = ("_received",)

    def __init__(self, host: HttpServer, received: bytes) -> None:
        super().__init__(host)
        self._received = received

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        received, self._received = self._received, b""
        self.data_received(received)


class _RefusedConnection(Connection):
    """One too many: told so and closed at once, without a request being read."""

    __slots__ = ()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.refuse(_FULL)
        self.close()
