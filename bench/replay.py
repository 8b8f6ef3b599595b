"""How fast and how punctual one lane of `spark_load replay` is on one core, without Spark: a trace
made up in memory, the whole way to the Parquet files, against the echo server on another core.

Turns of two kinds, in alternation: the target rate, which has to be kept, and half of it, where the
figure is the scheduling error, the time from when a request was due to when it was sent. The
median over the turns of each kind counts, as everywhere in this folder.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.machine import choose_cores
from bench.server_process import echo_server
from spark_load.replay.lane import LaneTask, run_lane
from spark_load.replay.plan import Plan, Settings, parse_endpoint
from spark_load.replay.progress import Board
from spark_load.replay.requests import QueueTarget
from spark_load.replay.signing import Credentials
from spark_load.schema import CALLS, Queue, TraceHeader, message_key
from spark_load.tables import OPERATIONS_ARROW

TARGET_RATE = 15_000
TARGET_ERROR_US = 2_000
# What is not answered yet when the last request is due makes the rate of a whole turn a bit lower.
RATE_SHARE = 0.99
TRACE_ID = "0000feed"
BODY_BYTES = 200
BATCH_ROWS = 2_000


@dataclass(frozen=True)
class Turn:
    """What one run of a lane showed. The rate counts from the first request to the last answer."""

    offered: int
    requests: int
    rate: float
    errors: int
    late_p50_us: int
    late_p99_us: int
    late_max_us: int
    cpu_us: float

    def line(self) -> str:
        return (
            f"offered {self.offered:>7}/s  answered {self.rate:>8.0f}/s  errors {self.errors}  "
            f"CPU {self.cpu_us:.1f} µs per request  scheduling error p50 {self.late_p50_us} µs, "
            f"p99 {self.late_p99_us} µs, max {self.late_max_us} µs"
        )


def measure(address: str, *, rate: int, seconds: float, connections: int = 64) -> Turn:
    """One lane at that rate."""
    count = int(rate * seconds)
    with tempfile.TemporaryDirectory(prefix="bench-replay-") as directory:
        board = Board(Path(directory))
        board.open()
        task = lane_task(address, count, directory, connections)
        operations = list(batches(count, rate))
        cpu = time.process_time()
        summary = run_lane(task, operations, lambda text: [text])
        cpu = time.process_time() - cpu
        history = pq.read_table(
            Path(directory, CALLS), columns=["intended_us", "started_us", "ended_us"]
        )
    late = pc.subtract(history["started_us"], history["intended_us"])
    p50, p99 = pc.quantile(late, [0.5, 0.99], interpolation="higher").to_pylist()
    bounds = pc.max(history["ended_us"]).as_py() - pc.min(history["started_us"]).as_py()
    return Turn(
        offered=rate,
        requests=history.num_rows,
        rate=history.num_rows / bounds * 1e6,
        errors=summary.tally.attempts - summary.tally.sent,
        late_p50_us=p50,
        late_p99_us=p99,
        late_max_us=pc.max(late).as_py(),
        cpu_us=cpu / count * 1e6,
    )


def lane_task(address: str, count: int, directory: str, connections: int) -> LaneTask:
    settings = Settings(
        endpoints=(parse_endpoint(f"http://{address}"),),
        credentials=Credentials("AKIDEXAMPLE", "benchmark-secret", "us-east-1"),
        connections=connections,
        measures_clock=False,
        start_seconds=0.2,
    )
    trace = TraceHeader(TRACE_ID, "bench", "", 0, count, count, 0, (Queue("bench"),))
    target = QueueTarget("bench", f"http://{address}/000000000000/bench", "0123abcd")
    return LaneTask(Plan(trace, settings), 0, "0123abcd", directory, {"bench": target})


def batches(count: int, rate: int) -> Iterator[pa.RecordBatch]:
    for first in range(0, count, BATCH_ROWS):
        yield batch(range(first, min(first + BATCH_ROWS, count)), rate)


def batch(operations: range, rate: int) -> pa.RecordBatch:
    rows = [
        {
            "op": op,
            "at_us": op * 1_000_000 // rate,
            "queue": "bench",
            "action": "SendMessage",
            "lane_key": str(op),
            "messages": [{"key": message_key(TRACE_ID, op, 0), "size": BODY_BYTES}],
        }
        for op in operations
    ]
    return pa.RecordBatch.from_pylist(rows, schema=OPERATIONS_ARROW)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=TARGET_RATE)
    parser.add_argument("--seconds", type=float, default=5.0, help="of a turn")
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    server_core, lane_core = choose_cores()
    with echo_server(server_core) as echo:
        if lane_core is not None:
            os.sched_setaffinity(0, {lane_core})
        turns = [
            measure(echo.address, rate=rate, seconds=options.seconds)
            for _ in range(options.turns)
            for rate in (options.rate, options.rate // 2)
        ]
    for turn in turns:
        print(turn.line())
    return judge(turns, options.rate)


def judge(turns: list[Turn], rate: int) -> int:
    """The verdict, printed; the exit code."""
    kept = statistics.median(turn.rate for turn in turns if turn.offered == rate)
    error_us = statistics.median(turn.late_p99_us for turn in turns if turn.offered != rate)
    keeps_rate = kept >= RATE_SHARE * rate and not any(turn.errors for turn in turns)
    print(f"{kept:.0f}/s answered of {rate} offered: {'kept' if keeps_rate else 'MISSED'}")
    is_punctual = error_us <= TARGET_ERROR_US
    verdict = "kept" if is_punctual else "MISSED"
    print(f"p99 scheduling error at half of it {error_us:.0f} µs: {verdict}")
    return 0 if keeps_rate and is_punctual else 1


if __name__ == "__main__":
    sys.exit(main())
