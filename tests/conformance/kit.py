"""What cases say again and again: make a queue, send, receive, count, wait. And tables of refusals.

Everything goes through a `Client`, so it holds for both protocols.
"""

import itertools
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from tests.conformance.client import ACCOUNT, REGION, Client
from tests.conformance.contract import PROTOCOLS, covers
from tests.conformance.kinds import Kind

Message = dict[str, Any]
_NUMBERS: Final = itertools.count(1)
_WITHOUT_QUEUE: Final = frozenset(
    {"CreateQueue", "GetQueueUrl", "ListQueues", "StartMessageMoveTask", "ListMessageMoveTasks"}
    | {"CancelMessageMoveTask"}
)
DEADLINE_SECONDS: Final = 60.0


# --- queues and messages ------------------------------------------------------------------------


def new_name() -> str:
    """A queue name that nothing else in the session has."""
    return f"case-{next(_NUMBERS)}-queue"


def new_queue(sqs: Client, **attributes: str) -> str:
    """The URL of a new queue with these attributes."""
    members = {"Attributes": attributes} if attributes else {}
    url: str = sqs.call("CreateQueue", QueueName=new_name(), **members)["QueueUrl"]
    return url


def name_of(queue: str) -> str:
    return queue.rsplit("/", 1)[1]


def arn_of(queue: str, region: str = REGION) -> str:
    return f"arn:aws:sqs:{region}:{queue.split('/')[-2]}:{name_of(queue)}"


def send(sqs: Client, queue: str, body: str = "body", **members: Any) -> dict[str, Any]:
    return sqs.call("SendMessage", QueueUrl=queue, MessageBody=body, **members)


def receive(sqs: Client, queue: str, **members: Any) -> list[Message]:
    asked = {"MaxNumberOfMessages": 10} | members
    messages: list[Message] = sqs.call("ReceiveMessage", QueueUrl=queue, **asked).get(
        "Messages", []
    )
    return messages


def receive_one(sqs: Client, queue: str, **members: Any) -> Message:
    messages = receive(sqs, queue, **{"MaxNumberOfMessages": 1} | members)
    assert len(messages) == 1, messages
    return messages[0]


def sent_and_received(sqs: Client, queue: str, **members: Any) -> Message:
    """A message in flight."""
    send(sqs, queue)
    return receive_one(sqs, queue, **members)


def delete(sqs: Client, queue: str, message: Message) -> None:
    sqs.call("DeleteMessage", QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])


def change(sqs: Client, queue: str, message: Message, seconds: int) -> None:
    sqs.call(
        "ChangeMessageVisibility",
        QueueUrl=queue,
        ReceiptHandle=message["ReceiptHandle"],
        VisibilityTimeout=seconds,
    )


def bodies(messages: Iterable[Message]) -> list[str]:
    return [message["Body"] for message in messages]


def attributes(sqs: Client, queue: str, *names: str) -> dict[str, str]:
    answer = sqs.call("GetQueueAttributes", QueueUrl=queue, AttributeNames=names or ["All"])
    found: dict[str, str] = answer.get("Attributes", {})
    return found


def set_attributes(sqs: Client, queue: str, **values: str) -> None:
    sqs.call("SetQueueAttributes", QueueUrl=queue, Attributes=values)


def counts(sqs: Client, queue: str) -> tuple[int, int, int]:
    """Visible, not visible, delayed."""
    found = attributes(sqs, queue)
    visible, hidden, delayed = (
        int(found[f"ApproximateNumberOfMessages{name}"]) for name in ("", "NotVisible", "Delayed")
    )
    return visible, hidden, delayed


def text_attribute(value: str, data_type: str = "String") -> dict[str, str]:
    return {"DataType": data_type, "StringValue": value}


def binary_attribute(base64_text: str, data_type: str = "Binary") -> dict[str, str]:
    return {"DataType": data_type, "BinaryValue": base64_text}


def redrive_policy(dead_letters: str, count: int | str = 1) -> str:
    return json.dumps({"deadLetterTargetArn": arn_of(dead_letters), "maxReceiveCount": count})


def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition, not for a time."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.02)


# --- tables of refusals -------------------------------------------------------------------------


@dataclass(frozen=True)
class Refusal:
    """One call that must be refused. A call that needs a queue gets a new one; `{name}`, `{url}`
    and `{arn}` in the text stand for it.
    """

    rows: str
    action: str
    members: Mapping[str, Any]
    kind: Kind
    text: str | None
    only: str = ""
    queue: Mapping[str, str] = field(default_factory=dict)

    def check(self, sqs: Client) -> None:
        if self.action in _WITHOUT_QUEUE or "QueueUrl" in self.members:
            sqs.refused(self.action, **self.members).assert_is(self.kind, self.text)
            return
        url = new_queue(sqs, **self.queue)
        text = self.text and (
            self.text.replace("{name}", name_of(url)).replace("{url}", url)
        ).replace("{arn}", arn_of(url))
        sqs.refused(self.action, QueueUrl=url, **self.members).assert_is(self.kind, text)


def each_refusal(table: Iterable[Refusal]) -> pytest.MarkDecorator:
    """Run every line of the table by its protocols."""
    return pytest.mark.parametrize(
        ("protocol", "refusal"),
        [
            pytest.param(
                protocol,
                line,
                id=f"{number}-{line.rows.split()[0]}-{protocol}",
                marks=covers(*line.rows.split()),
            )
            for number, line in enumerate(table)
            for protocol in ([line.only] if line.only else PROTOCOLS)
        ],
    )


ABSENT_QUEUE: Final = f"http://localhost/{ACCOUNT}/no-such-queue"
