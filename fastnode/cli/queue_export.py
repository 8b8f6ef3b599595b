"""`fastnode queue export`: queues and messages as JSON lines, from a node by looking (nothing is
received), or from anything that speaks SQS by receiving.
"""

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from math import ceil
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import urlencode

from fastnode.cli.export_lines import (
    FORMAT,
    ExportedMessage,
    ExportedQueue,
    ExportEnd,
    ExportHead,
    Line,
    dead_letters_first,
    encode_line,
    settable,
)
from fastnode.cli.node_client import AdminClient, Refusal
from fastnode.cli.queues import Queues, name_of
from fastnode.cli.terminal import Progress, as_json
from fastnode.clock import NS_PER_MS, SystemClock
from fastnode.config import DELAY_SECONDS_MAX, MESSAGE_BYTES_MAX
from fastnode.errors import StartError, UsageError

_PAGE: Final = 100
# Whoever is in flight or delayed now may be visible later: these are passed over then.
_STATES: Final = ("in_flight", "delayed", "visible")
_EMPTY_RECEIVES: Final = 3
_WAIT_SECONDS: Final = 1
_RECEIVED_MAX: Final = 120_000
_BATCH: Final = 10


def export(queues: Queues, given: argparse.Namespace) -> str:
    _check(given)
    chosen = [queues.url(name) for name in given.queue] or list(queues.urls())
    exported = dead_letters_first(_described(queues, url) for url in chosen)
    if given.receive and not given.consume:
        fifo = [queue.name for queue in exported if queue.name.endswith(".fifo")]
        if fifo:
            raise UsageError(
                f"{fifo[0]!r} gives the rest of a message group only when what came before is"
                " deleted: add --consume, or leave it out"
            )
    with ExitStack() as opened:
        out = _open(given, opened)
        count = _write_all(queues, given, exported, out)
    report = {"queues": len(exported), "messages": count, "consumed": bool(given.consume)}
    words = f"exported {len(exported):,} queues with {count:,} messages\n"
    if given.out is None:
        # stdout is taken.
        sys.stderr.write(as_json(report) if given.json else words)
        return ""
    return as_json(report) if given.json else words


def _check(given: argparse.Namespace) -> None:
    if given.consume and not given.receive:
        raise UsageError("--consume is for --receive: without it nothing is taken out")
    if given.consume and given.out is None:
        raise UsageError("--consume deletes what is written: name a file with --out")
    if not 1 <= given.visibility <= 43_200:
        raise UsageError("--visibility must be from 1 to 43200 seconds")


def _open(given: argparse.Namespace, opened: ExitStack) -> BinaryIO:
    if given.out is None:
        return sys.stdout.buffer
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        file = os.fdopen(os.open(Path(given.out), flags, 0o600), "wb")
    except FileExistsError:
        raise UsageError(f"{given.out} exists: name a new file with --out") from None
    except OSError as error:
        raise StartError(f"{given.out}: {error.strerror}") from error
    return opened.enter_context(file)


def _write_all(
    queues: Queues, given: argparse.Namespace, exported: Sequence[ExportedQueue], out: BinaryIO
) -> int:
    def put(line: Line) -> None:
        try:
            out.write(encode_line(line))
        except BrokenPipeError:
            raise
        except OSError as error:
            raise StartError(f"{given.out}: {error.strerror}") from error

    put(ExportHead(FORMAT, queues.client.target.endpoint, SystemClock().wall_ns() // NS_PER_MS))
    for queue in exported:
        put(queue)
    count, progress = 0, Progress("messages")
    try:
        for queue in exported:
            source = (
                _received(queues, queue, given, out) if given.receive else _peeked(queues, queue)
            )
            for message in source:
                put(message)
                count += 1
                if count % _PAGE == 0:
                    progress.show(count, 0)
    finally:
        progress.end()
    put(ExportEnd(len(exported), count))
    _sync(out)
    return count


def _messages(
    queues: Queues, queue: ExportedQueue, given: argparse.Namespace, out: BinaryIO
) -> Iterator[ExportedMessage]:
    return _received(queues, queue, given, out) if given.receive else _peeked(queues, queue)


def _sync(out: BinaryIO) -> None:
    out.flush()
    if out is not sys.stdout.buffer:
        os.fsync(out.fileno())


def _described(queues: Queues, url: str) -> ExportedQueue:
    attributes = queues.attributes(url)
    try:
        tags = queues.client.call("ListQueueTags", QueueUrl=url).get("Tags", {})
    except Refusal:
        # Not all that speaks SQS knows tags.
        tags = {}
    return ExportedQueue(name_of(url), attributes["QueueArn"], settable(attributes), tags)


# --- by looking -----------------------------------------------------------------------------------


def _peeked(queues: Queues, queue: ExportedQueue) -> Iterator[ExportedMessage]:
    _, _, _, region, account, name = queue.arn.split(":")
    path = f"/api/v1/queues/{account}/{region}/{name}/messages"
    now_ms = SystemClock().wall_ns() // NS_PER_MS
    seen: set[str] = set()
    order, target = _Order(queue), queues.client.target
    with closing(AdminClient((target.admin, target.ca))) as admin:
        for state in _STATES:
            for row in _rows(admin, path, state):
                if row["message_id"] in seen:
                    continue
                if state != _STATES[-1]:
                    seen.add(row["message_id"])
                order.check(row)
                yield _of_row(queue, row, now_ms if state == "delayed" else None)


def _rows(admin: AdminClient, path: str, state: str) -> Iterator[dict[str, Any]]:
    wanted: dict[str, object] = {"state": state, "limit": _PAGE, "details": "true"}
    wanted["body_max_bytes"] = MESSAGE_BYTES_MAX
    while True:
        page = admin.ask("GET", f"{path}?{urlencode(wanted)}")
        yield from page["messages"]
        if not page.get("cursor"):
            return
        wanted["cursor"] = page["cursor"]


class _Order:
    """Messages of a group of a FIFO queue must come out in their order."""

    def __init__(self, queue: ExportedQueue) -> None:
        self._queue = queue
        self._last: dict[str, str] = {}

    def check(self, row: dict[str, Any]) -> None:
        sequence = row["details"].get("SequenceNumber")
        if sequence is None:
            return
        group = row["message_group_id"]
        if sequence < self._last.get(group, ""):
            raise StartError(
                f"messages of group {group!r} of {self._queue.name!r} are in flight out of their"
                " order: export again when nothing is in flight"
            )
        self._last[group] = sequence


def _of_row(queue: ExportedQueue, row: dict[str, Any], now_ms: int | None) -> ExportedMessage:
    details, delay = row["details"], 0
    if now_ms is not None and not queue.name.endswith(".fifo"):
        delay = min(ceil(max(row.get("visible_at_ms", 0) - now_ms, 0) / 1_000), DELAY_SECONDS_MAX)
    return ExportedMessage(
        queue=queue.name,
        body=row["body"],
        message_id=row["message_id"],
        sent_ms=row["sent_ms"],
        attributes=details.get("MessageAttributes", {}),
        group_id=row.get("message_group_id"),
        deduplication_id=details.get("MessageDeduplicationId"),
        trace_header=details.get("TraceHeader"),
        delay_seconds=delay,
    )


# --- by receiving ---------------------------------------------------------------------------------


def _received(
    queues: Queues, queue: ExportedQueue, given: argparse.Namespace, out: BinaryIO
) -> Iterator[ExportedMessage]:
    """Until several receives in a row find nothing. What is not consumed is given back."""
    url, handles, empty = queues.url(queue.name), list[str](), 0
    try:
        while empty < _EMPTY_RECEIVES:
            rows = _receive(queues, url, given.visibility)
            empty = 0 if rows else empty + 1
            for row in rows:
                yield _of_received(queue, row)
            if rows and given.consume:
                # Only what is on disk may go.
                _sync(out)
                _delete(queues, url, rows)
            else:
                handles += [row["ReceiptHandle"] for row in rows]
            if len(handles) >= _RECEIVED_MAX:
                raise StartError(
                    f"{queue.name!r} has more messages than may be in flight: add --consume"
                )
    finally:
        _give_back(queues, url, handles)


def _receive(queues: Queues, url: str, visibility: int) -> list[dict[str, Any]]:
    answer = queues.client.call(
        "ReceiveMessage",
        QueueUrl=url,
        MaxNumberOfMessages=_BATCH,
        VisibilityTimeout=visibility,
        WaitTimeSeconds=_WAIT_SECONDS,
        MessageAttributeNames=["All"],
        AttributeNames=["All"],
    )
    found: list[dict[str, Any]] = answer.get("Messages") or []
    return found


def _of_received(queue: ExportedQueue, row: dict[str, Any]) -> ExportedMessage:
    system = row.get("Attributes", {})
    return ExportedMessage(
        queue=queue.name,
        body=row["Body"],
        message_id=row["MessageId"],
        sent_ms=int(system.get("SentTimestamp", 0)),
        attributes=row.get("MessageAttributes", {}),
        group_id=system.get("MessageGroupId"),
        deduplication_id=system.get("MessageDeduplicationId"),
        trace_header=system.get("AWSTraceHeader"),
    )


def _delete(queues: Queues, url: str, rows: Sequence[dict[str, Any]]) -> None:
    entries = [
        {"Id": str(at), "ReceiptHandle": row["ReceiptHandle"]} for at, row in enumerate(rows)
    ]
    answer = queues.client.call("DeleteMessageBatch", QueueUrl=url, Entries=entries)
    if failed := answer.get("Failed"):
        reason = failed[0].get("Message") or failed[0].get("Code")
        raise StartError(
            f"{len(failed)} messages are written and could not be deleted, so they are in both"
            f" places: {reason}"
        )


def _give_back(queues: Queues, url: str, handles: Sequence[str]) -> None:
    for some in _batches(handles):
        entries = [
            {"Id": str(at), "ReceiptHandle": handle, "VisibilityTimeout": 0}
            for at, handle in enumerate(some)
        ]
        queues.client.call("ChangeMessageVisibilityBatch", QueueUrl=url, Entries=entries)


def _batches(handles: Sequence[str]) -> Iterable[Sequence[str]]:
    return (handles[at : at + _BATCH] for at in range(0, len(handles), _BATCH))
