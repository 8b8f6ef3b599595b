"""Turning requests away while the node has no room for more work: before the body is decoded, the
signature looked at or anything written, with an answer that was made beforehand. Sans-IO.

How much room there is decides `store/backlog.py`. What frees something (a delete, a change of
visibility) is turned away last, and nothing that was let in is given up for what comes later.

Theory of operation. Telling a client to come back costs a third of serving it, and one that comes
back at once is told again: then a node that is overloaded thrice would do nothing else. So these
answers are kept, and leave a few at each tick: one for so many transactions that were carried out,
and those that have waited for some seconds. Once nobody had to be turned away for a tick, as many
leave as there is room for if all of them come back at once. Meanwhile their clients cost nothing.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from fastnode.config import TICK_SECONDS
from fastnode.errors import Overloaded
from fastnode.http.codec import Codec, Rendered
from fastnode.http.exchange import Exchange
from fastnode.http.http1 import Request
from fastnode.queue.errors import service_unavailable
from fastnode.queue.operations import FREEING

OVERLOADED_TEXT: Final = "The service is overloaded. Please try again."
_FREEING_TARGETS: Final = frozenset(b"AmazonSQS." + action.encode() for action in FREEING)
# SDKs write the action first.
_FREEING_BODIES: Final = tuple(b"Action=%b&" % action.encode() for action in FREEING)
_SHED_BY_LISTENER: Final = frozenset({"bytes", "connections"})
# Transactions that are carried out for one answer that says no.
_SERVED_PER_REFUSAL: Final = 4
# Five seconds; clients wait longer than that for an answer.
_KEPT_TICKS_MAX: Final = round(5 / TICK_SECONDS)
# As long as a request id, so that the answer has the same length with any of them.
_BLANK_ID: Final = "00000000-0000-0000-0000-000000000000"


class Room(Protocol):
    """The node's backlog."""

    room: int

    @property
    def has_reserve(self) -> bool: ...


class EndlessRoom:
    """For a router that has no node behind it."""

    room = 1
    has_reserve = True


class Shedding:
    """`turns_away` is asked when `room.room` is used up, `tick` called several times a second."""

    def __init__(self, room: Room, request_ids: Callable[[], str]) -> None:
        self.room = room
        self.count = 0
        self._kept: deque[tuple[int, Exchange, Codec]] = deque()
        self._ticks = 0
        self._count_before = 0
        self._request_ids = request_ids
        self._made: dict[type[Codec], Rendered] = {}

    def turns_away(self, request: Request, exchange: Exchange, codec: Codec) -> bool:
        """True: the request will be answered. False: it frees something, and there is a reserve."""
        if frees(request) and self.room.has_reserve:
            return False
        self.count += 1
        request.body = b""  # nobody will read it, and it may be large
        self._kept.append((self._ticks, exchange, codec))
        return True

    def tick(self, freed: int) -> None:
        """So many places were freed since the last one."""
        self._ticks += 1
        is_over = self.count == self._count_before
        self._count_before = self.count
        leaving = max(freed // _SERVED_PER_REFUSAL, self.room.room if is_over else 0)
        overdue = self._ticks - _KEPT_TICKS_MAX
        while self._kept and (leaving > 0 or self._kept[0][0] <= overdue):
            _, exchange, codec = self._kept.popleft()
            exchange.reply(*self._answer(codec))
            leaving -= 1

    def _answer(self, codec: Codec) -> Rendered:
        made = self._made.get(type(codec))
        if made is None:
            error = service_unavailable(OVERLOADED_TEXT)
            made = codec.encode_error(error, _BLANK_ID, Overloaded.retry_after_seconds)
            self._made[type(codec)] = made
        status, headers, body = made
        blank, request_id = _BLANK_ID.encode(), self._request_ids().encode()
        return status, headers.replace(blank, request_id), body.replace(blank, request_id)


def frees(request: Request) -> bool:
    target = request.headers.get(b"x-amz-target")
    return target in _FREEING_TARGETS or request.body.startswith(_FREEING_BODIES)


def shed_metrics(shedding: Shedding, refused: Mapping[str, int]) -> dict[str, float]:
    """`refused` are the counts of a listener."""
    shed = {"overload": shedding.count} | {name: refused[name] for name in _SHED_BY_LISTENER}
    cut = {name: refused[name] for name in refused.keys() - _SHED_BY_LISTENER}
    return {
        f'fastnode_{what}_total{{reason="{reason}"}}': count
        for what, counts in (("requests_shed", shed), ("connections_cut", cut))
        for reason, count in counts.items()
    }
