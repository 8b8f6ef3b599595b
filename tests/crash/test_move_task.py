"""A message move task, and the node that runs it killed with -9 again and again: exact counts.

The moments of the kills come from a seed, printed with a failure; FASTNODE_TEST_SEED repeats it.
"""

import json
import os
import random
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.nodes import REGION, JsonClient, Node

MESSAGES = 10_000
KILLS = 10
# Of these, so many must hit the task while it is at work, or the test shows little.
KILLS_AT_WORK = 8
KILL_SECONDS_MAX = 0.15
END_SECONDS = 120.0
DEAD, OTHER = "dead", "other"


def arn(name: str) -> str:
    return f"arn:aws:sqs:{REGION}:000000000000:{name}"


def prepare(client: JsonClient) -> None:
    for name in (DEAD, OTHER):
        client.call("CreateQueue", QueueName=name)
    policy = {"deadLetterTargetArn": arn(DEAD), "maxReceiveCount": 1}
    client.call("CreateQueue", QueueName="source", Attributes={"RedrivePolicy": json.dumps(policy)})
    for first in range(0, MESSAGES, 10):
        entries = [{"Id": str(at), "MessageBody": str(first + at)} for at in range(10)]
        answer = client.call("SendMessageBatch", QueueUrl=DEAD, Entries=entries)
        assert len(answer["Successful"]) == 10


def task_of(client: JsonClient, source: str = DEAD) -> dict[str, Any]:
    (task,) = client.call("ListMessageMoveTasks", SourceArn=arn(source))["Results"]
    assert isinstance(task, dict)
    return task


def finished_task(client: JsonClient, source: str = DEAD) -> dict[str, Any]:
    deadline = time.monotonic() + END_SECONDS
    while (task := task_of(client, source))["Status"] == "RUNNING":
        assert time.monotonic() < deadline, task
        time.sleep(0.05)
    return task


def drain(client: JsonClient, name: str) -> list[str]:
    bodies: list[str] = []
    while messages := client.call(
        "ReceiveMessage", QueueUrl=name, MaxNumberOfMessages=10, VisibilityTimeout=600
    ).get("Messages"):
        bodies += [message["Body"] for message in messages]
    return bodies


def counts(client: JsonClient, name: str) -> list[int]:
    names = [f"ApproximateNumberOfMessages{kind}" for kind in ("", "NotVisible", "Delayed")]
    shown = client.call("GetQueueAttributes", QueueUrl=name, AttributeNames=names)["Attributes"]
    return [int(shown[name]) for name in names]


def check(client: JsonClient, seed: int) -> None:
    task = finished_task(client)
    assert task["Status"] == "COMPLETED", (seed, task)
    assert task["ApproximateNumberOfMessagesMoved"] == MESSAGES, (seed, task)
    assert counts(client, DEAD) == [0, 0, 0], seed
    assert counts(client, OTHER) == [MESSAGES, 0, 0], seed
    # Letters of one source arrive in order, whatever happened between.
    assert drain(client, OTHER) == [str(number) for number in range(MESSAGES)], seed


def test_a_move_task_survives_kills_with_exact_counts(tmp_path: Path) -> None:
    seed = int(os.environ.get("FASTNODE_TEST_SEED", time.time_ns() % 1_000_000))
    chance = random.Random(seed)
    node = Node(tmp_path / "data")
    with node:
        with closing(JsonClient(node.sqs_url)) as client:
            prepare(client)
            start = {"SourceArn": arn(DEAD), "DestinationArn": arn(OTHER)}
            client.call("StartMessageMoveTask", **start)
        at_work = 0
        for _ in range(KILLS):
            time.sleep(chance.uniform(0.0, KILL_SECONDS_MAX))
            node.kill()
            node.start()
            with closing(JsonClient(node.sqs_url)) as client:
                at_work += task_of(client)["Status"] == "RUNNING"
        with closing(JsonClient(node.sqs_url)) as client:
            check(client, seed)
        assert at_work >= KILLS_AT_WORK, f"only {at_work} kills hit the task at work, seed {seed}"
