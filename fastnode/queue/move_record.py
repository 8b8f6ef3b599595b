"""What is stored of a message move task, and the handle that names it. Pure."""

import base64
import binascii
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fastnode.queue.errors import ERRORS, invalid_parameter

RUNNING: Final = "RUNNING"
COMPLETED: Final = "COMPLETED"
CANCELLING: Final = "CANCELLING"
CANCELLED: Final = "CANCELLED"
FAILED: Final = "FAILED"
ACTIVE: Final = frozenset({RUNNING, CANCELLING})

QUEUE_GONE: Final = ERRORS["QueueDoesNotExist"].query_code
NO_SOURCE: Final = "CouldNotDetermineMessageSource"
# AWS ends a task after its time too; what it calls the reason is not known.
TOO_LONG: Final = "TaskTimeLimitExceeded"
_VERSION: Final = b"\x01"
_HANDLE_BYTES_MAX: Final = 1_024


class MoveTask(Struct, frozen=True, array_like=True, gc=False):
    """`started_at` is its place in the source's log: it moves what was there before.

    A source with partitions has such a row for each of them too, in its own log: there `moved` and
    a failure are kept, and the queue's row says whether the task is to go on.
    """

    started_at: int
    task_id: str
    destination_arn: str | None
    rate: int | None
    status: str
    moved: int
    to_move: int
    failure_reason: str | None = None


class Handle(Struct, frozen=True):
    task_id: str = msgspec.field(name="taskId")
    source_arn: str = msgspec.field(name="sourceArn")


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(MoveTask)
_HANDLE_DECODER: Final = msgspec.json.Decoder(Handle)


def encode_task(task: MoveTask) -> bytes:
    return _VERSION + _ENCODER.encode(task)


def decode_task(stored: bytes) -> MoveTask:
    if stored[:1] != _VERSION:
        raise ValueError("a move task of an unknown version")
    return _DECODER.decode(memoryview(stored)[1:])


def refused_once(task: MoveTask, count: int) -> MoveTask:
    """The destination vanished before so many messages had arrived: they count as not moved."""
    return replace(task, status=FAILED, failure_reason=QUEUE_GONE, moved=max(task.moved - count, 0))


def combined(task: MoveTask, parts: Iterable[MoveTask]) -> MoveTask:
    """What a client sees of a task, if that is more than the queue's own row."""
    moved = task.moved
    for part in parts:
        moved += part.moved
        if part.status == FAILED and task.status != FAILED:
            task = replace(task, status=FAILED, failure_reason=part.failure_reason)
    return replace(task, moved=moved)


def encode_handle(task_id: str, source_arn: str) -> str:
    return base64.b64encode(msgspec.json.encode(Handle(task_id, source_arn))).decode()


def decode_handle(text: str) -> Handle:
    try:
        if len(text) > _HANDLE_BYTES_MAX:
            raise ValueError("longer than any handle")
        return _HANDLE_DECODER.decode(base64.b64decode(text.encode(), validate=True))
    except (binascii.Error, UnicodeError, ValueError):
        raise invalid_parameter("Value for parameter TaskHandle is invalid.") from None
