"""Client connections that change workers: the socket itself travels, with what was received on it.
Shell; what packets look like is in `packets.py`.

A connection's first request decides, once, before anything is answered: after that, what belongs to
a sibling is forwarded call by call. The sender keeps its end, without reading, until the sibling
has said that it took the connection; a sibling that ends before that has not touched it. So a
connection is served by exactly one worker at any time.
"""

import asyncio
import contextlib
import logging
import os
import socket
from array import array
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from fastnode.workers.packets import (
    PACKET_BYTES_MAX,
    REFUSED,
    TAKEN,
    Assembler,
    BadPacket,
    Moved,
    answer_packet,
    parse_answer,
    split_move,
)
from fastnode.workers.siblings import SocketPaths

KIND: Final = "move"
# What waits for a sibling; one that does not keep up gets calls instead.
WAITING_MAX: Final = 1_024
MOVED_BYTES_MAX: Final = 2 * 1_048_576
_BACKLOG: Final = 64
_DESCRIPTOR_BYTES: Final = array("i").itemsize
_ANSWER_BYTES: Final = 64
log: Final = logging.getLogger("fastnode.workers")


class Movable(Protocol):
    """A client's connection."""

    def close(self) -> None:
        """It is somebody else's."""
        ...

    def stay(self, received: bytes) -> None:
        """It is not, and what was received is to be answered here."""
        ...


class Server(Protocol):
    """Who serves connections here."""

    @property
    def is_open(self) -> bool:
        """Whether it takes another one."""
        ...

    def adopt(self, accepted: socket.socket, received: bytes) -> None: ...


class HandOver:
    def __init__(self, worker: int, paths: SocketPaths, server: Server) -> None:
        self.moved_count = 0
        self.refused_count = 0
        self._worker = worker
        self._paths = paths
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._listener: socket.socket | None = None
        self._to: dict[int, _Sender] = {}
        self._from: set[_Receiver] = set()

    def start(self) -> None:
        self._listener = self._paths.listener(self._worker, KIND, socket.SOCK_SEQPACKET)
        self._listener.listen(_BACKLOG)
        self._loop.add_reader(self._listener, self._accept, self._listener)

    def close(self) -> None:
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        for sender in self._to.values():
            sender.close()
        for receiver in tuple(self._from):
            receiver.close()

    def connect(self, worker: int) -> None:
        """The sibling is there, anew or for the first time."""
        self.disconnect(worker)
        end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        try:
            end.connect(self._paths.of(worker, KIND))
        except OSError as error:
            end.close()
            log.warning("connections are not handed over: %s", error, extra={"worker": worker})
            return
        self._to[worker] = _Sender(self._loop, end, self._count)

    def disconnect(self, worker: int) -> None:
        sender = self._to.pop(worker, None)
        if sender is not None:
            sender.close()

    def move(
        self, connection: Movable, transport: asyncio.Transport, worker: int, received: bytes
    ) -> bool:
        """Whether it is on its way: the connection is told how that ended. TLS cannot go."""
        sender = self._to.get(worker)
        is_plain = transport.get_extra_info("sslcontext") is None
        if sender is None or not is_plain or len(received) > MOVED_BYTES_MAX:
            return False
        return sender.send(connection, transport.get_extra_info("socket").fileno(), received)

    def _count(self, *, is_moved: bool) -> None:
        if is_moved:
            self.moved_count += 1
        else:
            self.refused_count += 1

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            end, _ = listener.accept()
            end.setblocking(False)
            receiver = _Receiver(self._loop, end, self._server, self._from.discard)
            self._from.add(receiver)


class _Sender:
    """One end of the way to a sibling."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, end: socket.socket, count: Callable[..., None]
    ) -> None:
        self._loop = loop
        self._end = end
        self._count = count
        self._is_open = True
        self._number = 0
        self._waiting: dict[int, tuple[Movable, bytes]] = {}
        # Packets that found no room, with a descriptor of our own: that of the connection may be
        # closed, and be another one's, before it leaves.
        self._backlog: deque[tuple[bytes, int | None]] = deque()
        loop.add_reader(end, self._receive)

    def send(self, connection: Movable, descriptor: int, received: bytes) -> bool:
        if len(self._waiting) >= WAITING_MAX or not self._is_open:
            return False
        try:
            own = os.dup(descriptor)
        except OSError:
            return False
        self._number = (self._number + 1) & 0xFFFF_FFFF
        first, *more = split_move(self._number, received)
        self._waiting[self._number] = connection, received
        is_first = not self._backlog
        self._backlog.append((first, own))
        self._backlog.extend((packet, None) for packet in more)
        if is_first:
            self._flush()
        return True

    def close(self) -> None:
        """Whatever the sibling has not said that it took, it never will."""
        if not self._is_open:
            return
        self._is_open = False
        self._loop.remove_reader(self._end)
        self._loop.remove_writer(self._end)
        self._end.close()
        for _, descriptor in self._backlog:
            if descriptor is not None:
                os.close(descriptor)
        waiting, self._waiting = self._waiting, {}
        for connection, received in waiting.values():
            self._count(is_moved=False)
            connection.stay(received)

    def _flush(self) -> None:
        while self._backlog:
            packet, descriptor = self._backlog[0]
            try:
                self._send_now(packet, descriptor)
            except BlockingIOError:
                self._loop.add_writer(self._end, self._flush)
                return
            except OSError:
                # Later, because whoever hands over is in the middle of it.
                self._loop.call_soon(self.close)
                return
            self._backlog.popleft()
            if descriptor is not None:
                os.close(descriptor)
        self._loop.remove_writer(self._end)

    def _send_now(self, packet: bytes, descriptor: int | None) -> None:
        rights = (
            []
            if descriptor is None
            else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [descriptor]))]
        )
        self._end.sendmsg([packet], rights)

    def _receive(self) -> None:
        try:
            packet = self._end.recv(_ANSWER_BYTES)
            kind, number = parse_answer(packet)
        except BlockingIOError:
            return
        except (OSError, BadPacket):
            self.close()
            return
        connection, received = self._waiting.pop(number)
        self._count(is_moved=kind == TAKEN)
        if kind == TAKEN:
            connection.close()
        else:
            connection.stay(received)


class _Receiver:
    """One end of the way from a sibling."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        end: socket.socket,
        server: Server,
        on_end: Callable[["_Receiver"], None],
    ) -> None:
        self._loop = loop
        self._end = end
        self._server = server
        self._on_end = on_end
        self._is_open = True
        self._assembler = Assembler()
        self._accepted: socket.socket | None = None
        # Answers that found no room; nothing is served before its answer has left.
        self._backlog: deque[tuple[Moved, socket.socket | None]] = deque()
        loop.add_reader(end, self._receive)

    def close(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        self._loop.remove_reader(self._end)
        self._loop.remove_writer(self._end)
        self._end.close()
        for accepted in (self._accepted, *(accepted for _, accepted in self._backlog)):
            if accepted is not None:
                accepted.close()
        self._on_end(self)

    def _receive(self) -> None:
        try:
            packet, descriptors = self._take()
            if not packet:
                self.close()
                return
            for descriptor in descriptors:
                self._accepted = socket.socket(fileno=descriptor)
            moved = self._assembler.add(packet)
        except BlockingIOError:
            return
        except (OSError, BadPacket) as error:
            log.warning("connections of a worker cannot be taken: %s", error)
            self.close()
            return
        if moved is not None:
            # Without a descriptor: this process may open no more.
            self._backlog.append((moved, self._accepted))
            self._accepted = None
            self._answer()

    def _take(self) -> tuple[bytes, list[int]]:
        """The flag keeps descriptors from processes that this one may start."""
        packet, rights, _, _ = self._end.recvmsg(
            PACKET_BYTES_MAX, socket.CMSG_SPACE(_DESCRIPTOR_BYTES), socket.MSG_CMSG_CLOEXEC
        )
        found = array("i")
        for level, kind, data in rights:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                found.frombytes(data[: len(data) - len(data) % _DESCRIPTOR_BYTES])
        return packet, list(found)

    def _answer(self) -> None:
        while self._backlog:
            moved, accepted = self._backlog[0]
            is_taken = accepted is not None and self._server.is_open
            try:
                self._end.send(answer_packet(TAKEN if is_taken else REFUSED, moved.number))
            except BlockingIOError:
                self._loop.add_writer(self._end, self._answer)
                return
            except OSError:
                self.close()
                return
            self._backlog.popleft()
            if accepted is None:
                continue
            if is_taken:
                self._server.adopt(accepted, moved.received)
            else:
                accepted.close()
        self._loop.remove_writer(self._end)
