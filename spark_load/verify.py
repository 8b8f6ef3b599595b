"""`verify`: runs the checks of `checks.py` over a trace and a history, and writes the verdict.

Small histories are judged by SQLite, others in Spark, by the same SQL. Only a few offences of each
check come to the driver; all of them are written beside the verdict.
"""

import argparse
import shutil
import sys
from pathlib import Path
from typing import Final

from spark_load import engine
from spark_load.checks import CHECKS, Check
from spark_load.engine import Source
from spark_load.errors import LoadError
from spark_load.facts import Limits
from spark_load.headers import read_headers
from spark_load.verdict import VERDICT, Finding, Verdict, summary

EXAMPLES_MAX: Final = 20
_CALL_COUNTS: Final = """
SELECT COALESCE(SUM(CASE WHEN attempt = 0 THEN 1 ELSE 0 END), 0) AS calls, COUNT(*) AS attempts,
  COALESCE(SUM(CASE WHEN outcome = 'unknown' THEN 1 ELSE 0 END), 0) AS unanswered
FROM attempts
"""
_MESSAGE_COUNTS: Final = """
SELECT COALESCE(SUM(told), 0) AS acknowledged, COALESCE(SUM(attempts - told), 0) AS doubtful,
  COALESCE(SUM(deliveries), 0) AS delivered, COALESCE(SUM(deletes), 0) AS deleted
FROM tally
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", type=Path, help="the trace that was replayed")
    parser.add_argument("history", type=Path, help="the history of its replay")
    parser.add_argument(
        "--out", type=Path, help="for verdict.json and offences (default: HISTORY/verdict)"
    )
    for name, meaning in (
        ("tolerance", "how far timers of the nodes may be off"),
        ("clock", "how far the clocks of two executors may be apart"),
        ("budget", "how long a receive may choose"),
    ):
        default = getattr(Limits(), f"{name}_us") / 1000
        text = f"{meaning} (default: %(default)g)"
        parser.add_argument(f"--{name}-ms", type=float, default=default, help=text)
    parser.add_argument("--dry-run", action="store_true", help="only say what would be judged")
    engine.add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    planned, _ = read_headers(options.trace, options.history)
    if options.dry_run:
        names = ", ".join(check.name for check in CHECKS)
        print(f"would judge {planned.messages:,} messages of {planned.workload} by: {names}")
        return 0
    out = options.out or options.history / "verdict"
    limits = Limits(
        tolerance_us=round(options.tolerance_ms * 1000),
        clock_us=round(options.clock_ms * 1000),
        budget_us=round(options.budget_ms * 1000),
    )
    with engine.open_source(options, limits) as source:
        verdict = verify(source, options.history, out)
    sys.stdout.write(summary(verdict))
    return verdict.exit_code


def verify(source: Source, history: Path, out: Path) -> Verdict:
    """Judges, and writes verdict and offences into `out`."""
    (calls,), (messages,) = source.rows(_CALL_COUNTS), source.rows(_MESSAGE_COUNTS)
    if not messages["acknowledged"] + messages["doubtful"]:
        raise LoadError(f"{history}: nothing was sent, so there is nothing to judge")
    out.mkdir(parents=True, exist_ok=True)
    findings = tuple(_run_check(source, check, out / check.name) for check in CHECKS)
    counts = {"planned": source.trace.messages} | messages | calls
    verdict = Verdict(source.history.trace_id, source.history.is_complete, counts, findings)
    (out / VERDICT).write_text(verdict.to_json(), encoding="utf-8")
    return verdict


def _run_check(source: Source, check: Check, rows: Path) -> Finding:
    shutil.rmtree(rows, ignore_errors=True)
    count, examples = source.find(check, rows, EXAMPLES_MAX)
    return Finding(
        check=check.name,
        meaning=check.meaning,
        count=count,
        is_judged=source.history.is_complete or not check.needs_end,
        examples=tuple(examples),
        rows=str(rows) if count else None,
    )
