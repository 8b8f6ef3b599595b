"""SIGHUP, conflicts of declared queues, log lines as JSON: a running node and its file."""

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.nodes import Node, boto3_client

DEADLINE_SECONDS = 60.0
FIRST = """\
log_level = "info"
log_format = "json"
[queues.jobs]
VisibilityTimeout = 45
ThrottleSendCapacity = 10
ThrottleSendRefillPerSecond = 1
"""
SECOND = """\
log_level = "warning"
log_format = "json"
groups = 2
[queues.jobs]
VisibilityTimeout = 50
ThrottleSendCapacity = 20
ThrottleSendRefillPerSecond = 5
[queues.late]
tags = { team = "blue" }
"""


def eventually(what: str, holds: Callable[[], bool], node: Node) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"not in time: {what}\n{node.stderr_tail()}"
        time.sleep(0.05)


def attributes(node: Node, queue: str) -> dict[str, str]:
    client = boto3_client(node.sqs_url)
    url = f"{node.sqs_url}/000000000000/{queue}"
    found: dict[str, str] = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])[
        "Attributes"
    ]
    return found


def names(node: Node) -> list[str]:
    urls = boto3_client(node.sqs_url).list_queues().get("QueueUrls", [])
    return [url.rpartition("/")[2] for url in urls]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_hangup_takes_over_what_can_change(tmp_path: Path, workers: str) -> None:
    config = tmp_path / "node.toml"
    config.write_text(FIRST)
    arguments = ("--config", str(config), "--workers", workers)
    with Node(tmp_path / "node", *arguments) as node:
        assert attributes(node, "jobs")["ThrottleSendCapacity"] == "10"
        config.write_text("not TOML")
        node.process.send_signal(signal.SIGHUP)
        eventually("said", lambda: "the old settings stay in force" in node.stderr_tail(), node)
        assert names(node) == ["jobs"]
        config.write_text(SECOND)
        node.process.send_signal(signal.SIGHUP)
        eventually("the new queue is there", lambda: "late" in names(node), node)
        found = attributes(node, "jobs")
        assert found["ThrottleSendCapacity"] == "20"
        assert found["VisibilityTimeout"] == "45"
        said = node.stderr_tail()
        for words in ("a change waits for a restart", "[queues.jobs] is not what exists"):
            assert words in said
        lines = [json.loads(line) for line in said.splitlines()]
        assert {"time", "level", "logger", "message"} <= lines[0].keys()
        (keys,) = {line["keys"] for line in lines if "keys" in line}
        assert keys == "groups"
        assert node.stop() == 0


def test_a_queue_that_differs_from_the_file_stays(tmp_path: Path) -> None:
    config = tmp_path / "node.toml"
    config.write_text("[queues.jobs]\nVisibilityTimeout = 45\n")
    with Node(tmp_path / "node", "--config", str(config)) as node:
        assert node.stop() == 0
        config.write_text("[queues.jobs]\nVisibilityTimeout = 46\n")
        node.start()
        assert attributes(node, "jobs")["VisibilityTimeout"] == "45"
        assert "[queues.jobs] is not what exists, which stays as it is" in node.stderr_tail()
        assert "VisibilityTimeout" in node.stderr_tail()
