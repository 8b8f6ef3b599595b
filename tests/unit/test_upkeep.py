"""When new messages are refused for lack of disk space, and how often the engines are flushed and
compacted then. Not here: a real full disk, see tests/crash.
"""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fastnode import config
from fastnode.errors import DiskFull, OperationError
from fastnode.raft.groups import Groups
from fastnode.store.engine import WriteStalled
from fastnode.upkeep import Upkeep, reserve_bytes
from tests.unit.raft import test_driver

MIB = 1_048_576
GIB = 1_024 * MIB


@pytest.mark.parametrize(
    ("total", "reserve"),
    [
        (1_000 * GIB, 20 * GIB),
        (25 * GIB, 512 * MIB),
        (2 * GIB, 512 * MIB),
        (1 * GIB, 256 * MIB),
        (256 * MIB, 64 * MIB),
    ],
)
def test_the_reserve_is_two_percent_at_least_half_a_gib_at_most_a_quarter(
    total: int, reserve: int
) -> None:
    assert abs(reserve_bytes(total) - reserve) < MIB


def test_messages_are_refused_below_the_reserve_and_accepted_again_above_it() -> None:
    groups: Any = [
        SimpleNamespace(number=n, applied_index=0, accepts_messages=True) for n in (0, 1)
    ]
    raft: Any = None
    free = [65 * MIB]
    upkeep = Upkeep(groups, raft, Path("/"), lambda _path: (free[0], 256 * MIB))
    seen = []
    for free[0] in (65 * MIB, 64 * MIB, 64 * MIB - 1, 0, 64 * MIB):
        upkeep.check_disk()
        seen.append([group.accepts_messages for group in groups])
    assert seen == [[True] * 2, [True] * 2, [False] * 2, [False] * 2, [True] * 2]


class Kept:
    """A node of three groups and what its housekeeping did to which of them."""

    def __init__(self) -> None:
        self.node = test_driver.Node()
        self.done: list[str] = []
        self.free, self.total = 200 * MIB, 256 * MIB
        self.table_bytes = 1 * MIB
        self.memtable_bytes = dict.fromkeys(range(len(self.node.groups)), 0)
        self.freed_by_compaction = 0
        for group in self.node.groups:
            self.watch(group)
        raft = Groups(self.node.raft)
        self.upkeep = Upkeep(self.node.groups, raft, Path("/"), self.space)

    def space(self, path: Path) -> tuple[int, int]:
        return self.free, self.total

    def watch(self, group: Any) -> None:
        plain_flush = group.flush

        def flush() -> None:
            self.done.append(f"flush {group.number}")
            self.memtable_bytes[group.number] = 0
            plain_flush()

        def compact() -> None:
            self.done.append(f"compact {group.number}")
            self.free += self.freed_by_compaction

        group.flush, group.compact = flush, compact
        group.engine_metrics = lambda: {
            "table_bytes": self.table_bytes,
            "memtable_bytes": self.memtable_bytes[group.number],
        }

    def change(self, *numbers: int) -> None:
        for number in numbers:
            self.node.add(number)
        self.node.settle()

    def look(self, idle_seconds: float) -> list[str]:
        self.done.clear()
        asyncio.run(self.upkeep.look(idle_seconds))
        return list(self.done)


@pytest.fixture
def kept() -> Kept:
    kept = Kept()
    kept.change(0, 2)
    return kept


def test_only_what_changed_is_flushed_and_only_when_it_is_time(kept: Kept) -> None:
    assert kept.look(config.FLUSH_INTERVAL_SECONDS - 1) == []
    assert kept.look(config.FLUSH_INTERVAL_SECONDS) == ["flush 0", "flush 2"]
    assert kept.look(config.FLUSH_INTERVAL_SECONDS) == []


def test_a_long_log_is_flushed_before_the_time(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "LOG_BYTES_BEFORE_FLUSH", 1)
    assert kept.look(0.0) == ["flush 0", "flush 2"]


@pytest.mark.parametrize(
    ("megabytes", "flushed"),
    [
        ((16, 16, 16), []),
        ((16, 17, 16), ["flush 1"]),
        ((1, 23, 25), ["flush 2"]),
        ((30, 70, 49), ["flush 1", "flush 2"]),
    ],
)
def test_the_fullest_memtables_make_room_for_the_others(
    kept: Kept, megabytes: Sequence[int], flushed: list[str]
) -> None:
    assert config.MEMTABLES_BYTES == 48 * MIB
    kept.memtable_bytes = {number: size * MIB for number, size in enumerate(megabytes)}
    assert kept.look(0.0) == flushed
    assert kept.look(0.0) == []


def test_low_space_flushes_and_compacts_early_but_not_all_the_time(kept: Kept) -> None:
    kept.free = 10 * MIB
    assert kept.look(config.LOW_SPACE_FLUSH_SECONDS - 1) == []
    everything = ["flush 0", "flush 2", "compact 0", "compact 2"]
    assert kept.look(config.LOW_SPACE_FLUSH_SECONDS) == everything
    assert kept.look(config.LOW_SPACE_FLUSH_SECONDS) == [], "nothing changed, nothing to gain"
    kept.change(2)
    assert kept.look(config.LOW_SPACE_FLUSH_SECONDS) == ["flush 2", "compact 2"]


def test_compaction_ends_when_there_is_room_again_and_messages_are_accepted(kept: Kept) -> None:
    kept.free, kept.freed_by_compaction = 10 * MIB, 100 * MIB
    assert kept.look(config.LOW_SPACE_FLUSH_SECONDS) == ["flush 0", "flush 2", "compact 0"]
    assert all(group.accepts_messages for group in kept.node.groups)


@pytest.mark.parametrize(
    ("table_bytes", "free"),
    [(config.LOW_SPACE_COMPACT_BYTES + 1, 400 * MIB), (6 * MIB, 10 * MIB)],
    ids=["long work", "no room for it"],
)
def test_large_tables_are_not_compacted(kept: Kept, table_bytes: int, free: int) -> None:
    kept.table_bytes, kept.free, kept.total = table_bytes, free, 1_000 * GIB
    assert kept.look(config.LOW_SPACE_FLUSH_SECONDS) == ["flush 0", "flush 2"]


@pytest.mark.parametrize("error", [DiskFull("injected"), WriteStalled("injected")], ids=repr)
def test_a_flush_that_fails_keeps_the_log_and_is_tried_again(
    kept: Kept, error: OperationError
) -> None:
    group: Any = kept.node.groups[0]
    flush = group.flush

    def fail() -> None:
        raise error

    group.flush, kept.free = fail, 10 * MIB
    assert kept.look(config.LOW_SPACE_FLUSH_SECONDS) == ["flush 2", "compact 2"]
    group.flush = flush
    assert kept.look(config.LOW_SPACE_FLUSH_SECONDS) == ["flush 0", "compact 0"]


@pytest.mark.parametrize("error", [None, DiskFull("injected"), WriteStalled("injected")], ids=repr)
def test_a_cancelled_flush_comes_to_its_end_first(kept: Kept, error: OperationError | None) -> None:
    group: Any = kept.node.groups[0]
    begun, may_end = threading.Event(), threading.Event()

    def flush() -> None:
        begun.set()
        assert may_end.wait(60)
        if error is not None:
            raise error

    async def cancel() -> None:
        flushing = asyncio.create_task(kept.upkeep.flush_all())
        await asyncio.to_thread(begun.wait, 60)
        flushing.cancel()
        await asyncio.wait({flushing}, timeout=0.05)
        assert not flushing.done(), "a node would close the engine now"
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await flushing

    group.flush = flush
    asyncio.run(cancel())


@pytest.mark.parametrize(
    ("is_sole_voter", "log_bytes", "kept"),
    [
        (False, 0, config.LOG_ENTRIES_KEPT),
        (False, config.LOG_BYTES_BEFORE_FLUSH // 2, config.LOG_ENTRIES_KEPT),
        (False, config.LOG_BYTES_BEFORE_FLUSH // 2 + 1, config.LOG_ENTRIES_KEPT_MIN),
        (True, 0, 0),
    ],
)
def test_members_that_are_a_little_behind_find_what_they_lack_in_a_short_log(
    is_sole_voter: bool, log_bytes: int, kept: int
) -> None:
    compacted: list[tuple[int, int]] = []
    raft: Any = SimpleNamespace(
        log_bytes=lambda: log_bytes,
        compact=lambda group, index: compacted.append((group, index)),
    )
    group: Any = SimpleNamespace(
        number=0, applied_index=0, is_sole_voter=is_sole_voter, flush=lambda: None
    )
    upkeep = Upkeep([group], raft, Path("/"))
    for group.applied_index in (5, 100_000):
        asyncio.run(upkeep.flush_all())
    assert compacted == [(0, max(5 - kept, 0)), (0, 100_000 - kept)]
