"""`fastnode queue create|send|purge|redrive|rm`."""

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

from fastnode.cli.node_client import Refusal
from fastnode.cli.queues import Queues, name_of
from fastnode.cli.terminal import Progress, as_json, confirm
from fastnode.config import BATCH_ENTRIES_MAX, MESSAGE_BYTES_MAX
from fastnode.errors import StartError, UsageError

_RECEIVES_DEFAULT: Final = 5
_POLL_SECONDS: Final = 0.5
_RUNNING: Final = ("RUNNING", "CANCELLING")


def _done(given: argparse.Namespace, words: str, **values: object) -> str:
    return as_json(values) if given.json else words + "\n"


# --- create, purge, rm ----------------------------------------------------------------------------


def create(queues: Queues, given: argparse.Namespace) -> str:
    attributes = dict(given.attribute)
    if given.queue.endswith(".fifo"):
        attributes.setdefault("FifoQueue", "true")
    if given.dlq is not None:
        attributes["RedrivePolicy"] = json.dumps(
            {
                "deadLetterTargetArn": queues.arn(given.dlq),
                "maxReceiveCount": given.max_receives or _RECEIVES_DEFAULT,
            }
        )
    elif given.max_receives is not None:
        raise UsageError("--max-receives is for --dlq: name the dead-letter queue")
    wanted: dict[str, Any] = {"QueueName": given.queue, "Attributes": attributes}
    if given.tag:
        wanted["tags"] = dict(given.tag)
    url = queues.client.call("CreateQueue", **wanted)["QueueUrl"]
    return _done(given, url, name=given.queue, url=url)


def purge(queues: Queues, given: argparse.Namespace) -> str:
    url = queues.url(given.queue)
    depth = queues.depth(url)
    confirm(f"Purge {depth.name} and delete its {depth.total:,} messages?", is_confirmed=given.yes)
    queues.client.call("PurgeQueue", QueueUrl=url)
    return _done(given, f"purged {depth.name}", name=depth.name, messages=depth.total)


def remove(queues: Queues, given: argparse.Namespace) -> str:
    url = queues.url(given.queue)
    depth = queues.depth(url)
    confirm(f"Delete {depth.name} and its {depth.total:,} messages?", is_confirmed=given.yes)
    queues.client.call("DeleteQueue", QueueUrl=url)
    return _done(given, f"deleted {depth.name}", name=depth.name, messages=depth.total)


# --- send -----------------------------------------------------------------------------------------


def send(queues: Queues, given: argparse.Namespace) -> str:
    if given.lines == (given.body is not None):
        raise UsageError("give a BODY, - for all of stdin, or --lines for a message per line of it")
    url = queues.url(given.queue)
    if given.lines:
        return _send_lines(queues, url, given)
    body = _read_stdin() if given.body == "-" else given.body
    answer = queues.client.call("SendMessage", QueueUrl=url, **_message(given, body))
    return _done(given, answer["MessageId"], **answer)


def _message(given: argparse.Namespace, body: str) -> dict[str, object]:
    message: dict[str, object] = {"MessageBody": body}
    optional = {
        "MessageGroupId": given.group,
        "MessageDeduplicationId": given.dedup,
        "DelaySeconds": given.delay,
    }
    message |= {name: value for name, value in optional.items() if value is not None}
    if given.attribute:
        message["MessageAttributes"] = {
            name: {"DataType": "String", "StringValue": value} for name, value in given.attribute
        }
    return message


def _read_stdin() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise UsageError(f"stdin is not UTF-8 text: {error}") from None


def _send_lines(queues: Queues, url: str, given: argparse.Namespace) -> str:
    if given.dedup is not None:
        raise UsageError("--dedup would make all lines one message: leave it out with --lines")
    sent, progress = 0, Progress("messages")
    lines = _read_stdin().splitlines()
    for batch in batches(lines):
        entries = [
            {"Id": str(number), **_message(given, body)} for number, body in enumerate(batch)
        ]
        answer = queues.client.call("SendMessageBatch", QueueUrl=url, Entries=entries)
        sent += len(answer.get("Successful", ()))
        if failed := answer.get("Failed"):
            progress.end()
            reason = failed[0].get("Message") or failed[0].get("Code")
            raise StartError(f"{sent} messages were sent, then one was refused: {reason}")
        progress.show(sent, len(lines))
    progress.end()
    return _done(given, f"sent {sent:,} messages to {name_of(url)}", sent=sent)


def batches(lines: Iterable[str]) -> Iterator[list[str]]:
    """As many lines as one call takes, by their number and by their size. Empty lines are none."""
    batch: list[str] = []
    size = 0
    for line in filter(None, lines):
        length = len(line.encode())
        if batch and (len(batch) == BATCH_ENTRIES_MAX or size + length > MESSAGE_BYTES_MAX):
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += length
    if batch:
        yield batch


# --- redrive --------------------------------------------------------------------------------------


def redrive(queues: Queues, given: argparse.Namespace) -> str:
    arn = queues.arn(given.queue)
    if given.cancel:
        return _cancel(queues, arn, given)
    wanted: dict[str, object] = {"SourceArn": arn}
    if given.to is not None:
        wanted["DestinationArn"] = queues.arn(given.to)
    if given.rate is not None:
        wanted["MaxNumberOfMessagesPerSecond"] = given.rate
    handle = queues.client.call("StartMessageMoveTask", **wanted)["TaskHandle"]
    if given.no_wait:
        words = f"started; 'fastnode queue redrive {given.queue} --cancel' ends it"
        return _done(given, words, task_handle=handle)
    try:
        return _moved(given, _follow(queues, arn))
    except KeyboardInterrupt:
        raise StartError(
            f"no longer watched; the node goes on moving: end it with 'fastnode queue redrive"
            f" {given.queue} --cancel'"
        ) from None


def _tasks(queues: Queues, arn: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = queues.client.call(
        "ListMessageMoveTasks", SourceArn=arn, MaxResults=1
    ).get("Results", [])
    return found


def _follow(queues: Queues, arn: str) -> dict[str, Any]:
    """The task when it has ended."""
    progress = Progress("messages moved")
    try:
        while True:
            task = _tasks(queues, arn)[0]
            if task["Status"] not in _RUNNING:
                return task
            progress.show(
                task["ApproximateNumberOfMessagesMoved"],
                task.get("ApproximateNumberOfMessagesToMove", 0),
            )
            time.sleep(_POLL_SECONDS)
    finally:
        progress.end()


def _moved(given: argparse.Namespace, task: dict[str, Any]) -> str:
    count, status = task["ApproximateNumberOfMessagesMoved"], task["Status"]
    if status == "FAILED":
        reason = task.get("FailureReason", "no reason given")
        raise StartError(f"moved {count:,} messages, then failed: {reason}")
    ending = "" if status == "COMPLETED" else f", then it was {status.lower()}"
    return _done(given, f"moved {count:,} messages{ending}", moved=count, status=status)


def _cancel(queues: Queues, arn: str, given: argparse.Namespace) -> str:
    running = [task for task in _tasks(queues, arn) if task["Status"] == "RUNNING"]
    if not running:
        raise Refusal("NotRunning", f"no redrive of {given.queue} runs")
    answer = queues.client.call("CancelMessageMoveTask", TaskHandle=running[0]["TaskHandle"])
    count = answer["ApproximateNumberOfMessagesMoved"]
    return _done(given, f"cancelled; {count:,} messages were moved", moved=count)
