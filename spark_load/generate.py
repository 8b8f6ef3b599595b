"""`generate`: a workload file becomes a trace.

Every number of an operation is a hash of the seed, a purpose, its stream and its number there, so
an operation is the same whoever computes it, and any number of tasks makes the same trace. The
draws are SQL expressions over three tables: pieces of the plan, what each stream draws from, and
nothing else; no row is ever shuffled. `operations.py` makes texts and files of the numbers.
"""

import argparse
import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from spark_load import session
from spark_load.draw_sql import (
    CELL_DDL,
    STREAM_DDL,
    Tables,
    draw_steps,
    needs_of,
    stream_row,
)
from spark_load.errors import LoadError
from spark_load.headers import write_trace_header
from spark_load.operations import WRITTEN_DDL, Layout, Naming, write_pieces
from spark_load.plan import Piece, Plan, cut_pieces, make_plan
from spark_load.schema import OPERATIONS, TRACE_HEADER, TraceHeader
from spark_load.timestamps import Recording, open_recordings
from spark_load.workload import Workload, find_workload, load_workload

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

# Fewer would not be worth a task.
PIECE_OPERATIONS: Final = 50_000
# Nothing here overflows, and code that checks it would be half of all code.
SETTINGS: Final = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("workload", help="a .toml file, or the name of a ready-made one")
    parser.add_argument("trace", type=Path, help="directory of the trace to make")
    parser.add_argument("--seed", type=int, help="instead of the workload's own")
    parser.add_argument("--partitions", type=int, help="files to write; the trace is the same")
    parser.add_argument("--overwrite", action="store_true", help="replace a trace that is there")
    parser.add_argument("--dry-run", action="store_true", help="say what would be made")
    session.add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    workload = load_workload(find_workload(options.workload), options.seed)
    if options.dry_run and not workload.has_recordings:
        print(describe(workload, make_plan(workload)))
        return 0
    if not options.dry_run:
        claim_directory(options.trace, overwrite=options.overwrite)
    with session.session(options) as spark:
        recordings = open_recordings(spark, workload)
        plan = make_plan(workload, recordings)
        print(describe(workload, plan))
        if not options.dry_run:
            trace = options.trace
            header = generate(spark, workload, plan, trace, options.partitions, recordings)
            print(f"{trace}: {header.operations:,} operations, {header.messages:,} messages")
    return 0


def claim_directory(directory: Path, *, overwrite: bool) -> None:
    """An empty place for a trace; only a trace is ever replaced."""
    if directory.exists() and any(directory.iterdir()):
        is_ours = (directory / TRACE_HEADER).exists() or (directory / OPERATIONS).exists()
        if not (overwrite and is_ours):
            hint = "give --overwrite" if is_ours else "name another directory"
            raise LoadError(f"{directory} is not empty: {hint}")
        (directory / TRACE_HEADER).unlink(missing_ok=True)
        shutil.rmtree(directory / OPERATIONS, ignore_errors=True)
    (directory / OPERATIONS).mkdir(parents=True, exist_ok=True)


def describe(workload: Workload, plan: Plan) -> str:
    seconds = workload.duration_us / 1_000_000
    lines = [
        f"{workload.name}: trace {workload.trace_id}, seed {workload.seed}, {seconds:g} s, "
        f"{plan.operations:,} operations ({plan.operations / seconds:,.0f}/s)"
    ]
    for number, stream in enumerate(workload.streams):
        count = sum(cell.operations for cell in plan.cells if cell.stream == number)
        mix = ", ".join(f"{action} {weight:g}" for action, weight in stream.mix.items())
        lines.append(f"  {stream.name} → {stream.queue.name}: {count:,} operations; {mix}")
    return "\n".join(lines)


def generate(
    spark: "SparkSession",
    workload: Workload,
    plan: Plan,
    directory: Path,
    partitions: int | None = None,
    recordings: Sequence[Recording] = (),
) -> TraceHeader:
    """Write the trace; `directory` is claimed and every executor can write there."""
    if plan.operations == 0:
        raise LoadError(f"workload {workload.name} has no operations: its rates are too low")
    wanted = partitions or min(
        1024 * spark.sparkContext.defaultParallelism,
        max(spark.sparkContext.defaultParallelism, plan.operations // (64 * PIECE_OPERATIONS)),
        max(1, plan.operations // PIECE_OPERATIONS),
    )
    pieces = cut_pieces(plan.cells, wanted)
    own = spark.newSession()
    for key, value in SETTINGS.items():
        own.conf.set(key, value)
    drawn = draw(own, workload, pieces, plan.slice_us, recordings)
    written = write(drawn, naming(workload), layout(pieces, plan.slice_us), directory)
    header = TraceHeader(
        workload.trace_id,
        workload.name,
        workload.digest,
        workload.seed,
        sum(row["operations"] for row in written),
        sum(row["messages"] for row in written),
        workload.duration_us,
        workload.queues,
    )
    assert header.operations == plan.operations, "every planned operation is written once"
    write_trace_header(directory, header)
    return header


def write(drawn: "DataFrame", names: Naming, layout: Layout, directory: Path) -> list[Any]:
    folder = str((directory / OPERATIONS).resolve())

    def task(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        return write_pieces(batches, folder, names, layout)

    return drawn.mapInArrow(task, WRITTEN_DDL).collect()


def layout(pieces: list[Piece], slice_us: int) -> Layout:
    first_slices = [piece.cells[0].slice for piece in pieces]
    return Layout(slice_us, first_slices, [piece.first_op for piece in pieces])


def naming(workload: Workload) -> Naming:
    streams = workload.streams
    return Naming(
        workload.trace_id,
        [stream.queue.name for stream in streams],
        [stream.tenants.prefix if stream.tenants else None for stream in streams],
        [stream.groups.prefix if stream.groups else None for stream in streams],
    )


def draw(
    spark: "SparkSession",
    workload: Workload,
    pieces: list[Piece],
    slice_us: int,
    recordings: Sequence[Recording] = (),
) -> "DataFrame":
    """All numbers of all operations, piece by piece, within a piece slice by slice."""
    from pyspark.sql import functions

    tables = Tables()
    rows = [
        stream_row(number, stream, workload.seed, tables)
        for number, stream in enumerate(workload.streams)
    ]
    operations = curve_operations(spark, pieces, {recording.stream for recording in recordings})
    for recording in recordings:
        recorded = recording.operations(spark, pieces, slice_us)
        operations = operations.unionByName(recorded, allowMissingColumns=True)
    drawn = operations.join(functions.broadcast(spark.createDataFrame(rows, STREAM_DDL)), "stream")
    if recordings:
        # After the join: below one Spark sees no use in an order, and leaves it out.
        drawn = drawn.repartition(len(pieces), "piece")
        drawn = drawn.sortWithinPartitions("piece", "slice", "stream", "n")
    for columns in draw_steps(tables, needs_of(workload.streams)):
        drawn = drawn.selectExpr(*columns)
    return drawn


def curve_operations(
    spark: "SparkSession", pieces: list[Piece], recorded: Collection[int]
) -> "DataFrame":
    """A row for each operation of the streams that have a rate curve. A task has a piece."""
    from pyspark.sql import functions

    planned = [
        (piece.number, [tuple(cell) for cell in piece.cells if cell.stream not in recorded])
        for piece in pieces
    ]
    table = spark.createDataFrame(
        planned, f"piece BIGINT NOT NULL, cells ARRAY<STRUCT<{CELL_DDL}>> NOT NULL"
    )
    return (
        spark.range(0, len(pieces), 1, len(pieces))
        .withColumnRenamed("id", "piece")
        .join(functions.broadcast(table), "piece")
        .selectExpr("piece", "inline(cells)")
        .selectExpr("*", "explode(sequence(first, first + operations - 1)) AS n")
    )
