"""Writes the rows of a lane's history as Parquet files, with bounded memory and without long stops.

Rows are taken as tuples, made into Arrow batches a few hundred at a time when the lane has nothing
better to do, and written by a thread of lower priority, which needs the interpreter only briefly.
A file that is being written has another suffix: whoever reads the directory sees whole files.
"""

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from spark_load.schema import CALL_COLUMNS
from spark_load.tables import CALLS_ARROW

# About half a millisecond's work.
BATCH_ROWS: Final = 256
# Packing them cannot be put off any more.
ROWS_WAITING_MAX: Final = 4_096
GROUP_ROWS: Final = 32_768
FILE_ROWS: Final = 2_000_000
# So many row groups may wait for the disk before the lane waits too.
GROUPS_WAITING_MAX: Final = 4
COMPRESSION: Final = "zstd"
# Columns of few different values. A dictionary of the others would be made, and given up.
DICTIONARIES: Final = [
    *("role", "action", "queue", "endpoint", "outcome", "error"),
    *("messages.list.element.group", "messages.list.element.outcome"),
]
NICENESS: Final = 10

Row = tuple[Any, ...]


class ParquetRecorder:
    """One lane's part of a history."""

    def __init__(self, directory: Path, lane: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._lane = lane
        self._rows: deque[Row] = deque()
        # Called for every attempt of a call.
        self.add: Callable[[Row], None] = self._rows.append
        self._batches: list[pa.RecordBatch] = []
        self._thread = ThreadPoolExecutor(1, "history", initializer=lower_priority)
        self._writing: deque[Future[None]] = deque()
        self._file: _File | None = None
        self._files = 0
        self.rows = 0

    @property
    def has_work(self) -> bool:
        """Enough rows for a batch have come."""
        return len(self._rows) >= BATCH_ROWS

    @property
    def is_behind(self) -> bool:
        """More rows than memory is meant for have come."""
        return len(self._rows) >= ROWS_WAITING_MAX

    def work(self) -> None:
        """Makes one batch; waits only for a disk that cannot keep up."""
        rows = [self._rows.popleft() for _ in range(min(BATCH_ROWS, len(self._rows)))]
        if rows:
            self._batches.append(to_batch(rows))
            self.rows += len(rows)
        if len(self._batches) * BATCH_ROWS >= GROUP_ROWS:
            self._write_group()

    def close(self) -> None:
        """Everything is in files when this returns."""
        while self._rows:
            self.work()
        self._write_group()
        self._thread.shutdown(wait=True)
        for writing in self._writing:
            writing.result()
        if self._file is not None:
            self._file.close()

    def _write_group(self) -> None:
        if not self._batches:
            return
        batches, self._batches = self._batches, []
        while self._writing and (
            self._writing[0].done() or len(self._writing) >= GROUPS_WAITING_MAX
        ):
            self._writing.popleft().result()
        self._writing.append(self._thread.submit(self._write, batches))

    def _write(self, batches: list[pa.RecordBatch]) -> None:
        if self._file is None:
            self._file = _File(self._directory / f"lane-{self._lane:04d}-{self._files:04d}.parquet")
            self._files += 1
        self._file.write(pa.Table.from_batches(batches, CALLS_ARROW))
        if self._file.rows >= FILE_ROWS:
            self._file.close()
            self._file = None


class _File:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._draft = path.with_suffix(".draft")
        self._writer = pq.ParquetWriter(
            self._draft, CALLS_ARROW, compression=COMPRESSION, use_dictionary=DICTIONARIES
        )
        self.rows = 0

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table)
        self.rows += table.num_rows

    def close(self) -> None:
        self._writer.close()
        os.replace(self._draft, self._path)


def to_batch(rows: list[Row]) -> pa.RecordBatch:
    """Rows in the order of the columns, the messages last."""
    *scalars, messages = zip(*rows, strict=True)
    arrays = [
        pa.array(values, field.type) for values, field in zip(scalars, CALLS_ARROW, strict=False)
    ]
    return pa.RecordBatch.from_arrays([*arrays, to_lists(messages)], schema=CALLS_ARROW)


def to_lists(messages: tuple[Any, ...]) -> pa.ListArray:
    """Made column by column: Arrow takes ten times as long for a list of structs."""
    kind = CALLS_ARROW.field("messages").type
    fields = list(kind.value_type)
    flat = list(chain.from_iterable(messages))
    columns = zip(*flat, strict=True) if flat else [()] * len(fields)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, fields, strict=True)]
    offsets = pa.array([0, *accumulate(map(len, messages))], pa.int32())
    structs = pa.StructArray.from_arrays(arrays, fields=fields)
    return pa.ListArray.from_arrays(offsets, structs, type=kind)


def lower_priority() -> None:
    """On Linux a thread has a priority of its own; elsewhere nothing is lost."""
    os.nice(NICENESS)


assert CALL_COLUMNS[-1].name == "messages"
