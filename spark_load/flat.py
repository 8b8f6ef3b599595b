"""From the headers and calls of a history to the rows of the given tables of `facts.py`. Pure.

`verify.py` makes the same rows from calls in Spark; the queues' rows come from here for both.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from spark_load.facts import SECOND_US
from spark_load.schema import HistoryHeader, Queue, TraceHeader

# Action → kind of event. Receives, deletes and extensions of a batch are one event per message too.
KINDS: Final = {
    "SendMessage": "send",
    "SendMessageBatch": "send",
    "ReceiveMessage": "delivery",
    "DeleteMessage": "delete",
    "DeleteMessageBatch": "delete",
    "ChangeMessageVisibility": "extension",
    "ChangeMessageVisibilityBatch": "extension",
}
RECEIVE: Final = "ReceiveMessage"
MOVE_TASK: Final = "StartMessageMoveTask"
SEQUENCE_DIGITS: Final = 20
# What SQS gives a queue that does not say.
VISIBILITY_SECONDS: Final = 30
RETENTION_SECONDS: Final = 4 * 24 * 3600
COUNTERS: Final = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """A row of `queues`, and what the events of the queue take from it."""

    queue: str
    family: str
    is_fifo: bool
    visibility_us: int
    dedups_by_group: bool
    max_receives: int | None
    retention_us: int
    has_consumers: bool
    remaining: int | None
    is_complete: bool
    began_us: int
    ended_us: int
    lost_receives: int = 0
    move_tasks: int = 0


class Event(NamedTuple):
    """A row of `events`."""

    kind: str
    spread: int
    family: str
    queue: str
    is_fifo: int
    key: str | None
    message_id: str | None
    receipt: str | None
    sequence: str | None
    message_group: str | None
    dedup: str | None
    call: str | None
    attempt: int
    position: int
    began_us: int
    ended_us: int
    outcome: str
    lease_us: int | None


class Receive(NamedTuple):
    """A row of `receives`."""

    queue: str
    call: str
    endpoint: str
    began_us: int
    partitions: int | None
    rows_seen: int | None
    choose_us: int | None


def queue_facts(trace: TraceHeader, history: HistoryHeader) -> list[QueueFacts]:
    dead_letters = {queue.name: queue.dead_letter for queue in trace.queues}
    return [_facts(queue, family_of(queue.name, dead_letters), history) for queue in trace.queues]


def family_of(name: str, dead_letters: Mapping[str, str | None]) -> str:
    """The last dead-letter queue on the way; of a ring the first by name."""
    way = [name]
    while (target := dead_letters.get(way[-1])) is not None:
        if target in way:
            return min(way[way.index(target) :])
        way.append(target)
    return way[-1]


def count_calls(
    facts: Iterable[QueueFacts], lost: Mapping[str, int], tasks: Mapping[str, int]
) -> list[QueueFacts]:
    """With what only the calls tell, both by queue."""
    return [
        replace(
            fact,
            lost_receives=lost.get(fact.queue, 0),
            move_tasks=tasks.get(fact.queue, 0),
        )
        for fact in facts
    ]


def flatten(
    calls: Iterable[Mapping[str, Any]],
    facts: Iterable[QueueFacts],
    dedups: Mapping[str, str] | None = None,
) -> Iterator[Event]:
    """The events of calls as `schema.py` has them; `dedups` by key, where a trace names them."""
    by_name = {fact.queue: fact for fact in facts}
    for call in calls:
        kind, fact = KINDS.get(call["action"]), by_name.get(call["queue"])
        if kind is None or fact is None:
            continue
        for position, message in enumerate(call["messages"]):
            outcome = message["outcome"]
            if outcome == "ok" or (outcome == "unknown" and kind != "delivery"):
                yield _event(kind, fact, call, position, message, dedups or {})


def spread_of(key: str | None) -> int:
    """Any hash will do: only the keys themselves are compared."""
    return zlib.crc32((key or "").encode())


def receives_of(calls: Iterable[Mapping[str, Any]]) -> list[Receive]:
    return [
        Receive(
            queue=call["queue"],
            call=call["call"],
            endpoint=call["endpoint"],
            began_us=call["started_us"],
            partitions=call["partitions"],
            rows_seen=call["rows"],
            choose_us=call["choose_us"],
        )
        for call in calls
        if call["action"] == RECEIVE and call["outcome"] == "ok"
    ]


def _facts(queue: Queue, family: str, history: HistoryHeader) -> QueueFacts:
    attributes, counters = queue.attributes, history.counters.get(queue.name)
    return QueueFacts(
        queue=queue.name,
        family=family,
        is_fifo=queue.is_fifo,
        visibility_us=int(attributes.get("VisibilityTimeout", VISIBILITY_SECONDS)) * SECOND_US,
        dedups_by_group=attributes.get("DeduplicationScope") == "messageGroup",
        max_receives=queue.max_receives if queue.dead_letter else None,
        retention_us=int(attributes.get("MessageRetentionPeriod", RETENTION_SECONDS)) * SECOND_US,
        has_consumers=queue.consumers is not None and queue.consumers.count > 0,
        remaining=None if counters is None else sum(counters.get(name, 0) for name in COUNTERS),
        is_complete=history.is_complete,
        began_us=history.began_us,
        ended_us=history.ended_us,
    )


def _event(
    kind: str,
    fact: QueueFacts,
    call: Mapping[str, Any],
    position: int,
    message: Mapping[str, Any],
    dedups: Mapping[str, str],
) -> Event:
    sequence, group = message["sequence"], message["group"]
    return Event(
        kind=kind,
        spread=spread_of(message["key"]),
        family=fact.family,
        queue=fact.queue,
        is_fifo=int(fact.is_fifo),
        key=message["key"],
        message_id=message["message_id"],
        receipt=message["receipt"],
        sequence=None if sequence is None else sequence.zfill(SEQUENCE_DIGITS),
        message_group=group,
        dedup=_dedup(fact, message["key"], group, dedups) if kind == "send" else None,
        call=call["call"] if fact.is_fifo else None,
        attempt=call["attempt"],
        position=position,
        began_us=_began(kind, call),
        ended_us=call["ended_us"],
        outcome=message["outcome"],
        lease_us=_lease(kind, fact, call["visibility"]),
    )


def _began(kind: str, call: Mapping[str, Any]) -> int:
    """A receive that is repeated may be answered with what its first attempt took."""
    is_repeat = kind == "delivery" and call["attempt"] > 0
    return int(call["intended_us"] if is_repeat else call["started_us"])


def _dedup(fact: QueueFacts, key: str, group: str | None, dedups: Mapping[str, str]) -> str | None:
    """A message without a deduplication id has its body's, which begins with the key."""
    if not fact.is_fifo:
        return None
    dedup = dedups.get(key, key)
    return f"{group}/{dedup}" if fact.dedups_by_group else dedup


def _lease(kind: str, fact: QueueFacts, seconds: int | None) -> int | None:
    if kind not in ("delivery", "extension"):
        return None
    return fact.visibility_us if seconds is None else seconds * SECOND_US
