"""`fastnode queue import`: what `queue export` wrote, into anything that speaks SQS.

A queue that exists as it is in the file is used, so the command can be repeated. Messages of FIFO
queues keep their deduplication ids: within five minutes a repeated one is known. Messages of others
are sent again; whoever goes on after a failure names the line with --from-line.
"""

import argparse
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Final

from fastnode.cli.export_lines import (
    LINE_BYTES_MAX,
    OUR_OWN,
    ExportedMessage,
    ExportedQueue,
    Line,
    afterwards,
    at_creation,
    checked_lines,
    entry_of,
    size_of,
)
from fastnode.cli.node_client import Invocation, Refusal, Unreachable
from fastnode.cli.queues import Queues
from fastnode.cli.terminal import Progress, as_json
from fastnode.config import BATCH_ENTRIES_MAX, DEDUPLICATION_MS
from fastnode.errors import FastnodeError, StartError, UsageError

# What every server takes in one call, older ones too; a larger message goes alone.
_BATCH_BYTES_MAX: Final = 262_144
_ATTEMPTS_MAX: Final = 6
_PAUSE_SECONDS: Final = 0.25
_DEDUP_SECONDS: Final = 2 * DEDUPLICATION_MS / 1_000
_DEDUP_CHARACTERS_MAX: Final = 128
_THROTTLED: Final = frozenset({"RequestThrottled", "ThrottlingException", "OverLimit"})


def import_(queues: Queues, given: argparse.Namespace) -> str:
    with ExitStack() as opened:
        file = _open(given.file, opened)
        if given.file is not None:
            # All of it is looked at before anything is done.
            for _ in checked_lines(_lines(file), is_partial=given.partial):
                pass
            file.seek(0)
        importing = _Import(queues, given)
        for number, line in enumerate(checked_lines(_lines(file), is_partial=given.partial), 1):
            importing.take(number, line)
        importing.finish()
    report = importing.report()
    words = f"imported {report['queues']:,} queues with {report['messages']:,} messages"
    if report["renamed"]:
        words += f"; {report['renamed']:,} of them under new deduplication ids"
    return as_json(report) if given.json else words + "\n"


def _open(name: str | None, opened: ExitStack) -> BinaryIO:
    if name is None:
        return sys.stdin.buffer
    try:
        return opened.enter_context(Path(name).open("rb"))
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from error


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    number = 0
    while text := file.readline(LINE_BYTES_MAX + 1):
        number += 1
        yield number, text


class _Import:
    def __init__(self, queues: Queues, given: argparse.Namespace) -> None:
        self._queues = queues
        self._given = given
        self._declared: list[ExportedQueue] = []
        self._urls: dict[str, str] = {}
        self._are_set = False
        self._batch: list[tuple[int, ExportedMessage, str | None]] = []
        self._batch_bytes = 0
        self._sent = self._renamed = self._sent_line = 0
        self._recent = _RecentIds()
        self._progress = Progress("messages")

    def report(self) -> dict[str, int]:
        return {
            "queues": len(self._declared),
            "messages": self._sent,
            "renamed": self._renamed,
        }

    def take(self, number: int, line: Line) -> None:
        if isinstance(line, ExportedQueue):
            self._create(line)
        elif isinstance(line, ExportedMessage):
            self._link_queues()
            if number >= self._given.from_line and not self._given.queues_only:
                self._add(number, line)

    def finish(self) -> None:
        self._link_queues()
        self._flush()
        self._progress.end()

    # --- queues --------------------------------------------------------------------------------

    def _create(self, queue: ExportedQueue) -> None:
        try:
            self._urls[queue.name] = self._created(queue)
        except Refusal as error:
            if error.code != "QueueNameExists" and "AlreadyExists" not in error.code:
                raise StartError(f"queue {queue.name!r}: {error}") from error
            if not self._given.keep:
                raise StartError(
                    f"queue {queue.name!r} exists and is another: {error}: add --keep to send the"
                    " messages there all the same"
                ) from error
            self._urls[queue.name] = self._queues.url(queue.name)
        self._declared.append(queue)

    def _created(self, queue: ExportedQueue) -> str:
        call, tags = self._queues.client.call, {"tags": queue.tags} if queue.tags else {}
        wanted = at_creation(queue, is_ours=True)
        try:
            answer = call("CreateQueue", QueueName=queue.name, Attributes=wanted, **tags)
        except Refusal as error:
            ours = [name for name in wanted if OUR_OWN.fullmatch(name)]
            if error.code != "InvalidAttributeName" or not ours:
                raise
            sys.stderr.write(f"fastnode: {queue.name}: {', '.join(ours)} are not known there\n")
            wanted = at_creation(queue, is_ours=False)
            answer = call("CreateQueue", QueueName=queue.name, Attributes=wanted, **tags)
        return str(answer["QueueUrl"])

    def _link_queues(self) -> None:
        """When all are there: who gets whose dead letters, and who may do what."""
        if self._are_set or self._given.no_policies:
            return
        self._are_set = True
        arns = {queue.arn: self._queues.arn(queue.name) for queue in self._declared}
        for queue in self._declared:
            wanted = afterwards(queue, arns)
            if wanted:
                self._set(queue, wanted)

    def _set(self, queue: ExportedQueue, wanted: dict[str, str]) -> None:
        url = self._urls[queue.name]
        try:
            self._queues.client.call("SetQueueAttributes", QueueUrl=url, Attributes=wanted)
        except Refusal as error:
            names = ", ".join(wanted)
            raise StartError(
                f"queue {queue.name!r}: {names}: {error}: correct it in the file, or leave policies"
                " out with --no-policies"
            ) from error

    # --- messages ------------------------------------------------------------------------------

    def _add(self, number: int, message: ExportedMessage) -> None:
        size = size_of(message)
        is_full = len(self._batch) == BATCH_ENTRIES_MAX
        is_full = is_full or self._batch_bytes + size > _BATCH_BYTES_MAX
        if self._batch and (is_full or not self._fits(message)):
            self._flush()
        self._batch.append((number, message, self._deduplication_id(message)))
        self._batch_bytes += size

    def _fits(self, message: ExportedMessage) -> bool:
        """One queue a batch; and one message of a group, or one that has to be sent again would
        come behind those that followed it.
        """
        if message.queue != self._batch[0][1].queue:
            return False
        if not message.queue.endswith(".fifo"):
            return True
        return all(other.group_id != message.group_id for _, other, _ in self._batch)

    def _deduplication_id(self, message: ExportedMessage) -> str | None:
        """As it was, unless another message of these minutes has it: these were further apart when
        they were sent, and would become one.
        """
        known = message.deduplication_id
        if known is None or not message.queue.endswith(".fifo"):
            return None
        if not self._recent.repeats((message.queue, known), message.message_id):
            return known
        self._renamed += 1
        return f"{known[: _DEDUP_CHARACTERS_MAX - 37]}-{message.message_id}"

    def _flush(self) -> None:
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        invocation = self._queues.client.invocation()
        for attempt in range(1, _ATTEMPTS_MAX + 1):
            if not batch:
                return
            try:
                batch = self._send(batch, invocation)
                # What is left of it is another call.
                invocation = self._queues.client.invocation()
            except (Refusal, Unreachable) as error:
                is_final = isinstance(error, Refusal) and error.code not in _THROTTLED
                if is_final or attempt == _ATTEMPTS_MAX:
                    raise self._stopped(batch[0][0], str(error)) from error
            if batch:
                time.sleep(_PAUSE_SECONDS * 2**attempt)
        if batch:
            raise self._stopped(batch[0][0], "the server does not take it")

    def _send(
        self, batch: list[tuple[int, ExportedMessage, str | None]], invocation: Invocation
    ) -> list[tuple[int, ExportedMessage, str | None]]:
        """What is to be sent again."""
        entries = [
            {"Id": str(number), **entry_of(message, known)} for number, message, known in batch
        ]
        url = self._urls[batch[0][1].queue]
        answer = self._queues.client.attempt(
            invocation, "SendMessageBatch", QueueUrl=url, Entries=entries
        )
        self._sent += len(answer.get("Successful", ()))
        self._progress.show(self._sent, 0)
        failed = {int(one["Id"]): one for one in answer.get("Failed") or ()}
        for number, one in failed.items():
            if one.get("SenderFault"):
                raise self._stopped(number, str(one.get("Message") or one.get("Code")))
        return [one for one in batch if one[0] in failed]

    def _stopped(self, number: int, reason: str) -> FastnodeError:
        self._progress.end()
        return StartError(
            f"{self._sent:,} messages were imported, then line {number} was not: {reason}: go on"
            f" with --from-line {number}; messages of that batch may be doubled"
        )


class _RecentIds:
    """Deduplication ids that were sent a while ago at most, each with the message that has it."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, str], str] = {}
        self._ages: deque[tuple[float, tuple[str, str]]] = deque()

    def repeats(self, key: tuple[str, str], message_id: str) -> bool:
        now = time.monotonic()
        while self._ages and self._ages[0][0] < now - _DEDUP_SECONDS:
            self._owners.pop(self._ages.popleft()[1], None)
        owner = self._owners.get(key)
        if owner is None:
            self._owners[key] = message_id
            self._ages.append((now, key))
        return owner is not None and owner != message_id
