"""What clients did, as a trace and a history of the load pipeline: Parquet that `spark_load verify`
reads. Only what `tests/cluster/history.py` records is known, so an attempt is a call.
"""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import parquet

from spark_load.headers import write_history_header, write_trace_header
from spark_load.schema import (
    CALLS,
    OPERATIONS,
    Consumers,
    FaultMark,
    HistoryHeader,
    Queue,
    TraceHeader,
)
from spark_load.tables import CALLS_ARROW, OPERATIONS_ARROW
from tests.cluster.history import Deleted, Drained, Event, Received, Sent
from tests.cluster.workload import ATTRIBUTES

SECOND_US: Final = 1_000_000
COUNTERS: Final = ("", "NotVisible", "Delayed")
TRACE: Final = "trace"
HISTORY: Final = "history"

Row = dict[str, Any]


class Recording:
    """`epoch` is what the wall clock showed when the monotonic one was zero."""

    def __init__(self, seed: int, events: Sequence[Event], epoch: float) -> None:
        self._trace_id = f"{seed & 0xFFFF_FFFF:08x}"
        self._seed = seed
        self._events = events
        self._epoch = epoch
        self._keys = {
            message.message_id: message.body
            for event in events
            if isinstance(event, Received)
            for message in event.messages
        }

    def write(self, directory: Path, faults: Iterable[tuple[float, str]]) -> None:
        """Faults have the monotonic time of their beginning."""
        calls = [
            self._call(str(number), event)
            for number, event in enumerate(self._events)
            if not isinstance(event, Drained)
        ]
        marks = tuple(FaultMark(self._us(at), label) for at, label in faults)
        _write(directory / TRACE / OPERATIONS, [], OPERATIONS_ARROW)
        _write(directory / HISTORY / CALLS, calls, CALLS_ARROW)
        times = [call["started_us"] for call in calls] + [call["ended_us"] for call in calls]
        write_trace_header(directory / TRACE, self._trace(max(times) - min(times)))
        write_history_header(
            directory / HISTORY,
            HistoryHeader(
                trace_id=self._trace_id,
                began_us=min(times),
                ended_us=max(times),
                endpoints=(),
                is_complete=True,
                counters=self._counters(),
                faults=marks,
            ),
        )

    def _trace(self, duration_us: int) -> TraceHeader:
        sent = {event.body for event in self._events if isinstance(event, Sent)}
        consumers = Consumers()
        return TraceHeader(
            trace_id=self._trace_id,
            workload="chaos",
            digest="",
            seed=self._seed,
            operations=len(sent),
            messages=len(sent),
            duration_us=duration_us,
            queues=tuple(
                Queue(name, attributes, consumers=consumers)
                for name, attributes in ATTRIBUTES.items()
            ),
        )

    def _counters(self) -> dict[str, dict[str, int]]:
        names = [f"ApproximateNumberOfMessages{which}" for which in COUNTERS]
        drained = [event for event in self._events if isinstance(event, Drained)]
        return {event.queue: dict(zip(names, event.after, strict=True)) for event in drained}

    def _us(self, at: float) -> int:
        return round((at + self._epoch) * SECOND_US)

    # --- calls ----------------------------------------------------------------------------------

    def _call(self, call: str, event: Sent | Received | Deleted) -> Row:
        if isinstance(event, Sent):
            is_ok = bool(event.message_id)
            sent = _message(event.body, event.message_id, is_ok)
            sent |= {"sequence": event.sequence or None, "group": event.group or None}
            return self._row(call, "SendMessage", event, [sent], is_ok)
        if isinstance(event, Received):
            received = [
                _message(one.body, one.message_id, True)
                | {"sequence": one.sequence or None, "group": one.group or None}
                | {"receipt": _receipt(one.message_id, event.began)}
                for one in event.messages
            ]
            row = self._row(call, "ReceiveMessage", event, received, True)
            return row | {"visibility": round(event.lease_seconds)}
        is_ok = event.is_acknowledged
        deleted = _message(self._keys.get(event.message_id, ""), event.message_id, is_ok)
        deleted |= {"receipt": _receipt(event.message_id, event.received)}
        return self._row(call, "DeleteMessage", event, [deleted], is_ok)

    def _row(
        self,
        call: str,
        action: str,
        event: Sent | Received | Deleted,
        messages: list[Row],
        is_ok: bool,
    ) -> Row:
        began_us = self._us(event.began)
        return dict.fromkeys(CALLS_ARROW.names) | {
            "call": call,
            "attempt": 0,
            "lane": 0,
            "role": "producer" if action == "SendMessage" else "consumer",
            "action": action,
            "queue": event.queue,
            "endpoint": "",
            "intended_us": began_us,
            "started_us": began_us,
            "ended_us": self._us(event.ended),
            "outcome": "ok" if is_ok else "unknown",
            "status": 200 if is_ok else 0,
            "messages": messages,
        }


def _message(key: str, message_id: str, is_ok: bool) -> Row:
    names = ("receipt", "sequence", "group", "receives")
    return dict.fromkeys(names) | {
        "key": key,
        "message_id": message_id or None,
        "outcome": "ok" if is_ok else "unknown",
    }


def _receipt(message_id: str, received: float) -> str:
    return hashlib.blake2b(f"{message_id}@{received}".encode(), digest_size=8).hexdigest()


def _write(directory: Path, rows: list[Row], schema: pa.Schema) -> None:
    directory.mkdir(parents=True)
    parquet.write_table(pa.Table.from_pylist(rows, schema), directory / "part-0.parquet")
