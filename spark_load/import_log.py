"""`import`: an access log of a node, or any table of (time, action, queue, group, size), becomes a
trace: production's traffic against a test cluster, faster or slower, without its names.

A trace has what producers did. What consumers did follows from what the cluster delivers, so of the
receives in a log only their number and manner are kept, as the consumers of the trace. Nothing here
grows with the log but what Spark sorts.
"""

import argparse
import hashlib
import math
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from spark_load import import_sql, session
from spark_load.arrivals import slice_width_us
from spark_load.errors import LoadError
from spark_load.generate import claim_directory
from spark_load.headers import write_trace_header
from spark_load.import_sources import read_calls
from spark_load.schema import OPERATIONS, TRACE_ACTIONS, Consumers, Queue, TraceHeader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONSUMERS_MAX: Final = 64
QUEUES_MAX: Final = 10_000


class Span(NamedTuple):
    """All that has to be known before the first operation can be numbered."""

    begin_us: int
    end_us: int
    operations: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", help="directory of an access log, or a .csv or .parquet path")
    parser.add_argument("trace", type=Path, help="directory of the trace to make")
    parser.add_argument("--speed", type=float, default=1.0, help="10 makes an hour six minutes")
    parser.add_argument("--queue", action="append", default=[], help="only this one; repeatable")
    parser.add_argument("--keep-names", action="store_true", help="of queues, groups and tenants")
    parser.add_argument("--salt", help="the same salt gives the same names again")
    parser.add_argument("--consumers", type=int, help="of each queue, instead of what the log says")
    parser.add_argument("--visibility", type=int, default=30, help="of messages received, s")
    parser.add_argument("--overwrite", action="store_true", help="replace a trace that is there")
    parser.add_argument("--dry-run", action="store_true", help="say what would be made")
    session.add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    if not 0 < options.speed < math.inf:
        raise LoadError("--speed must be more than 0")
    if not options.dry_run:
        claim_directory(options.trace, overwrite=options.overwrite)
    with session.session(options) as spark:
        find_calls(spark, options)
        span = measure(spark, options)
        seconds = (span.end_us - span.begin_us) / 1_000_000
        print(
            f"{options.source}: {span.operations:,} operations in {seconds:,.1f} s, "
            f"to be replayed in {seconds / options.speed:,.1f} s"
        )
        if not options.dry_run:
            header = write_trace(spark, span, options)
            print(
                f"{options.trace}: {header.operations:,} operations, {header.messages:,} messages"
            )
    return 0


def find_calls(spark: "SparkSession", options: argparse.Namespace) -> None:
    """The view `named_calls`: what was asked for, under the names that the trace shall have."""
    calls = read_calls(spark, options.source)
    if options.queue:
        calls = calls.where(calls.queue.isin(options.queue))
    calls.createOrReplaceTempView("calls")
    if not options.keep_names:
        salt = options.salt or secrets.token_hex(16)
        calls = spark.sql(import_sql.ANONYMOUS, args={"salt": salt})
    calls.createOrReplaceTempView("named_calls")


def measure(spark: "SparkSession", options: argparse.Namespace) -> Span:
    begin, end = spark.sql("SELECT min(time_us), max(time_us) FROM named_calls").collect()[0]
    if begin is not None:
        _view(
            spark,
            "producer_calls",
            import_sql.OPERATIONS,
            begin=begin,
            speed=options.speed,
            actions=[*TRACE_ACTIONS],
        )
        span = Span(begin, end, spark.table("producer_calls").count())
        if span.operations:
            return span
    actions = ", ".join(TRACE_ACTIONS)
    raise LoadError(f"{options.source} has no operation that can be replayed ({actions})")


def write_trace(spark: "SparkSession", span: Span, options: argparse.Namespace) -> TraceHeader:
    duration_us = max(1, math.ceil((span.end_us - span.begin_us + 1) / options.speed))
    queues = find_queues(spark, span, options)
    digest = hashlib.sha256(repr((span, options.speed, queues)).encode()).hexdigest()
    slice_us = slice_width_us(duration_us, span.operations)
    _view(spark, "numbered_calls", import_sql.NUMBERED, slice=slice_us)
    trace = spark.sql(import_sql.TRACE, args={"trace": digest[:8]})
    path = str((options.trace / OPERATIONS).resolve())
    ordered = trace.repartitionByRange("op").sortWithinPartitions("op")
    ordered.write.mode("overwrite").parquet(path)
    totals = spark.read.parquet(path).selectExpr("count(*)", "sum(size(messages))")
    operations, messages = totals.collect()[0]
    header = TraceHeader(
        digest[:8],
        Path(options.source).name,
        digest,
        0,
        operations,
        messages,
        duration_us,
        queues,
    )
    write_trace_header(options.trace, header)
    return header


def find_queues(
    spark: "SparkSession", span: Span, options: argparse.Namespace
) -> tuple[Queue, ...]:
    rows = spark.sql(import_sql.QUEUES).take(QUEUES_MAX + 1)
    if len(rows) > QUEUES_MAX:
        raise LoadError(f"{options.source} has more than {QUEUES_MAX} queues: choose by --queue")
    return tuple(_queue(row, span, options) for row in rows)


def _queue(row: Any, span: Span, options: argparse.Namespace) -> Queue:
    polls = math.ceil(row.polling_us / max(1, span.end_us - span.begin_us))
    consumers = Consumers(
        count=options.consumers or min(max(polls, 1), CONSUMERS_MAX),
        max_messages=row.max_messages,
        wait_seconds=row.wait,
        visibility_seconds=options.visibility,
    )
    attributes = {"FifoQueue": "true"} if row.queue.endswith(".fifo") else {}
    return Queue(row.queue, attributes, consumers=consumers)


def _view(spark: "SparkSession", name: str, query: str, **parameters: object) -> None:
    spark.sql(query, args=parameters).createOrReplaceTempView(name)
