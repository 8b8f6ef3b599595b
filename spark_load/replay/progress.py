"""What goes on in a run, while it goes on: small files in the history's directory.

Every lane writes its own file twice a second, the driver and the consumers read them all, and the
driver's `stop` file ends the run early. Files, because the directory is shared already: it works
the same on one machine and on a cluster, and a lane never waits for anybody.
"""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from spark_load.replay.tally import Tally

FOLDER: Final = "progress"
State = Literal["waiting", "running", "ended"]


@dataclass(frozen=True)
class LaneProgress:
    """What a lane said last. `start_us` is 0 until the lanes have agreed on it."""

    lane: int
    state: State
    start_us: int
    at_us: int
    tally: Tally


class Board:
    """The files of one run."""

    def __init__(self, history: Path) -> None:
        self._folder = history / FOLDER

    def open(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)

    def claim(self, lane: int) -> bool:
        """False if the lane has begun before: Spark repeats failed tasks, and a replay that is
        repeated in part is no replay.
        """
        try:
            (self._folder / f"lane-{lane:04d}.begun").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def write(self, progress: LaneProgress) -> None:
        path = self._folder / f"lane-{progress.lane:04d}.json"
        fields = {
            "lane": progress.lane,
            "state": progress.state,
            "start_us": progress.start_us,
            "at_us": progress.at_us,
            "tally": progress.tally.fields(),
        }
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(fields), encoding="utf-8")
        os.replace(draft, path)

    def read(self) -> list[LaneProgress]:
        """Of the lanes that have said something, in order."""
        return [
            LaneProgress(**{**fields, "tally": Tally(**fields["tally"])})
            for fields in map(_load, sorted(self._folder.glob("lane-*.json")))
        ]

    def has_ended(self, lanes: range) -> bool:
        ended = {progress.lane for progress in self.read() if progress.state == "ended"}
        return ended.issuperset(lanes)

    def request_stop(self) -> None:
        (self._folder / "stop").touch()

    def is_stop_requested(self) -> bool:
        return (self._folder / "stop").exists()

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def _load(path: Path) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return fields
