"""The lanes of a replay as Spark jobs: one deals the trace out, the other is a barrier stage in
which every task is one lane.

Dealing writes each lane's operations, sorted by time, to files beside the history. Then nothing of
Spark is at work while the lanes are: a lane reads its files and writes its part of the history
itself. Both are in the history's directory, which all executors have to share; what Spark takes
back is one small text per lane.
"""

import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from spark_load.errors import LoadError
from spark_load.replay.lane import LaneTask, Summary, run_lane
from spark_load.replay.plan import Plan
from spark_load.replay.progress import Board
from spark_load.replay.requests import QueueTarget
from spark_load.schema import OPERATIONS
from spark_load.tables import OPERATIONS_DDL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LANES: Final = "lanes"
# Small, since a lane stops for each batch that it takes.
BATCH_ROWS: Final = 1_000
# A lane's files follow each other in time.
SLICE_ROWS: Final = 1_000_000
# A stage that finds too few slots fails; executors that are just starting get this long.
SETTINGS: Final = {
    "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "5s",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "6",
    "spark.speculation": "false",
    "spark.stage.maxConsecutiveAttempts": "1",
}


@dataclass(frozen=True)
class Job:
    """What all lanes have in common. It travels to the executors."""

    plan: Plan
    run: str
    directory: str
    targets: Mapping[str, QueueTarget]

    def __call__(self, lanes: Iterable[int]) -> Iterator[str]:
        """The task of one lane."""
        from pyspark import BarrierTaskContext

        (lane,) = lanes
        directory = Path(self.directory)
        if not Board(directory).claim(lane):
            raise LoadError(f"lane {lane} was started a second time; a replay is never repeated")
        task = LaneTask(self.plan, lane, self.run, self.directory, self.targets)
        gather = BarrierTaskContext.get().allGather
        yield run_lane(task, read_lane(directory, lane), gather).to_json()


def run_job(spark: "SparkSession", trace: Path, job: Job) -> list[Summary]:
    """Blocks until all lanes are done; what they did, by lane."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    tasks = job.plan.tasks
    try:
        deal(spark, trace, job.plan.settings.lanes, Path(job.directory))
        stage = spark.sparkContext.parallelize(range(tasks), tasks).barrier()
        texts = stage.mapPartitions(job).collect()
    except (PySparkException, Py4JError) as error:
        raise LoadError(f"the replay failed in Spark: {reason_of(str(error))}") from error
    return sorted(map(Summary.from_json, texts), key=lambda summary: summary.lane)


def deal(spark: "SparkSession", trace: Path, lanes: int, directory: Path) -> None:
    """Every operation to the lane that a hash of its lane key names, so that what must stay in
    order stays in one lane.
    """
    from pyspark.sql import functions

    key = functions.pmod(functions.xxhash64("lane_key"), functions.lit(lanes))
    (
        spark.read.schema(OPERATIONS_DDL)
        .parquet(str(trace / OPERATIONS))
        .withColumn("lane", key.cast("int"))
        .repartitionById(lanes, "lane")
        .sortWithinPartitions("lane", "at_us", "op")
        .write.mode("overwrite")
        .option("maxRecordsPerFile", SLICE_ROWS)
        .partitionBy("lane")
        .parquet(str(directory / LANES))
    )


def read_lane(directory: Path, lane: int) -> Iterator[pa.RecordBatch]:
    """The lane's operations by time. Spark numbers the files of a task in the order of its rows."""
    for path in sorted((directory / LANES / f"lane={lane}").glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(BATCH_ROWS, use_threads=False)


def clear(directory: Path) -> None:
    shutil.rmtree(directory / LANES, ignore_errors=True)


def reason_of(text: str) -> str:
    """The error at the end of the first Python traceback in Spark's message, or else its first
    line: the rest says where in Spark it was noticed.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    begin = next((i for i, line in enumerate(lines) if "Traceback (" in line), None)
    if begin is None:
        return lines[0] if lines else "no reason given"
    ends = (line for line in lines[begin + 1 :] if is_error_line(line))
    return next(ends, lines[0])


def is_error_line(line: str) -> bool:
    """`package.SomeError: text`, as Python prints it."""
    name, colon, _ = line.partition(": ")
    return bool(colon) and name.replace(".", "").replace("_", "").isalnum() and "Error" in name
