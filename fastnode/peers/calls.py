"""What services and callers see of a call between nodes, and how a call fails.

How calls travel is in `link.py`. A caller gets its outcome by `on_done(status, payload, error)`,
exactly once and possibly before `Link.call` has returned: with an error there is no payload.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol

from fastnode.errors import OperationError, Overloaded
from fastnode.flow import Suspension
from fastnode.peers.handshake import Identity

OK: Final = 0
# Services choose among the lower ones; these are the link's own.
SERVICE_STATUS_MAX: Final = 199
ANSWER_LOST: Final = 252
OVERLOADED: Final = 253
UNKNOWN_SERVICE: Final = 254
BUG: Final = 255

OnDone = Callable[[int, bytes | None, OperationError | None], None]


class LinkLost(OperationError):
    """The link ended before the answer came. If the call had been written its outcome is unknown,
    otherwise it was never carried out.
    """

    def __init__(self, why: str, *, was_written: bool) -> None:
        super().__init__(why)
        self.was_written = was_written


class CallCancelled(OperationError):
    """Whoever made the call gave it up; its outcome is unknown."""


def error_of(status: int) -> OperationError | None:
    """What the peer's link, not its service, has to say."""
    if status == OVERLOADED:
        return Overloaded("the peer has too many calls open")
    if status == ANSWER_LOST:
        return LinkLost("the answer did not fit on the link", was_written=True)
    return None


class Answering(Protocol):
    """What a call needs of the link it came by."""

    def answer(self, call: "IncomingCall", status: int, payload: bytes) -> bool: ...


class IncomingCall:
    """A peer's call. The handler, or whoever it gives the call to, answers exactly once.

    `deadline` is a time of the event loop; after it the caller has given up. `on_cancel` is called
    when the caller gives up or the link is lost, unless the call was answered before.
    """

    __slots__ = ("_link", "deadline", "id", "is_answered", "is_cancelled", "on_cancel")

    def __init__(self, link: Answering, call_id: int, deadline: float) -> None:
        self.id = call_id
        self.deadline = deadline
        self.is_answered = False
        self.is_cancelled = False
        self.on_cancel: Callable[[], None] | None = None
        self._link = link

    def answer(self, status: int, payload: bytes = b"") -> bool:
        """False: the answer does not reach the caller, who has gone or cannot be told so much."""
        assert not self.is_answered, "a call is answered once"
        self.is_answered = True
        return not self.is_cancelled and self._link.answer(self, status, payload)

    def cancel(self) -> None:
        self.is_cancelled = True
        if self.on_cancel is not None and not self.is_answered:
            self.on_cancel()


# Runs on the event loop and does not wait: who needs time keeps the call and answers later.
Handler = Callable[[Identity, bytes, IncomingCall], None]


class Caller(Protocol):
    """A link, as those see it who make calls."""

    def call(self, service: int, payload: bytes, seconds: float, on_done: OnDone) -> int: ...

    def cancel(self, call_id: int) -> None: ...


class Asked(Suspension):
    """A call under `flow`: awaiting it gives (status, payload) or raises."""

    __slots__ = ("_call_id", "_link")

    def __init__(self, link: Caller, service: int, payload: bytes, seconds: float) -> None:
        super().__init__()
        self._link = link
        self._call_id = link.call(service, payload, seconds, self._done)

    def cancel(self) -> None:
        """Fails with `CallCancelled` unless it is done."""
        if not self.is_done:
            self._link.cancel(self._call_id)

    def _done(self, status: int, payload: bytes | None, error: OperationError | None) -> None:
        if error is None:
            self.resume((status, payload))
        else:
            self.fail(error)


async def ask(link: Caller, service: int, payload: bytes, seconds: float) -> tuple[int, bytes]:
    """A call under asyncio. Cancelling the awaiting task cancels the call."""
    answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def done(status: int, payload: bytes | None, error: OperationError | None) -> None:
        if answered.done():
            return
        if error is None:
            answered.set_result((status, payload))
        else:
            answered.set_exception(error)

    call_id = link.call(service, payload, seconds, done)
    try:
        result: tuple[int, bytes] = await answered
        return result
    except asyncio.CancelledError:
        link.cancel(call_id)
        raise
