"""What the access log says of a request: read from the request and its answer's status. Sans-IO.

Never a body, an attribute of a message or a key: sizes, queues and message groups, so that the load
pipeline can send the like of it to a test cluster. Requests are decoded once more for this, by the
codecs of the router; who writes no log pays nothing.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from fastnode.http.codec import Codec, Operation
from fastnode.http.http1 import Request
from fastnode.http.json_codec import JsonCodec, is_json
from fastnode.http.query_codec import QueryCodec
from fastnode.queue.errors import SqsError

UNKNOWN: Final = ""


class LoggedMessage(Struct, frozen=True, omit_defaults=True):
    size: int  # bytes of the body
    group: str | None = None
    delay: int | None = None  # s


class AccessRow(Struct, frozen=True, omit_defaults=True):
    """One line. What does not concern the action is left out."""

    time_us: int  # when the request was complete, since the epoch
    duration_us: int
    action: str  # empty: no action that exists, or nothing that can be read
    queue: str
    status: int
    messages: list[LoggedMessage] = []
    # Of receives only.
    max_messages: int | None = None
    wait: int | None = None  # s
    visibility: int | None = None  # s


class RowReader:
    def __init__(self, operations: Mapping[str, Operation]) -> None:
        self._json = JsonCodec(operations)
        self._query = QueryCodec(operations)

    def row(self, request: Request, status: int, time_us: int, duration_us: int) -> AccessRow:
        codec: Codec = self._json if is_json(request) else self._query
        try:
            operation = codec.operation_of(request)
            decoded: Any = codec.decode(operation, request)
        except SqsError:
            return AccessRow(time_us, duration_us, UNKNOWN, UNKNOWN, status)
        return AccessRow(
            time_us,
            duration_us,
            operation.name,
            _queue(decoded),
            status,
            _messages(decoded),
            getattr(decoded, "max_number_of_messages", None),
            getattr(decoded, "wait_time_seconds", None),
            _visibility(decoded),
        )


encode_row: Final = msgspec.json.Encoder().encode


def _queue(decoded: Any) -> str:
    """By its name: an address says how the client reached the node, which is nobody's business."""
    url = getattr(decoded, "queue_url", None) or ""
    return url.rpartition("/")[2] or getattr(decoded, "queue_name", None) or UNKNOWN


def _messages(decoded: Any) -> list[LoggedMessage]:
    entries = getattr(decoded, "entries", None) or [decoded]
    return [
        LoggedMessage(len(body.encode(errors="replace")), entry.message_group_id, delay)
        for entry in entries
        if (body := getattr(entry, "message_body", None)) is not None
        for delay in (entry.delay_seconds,)
    ]


def _visibility(decoded: Any) -> int | None:
    is_receive = hasattr(decoded, "max_number_of_messages")
    return decoded.visibility_timeout if is_receive else None
