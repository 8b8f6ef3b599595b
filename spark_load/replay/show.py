"""Shows a run while it goes on: a bar on a terminal, a line every few seconds elsewhere.

What is shown follows from the lanes' progress alone, by pure functions; rich draws the bar if it is
installed.
"""

import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, Self, TextIO

from spark_load.replay.plan import Plan
from spark_load.replay.progress import LaneProgress
from spark_load.replay.tally import Tally, total

LINE_SECONDS: Final = 5.0
# Lanes tell their counts twice a second, so less than this would show when they did.
RATE_SECONDS: Final = 3.0


@dataclass(frozen=True)
class View:
    """A run at one moment."""

    stage: str
    seconds: float
    seconds_planned: float
    rate: float
    tally: Tally

    @property
    def share(self) -> float:
        """Of the planned time; the drain comes after it."""
        return min(1.0, self.seconds / self.seconds_planned) if self.seconds_planned else 1.0

    def text(self) -> str:
        tally = self.tally
        return (
            f"{self.stage} {self.seconds:.0f}/{self.seconds_planned:.0f} s · "
            f"{self.rate:.0f} calls/s · {tally.sent} sent · {tally.received} received · "
            f"{tally.deleted} deleted · {tally.refused + tally.unknown} errors · "
            f"{tally.retries} retries · late p99 {milliseconds(tally.late_us(0.99))} · "
            f"lag {milliseconds(tally.lag_us)}"
        )

    def short_text(self) -> str:
        """What fits on a line of a terminal, beside a bar."""
        tally = self.tally
        return (
            f"{self.stage} {self.seconds:.0f}/{self.seconds_planned:.0f} s "
            f"{self.rate:.0f}/s {tally.refused + tally.unknown} errors "
            f"late {milliseconds(tally.late_us(0.99))} lag {milliseconds(tally.lag_us)}"
        )


def milliseconds(us: int) -> str:
    return f"{us / 1_000:.1f} ms"


def view(lanes: Sequence[LaneProgress], plan: Plan, before: "View | None") -> View:
    """What the lanes said last, compared with the view before."""
    tally = total([lane.tally for lane in lanes])
    began = [lane for lane in lanes if lane.start_us]
    seconds = max(((lane.at_us - lane.start_us) / 1e6 for lane in began), default=0.0)
    elapsed = seconds - before.seconds if before else seconds
    calls = tally.attempts - before.tally.attempts if before else tally.attempts
    return View(
        stage=stage_of(lanes, plan),
        seconds=max(seconds, 0.0),
        seconds_planned=plan.seconds,
        rate=calls / elapsed if elapsed > 0 else 0.0,
        tally=tally,
    )


def stage_of(lanes: Sequence[LaneProgress], plan: Plan) -> str:
    states = {lane.lane: lane.state for lane in lanes}
    if any(states.get(lane, "waiting") == "waiting" for lane in range(plan.tasks)):
        return "starting"
    if any(states[lane] == "running" for lane in plan.producer_lanes):
        return "sending"
    return "draining" if any(state == "running" for state in states.values()) else "ended"


class Watch:
    """Views of one run, one after the other; their rate is that of the last seconds."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._views: deque[View] = deque()

    def look(self, lanes: Sequence[LaneProgress]) -> View:
        now = view(lanes, self._plan, self._views[0] if self._views else None)
        self._views.append(now)
        while now.seconds - self._views[0].seconds > RATE_SECONDS:
            self._views.popleft()
        return now


class Lines:
    """A line now and then."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._next = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, shown: View) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + LINE_SECONDS
            self._stream.write(f"replay: {shown.text()}\n")
            self._stream.flush()


class Bar:
    """A bar that stays in its place."""

    def __init__(self, progress: Any) -> None:
        self._progress = progress
        self._task = progress.add_task("replay", total=1.0, text="starting")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, shown: View) -> None:
        self._progress.update(self._task, completed=shown.share, text=shown.short_text())


def display(stream: TextIO = sys.stderr) -> "AbstractContextManager[Lines | Bar]":
    """What suits the stream."""
    if not stream.isatty():
        return Lines(stream)
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn
    except ImportError:
        return Lines(stream)
    columns = (BarColumn(bar_width=16), TextColumn("{task.fields[text]}"))
    return Bar(Progress(*columns, console=Console(file=stream)))
