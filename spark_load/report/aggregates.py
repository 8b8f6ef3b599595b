"""Reduces a history to a `Run`, by SQL that Spark and SQLite both take (`small.py` lends SQLite the
functions it lacks). Every result has a bound: slots, kinds, the largest few.

Nothing here draws or judges.
"""

import json
from pathlib import Path
from typing import Any, Final

from spark_load.engine import Source
from spark_load.report.runs import BINS_PER_DECADE, END_TO_END, QUANTILES, Run, step_us

# The largest few of what there may be any number of.
SHOWN_MAX: Final = 20
ENDPOINTS_MAX: Final = 16
COUNTS_MAX: Final = 64

_QUANTILES: Final = ", ".join(map(str, QUANTILES.values()))
_KIND: Final = """CASE WHEN action LIKE 'SendMessage%' THEN 'send'
  WHEN action = 'ReceiveMessage' THEN 'receive' WHEN action LIKE 'DeleteMessage%' THEN 'delete'
  WHEN action LIKE 'ChangeMessageVisibility%' THEN 'extend' ELSE 'other' END"""


def spread(value: str, where: str = "TRUE") -> str:
    """Quantiles and maximum as one struct, which `flat` takes apart."""
    return (
        f"percentile_approx({value}, array({_QUANTILES})) FILTER (WHERE {where}) AS quantiles, "
        f"MAX({value}) FILTER (WHERE {where}) AS longest"
    )


def slot(time: str) -> str:
    """What was before the start belongs to the first."""
    return (
        f"CASE WHEN {time} < :began_us THEN 0 ELSE CAST(({time} - :began_us) / :step_us AS INT) END"
    )


def bin_of(value: str) -> str:
    at_least_one = f"CASE WHEN {value} < 1 THEN 1 ELSE {value} END"
    return f"CAST(floor(log10({at_least_one}) * {BINS_PER_DECADE}) AS INT)"


def count_if(condition: str) -> str:
    return f"SUM(CASE WHEN {condition} THEN 1 ELSE 0 END)"


_CALLS: Final = (
    f"(SELECT *, {_KIND} AS kind, ended_us - intended_us AS latency_us FROM attempts) timed"
)
_OK: Final = "outcome = 'ok'"
# A message's whole way: from its first attempt to be sent to its first delivery.
_WAY: Final = (
    "(SELECT sent_us, delivered_us - sent_us AS way_us FROM ids "
    "WHERE sent_us IS NOT NULL AND delivered_us IS NOT NULL) ways"
)
_REFUSED: Final = "outcome = 'refused'"
_UNANSWERED: Final = "outcome IN ('unknown', 'unsent')"
_OUTCOMES: Final = (
    f"{count_if(_OK)} AS ok, {count_if(_REFUSED)} AS refused, {count_if(_UNANSWERED)} AS unanswered"
)

SQL: Final = {
    "totals": f"""
SELECT kind, {_OUTCOMES}, {count_if("attempt = 0")} AS calls,
  COALESCE(SUM(message_count) FILTER (WHERE {_OK}), 0) AS messages, {spread("latency_us", _OK)}
FROM {_CALLS} GROUP BY kind
UNION ALL
SELECT '{END_TO_END}', COUNT(*), 0, 0, COUNT(*), COUNT(*), {spread("way_us")} FROM {_WAY}""",
    "errors": f"""
SELECT COALESCE(error, 'HTTP ' || status) AS error, COUNT(*) AS count FROM attempts
WHERE outcome <> 'ok' GROUP BY 1 ORDER BY count DESC LIMIT {SHOWN_MAX}""",
    "answers": f"""
SELECT {slot("ended_us")} AS slot, kind, {_OUTCOMES},
  COALESCE(SUM(message_count) FILTER (WHERE {_OK}), 0) AS messages
FROM {_CALLS} GROUP BY 1, 2""",
    "latencies": f"""
SELECT {slot("intended_us")} AS slot, kind, {spread("latency_us", _OK)}
FROM {_CALLS} WHERE kind <> 'other' GROUP BY 1, 2
UNION ALL
SELECT {slot("sent_us")}, '{END_TO_END}', {spread("way_us")} FROM {_WAY} GROUP BY 1""",
    "lateness": f"""
SELECT {slot("intended_us")} AS slot, {spread("started_us - intended_us")}
FROM attempts WHERE role = 'producer' AND attempt = 0 GROUP BY 1""",
    "distributions": f"""
SELECT kind, {bin_of("latency_us")} AS bin, COUNT(*) AS count
FROM {_CALLS} WHERE {_OK} AND kind <> 'other' GROUP BY 1, 2
UNION ALL
SELECT '{END_TO_END}', {bin_of("way_us")}, COUNT(*) FROM {_WAY} GROUP BY 2""",
    "arrivals": f"""
SELECT slot, SUM(came) AS came, SUM(gone) AS gone FROM (
  SELECT {slot("COALESCE(sent_us, delivered_us)")} AS slot, 1 AS came, 0 AS gone FROM ids
  UNION ALL SELECT {slot("delete_us")}, 0, 1 FROM ids WHERE delete_us IS NOT NULL
) changes GROUP BY slot""",
    "leases": f"""
SELECT slot, SUM(came) AS came, SUM(gone) AS gone FROM (
  SELECT {slot("ended_us")} AS slot, 1 AS came, 0 AS gone FROM holds
  UNION ALL SELECT {slot("held_us")}, 0, 1 FROM holds WHERE held_us <= :ended_us
) changes GROUP BY slot""",
    "endpoints": f"""
SELECT endpoint, COUNT(*) AS calls, {_OUTCOMES}, {spread("ended_us - intended_us", _OK)}
FROM attempts WHERE role = 'producer'
GROUP BY endpoint ORDER BY calls DESC LIMIT {ENDPOINTS_MAX}""",
    "queues": f"""
SELECT queue, SUM(told) AS sent, SUM(deliveries) AS delivered, SUM(deletes) AS deleted
FROM messages GROUP BY queue ORDER BY sent DESC, queue LIMIT {SHOWN_MAX}""",
    "groups": f"""
SELECT queue, message_group AS name, SUM(told) AS messages FROM messages
WHERE is_fifo = 1 AND told > 0 GROUP BY queue, message_group
ORDER BY messages DESC, name LIMIT {SHOWN_MAX}""",
    "tenants": f"""
SELECT tenant, COUNT(*) AS calls, {spread("ended_us - intended_us", _OK)}, {_OUTCOMES}
FROM attempts a JOIN tenants t ON t.op = a.op
WHERE role = 'producer' AND tenant IS NOT NULL
GROUP BY tenant ORDER BY calls DESC, tenant LIMIT {SHOWN_MAX}""",
    "choosing": f"""
SELECT {slot("began_us")} AS slot, {spread("choose_us")}
FROM receives WHERE choose_us IS NOT NULL GROUP BY 1""",
    "choosing_bins": f"""
SELECT {bin_of("choose_us")} AS bin, COUNT(*) AS count
FROM receives WHERE choose_us IS NOT NULL GROUP BY 1""",
    "partitions": f"""
SELECT partitions AS value, COUNT(*) AS count FROM receives WHERE partitions IS NOT NULL
GROUP BY 1 ORDER BY count DESC LIMIT {COUNTS_MAX}""",
    "rows_seen": f"""
SELECT rows_seen AS value, COUNT(*) AS count FROM receives WHERE rows_seen IS NOT NULL
GROUP BY 1 ORDER BY count DESC LIMIT {COUNTS_MAX}""",
}
_GROUP_COUNTS: Final = """
SELECT COUNT(*) AS group_count, COALESCE(SUM(messages), 0) AS grouped_messages FROM (
  SELECT SUM(told) AS messages FROM messages WHERE is_fifo = 1 AND told > 0
  GROUP BY queue, message_group) each_group"""
_OVER_BUDGET: Final = "SELECT COUNT(*) AS over_budget FROM receives WHERE choose_us > :budget_us"


def read_run(source: Source, verdict: Path) -> Run:
    """`verdict` is what `verify` has written, if it was asked."""
    planned, recorded = source.trace, source.history
    tables: dict[str, Any] = {name: _rows(source, sql) for name, sql in SQL.items()}
    tables["totals"] = {row.pop("kind"): row for row in tables["totals"]}
    return Run(
        trace_id=recorded.trace_id,
        workload=planned.workload,
        began_us=recorded.began_us,
        ended_us=recorded.ended_us,
        step_us=step_us(recorded.ended_us - recorded.began_us),
        is_complete=recorded.is_complete,
        speed=recorded.speed,
        planned=planned.messages,
        budget_us=source.limits.budget_us,
        faults=[{"at_us": fault.at_us, "label": fault.label} for fault in recorded.faults],
        **tables,
        **_rows(source, _GROUP_COUNTS)[0],
        **_rows(source, _OVER_BUDGET)[0],
        **read_verdict(verdict),
    )


def read_verdict(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    fields = json.loads(path.read_text(encoding="utf-8"))
    counts = {check["check"]: check["count"] for check in fields["checks"]}
    return {"verdict": fields["verdict"], "violations": counts}


def _rows(source: Source, sql: str) -> list[dict[str, Any]]:
    began_us, ended_us = source.history.began_us, source.history.ended_us
    parameters = {
        "began_us": began_us,
        "ended_us": ended_us,
        "step_us": step_us(ended_us - began_us),
        "budget_us": source.limits.budget_us,
    }
    used = {name: value for name, value in parameters.items() if f":{name}" in sql}
    return [flat(row) for row in source.rows(sql, used)]


def flat(row: dict[str, Any]) -> dict[str, Any]:
    """Quantiles by name; those of nothing are NULL. SQLite has them as JSON."""
    if "quantiles" not in row:
        return row
    found = row.pop("quantiles") or [None] * len(QUANTILES)
    values = json.loads(found) if isinstance(found, str) else found
    return row | dict(zip(QUANTILES, values, strict=True)) | {"max": row.pop("longest")}
