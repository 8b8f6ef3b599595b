"""When consumers are done: nothing is sent any more, their queues are empty, and have been for as
long as a lease lasts, so that a message that should not come back would have had the time to.

All consumed queues are looked at together: what leaves one as a dead letter arrives in another.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from spark_load.replay.answers import parse
from spark_load.replay.caller import Caller
from spark_load.replay.clock import LaneClock
from spark_load.replay.requests import QueueTarget, counters_body

LOOK_SECONDS: Final = 0.5
# Servers count in milliseconds and sweep now and then.
MARGIN_SECONDS: Final = 0.5
WAIT_SECONDS_MAX: Final = 20


class Drain:
    """The state: pure. Times are the lane clock's."""

    def __init__(self, lease_seconds: float, limit_seconds: float) -> None:
        self._lease_us = int((lease_seconds + MARGIN_SECONDS) * 1e6)
        self._limit_us = int(limit_seconds * 1e6)
        self._ended_us: int | None = None
        self._empty_us: int | None = None
        self.is_over = False
        self.is_drained = False

    @property
    def wait_seconds_max(self) -> int:
        """Of a receive: once the end may be near, none should hold it up for long."""
        return WAIT_SECONDS_MAX if self._ended_us is None else 1

    def sending_ended(self, now_us: int) -> None:
        if self._ended_us is None:
            self._ended_us = now_us

    def looked(self, now_us: int, left: int | None) -> None:
        """So many messages are left in all queues together; None if nobody could say."""
        assert self._ended_us is not None, "queues fill while producers send"
        if left == 0:
            self._empty_us = now_us if self._empty_us is None else self._empty_us
            self.is_drained = now_us - self._empty_us >= self._lease_us
        elif left is not None:
            self._empty_us = None
        is_late = now_us - self._ended_us >= self._limit_us
        # A look that was under way when the run was stopped does not start it again.
        self.is_over = self.is_over or self.is_drained or is_late

    def stop(self) -> None:
        self.is_over = True


async def watch(
    drain: Drain,
    targets: Sequence[QueueTarget],
    caller: Caller,
    clock: LaneClock,
    has_sending_ended: Callable[[], bool],
) -> None:
    """Until the drain is over."""
    while not drain.is_over:
        await asyncio.sleep(LOOK_SECONDS)
        if not has_sending_ended():
            continue
        drain.sending_ended(clock.now_us())
        counts = [await count_left(caller, target) for target in targets]
        left = None if None in counts else sum(filter(None, counts))
        drain.looked(clock.now_us(), left)


async def count_left(caller: Caller, target: QueueTarget) -> int | None:
    counters = await read_counters(caller, target)
    return None if counters is None else sum(counters.values())


async def read_counters(caller: Caller, target: QueueTarget) -> Mapping[str, int] | None:
    """By name; None if the server did not say."""
    body = counters_body(target.url)
    call = await caller.perform("control", "GetQueueAttributes", target.name, body)
    if call.outcome != "ok":
        return None
    attributes = parse(call.answer).get("Attributes", {})
    return {name: int(value) for name, value in attributes.items()}
