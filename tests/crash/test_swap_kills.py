"""Processes killed with -9 at each step of a snapshot's way into a group's directory: what is there
afterwards is the old state or the new one, whole, and a node starts from it.

The swap with made-up files and without processes is in tests/unit/store/test_swap.py.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from fastnode.store.checksum import StateChecksum, state_checksum
from fastnode.store.engine import RocksEngine
from fastnode.store.engine_options import EngineShared
from fastnode.store.swap import READY, beside, recover_swap, state_path
from tests.crash.dying_swap import target_of
from tests.nodes import ROOT, JsonClient, Node, environment

MESSAGES: Final = 20
# Such a body lies in a blob file, so that there are files of every kind.
BODY_BYTES: Final = 40_000
# Rename and sync before the old files are removed one by one; sync, rename and sync after them.
DECIDING_STEPS: Final = 2
REPLACING_STEPS: Final = 3
RECEIVING_STEPS_MAX: Final = 14
CHILDREN_SECONDS: Final = 240.0
# The row by which the new state differs.
MARKER: Final = b"~marker"
QUEUE_URL: Final = "http://localhost/000000000000/swapped"


class Given(NamedTuple):
    """A case that nobody has touched: a stopped node, and the state that is to replace its own."""

    case: Path
    old: StateChecksum
    new: StateChecksum

    @property
    def old_names(self) -> list[str]:
        return os.listdir(target_of(self.case))


def open_engine(path: Path) -> RocksEngine:
    return RocksEngine(path, EngineShared())


def read_state(path: Path) -> StateChecksum:
    """Without changing anything."""
    engine = RocksEngine(path, EngineShared(), is_read_only=True)
    try:
        return state_checksum(engine)
    finally:
        engine.close()


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Given:
    case = tmp_path_factory.mktemp("given")
    with Node(case / "data", "--groups", "1") as node:
        client = JsonClient(node.sqs_url)
        client.call("CreateQueue", QueueName="swapped")
        for number in range(MESSAGES):
            body = f"{number:0{BODY_BYTES}d}"
            client.call("SendMessage", QueueUrl=QUEUE_URL, MessageBody=body)
        client.close()
        assert node.stop() == 0
    source = case / "source" / "000"
    shutil.copytree(target_of(case), source)
    engine = open_engine(source)
    batch = engine.batch()
    batch.put(MARKER, b"new")
    engine.write(batch)
    engine.close()
    return Given(case, read_state(target_of(case)), read_state(source))


def copies(original: Path, path: Path, count: int) -> list[Path]:
    return [shutil.copytree(original, path / str(number)) for number in range(count)]


def outcomes(act: str, cases: list[Path], *, first_step: int = 1) -> list[str]:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.crash.dying_swap", act, str(first_step), *map(str, cases)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=CHILDREN_SECONDS,
        check=True,
    )
    assert ended.stderr == "", ended.stderr
    return ended.stdout.split()


def which(given: Given, case: Path) -> str:
    """Which of the two states is there, by the checksum of all rows."""
    names = {given.old: "old", given.new: "new"}
    return names[read_state(state_path(target_of(case)))]


def settle(given: Given, case: Path) -> str:
    """Recover as a start does: the state that was there stays, and nothing else does."""
    found, target = which(given, case), target_of(case)
    recover_swap(target)
    assert which(given, case) == found
    assert [path.name for path in target.parent.iterdir()] == ["000"]
    open_engine(target).close()
    return found


def test_a_process_killed_while_it_receives_leaves_the_old_state(
    given: Given, tmp_path: Path
) -> None:
    cases = copies(given.case, tmp_path, RECEIVING_STEPS_MAX)
    results = outcomes("receive", cases)
    killed = results.count("killed")
    assert 5 < killed < RECEIVING_STEPS_MAX
    assert results == ["killed"] * killed + ["ended"] * (len(cases) - killed)
    found = [settle(given, case) for case in cases]
    assert found == ["old"] * killed + ["new"] * (len(cases) - killed)


def test_a_process_killed_within_the_swap_leaves_the_new_state_from_the_first_rename_on(
    given: Given, tmp_path: Path
) -> None:
    steps = DECIDING_STEPS + len(given.old_names) + REPLACING_STEPS
    cases = copies(given.case, tmp_path, steps + 1)
    assert outcomes("swap", cases) == ["killed"] * steps + ["ended"]
    assert [settle(given, case) for case in cases] == ["old"] + ["new"] * steps


def test_a_recovery_that_is_killed_at_any_step_can_be_repeated(
    given: Given, tmp_path: Path
) -> None:
    (decided,) = copies(given.case, tmp_path / "decided", 1)
    assert outcomes("swap", [decided], first_step=DECIDING_STEPS) == ["killed"]
    assert beside(target_of(decided), READY).exists()
    steps = len(given.old_names) + REPLACING_STEPS
    cases = copies(decided, tmp_path / "cases", steps + 1)
    assert outcomes("recover", cases) == ["killed"] * steps + ["ended"]
    assert [settle(given, case) for case in cases] == ["new"] * (steps + 1)


@pytest.mark.parametrize(
    ("act", "step"),
    [("receive", 3), ("swap", 1), ("swap", DECIDING_STEPS), ("swap", DECIDING_STEPS + 4)],
    ids=["half received", "undecided", "decided", "some of the old files removed"],
)
def test_a_node_starts_after_a_kill(act: str, step: int, given: Given, tmp_path: Path) -> None:
    (case,) = copies(given.case, tmp_path, 1)
    assert outcomes(act, [case], first_step=step) == ["killed"]
    expected = which(given, case)
    with Node(case / "data", "--groups", "1") as node:
        client = JsonClient(node.sqs_url)
        assert sorted(receive_all(client)) == list(range(MESSAGES))
        client.close()
        assert node.stop() == 0
    engine = open_engine(target_of(case))
    assert (engine.get(MARKER) is not None) == (expected == "new")
    engine.close()


def receive_all(client: JsonClient) -> list[int]:
    """The numbers of all messages; they stay in flight."""
    members = {"QueueUrl": QUEUE_URL, "MaxNumberOfMessages": 10, "VisibilityTimeout": 600}
    numbers: list[int] = []
    while messages := client.call("ReceiveMessage", **members).get("Messages"):
        numbers += [int(message["Body"][-4:]) for message in messages]
    return numbers
