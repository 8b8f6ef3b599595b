"""The open loop: every operation of a lane begins when it is due, whatever became of those before.

Between due times the lane works ahead, in steps that are short against a millisecond: requests are
made and signed, rows of the history are packed. What cannot begin in time, because the lane or its
connections are busy, begins late and is recorded as such: its latency counts from its due time.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Final

from spark_load.replay.answers import message_row
from spark_load.replay.caller import Call, Caller
from spark_load.replay.clock import LaneClock
from spark_load.replay.feed import Feed
from spark_load.replay.operations import Operation
from spark_load.replay.recorder import ParquetRecorder
from spark_load.replay.requests import QueueTarget, operation_body

TICK_SECONDS: Final = 0.001
IDLE_SECONDS_MAX: Final = 0.02
STEP_OPERATIONS: Final = 24
BURST_MAX: Final = 128
# Ahead of their slot: as much as this of either.
PREPARED_MAX: Final = 8_192
PREPARED_BYTES_MAX: Final = 64 * 1024 * 1024
# Begun and not ended, or waiting for a connection. Beyond it what is due stays in the trace, late.
UNDER_WAY_MAX: Final = 16_384
UNDER_WAY_BYTES_MAX: Final = 256 * 1024 * 1024


class Pacer:
    """The producers of one lane."""

    def __init__(
        self,
        caller: Caller,
        feed: Feed,
        targets: Mapping[str, QueueTarget],
        clock: LaneClock,
        recorder: ParquetRecorder,
        speed: float,
    ) -> None:
        self._caller = caller
        self._feed = feed
        self._targets = targets
        self._clock = clock
        self._recorder = recorder
        self._speed = speed
        self._start_us = 0
        # Their `intended_us` counts from the start until they begin.
        self._ready: deque[Call] = deque()
        self._ready_bytes = 0
        self._under_way = 0
        self._under_way_bytes = 0
        self._is_stopped = False

    def prepare(self) -> bool:
        """Works ahead by one step; False if there is nothing to do, or enough is done."""
        if self.is_prepared:
            return False
        operations = self._feed.take(STEP_OPERATIONS)
        for operation in operations:
            call = self._call(operation)
            self._caller.sign(call)
            self._ready.append(call)
            self._ready_bytes += len(call.body)
        return bool(operations)

    @property
    def is_prepared(self) -> bool:
        """As far ahead as it may be."""
        return len(self._ready) >= PREPARED_MAX or self._ready_bytes >= PREPARED_BYTES_MAX

    async def run(self, start_us: int) -> None:
        """Until everything has ended, or `stop` was called and what was under way has ended."""
        self._start_us = start_us
        while not self._is_finished:
            now_us = self._clock.now_us()
            self._begin_due(now_us)
            self._caller.run_due(now_us)
            await asyncio.sleep(0 if self._work() else self._pause_seconds(now_us))

    def stop(self) -> None:
        self._is_stopped = True
        self._ready.clear()

    def _begin_due(self, now_us: int) -> None:
        """What is due by now, but not so much at once that answers would have to wait for it."""
        ready, due_us = self._ready, now_us - self._start_us
        for _ in range(BURST_MAX):
            if not ready or ready[0].intended_us > due_us or self._is_full:
                break
            call = ready.popleft()
            call.intended_us += self._start_us
            self._ready_bytes -= len(call.body)
            self._under_way += 1
            self._under_way_bytes += len(call.body)
            self._caller.start(call)
        self._caller.tally.lag_us = max(0, due_us - ready[0].intended_us) if ready else 0

    @property
    def _is_full(self) -> bool:
        return self._under_way >= UNDER_WAY_MAX or self._under_way_bytes >= UNDER_WAY_BYTES_MAX

    def _work(self) -> bool:
        """One step of what is most urgent; False if there is none."""
        recorder = self._recorder
        is_first = recorder.is_behind or (recorder.has_work and self._is_ahead)
        if not is_first and not self._is_stopped and self.prepare():
            return True
        if recorder.has_work:
            recorder.work()
            return True
        return False

    @property
    def _is_ahead(self) -> bool:
        """Enough is prepared for the next moments, or nothing more can be."""
        return len(self._ready) >= PREPARED_MAX // 2 or self._feed.is_ended

    def _pause_seconds(self, now_us: int) -> float:
        if not self._ready:
            return TICK_SECONDS
        # A tick even if more is due: the next burst can wait, or there is no room for it.
        until_us = self._start_us + self._ready[0].intended_us - now_us
        return min(max(until_us / 1e6, TICK_SECONDS), IDLE_SECONDS_MAX)

    @property
    def _is_finished(self) -> bool:
        has_more = not self._is_stopped and (self._ready or not self._feed.is_ended)
        return not has_more and self._under_way == 0

    def _call(self, operation: Operation) -> Call:
        target = self._targets[operation.queue]
        group = operation.group
        call = Call(
            self._caller,
            "producer",
            operation.action,
            operation.queue,
            operation_body(target, operation),
            self._ended,
            [
                message_row((message.key, None, None, None, group, None, "unknown"))
                for message in operation.messages
            ],
            operation.op,
        )
        call.intended_us = int(operation.at_us / self._speed)
        return call

    def _ended(self, call: Call) -> None:
        self._under_way -= 1
        self._under_way_bytes -= len(call.body)
        # A loop's timers are not exact to the millisecond, but answers come all the time.
        ready = self._ready
        if ready and ready[0].intended_us + self._start_us <= call.ended_us:
            self._begin_due(call.ended_us)
