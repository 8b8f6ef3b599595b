"""Connections between the processes of a simulation: asyncio transports over made-up wires.

A connection is two streams of bytes. Each arrives in order and whole, cut into pieces at random,
after a delay that differs from piece to piece. A direction between two hosts can be blocked: what
is on its way waits until it is opened again, as TCP does, and whoever dials waits too.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from fastnode.clock import NS_PER_MS

if TYPE_CHECKING:
    from tests.sim.clockwork import Clockwork, SimLoop

# Arrivals fall on a grid, so that some of them come together.
GRID_NS: Final = 100_000
_HIGH_BYTES: Final = 64 * 1024
_DIAL_RETRY_SECONDS: Final = 0.25


class Network:
    """Who listens where, and which ways are blocked. `delay_ms` is a range."""

    def __init__(self, work: "Clockwork") -> None:
        self._work = work
        self._random = work.random("network")
        self._listeners: dict[tuple[str, int], Listener] = {}
        self._transports: dict[SimTransport, None] = {}
        self._blocked: dict[tuple[str, str], None] = {}
        self._next_port = 40_000
        self.delay_ns = (NS_PER_MS // 10, 2 * NS_PER_MS)
        # One in so many pieces is cut in two.
        self.cuts = 8

    def draw_delay_ns(self) -> int:
        low, high = self.delay_ns
        delay = self._random.randrange(low, high + 1)
        # A few are much later than the rest.
        if self._random.randrange(50) == 0:
            delay *= 10
        return -(-(self._work.now_ns + delay) // GRID_NS) * GRID_NS - self._work.now_ns

    def cut(self, content: bytes) -> tuple[bytes, bytes]:
        if len(content) < 2 or self._random.randrange(self.cuts):
            return content, b""
        at = self._random.randrange(1, len(content))
        return content[:at], content[at:]

    # --- listening and dialling -----------------------------------------------------------------

    def listen(
        self, loop: "SimLoop", factory: Callable[[], Any], host: str, port: int
    ) -> "Listener":
        if not port:
            port = self._take_port()
        if (host, port) in self._listeners:
            raise OSError(98, "Address already in use")
        listener = Listener(self, loop, factory, (host, port))
        self._listeners[host, port] = listener
        return listener

    def forget(self, listener: "Listener") -> None:
        if self._listeners.get(listener.address) is listener:
            del self._listeners[listener.address]

    async def dial(
        self, loop: "SimLoop", factory: Callable[[], Any], host: str, port: int
    ) -> tuple["SimTransport", Any]:
        await self._travel(loop, loop.host, host)
        await self._travel(loop, host, loop.host)
        listener = self._listeners.get((host, port))
        if listener is None:
            raise ConnectionRefusedError(111, f"nobody listens at {host}:{port}")
        here, there = (loop.host, self._take_port()), (host, port)
        near = SimTransport(self, loop, here, there)
        far = SimTransport(self, listener.loop, there, here)
        near.other, far.other = far, near
        self._transports[near] = self._transports[far] = None
        listener.loop.call_soon(far.begin, listener.factory())
        protocol = factory()
        near.begin(protocol)
        return near, protocol

    async def _travel(self, loop: "SimLoop", start: str, end: str) -> None:
        await asyncio.sleep(self.draw_delay_ns() / 1e9)
        while self.is_blocked(start, end):
            await asyncio.sleep(_DIAL_RETRY_SECONDS)

    def _take_port(self) -> int:
        self._next_port += 1
        return self._next_port

    # --- what goes wrong ------------------------------------------------------------------------

    def is_blocked(self, start: str, end: str) -> bool:
        return (start, end) in self._blocked

    def block(self, start: str, end: str) -> None:
        self._blocked[start, end] = None

    def unblock(self, start: str, end: str) -> None:
        if self._blocked.pop((start, end), 0) is None:
            for transport in list(self._transports):
                if (transport.here[0], transport.there[0]) == (start, end):
                    transport.move_on()

    def unblock_all(self) -> None:
        for start, end in list(self._blocked):
            self.unblock(start, end)

    def reset(self, chosen: int) -> bool:
        """Break one of the connections, as a firewall does."""
        transports = list(self._transports)
        if transports:
            transport = transports[chosen % len(transports)]
            transport.die(ConnectionResetError(104, "Connection reset by peer"))
            transport.other.die(ConnectionResetError(104, "Connection reset by peer"))
        return bool(transports)

    def host_died(self, loop: "SimLoop") -> None:
        for listener in list(self._listeners.values()):
            if listener.loop is loop:
                self.forget(listener)
        for transport in list(self._transports):
            if transport.loop is loop:
                transport.vanish()

    def is_arrival(self, handle: asyncio.Handle) -> bool:
        """Each takes what comes next on its connection, so they may change places."""
        callback = cast(Any, handle)._callback
        return getattr(callback, "__func__", None) is SimTransport._arrive

    def gone(self, transport: "SimTransport") -> None:
        """It is closed, and all that it sent has arrived."""
        self._transports.pop(transport, None)


class Listener:
    """What `create_server` returns."""

    def __init__(
        self,
        network: Network,
        loop: "SimLoop",
        factory: Callable[[], Any],
        address: tuple[str, int],
    ) -> None:
        self._network = network
        self.loop = loop
        self.factory = factory
        self.address = address

    @property
    def sockets(self) -> Sequence["Listener"]:
        return (self,)

    def getsockname(self) -> tuple[str, int]:
        return self.address

    def close(self) -> None:
        self._network.forget(self)


class _Socket:
    """Takes options and does nothing about them."""

    def setsockopt(self, *_options: int) -> None:
        pass


# What travels besides bytes.
_END: Final = b""
_RESET: Final = None


class SimTransport(asyncio.Transport):
    """One end of a connection; what is written here arrives at `other`."""

    other: "SimTransport"

    def __init__(
        self, network: Network, loop: "SimLoop", here: tuple[str, int], there: tuple[str, int]
    ) -> None:
        super().__init__({"sockname": here, "peername": there, "socket": _Socket()})
        self.loop = loop
        self.here = here
        self.there = there
        self.is_lost = False
        self._network = network
        self._name = f"{here[0]}:{here[1]}>{there[0]}:{there[1]}"
        self._protocol: Any = None
        self._is_closing = False
        self._has_ended = False
        self._is_reading = True
        self._is_write_paused = False
        self._high, self._low = _HIGH_BYTES, _HIGH_BYTES // 4
        # On the way to the other end, oldest first, and how many of them have a time of arrival.
        self._sent: deque[bytes | None] = deque()
        self._sent_bytes = 0
        self._travelling = 0
        self._arrives_ns = 0
        # Arrived here and not read.
        self._unread: deque[bytes | None] = deque()

    def begin(self, protocol: Any) -> None:
        self._protocol = protocol
        protocol.connection_made(self)
        if self.is_lost:
            protocol.connection_lost(ConnectionResetError(104, "Connection reset by peer"))
        self._read()

    # --- what protocols call --------------------------------------------------------------------

    def write(self, data: Any) -> None:
        if data and not self._is_closing and not self._has_ended:
            self._send(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        if not self._has_ended and not self._is_closing:
            self._has_ended = True
            self._send(_END)

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            if not self._has_ended:
                self._send(_END)
            self._lose(None)

    def abort(self) -> None:
        if not self.is_lost:
            self._is_closing = True
            self._send(_RESET)
            self._lose(None)

    def is_closing(self) -> bool:
        return self._is_closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return cast(asyncio.BaseProtocol, self._protocol)

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self.loop.call_soon(self._read)

    def is_reading(self) -> bool:
        return self._is_reading

    def get_write_buffer_size(self) -> int:
        return max(self._sent_bytes - _HIGH_BYTES, 0)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = _HIGH_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low

    # --- the way there --------------------------------------------------------------------------

    def _send(self, content: bytes | None) -> None:
        if self.loop.is_dead:
            return
        for piece in self._network.cut(content) if content else (content,):
            if piece or not content:
                self._sent.append(piece)
                self._sent_bytes += len(piece or b"")
                self._travel()
        if self.get_write_buffer_size() > self._high and not self._is_write_paused:
            self._is_write_paused = True
            self._protocol.pause_writing()

    def _travel(self) -> None:
        """The next piece sets out; it never overtakes the one before it."""
        work = self.loop.work
        self._arrives_ns = max(self._arrives_ns, work.now_ns + self._network.draw_delay_ns())
        self._travelling += 1
        self.other.loop.after_ns(self._arrives_ns - work.now_ns, self._arrive)

    def _arrive(self) -> None:
        self._travelling -= 1
        if self._network.is_blocked(self.here[0], self.there[0]):
            return
        if not self._sent:
            return
        piece = self._sent.popleft()
        self._sent_bytes -= len(piece or b"")
        self.loop.work.note_bytes(self._name, piece or b"")
        self.other.take(piece)
        if self.is_lost and not self._sent:
            self._network.gone(self)
        if self._is_write_paused and self.get_write_buffer_size() <= self._low:
            self._is_write_paused = False
            if not self._is_closing and not self.loop.is_dead:
                self.loop.call_soon(self._protocol.resume_writing)

    def move_on(self) -> None:
        """The way is open again."""
        for _ in range(len(self._sent) - self._travelling):
            self._travel()

    # --- here -----------------------------------------------------------------------------------

    def take(self, piece: bytes | None) -> None:
        if not self.is_lost:
            self._unread.append(piece)
            self._read()

    def _read(self) -> None:
        while self._unread and self._is_reading and not self.is_lost and self._protocol is not None:
            piece = self._unread.popleft()
            if piece is _RESET:
                self.die(ConnectionResetError(104, "Connection reset by peer"))
            elif piece == _END:
                if not self._is_closing and not self._protocol.eof_received():
                    self.close()
            elif not self._is_closing:
                self._protocol.data_received(piece)

    def die(self, error: Exception) -> None:
        if not self.is_lost:
            self._is_closing = True
            self._sent.clear()
            self._lose(error)

    def vanish(self) -> None:
        """The process is gone; its kernel tells the other end."""
        if not self.is_lost:
            self.is_lost = self._is_closing = True
            self._sent.append(_RESET)
            self._travel()

    def _lose(self, error: Exception | None) -> None:
        self.is_lost = True
        if not self._sent:
            self._network.gone(self)
        if not self.loop.is_dead and self._protocol is not None:
            self.loop.call_soon(self._protocol.connection_lost, error)
