"""Replays without Spark: lanes as threads of the test's process, and traces made by hand."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_load.replay import control
from spark_load.replay.attempts import RetryPolicy
from spark_load.replay.command import make_header
from spark_load.replay.lane import LaneTask, Summary, run_lane
from spark_load.replay.plan import Plan, Settings, parse_endpoint
from spark_load.replay.progress import Board
from spark_load.replay.signing import Credentials
from spark_load.schema import CALLS, Consumers, HistoryHeader, Queue, TraceHeader, message_key
from spark_load.tables import OPERATIONS_ARROW

TRACE_ID = "0123abcd"
RUN = "00c0ffee"
# Only a limit: a busy machine may take this long for seconds of work.
PATIENT = 240


def settings(*urls: str, **changes: Any) -> Settings:
    """Of a run that waits for little."""
    plain = Settings(
        endpoints=tuple(map(parse_endpoint, urls)),
        credentials=Credentials("test", "test", "us-east-1"),
        connections=32,
        retries=RetryPolicy(attempts=5, pause_ms=20),
        call_seconds=10.0,
        drain_seconds=20.0,
        start_seconds=0.2,
    )
    return replace(plain, **changes)


def operation(
    op: int, at_us: int, queue: str = "plain", *, group: str | None = None, messages: int = 1
) -> dict[str, Any]:
    """A send of so many messages."""
    return {
        "op": op,
        "at_us": at_us,
        "queue": queue,
        "action": "SendMessage" if messages == 1 else "SendMessageBatch",
        "group": group,
        "lane_key": f"{queue}/{group}" if group else str(op),
        "messages": [
            {"key": message_key(TRACE_ID, op, index), "size": 60} for index in range(messages)
        ],
    }


def sends(count: int, rate: int, queue: str = "plain", groups: int = 0) -> list[dict[str, Any]]:
    return [
        operation(op, op * 1_000_000 // rate, queue, group=f"g{op % groups}" if groups else None)
        for op in range(count)
    ]


def trace(operations: Sequence[dict[str, Any]], *queues: Queue) -> TraceHeader:
    return TraceHeader(
        trace_id=TRACE_ID,
        workload="by hand",
        digest="",
        seed=1,
        operations=len(operations),
        messages=sum(len(operation["messages"]) for operation in operations),
        duration_us=max((operation["at_us"] for operation in operations), default=0),
        queues=queues or (Queue("plain"),),
    )


def quick(**changes: Any) -> Consumers:
    """Consumers whose leases are over soon."""
    return replace(Consumers(wait_seconds=1, visibility_seconds=1), **changes)


def batches(operations: Sequence[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pylist(list(operations), schema=OPERATIONS_ARROW)


def gatherer(lanes: int) -> list[Callable[[str], Sequence[str]]]:
    """What a barrier stage gives its tasks: everybody's text, when all have come."""
    texts = [""] * lanes
    barrier = threading.Barrier(lanes, timeout=PATIENT)

    def gather(lane: int, text: str) -> list[str]:
        texts[lane] = text
        barrier.wait()
        everybody = list(texts)
        barrier.wait()
        return everybody

    return [partial(gather, lane) for lane in range(lanes)]


def replay(
    directory: Path, operations: Sequence[dict[str, Any]], plan: Plan, run: str = RUN
) -> list[Summary]:
    return replay_whole(directory, operations, plan, run)[0]


def replay_whole(
    directory: Path, operations: Sequence[dict[str, Any]], plan: Plan, run: str = RUN
) -> tuple[list[Summary], HistoryHeader]:
    """All lanes at once; operations are dealt out as Spark would, by their lane key."""
    targets = control.prepare(plan, run, "")
    Board(directory).open()
    dealt: list[list[dict[str, Any]]] = [[] for _ in range(plan.tasks)]
    for found in operations:
        dealt[sum(found["lane_key"].encode()) % plan.settings.lanes].append(found)

    def work(lane: int) -> Summary:
        task = LaneTask(plan, lane, run, str(directory), targets)
        return run_lane(task, batches(dealt[lane]), gathers[lane])

    gathers = gatherer(plan.tasks)
    with ThreadPoolExecutor(plan.tasks) as pool:
        summaries = list(pool.map(work, range(plan.tasks), timeout=PATIENT))
    counters = control.count(plan.settings, run, targets)
    return summaries, make_header(plan, summaries, counters, ())


def history(directory: Path) -> list[dict[str, Any]]:
    """The rows of all lanes."""
    rows: list[dict[str, Any]] = pq.read_table(directory / CALLS).to_pylist()
    return rows
