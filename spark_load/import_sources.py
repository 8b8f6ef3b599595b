"""What `import` reads: an access log, CSV or Parquet → one table of calls.

Its columns: time_us (since the epoch), duration_us, action, queue, tenant, max_messages, wait,
messages (size, group, delay of each).
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_load.errors import LoadError
from spark_load.names import nearest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# docs/load.md documents both.
ACCESS_LOG_DDL: Final = (
    "time_us BIGINT, duration_us BIGINT, action STRING, queue STRING, status INT,"
    " messages ARRAY<STRUCT<size: INT, group: STRING, delay: INT>>,"
    " max_messages INT, wait INT, visibility INT"
)
TABLE_DEFAULTS: Final = {
    "action": "'SendMessage'",
    "group": "NULL",
    "size": "256",
    "delay": "NULL",
    "tenant": "NULL",
}
# Seconds, ms or µs since the epoch, told apart by their size, or a date and time.
TIME_SQL: Final = (
    "CASE WHEN try_cast(time AS DOUBLE) IS NULL"
    " THEN unix_micros(try_cast(time AS TIMESTAMP))"
    " WHEN try_cast(time AS DOUBLE) < 1e11 THEN bigint(try_cast(time AS DOUBLE) * 1e6)"
    " WHEN try_cast(time AS DOUBLE) < 1e14 THEN bigint(try_cast(time AS DOUBLE) * 1e3)"
    " ELSE bigint(try_cast(time AS DOUBLE)) END"
)
MESSAGE_SQL: Final = "named_struct('size', int(size), 'group', string(group), 'delay', int(delay))"


def read_calls(spark: "SparkSession", source: str) -> "DataFrame":
    rows, is_log = _read(spark, source)
    return _log_calls(rows) if is_log else _table_calls(rows, source)


def read_moments(spark: "SparkSession", source: str) -> "DataFrame":
    """`time_us` of each row of a log, or of a table that has a column `time`."""
    rows, is_log = _read(spark, source)
    if is_log:
        return _log_calls(rows).select("time_us")
    return _with_time(rows.withColumnRenamed(_column(rows, "time", source), "time"), source)


def _read(spark: "SparkSession", source: str) -> "tuple[DataFrame, bool]":
    path = Path(source)
    if not path.exists():
        raise LoadError(f"{source} does not exist")
    kinds = {file.suffix for file in ([path] if path.is_file() else path.iterdir())}
    if ".jsonl" in kinds:
        pattern = str(path / "*.jsonl") if path.is_dir() else source
        return spark.read.schema(ACCESS_LOG_DDL).json(pattern), True
    if ".parquet" in kinds:
        return spark.read.parquet(source), False
    if ".csv" in kinds:
        return spark.read.option("header", "true").csv(source), False
    raise LoadError(f"{source} is no access log (.jsonl), .csv or .parquet")


def _log_calls(lines: "DataFrame") -> "DataFrame":
    """A node that was killed leaves half a line; it has no action, as what nobody understood."""
    return lines.where("action <> '' AND time_us IS NOT NULL").selectExpr(
        *("time_us", "duration_us", "action", "queue", "CAST(NULL AS STRING) AS tenant"),
        *("max_messages", "wait", "coalesce(messages, array()) AS messages"),
    )


def _table_calls(rows: "DataFrame", source: str) -> "DataFrame":
    columns = [f"`{_column(rows, name, source)}` AS {name}" for name in ("time", "queue")]
    known = _by_lower_name(rows)
    for name, default in TABLE_DEFAULTS.items():
        columns.append(f"{f'`{known[name]}`' if name in known else default} AS {name}")
    return _with_time(rows.selectExpr(*columns), source).selectExpr(
        "time_us",
        *("bigint(0) AS duration_us", "action", "queue", "string(tenant) AS tenant"),
        *("CAST(NULL AS INT) AS max_messages", "CAST(NULL AS INT) AS wait"),
        f"if(action LIKE 'SendMessage%', array({MESSAGE_SQL}), array()) AS messages",
    )


def _with_time(rows: "DataFrame", source: str) -> "DataFrame":
    timed = rows.selectExpr("* EXCEPT (time)", "string(time) AS time")
    timed = timed.selectExpr("*", f"{TIME_SQL} AS time_us")
    unread = timed.where("time_us IS NULL").count()
    if unread:
        raise LoadError(f"{source}: {unread} rows have no time that can be read")
    return timed


def _column(rows: "DataFrame", name: str, source: str) -> str:
    known = _by_lower_name(rows)
    if name not in known:
        raise LoadError(f"{source} has no column {name!r}{nearest(name, known)}")
    return known[name]


def _by_lower_name(rows: "DataFrame") -> dict[str, str]:
    return {name.lower(): name for name in rows.columns}
