"""Retention in a real node: messages that expire while it is down go soon after its start."""

import time
from pathlib import Path

import pytest

from tests import nodes
from tests.integration.late_node import command_of
from tests.nodes import JsonClient, Node, Refused

CONDITION_SECONDS = 60.0
COUNTERS = ("", "NotVisible", "Delayed")


def url_of(queue: str) -> str:
    return f"http://localhost/000000000000/{queue}"


def counts(client: JsonClient, queue: str) -> list[int]:
    """[visible, in flight, delayed]"""
    names = [f"ApproximateNumberOfMessages{which}" for which in COUNTERS]
    answer = client.call("GetQueueAttributes", QueueUrl=url_of(queue), AttributeNames=names)
    return [int(answer["Attributes"][name]) for name in names]


def start_late(monkeypatch: pytest.MonkeyPatch, node: Node, seconds: int) -> None:
    plain = nodes.node_command

    def command(data_dir: Path, *arguments: str) -> list[str]:
        return command_of(plain(data_dir, *arguments), seconds)

    with monkeypatch.context() as patch:
        patch.setattr(nodes, "node_command", command)
        node.start()


def fill(client: JsonClient) -> str:
    """Two queues with 150 waiting messages, one in flight and one delayed; its handle."""
    for queue, seconds in (("short", "60"), ("long", "345600")):
        attributes = {"MessageRetentionPeriod": seconds}
        client.call("CreateQueue", QueueName=queue, Attributes=attributes)
        send = {"QueueUrl": url_of(queue)}
        client.call("SendMessage", **send, MessageBody="held")
        client.call("ReceiveMessage", **send, VisibilityTimeout=40_000)
        client.call("SendMessage", **send, MessageBody="delayed", DelaySeconds=900)
        entries = [{"Id": str(n), "MessageBody": f"m{n}"} for n in range(10)]
        for _ in range(15):
            client.call("SendMessageBatch", **send, Entries=entries)
    message = client.call("ReceiveMessage", QueueUrl=url_of("short"), VisibilityTimeout=40_000)
    handle: str = message["Messages"][0]["ReceiptHandle"]
    return handle


def test_what_expired_while_the_node_was_down_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Node(tmp_path / "data") as node:
        client = JsonClient(node.sqs_url)
        handle = fill(client)
        assert counts(client, "short") == [149, 2, 1]
        client.close()
        node.kill()
        start_late(monkeypatch, node, 120)
        client = JsonClient(node.sqs_url)
        deadline = time.monotonic() + CONDITION_SECONDS
        while counts(client, "short") != [0, 0, 0]:
            assert time.monotonic() < deadline, counts(client, "short")
            time.sleep(0.1)
        assert counts(client, "long") == [150, 1, 1]
        client.call("DeleteMessage", QueueUrl=url_of("short"), ReceiptHandle=handle)
        with pytest.raises(Refused, match="not available for visibility timeout change"):
            client.call(
                "ChangeMessageVisibility",
                QueueUrl=url_of("short"),
                ReceiptHandle=handle,
                VisibilityTimeout=5,
            )
        client.close()
        assert node.stop() == 0
