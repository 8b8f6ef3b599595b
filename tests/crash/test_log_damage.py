"""A damaged log gives one of two outcomes: a torn tail is repaired, anything else is refused.

The tests know two things about the log's files: the newest one with data ends in zeros, and what
lies before them was written in the order of the sends, one message at a time.
"""

import hashlib
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.nodes import JsonClient, Node, refused_start

MESSAGES = 60
BODIES = [f"message {number:03d}" for number in range(MESSAGES)]
QUEUE = "http://localhost/000000000000/damage"
Damage = Callable[[Path, int], None]


def fill(data_dir: Path) -> Node:
    """A running node whose log holds one acknowledged message after the other."""
    node = Node(data_dir)
    node.start()
    client = JsonClient(node.sqs_url)
    client.call("CreateQueue", QueueName="damage")
    for body in BODIES:
        client.call("SendMessage", QueueUrl=QUEUE, MessageBody=body)
    client.close()
    return node


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data_dir = tmp_path_factory.mktemp("killed") / "data"
    fill(data_dir).kill()
    return data_dir


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data_dir = tmp_path_factory.mktemp("stopped") / "data"
    node = fill(data_dir)
    assert node.stop() == 0, node.stderr_tail()
    return data_dir


@pytest.fixture
def data_dir(killed: Path, tmp_path: Path) -> Path:
    return copy_of(killed, tmp_path)


def copy_of(source: Path, tmp_path: Path) -> Path:
    shutil.copytree(source, tmp_path / "data")
    return tmp_path / "data"


def newest_segment(data_dir: Path) -> tuple[Path, int]:
    """The last file of the log that holds data, and the offset behind its last non-zero byte."""
    ends = {
        path: len(path.read_bytes().rstrip(b"\0")) for path in sorted((data_dir / "log").iterdir())
    }
    path = max(path for path, end in ends.items() if end)
    return path, ends[path]


def flip(path: Path, offset: int, count: int = 1) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        found = file.read(count)
        assert len(found) == count
        file.seek(offset)
        file.write(bytes(byte ^ 0xFF for byte in found))


def truncate(path: Path, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size)


def erase(path: Path, offset: int) -> None:
    """Zeros from here on: the sectors of a write that never reached the disk."""
    size = path.stat().st_size
    truncate(path, offset)
    truncate(path, size)


TAIL_DAMAGE: dict[str, Damage] = {
    "flipped in the last byte": lambda path, end: flip(path, end - 1),
    "flipped some bytes before the end": lambda path, end: flip(path, end - 30, count=8),
    "cut off in the last block": lambda path, end: truncate(path, end - 5),
    "zeroed from the last block's middle on": lambda path, end: erase(path, end - 40),
}


def received_bodies(node: Node) -> list[str]:
    client, found = JsonClient(node.sqs_url), list[str]()
    while messages := client.call(
        "ReceiveMessage", QueueUrl=QUEUE, MaxNumberOfMessages=10, VisibilityTimeout=600
    ).get("Messages"):
        found += [message["Body"] for message in messages]
        assert len(found) <= 2 * MESSAGES
    client.close()
    return found


def send(node: Node, body: str) -> None:
    client = JsonClient(node.sqs_url)
    client.call("SendMessage", QueueUrl=QUEUE, MessageBody=body)
    client.close()


def test_undamaged_log_gives_back_every_message_in_order(data_dir: Path) -> None:
    with Node(data_dir) as node:
        assert received_bodies(node) == BODIES


@pytest.mark.parametrize("damage", TAIL_DAMAGE.values(), ids=TAIL_DAMAGE.keys())
def test_damaged_tail_is_repaired_and_everything_before_it_is_there(
    data_dir: Path, damage: Damage
) -> None:
    damage(*newest_segment(data_dir))
    node = Node(data_dir)
    with node:
        # A message sent after the repair lands behind it and must survive like any other.
        send(node, "after the repair")
        node.kill()
        node.start()
        found = received_bodies(node)
    assert found[-1] == "after the repair"
    assert found[:-1] in (BODIES, BODIES[:-1]), "more than the damaged block is gone"


@pytest.mark.parametrize("damage", TAIL_DAMAGE.values(), ids=TAIL_DAMAGE.keys())
def test_damaged_tail_after_a_graceful_stop_costs_nothing_that_was_flushed(
    stopped: Path, tmp_path: Path, damage: Damage
) -> None:
    data_dir = copy_of(stopped, tmp_path)
    damage(*newest_segment(data_dir))
    node = Node(data_dir)
    with node:
        send(node, "after the repair")
        node.kill()
        node.start()
        assert received_bodies(node) == [*BODIES, "after the repair"]


def offsets_in_the_middle(end: int) -> Iterator[int]:
    for percent in (10, 50, 80):
        yield end * percent // 100


def fingerprint(data_dir: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((data_dir / "log").iterdir())
    }


def test_damage_before_the_tail_is_refused_by_file_and_offset_and_nothing_is_changed(
    data_dir: Path,
) -> None:
    path, end = newest_segment(data_dir)
    for offset in offsets_in_the_middle(end):
        # Wider than the padding between two blocks, which nothing is stored in.
        flip(path, offset, count=16)
        before = fingerprint(data_dir)
        code, stderr = refused_start(data_dir)
        assert code == 1, stderr
        (line,) = [line for line in stderr.splitlines() if line.startswith("fastnode: ")]
        assert path.name in line, line
        named = [int(number) for number in re.findall(r"\b\d+\b", line.replace(path.name, ""))]
        assert any(offset - 1_024 <= number <= offset + 16 for number in named), line
        assert fingerprint(data_dir) == before, "a refused start changed the log"
        flip(path, offset, count=16)
    with Node(data_dir) as node:
        assert received_bodies(node) == BODIES


def test_lost_log_is_refused_and_not_replaced_by_an_empty_one(data_dir: Path) -> None:
    shutil.rmtree(data_dir / "log")
    code, stderr = refused_start(data_dir)
    assert code == 1, stderr
    assert re.search(r"^fastnode: .*log", stderr, re.MULTILINE), stderr


def test_a_log_that_vanished_before_any_flush_is_refused_too(data_dir: Path) -> None:
    for segment in (data_dir / "log").iterdir():
        segment.unlink()
    code, stderr = refused_start(data_dir)
    assert code == 1
    assert "log is empty, its data is lost" in stderr
