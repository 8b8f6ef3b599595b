"""Rows of a history, made by hand: the calls of clients that were told this and that.

Times are seconds after the history began. A call takes 10 ms unless it says otherwise. Nothing here
judges anything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark_load.schema import CALL_COLUMNS, Consumers, HistoryHeader, Queue, TraceHeader

BEGAN_US = 1_700_000_000_000_000
TOOK_US = 10_000
TRACE_ID = "0badcafe"
Row = dict[str, Any]


def header(*queues: Queue, messages: int = 0) -> TraceHeader:
    return TraceHeader(
        trace_id=TRACE_ID,
        workload="by hand",
        digest="",
        seed=0,
        operations=messages,
        messages=messages,
        duration_us=60_000_000,
        queues=queues,
    )


def ending(
    *, seconds: float = 60.0, is_complete: bool = True, left: Mapping[str, int] | None = None
) -> HistoryHeader:
    """`left`: queue → visible messages at the end."""
    counters = {
        queue: {
            "ApproximateNumberOfMessages": count,
            "ApproximateNumberOfMessagesNotVisible": 0,
            "ApproximateNumberOfMessagesDelayed": 0,
        }
        for queue, count in (left or {}).items()
    }
    return HistoryHeader(
        trace_id=TRACE_ID,
        began_us=BEGAN_US,
        ended_us=BEGAN_US + round(seconds * 1e6),
        endpoints=("http://127.0.0.1:9324",),
        is_complete=is_complete,
        counters=counters,
    )


def plain(name: str = "q", *, consumers: bool = True, **fields: Any) -> Queue:
    """A queue, `.fifo` or not, with a visibility timeout of 2 s."""
    attributes = {"VisibilityTimeout": "2"} | fields.pop("attributes", {})
    who = Consumers(visibility_seconds=2) if consumers else None
    return Queue(name, attributes, consumers=who, **fields)


def row(action: str, queue: str, at: float, **fields: Any) -> Row:
    """A row with every column of the schema; `at` and `took` in seconds."""
    started = BEGAN_US + round(at * 1e6)
    took = round(fields.pop("took", TOOK_US / 1e6) * 1e6)
    known: Row = {column.name: None for column in CALL_COLUMNS}
    known |= {
        "call": f"{action} {queue} {at}",
        "attempt": 0,
        "lane": 0,
        "role": "consumer",
        "action": action,
        "queue": queue,
        "endpoint": "http://127.0.0.1:9324",
        "intended_us": started,
        "started_us": started,
        "ended_us": started + took,
        "outcome": "ok",
        "status": 200,
        "messages": [],
    }
    return known | fields


def message(key: str | None, **fields: Any) -> Row:
    """The id of a message is `m` and its key, unless it says otherwise; of FIFO ones `in_group`."""
    names = ("key", "message_id", "receipt", "sequence", "group", "receives", "outcome")
    known: Row = dict.fromkeys(names) | {"key": key, "message_id": f"m{key}", "outcome": "ok"}
    return known | fields


@dataclass
class Calls:
    """The calls of one queue. A message's number is its sequence number and the end of its key."""

    queue: str = "q"
    group: str | None = None
    rows: list[Row] = field(default_factory=list)

    def _message(self, key: str, **fields: Any) -> Row:
        known = {"group": self.group, "sequence": None}
        if self.group is not None:
            known["sequence"] = str(100 + int(key))
        return message(key, **(known | fields))

    def send(self, key: str, at: float, **fields: Any) -> "Calls":
        own = {name: fields.pop(name) for name in ("message_id", "sequence") if name in fields}
        sent = self._message(key, **own)
        self.rows.append(
            row("SendMessage", self.queue, at, role="producer", messages=[sent], **fields)
        )
        return self

    def send_unknown(self, key: str, at: float, **fields: Any) -> "Calls":
        """Nobody knows what came of it."""
        sent = self._message(key, message_id=None, sequence=None, outcome="unknown")
        unknown = {"outcome": "unknown", "status": 0, "role": "producer", "messages": [sent]}
        self.rows.append(row("SendMessage", self.queue, at, **unknown, **fields))
        return self

    def send_batch(self, keys: Sequence[str], at: float, **own: Sequence[str]) -> "Calls":
        sent = [
            self._message(key, **{name: values[index] for name, values in own.items()})
            for index, key in enumerate(keys)
        ]
        self.rows.append(row("SendMessageBatch", self.queue, at, role="producer", messages=sent))
        return self

    def receive(self, at: float, *keys: str, **fields: Any) -> "Calls":
        names = ("message_id", "sequence", "group", "receipt")
        own = {name: fields.pop(name) for name in names if name in fields}
        delivered = [self._message(key, **{"receipt": f"{key}@{at}"} | own) for key in keys]
        self.rows.append(row("ReceiveMessage", self.queue, at, messages=delivered, **fields))
        return self

    def delete(self, key: str, at: float, *, of: float, **fields: Any) -> "Calls":
        """By the receipt of the receive at `of`."""
        return self._use("DeleteMessage", key, at, of, **fields)

    def extend(self, key: str, at: float, *, of: float, to: int, **fields: Any) -> "Calls":
        return self._use("ChangeMessageVisibility", key, at, of, visibility=to, **fields)

    def life(self, key: str, at: float) -> "Calls":
        """Sent, received and deleted within half a second."""
        self.send(key, at).receive(at + 0.2, key)
        return self.delete(key, at + 0.3, of=at + 0.2)

    def _use(self, action: str, key: str, at: float, of: float, **fields: Any) -> "Calls":
        outcome = fields.get("outcome", "ok")
        message_id = fields.pop("message_id", f"m{key}")
        used = message(key, receipt=f"{key}@{of}", outcome=outcome, message_id=message_id)
        self.rows.append(row(action, self.queue, at, messages=[used], **fields))
        return self
