"""Which engine reads a history: SQLite in memory for small ones, Spark for all others."""

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from spark_load import session
from spark_load.checks import Check, Found
from spark_load.facts import Limits
from spark_load.schema import HistoryHeader, TraceHeader
from spark_load.small import is_small, open_small
from spark_load.spark_facts import open_facts


class Source(Protocol):
    """A trace and a history as the tables and views of `facts.py`."""

    @property
    def trace(self) -> TraceHeader: ...
    @property
    def history(self) -> HistoryHeader: ...
    @property
    def limits(self) -> Limits: ...
    def rows(self, sql: str, parameters: Mapping[str, int] | None = None) -> list[dict[str, Any]]:
        """Of a query whose result is small however large the history is."""
        ...

    def find(self, check: Check, directory: Path, shown_max: int) -> Found:
        """Writes all offences into a new directory, if there are any."""
        ...


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engine",
        choices=("auto", "sqlite", "spark"),
        default="auto",
        help="what reads the history: by default SQLite if it is small, else Spark",
    )
    session.add_arguments(parser)


@contextmanager
def open_source(options: argparse.Namespace, limits: Limits) -> Iterator[Source]:
    """Of `options.trace` and `options.history`."""
    trace: Path = options.trace
    history: Path = options.history
    if options.engine == "sqlite" or (options.engine == "auto" and is_small(history)):
        with open_small(trace, history, limits) as small:
            yield small
    else:
        with (
            session.session(options) as spark,
            open_facts(spark, trace, history, limits) as large,
        ):
            yield large
