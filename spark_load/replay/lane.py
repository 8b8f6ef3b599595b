"""One task of a replay: an asyncio client with its producers or its consumers.

A lane gets ready, agrees with the others on the clock and on the instant to start, works until
nothing is left or it is told to stop, and says in the end what it did.
"""

import asyncio
import gc
import json
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from spark_load.replay import drain, probe
from spark_load.replay.caller import Caller
from spark_load.replay.clock import Bounds, LaneClock, narrow
from spark_load.replay.consumer import Consumer
from spark_load.replay.feed import Feed
from spark_load.replay.pacer import Pacer
from spark_load.replay.plan import Plan
from spark_load.replay.progress import Board, LaneProgress, State
from spark_load.replay.recorder import ParquetRecorder
from spark_load.replay.requests import QueueTarget
from spark_load.replay.tally import Tally
from spark_load.schema import CALLS

try:
    import uvloop
except ImportError:
    # The package is optional, which its type cannot say.
    uvloop = None  # type: ignore[assignment]

WARM_CONNECTIONS: Final = 16
TURN_SECONDS: Final = 0.01
PROGRESS_TURNS: Final = 50
# What is under way when a run is stopped gets so long to end.
STOP_SECONDS: Final = 3.0

# Gives everybody's text to everybody, in the order of the lanes; returns when all have given one.
Gather = Callable[[str], Sequence[str]]


@dataclass(frozen=True)
class LaneTask:
    """What a lane has to know. `run` is 8 hex digits that no other run has."""

    plan: Plan
    lane: int
    run: str
    directory: str
    targets: Mapping[str, QueueTarget]


@dataclass(frozen=True)
class Summary:
    """What a lane did."""

    lane: int
    start_us: int
    ended_us: int
    offset_us: int
    is_complete: bool
    is_drained: bool
    rows: int
    tally: Tally

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> "Summary":
        fields = json.loads(text)
        return Summary(**{**fields, "tally": Tally(**fields["tally"])})


def run_lane(task: LaneTask, batches: Iterable[pa.RecordBatch], gather: Gather) -> Summary:
    """Blocks until the lane is done."""
    with rare_collections(), asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(_Lane(task).run(batches, gather))


def new_loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop() if uvloop is None else uvloop.new_event_loop()


@contextmanager
def rare_collections() -> Iterator[None]:
    """Values that wait for their slot are many and garbage in cycles is rare: to look through the
    former for the latter as often as Python does would stop the clock for milliseconds.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


class _NoRecorder:
    def add(self, row: tuple[object, ...]) -> None:
        pass


class _Lane:
    def __init__(self, task: LaneTask) -> None:
        self._task = task
        self._plan = task.plan
        self._clock = LaneClock()
        self._tally = Tally()
        directory = Path(task.directory)
        self._board = Board(directory)
        self._recorder = ParquetRecorder(directory / CALLS, task.lane)
        self._caller = self._new_caller(self._recorder, self._tally)
        self._drain = drain.Drain(self._plan.visibility_seconds, self._plan.settings.drain_seconds)
        self._state: State = "waiting"
        self._start_us = 0
        self._consumers = self._plan.consumers_of(task.lane)
        self._pacer: Pacer | None = None
        self._is_stopped = False

    async def run(self, batches: Iterable[pa.RecordBatch], gather: Gather) -> Summary:
        keeping = asyncio.create_task(self._keep())
        feed = Feed(batches)
        try:
            async with self._caller:
                await self._get_ready(feed, gather)
                await (self._consume() if self._consumers else self._produce())
        finally:
            keeping.cancel()
            feed.close()
            self._recorder.close()
        self._state = "ended"
        self._report()
        return self._summary()

    async def _get_ready(self, feed: Feed, gather: Gather) -> None:
        settings = self._plan.settings
        bounds = await self._measure_clock()
        # Signatures of what is prepared below have this time.
        self._clock.set_offset(bounds.offset_us)
        await self._caller.warm(min(WARM_CONNECTIONS, settings.connections))
        if not self._consumers:
            self._pacer = Pacer(
                self._caller,
                feed,
                self._task.targets,
                self._clock,
                self._recorder,
                settings.speed,
            )
            await self._work_ahead(self._pacer, feed)
        self._start_us = await asyncio.to_thread(self._agree, bounds, gather)
        self._state = "running"

    async def _work_ahead(self, pacer: Pacer, feed: Feed) -> None:
        """As far as a pacer may, or as far as the trace goes."""
        while not feed.is_ended:
            if not pacer.prepare():
                if pacer.is_prepared:
                    return
                await asyncio.sleep(TURN_SECONDS)

    async def _measure_clock(self) -> Bounds:
        if not self._plan.settings.measures_clock:
            return Bounds()
        async with self._new_caller(_NoRecorder(), Tally()) as caller:
            return await probe.measure(caller, f"clock-{self._task.run}-{self._task.lane}")

    def _agree(self, bounds: Bounds, gather: Gather) -> int:
        """Lanes of one host have one clock, so they share what they know of it."""
        host = socket.gethostname()
        own = {"host": host, "low": bounds.low_us, "high": bounds.high_us}
        told = [json.loads(text) for text in gather(json.dumps(own))]
        self._clock.set_offset(host_bounds(told, host).offset_us)
        ready_us = [int(text) for text in gather(str(self._clock.now_us()))]
        return max(ready_us) + int(self._plan.settings.start_seconds * 1e6)

    async def _produce(self) -> None:
        assert self._pacer is not None
        await self._pacer.run(self._start_us)

    async def _consume(self) -> None:
        plan, task = self._plan, self._task
        await asyncio.sleep(max(0, self._start_us - self._clock.now_us()) / 1e6)
        consumed = {spec.queue for spec in plan.consumers()}
        targets = [task.targets[name] for name in sorted(consumed)]
        watching = drain.watch(
            self._drain,
            targets,
            self._caller,
            self._clock,
            lambda: self._board.has_ended(plan.producer_lanes),
        )
        consumers = [
            Consumer(spec, task.targets[spec.queue], self._caller, self._drain).run()
            for spec in self._consumers
        ]
        await asyncio.gather(watching, *consumers)

    async def _keep(self) -> None:
        """Housekeeping beside everything else."""
        turn = 0
        while True:
            await asyncio.sleep(TURN_SECONDS)
            turn += 1
            if self._consumers and self._recorder.has_work:
                self._recorder.work()
            if turn % PROGRESS_TURNS == 0:
                self._report()
                self._look_for_stop()

    def _look_for_stop(self) -> None:
        if self._is_stopped or not self._board.is_stop_requested():
            return
        self._is_stopped = True
        self._drain.stop()
        if self._pacer is not None:
            self._pacer.stop()
        # What has no answer by then is closed, and so ends.
        self._closing = asyncio.create_task(self._close_soon())

    async def _close_soon(self) -> None:
        await asyncio.sleep(STOP_SECONDS)
        await self._caller.close()

    def _report(self) -> None:
        self._board.write(
            LaneProgress(
                self._task.lane, self._state, self._start_us, self._clock.now_us(), self._tally
            )
        )

    def _new_caller(self, recorder: Any, tally: Tally) -> Caller:
        task = self._task
        return Caller(self._plan.settings, task.lane, task.run, self._clock, recorder, tally)

    def _summary(self) -> Summary:
        return Summary(
            lane=self._task.lane,
            start_us=self._start_us,
            ended_us=self._clock.now_us(),
            offset_us=self._clock.offset_us,
            is_complete=not self._is_stopped,
            is_drained=self._drain.is_drained,
            rows=self._recorder.rows,
            tally=self._tally,
        )


def host_bounds(told: Sequence[Mapping[str, Any]], host: str) -> Bounds:
    """By all lanes of the host together."""
    return narrow(Bounds(lane["low"], lane["high"]) for lane in told if lane["host"] == host)
