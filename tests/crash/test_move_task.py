"""A message move task, and the node that runs it killed with -9 again and again: exact counts.

The moments of the kills come from a seed, printed with a failure; FASTNODE_TEST_SEED repeats it.
"""

import json
import os
import random
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.nodes import REGION, JsonClient, Node

MESSAGES = 10_000
KILLS = 10
# Of these, so many must hit the task while it is at work, or the test shows little. A machine that
# stood still at the wrong moment may have let the task come to its end: then it is tried again.
KILLS_AT_WORK = 8
TRIES = 5
END_SECONDS = 240.0
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


def await_moved(client: JsonClient, source: str, count: int) -> None:
    """Until the task has moved so many messages, or has ended."""
    deadline = time.monotonic() + END_SECONDS
    while (task := task_of(client, source))["Status"] == "RUNNING":
        if task["ApproximateNumberOfMessagesMoved"] >= count:
            return
        assert time.monotonic() < deadline, task


def killed_at_work(node: Node, source: str, messages: int, chances: Iterable[float]) -> int:
    """Kill the node at these parts of its task, however fast it works; how many of the kills the
    task has outlived.
    """
    at_work = 0
    for part in chances:
        with closing(JsonClient(node.sqs_url)) as client:
            await_moved(client, source, int(messages * part))
        node.kill()
        node.start()
        with closing(JsonClient(node.sqs_url)) as client:
            at_work += task_of(client, source)["Status"] == "RUNNING"
    return at_work


def parts_of(chance: random.Random, kills: int) -> list[float]:
    """One moment in each of the equal parts of a task but the last."""
    return [(number + chance.random()) / (kills + 1) for number in range(kills)]


def survive(directory: Path, seed: int) -> int:
    with Node(directory) as node:
        with closing(JsonClient(node.sqs_url)) as client:
            prepare(client)
            start = {"SourceArn": arn(DEAD), "DestinationArn": arn(OTHER)}
            client.call("StartMessageMoveTask", **start)
        at_work = killed_at_work(node, DEAD, MESSAGES, parts_of(random.Random(seed), KILLS))
        with closing(JsonClient(node.sqs_url)) as client:
            check(client, seed)
    return at_work


def test_a_move_task_survives_kills_with_exact_counts(tmp_path: Path) -> None:
    seed = int(os.environ.get("FASTNODE_TEST_SEED", time.time_ns() % 1_000_000))
    survived = (survive(tmp_path / str(number), seed) for number in range(TRIES))
    assert any(at_work >= KILLS_AT_WORK for at_work in survived), f"no kills at work, seed {seed}"
