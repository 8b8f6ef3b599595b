"""Traces as Spark makes them: the same for any number of tasks, and what the workload promised."""

import itertools
import tomllib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_load.cli import main
from spark_load.generate import claim_directory, generate
from spark_load.headers import read_trace_header
from spark_load.plan import make_plan
from spark_load.schema import OPERATIONS, TraceHeader
from spark_load.tables import OPERATIONS_ARROW
from spark_load.timestamps import open_recordings
from spark_load.workload import parse_workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Small slices, so that a short trace has many.
SLICE_OPERATIONS = 100
WORKLOAD = tomllib.loads("""
seed = 5
duration = "20s"
[queues.plain]
[queues.orders]
kind = "fifo"
[streams.random]
queue = "plain"
arrivals = {kind = "poisson", rate = 150}
tenants = {count = 4, skew = 1.0}
size = {kind = "histogram", buckets = [[100, 0.5], [1000, 0.5]]}
mix = {SendMessage = 3, SendMessageBatch = 1, GetQueueAttributes = 1}
batch = [2, 4]
delay = {share = 0.25, seconds = [3, 5]}
[streams.even]
queue = "orders"
arrivals = {kind = "ramp", from = 0, to = 100}
groups = {count = 10, skew = 1.0}
size = 500
duplicates = 0.5
""")


def make(spark: "SparkSession", directory: Path, partitions: int) -> tuple[TraceHeader, pa.Table]:
    workload = parse_workload(WORKLOAD, "both", directory)
    claim_directory(directory, overwrite=False)
    header = generate(spark, workload, make_plan(workload), directory, partitions)
    tables = [pq.read_table(path) for path in sorted((directory / OPERATIONS).glob("*.parquet"))]
    assert len(tables) == partitions
    return header, pa.concat_tables(tables)


@pytest.fixture(scope="module")
def small_slices() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spark_load.arrivals.SLICE_OPERATIONS", SLICE_OPERATIONS)
        yield


@pytest.fixture(scope="module")
def trace(
    spark: "SparkSession", small_slices: None, tmp_path_factory: pytest.TempPathFactory
) -> tuple[TraceHeader, pa.Table]:
    return make(spark, tmp_path_factory.mktemp("one"), 1)


@pytest.fixture(scope="module")
def rows(trace: tuple[TraceHeader, pa.Table]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = trace[1].to_pylist()
    return found


def test_one_task_and_eight_make_the_same_trace(
    spark: "SparkSession", trace: tuple[TraceHeader, pa.Table], tmp_path: Path
) -> None:
    header, table = make(spark, tmp_path, 8)
    assert header == trace[0] == read_trace_header(tmp_path)
    # The files follow each other in time: even the order is the same.
    assert table.combine_chunks().equals(trace[1].combine_chunks())


def test_operations_are_dense_sorted_and_as_many_as_promised(
    trace: tuple[TraceHeader, pa.Table], rows: list[dict[str, Any]]
) -> None:
    header, table = trace
    assert [field.name for field in table.schema] == [field.name for field in OPERATIONS_ARROW]
    assert [row["op"] for row in rows] == list(range(header.operations))
    moments = [row["at_us"] for row in rows]
    assert moments == sorted(moments) and 0 <= moments[0] and moments[-1] < header.duration_us
    keys = [message["key"] for row in rows for message in row["messages"]]
    assert header.messages == len(keys) == len(set(keys))
    assert all(
        message["key"] == f"{header.trace_id}-{row['op']}-{place}"
        for row in rows
        for place, message in enumerate(row["messages"])
    )


def test_an_even_ramp_follows_its_curve(rows: list[dict[str, Any]]) -> None:
    moments = [row["at_us"] for row in rows if row["queue"] == "orders.fifo"]
    # 2.5 t² operations until t: number n is due where that is n + ½.
    expected = [((number + 0.5) / 2.5) ** 0.5 * 1e6 for number in range(1000)]
    assert moments == pytest.approx(expected, abs=1)


def test_poisson_gaps_are_exponential(rows: list[dict[str, Any]]) -> None:
    moments = [row["at_us"] for row in rows if row["queue"] == "plain"]
    gaps = [after - before for before, after in itertools.pairwise(moments)]
    mean = sum(gaps) / len(gaps)
    assert mean == pytest.approx(1e6 / 150, rel=0.06)
    variance = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    assert variance**0.5 / mean == pytest.approx(1, abs=0.08)


def test_mix_batches_sizes_and_delays_are_drawn_as_weighted(rows: list[dict[str, Any]]) -> None:
    plain = [row for row in rows if row["queue"] == "plain"]
    actions = Counter(row["action"] for row in plain)
    assert actions["SendMessage"] / len(plain) == pytest.approx(0.6, abs=0.04)
    assert actions["SendMessageBatch"] / len(plain) == pytest.approx(0.2, abs=0.04)
    lengths = Counter((row["action"], len(row["messages"])) for row in plain)
    assert {action: {n for a, n in lengths if a == action} for action in actions} == {
        "SendMessage": {1},
        "SendMessageBatch": {2, 3, 4},
        "GetQueueAttributes": {0},
    }
    messages = [message for row in plain for message in row["messages"]]
    small = [message for message in messages if message["size"] <= 100]
    assert len(small) / len(messages) == pytest.approx(0.5, abs=0.04)
    assert all(len(message["key"]) <= message["size"] <= 1000 for message in messages)
    delays = Counter(message["delay"] for message in messages)
    assert set(delays) == {None, 3, 4, 5}
    assert delays[None] / len(messages) == pytest.approx(0.75, abs=0.04)


def test_tenants_and_groups_are_skewed(rows: list[dict[str, Any]]) -> None:
    tenants = Counter(row["tenant"] for row in rows if row["queue"] == "plain")
    total = sum(1 / rank for rank in range(1, 5))
    for rank in range(1, 5):
        share = tenants[f"random-{rank - 1}"] / tenants.total()
        assert share == pytest.approx(1 / rank / total, abs=0.04)
    groups = Counter(row["group"] for row in rows if row["queue"] == "orders.fifo")
    assert set(groups) == {f"g{number}" for number in range(10)}
    assert groups["g0"] > 4 * groups["g9"]


def test_lanes_keep_groups_together(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        is_fifo = row["queue"] == "orders.fifo"
        assert row["lane_key"] == (f"orders.fifo/{row['group']}" if is_fifo else str(row["op"]))


def test_repeated_operations_have_the_id_and_group_of_another(rows: list[dict[str, Any]]) -> None:
    orders = [row for row in rows if row["queue"] == "orders.fifo"]
    groups: dict[str, set[str]] = {}
    ids = Counter(row["messages"][0]["dedup"] for row in orders)
    for row in orders:
        groups.setdefault(row["messages"][0]["dedup"], set()).add(row["group"])
    assert set(ids.values()) == {1, 2}
    assert Counter(ids.values())[2] / 500 == pytest.approx(0.5, abs=0.07)
    assert all(len(group) == 1 for group in groups.values())


@pytest.mark.long
def test_recorded_moments_are_kept_to_the_microsecond(
    spark: "SparkSession", tmp_path: Path, small_slices: None
) -> None:
    moments = [(number * number * 7919) % 9_000_000 for number in range(400)]
    lines = [f"{1_700_000_000_000_000 + moment}" for moment in moments]
    (tmp_path / "moments.csv").write_text("\n".join(["time", *lines]))
    document = tomllib.loads(
        'duration = "9s"\n[queues.q]\n'
        '[streams.recorded]\nqueue = "q"\nstart = "1s"\nsize = 77\n'
        'arrivals = {kind = "timestamps", file = "moments.csv"}\n'
        '[streams.even]\nqueue = "q"\narrivals = {kind = "constant", rate = 20}\nsize = 55\n'
    )
    workload = parse_workload(document, "recorded", tmp_path)
    recordings = open_recordings(spark, workload)
    plan = make_plan(workload, recordings)
    tables = []
    for partitions in (1, 4):
        directory = tmp_path / str(partitions)
        claim_directory(directory, overwrite=False)
        generate(spark, workload, plan, directory, partitions, recordings)
        tables.append(pq.read_table(directory / OPERATIONS))
    assert tables[0].sort_by("op").equals(tables[1].sort_by("op"))
    rows = tables[0].sort_by("op").to_pylist()
    assert [row["op"] for row in rows] == list(range(len(rows)))
    recorded = [row["at_us"] for row in rows if row["messages"][0]["size"] == 77]
    # From the first moment on, which is 0 here, to the end of the trace.
    assert recorded == sorted(1_000_000 + at for at in moments if at < 8_000_000)
    assert len(rows) - len(recorded) == 180


@pytest.mark.long
def test_another_seed_is_another_trace(
    spark: "SparkSession", trace: tuple[TraceHeader, pa.Table], tmp_path: Path
) -> None:
    workload = parse_workload(WORKLOAD, "both", tmp_path, seed=6)
    claim_directory(tmp_path, overwrite=False)
    header = generate(spark, workload, make_plan(workload), tmp_path)
    assert header.trace_id != trace[0].trace_id
    moments = pq.read_table(tmp_path / OPERATIONS)["at_us"]
    assert moments.to_pylist() != trace[1]["at_us"].to_pylist()


@pytest.mark.long
def test_the_command_makes_a_trace_and_replaces_only_traces(
    spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = str(tmp_path / "trace")
    assert main(["generate", "smoke", directory, "--dry-run"]) == 0
    assert not (tmp_path / "trace").exists()
    assert main(["generate", "smoke", directory]) == 0
    header = read_trace_header(Path(directory))
    assert (
        f"{header.operations:,} operations, {header.messages:,} messages" in capsys.readouterr()[0]
    )
    assert main(["generate", "smoke", directory]) == 2
    assert "is not empty: give --overwrite" in capsys.readouterr()[1]
    assert main(["generate", "smoke", directory, "--overwrite", "--seed", "9"]) == 0
    assert read_trace_header(Path(directory)).seed == 9
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("dear")
    assert main(["generate", "smoke", str(tmp_path / "other"), "--overwrite"]) == 2
    assert "name another directory" in capsys.readouterr()[1]
