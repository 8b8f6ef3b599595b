"""Headers of traces and histories, to JSON files and back. What is in them: `schema.py`.

A directory without its header is not a trace: the header is written last, in one step.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from spark_load.errors import LoadError
from spark_load.schema import (
    CALLS,
    HISTORY_HEADER,
    TRACE_HEADER,
    VERSION,
    Consumers,
    FaultMark,
    HistoryHeader,
    Queue,
    TraceHeader,
)

Header = TypeVar("Header")


def write_trace_header(directory: Path, header: TraceHeader) -> None:
    _write(directory / TRACE_HEADER, asdict(header))


def read_trace_header(directory: Path) -> TraceHeader:
    return _read(directory / TRACE_HEADER, "trace", trace_header)


def write_history_header(directory: Path, header: HistoryHeader) -> None:
    _write(directory / HISTORY_HEADER, asdict(header))


def read_history_header(directory: Path) -> HistoryHeader:
    return _read(directory / HISTORY_HEADER, "history", history_header)


def read_headers(trace: Path, history: Path) -> tuple[TraceHeader, HistoryHeader]:
    """Of a trace and of its replay."""
    planned, recorded = read_trace_header(trace), read_history_header(history)
    if planned.trace_id != recorded.trace_id:
        raise LoadError(
            f"{history} is a replay of the trace {recorded.trace_id}, {trace} is {planned.trace_id}"
        )
    if not any((history / CALLS).glob("*.parquet")):
        raise LoadError(f"{history} is empty: it has no calls")
    return planned, recorded


def trace_header(fields: Mapping[str, Any]) -> TraceHeader:
    queues = tuple(_queue(queue) for queue in fields["queues"])
    return TraceHeader(**{**fields, "queues": queues})


def history_header(fields: Mapping[str, Any]) -> HistoryHeader:
    faults = tuple(FaultMark(**fault) for fault in fields["faults"])
    endpoints = tuple(fields["endpoints"])
    return HistoryHeader(**{**fields, "endpoints": endpoints, "faults": faults})


def _queue(fields: Mapping[str, Any]) -> Queue:
    consumers = fields["consumers"]
    return Queue(**{**fields, "consumers": Consumers(**consumers) if consumers else None})


def _write(path: Path, fields: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")
    os.replace(draft, path)


def _read(path: Path, kind: str, build: Callable[[Mapping[str, Any]], Header]) -> Header:
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise LoadError(f"{path.parent} is not a {kind}: it has no {path.name}") from None
    except (OSError, ValueError) as error:
        raise LoadError(f"cannot read {path}: {error}") from None
    version = fields.get("version") if isinstance(fields, dict) else None
    if version != VERSION:
        raise LoadError(f"{path} has version {version!r}; this program reads version {VERSION}")
    try:
        return build(fields)
    except (KeyError, TypeError) as error:
        raise LoadError(f"{path} is damaged: {error}") from None
