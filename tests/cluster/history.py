"""What clients of a cluster did and were told, and whether one correct queue could have told it.

Pure: events go in, complaints come out. Times are those of one monotonic clock, taken before a call
and after its answer, so what a call did happened somewhere in between. The rules are those of the
load pipeline (`spark_load/checks.py`); what is here turns events into its rows. Only the counters
are judged here: a test that has taken everything out knows them exactly.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from spark_load import flat, small

SECOND_US = 1_000_000
NEVER_US = 1 << 60


class Sent(NamedTuple):
    """One attempt to send. The message id is empty when the outcome is unknown. In a FIFO queue the
    body is the deduplication id, and `number` counts the messages of a group from 0 on, each sent
    only after the one before it was acknowledged.
    """

    queue: str
    body: str
    began: float
    ended: float
    message_id: str = ""
    group: str = ""
    number: int = -1
    sequence: str = ""


class Message(NamedTuple):
    message_id: str
    body: str
    group: str = ""
    sequence: str = ""


class Received(NamedTuple):
    """An answer with messages, in their order. An answer that was lost is no event."""

    queue: str
    began: float
    ended: float
    lease_seconds: float
    messages: tuple[Message, ...]


class Deleted(NamedTuple):
    """An attempt to delete what a receive gave, begun at `received` for `lease_seconds`."""

    queue: str
    message_id: str
    received: float
    lease_seconds: float
    began: float
    ended: float
    is_acknowledged: bool


class Drained(NamedTuple):
    """The end: counters when nothing was in flight any more, how many messages were then found, and
    the counters when all of those were deleted. Counters: visible, in flight, delayed.
    """

    queue: str
    before: tuple[int, int, int]
    found: int
    after: tuple[int, int, int]


Event = Sent | Received | Deleted | Drained


def check(events: Iterable[Event]) -> list[str]:
    """What is wrong, by queue; empty when nothing is."""
    queues: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        queues[event.queue].append(event)
    return [
        f"{name}: {complaint}"
        for name, members in sorted(queues.items())
        for complaint in complaints(name, members)
    ]


def complaints(name: str, events: list[Event]) -> Iterator[str]:
    yield from counter_complaints(event for event in events if isinstance(event, Drained))
    rows = rows_of(events)
    for check_name, offences in small.judge(rows, [], [facts(name, events)]).items():
        for offence in offences:
            yield f"{check_name}: {offence.key}: {offence.detail}"


def counter_complaints(drained: Iterable[Drained]) -> Iterator[str]:
    for end in drained:
        if end.before != (end.found, 0, 0):
            yield f"counters {end.before} before {end.found} messages were found"
        if end.after != (0, 0, 0):
            yield f"counters {end.after} after everything was deleted"


def facts(name: str, events: list[Event]) -> flat.QueueFacts:
    """At the end everything was taken out, so what nobody tried to delete was not there."""
    is_drained = any(isinstance(event, Drained) for event in events)
    return flat.QueueFacts(
        queue=name,
        family=name,
        is_fifo=is_fifo(events),
        visibility_us=0,
        dedups_by_group=False,
        max_receives=None,
        retention_us=NEVER_US,
        has_consumers=True,
        remaining=None,
        is_complete=is_drained,
        began_us=0,
        ended_us=NEVER_US,
    )


def is_fifo(events: list[Event]) -> bool:
    return any(isinstance(event, Sent) and bool(event.group) for event in events)


def rows_of(events: list[Event]) -> list[flat.Event]:
    ordered = is_fifo(events)
    bodies = {
        message.message_id: message.body
        for event in events
        if isinstance(event, Received)
        for message in event.messages
    }
    receipts: dict[str, str] = {}
    rows: list[flat.Event] = []
    for number, event in enumerate(events):
        if isinstance(event, Sent):
            rows.append(sent_row(event, str(number), ordered))
        elif isinstance(event, Received):
            rows += received_rows(event, str(number), ordered, receipts)
        elif isinstance(event, Deleted):
            rows.append(deleted_row(event, str(number), ordered, bodies.get(event.message_id)))
    return rows


def sent_row(sent: Sent, call: str, ordered: bool) -> flat.Event:
    message = Message(sent.message_id, sent.body, sent.group, sent.sequence)
    outcome = "ok" if sent.message_id else "unknown"
    known = row("send", sent, call, ordered, message, outcome)
    return known._replace(dedup=sent.body if ordered else None)


def received_rows(
    received: Received, call: str, ordered: bool, receipts: dict[str, str]
) -> list[flat.Event]:
    lease_us = us(received.lease_seconds)
    return [
        row("delivery", received, call, ordered, message, "ok")._replace(
            receipt=own_receipt(message.message_id, received.began, call, receipts),
            lease_us=lease_us,
            position=position,
        )
        for position, message in enumerate(received.messages)
    ]


def own_receipt(message_id: str, began: float, call: str, receipts: dict[str, str]) -> str:
    """Two receives that began at one moment have receipts of their own."""
    name = receipt(message_id, began)
    return name if receipts.setdefault(name, call) == call else f"{name} {call}"


def deleted_row(deleted: Deleted, call: str, ordered: bool, body: str | None) -> flat.Event:
    message = Message(deleted.message_id, body or "")
    outcome = "ok" if deleted.is_acknowledged else "unknown"
    known = row("delete", deleted, call, ordered, message, outcome)
    return known._replace(receipt=receipt(deleted.message_id, deleted.received))


def row(
    kind: str,
    event: Sent | Received | Deleted,
    call: str,
    ordered: bool,
    message: Message,
    outcome: str,
) -> flat.Event:
    return flat.Event(
        kind=kind,
        spread=flat.spread_of(message.body),
        family=event.queue,
        queue=event.queue,
        is_fifo=int(ordered),
        key=message.body,
        message_id=message.message_id or None,
        receipt=None,
        sequence=message.sequence.zfill(flat.SEQUENCE_DIGITS) if message.sequence else None,
        message_group=message.group or None,
        dedup=None,
        call=call,
        attempt=0,
        position=0,
        began_us=us(event.began),
        ended_us=us(event.ended),
        outcome=outcome,
        lease_us=None,
    )


def receipt(message_id: str, received: float) -> str:
    return f"{message_id}@{received}"


def us(seconds: float) -> int:
    return round(seconds * SECOND_US)
