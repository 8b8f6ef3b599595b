"""What cases about FIFO queues say again and again."""

import itertools
from typing import Any, Final

from tests.conformance.client import Client
from tests.conformance.kit import bodies, new_name, receive

# High throughput is a pair of attributes.
HIGH_THROUGHPUT: Final = {
    "DeduplicationScope": "messageGroup",
    "FifoThroughputLimit": "perMessageGroupId",
}
_NUMBERS: Final = itertools.count(1)


def new_fifo(sqs: Client, **attributes: str) -> str:
    """The URL of a new FIFO queue with these attributes."""
    named = {"FifoQueue": "true"} | attributes
    answer = sqs.call("CreateQueue", QueueName=f"{new_name()}.fifo", Attributes=named)
    url: str = answer["QueueUrl"]
    return url


def put(sqs: Client, queue: str, group: str, body: str, **members: Any) -> dict[str, Any]:
    """Send; with a deduplication ID that nothing else has, unless one is named."""
    named = {"MessageDeduplicationId": f"id-{next(_NUMBERS)}"} | members
    return sqs.call("SendMessage", QueueUrl=queue, MessageBody=body, MessageGroupId=group, **named)


def put_all(sqs: Client, queue: str, texts: str) -> None:
    """`g1:a g2:x` sends the body a to the group g1, then x to g2."""
    for text in texts.split():
        group, body = text.split(":")
        put(sqs, queue, group, body)


def got(sqs: Client, queue: str, **members: Any) -> list[str]:
    """The bodies of one receive."""
    return bodies(receive(sqs, queue, **members))


def entry(
    number: int, group: str | None = "g", body: str = "body", **members: Any
) -> dict[str, Any]:
    named = {} if group is None else {"MessageGroupId": group}
    dedup_id = {"MessageDeduplicationId": f"entry-{number}"}
    return {"Id": f"e{number}", "MessageBody": body} | named | dedup_id | members
