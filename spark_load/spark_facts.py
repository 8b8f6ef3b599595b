"""A trace and a history as the tables and views of `facts.py` in a Spark session.

The messages of a history are spread by their keys once, to disk. Everything derived is a sum or a
window over one message or one message group, so nothing has to fit into memory. Checks judge the
suspects alone (`suspects.py`), reports read everything. What is judged or drawn is not here.
"""

import re
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from spark_load import small
from spark_load.checks import OFFENCE, Check, Found, Scope
from spark_load.facts import (
    EVENT_ORDER,
    EVENTS,
    FAMILIES,
    QUEUES,
    RECEIVES,
    TALLY,
    VIEWS,
    Limits,
    View,
)
from spark_load.flat import MOVE_TASK, RECEIVE, QueueFacts, count_calls, queue_facts
from spark_load.headers import read_headers
from spark_load.schema import CALLS, OPERATIONS, HistoryHeader, TraceHeader
from spark_load.spark_marks import CHOSEN, MARKS, chosen_sql, events_sql
from spark_load.suspects import KNOTS, LIVES, SUSPECT_VIEWS
from spark_load.suspects import MARKS as MARKS_TABLE
from spark_load.tables import CALLS_DDL, OPERATIONS_DDL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Parts of what is compressed on disk: small enough to be sorted in a task's share of memory, and so
# few that a small history is not mostly the starting of tasks.
PART_BYTES: Final = 8 * 1024 * 1024
PARTS_MAX: Final = 20_000
SETTINGS: Final = {
    # The events are sorted: sums over them need no hash table.
    "spark.sql.execution.replaceHashWithSortAgg": "true",
    # What is stored stays spread as it was made, so that nobody spreads it by the same key again.
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "false",
}
# Suspects that every task may have in memory.
FEW: Final = 200_000
# Events of suspects that the driver may have in memory.
FEW_EVENTS: Final = 100_000
# What the events take from their queue, beside the columns that the checks read.
_QUEUE_COLUMNS: Final = dict(QUEUES.columns) | {
    "is_fifo": "INT",
    "visibility_us": "BIGINT",
    "dedups_by_group": "INT",
}
# What only those queries need that name it: to plan it takes Spark a second each.
_DERIVED: Final = re.compile(rf"\b({'|'.join((EVENTS.name, *(view.name for view in VIEWS)))})\b")
_READ: Final = {
    "dedups": """
SELECT m.key AS dedup_key, m.dedup AS dedup_id
FROM operations LATERAL VIEW explode(messages) AS m WHERE m.dedup IS NOT NULL
""",
    RECEIVES.name: f"""
SELECT queue, call, endpoint, started_us AS began_us, partitions, rows AS rows_seen, choose_us
FROM calls WHERE action = '{RECEIVE}' AND outcome = 'ok'
""",
    "attempts": "SELECT * EXCEPT (messages), size(messages) AS message_count FROM calls",
    "tenants": "SELECT op, tenant FROM operations",
}
_TALLY: Final = "SELECT told, attempts, deliveries, deletes FROM lives WHERE q IS NOT NULL"
_BY_QUEUE: Final = f"""
SELECT queue, COUNT_IF(action = '{RECEIVE}' AND outcome = 'unknown') AS lost,
  COUNT_IF(action = '{MOVE_TASK}') AS tasks
FROM calls GROUP BY queue
"""


@dataclass
class Facts:
    """The tables are temporary views of the session until `close`."""

    spark: "SparkSession"
    trace: TraceHeader
    history: HistoryHeader
    limits: Limits
    parts: int
    queues: list[QueueFacts] = field(default_factory=list)
    stored: list["DataFrame"] = field(default_factory=list)
    # Scope → its `events` and what is derived from them; None: of all messages.
    derived: dict[Scope | None, dict[str, "DataFrame"]] = field(default_factory=dict)
    # Scope → the suspects' events in SQLite; None: there are too many.
    few: dict[Scope, sqlite3.Connection | None] = field(default_factory=dict)

    def select(self, sql: str) -> "DataFrame":
        return self.spark.sql(sql, args=self.limits.parameters(sql))

    def rows(self, sql: str, parameters: Mapping[str, int] | None = None) -> list[dict[str, Any]]:
        """Of a query whose result is small however large the history is."""
        if _DERIVED.search(sql):
            self.turn_to(None)
        frame = self.spark.sql(sql, args=dict(parameters or self.limits.parameters(sql)))
        return [row.asDict() for row in frame.collect()]

    def find(self, check: Check, directory: Path, shown_max: int) -> Found:
        scope = check.scope if self.is_simple else None
        if scope in CHOSEN and (few := self._few(scope)):
            return small.find(few, check, self.limits, directory, shown_max)
        if check.scope in CHOSEN:
            self.turn_to(scope)
        self.select(check.sql).select(*OFFENCE).write.parquet(str(directory))
        found = self.spark.read.parquet(str(directory))
        examples = found.orderBy("at_us", "key").limit(shown_max).collect()
        if not examples:
            shutil.rmtree(directory)
            return Found(0, [])
        return Found(found.count(), [example.asDict() for example in examples])

    @cached_property
    def is_simple(self) -> bool:
        """The suspects are enough to judge."""
        (found,) = self.select(KNOTS).collect()
        return not found["knots"]

    def turn_to(self, scope: Scope | None) -> None:
        """From now on the views are of the messages in this scope."""
        if scope not in self.derived:
            self.derived[scope] = {}
            self.define(EVENTS.name, self.store(self._events(scope)), scope)
            for view in VIEWS:
                self.define_view(view, scope)
        for name, frame in self.derived[scope].items():
            frame.createOrReplaceTempView(name)

    def define_view(self, view: View, scope: Scope | None = None) -> None:
        frame = self.select(view.sql)
        if view.spread is not None:
            frame = frame.repartition(self.parts, view.spread)
        self.define(view.name, self.store(frame) if view.is_stored else frame, scope)

    def define(self, name: str, frame: "DataFrame", scope: Scope | None = None) -> None:
        frame.createOrReplaceTempView(name)
        if scope in self.derived:
            self.derived[scope][name] = frame

    def store(self, frame: "DataFrame") -> "DataFrame":
        """Computed once, on disk."""
        from pyspark import StorageLevel

        self.stored.append(frame.persist(StorageLevel.DISK_ONLY))
        return self.stored[-1]

    def close(self) -> None:
        for frame in self.stored:
            frame.unpersist()
        for database in self.few.values():
            if database is not None:
                database.close()

    def count(self, table: str) -> int:
        return self.spark.table(table).count()

    def _few(self, scope: Scope) -> sqlite3.Connection | None:
        """A handful of suspects are judged in memory: it would take Spark longer to begin."""
        if scope not in self.few:
            wanted = self.count(CHOSEN[scope][0])
            rows: list[Any] = []
            if 0 < wanted <= FEW_EVENTS:
                chosen = self.select(chosen_sql(scope, are_few=True)).select(*EVENTS.columns)
                rows = chosen.limit(FEW_EVENTS + 1).collect()
            self.few[scope] = None
            if max(wanted, len(rows)) <= FEW_EVENTS:
                self.few[scope] = database = sqlite3.connect(":memory:")
                small.define(database, rows, (), self.queues, self.limits)
        return self.few[scope]

    def _events(self, scope: Scope | None) -> "DataFrame":
        """In the order that the views need."""
        sql, parts = events_sql(), self.parts
        if scope is not None:
            wanted, least = self.count(CHOSEN[scope][0]), self.spark.sparkContext.defaultParallelism
            sql = chosen_sql(scope, are_few=wanted <= FEW)
            parts = max(least, parts * wanted // self.count(LIVES.name))
        return self.select(sql).repartition(parts, "spread").sortWithinPartitions(*EVENT_ORDER)


@contextmanager
def open_facts(
    spark: "SparkSession", trace: Path, history: Path, limits: Limits | None = None
) -> Iterator[Facts]:
    """All tables and views of `facts.py`; for reports `attempts`, the calls without their messages,
    and the `tenants` of operations.
    """
    facts = Facts(spark, *read_headers(trace, history), limits or Limits(), parts(spark, history))
    spark.conf.set("spark.sql.shuffle.partitions", facts.parts)
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    try:
        _view(spark, "operations", trace / OPERATIONS, OPERATIONS_DDL)
        _view(spark, "calls", history / CALLS, CALLS_DDL)
        _define_queues(facts)
        for name, sql in _READ.items():
            facts.define(name, facts.select(sql))
        facts.define_view(FAMILIES)
        facts.define(MARKS_TABLE.name, facts.select(MARKS).repartition(facts.parts, "k"))
        for view in SUSPECT_VIEWS:
            facts.define_view(view)
        facts.define(TALLY.name, facts.select(_TALLY))
        yield facts
    finally:
        facts.close()


def parts(spark: "SparkSession", history: Path) -> int:
    """In how many parts the work is done."""
    size = sum(path.stat().st_size for path in (history / CALLS).glob("*.parquet"))
    return min(max(size // PART_BYTES, spark.sparkContext.defaultParallelism), PARTS_MAX)


def _view(spark: "SparkSession", name: str, directory: Path, ddl: str) -> None:
    spark.read.schema(ddl).parquet(str(directory)).createOrReplaceTempView(name)


def _define_queues(facts: Facts) -> None:
    """As many rows as there are queues, which the headers list one by one anyway."""
    rows = facts.select(_BY_QUEUE).collect()
    facts.queues = count_calls(
        queue_facts(facts.trace, facts.history),
        {row["queue"]: row["lost"] for row in rows},
        {row["queue"]: row["tasks"] for row in rows},
    )
    ddl = ", ".join(f"{name} {type_}" for name, type_ in _QUEUE_COLUMNS.items())
    frame = facts.spark.createDataFrame([_queue_row(queue) for queue in facts.queues], ddl)
    frame.createOrReplaceTempView(QUEUES.name)


def _queue_row(queue: QueueFacts) -> tuple[Any, ...]:
    values = (getattr(queue, name) for name in _QUEUE_COLUMNS)
    return tuple(int(value) if isinstance(value, bool) else value for value in values)
