"""How long `spark_load verify` takes for a long history, and in how much memory: the program as
anybody would start it, on two cores, from its start to its verdict.

`python -m bench.verify` (needs the `spark` extra). The history has no fault; `--rows` says how many
rows it has, and a second one of half the length shows that the memory does not follow. `--memory`
is the heap that the JVM gets: what does not fit in it goes to disk.
"""

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from bench.server_process import ROOT, Server, ServerError, status_bytes
from spark_load import session
from tests.spark.bulk import LIFE, write_bulk

TARGET_ROWS, TARGET_SECONDS = 10_000_000, 60.0
MASTER = "local[2]"
LOOK_SECONDS = 0.2


@dataclass(frozen=True)
class Turn:
    """One verdict. `peak_bytes` is the most that its processes had in memory together."""

    rows: int
    seconds: float
    peak_bytes: int
    verdict: str

    def line(self) -> str:
        return (
            f"{self.rows:>12,} rows  {self.seconds:6.1f} s  {self.rows / self.seconds:>9,.0f} "
            f"rows/s  {self.peak_bytes / 2**20:6,.0f} MiB at most  {self.verdict}"
        )


def make_history(directory: Path, rows: int) -> tuple[Path, Path]:
    """Trace and history; what is there already is taken as it is."""
    trace, history = directory / "trace", directory / "history"
    if not history.exists():
        parser = argparse.ArgumentParser()
        session.add_arguments(parser)
        with session.session(parser.parse_args(["--master", MASTER])) as spark:
            write_bulk(spark, directory, rows // len(LIFE))
    return trace, history


def measure(trace: Path, history: Path, rows: int, memory: str) -> Turn:
    command = [sys.executable, "-m", "spark_load", "verify", str(trace), str(history)]
    command += ["--engine", "spark", "--master", MASTER, "--conf", f"spark.driver.memory={memory}"]
    begun = time.monotonic()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    peak = Peak(process.pid)
    peak.start()
    told, _ = process.communicate()
    seconds = time.monotonic() - begun
    peak.stop()
    return Turn(rows, seconds, peak.bytes, told.splitlines()[-1] if told else "no verdict")


class Peak(threading.Thread):
    """The most that a process and its descendants have in memory at once."""

    def __init__(self, pid: int) -> None:
        super().__init__(name="peak")
        self._server = Server(pid, "", None, 0.0)
        self._is_over = threading.Event()
        self.bytes = 0

    def run(self) -> None:
        while not self._is_over.wait(LOOK_SECONDS):
            self.bytes = max(self.bytes, sum(map(resident, self._server.process_ids())))

    def stop(self) -> None:
        self._is_over.set()
        self.join()


def resident(pid: int) -> int:
    try:
        return status_bytes(pid, "VmRSS")
    except (OSError, ServerError):
        # It has ended since it was listed; one that nobody has waited for yet has no memory left.
        return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=TARGET_ROWS)
    parser.add_argument("--memory", default=session.SETTINGS["spark.driver.memory"])
    parser.add_argument("--directory", type=Path, help="where histories are kept for another time")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-verify-") as scratch:
        directory = options.directory or Path(scratch)
        sizes = (options.rows // 2, options.rows)
        made = [(make_history(directory / str(rows), rows), rows) for rows in sizes]
        turns = [measure(*paths, rows, options.memory) for paths, rows in made]
    for turn in turns:
        print(turn.line())
    is_kept = turns[-1].rows / turns[-1].seconds >= TARGET_ROWS / TARGET_SECONDS
    print(f"{TARGET_ROWS:,} rows in {TARGET_SECONDS:.0f} s: {'kept' if is_kept else 'MISSED'}")
    return 0 if is_kept and all(turn.verdict == "verdict: clean" for turn in turns) else 1


if __name__ == "__main__":
    sys.exit(main())
