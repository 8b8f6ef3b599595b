"""The shell around the driver on a loop that the test turns by hand: ticks are never early, reads
of a loop turn are asked for together, and a sole voter is never asked for.
"""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from fastnode._raftlog import RaftGroups, SimDisk
from fastnode.clock import GroupClock
from fastnode.config import (
    CALM_BLOCKS_MIN,
    CALM_LOOK_BLOCKS,
    CALM_SHARE,
    CALM_TRANSACTIONS_MAX,
)
from fastnode.errors import Unavailable
from fastnode.flow import Suspension, start
from fastnode.raft.driver import Driver
from fastnode.raft.groups import Groups, Ready
from fastnode.raft.lease import LEASE_NS
from fastnode.raft.runtime import TICK_NS, Runtime
from fastnode.store.group import Group
from fastnode.store.latches import WAIT_TICKS_MAX
from fastnode.store.memory_engine import MemoryEngine
from tests.world import FakeClock


class Handle:
    def cancel(self) -> None:
        pass


class HandLoop:
    """What the runtime uses of an event loop. Timers are rung by the test, at any time."""

    def __init__(self) -> None:
        self.soon: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def add_reader(self, _descriptor: int, _callback: Callable[[], None]) -> None:
        pass

    def call_soon(self, callback: Callable[..., None], *arguments: Any) -> None:
        self.soon.append((callback, arguments))

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Handle:
        self.timers.append((seconds, callback))
        return Handle()

    def run_soon(self) -> None:
        due, self.soon = self.soon, []
        for callback, arguments in due:
            callback(*arguments)

    def ring(self) -> None:
        _, callback = self.timers.pop()
        callback()


class CountingGroups(Groups):
    def __init__(self, raft: RaftGroups) -> None:
        super().__init__(raft)
        self.ticks = self.rounds = self.writes_here = 0
        plain = self.tick

        def tick() -> None:
            self.ticks += 1
            plain()

        self.tick = tick

    def ready(self, *, here: bool = False) -> Ready:
        self.writes_here += here
        return super().ready(here=here)

    def read_index(self, group: int, context: bytes) -> None:
        self.rounds += 1
        super().read_index(group, context)


class Shell:
    def __init__(self, *, is_sole_voter: bool) -> None:
        self.loop, self.clock = HandLoop(), FakeClock()
        self.requests = itertools.count(1)
        self.raft = RaftGroups(
            *(1, "sim", 1), voters=[1], applied=[0], manual=True, disk=SimDisk(1)
        )
        self.groups = CountingGroups(self.raft)
        self.group = Group(0, MemoryEngine(), GroupClock(self.clock), is_sole_voter=is_sole_voter)
        loop: Any = self.loop
        self.runtime = Runtime(loop, self.groups, self.clock.boottime_ns)
        self.group.on_read_waiting = self.runtime.read_waiting
        self.group.on_gathered = self.runtime.gathered
        self.driver = Driver(self.groups, [self.group])
        self.runtime.start(self.driver)

    def settle(self) -> None:
        for _ in range(20):
            self.raft.persist_step()
            self.runtime.turn()
            self.loop.run_soon()


@pytest.fixture
def shell() -> Shell:
    shell = Shell(is_sole_voter=False)
    shell.settle()
    assert shell.group.is_ready
    return shell


def test_a_timer_that_rings_early_makes_no_tick(shell: Shell) -> None:
    before = shell.groups.ticks
    shell.clock.ns += TICK_NS - 1_000_000
    shell.loop.ring()
    assert shell.groups.ticks == before
    ((seconds, _),) = shell.loop.timers
    assert seconds == pytest.approx(0.002), "what is missing, and how early the loop may be"
    shell.clock.ns += 1_000_000
    shell.loop.ring()
    assert shell.groups.ticks == before + 1


def test_a_late_tick_moves_those_after_it(shell: Shell) -> None:
    shell.clock.ns += 5 * TICK_NS
    shell.loop.ring()
    before = shell.groups.ticks
    shell.clock.ns += TICK_NS - 1
    shell.loop.ring()
    assert shell.groups.ticks == before, "ticks that were missed are not made up for"


def test_reads_of_a_loop_turn_are_asked_for_together(shell: Shell) -> None:
    shell.loop.soon.clear()
    reads = [shell.group.readable() for _ in range(30)]
    assert len(shell.loop.soon) == 1
    shell.loop.run_soon()
    assert all(read.is_done for read in reads)
    assert shell.groups.rounds == 1
    assert shell.group.is_readable and not shell.loop.soon


def test_reads_that_come_before_the_barrier_are_asked_for_after_it() -> None:
    shell = Shell(is_sole_voter=False)
    shell.runtime.turn()
    assert not shell.group.is_ready
    read: Suspension = shell.group.readable()
    shell.loop.run_soon()
    assert shell.groups.rounds == 0 and not shell.loop.soon, "asking now would be in vain"
    while not shell.group.is_ready:
        shell.raft.persist_step()
        shell.runtime.turn()
    shell.loop.run_soon()
    assert read.is_done and shell.groups.rounds == 1


def test_reads_fail_and_the_lease_ends_when_the_consensus_takes_no_question(shell: Shell) -> None:
    shell.group.readable()
    shell.loop.run_soon()
    assert shell.group.is_readable
    errors: list[BaseException | None] = []

    async def look() -> None:
        await shell.group.readable()

    start(look(), lambda _result, error: errors.append(error))
    shell.raft.close()
    shell.driver.ask(shell.clock.ns)
    assert isinstance(errors[0], Unavailable)
    assert not shell.group.is_readable


def test_ticks_end_waits_for_a_latch(shell: Shell) -> None:
    txn = shell.group.begin(bytes(16))
    txn.put(b"k", b"v")
    shell.group.submit(txn)
    waiting = shell.group.latches.wait_for([b"k"])
    assert waiting is not None
    for _ in range(WAIT_TICKS_MAX + 1):
        assert not waiting.is_done
        shell.clock.ns += TICK_NS
        shell.loop.ring()
    assert waiting.is_done


def submit(shell: Shell, count: int, beside: int = 0) -> bool:
    """So many at once, and others while their block is written, until all are applied. Whether the
    loop wrote it.
    """
    before = shell.groups.writes_here
    gather(shell, count)
    while not shell.driver.is_persisting:
        shell.loop.run_soon()
    is_written_here = shell.groups.writes_here > before
    gather(shell, beside)
    shell.settle()
    assert not shell.group.unapplied
    return is_written_here


def gather(shell: Shell, count: int) -> None:
    for request in itertools.islice(shell.requests, count):
        shell.group.submit(shell.group.begin(request.to_bytes(16, "big")))


def grow_calm(shell: Shell) -> None:
    for _ in range(CALM_BLOCKS_MIN):
        submit(shell, 1)


@pytest.mark.parametrize("count", [1, 2, CALM_TRANSACTIONS_MAX])
def test_blocks_beside_which_nothing_comes_are_written_by_the_loop(
    shell: Shell, count: int
) -> None:
    assert not submit(shell, count), "nobody knows yet whether others are about"
    for _ in range(CALM_BLOCKS_MIN):
        submit(shell, count)
    assert submit(shell, count)
    assert shell.groups.writes_here % 2 == 0, "each is begun and finished"


def test_while_others_are_about_the_loop_goes_on_with_them(shell: Shell) -> None:
    grow_calm(shell)
    assert submit(shell, 1, beside=1)
    assert not submit(shell, 1)
    grow_calm(shell)
    assert submit(shell, 2 * CALM_SHARE, beside=2)
    assert submit(shell, 1), "an eighth is nearly nothing"


def test_what_comes_between_two_blocks_does_not_come_beside_one(shell: Shell) -> None:
    grow_calm(shell)
    gather(shell, 2)
    shell.runtime.turn()
    assert submit(shell, 1)


def test_the_block_of_many_is_left_to_the_thread(shell: Shell) -> None:
    grow_calm(shell)
    assert not submit(shell, CALM_TRANSACTIONS_MAX + 1)
    assert submit(shell, 1)


def test_a_block_now_and_then_is_left_to_the_thread(shell: Shell) -> None:
    grow_calm(shell)
    by_loop = [submit(shell, 1) for _ in range(3 * CALM_LOOK_BLOCKS)]
    assert by_loop.count(False) == 3


def test_a_lease_in_use_is_renewed_by_ticks_and_an_idle_one_is_not(shell: Shell) -> None:
    shell.group.readable()
    shell.loop.run_soon()
    for _ in range(20):
        shell.clock.ns += TICK_NS
        shell.loop.ring()
        assert shell.group.is_readable
    in_use, halves_of_a_lease = shell.groups.rounds, 20 * TICK_NS // (LEASE_NS // 2)
    assert halves_of_a_lease - 1 <= in_use <= halves_of_a_lease + 2
    for _ in range(20):
        shell.clock.ns += TICK_NS
        shell.loop.ring()
    assert shell.groups.rounds <= in_use + 1
    assert not shell.group.is_readable


def test_a_sole_voter_asks_for_no_round_and_sets_no_callback() -> None:
    shell = Shell(is_sole_voter=True)
    assert not shell.group.is_readable, "before its barrier it may lack what is in the log"
    shell.settle()
    for _ in range(20):
        shell.clock.ns += TICK_NS
        shell.loop.ring()
        assert shell.group.is_readable and not shell.loop.soon
    assert shell.groups.rounds == 0
