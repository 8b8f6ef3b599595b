"""The replay command: bad input in one line, and on Spark from a trace to a history."""

import json
import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_load import cli, headers
from spark_load.replay.job import deal, read_lane
from spark_load.replay.operations import read_operations
from spark_load.replay.progress import Board
from spark_load.schema import OPERATIONS, TRACE_HEADER, Queue
from spark_load.tables import OPERATIONS_ARROW
from tests.spark.lanes import history, operation, quick, sends, trace
from tests.spark.stub_sqs import Faults, StubSqs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def written(directory: Path, operations: Sequence[dict[str, Any]], *queues: Queue) -> Path:
    """A trace of two files, neither of them in order."""
    found = directory / "trace"
    (found / OPERATIONS).mkdir(parents=True)
    for half in range(2):
        table = pa.Table.from_pylist(list(operations[half::2])[::-1], schema=OPERATIONS_ARROW)
        pq.write_table(table, found / OPERATIONS / f"part-{half}.parquet")
    headers.write_trace_header(found, trace(operations, *queues))
    return found


def replay(*arguments: str | Path) -> int:
    return cli.main(["replay", *map(str, arguments)])


@pytest.fixture
def small_trace(tmp_path: Path) -> Path:
    return written(tmp_path, sends(2, 10))


def test_dry_run_says_what_would_run(
    small_trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = replay(small_trace, tmp_path / "h", "--endpoint", "http://nobody:1", "--dry-run")
    assert code == cli.EXIT_OK
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("trace 0123abcd (by hand): 2 operations, 2 messages in 0.1 s")
    assert "to http://nobody:1, open loop, 1 producer lanes" in shown[1]
    assert not (tmp_path / "h").exists()


def test_bad_input_is_told_in_one_line(
    small_trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = tmp_path / "h"
    at = ("--endpoint", "http://127.0.0.1:9")

    def complaint(*arguments: str | Path) -> str:
        assert replay(*arguments) == cli.EXIT_USAGE
        (line,) = capsys.readouterr().err.splitlines()
        return line

    assert "no endpoint" in complaint(small_trace, new)
    assert "is not a trace" in complaint(tmp_path, new, *at)
    assert "--lanes 0: expected 1 to" in complaint(small_trace, new, *at, "--lanes", "0")
    assert "cannot be reached" in complaint(small_trace, new, *at)
    (new / "calls").mkdir(parents=True)
    (new / "calls" / "x.parquet").touch()
    assert "holds a history already" in complaint(small_trace, new, *at)
    headers.write_trace_header(small_trace, trace([]))
    assert "has no operations" in complaint(small_trace, new, *at)
    fields = json.loads((small_trace / TRACE_HEADER).read_text())
    (small_trace / TRACE_HEADER).write_text(json.dumps({**fields, "version": 2}))
    assert "version 2" in complaint(small_trace, new, *at)


def test_wrong_credentials_are_told_in_one_line(
    small_trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with StubSqs(Faults(access_key="other")) as stub:
        assert replay(small_trace, tmp_path / "h", "--endpoint", stub.url) == cli.EXIT_USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert "refuses the credentials" in line


@pytest.mark.long
def test_lanes_get_whole_groups_in_the_order_of_time(spark: "SparkSession", tmp_path: Path) -> None:
    operations = [
        operation(op, op * 10, "a.fifo", group=f"g{op % 7}") if op % 2 else operation(op, op * 10)
        for op in range(400)
    ]
    deal(spark, written(tmp_path, operations), 3, tmp_path)
    dealt = [
        [found for batch in read_lane(tmp_path, lane) for found in read_operations(batch)]
        for lane in range(3)
    ]
    assert sorted(found.op for lane in dealt for found in lane) == list(range(400))
    for lane in dealt:
        assert [found.op for found in lane] == sorted(found.op for found in lane)
        assert len(lane) > 60
    groups = [{found.group for found in lane} - {None} for lane in dealt]
    assert sum(map(len, groups)) == 7
    assert list(read_lane(tmp_path, 3)) == []


def test_trace_becomes_a_history(
    spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    operations = sends(60, 100, "a.fifo", groups=3)
    found = written(tmp_path, operations, Queue("a.fifo", consumers=quick()))
    marks = tmp_path / "faults"
    marks.write_text('{"at_us": 7, "label": "leader killed"}\n')
    with StubSqs(Faults(clock_ahead_ms=9_000)) as stub:
        code = replay(found, tmp_path / "h", "--endpoint", stub.url, "--faults", marks)
    assert code == cli.EXIT_OK
    header = headers.read_history_header(tmp_path / "h")
    assert header.is_complete
    assert header.endpoints == (stub.url,)
    assert {sum(counters.values()) for counters in header.counters.values()} == {0}
    assert [mark.label for mark in header.faults] == ["leader killed"]
    assert all(-10_000_000 < offset < -8_000_000 for offset in header.clock_offsets_us.values())
    rows = history(tmp_path / "h")
    assert sorted(row["op"] for row in rows if row["op"] is not None) == list(range(60))
    assert min(row["intended_us"] for row in rows if row["op"] == 0) == header.began_us
    assert sorted(path.name for path in (tmp_path / "h").iterdir()) == ["calls", "history.json"]
    assert "calls in" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.long
def test_interrupted_run_keeps_what_was_recorded(
    spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ten minutes of trace; the signal comes when the lanes are at work."""
    found = written(tmp_path, sends(6_000, 10), Queue("plain", consumers=quick()))
    board = Board(tmp_path / "h")

    def interrupt() -> None:
        while not any(lane.tally.sent for lane in board.read()):
            if finished.wait(0.1):
                return
        os.kill(os.getpid(), signal.SIGINT)

    finished = threading.Event()
    thread = threading.Thread(target=interrupt)
    with StubSqs() as stub:
        thread.start()
        code = replay(found, tmp_path / "h", "--endpoint", stub.url)
        finished.set()
        thread.join()
    assert code == cli.EXIT_USAGE
    assert not headers.read_history_header(tmp_path / "h").is_complete
    assert 0 < len([row for row in history(tmp_path / "h") if row["op"] is not None]) < 600
    assert "stopped early" in capsys.readouterr().err
