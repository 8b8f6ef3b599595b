"""A node whose disk fills up, on a small file system in memory that only root can mount.

New messages are refused while there is still a reserve, receives and deletes go on inside it; when
that is gone too every call is answered 200 or 503. What was acknowledged is true throughout, and
when space returns the node recovers by itself.
"""

import os
import secrets
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fastnode import config
from tests import nodes
from tests.crash.dying_node import NEVER, command_of
from tests.nodes import JsonClient, Node, Refused
from tests.small_disk import small_disk

# A quarter of it is the reserve, which has to hold what a node that was killed still has to flush:
# the 64 MiB that all memtables may have, and what is being written beside them.
DISK_BYTES = 512 * 1_048_576
# Random text: what the disk has to hold is what was sent, whatever compression does.
BODY_BYTES = 100_000
KEY_BYTES = 16
FILL_SECONDS = 240.0
FULL_SECONDS = 2.0
# Below the interval of ordinary flushes: space must come back sooner than by one of them.
RECOVERY_SECONDS = 20.0
LEASE_SECONDS = 1
URL = "http://localhost/000000000000/full"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """An empty directory that is a file system of its own."""
    with small_disk(tmp_path / "data", DISK_BYTES) as path:
        yield path


@pytest.fixture
def node(disk: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    """It looks at its disk so often that a fast client does not get far below the reserve."""
    plain = nodes.node_command

    def command(data_dir: Path, *arguments: str) -> list[str]:
        base = plain(data_dir, *arguments)
        return command_of(base, "before-flush", NEVER, flush_seconds=config.FLUSH_INTERVAL_SECONDS)

    monkeypatch.setattr(nodes, "node_command", command)
    with Node(disk) as started:
        yield started


def free_bytes(disk: Path) -> int:
    stat = os.statvfs(disk)
    return stat.f_bavail * stat.f_frsize


def fill_up(path: Path) -> None:
    """Append until not a byte more fits."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        while os.write(descriptor, bytes(65_536)):
            pass
    except OSError:
        pass
    finally:
        os.close(descriptor)


class Client:
    """Knows what was acknowledged. A refused call may have taken effect; nothing else may."""

    def __init__(self, url: str) -> None:
        self._client = JsonClient(url)
        self._client.call("CreateQueue", QueueName="full")
        self.present: set[str] = set()
        self.maybe_sent: set[str] = set()
        self.maybe_deleted: set[str] = set()
        self.deleted: set[str] = set()
        self.slowest_seconds = 0.0

    def call(self, action: str, **members: object) -> dict[str, Any] | None:
        """None for 503; any other refusal and a lost answer fail the test."""
        began = time.monotonic()
        try:
            return self._client.call(action, QueueUrl=URL, **members)
        except Refused as refusal:
            assert refusal.status == 503, refusal
            return None
        finally:
            self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - began)

    def send(self) -> bool:
        text = secrets.token_hex(BODY_BYTES // 2)
        is_sent = self.call("SendMessage", MessageBody=text) is not None
        (self.present if is_sent else self.maybe_sent).add(text[:KEY_BYTES])
        return is_sent

    def receive(self, lease: int = LEASE_SECONDS) -> list[dict[str, Any]] | None:
        members = {"MaxNumberOfMessages": 10, "VisibilityTimeout": lease}
        answer = self.call("ReceiveMessage", **members)
        return None if answer is None else answer.get("Messages", [])

    def delete(self, message: dict[str, Any]) -> bool:
        key, handle = message["Body"][:KEY_BYTES], message["ReceiptHandle"]
        is_deleted = self.call("DeleteMessage", ReceiptHandle=handle) is not None
        if is_deleted:
            self.present.discard(key)
            self.deleted.add(key)
        else:
            self.maybe_deleted.add(key)
        return is_deleted

    def close(self) -> None:
        self._client.close()


def fill_until_refused(client: Client) -> None:
    deadline = time.monotonic() + FILL_SECONDS
    while client.send():
        assert time.monotonic() < deadline, "the disk does not become full"


def work_on_full_disk(client: Client, disk: Path) -> int:
    """Receives and deletes while a ballast takes all that is left; how many were refused.

    The ballast goes by itself: a call may wait for space.
    """
    ballast, refused = disk / "ballast", 0
    until = time.monotonic() + FULL_SECONDS
    while time.monotonic() < until or not refused:
        assert time.monotonic() < until + FILL_SECONDS, "nothing is refused on a full disk"
        fill_up(ballast)
        release = threading.Timer(FULL_SECONDS, ballast.unlink)
        release.start()
        refused += not client.send()
        messages = client.receive()
        refused += messages is None
        for message in (messages or [])[:2]:
            refused += not client.delete(message)
        release.cancel()
        release.join()
    ballast.unlink(missing_ok=True)
    return refused


def consume_until_sends_succeed(client: Client) -> None:
    deadline = time.monotonic() + RECOVERY_SECONDS
    while not client.send():
        assert time.monotonic() < deadline, "no message is accepted though space was freed"
        for message in client.receive() or []:
            client.delete(message)


def check_restarted(client: Client, url: str) -> None:
    """Everything acknowledged and not deleted is there, once, and nothing that was deleted."""
    fresh, found = Client(url), list[str]()
    quiet_since = time.monotonic()
    while time.monotonic() < quiet_since + 2 * LEASE_SECONDS:
        messages = fresh.receive(lease=600)
        assert messages is not None, "a restarted node with space refuses receives"
        if messages:
            found += [message["Body"][:KEY_BYTES] for message in messages]
            quiet_since = time.monotonic()
    fresh.close()
    assert len(found) == len(set(found))
    assert client.present - client.maybe_deleted <= set(found), "acknowledged messages are lost"
    assert set(found) <= client.present | client.maybe_sent
    assert not client.deleted & set(found), "deleted messages came back"


def test_inside_the_reserve_only_sends_are_refused(node: Node, disk: Path) -> None:
    client = Client(node.sqs_url)
    fill_until_refused(client)
    assert free_bytes(disk) > 0
    for _ in range(5):
        messages = client.receive()
        assert messages, "receives go on inside the reserve"
        assert all(client.delete(message) for message in messages), "deletes go on"
    consume_until_sends_succeed(client)
    assert client.slowest_seconds < config.HTTP_ANSWER_SECONDS
    client.close()
    node.kill()
    node.start()
    check_restarted(client, node.sqs_url)


def test_a_node_recovers_by_itself_from_a_disk_without_a_free_byte(node: Node, disk: Path) -> None:
    client = Client(node.sqs_url)
    fill_until_refused(client)
    assert work_on_full_disk(client, disk) > 0
    consume_until_sends_succeed(client)
    assert client.slowest_seconds < config.HTTP_ANSWER_SECONDS
    client.close()
    node.kill()
    node.start()
    check_restarted(client, node.sqs_url)


def test_a_node_killed_on_a_full_disk_starts_again_when_there_is_space(
    node: Node, disk: Path
) -> None:
    client = Client(node.sqs_url)
    fill_until_refused(client)
    fill_up(disk / "ballast")
    client.send()
    node.kill()
    client.close()
    (disk / "ballast").unlink()
    node.start()
    check_restarted(client, node.sqs_url)
