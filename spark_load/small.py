"""Small histories, judged and summed up in memory by SQLite: the same tables, views and SQL as in
Spark, without the minute that a session takes to start and to warm up.

`judge` and `judge_calls` are for histories that are no files. Large ones are `spark_facts.py`'s.
"""

import json
import math
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from spark_load.checks import CHECKS, OFFENCE, Check, Found
from spark_load.facts import EVENTS, QUEUES, RECEIVES, TALLY, VIEWS, Limits, Table
from spark_load.flat import (
    MOVE_TASK,
    RECEIVE,
    Event,
    QueueFacts,
    Receive,
    count_calls,
    flatten,
    queue_facts,
    receives_of,
)
from spark_load.headers import read_headers
from spark_load.schema import CALL_COLUMNS, CALLS, OPERATIONS, HistoryHeader, TraceHeader

# Attempts and bytes on disk of a history that is small. Ten messages each are a million events.
ROWS_MAX: Final = 100_000
BYTES_MAX: Final = 32 * 1024 * 1024
LIMITS: Final = Limits()
_TYPES: Final = {"string": "TEXT", "int": "INT", "long": "BIGINT"}
ATTEMPTS: Final = Table(
    "attempts",
    {column.name: _TYPES[column.type] for column in CALL_COLUMNS if isinstance(column.type, str)}
    | {"message_count": "INT"},
)
TENANTS: Final = Table("tenants", {"op": "BIGINT", "tenant": "TEXT"})

Call = Mapping[str, Any]


class Offence(NamedTuple):
    """What a check selects."""

    queue: str
    key: str | None
    message_id: str | None
    at_us: int
    detail: str


@dataclass(frozen=True)
class SmallFacts:
    """A trace and a history in memory, as `spark_facts.Facts` has them in Spark."""

    trace: TraceHeader
    history: HistoryHeader
    limits: Limits
    database: sqlite3.Connection = field(repr=False)

    def rows(self, sql: str, parameters: Mapping[str, int] | None = None) -> list[dict[str, Any]]:
        cursor = self.database.execute(sql, parameters or self.limits.parameters(sql))
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    def find(self, check: Check, directory: Path, shown_max: int) -> Found:
        return find(self.database, check, self.limits, directory, shown_max)


def find(
    database: sqlite3.Connection, check: Check, limits: Limits, directory: Path, shown_max: int
) -> Found:
    """Writes all offences into a new directory, if there are any."""
    import pyarrow
    from pyarrow import parquet

    found = [offence._asdict() for offence in offences(database, check, limits)]
    if found:
        directory.mkdir(parents=True)
        parquet.write_table(pyarrow.Table.from_pylist(found), directory / "offences.parquet")
    return Found(len(found), found[:shown_max])


def is_small(history: Path) -> bool:
    from pyarrow import parquet

    paths = list((history / CALLS).glob("*.parquet"))
    if sum(path.stat().st_size for path in paths) > BYTES_MAX:
        return False
    rows = sum(int(parquet.read_metadata(path).num_rows) for path in paths)
    return rows <= ROWS_MAX


@contextmanager
def open_small(trace: Path, history: Path, limits: Limits = LIMITS) -> Iterator[SmallFacts]:
    planned, recorded = read_headers(trace, history)
    calls = read_rows(history / CALLS)
    operations = read_rows(trace / OPERATIONS, ["op", "tenant", "messages"])
    dedups = {
        message["key"]: message["dedup"]
        for operation in operations
        for message in operation["messages"]
        if message["dedup"] is not None
    }
    with closing(sqlite3.connect(":memory:")) as database:
        facts = _counted(calls, queue_facts(planned, recorded))
        define(database, flatten(calls, facts, dedups), receives_of(calls), facts, limits)
        _fill(database, ATTEMPTS, map(_attempt, calls))
        _fill(database, TENANTS, ((row["op"], row["tenant"]) for row in operations))
        _teach(database)
        yield SmallFacts(planned, recorded, limits, database)


def read_rows(directory: Path, columns: list[str] | None = None) -> list[dict[str, Any]]:
    from pyarrow import parquet

    paths = sorted(directory.glob("*.parquet"))
    return [row for path in paths for row in parquet.read_table(path, columns=columns).to_pylist()]


def judge_calls(
    calls: Sequence[Call],
    queues: Iterable[QueueFacts],
    dedups: Mapping[str, str] | None = None,
    limits: Limits = LIMITS,
) -> dict[str, list[Offence]]:
    """Calls as `schema.py` has them, messages nested."""
    facts = _counted(calls, queues)
    return judge(flatten(calls, facts, dedups), receives_of(calls), facts, limits)


def judge(
    events: Iterable[Event],
    receives: Iterable[Receive],
    queues: Iterable[QueueFacts],
    limits: Limits = LIMITS,
) -> dict[str, list[Offence]]:
    """Check → its offences, of those that found any."""
    with closing(sqlite3.connect(":memory:")) as database:
        define(database, events, receives, queues, limits)
        found = {check.name: offences(database, check, limits) for check in CHECKS}
    return {name: rows for name, rows in found.items() if rows}


def offences(database: sqlite3.Connection, check: Check, limits: Limits) -> list[Offence]:
    sql = f"SELECT {', '.join(OFFENCE)} FROM ({check.sql}) found ORDER BY at_us, key"
    return [Offence(*row) for row in database.execute(sql, limits.parameters(check.sql))]


def _counted(calls: Iterable[Call], queues: Iterable[QueueFacts]) -> list[QueueFacts]:
    lost: Counter[str] = Counter()
    tasks: Counter[str] = Counter()
    for call in calls:
        lost[call["queue"]] += call["action"] == RECEIVE and call["outcome"] == "unknown"
        tasks[call["queue"]] += call["action"] == MOVE_TASK
    return count_calls(queues, lost, tasks)


def define(
    database: sqlite3.Connection,
    events: Iterable[Sequence[Any]],
    receives: Iterable[Receive],
    queues: Iterable[QueueFacts],
    limits: Limits,
) -> None:
    """The tables and views of `facts.py` in a new database."""
    _fill(database, EVENTS, events)
    _fill(database, RECEIVES, receives)
    _fill(database, QUEUES, (_queue_row(queue) for queue in queues))
    for view in (*VIEWS, TALLY):
        definition = f"CREATE TABLE {view.name} AS {view.sql}"
        database.execute(definition, limits.parameters(view.sql))


def _fill(database: sqlite3.Connection, table: Table, rows: Iterable[Sequence[Any]]) -> None:
    columns = ", ".join(f"{name} {_affinity(type_)}" for name, type_ in table.columns.items())
    database.execute(f"CREATE TABLE {table.name} ({columns})")
    marks = ", ".join("?" * len(table.columns))
    database.executemany(f"INSERT INTO {table.name} VALUES ({marks})", rows)


def _affinity(type_: str) -> str:
    """To SQLite a STRING is a number whenever it looks like one."""
    return "TEXT" if type_ == "STRING" else type_


def _queue_row(facts: QueueFacts) -> tuple[Any, ...]:
    return tuple(getattr(facts, name) for name in QUEUES.columns)


def _attempt(call: Call) -> tuple[Any, ...]:
    names = list(ATTEMPTS.columns)[:-1]
    return (*(call[name] for name in names), len(call["messages"]))


# --- what Spark has and SQLite lacks ----------------------------------------------------------


def _teach(database: sqlite3.Connection) -> None:
    database.create_function("log10", 1, math.log10, deterministic=True)
    database.create_function("floor", 1, math.floor, deterministic=True)
    database.create_function("array", -1, lambda *values: json.dumps(values), deterministic=True)
    # typeshed's protocol wants a `step` of any arguments.
    database.create_aggregate("percentile_approx", 2, _Percentiles)  # type: ignore[arg-type]


class _Percentiles:
    """Exact here. The result is JSON, since SQLite has no arrays."""

    def __init__(self) -> None:
        self._values: list[float] = []
        self._shares: list[float] = []

    def step(self, value: float | None, shares: str) -> None:
        self._shares = self._shares or json.loads(shares)
        if value is not None:
            self._values.append(value)

    def finalize(self) -> str | None:
        if not self._values:
            return None
        self._values.sort()
        last = len(self._values)
        return json.dumps([self._values[max(math.ceil(s * last) - 1, 0)] for s in self._shares])
