"""A message move task out of a FIFO queue with partitions, and its node killed with -9 again and
again: exact counts, and the order of each message group.

The moments of the kills come from a seed, printed with a failure; FASTNODE_TEST_SEED repeats it.
"""

import json
import os
import random
import time
from contextlib import closing
from pathlib import Path

from tests.crash.test_move_task import (
    TRIES,
    arn,
    counts,
    finished_task,
    killed_at_work,
    parts_of,
)
from tests.nodes import JsonClient, Node

GROUPS = 50
PER_GROUP = 60
MESSAGES = GROUPS * PER_GROUP
KILLS = 6
KILLS_AT_WORK = 4
DEAD, OTHER, SOURCE = "dead.fifo", "other.fifo", "source.fifo"
FIFO = {"FifoQueue": "true"}
PARTITIONED = FIFO | {
    "FifoThroughputLimit": "perMessageGroupId",
    "DeduplicationScope": "messageGroup",
    "PartitionCount": "8",
}


def prepare(client: JsonClient) -> None:
    client.call("CreateQueue", QueueName=DEAD, Attributes=PARTITIONED)
    client.call("CreateQueue", QueueName=OTHER, Attributes=PARTITIONED | {"PartitionCount": "4"})
    policy = json.dumps({"deadLetterTargetArn": arn(DEAD), "maxReceiveCount": 1})
    client.call("CreateQueue", QueueName=SOURCE, Attributes=FIFO | {"RedrivePolicy": policy})
    for turn in range(PER_GROUP):
        for first in range(0, GROUPS, 10):
            entries = [
                {
                    "Id": str(group),
                    "MessageBody": f"{group}-{turn}",
                    "MessageGroupId": f"g{group}",
                    "MessageDeduplicationId": str(turn),
                }
                for group in range(first, first + 10)
            ]
            answer = client.call("SendMessageBatch", QueueUrl=DEAD, Entries=entries)
            assert len(answer["Successful"]) == 10


def drained(client: JsonClient) -> dict[str, list[int]]:
    """The turns of each group, as they come."""
    turns: dict[str, list[int]] = {}
    asked = {"QueueUrl": OTHER, "MaxNumberOfMessages": 10, "VisibilityTimeout": 600}
    while messages := client.call("ReceiveMessage", **asked).get("Messages"):
        for message in messages:
            group, turn = message["Body"].split("-")
            turns.setdefault(group, []).append(int(turn))
        entries = [
            {"Id": str(at), "ReceiptHandle": message["ReceiptHandle"]}
            for at, message in enumerate(messages)
        ]
        answer = client.call("DeleteMessageBatch", QueueUrl=OTHER, Entries=entries)
        assert len(answer["Successful"]) == len(messages)
    return turns


def check(client: JsonClient, seed: int) -> None:
    task = finished_task(client, DEAD)
    assert task["Status"] == "COMPLETED", (seed, task)
    assert task["ApproximateNumberOfMessagesMoved"] == MESSAGES, (seed, task)
    assert counts(client, DEAD) == [0, 0, 0], seed
    assert counts(client, OTHER) == [MESSAGES, 0, 0], seed
    turns = drained(client)
    assert len(turns) == GROUPS, seed
    assert all(own == list(range(PER_GROUP)) for own in turns.values()), seed
    assert counts(client, OTHER) == [0, 0, 0], seed


def survive(directory: Path, seed: int) -> int:
    """How many kills the task has outlived."""
    with Node(directory) as node:
        with closing(JsonClient(node.sqs_url)) as client:
            prepare(client)
            start = {
                "SourceArn": arn(DEAD),
                "DestinationArn": arn(OTHER),
                "MaxNumberOfMessagesPerSecond": 500,
            }
            client.call("StartMessageMoveTask", **start)
        at_work = killed_at_work(node, DEAD, MESSAGES, parts_of(random.Random(seed), KILLS))
        with closing(JsonClient(node.sqs_url)) as client:
            check(client, seed)
    return at_work


def test_a_task_over_partitions_survives_kills_with_exact_counts(tmp_path: Path) -> None:
    seed = int(os.environ.get("FASTNODE_TEST_SEED", time.time_ns() % 1_000_000))
    survived = (survive(tmp_path / str(number), seed) for number in range(TRIES))
    assert any(at_work >= KILLS_AT_WORK for at_work in survived), f"no kills at work, seed {seed}"
