"""Connections to one endpoint: a bounded pool of HTTP/1.1 connections on asyncio protocols.

A shell: it moves bytes and says how each request ended, by an answer or by how it was lost. What
that means is decided in `caller`. One request at a time is under way on a connection, so a lost
connection loses one request.
"""

import asyncio
import errno
import os
import ssl
from collections import deque
from typing import Final, Protocol, cast

from spark_load.replay.attempts import Lost
from spark_load.replay.clock import LaneClock
from spark_load.replay.http1 import Answer, BadAnswer, make_reader
from spark_load.replay.plan import Endpoint

CONNECT_SECONDS: Final = 5.0
# So long after a failure to connect others are asked first, if there are others.
DOWN_US: Final = 1_000_000


class Request(Protocol):
    """What a pool knows of a request."""

    wire: bytes
    timeout_us: int
    started_us: int

    def ended(self, result: Answer | Lost) -> None: ...


class Connection(asyncio.Protocol):
    """One connection of a pool."""

    def __init__(self, pool: "Pool") -> None:
        self._pool = pool
        self._reader = make_reader()
        self._reason = "connection closed"
        self.is_lost = False
        self.request: Request | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods of asyncio's without being subclasses.
        self._transport = cast(asyncio.Transport, transport)

    def send(self, request: Request, now_us: int) -> None:
        request.started_us = now_us
        self.request = request
        self._transport.write(request.wire)

    def data_received(self, data: bytes) -> None:
        try:
            answer = self._reader.feed(data)
        except BadAnswer as error:
            self.abort(f"bad answer: {error}")
            return
        if answer is not None:
            self._answered(answer)

    def connection_lost(self, _error: Exception | None) -> None:
        if self.request is not None:
            answer = self._reader.end()
            if answer is not None:
                self._answered(answer)
        request, self.request = self.request, None
        self.is_lost = True
        self._pool.closed(self)
        if request is not None:
            request.ended(Lost("unknown", self._reason))

    def abort(self, reason: str) -> None:
        """Gives the connection up; `connection_lost` follows in the loop's next turn."""
        self._reason = reason
        self._transport.abort()

    def _answered(self, answer: Answer) -> None:
        request, self.request = self.request, None
        if request is None:
            self.abort("an answer that nobody asked for")
            return
        if answer.closes:
            self._transport.close()
        else:
            self._pool.free(self)
        request.ended(answer)


class Pool:
    """At most `limit` connections to one endpoint; what finds none free waits its turn."""

    def __init__(
        self,
        endpoint: Endpoint,
        limit: int,
        clock: LaneClock,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.endpoint = endpoint
        # Asked for with every request.
        self.url = endpoint.url
        self.authority = endpoint.authority
        self._limit = limit
        self._clock = clock
        self._context = context
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._opening: set[asyncio.Task[None]] = set()
        self._waiting: deque[Request] = deque()
        self._down_until_us = 0
        self._is_closed = False
        self._all_closed = asyncio.Event()

    @property
    def is_down(self) -> bool:
        return self._down_until_us > 0 and self._clock.now_us() < self._down_until_us

    def submit(self, request: Request) -> None:
        if self._idle:
            self._idle.pop().send(request, self._clock.now_us())
            return
        self._waiting.append(request)
        if self._is_closed:
            self._fail_waiting("closed")
            return
        # One that is being opened will serve one that waits.
        if len(self._opening) < len(self._waiting):
            self._open_another()

    async def warm(self, count: int) -> None:
        """Opens connections ahead of their use. One that fails will fail its request later."""
        for _ in range(min(count, self._limit) - len(self._open)):
            self._open_another()
        await asyncio.gather(*self._opening)

    def free(self, connection: Connection) -> None:
        """The connection has its answer."""
        if self._waiting:
            connection.send(self._waiting.popleft(), self._clock.now_us())
        else:
            self._idle.append(connection)

    def closed(self, connection: Connection) -> None:
        self._open.discard(connection)
        if not self._open:
            self._all_closed.set()
        if connection in self._idle:
            self._idle.remove(connection)
        if self._waiting and not self._is_closed:
            self._open_another()

    def sweep(self, now_us: int) -> None:
        """Gives up what has been under way for too long."""
        for connection in list(self._open):
            request = connection.request
            if request is not None and request.started_us + request.timeout_us < now_us:
                connection.abort("timeout")

    async def close(self) -> None:
        """Closes everything; what waits or is under way ends as lost."""
        self._is_closed = True
        for task in list(self._opening):
            task.cancel()
        self._fail_waiting("closed")
        for connection in list(self._open):
            connection.abort("closed")
        await asyncio.gather(*self._opening, return_exceptions=True)
        if self._open:
            await self._all_closed.wait()

    def _open_another(self) -> None:
        if len(self._open) + len(self._opening) < self._limit:
            task = asyncio.get_running_loop().create_task(self._connect())
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, connection = await loop.create_connection(
                    lambda: Connection(self),
                    self.endpoint.host,
                    self.endpoint.port,
                    ssl=self._context,
                )
            if connection.is_lost:
                raise ConnectionResetError(errno.ECONNRESET, "")
        except (OSError, TimeoutError) as error:
            # While others are open, what waits will have its turn with one of them.
            if not self._open:
                self._down_until_us = self._clock.now_us() + DOWN_US
                self._fail_waiting(describe(error))
            return
        self._open.add(connection)
        self._all_closed.clear()
        self.free(connection)

    def _fail_waiting(self, reason: str) -> None:
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            request.started_us = self._clock.now_us()
            request.ended(Lost("unsent", reason))


def describe(error: Exception) -> str:
    """An error of a connection in a few words."""
    if isinstance(error, TimeoutError):
        return f"no connection within {CONNECT_SECONDS:g} s"
    # What asyncio says besides names a function of its own.
    number = error.errno if isinstance(error, ConnectionError) else None
    return os.strerror(number) if number else str(error) or type(error).__name__
