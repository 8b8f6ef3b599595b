"""One client connection: reads requests, hands them on, writes the answers in order. Shell.

It decides nothing about requests. An answer may come at any time and in any order; it leaves when
all earlier ones have left. Answers that are ready together leave in one write. Reading goes on
while answers are awaited, so that the end of the connection is seen; it stops while the peer does
not read its answers or has too many requests open.
"""

import asyncio
import math
from collections import deque
from typing import Final, cast

from fastnode.config import (
    HTTP_ANSWER_SECONDS,
    HTTP_BODY_SECONDS,
    HTTP_HEADER_SECONDS,
    HTTP_IDLE_SECONDS,
    HTTP_PIPELINE_MAX,
    HTTP_WRITE_BUFFER_BYTES_MAX,
)
from fastnode.http.exchange import Exchange
from fastnode.http.holding import SMALL_BYTES, Holding
from fastnode.http.host import Host
from fastnode.http.http1 import BETWEEN, CONTINUE, Refused, Request, RequestParser, Stage
from fastnode.http.response import (
    CONTINUE_RESPONSE,
    RETRY,
    TEXT,
    whole_response,
)

# How long a connection that we ended may stay until the client has read the last answer and closed.
LINGER_SECONDS: Final = 5.0
# `BETWEEN` is not here: it is decided for every request, and a look-up hashes the member in Python.
_STAGE_SECONDS: Final = {
    Stage.HEAD: HTTP_HEADER_SECONDS,
    Stage.BODY: HTTP_BODY_SECONDS,
    Stage.OVER: math.inf,
}
_CROWDED: Final = Refused(503, "too many large requests at a time")
_TIMED_OUT: Final = Refused(408, "the request took too long to arrive")


class Connection:
    """The protocol object of one accepted socket: what `asyncio.Protocol` is, without inheriting
    it, which no object of C can.
    """

    __slots__ = (
        "_alone",
        "_holding",
        "_host",
        "_is_corked",
        "_is_full",
        "_is_over",
        "_is_reading",
        "_is_write_paused",
        "_owed_until",
        "_owes_continue",
        "_parser",
        "_peer",
        "_pending",
        "_stage",
        "_transport",
        "_written_bytes",
        "deadline",
        "has_ended",
    )

    def __init__(self, host: Host) -> None:
        self._host = host
        self._transport: asyncio.Transport | None = None
        self._parser = RequestParser()
        self._pending: deque[Exchange] = deque()
        # The only exchange, of which nothing complicates the answer: it may be written at once.
        self._alone: Exchange | None = None
        self._stage: Stage = BETWEEN
        self._holding = Holding(host.crowd)
        self.deadline = math.inf
        self.has_ended = False  # the client will send nothing more
        self._is_corked = False  # answers are collected until the end of a burst
        self._is_full = False  # requests may be left in the parser
        self._is_over = False  # the last answer is written
        self._is_reading = True
        self._is_write_paused = False
        self._owed_until = math.inf  # when the oldest request must be answered
        self._owes_continue = False
        self._written_bytes = 0  # last, and since writing is paused: kept until all is read
        self._peer: tuple[str, int] | None = None  # asked for once: it costs a system call

    @property
    def protocol(self) -> asyncio.Protocol:
        """Itself, to the event loop."""
        return cast(asyncio.Protocol, self)

    # --- called by the event loop ---------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.deadline = self._host.coarse_now + HTTP_IDLE_SECONDS

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        is_plain = not self._pending and len(data) <= SMALL_BYTES
        request = self._parser.take_whole(data) if is_plain else None
        if request is not None:
            self._stage = BETWEEN
            self.deadline = self._owed_until = self._host.coarse_now + HTTP_ANSWER_SECONDS
            self._alone = exchange = Exchange(self, request)
            self._pending.append(exchange)
            self._host.respond(request, exchange)
        else:
            self._feed(data)

    def eof_received(self) -> bool:
        """True keeps the socket open: a client that has only finished sending still gets its
        answers.
        """
        self._alone = None
        self.has_ended = True
        for exchange in tuple(self._pending):
            exchange.close()
        return bool(self._pending)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = self._alone = self._peer = None
        self._parser.end()
        self._holding.clear()
        self.has_ended = self._is_over = True
        self.deadline = math.inf
        abandoned = tuple(self._pending)
        self._pending.clear()
        for exchange in abandoned:
            exchange.close()
        self._host.forget(self)

    def pause_writing(self) -> None:
        self._alone = None
        self._is_write_paused = True
        self._set_reading()
        self._stage = BETWEEN
        self.deadline = self._host.coarse_now + HTTP_BODY_SECONDS
        self._is_read_enough()

    def resume_writing(self) -> None:
        self._is_write_paused = False
        self._holding.unread(0)
        self._advance()

    # --- called by the server and by exchanges --------------------------------------------------

    @property
    def peer(self) -> tuple[str, int] | None:
        if self._peer is None and self._transport is not None:
            address = self._transport.get_extra_info("peername")
            self._peer = (address[0], address[1]) if address else None
        return self._peer

    @property
    def is_idle(self) -> bool:
        return not self._pending and self._parser.stage is BETWEEN

    def on_answer(self, exchange: Exchange) -> None:
        if exchange is self._alone and not self._host.is_draining:
            assert exchange.answer is not None
            status, headers, body = exchange.answer
            self.write_alone(exchange, whole_response(status, headers, b"", body))
        elif self._is_corked or self._is_over or self._pending[0] is not exchange:
            return
        elif self._is_full:
            self._advance()
        else:
            self._write_answers()
            self._set_deadline()

    def write_alone(self, exchange: Exchange, response: bytes) -> bool:
        """The only answer that is owed leaves at once, if nothing complicates it."""
        host, transport = self._host, self._transport
        if exchange is not self._alone or host.is_draining:
            return False
        assert transport is not None
        self._alone = exchange.on_close = None
        self._pending.popleft()
        self._written_bytes = len(response)
        self.deadline = host.coarse_now + HTTP_IDLE_SECONDS
        transport.write(response)
        return True

    def refuse(self, refused: Refused) -> None:
        """Answer with a status and end, once the earlier answers have left."""
        exchange = Exchange(self, None)
        self._pending.append(exchange)
        headers = TEXT + RETRY if refused.status == 503 else TEXT
        exchange.reply(refused.status, headers, refused.reason.encode() + b"\n")

    def expire(self) -> None:
        """The deadline has passed. A half-sent request is told so; otherwise there is nobody to
        tell.
        """
        self.deadline = math.inf
        if self._is_over or self._is_write_paused:
            self.abort()
        elif self._pending and self._owed_until <= self._host.coarse_now:
            self._give_up()
        elif self._parser.stage is BETWEEN:
            self.close()
        else:
            self._parser.end()
            self._host.crowd.refused["late"] += 1
            self.refuse(_TIMED_OUT)
            if self._pending and not self._is_over:
                self.deadline = self._owed_until

    def _give_up(self) -> None:
        """Answer what is owed with a 503 each, and end: nobody can say what comes when."""
        self._alone = None
        self._parser.end()
        for exchange in tuple(self._pending):
            exchange.expire()
        self._write_answers()
        if not self._is_over:
            self._finish()

    def close(self) -> None:
        self._alone = None
        self._is_over = True
        self.deadline = self._host.coarse_now + LINGER_SECONDS
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        self._alone = None
        self._is_over = True
        if self._transport is not None:
            self._transport.abort()

    # --- the two directions ---------------------------------------------------------------------

    def _feed(self, data: bytes) -> None:
        self._alone = None
        self._parser.feed(data)
        self._advance()
        if not self._holding.arriving(self._parser.held_bytes):
            self._refuse_crowd()

    def _advance(self) -> None:
        """Take requests and write answers in turn until neither can go on."""
        while not self._is_over:
            self._take_requests()
            self._write_answers()
            if not self._is_full or self._is_blocked():
                break
        if self._is_full or not self._is_reading:
            self._set_reading()
        self._set_deadline()

    def _is_blocked(self) -> bool:
        return self._is_write_paused or len(self._pending) >= HTTP_PIPELINE_MAX

    def _take_requests(self) -> None:
        next_event, pending = self._parser.next_event, self._pending
        self._is_corked = self._is_full = True
        while not self._is_write_paused and len(pending) < HTTP_PIPELINE_MAX:
            event = next_event()
            if event is None:
                self._is_full = False
                break
            if type(event) is Request:
                self._stage = BETWEEN
                self._owes_continue = False
                self._open(event)
            elif event is CONTINUE:
                self._owes_continue = True
            else:
                self.refuse(event)
        self._is_corked = False

    def _open(self, request: Request) -> None:
        exchange = Exchange(self, request)
        if not self._pending:
            self._owed_until = self._host.coarse_now + HTTP_ANSWER_SECONDS
        exchange.held_bytes = len(request.body)
        if self._holding.open(exchange.held_bytes):
            self._pending.append(exchange)
            self._host.respond(request, exchange)
        else:
            self._holding.answered(exchange.held_bytes)
            self._refuse_crowd()

    def _write_answers(self) -> None:
        pending = self._pending
        if pending and pending[0].answer is None and not self._owes_continue:
            return
        parts: list[bytes] = []
        is_last = False
        while pending and pending[0].answer is not None and not is_last:
            exchange = pending.popleft()
            self._holding.answered(exchange.held_bytes)
            is_last = not exchange.keep_alive or (self._host.is_draining and self.is_idle)
            # The client is told, or its next request meets a closed connection.
            is_last = is_last or (exchange.is_overdue and not pending)
            exchange.append_to(parts, is_last=is_last)
            self._owed_until = self._host.coarse_now + HTTP_ANSWER_SECONDS
        if self._owes_continue and not pending and not is_last:
            # Never before an earlier answer: the client would take it for the start of that one.
            self._owes_continue = False
            parts.append(CONTINUE_RESPONSE)
        if parts:
            self._write(parts)
        if self._is_over:
            return
        if is_last:
            self._finish()
        elif self.has_ended and not pending and not self._is_full:
            self.close()

    def _write(self, parts: list[bytes]) -> None:
        transport = self._transport
        assert transport is not None
        size = sum(map(len, parts))
        if self._is_write_paused:
            self._written_bytes += size
            if not self._is_read_enough(transport.get_write_buffer_size()):
                return
        else:
            self._written_bytes = size
        if len(parts) == 1:
            transport.write(parts[0])
        else:
            transport.writelines(parts)

    def _finish(self) -> None:
        """Closing with unread bytes resets the connection and can destroy the answer on its way.
        So: no more from us, and what still comes is thrown away until the client closes or the time
        is up.
        """
        transport = self._transport
        assert transport is not None
        self._is_over = True
        patience = HTTP_BODY_SECONDS if self._is_write_paused else LINGER_SECONDS
        self.deadline = self._host.coarse_now + patience
        if self.has_ended or not transport.can_write_eof():
            transport.close()
        else:
            transport.write_eof()
            self._set_reading()

    # --- limits ---------------------------------------------------------------------------------

    def _refuse_crowd(self) -> None:
        self._parser.end()
        self._holding.arriving(0)
        self._host.crowd.refused["bytes"] += 1
        self.refuse(_CROWDED)

    def _is_read_enough(self, waiting_bytes: int = 0) -> bool:
        """False: the peer left so much unread that the connection is cut off. One answer may be of
        any size; another one behind a large one that waits may not.
        """
        has_room = self._holding.unread(self._written_bytes)
        if has_room and waiting_bytes <= HTTP_WRITE_BUFFER_BYTES_MAX:
            return True
        self._host.crowd.refused["unread"] += 1
        self.abort()
        return False

    def _set_reading(self) -> None:
        is_wanted = self._is_over or not self._is_blocked()
        if is_wanted is self._is_reading or self._transport is None or self._transport.is_closing():
            return
        self._is_reading = is_wanted
        if is_wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _set_deadline(self) -> None:
        """A limit runs from the start of its stage; while the node owes an answer, its own does."""
        if self._is_over or self._is_write_paused:
            return
        stage = self._parser.stage
        if self._is_full or (stage is BETWEEN and self._pending):
            self.deadline = self._owed_until
        elif stage is BETWEEN:
            self.deadline = self._host.coarse_now + HTTP_IDLE_SECONDS
            self._stage = stage
        elif stage is not self._stage:
            self.deadline = self._host.coarse_now + _STAGE_SECONDS[stage]
            self._stage = stage
