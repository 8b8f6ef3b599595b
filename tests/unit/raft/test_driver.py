"""Turns of the real consensus over a simulated disk: what is answered is durable, and applied once.

The extension runs in manual mode: a block becomes durable when the test says so. A crash loses what
was not synced, of the log as of the engines.
"""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode._raftlog import RaftGroups, SimDisk
from fastnode.clock import GroupClock
from fastnode.errors import DiskFull
from fastnode.flow import start
from fastnode.raft.driver import Driver
from fastnode.raft.groups import Groups
from fastnode.store.group import Group
from fastnode.store.memory_engine import MemoryEngine
from tests.world import CountingIds, FakeClock

GROUPS = 3
SEGMENT_BYTES = 1 << 18


class Node:
    """A single voter with three groups, its disk, and what its clients were told."""

    def __init__(self, seed: int = 1) -> None:
        self.disk = SimDisk(seed)
        self.engines = [MemoryEngine() for _ in range(GROUPS)]
        self.clock = FakeClock()
        self.ids = CountingIds()
        self.acknowledged = [0] * GROUPS
        self.attempted = [0] * GROUPS
        self.errors: list[BaseException] = []
        self.start()

    def start(self) -> None:
        self.groups = [Group(n, engine, GroupClock(self.clock)) for n, engine in self.pairs()]
        applied = [group.applied_index for group in self.groups]
        self.raft = RaftGroups(
            *(1, "sim", GROUPS),
            voters=[1],
            applied=applied,
            segment_bytes=SEGMENT_BYTES,
            manual=True,
            disk=self.disk,
        )
        self.driver = Driver(Groups(self.raft), self.groups)
        self.settle()
        assert all(group.is_ready for group in self.groups)

    def pairs(self) -> Iterator[tuple[int, MemoryEngine]]:
        return iter(enumerate(self.engines))

    def settle(self) -> None:
        """Turn and persist until nothing is left to do."""
        for _ in range(100):
            self.driver.propose(range(GROUPS))
            self.driver.turn()
            if not self.raft.persist_step() and not self.driver.is_persisting:
                return
        raise AssertionError("the groups do not settle")

    def add(self, number: int) -> None:
        """Count one up, and put a value beside it."""
        group = self.groups[number]
        txn = group.begin(self.ids.take(16))
        self.attempted[number] += 1
        txn.add(b"count", 1)
        txn.put(b"value%d" % self.attempted[number], b"x" * 1_000)
        outcome = group.submit(txn)

        async def wait() -> None:
            await outcome

        def done(_result: object, error: BaseException | None) -> None:
            if error is None:
                self.acknowledged[number] += 1
            else:
                self.errors.append(error)

        start(wait(), done)

    def crash(self) -> None:
        self.disk.crash()
        for engine in self.engines:
            engine.crash()
        self.start()

    def check(self) -> None:
        for number, group in enumerate(self.groups):
            count = group.counter(b"count")
            values = len(self.engines[number].scan_keys(b"value", b"valuf", 10_000))
            assert count == values, "a transaction is applied whole and once"
            assert self.acknowledged[number] <= count <= self.attempted[number]


def test_nothing_is_answered_before_its_block_is_durable() -> None:
    node = Node()
    node.add(0)
    node.driver.propose([0])
    node.driver.turn()
    assert node.driver.is_persisting and node.acknowledged == [0, 0, 0]
    assert node.raft.persist_step()
    node.driver.turn()
    assert node.acknowledged == [1, 0, 0]


def test_one_sync_serves_all_transactions_of_all_groups() -> None:
    node = Node()
    before = node.disk.syncs()
    for _ in range(50):
        for number in range(GROUPS):
            node.add(number)
    node.settle()
    assert node.acknowledged == [50] * GROUPS
    assert node.disk.syncs() == before + 1


def test_the_log_is_replayed_into_engines_that_lost_everything() -> None:
    node = Node()
    for _ in range(5):
        node.add(1)
        node.settle()
    node.crash()
    node.check()
    assert node.groups[1].counter(b"count") == 5


def test_a_compacted_log_starts_where_the_engines_are() -> None:
    node = Node()
    for _ in range(5):
        node.add(0)
        node.settle()
    node.engines[0].flush()
    node.raft.compact(0, node.groups[0].applied_index)
    node.add(0)
    node.settle()
    node.crash()
    node.check()
    assert node.groups[0].counter(b"count") == 6


def test_a_stalled_engine_delays_answers_and_loses_none() -> None:
    node = Node()
    node.engines[0].stalled = True
    node.add(0)
    node.add(1)
    node.driver.propose([0, 1])
    node.driver.turn()
    node.raft.persist_step()
    node.driver.turn()
    assert list(node.driver.stalled) == [0]
    assert node.acknowledged == [0, 1, 0]
    node.engines[0].stalled = False
    node.driver.apply(list(node.driver.stalled))
    assert not node.driver.stalled
    assert node.acknowledged == [1, 1, 0]


def test_a_full_disk_refuses_transactions_and_takes_them_again_later() -> None:
    node = Node()
    node.disk.set_free(0)
    for _ in range(600):
        node.add(0)
        node.settle()
        if node.errors:
            break
    assert isinstance(node.errors[0], DiskFull)
    refused = len(node.errors)
    node.disk.set_free(1 << 30)
    node.add(0)
    node.settle()
    assert len(node.errors) == refused
    assert sum(node.acknowledged) + refused == sum(node.attempted)
    node.crash()
    node.check()


def test_a_failed_sync_is_never_followed_by_an_answer() -> None:
    node = Node()
    node.add(0)
    node.driver.propose([0])
    node.driver.turn()
    node.disk.fail_next_sync()
    with pytest.raises(OSError, match="write a block"):
        node.raft.persist_step()
    assert node.acknowledged == [0, 0, 0]


STEPS = st.lists(
    st.sampled_from(["add", "add", "add", "propose", "persist", "turn", "flush", "crash"]),
    max_size=60,
)


@given(STEPS, st.integers(0, 1 << 32), st.data())
def test_crashes_at_any_moment_lose_and_double_nothing(
    steps: list[str], seed: int, data: st.DataObject
) -> None:
    node = Node(seed)
    for step in steps:
        number = data.draw(st.integers(0, GROUPS - 1))
        if step == "add":
            node.add(number)
        elif step == "propose":
            node.driver.propose([number])
            node.driver.turn()
        elif step == "persist":
            node.raft.persist_step()
        elif step == "turn":
            node.driver.turn()
        elif step == "flush":
            index = node.groups[number].applied_index
            node.engines[number].flush()
            node.raft.compact(number, index)
        else:
            node.crash()
            node.check()
    node.crash()
    node.check()
