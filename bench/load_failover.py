"""`make load-failover`: three fresh nodes, traffic on them, the leader killed with -9 in the middle
of it and started again later, the verdict and a report that shows the gap.

All queues are in one group, so one node leads everything and nothing hides its end.
"""

import argparse
import json
import sys
import threading
import time
from pathlib import Path

from bench.load_run import add_directory, load, run_in
from spark_load.headers import read_trace_header
from spark_load.replay.progress import Board
from tests.cluster.harness import Cluster, static_cluster
from tests.cluster.network import Loopback

# Of the time in which the trace sends.
KILL_SHARE, RETURN_SHARE = 0.4, 0.7
LOOK_SECONDS = 0.1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", default="failover")
    add_directory(parser)
    options = parser.parse_args()
    return run_in(options.directory, lambda out: run_three_nodes(options.workload, out))


def run_three_nodes(workload: str, out: Path) -> int:
    nodes = out / "nodes"
    nodes.mkdir()
    with static_cluster(nodes, Loopback(), "--groups", "1") as cluster:
        faults = Faults(cluster, out)
        endpoints = [flag for url in cluster.endpoints() for flag in ("--endpoint", url)]
        with faults:
            return load("run", workload, str(out), *endpoints, "--faults", str(faults.marks))


class Faults(threading.Thread):
    """Kills and restarts the leader while the replay in `out` sends, and marks when it did."""

    def __init__(self, cluster: Cluster, out: Path) -> None:
        super().__init__(name="faults")
        self._cluster = cluster
        self._out = out
        self._board = Board(out / "history")
        self._is_over = threading.Event()
        self.marks = out / "faults.jsonl"

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self.join()

    def run(self) -> None:
        start = self._await_start()
        if start is None:
            return
        seconds = read_trace_header(self._out / "trace").duration_us / 1e6
        (leader,) = set(self._cluster.await_leaders())
        if self._wait_until(start + KILL_SHARE * seconds):
            self._mark("leader killed")
            self._cluster.members[leader].kill()
        if self._wait_until(start + RETURN_SHARE * seconds):
            self._mark("back again")
            self._cluster.members[leader].start()

    def _await_start(self) -> float | None:
        """When the first lane begins to send; None if the run is over before."""
        while not self._is_over.wait(LOOK_SECONDS):
            for lane in self._board.read():
                if lane.start_us:
                    return lane.start_us / 1e6
        return None

    def _wait_until(self, moment: float) -> bool:
        return not self._is_over.wait(max(0.0, moment - time.time()))

    def _mark(self, label: str) -> None:
        with self.marks.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"at_us": time.time_ns() // 1_000, "label": label}) + "\n")


if __name__ == "__main__":
    sys.exit(main())
