"""The replay's pure rules: outcomes and retries, the agreed clock, the drain, plans, counts."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_load.errors import LoadError
from spark_load.replay import command, control, plan
from spark_load.replay.answers import MessageRow
from spark_load.replay.attempts import RetryPolicy, may_repeat, outcome_of
from spark_load.replay.clock import Bounds, bounds_of, narrow
from spark_load.replay.consumer import is_chosen
from spark_load.replay.drain import MARGIN_SECONDS, Drain
from spark_load.replay.job import reason_of
from spark_load.replay.lane import host_bounds
from spark_load.replay.operations import read_column, read_operations
from spark_load.replay.recorder import (
    BATCH_ROWS,
    DICTIONARIES,
    GROUP_ROWS,
    ROWS_WAITING_MAX,
    ParquetRecorder,
)
from spark_load.replay.requests import Held
from spark_load.schema import CALL_COLUMNS, Consumers, FaultMark, Queue
from spark_load.tables import CALLS_ARROW, OPERATIONS_ARROW
from tests.spark.lanes import operation, settings, trace

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(200, "ok"), (204, "ok"), (302, "refused"), (403, "refused"), (500, "unknown")],
)
def test_only_a_server_that_failed_leaves_us_in_doubt(status: int, outcome: str) -> None:
    assert outcome_of(status) == outcome


def test_what_may_pass_is_repeated_and_what_is_wrong_is_not() -> None:
    assert may_repeat("unknown", "timeout")
    assert may_repeat("unsent", "refused")
    assert may_repeat("refused", "RequestThrottled")
    assert not may_repeat("refused", "QueueDoesNotExist")
    assert not may_repeat("ok", None)


def test_pauses_double_up_to_a_bound_and_end() -> None:
    policy = RetryPolicy(attempts=6, pause_ms=100, pause_ms_max=500)
    pauses = [policy.pause_us("call", attempt, "unknown", None) for attempt in range(6)]
    longest = [100_000, 200_000, 400_000, 500_000, 500_000]
    for pause, most in zip(pauses[:-1], longest, strict=True):
        assert pause is not None
        assert most // 2 <= pause <= most
    assert pauses[-1] is None


def test_pauses_are_spread_and_can_be_repeated() -> None:
    policy = RetryPolicy()
    pauses = [policy.pause_us(f"{call}", 0, "unknown", None) for call in range(50)]
    assert len(set(pauses)) > 40
    assert pauses == [policy.pause_us(f"{call}", 0, "unknown", None) for call in range(50)]


@given(
    st.integers(-(10**9), 10**9),
    st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 20_000), st.integers(0, 20_000))),
)
def test_bounds_hold_the_true_offset(offset: int, exchanges: list[tuple[int, int, int]]) -> None:
    """Whatever the ways there and back took, and wherever the milliseconds fall."""
    bounds = narrow(
        bounds_of(
            asked_us=asked,
            answered_us=asked + there + back,
            told_us=(asked + there + offset) // 1_000 * 1_000,
            grain_us=1_000,
        )
        for asked, there, back in exchanges
    )
    assert bounds.low_us <= offset <= bounds.high_us
    assert bounds.is_known == bool(exchanges)


def test_more_tellings_make_bounds_narrower() -> None:
    tellings = [
        bounds_of(
            asked_us=at, answered_us=at + 900, told_us=(at + 450) // 1_000 * 1_000, grain_us=1_000
        )
        for at in range(0, 100_000, 7_310)
    ]
    few, many = narrow(tellings[:1]), narrow(tellings)
    assert many.high_us - many.low_us < 1_200 < few.high_us - few.low_us


def test_offset_that_cannot_be_told_from_none_is_none() -> None:
    assert Bounds(-10, 400).offset_us == 0
    assert Bounds(100, 400).offset_us == 250
    assert Bounds().offset_us == 0


def test_lanes_of_a_host_share_what_they_know_of_its_clock() -> None:
    told = [
        {"host": "a", "low": 100, "high": 900},
        {"host": "b", "low": -9, "high": -7},
        {"host": "a", "low": 400, "high": 1_200},
    ]
    assert host_bounds(told, "a") == Bounds(400, 900)
    assert host_bounds(told, "b") == Bounds(-9, -7)


def test_drain_is_over_when_empty_for_as_long_as_a_lease() -> None:
    drain = Drain(lease_seconds=5, limit_seconds=100)
    drain.sending_ended(0)
    drain.looked(1 * SECOND, 3)
    drain.looked(2 * SECOND, 0)
    drain.looked(6 * SECOND, 0)
    assert not drain.is_over
    drain.looked(int((2 + 5 + MARGIN_SECONDS) * SECOND), 0)
    assert drain.is_over
    assert drain.is_drained


def test_message_that_comes_back_begins_the_drain_anew() -> None:
    drain = Drain(lease_seconds=5, limit_seconds=100)
    drain.sending_ended(0)
    drain.looked(0, 0)
    drain.looked(5 * SECOND, 1)
    drain.looked(6 * SECOND, 0)
    drain.looked(11 * SECOND, 0)
    assert not drain.is_over


def test_counters_that_nobody_can_read_neither_end_nor_restart_a_drain() -> None:
    drain = Drain(lease_seconds=5, limit_seconds=100)
    drain.sending_ended(0)
    drain.looked(0, 0)
    drain.looked(3 * SECOND, None)
    drain.looked(6 * SECOND, 0)
    assert drain.is_drained


def test_stopped_drain_stays_over() -> None:
    drain = Drain(lease_seconds=5, limit_seconds=100)
    drain.sending_ended(0)
    drain.stop()
    drain.looked(SECOND, 3)
    assert drain.is_over
    assert not drain.is_drained


def test_drain_has_a_limit() -> None:
    drain = Drain(lease_seconds=5, limit_seconds=30)
    drain.sending_ended(0)
    drain.looked(30 * SECOND, 7)
    assert drain.is_over
    assert not drain.is_drained


def held(key: str, receives: int = 1) -> Held:
    return Held(key, "m", "h", "r", None, None, receives)


def test_share_of_failures_is_kept_and_differs_by_delivery() -> None:
    chosen = [is_chosen(held(f"k{number}"), "fail", 0.2) for number in range(5_000)]
    assert 900 < sum(chosen) < 1_100
    again = [is_chosen(held(f"k{number}", 2), "fail", 0.2) for number in range(5_000)]
    assert chosen != again
    assert not any(is_chosen(held(f"k{number}"), "fail", 0.0) for number in range(100))
    assert all(is_chosen(held(f"k{number}"), "fail", 1.0) for number in range(100))


def test_every_consumer_belongs_to_one_lane() -> None:
    queues = (Queue("a", consumers=Consumers(count=3)), Queue("b", consumers=Consumers(count=4)))
    planned = plan.Plan(trace([], *queues), settings("http://h:1", lanes=2, consumer_lanes=3))
    assert planned.tasks == 5
    assert [planned.consumers_of(lane) for lane in planned.producer_lanes] == [[], []]
    dealt = [spec for lane in planned.consumer_lanes for spec in planned.consumers_of(lane)]
    assert sorted(dealt) == sorted(planned.consumers())
    assert {len(planned.consumers_of(lane)) for lane in planned.consumer_lanes} == {2, 3}


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4])
def test_no_lane_is_without_consumers(count: int) -> None:
    queue = Queue("a", consumers=Consumers(count=count))
    planned = plan.Plan(trace([], queue), settings("http://h:1", lanes=2, consumer_lanes=3))
    assert planned.tasks == 2 + min(count, 3)
    assert all(planned.consumers_of(lane) for lane in planned.consumer_lanes)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://node:9324", "http://node:9324"),
        ("http://node:9324/", "http://node:9324"),
        ("https://sqs.test", "https://sqs.test"),
        ("http://[::1]:80", "http://[::1]"),
    ],
)
def test_endpoint_is_a_url_without_a_path(text: str, url: str) -> None:
    assert plan.parse_endpoint(text).url == url


@pytest.mark.parametrize("text", ["node:9324", "ftp://node", "http://", "http://n:x", "http://n/p"])
def test_other_endpoints_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(LoadError, match="not an endpoint"):
        plan.parse_endpoint(text)


@pytest.mark.parametrize(
    "changes", [{"lanes": 0}, {"connections": 0}, {"speed": 0.0}, {"speed": float("nan")}]
)
def test_settings_have_limits(changes: dict[str, float]) -> None:
    with pytest.raises(LoadError, match="expected"):
        plan.check(settings("http://h:1", **changes))


def test_dead_letter_queues_come_before_their_sources() -> None:
    queues = (Queue("a", dead_letter="b"), Queue("b", dead_letter="c"), Queue("c"))
    assert [queue.name for queue in control.dead_letters_first(queues)] == ["c", "b", "a"]
    with pytest.raises(LoadError, match="missing"):
        list(control.dead_letters_first((Queue("a", dead_letter="z"),)))


def test_operations_of_a_slice_keep_their_own_messages() -> None:
    rows = [operation(op, op * 10, messages=op % 4 + 1) for op in range(40)]
    batch = pa.RecordBatch.from_pylist(rows, schema=OPERATIONS_ARROW).slice(13, 9)
    found = list(read_operations(batch))
    assert [found.op for found in found] == list(range(13, 22))
    for read, row in zip(found, rows[13:22], strict=True):
        assert [message.key for message in read.messages] == [m["key"] for m in row["messages"]]


@pytest.mark.parametrize("kind", [pa.string(), pa.int32(), pa.int64()], ids=str)
@given(data=st.data())
def test_columns_are_read_as_arrow_reads_them(kind: pa.DataType, data: st.DataObject) -> None:
    known = st.text(max_size=4) if kind == pa.string() else st.integers(-(2**31), 2**31 - 1)
    of_many = data.draw(st.sampled_from([known, known | st.none(), st.none()]))
    column = pa.array(data.draw(st.lists(of_many, max_size=9)), kind)
    start = data.draw(st.integers(0, len(column)))
    part = column.slice(start, data.draw(st.integers(0, len(column) - start)))
    assert read_column(part) == part.to_pylist()


def call_row(number: int, messages: int) -> tuple[object, ...]:
    found = [
        MessageRow(f"k{number}-{index}", "m", None, None, None, None, "ok")
        for index in range(messages)
    ]
    scalars: dict[str, object] = {
        "call": str(number), "attempt": 0, "lane": 3, "role": "producer", "op": number,
        "action": "SendMessage", "queue": "q", "endpoint": "e", "intended_us": number,
        "started_us": number, "ended_us": number, "outcome": "ok", "status": 200,
    }  # fmt: skip
    return (*(scalars.get(column.name) for column in CALL_COLUMNS[:-1]), found)


def test_recorded_rows_are_in_whole_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_load.replay.recorder.FILE_ROWS", GROUP_ROWS)
    recorder = ParquetRecorder(tmp_path, 3)
    count = 2 * GROUP_ROWS + BATCH_ROWS + 7
    for number in range(count):
        recorder.add(call_row(number, number % 3))
        if recorder.has_work:
            recorder.work()
    assert list(tmp_path.glob("*.draft")) or list(tmp_path.glob("*.parquet"))
    recorder.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"lane-0003-{number:04d}.parquet" for number in range(3)
    ]
    table = pq.read_table(tmp_path)
    assert table.schema.equals(CALLS_ARROW)
    assert table["op"].to_pylist() == list(range(count))
    stored = pq.ParquetFile(tmp_path / "lane-0003-0000.parquet").metadata.row_group(0)
    encodings = {
        stored.column(index).path_in_schema: stored.column(index).has_dictionary_page
        for index in range(stored.num_columns)
    }
    assert all(encodings[name] for name in DICTIONARIES)
    assert not encodings["messages.list.element.key"]
    assert [len(messages) for messages in table["messages"].to_pylist()[:4]] == [0, 1, 2, 0]
    assert table["messages"][5].as_py()[1]["key"] == "k5-1"
    assert recorder.rows == count


def test_recorder_says_when_packing_cannot_wait(tmp_path: Path) -> None:
    recorder = ParquetRecorder(tmp_path, 0)
    for number in range(ROWS_WAITING_MAX):
        assert not recorder.is_behind
        recorder.add(call_row(number, 1))
    assert recorder.is_behind
    recorder.work()
    assert not recorder.is_behind
    recorder.close()
    assert recorder.rows == ROWS_WAITING_MAX


def test_recorder_without_rows_leaves_no_file(tmp_path: Path) -> None:
    ParquetRecorder(tmp_path, 0).close()
    assert list(tmp_path.iterdir()) == []


def test_reason_of_a_failed_job_is_one_line() -> None:
    text = (
        "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collect.\n"
        ": org.apache.spark.SparkException: Job aborted:\n"
        "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
        '  File "worker.py", line 1, in main\n'
        "    work: nothing\n"
        "spark_load.errors.LoadError: lane 1 was started a second time\n"
        "\tat org.apache.spark.Something(Some.scala:1)\n"
    )
    assert reason_of(text) == "spark_load.errors.LoadError: lane 1 was started a second time"
    assert reason_of("no slots\n\tat x") == "no slots"
    assert reason_of("") == "no reason given"


def test_fault_marks_are_lines_of_json(tmp_path: Path) -> None:
    path = tmp_path / "faults"
    assert command.read_faults(path) == ()
    path.write_text(json.dumps({"at_us": 5, "label": "leader killed"}) + "\n\n")
    assert command.read_faults(path) == (FaultMark(5, "leader killed"),)
    path.write_text("leader killed\n")
    with pytest.raises(LoadError, match="at_us"):
        command.read_faults(path)
