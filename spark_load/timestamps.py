"""Streams whose operations are due when those of a recording were: moments from a file instead of a
rate curve.

A recording may be larger than any one machine's memory: it is counted by time slices, which have a
bound, and numbered slice by slice.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_load.arrivals import Cell
from spark_load.draw_sql import CELL_DDL
from spark_load.errors import LoadError
from spark_load.import_sources import read_moments
from spark_load.plan import Piece
from spark_load.workload import Stream, Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Recording:
    """`rows` has `stamped_us` of each operation of a stream."""

    stream: int
    rows: "DataFrame"

    def count(self) -> int:
        return self.rows.count()

    def cells(self, slice_us: int) -> list[Cell]:
        slices = self.rows.selectExpr(f"int(stamped_us DIV {slice_us}) AS slice")
        cells: list[Cell] = []
        first = 0
        for index, count in sorted(tuple(row) for row in slices.groupBy("slice").count().collect()):
            begin = index * slice_us
            cells.append(
                Cell(index, self.stream, first, count, begin, begin + slice_us, 1.0, 1.0, 1.0, None)
            )
            first += count
        return cells

    def operations(self, spark: "SparkSession", pieces: list[Piece], slice_us: int) -> "DataFrame":
        """Rows as those of curves, numbered by their moments."""
        from pyspark.sql import functions

        cells = [
            (piece.number, *cell)
            for piece in pieces
            for cell in piece.cells
            if cell.stream == self.stream
        ]
        table = spark.createDataFrame(cells, f"piece BIGINT, {CELL_DDL.replace(':', '')}")
        number = "row_number() OVER (PARTITION BY slice ORDER BY stamped_us)"
        return (
            self.rows.selectExpr("stamped_us", f"int(stamped_us DIV {slice_us}) AS slice")
            .join(functions.broadcast(table), "slice")
            .withColumn("n", functions.expr(f"first - 1 + {number}"))
        )


def open_recordings(spark: "SparkSession", workload: Workload) -> list[Recording]:
    return [
        Recording(number, _stamped(spark, stream))
        for number, stream in enumerate(workload.streams)
        if stream.timestamps is not None
    ]


def _stamped(spark: "SparkSession", stream: Stream) -> "DataFrame":
    """From the recording's first moment on, within the stream's time."""
    moments = read_moments(spark, str(stream.timestamps))
    first = moments.selectExpr("min(time_us)").collect()[0][0]
    if first is None:
        raise LoadError(f"{stream.timestamps} has no moments")
    stamped = moments.selectExpr(f"{stream.begin_us} + time_us - {first} AS stamped_us")
    return stamped.where(f"stamped_us < {stream.end_us}")
