"""What time is it there? A question to the peer at the end of a link, again and again.

Packets alone tell a clock less their delay, which is not known without a question. A peer that does
not know this service is believed as far as its packets go.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from fastnode.errors import OperationError
from fastnode.peers.calls import OK, Caller, Handler, IncomingCall
from fastnode.peers.handshake import Identity
from fastnode.peers.offsets import OffsetWindow

# The numbers below are services of the cluster.
CLOCK: Final = 8
_WALL_BYTES: Final = 8
_SECONDS_MAX: Final = 1.0
# Whoever has just come may be elected soon: it asks at each tick, and later at each fourth.
_QUICK_TICKS: Final = 16
_TICKS: Final = 4


def answering(wall_ns: Callable[[], int]) -> Handler:
    """The service."""

    def tell(_peer: Identity, _payload: bytes, call: IncomingCall) -> None:
        call.answer(OK, wall_ns().to_bytes(_WALL_BYTES, "big"))

    return tell


class ClockQuestion:
    """Of one link; at most one is on its way."""

    __slots__ = ("_boottime_ns", "_is_open", "_link", "_offsets", "_ticks")

    def __init__(self, link: Caller, offsets: OffsetWindow, boottime_ns: Callable[[], int]) -> None:
        self._link = link
        self._offsets = offsets
        self._boottime_ns = boottime_ns
        self._is_open = False
        self._ticks = 0

    def tick(self) -> None:
        self._ticks += 1
        is_due = self._ticks <= _QUICK_TICKS or self._ticks % _TICKS == 0
        if is_due and not self._is_open:
            self._is_open = True
            asked_ns = self._boottime_ns()
            self._link.call(CLOCK, b"", _SECONDS_MAX, partial(self._done, asked_ns))

    def _done(
        self, asked_ns: int, status: int, payload: bytes | None, _error: OperationError | None
    ) -> None:
        self._is_open = False
        if status == OK and payload is not None and len(payload) == _WALL_BYTES:
            wall_ns = int.from_bytes(payload, "big")
            self._offsets.add_answer(wall_ns, asked_ns, self._boottime_ns())
