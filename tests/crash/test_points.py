"""A node that dies at a chosen point of its own work, and what is true after the next start.

One client works call by call and writes down what it was told, so that at most one call has an
unknown outcome: it happened whole or not at all. The recovered node must hold exactly the rest,
once, and its counters must say so before and after everything is received.
"""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import nodes
from tests.crash.dying_node import command_of
from tests.nodes import JsonClient, Lost, Node

# Enough passes that work of every kind lies before and after the last flush.
PASSES = {
    "before-propose": 45,
    "after-propose": 45,
    "while-log-is-written": 45,
    "after-log-fsync": 45,
    "before-apply": 45,
    "after-apply": 45,
    "before-flush": 14,
    "during-flush": 14,
    "after-flush": 14,
    "before-compact": 14,
    "after-compact": 14,
    "before-range-drop": 3,
    "after-range-drop": 3,
}
WORK_SECONDS = 120.0
CONDITION_SECONDS = 60.0
LEASE_SECONDS = 1
COUNTERS = ("", "NotVisible", "Delayed")
Counts = tuple[int, ...]


def url_of(queue: str) -> str:
    return f"http://localhost/000000000000/{queue}"


def counts(client: JsonClient, queue: str) -> Counts:
    """(visible, in flight, delayed)"""
    names = [f"ApproximateNumberOfMessages{which}" for which in COUNTERS]
    answer = client.call("GetQueueAttributes", QueueUrl=url_of(queue), AttributeNames=names)
    return tuple(int(answer["Attributes"][name]) for name in names)


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + CONDITION_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.02)


class Work:
    """Calls on two queues: `kept` is sent to, received from and deleted from, `purged` is purged.

    `unknown` is what the call under way adds or removes: it may have happened or not.
    """

    def __init__(self, client: JsonClient) -> None:
        self.client = client
        self.present: dict[str, set[str]] = {"kept": set(), "purged": set()}
        self.unknown: tuple[str, set[str]] = ("kept", set())
        self.calls = 0
        for queue in self.present:
            self.call("CreateQueue", queue, set(), QueueName=queue)

    def call(self, action: str, queue: str, bodies: set[str], **members: object) -> dict[str, Any]:
        self.unknown = queue, bodies
        members.setdefault("QueueUrl", url_of(queue))
        answer = self.client.call(action, **members)
        self.unknown = queue, set()
        self.calls += 1
        return answer

    def round(self, number: int) -> None:
        self.send("kept", [f"{number} single"])
        self.send("kept", [f"{number} batch {entry}" for entry in range(3)])
        self.send("purged", [f"{number} purged {entry}" for entry in range(3)])
        self.consume()
        if number % 4 == 3:
            self.call("PurgeQueue", "purged", self.present["purged"])
            self.present["purged"] = set()

    def send(self, queue: str, bodies: list[str]) -> None:
        if len(bodies) == 1:
            self.call("SendMessage", queue, set(bodies), MessageBody=bodies[0])
        else:
            entries = [{"Id": str(n), "MessageBody": body} for n, body in enumerate(bodies)]
            answer = self.call("SendMessageBatch", queue, set(bodies), Entries=entries)
            assert len(answer["Successful"]) == len(bodies), answer
        self.present[queue] |= set(bodies)

    def consume(self) -> None:
        """Half of what is received is deleted, one and then the rest together."""
        members = {"MaxNumberOfMessages": 10, "VisibilityTimeout": LEASE_SECONDS}
        messages = self.call("ReceiveMessage", "kept", set(), **members).get("Messages", [])
        for chosen in (messages[:1], messages[1:-1:2]):
            bodies = {message["Body"] for message in chosen}
            entries = [
                {"Id": str(n), "ReceiptHandle": message["ReceiptHandle"]}
                for n, message in enumerate(chosen)
            ]
            if entries:
                self.call("DeleteMessageBatch", "kept", bodies, Entries=entries)
                self.present["kept"] -= bodies

    def possible(self, queue: str) -> tuple[set[str], set[str]]:
        """The two states that the queue may be in: without and with what is unknown."""
        present = self.present[queue]
        uncertain = self.unknown[1] if self.unknown[0] == queue else set()
        return present - uncertain, present | uncertain


def dying(monkeypatch: pytest.MonkeyPatch, point: str, number: int) -> None:
    """Nodes started from here on die at the point's n-th pass."""
    plain = nodes.node_command

    def command(data_dir: Path, *arguments: str) -> list[str]:
        return command_of(plain(data_dir, *arguments), point, number)

    monkeypatch.setattr(nodes, "node_command", command)


def await_death(node: Node) -> None:
    assert node.process.wait(CONDITION_SECONDS) == -signal.SIGKILL, node.stderr_tail()
    node.kill()


def work_until_death(node: Node) -> Work:
    work = Work(JsonClient(node.sqs_url))
    deadline, number = time.monotonic() + WORK_SECONDS, 0
    with pytest.raises(Lost):
        while time.monotonic() < deadline:
            work.round(number)
            number += 1
    work.client.close()
    await_death(node)
    return work


def receive_all(client: JsonClient, queue: str) -> list[str]:
    """Bodies of all messages; they stay in flight."""
    bodies: list[str] = []
    members = {"QueueUrl": url_of(queue), "MaxNumberOfMessages": 10, "VisibilityTimeout": 600}
    while messages := client.call("ReceiveMessage", **members).get("Messages"):
        bodies += [message["Body"] for message in messages]
    return bodies


def check(node: Node, work: Work) -> None:
    client = JsonClient(node.sqs_url)
    for queue in work.present:
        eventually(lambda name=queue: counts(client, name)[1] == 0)  # type: ignore[misc]
        before = counts(client, queue)
        found = receive_all(client, queue)
        assert len(found) == len(set(found)), f"{queue}: messages exist twice"
        assert set(found) in work.possible(queue), f"{queue}: {work.calls} calls, {work.unknown}"
        assert before == (len(found), 0, 0)
        assert counts(client, queue) == (0, len(found), 0)
    client.close()


@pytest.mark.parametrize("point", PASSES)
def test_a_node_that_dies_at_a_point_keeps_exactly_what_it_promised(
    point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(tmp_path / "data")
    with monkeypatch.context() as patched:
        dying(patched, point, PASSES[point])
        node.start()
        work = work_until_death(node)
    assert work.calls > 10, "the node died before it did anything"
    with node:
        check(node, work)


@pytest.mark.parametrize("point", ["before-apply", "after-apply"])
def test_a_node_that_dies_again_while_it_recovers_keeps_what_it_promised(
    point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(tmp_path / "data")
    with monkeypatch.context() as patched:
        dying(patched, "after-log-fsync", 60)
        node.start()
        work = work_until_death(node)
    with monkeypatch.context() as patched:
        dying(patched, point, 3)
        node.launch()
        await_death(node)
    with node:
        check(node, work)


def test_a_lease_that_ran_out_counts_as_visible_before_and_after_a_kill(tmp_path: Path) -> None:
    with Node(tmp_path / "data") as node:
        work = Work(JsonClient(node.sqs_url))
        work.send("kept", ["only"])
        members = {"VisibilityTimeout": 600}
        (taken,) = work.call("ReceiveMessage", "kept", set(), **members)["Messages"]
        assert counts(work.client, "kept") == (0, 1, 0)
        shorter = {"ReceiptHandle": taken["ReceiptHandle"], "VisibilityTimeout": LEASE_SECONDS}
        work.call("ChangeMessageVisibility", "kept", set(), **shorter)
        eventually(lambda: counts(work.client, "kept") == (1, 0, 0))
        work.client.close()
        node.kill()
        node.start()
        client = JsonClient(node.sqs_url)
        assert counts(client, "kept") == (1, 0, 0)
        assert receive_all(client, "kept") == ["only"]
        client.close()


def test_a_killed_node_keeps_leases_that_still_run(tmp_path: Path) -> None:
    with Node(tmp_path / "data") as node:
        work = Work(JsonClient(node.sqs_url))
        work.send("kept", ["first", "second", "third"])
        members = {"VisibilityTimeout": 600}
        assert len(work.call("ReceiveMessage", "kept", set(), **members)["Messages"]) == 1
        work.client.close()
        node.kill()
        node.start()
        client = JsonClient(node.sqs_url)
        assert counts(client, "kept") == (2, 1, 0)
        assert receive_all(client, "kept") == ["second", "third"]
        client.close()
