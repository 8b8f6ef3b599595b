"""Queues and messages as JSON lines: what `queue export` writes and `queue import` reads. Pure.

A line is an object with one member. The first is `export`, then all `queue`s, then `message`s, and
`end` with how many there were: a file without it was cut short. Names within are those of SQS.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from fastnode.errors import FastnodeError

FORMAT: Final = 1
# A message of 1 MiB, every character escaped, and what surrounds it.
LINE_BYTES_MAX: Final = 8 * 1_048_576
# What a queue has by itself, and what only we know.
READ_ONLY: Final = re.compile(r"QueueArn|Approximate\w+|CreatedTimestamp|LastModifiedTimestamp")
OUR_OWN: Final = re.compile(r"Throttle\w+|PartitionCount")
# What names other queues: set when all of them are there.
REDRIVE: Final = "RedrivePolicy"
ALLOW: Final = "RedriveAllowPolicy"
POLICY: Final = "Policy"


class BadLine(FastnodeError):
    """A file that is no export, or is damaged."""


class ExportHead(Struct, frozen=True, forbid_unknown_fields=True):
    format: int
    source: str
    began_ms: int


class ExportedQueue(Struct, frozen=True, forbid_unknown_fields=True):
    """`arn` is where it was: policies name it."""

    name: str
    arn: str
    attributes: dict[str, str] = {}
    tags: dict[str, str] = {}


class ExportedMessage(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`attributes` as SendMessage has them. What the queue gave it, `message_id` and `sent_ms`, is
    for people; a copy gets its own.
    """

    queue: str
    body: str
    message_id: str = ""
    sent_ms: int = 0
    attributes: dict[str, dict[str, str]] = {}
    group_id: str | None = None
    deduplication_id: str | None = None
    trace_header: str | None = None
    delay_seconds: int = 0


class ExportEnd(Struct, frozen=True, forbid_unknown_fields=True):
    queues: int
    messages: int


Line = ExportHead | ExportedQueue | ExportedMessage | ExportEnd
_KINDS: Final[dict[str, type[Line]]] = {
    "export": ExportHead,
    "queue": ExportedQueue,
    "message": ExportedMessage,
    "end": ExportEnd,
}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}


def encode_line(line: Line) -> bytes:
    # ASCII only, so that no editor or terminal on the way changes a body.
    value = json.dumps({_NAMES[type(line)]: msgspec.to_builtins(line)}, ensure_ascii=True)
    return value.encode() + b"\n"


def decode_line(text: bytes, number: int) -> Line:
    """`BadLine` says where."""
    if len(text) > LINE_BYTES_MAX or not text.endswith(b"\n"):
        raise BadLine(f"line {number} is cut short or longer than any message")
    try:
        # Not msgspec's parser: a body may hold what it takes for a broken surrogate.
        ((kind, value),) = json.loads(text).items()
        return msgspec.convert(value, _KINDS[kind])
    except (ValueError, AttributeError, KeyError, RecursionError, msgspec.ValidationError) as error:
        raise BadLine(f"line {number} is none of an export: {error}") from error


def checked_lines(lines: Iterable[tuple[int, bytes]], *, is_partial: bool) -> Iterator[Line]:
    """Each line in its turn; raises at the first that is wrong, and at the end if it is missing."""
    order = _Order()
    for number, text in lines:
        line = decode_line(text, number)
        if complaint := order.complaint_about(number, line):
            raise BadLine(complaint)
        yield line
    if order.last != "end" and not is_partial:
        raise BadLine(f"the file is cut short after line {order.number}: --partial takes it as is")


class _Order:
    """What came so far, and whether a line may come now."""

    def __init__(self) -> None:
        self.last = ""
        self.number = self._messages = 0
        self._names: set[str] = set()

    def complaint_about(self, number: int, line: Line) -> str | None:
        kind, before = _NAMES[type(line)], self.last
        self.last, self.number = kind, number
        if (number == 1) != (kind == "export"):
            return "the file is not an export: its first line does not say so"
        if before == "end":
            return f"line {number} comes after the end"
        if isinstance(line, ExportHead) and line.format != FORMAT:
            return f"the file is of export format {line.format}, this fastnode reads {FORMAT}"
        if isinstance(line, ExportedQueue):
            return self._add_queue(line, is_late=before == "message")
        if isinstance(line, ExportedMessage):
            self._messages += 1
            is_known = line.queue in self._names
            return None if is_known else f"line {number}: its queue {line.queue!r} is not there"
        if isinstance(line, ExportEnd) and line != ExportEnd(len(self._names), self._messages):
            return f"line {number} counts {line.messages} messages, there are {self._messages}"
        return None

    def _add_queue(self, queue: ExportedQueue, *, is_late: bool) -> str | None:
        if is_late or queue.name in self._names:
            return f"line {self.number}: queue {queue.name!r} comes twice, or after messages"
        self._names.add(queue.name)
        return None


# --- queues ---------------------------------------------------------------------------------------


def settable(attributes: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in attributes.items() if not READ_ONLY.fullmatch(name)}


def at_creation(queue: ExportedQueue, *, is_ours: bool) -> dict[str, str]:
    """What can be said before other queues are there."""
    return {
        name: value
        for name, value in queue.attributes.items()
        if name not in (REDRIVE, ALLOW, POLICY) and (is_ours or not OUR_OWN.fullmatch(name))
    }


def afterwards(queue: ExportedQueue, arns: Mapping[str, str]) -> dict[str, str]:
    """What names queues, with the new places of those that are in the file. `arns` are by the old
    ones.
    """
    found: dict[str, str] = {}
    for name in (REDRIVE, ALLOW, POLICY):
        if value := queue.attributes.get(name):
            found[name] = _moved_text(value, arns)
    return found


def _moved_text(text: str, arns: Mapping[str, str]) -> str:
    """As it was, letter by letter, where nothing has moved."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    moved = _moved(value, arns)
    return text if moved == value else json.dumps(moved, separators=(",", ":"), ensure_ascii=False)


def _moved(value: Any, arns: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return arns.get(value, value)
    if isinstance(value, list):
        return [_moved(one, arns) for one in value]
    if isinstance(value, dict):
        return {name: _moved(one, arns) for name, one in value.items()}
    return value


def dead_letters_first(queues: Iterable[ExportedQueue]) -> list[ExportedQueue]:
    """Each queue after the one that its dead letters go to, for readers that go line by line."""
    by_arn = {queue.arn: queue for queue in queues}
    placed: dict[str, ExportedQueue] = {}
    for queue in by_arn.values():
        chain: list[ExportedQueue] = []
        while queue.arn not in placed and queue not in chain:
            chain.append(queue)
            queue = by_arn.get(_target(queue), queue)
        for one in reversed(chain):
            placed.setdefault(one.arn, one)
    return list(placed.values())


def _target(queue: ExportedQueue) -> str:
    try:
        return str(json.loads(queue.attributes.get(REDRIVE, "{}")).get("deadLetterTargetArn", ""))
    except (ValueError, AttributeError):
        return ""


# --- messages -------------------------------------------------------------------------------------


def entry_of(message: ExportedMessage, deduplication_id: str | None) -> dict[str, object]:
    """As SendMessageBatch has it, without its Id."""
    entry: dict[str, object] = {"MessageBody": message.body}
    optional = {
        "MessageAttributes": message.attributes or None,
        "MessageGroupId": message.group_id,
        "MessageDeduplicationId": deduplication_id,
        "DelaySeconds": message.delay_seconds or None,
    }
    entry |= {name: value for name, value in optional.items() if value is not None}
    if message.trace_header is not None:
        header = {"DataType": "String", "StringValue": message.trace_header}
        entry["MessageSystemAttributes"] = {"AWSTraceHeader": header}
    return entry


def size_of(message: ExportedMessage) -> int:
    """As a batch counts it."""
    attributes = sum(
        len(name.encode()) + sum(len(text.encode()) for text in value.values())
        for name, value in message.attributes.items()
    )
    return len(message.body.encode()) + attributes
