"""Hand-made histories, judged by SQLite."""

from spark_load.facts import Limits
from spark_load.flat import queue_facts
from spark_load.schema import HistoryHeader, Queue
from spark_load.small import Offence, judge_calls
from tests.spark.calls import Calls, Row, ending, header, plain

EMPTY = ending(left={"q": 0, "f.fifo": 0, "dead": 0})


def found(
    calls: Calls | list[Row],
    *queues: Queue,
    end: HistoryHeader = EMPTY,
    dedups: dict[str, str] | None = None,
    limits: Limits | None = None,
) -> dict[str, list[Offence]]:
    rows = calls.rows if isinstance(calls, Calls) else calls
    facts = queue_facts(header(*(queues or (plain(), plain("f.fifo")))), end)
    return judge_calls(rows, facts, dedups, limits or Limits())


def offences(calls: Calls | list[Row], *queues: Queue, **options: object) -> dict[str, int]:
    judged = found(calls, *queues, **options)  # type: ignore[arg-type]  # handed on as they are
    return {name: len(rows) for name, rows in judged.items()}


def fifo() -> Calls:
    return Calls("f.fifo", "g")
