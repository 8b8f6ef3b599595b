"""The arithmetic behind a trace: rate curves, counts, alias tables, pieces, names: no Spark."""

import math
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_load import arrivals
from spark_load.arrivals import Cell, Segment, cells, poisson, slice_width_us, uniform
from spark_load.draws import alias_table, histogram_sizes, lognormal_sizes, zipf_weights
from spark_load.operations import (
    Layout,
    Naming,
    OperationWriter,
    name_operations,
    write_pieces,
)
from spark_load.plan import cut_pieces

SECOND = 1_000_000
NAMING = Naming("abcd0123", ["plain", "orders.fifo"], ["t", None], [None, "g"])


def even(segments: list[Segment], slice_us: int) -> list[Cell]:
    return list(cells(segments, slice_us, stream=0, seed=1, is_poisson=False))


@given(
    st.lists(st.tuples(st.floats(0, 500), st.integers(1, 5 * SECOND)), min_size=1, max_size=6),
    st.integers(50_000, 9 * SECOND),
)
def test_even_cells_hold_the_whole_integral_however_they_are_cut(
    points: list[tuple[float, int]], slice_us: int
) -> None:
    begin, segments = 0, []
    for (rate, length), (next_rate, _) in zip(points, [*points[1:], points[0]], strict=True):
        segments.append(Segment(begin, begin + length, rate, next_rate))
        begin += length
    area = sum(segment.area for segment in segments)
    found = even(segments, slice_us)
    assert sum(cell.operations for cell in found) == pytest.approx(area, abs=0.51)
    numbers = [n for cell in found for n in range(cell.first, cell.first + cell.operations)]
    assert numbers == list(range(len(numbers)))
    for cell in found:
        assert cell.begin_us // slice_us == (cell.end_us - 1) // slice_us == cell.slice
        assert cell.offset is not None
        assert -1e-6 <= cell.offset
        assert cell.offset + cell.operations - 1 <= cell.area + 1e-6


def test_curves_have_the_areas_they_promise() -> None:
    def area(segments: list[Segment]) -> float:
        return sum(segment.area for segment in segments)

    assert area(arrivals.constant(0, 10 * SECOND, 5)) == 50
    assert area(arrivals.ramp(0, 10 * SECOND, 0, 10)) == 50
    assert area(arrivals.bursts(0, 10 * SECOND, (10, 1), (SECOND, 3 * SECOND))) == 37
    day = arrivals.diurnal(0, 24 * SECOND, (10, 30), 24 * SECOND, 14 * SECOND)
    assert area(day) == pytest.approx(480)
    peak = max(day, key=lambda segment: segment.begin_rate)
    assert peak.begin_us == 14 * SECOND and peak.begin_rate == 30
    points = [(0, 0.0), (2 * SECOND, 10.0)]
    assert area(arrivals.curve(0, 5 * SECOND, points)) == 40
    assert arrivals.curve(0, SECOND, points)[-1] == Segment(0, SECOND, 0, 5)


@pytest.mark.parametrize("mean", [0.3, 7.0, 59.0, 61.0, 5_000.0])
def test_poisson_counts_have_mean_and_variance_alike(mean: float) -> None:
    draws = [poisson(mean, uniform(1, 2, number)) for number in range(4_000)]
    average = sum(draws) / len(draws)
    variance = sum((draw - average) ** 2 for draw in draws) / len(draws)
    assert average == pytest.approx(mean, rel=0.05)
    assert variance == pytest.approx(mean, rel=0.12)


def test_poisson_is_exact_where_both_ways_meet() -> None:
    shares = [(number + 0.5) / 500 for number in range(500)]
    for mean in (arrivals.EXACT_POISSON_MAX - 0.01, arrivals.EXACT_POISSON_MAX + 0.01):
        draws = [poisson(mean, share) for share in shares]
        assert draws == sorted(draws)
        assert sum(draws) / 500 == pytest.approx(mean, abs=0.15)


def test_slices_are_bounded_whatever_the_number_of_operations() -> None:
    assert slice_width_us(SECOND, 10) == SECOND
    assert math.ceil(3600 * SECOND / slice_width_us(3600 * SECOND, 1e12)) <= arrivals.SLICES_MAX


@given(st.lists(st.floats(0.001, 1000), min_size=1, max_size=30))
def test_alias_tables_keep_the_weights(weights: list[float]) -> None:
    keep, other = table = alias_table(weights)
    shares = [share / len(weights) for share in keep]
    for row, share in enumerate(keep):
        shares[other[row]] += (1 - share) / len(weights)
    expected = [weight / sum(weights) for weight in weights]
    assert shares == pytest.approx(expected)
    assert 0 <= table.draw(0.0) and table.draw(1 - 2**-52) < len(weights)


def test_zipf_and_sizes() -> None:
    assert zipf_weights(3, 1.0) == [1, 1 / 2, 1 / 3]
    sizes = lognormal_sizes(400, 1.0, 20_000)
    assert sizes.lows[128] == 400 and sizes.largest <= 20_000
    assert all(low <= high for low, high in zip(sizes.lows, sizes.highs, strict=True))
    assert lognormal_sizes(9, 0.0, 20) == ([1.0] * 256, [9] * 256, [9] * 256)
    assert histogram_sizes([(10, 0.5), (30, 0.2)]) == ([0.5, 0.2], [1, 11], [10, 30])


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(1, 12))
def test_pieces_are_whole_slices_of_equal_work(counts: list[int], wanted: int) -> None:
    planned = [
        Cell(number // 2, number % 2, 0, count, 0, 1, 1, 1, 1, None)
        for number, count in enumerate(counts)
    ]
    pieces = cut_pieces(planned, wanted)
    assert [cell for piece in pieces for cell in piece.cells] == planned
    assert 1 <= len(pieces) <= wanted
    done = 0
    for number, piece in enumerate(pieces):
        assert (piece.number, piece.first_op) == (number, done)
        done += sum(cell.operations for cell in piece.cells)
    slices = [{cell.slice for cell in piece.cells} for piece in pieces]
    assert sum(map(len, slices)) == len(set().union(*slices))
    largest = max(sum(cell.operations for cell in piece.cells) for piece in pieces)
    assert largest <= sum(counts) / wanted + 100


def drawn(rows: list[tuple[int, int, int, list[int]]]) -> pa.RecordBatch:
    """From (stream, source, at_us, sizes)."""
    streams, sources, moments, sizes = (list(column) for column in zip(*rows, strict=True))
    is_fifo = [stream == 1 for stream in streams]
    return pa.RecordBatch.from_pydict(
        {
            "stream": pa.array(streams, pa.int32()),
            "source": pa.array(sources, pa.int64()),
            "at_us": pa.array(moments, pa.int64()),
            "action": pa.array(
                [min(len(size), 2) - 1 if size else 2 for size in sizes], pa.int32()
            ),
            "tenant": pa.array([None if fifo else 3 for fifo in is_fifo], pa.int32()),
            "group": pa.array([5 if fifo else None for fifo in is_fifo], pa.int32()),
            "delay": pa.array([None if fifo else 7 for fifo in is_fifo], pa.int32()),
            "sizes": pa.array(sizes, pa.list_(pa.int32())),
        }
    )


def test_numbers_become_names_keys_and_lanes() -> None:
    rows = [(0, 0, 1, [10]), (1, 8, 2, [100, 200]), (0, 1, 3, [])]
    table = pa.Table.from_batches([drawn(rows)])
    assert name_operations(table, NAMING, 40).to_pylist() == [
        {
            "op": 40,
            "at_us": 1,
            "queue": "plain",
            "action": "SendMessage",
            "tenant": "t3",
            "group": "t3",
            "lane_key": "40",
            "messages": [{"key": "abcd0123-40-0", "size": 13, "delay": 7, "dedup": None}],
        },
        {
            "op": 41,
            "at_us": 2,
            "queue": "orders.fifo",
            "action": "SendMessageBatch",
            "tenant": None,
            "group": "g5",
            "lane_key": "orders.fifo/g5",
            "messages": [
                {"key": "abcd0123-41-0", "size": 100, "delay": None, "dedup": "abcd0123.1.8.0"},
                {"key": "abcd0123-41-1", "size": 200, "delay": None, "dedup": "abcd0123.1.8.1"},
            ],
        },
        {
            "op": 42,
            "at_us": 3,
            "queue": "plain",
            "action": "GetQueueAttributes",
            "tenant": "t3",
            "group": "t3",
            "lane_key": "42",
            "messages": [],
        },
    ]


def scattered(count: int, slice_us: int) -> list[tuple[int, int, int, list[int]]]:
    """Ten in a slice, slice by slice, within one in any order."""
    rows = [
        (number % 2, number, number // 10 * slice_us + int(uniform(number) * slice_us), [50])
        for number in range(count)
    ]
    return sorted(rows, key=lambda row: (row[2] // slice_us, uniform(row[1], 1)))


@pytest.mark.parametrize("batch_rows", [1, 2, 5, 100])
def test_a_file_is_sorted_and_dense_however_its_rows_arrive(
    tmp_path: Path, batch_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_load.operations.ROW_GROUP_ROWS", 4)
    rows = scattered(40, 8)
    writer = OperationWriter(tmp_path / "part.parquet", NAMING, 7, 8)
    for at in range(0, len(rows), batch_rows):
        writer.add(drawn(rows[at : at + batch_rows]))
    assert list(tmp_path.glob("*.parquet")) == []
    writer.close()
    written = pq.read_table(tmp_path / "part.parquet").to_pylist()
    assert [row["op"] for row in written] == list(range(7, 47))
    moments = [row["at_us"] for row in written]
    assert moments == sorted(moments)
    assert Counter(moments) == Counter(row[2] for row in rows)
    assert (writer.operations, writer.messages) == (40, 40)


def test_a_task_writes_a_file_for_each_of_its_pieces(tmp_path: Path) -> None:
    layout = Layout(8, first_slices=[0, 2, 3], first_ops=[0, 20, 30])
    # The second piece is another task's.
    rows = [row for row in scattered(60, 8) if row[2] // 8 != 2]
    batches = [drawn(rows[at : at + 7]) for at in range(0, len(rows), 7)]
    written = [
        tuple(column[0].as_py() for column in row.columns)
        for row in write_pieces(batches, str(tmp_path), NAMING, layout)
    ]
    assert written == [("part-00000.parquet", 20, 20), ("part-00002.parquet", 30, 30)]
    for name, first in (("part-00000.parquet", 0), ("part-00002.parquet", 30)):
        ops = pq.read_table(tmp_path / name)["op"].to_pylist()
        assert ops == list(range(first, first + len(ops)))


def test_columns_that_nobody_draws_are_empty_and_sizes_may_be_single() -> None:
    rows = [(0, 0, 1, [40]), (1, 8, 2, []), (0, 1, 3, [60])]
    batch = drawn(rows).drop_columns(["tenant", "group", "delay", "sizes"])
    batch = batch.append_column("size", pa.array([40, None, 60], pa.int32()))
    naming = Naming("abcd0123", ["plain", "orders.fifo"], [None, None], [None, None])
    named = name_operations(pa.Table.from_batches([batch]), naming, 0).to_pylist()
    sizes = [[message["size"] for message in row["messages"]] for row in named]
    assert sizes == [[40], [], [60]]
    assert [(row["tenant"], row["group"]) for row in named] == [
        (None, None),
        (None, "g0"),
        (None, None),
    ]
