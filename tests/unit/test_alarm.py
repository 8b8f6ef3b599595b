"""The alarm: it rings once, at its last time, with few timers of the event loop."""

import asyncio
from collections.abc import Callable
from typing import Any

from fastnode.alarm import IDLE_TIMER_SECONDS, LoopAlarm


class Loop:
    """Time that a test moves, and the timers that were asked for."""

    def __init__(self) -> None:
        self.now = 100.0
        self.started = 0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> "Timer":
        self.started += 1
        timer = Timer(when, callback)
        self.timers.append(timer)
        return timer

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while due := [one for one in self.timers if one.when <= end and not one.is_cancelled]:
            first = min(due, key=lambda one: one.when)
            self.timers.remove(first)
            self.now = max(self.now, first.when)
            first.callback()
        self.now = end


class Timer:
    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        self.when = when
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Bench:
    def __init__(self) -> None:
        loop: Any = Loop()
        self.loop: Loop = loop
        self.alarm = LoopAlarm(loop)
        self.rung: list[float] = []

    def set(self, milliseconds: int) -> None:
        self.alarm.set(5_000 + milliseconds, 5_000, lambda: self.rung.append(self.loop.now))


def test_it_rings_once_at_its_time() -> None:
    bench = Bench()
    bench.set(250)
    bench.loop.advance(0.249)
    assert not bench.rung
    bench.loop.advance(10)
    assert bench.rung == [100.25]


def test_a_time_that_is_past_is_now() -> None:
    bench = Bench()
    bench.set(-1)
    bench.loop.advance(0)
    assert bench.rung == [100.0]


def test_an_earlier_time_replaces_a_later_one() -> None:
    bench = Bench()
    bench.set(900)
    bench.set(200)
    bench.loop.advance(5)
    assert bench.rung == [100.2]


def test_a_later_time_replaces_an_earlier_one_and_needs_no_timer_of_its_own() -> None:
    bench = Bench()
    for number in range(1_000):
        bench.set(1_000)
        bench.loop.advance(0.0001 * (number % 2))
    assert bench.loop.started == 1
    last = bench.loop.now
    bench.loop.advance(5)
    (rung,) = bench.rung
    assert abs(rung - (last + 1.0)) < 0.001
    assert bench.loop.started == 2


def test_what_was_cleared_does_not_ring_and_can_be_set_again() -> None:
    bench = Bench()
    bench.set(500)
    bench.alarm.clear()
    bench.loop.advance(1)
    assert not bench.rung
    bench.set(300)
    bench.alarm.clear()
    bench.set(400)
    bench.loop.advance(5)
    assert bench.rung == [101.4]


def test_a_far_timer_that_nobody_wants_is_not_kept() -> None:
    bench = Bench()
    bench.set(round(IDLE_TIMER_SECONDS * 1_000) + 1)
    bench.alarm.clear()
    assert all(timer.is_cancelled for timer in bench.loop.timers)


def test_it_may_be_set_within_its_ring() -> None:
    loop: Any = Loop()
    alarm, rung = LoopAlarm(loop), list[float]()

    def ring() -> None:
        rung.append(loop.now)
        if len(rung) < 3:
            alarm.set(1_100, 1_000, ring)

    alarm.set(1_100, 1_000, ring)
    loop.advance(5)
    assert [round(at, 3) for at in rung] == [100.1, 100.2, 100.3]


def test_on_a_real_loop_it_is_not_early_by_more_than_a_millisecond() -> None:
    async def scenario() -> float:
        loop = asyncio.get_running_loop()
        rung: asyncio.Future[float] = loop.create_future()
        alarm, began = LoopAlarm(loop), loop.time()
        alarm.set(1_010, 1_000, lambda: None)
        alarm.set(1_050, 1_000, lambda: rung.set_result(loop.time() - began))
        return await rung

    assert asyncio.run(scenario()) >= 0.048
