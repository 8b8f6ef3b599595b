"""What goes through queues, as all nodes (or workers) together know it. Each keeps the history of
what it leads (`queue/history.py`); whoever is asked asks the others and adds up, slot by slot.

Who cannot be reached leads nothing for long, and is left out.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from msgspec import Struct, msgpack

from fastnode import config
from fastnode.cluster.call_codec import DONE
from fastnode.errors import OperationError
from fastnode.flow import gather
from fastnode.peers.calls import Asked, Caller, Handler, IncomingCall
from fastnode.peers.handshake import Identity
from fastnode.queue.history import History, Name, Ring, Row

# Service of a link, beside those in `courier.py`.
TRAFFIC: Final = 5
ASK_SECONDS: Final = 2.0
_NS_PER_SECOND: Final = 1_000_000_000


class Question(Struct, frozen=True, array_like=True):
    """About one queue, or all."""

    queue: Name | None = None


class Report(Struct, frozen=True, array_like=True):
    """Rows of successive slots, the last of which is `newest`, and what has passed up to now."""

    newest: int = 0
    rows: list[Row] = []
    passed: tuple[int, int, int] = (0, 0, 0)


class Everything(Struct, frozen=True, array_like=True):
    """Of all queues: together, the last slot of the busy ones, and the messages of the deepest."""

    report: Report = Report()
    stored: int = 0
    latest: dict[Name, Row] = {}
    deepest: dict[Name, int] = {}


_encode: Final = msgpack.Encoder().encode
_decode_question: Final = msgpack.Decoder(Question).decode
_decode_report: Final = msgpack.Decoder(Report).decode
_decode_everything: Final = msgpack.Decoder(Everything).decode


class Traffic:
    """`links` are those to the others that can be reached now."""

    def __init__(self, history: History, links: Callable[[], Iterable[Caller]]) -> None:
        self._history = history
        self._links = links
        self.services: dict[int, Handler] = {TRAFFIC: self._tell}

    async def keep(self, wall_ns: Callable[[], int]) -> None:
        """Take a sample at the end of every slot, for ever."""
        slot_ns = config.HISTORY_SLOT_SECONDS * _NS_PER_SECOND
        while True:
            slot, into_ns = divmod(wall_ns(), slot_ns)
            await asyncio.sleep((slot_ns - into_ns) / _NS_PER_SECOND)
            for _ in self._history.sample(slot):
                await asyncio.sleep(0)

    async def of_queue(self, name: Name) -> Report:
        payloads = await self._asked(Question(name))
        return added_up([self._report(name), *map(_decode_report, payloads)])

    async def of_all(self) -> Everything:
        payloads = await self._asked(Question())
        return merged([self._everything(), *map(_decode_everything, payloads)])

    async def _asked(self, question: Question) -> list[bytes]:
        payload = _encode(question)
        answers = await gather(_answer_of(link, payload) for link in self._links())
        return [answer for answer in answers if answer is not None]

    # --- what is known here --------------------------------------------------------------------

    def _tell(self, _peer: Identity, payload: bytes, incoming: IncomingCall) -> None:
        name = _decode_question(payload).queue
        report = self._everything() if name is None else self._report(name)
        incoming.answer(DONE, _encode(report))

    def _report(self, name: Name) -> Report:
        tracked = self._history.of_queue(name)
        if tracked is None:
            return Report()
        return _report_of(tracked.ring, self._history.passed(name))

    def _everything(self) -> Everything:
        history = self._history
        report = _report_of(history.all.ring, history.passed_all())
        census = history.census
        return Everything(report, census.stored, history.latest(), census.deepest)


async def _answer_of(link: Caller, payload: bytes) -> bytes | None:
    """None from a node that goes away, or that is of a version without histories."""
    try:
        status, answer = await Asked(link, TRAFFIC, payload, ASK_SECONDS)
    except OperationError:
        return None
    return answer if status == DONE else None


def _report_of(ring: Ring, passed: tuple[int, int, int]) -> Report:
    return Report(ring.newest, ring.rows(), passed)


# --- sums ---------------------------------------------------------------------------------------


def added_up(reports: Iterable[Report]) -> Report:
    """Slots that only some know are what those know."""
    every = list(reports)
    known = [one for one in every if one.rows]
    sent, received, removed = _sums(one.passed for one in every)
    passed = sent, received, removed
    if not known:
        return Report(0, [], passed)
    newest = max(one.newest for one in known)
    oldest = min(one.newest - len(one.rows) + 1 for one in known)
    oldest = max(oldest, newest - config.HISTORY_SLOTS + 1)
    rows = [Row(*_sums(_rows_at(known, slot))) for slot in range(oldest, newest + 1)]
    return Report(newest, rows, passed)


def merged(every: list[Everything]) -> Everything:
    latest: dict[Name, Row] = {}
    deepest: dict[Name, int] = {}
    for one in every:
        for name, row in one.latest.items():
            latest[name] = Row(*_sums([row, latest[name]])) if name in latest else row
        for name, messages in one.deepest.items():
            deepest[name] = deepest.get(name, 0) + messages
    report = added_up(one.report for one in every)
    return Everything(report, sum(one.stored for one in every), latest, deepest)


def _rows_at(reports: list[Report], slot: int) -> Iterator[Row]:
    yield Row()
    for one in reports:
        at = slot - one.newest + len(one.rows) - 1
        if 0 <= at < len(one.rows):
            yield one.rows[at]


def _sums(rows: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    columns: Any = zip(*rows, strict=True)
    return tuple(map(sum, columns))
