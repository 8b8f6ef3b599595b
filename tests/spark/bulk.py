"""Histories of any size without a fault, made by Spark: the haystack that needles are planted in.

Every message is sent, received 5 ms later and deleted 10 ms later, one every 100 µs; every second
one belongs to one of 1,000 groups of a FIFO queue, the others are plain.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spark_load.headers import write_history_header, write_trace_header
from spark_load.schema import CALLS, OPERATIONS, HistoryHeader, TraceHeader
from spark_load.tables import CALLS_DDL
from tests.spark.calls import BEGAN_US, TRACE_ID, Row, ending, header, plain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLAIN, ORDERED = "plain", "ordered.fifo"
GROUPS = 1000
# What is done to each message: action, ms after its turn, role.
LIFE = (
    ("SendMessage", 0, "producer"),
    ("ReceiveMessage", 5, "consumer"),
    ("DeleteMessage", 10, "consumer"),
)


def message_sql(messages: int, late: tuple[int, int] = (-1, 0)) -> str:
    number, late_ms = late
    lives = ", ".join(
        f"named_struct('action', '{a}', 'ms', {ms}, 'role', '{r}')" for a, ms, r in LIFE
    )
    return f"""
SELECT concat(action, '-', id) AS call, 0 AS attempt, CAST(id % 4 AS INT) AS lane, role,
  IF(role = 'producer', id, NULL) AS op, action, queue,
  concat('http://127.0.0.1:', 9324 + id % 3) AS endpoint,
  at_us AS intended_us, at_us + id % 50 AS started_us, at_us + 1000 + id % 700 AS ended_us,
  'ok' AS outcome, 200 AS status, CAST(NULL AS STRING) AS error,
  IF(action = 'ReceiveMessage', 2, NULL) AS visibility,
  IF(action = 'ReceiveMessage', 1 + CAST(id % 32 AS INT), NULL) AS partitions,
  IF(action = 'ReceiveMessage', 1, NULL) AS rows,
  IF(action = 'ReceiveMessage', 20 + id % 500, NULL) AS choose_us, CAST(NULL AS INT) AS remote,
  array(named_struct('key', concat('{TRACE_ID}-', id, '-0'), 'message_id', message_id,
    'receipt', IF(action = 'SendMessage', NULL, substr(md5(message_id), 1, 16)),
    'sequence', IF(is_fifo, CAST(1000000000000000000 + id AS STRING), NULL),
    'group', IF(is_fifo, concat('g', (id DIV 2) % {GROUPS}), NULL),
    'receives', IF(action = 'ReceiveMessage', 1, NULL), 'outcome', 'ok')) AS messages
FROM (
  SELECT id, id % 2 = 1 AS is_fifo, IF(id % 2 = 1, '{ORDERED}', '{PLAIN}') AS queue,
    uuid_of AS message_id, life.action, life.role, {BEGAN_US} + id * 100 + 1000 * (life.ms
      + IF(id = {number} AND life.role = 'consumer', {late_ms}, 0)) AS at_us
  FROM (SELECT id, concat(substr(h, 1, 8), '-', substr(h, 9, 4), '-', substr(h, 13, 4), '-',
      substr(h, 17, 4), '-', substr(h, 21, 12)) AS uuid_of
    FROM (SELECT id, md5(CAST(id AS STRING)) AS h FROM range({messages})))
  LATERAL VIEW explode(array({lives})) AS life
)
"""


def plan_sql(messages: int) -> str:
    """The operations of the trace. Messages of the FIFO queue have deduplication ids."""
    return f"""
SELECT id AS op, id * 100 AS at_us, queue, 'SendMessage' AS action,
  CAST(NULL AS STRING) AS tenant, message_group AS `group`,
  COALESCE(concat(queue, '/', message_group), CAST(id AS STRING)) AS lane_key,
  array(named_struct('key', concat('{TRACE_ID}-', id, '-0'), 'size', 200,
    'delay', CAST(NULL AS INT), 'dedup', IF(is_fifo, concat('{TRACE_ID}.1.', id, '.0'), NULL)))
    AS messages
FROM (
  SELECT id, id % 2 = 1 AS is_fifo, IF(id % 2 = 1, '{ORDERED}', '{PLAIN}') AS queue,
    IF(id % 2 = 1, concat('g', (id DIV 2) % {GROUPS}), NULL) AS message_group
  FROM range({messages})
)
"""


def write_bulk(
    spark: "SparkSession",
    directory: Path,
    messages: int,
    *,
    without: str = "false",
    planted: Sequence[Row] = (),
    late: tuple[int, int] = (-1, 0),
) -> tuple[Path, Path]:
    """Trace and history; rows that `without` selects are left out, `planted` ones added, and one
    message is consumed so many ms late.
    """
    trace, history = directory / "trace", directory / "history"
    rows = spark.sql(message_sql(messages, late)).where(f"NOT ({without})")
    if planted:
        rows = rows.unionByName(spark.createDataFrame(list(planted), CALLS_DDL))
    rows.write.parquet(str(history / CALLS))
    spark.sql(plan_sql(messages)).write.parquet(str(trace / OPERATIONS))
    write_trace_header(trace, bulk_header(messages))
    write_history_header(history, bulk_ending(messages))
    return trace, history


def bulk_header(messages: int) -> TraceHeader:
    return header(plain(PLAIN), plain(ORDERED), messages=messages)


def bulk_ending(messages: int) -> HistoryHeader:
    return ending(seconds=messages / 10_000 + 60, left={PLAIN: 0, ORDERED: 0})
