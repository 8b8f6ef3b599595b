"""How queues are called, and what they are created with."""

from typing import Final

from tests.model.queues import Kind

ACCOUNT: Final = "000000000000"


def url_of(queue: str) -> str:
    return f"http://127.0.0.1:9324/{ACCOUNT}/{queue}"


def arn_of(queue: str) -> str:
    return f"arn:aws:sqs:us-east-1:{ACCOUNT}:{queue}"


def attributes_of(kind: Kind, dead_letters: str) -> dict[str, str]:
    attributes = {
        "VisibilityTimeout": str(kind.visibility_seconds),
        "DelaySeconds": str(kind.delay_seconds),
    }
    if kind.is_fifo:
        attributes |= {"FifoQueue": "true"}
    if kind.partitions > 1:
        attributes |= {
            "FifoThroughputLimit": "perMessageGroupId",
            "DeduplicationScope": "messageGroup",
            "PartitionCount": str(kind.partitions),
        }
    if dead_letters:
        target = arn_of(dead_letters)
        policy = f'{{"deadLetterTargetArn":"{target}","maxReceiveCount":{kind.receives_max}}}'
        attributes["RedrivePolicy"] = policy
    return attributes
