"""Bodies of SQS requests (JSON protocol) and the text of messages. Pure.

Bodies are written by hand where rates ask for it: everything in them that is not ASCII letters,
digits and dashes goes through `json.dumps`.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from spark_load.replay.operations import Operation, Outgoing

MESSAGE_BYTES_MAX: Final = 1_048_576
DEDUP_MAX: Final = 128
_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz0123456789"
_FILLER: Final = _ALPHABET * (MESSAGE_BYTES_MAX // len(_ALPHABET) + 1)
_COUNTERS: Final = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)


@dataclass(frozen=True)
class QueueTarget:
    """Where a queue of the trace is. `run` tells this run's deduplication ids from another's, since
    a cluster remembers them for five minutes.
    """

    name: str
    url: str
    run: str

    @cached_property
    def is_fifo(self) -> bool:
        return self.name.endswith(".fifo")

    @property
    def physical_name(self) -> str:
        """What the cluster calls it."""
        return self.url.rpartition("/")[2]

    @cached_property
    def quoted_url(self) -> str:
        return json.dumps(self.url)


class Held(NamedTuple):
    """A message that a consumer was given."""

    key: str | None
    message_id: str
    handle: str
    receipt: str
    sequence: str | None
    group: str | None
    receives: int | None


def message_text(key: str, size: int) -> str:
    """A body of `size` bytes that begins with the key; of the key alone if there is no room."""
    return f"{key} {_FILLER[: size - len(key) - 1]}" if size > len(key) + 1 else key


def operation_body(target: QueueTarget, operation: Operation) -> bytes:
    """The body of what a producer does."""
    return _BODIES[operation.action](target, operation).encode()


def _send_body(target: QueueTarget, operation: Operation) -> str:
    (message,) = operation.messages
    members = _message_members(target, operation.group, message)
    return f'{{"QueueUrl":{target.quoted_url},{members}}}'


def _batch_body(target: QueueTarget, operation: Operation) -> str:
    entries = ",".join(
        f'{{"Id":"{index}",{_message_members(target, operation.group, message)}}}'
        for index, message in enumerate(operation.messages)
    )
    return f'{{"QueueUrl":{target.quoted_url},"Entries":[{entries}]}}'


def _message_members(target: QueueTarget, group: str | None, message: Outgoing) -> str:
    members = f'"MessageBody":"{message_text(message.key, message.size)}"'
    if message.delay is not None and not target.is_fifo:
        members += f',"DelaySeconds":{message.delay}'
    if group is not None:
        members += f',"MessageGroupId":{json.dumps(group)}'
    if target.is_fifo:
        members += f',"MessageDeduplicationId":{json.dumps(_dedup(target, message))}'
    return members


def _dedup(target: QueueTarget, message: Outgoing) -> str:
    """Equal where the trace has equal ones, and never equal to another run's."""
    dedup = f"{message.dedup or message.key}-{target.run}"
    return dedup if len(dedup) <= DEDUP_MAX else hashlib.sha256(dedup.encode()).hexdigest()


def _look_body(target: QueueTarget, operation: Operation) -> str:
    return counters_body(target.url).decode()


def _url_body(target: QueueTarget, operation: Operation) -> str:
    return json.dumps({"QueueName": target.physical_name})


def _tags_body(target: QueueTarget, operation: Operation) -> str:
    return json.dumps({"QueueUrl": target.url})


def _list_body(target: QueueTarget, operation: Operation) -> str:
    return json.dumps({"QueueNamePrefix": target.physical_name, "MaxResults": 10})


_BODIES: Final = {
    "SendMessage": _send_body,
    "SendMessageBatch": _batch_body,
    "GetQueueAttributes": _look_body,
    "GetQueueUrl": _url_body,
    "ListQueueTags": _tags_body,
    "ListQueues": _list_body,
}


def receive_body(url: str, *, messages: int, wait_seconds: int, visibility: int) -> bytes:
    members = {
        "QueueUrl": url,
        "MaxNumberOfMessages": messages,
        "WaitTimeSeconds": wait_seconds,
        "VisibilityTimeout": visibility,
        "MessageSystemAttributeNames": [
            "ApproximateReceiveCount",
            "MessageGroupId",
            "SequenceNumber",
        ],
    }
    return json.dumps(members).encode()


def delete_body(url: str, held: Held) -> bytes:
    return json.dumps({"QueueUrl": url, "ReceiptHandle": held.handle}).encode()


def delete_batch_body(url: str, messages: Sequence[Held]) -> bytes:
    return _entries_body(url, ({"ReceiptHandle": held.handle} for held in messages))


def extend_body(url: str, held: Held, visibility: int) -> bytes:
    members = {"QueueUrl": url, "ReceiptHandle": held.handle, "VisibilityTimeout": visibility}
    return json.dumps(members).encode()


def counters_body(url: str) -> bytes:
    return json.dumps({"QueueUrl": url, "AttributeNames": _COUNTERS}).encode()


def _entries_body(url: str, entries: Iterable[Mapping[str, object]]) -> bytes:
    numbered = [{"Id": str(index), **entry} for index, entry in enumerate(entries)]
    return json.dumps({"QueueUrl": url, "Entries": numbered}).encode()
