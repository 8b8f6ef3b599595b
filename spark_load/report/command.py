"""`report`: sums up a history, writes the page and prints the numbers."""

import argparse
import sys
from pathlib import Path
from typing import Final

from spark_load import engine
from spark_load.errors import LoadError
from spark_load.facts import Limits
from spark_load.headers import read_headers
from spark_load.report.aggregates import read_run
from spark_load.report.page import page
from spark_load.report.runs import Run, run_from_json
from spark_load.report.summary import text
from spark_load.verdict import VERDICT

PAGE: Final = "report.html"
NUMBERS: Final = "report.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", type=Path, help="the trace that was replayed")
    parser.add_argument("history", type=Path, help="the history of its replay")
    parser.add_argument(
        "--against",
        type=Path,
        metavar="REPORT.JSON",
        help="the numbers of another run's report, to show them side by side",
    )
    parser.add_argument("--out", type=Path, help="the page (default: HISTORY/report.html)")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be drawn")
    engine.add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    planned, _ = read_headers(options.trace, options.history)
    others = [read_numbers(options.against)] if options.against else []
    out = options.out or options.history / PAGE
    if options.dry_run:
        print(f"would draw {planned.workload} {planned.trace_id} to {out}")
        return 0
    with engine.open_source(options, Limits()) as source:
        runs = [*others, read_run(source, options.history / "verdict" / VERDICT)]
    write(runs, out)
    sys.stdout.write(text(runs))
    print(out)
    return 0


def read_numbers(path: Path) -> Run:
    try:
        return run_from_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError) as error:
        raise LoadError(f"{path} does not have the numbers of a report: {error}") from None


def write(runs: list[Run], page_path: Path) -> None:
    """The page of all runs and, beside it, the numbers of the last one."""
    try:
        page_path.parent.mkdir(parents=True, exist_ok=True)
        page_path.write_text(page(runs), encoding="utf-8")
        page_path.with_name(NUMBERS).write_text(runs[-1].to_json(), encoding="utf-8")
    except OSError as error:
        raise LoadError(f"cannot write {page_path}: {error}") from None
