"""One established link to a peer. Shell: bytes on one side, packets and calls on the other.

A link is made by `peers.py` after the handshake. What is sent during one turn of the event loop
leaves in one write, in the order that `lanes.py` decides, as far as the socket takes it. Frames are
vouched for by the connection alone (see `handshake.py`); a frame that cannot be ends the link.

A call costs no task and no timer: one alarm per link is set to the earliest deadline.
"""

import asyncio
import contextlib
import logging
import math
import socket
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from fastnode.clock import NS_PER_MS
from fastnode.config import (
    PEER_BACKLOG_BYTES_MAX,
    PEER_CALLS_MAX,
    PEER_FRAME_BYTES_MAX,
    PEER_PIECE_BYTES,
)
from fastnode.errors import DeadlineExceeded, OperationError, Overloaded
from fastnode.peers import calls, frames
from fastnode.peers.calls import CallCancelled, Handler, IncomingCall, LinkLost, OnDone
from fastnode.peers.frames import Joiner, ProtocolError, Splitter
from fastnode.peers.handshake import Identity, parse_refusal
from fastnode.peers.lanes import Lanes
from fastnode.peers.offsets import OffsetWindow

# What leaves together up to this size is copied into one buffer, which is cheaper than many.
_JOINED_BYTES_MAX: Final = 64 * 1024
# Calls whose deadlines are so near to each other expire together.
_ALARM_SECONDS: Final = 0.005


class Counts:
    """What was given up because a peer did not keep up; of all links of a node together."""

    __slots__ = ("calls_refused", "packets_dropped", "urgent_packets_dropped")

    def __init__(self) -> None:
        self.packets_dropped = 0
        self.urgent_packets_dropped = 0
        self.calls_refused = 0


class Host(Protocol):
    """What a link needs of the node."""

    counts: Counts
    services: Mapping[int, Handler]
    log: logging.Logger

    def wall_ns(self) -> int: ...

    def boottime_ns(self) -> int: ...

    def on_raft(self, node_id: int, packet: bytes, /) -> None: ...

    def link_lost(self, link: "Link", why: str) -> None: ...


class Link(asyncio.Protocol):
    """`peer` is who the handshake proved, `certificate` what it showed under TLS. `is_lost` is
    final; `closed` is set when the socket is gone too.
    """

    def __init__(
        self,
        host: Host,
        peer: Identity,
        transport: asyncio.Transport,
        splitter: Splitter,
        *,
        dialer_id: int,
    ) -> None:
        self.peer: Final = peer
        self.dialer_id: Final = dialer_id
        self.remote: Final = transport.get_extra_info("peername")
        self.certificate: Final = transport.get_extra_info("peercert")
        self.is_lost = False
        self.closed: Final = asyncio.Event()
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._splitter = splitter
        self._joiner = Joiner()
        self._lanes = Lanes(PEER_BACKLOG_BYTES_MAX, PEER_PIECE_BYTES)
        self.offsets: Final = OffsetWindow()
        # Waiting calls of ours by id, and the peer's calls that are not answered.
        self._calls: dict[int, tuple[OnDone, float]] = {}
        self._served: dict[int, IncomingCall] = {}
        self._last_id = 0
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = math.inf
        self._is_corked = False
        self._is_flush_due = False
        self._is_write_paused = False
        self._has_heard = True
        self._has_sent = True
        self._quiet_ticks = 0
        self._silent_ticks = 0
        self._take_over()

    def begin(self, first_frames: Iterable[bytes]) -> None:
        """Receive, first what came behind the handshake."""
        self._receive(first_frames)

    def _take_over(self) -> None:
        self._transport.set_protocol(self)
        self._transport.set_write_buffer_limits(high=PEER_PIECE_BYTES, low=PEER_PIECE_BYTES // 4)
        # Bytes that wait in the kernel cannot be overtaken by a heartbeat. A socket that refuses
        # is closed or about to be.
        with contextlib.suppress(OSError):
            self._transport.get_extra_info("socket").setsockopt(
                socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, PEER_PIECE_BYTES
            )

    # --- What the node does ---

    def send_raft(self, packet: bytes, *, is_urgent: bool = False) -> bool:
        """False: the packet is dropped, which Raft expects of a network."""
        if self.is_lost:
            return False
        wall_ms = self._host.wall_ns() // NS_PER_MS
        head = frames.raft_head(wall_ms, len(packet))
        fits = len(packet) < PEER_FRAME_BYTES_MAX - len(head)
        evicted = self._lanes.evicted
        is_sent = fits and self._lanes.add_packet(head, packet, is_urgent=is_urgent)
        counts = self._host.counts
        counts.packets_dropped += self._lanes.evicted - evicted
        if is_sent:
            self._wake()
        elif is_urgent:
            counts.urgent_packets_dropped += 1
        else:
            counts.packets_dropped += 1
        return is_sent

    def call(self, service: int, payload: bytes, seconds: float, on_done: OnDone) -> int:
        """The id, for `cancel`. `on_done` may be called before this returns."""
        self._last_id = call_id = self._last_id + 1
        if refused := self._refusal_of(payload, seconds):
            on_done(0, None, refused)
            return call_id
        milliseconds = min(int(seconds * 1000), frames.CALL_MS_MAX)
        head = frames.call_head(call_id, milliseconds, service, len(payload))
        if not self._lanes.add_call(head, payload, call_id):
            self._host.counts.calls_refused += 1
            on_done(0, None, Overloaded("the peer does not keep up"))
            return call_id
        deadline = self._loop.time() + seconds
        self._calls[call_id] = on_done, deadline
        if deadline < self._alarm_at:
            self._set_alarm(deadline)
        self._wake()
        return call_id

    def cancel(self, call_id: int) -> None:
        """End a call of ours with `CallCancelled`; the peer's handler learns it. No effect when it
        is done.
        """
        self._give_up(call_id, CallCancelled("given up by its caller"))

    @property
    def clock_offset_ns(self) -> int | None:
        return self.offsets.offset_ns(self._host.wall_ns(), self._host.boottime_ns())

    @property
    def backlog_bytes(self) -> int:
        return self._lanes.cost

    def tick(self, ping_ticks: int, silent_ticks: int) -> None:
        """Keepalive, in ticks and not in time: a process that was stopped first reads what came."""
        self._quiet_ticks = 0 if self._has_sent else self._quiet_ticks + 1
        self._silent_ticks = 0 if self._has_heard else self._silent_ticks + 1
        self._has_sent = self._has_heard = False
        if self._silent_ticks >= silent_ticks:
            self.lose("nothing was heard from the peer for too long")
        elif self._quiet_ticks >= ping_ticks and not self._lanes.cost:
            self._lanes.add_ping(frames.PING_FRAME)
            self._wake()

    def close(self) -> None:
        """End the link after what is queued has left, as far as the peer takes it."""
        if not self.is_lost:
            if buffers := self._lanes.take(2 * PEER_BACKLOG_BYTES_MAX):
                self._transport.write(b"".join(buffers))
            self._transport.close()
            self._end("this node closed the link")

    def abort(self) -> None:
        """Close the socket of a lost link without waiting for anything."""
        # asyncio's own transport fails when it is aborted after its end.
        if not self.closed.is_set():
            self._transport.abort()

    def lose(self, why: str) -> None:
        """End the link at once."""
        self.abort()
        self._end(why)

    # --- What the connection does ---

    def data_received(self, data: bytes) -> None:
        self._has_heard = True
        self._receive(self._splitter.feed(data))

    def pause_writing(self) -> None:
        self._is_write_paused = True

    def resume_writing(self) -> None:
        self._is_write_paused = False
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        self.closed.set()
        self._end(f"the connection was lost: {error}" if error else "the peer closed the link")

    # --- Sending ---

    def _wake(self) -> None:
        if not (self._is_flush_due or self._is_corked):
            self._is_flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_due = False
        if self._is_write_paused or self.is_lost or not self._lanes.cost:
            return
        # More than the limit, so that a peer that does not read is noticed by `pause_writing`.
        room = PEER_PIECE_BYTES + 1 - self._transport.get_write_buffer_size()
        buffers = self._lanes.take(room)
        self._has_sent = True
        if self._lanes.taken_bytes <= _JOINED_BYTES_MAX:
            self._transport.write(b"".join(buffers))
        else:
            self._transport.writelines(buffers)
        if self._lanes.cost and not self._is_write_paused:
            self._wake()

    # --- Receiving ---

    def _receive(self, received: Iterable[bytes]) -> None:
        self._is_corked = True
        try:
            for frame in received:
                if self.is_lost:
                    return
                self._receive_frame(frame)
            if self._splitter.is_broken:
                raise ProtocolError("a frame's length is impossible")
            if self._lanes.cost > 2 * PEER_BACKLOG_BYTES_MAX:
                raise ProtocolError("it goes on calling and reads no answers")
        except ProtocolError as error:
            self.lose(f"the peer broke the protocol: {error}")
        finally:
            self._is_corked = False
        if self._lanes.cost and not self._is_flush_due:
            self._flush()

    def _receive_frame(self, frame: bytes) -> None:
        kind = frame[0]
        head_bytes = frames.HEAD_BYTES.get(kind)
        if head_bytes is not None:
            if len(frame) < head_bytes:
                raise ProtocolError("a frame ends within its head")
            self._receive_payload(frame, frame[head_bytes:])
        elif kind in (frames.PART, frames.LAST):
            self._joiner.add(frame)
            if kind == frames.LAST:
                self._receive_payload(*self._joiner.finish())
        elif kind == frames.CANCEL and len(frame) == frames.CANCEL_BYTES:
            self._cancel_served(*frames.unpack_number(frame))
        elif kind == frames.REFUSAL:
            self.lose(f"the peer refused: {parse_refusal(frame)}")
        elif kind != frames.PING or len(frame) != 1:
            raise ProtocolError(f"no frame is like this: kind {kind}, {len(frame)} bytes")

    def _receive_payload(self, head: bytes, payload: bytes) -> None:
        kind = head[0]
        if kind == frames.ANSWER:
            call_id, status = frames.unpack_answer(head)
            self._finish(call_id, status, payload)
        elif kind == frames.CALL:
            call_id, milliseconds, service = frames.unpack_call(head)
            self._serve(call_id, milliseconds, service, payload)
        else:
            (sent_wall_ms,) = frames.unpack_number(head)
            self.offsets.add(sent_wall_ms, self._host.boottime_ns())
            self._host.on_raft(self.peer.node_id, payload)

    # --- Calls of ours ---

    def _refusal_of(self, payload: bytes, seconds: float) -> OperationError | None:
        if self.is_lost:
            return LinkLost("the link is gone", was_written=False)
        if seconds <= 0:
            return DeadlineExceeded("no time is left for the call")
        if len(self._calls) < PEER_CALLS_MAX and len(payload) < PEER_FRAME_BYTES_MAX - 32:
            return None
        self._host.counts.calls_refused += 1
        return Overloaded("too many calls are waiting for the peer, or one is too large")

    def _finish(self, call_id: int, status: int, payload: bytes) -> None:
        waiting = self._calls.pop(call_id, None)
        # An answer may cross our cancel.
        if waiting is None:
            return
        error = calls.error_of(status)
        waiting[0](status, None if error else payload, error)

    def _give_up(self, call_id: int, error: OperationError) -> None:
        waiting = self._calls.pop(call_id, None)
        if waiting is None:
            return
        if not self._lanes.abandon(call_id):
            # Behind the call in the same lane, so that it cannot come before it.
            self._lanes.add_small(frames.cancel_frame(call_id))
            self._wake()
        waiting[0](0, None, error)

    def _set_alarm(self, deadline: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = max(deadline, self._loop.time() + _ALARM_SECONDS)
        self._alarm = self._loop.call_at(self._alarm_at, self._expire)

    def _expire(self) -> None:
        self._alarm = None
        self._alarm_at = math.inf
        # The loop's timers count whole milliseconds and may come a little early.
        now = self._loop.time() + 0.001
        for call_id in [each for each, (_, deadline) in self._calls.items() if deadline <= now]:
            self._give_up(call_id, DeadlineExceeded("the peer did not answer in time"))
        if self._calls:
            self._set_alarm(min(deadline for _, deadline in self._calls.values()))

    # --- Calls of the peer ---

    def _serve(self, call_id: int, milliseconds: int, service: int, payload: bytes) -> None:
        if call_id in self._served:
            raise ProtocolError("two calls with one id")
        call = IncomingCall(self, call_id, self._loop.time() + milliseconds / 1000)
        handler = self._host.services.get(service)
        if handler is None or len(self._served) >= PEER_CALLS_MAX:
            call.answer(calls.OVERLOADED if handler else calls.UNKNOWN_SERVICE)
            return
        self._served[call_id] = call
        try:
            handler(self.peer, payload, call)
        # A handler that raises is a bug of the service; the link and its other calls go on.
        except Exception:
            self._host.log.exception("a service failed", extra={"service": service})
            if not call.is_answered:
                call.answer(calls.BUG)

    def answer(self, call: IncomingCall, status: int, payload: bytes) -> bool:
        """Only `IncomingCall.answer` calls this."""
        if self.is_lost:
            return False
        self._served.pop(call.id, None)
        is_sent = len(payload) < PEER_FRAME_BYTES_MAX - 32 and self._lanes.add_answer(
            frames.answer_head(call.id, status, len(payload)), payload
        )
        if not is_sent:
            self._lanes.add_small(frames.answer_head(call.id, calls.ANSWER_LOST, 0))
        self._wake()
        return is_sent

    def _cancel_served(self, call_id: int) -> None:
        call = self._served.pop(call_id, None)
        if call is not None:
            call.cancel()

    # --- The end ---

    def _end(self, why: str) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        if self._alarm is not None:
            self._alarm.cancel()
        waiting, self._calls = self._calls, {}
        served, self._served = self._served, {}
        # First the node, so that nobody who is told below finds this link again.
        self._host.link_lost(self, why)
        for call_id, (on_done, _) in waiting.items():
            was_written = not self._lanes.abandon(call_id)
            on_done(0, None, LinkLost(why, was_written=was_written))
        for call in served.values():
            call.cancel()
