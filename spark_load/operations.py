"""Drawn numbers → the operations of a trace, on the executors: sorted, numbered, named, written.

Spark SQL draws the numbers (`generate.py`); texts and Parquet files are made here, column by column
with pyarrow, which takes a fraction of the time that a row-wise writer needs. A task's rows come
slice by slice, and slices follow each other in time: whatever precedes the newest slice can be
sorted and written, so memory holds a few slices and never a whole task.
"""

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_load.schema import TRACE_ACTIONS
from spark_load.tables import OPERATIONS_ARROW

WRITTEN_DDL: Final = "file STRING, operations BIGINT, messages BIGINT"
WRITTEN_ARROW: Final = pa.schema(
    [("file", pa.string()), ("operations", pa.int64()), ("messages", pa.int64())]
)
MESSAGES_ARROW: Final = OPERATIONS_ARROW.field("messages").type
# All other texts are different in every row, and looking for repetitions would cost the most.
REPETITIVE: Final = ["queue", "action", "tenant", "group"]
ROW_GROUP_ROWS: Final = 131_072
MAX_US: Final = 2**62


@dataclass(frozen=True, slots=True)
class Naming:
    """What the numbers of a draw are called. Lists are by stream."""

    trace_id: str
    queues: list[str]
    tenant_prefixes: list[str | None]
    group_prefixes: list[str | None]


@dataclass(frozen=True, slots=True)
class Layout:
    """How pieces, and slices within them, are told apart by the time of their operations."""

    slice_us: int
    # By piece.
    first_slices: list[int]
    first_ops: list[int]

    def piece_at(self, at_us: int) -> int:
        return bisect_right(self.first_slices, at_us // self.slice_us) - 1

    def end_us(self, piece: int) -> int:
        is_last = piece == len(self.first_slices) - 1
        return MAX_US if is_last else self.first_slices[piece + 1] * self.slice_us


class OperationWriter:
    """One file. `first_op` numbers its first row; the rest follow in the order of time."""

    def __init__(self, path: Path, naming: Naming, first_op: int, slice_us: int) -> None:
        self._path = path
        self._draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
        self._naming = naming
        self._next_op = first_op
        self._slice_us = slice_us
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        self._writer = pq.ParquetWriter(
            self._draft,
            OPERATIONS_ARROW,
            compression="zstd",
            use_dictionary=REPETITIVE,
            write_statistics=["op", "at_us"],
            store_schema=False,
        )
        self.operations = 0
        self.messages = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Rows in the order of their slices."""
        self._waiting.append(pa.Table.from_batches([batch]))
        self._waiting_rows += batch.num_rows
        if self._waiting_rows >= ROW_GROUP_ROWS:
            self._write(is_last=False)

    def close(self) -> None:
        """In place at once or not at all: a task that is repeated writes the same again."""
        self._write(is_last=True)
        self._writer.close()
        os.replace(self._draft, self._path)

    def _write(self, *, is_last: bool) -> None:
        if not self._waiting:
            return
        table = pa.concat_tables(self._waiting).combine_chunks()
        keep = 0 if is_last else self._newest_slice_rows(table)
        ready = table.slice(0, table.num_rows - keep)
        self._waiting = [table.slice(table.num_rows - keep)] if keep else []
        self._waiting_rows = keep
        if ready.num_rows:
            # Stable: what is due in the same µs stays in the order of streams and their numbers.
            order = pc.array_sort_indices(ready["at_us"].combine_chunks())
            operations = name_operations(ready.take(order), self._naming, self._next_op)
            self._writer.write_table(operations, row_group_size=ROW_GROUP_ROWS)
            self._next_op += operations.num_rows
            self.operations += operations.num_rows
            self.messages += pc.sum(pc.list_value_length(operations["messages"])).as_py() or 0

    def _newest_slice_rows(self, table: pa.Table) -> int:
        """Of the last slice more may come."""
        begin_us = table["at_us"][-1].as_py() // self._slice_us * self._slice_us
        return int(pc.sum(pc.greater_equal(table["at_us"], begin_us)).as_py())


def name_operations(drawn: pa.Table, naming: Naming, first_op: int) -> pa.Table:
    """Rows in the order of time, columns as `generate.py` draws them → rows of a trace."""
    columns = _whole(drawn)
    stream = columns["stream"]
    ops = pc.add(_counting(drawn.num_rows), first_op)
    op_texts = ops.cast(pa.string())
    queue = pa.array(naming.queues).take(stream)
    is_fifo = pa.array([name.endswith(".fifo") for name in naming.queues]).take(stream)
    tenant = _member(naming.tenant_prefixes, stream, columns["tenant"])
    group = _groups(tenant, _member(naming.group_prefixes, stream, columns["group"]), is_fifo)
    fifo_lane = pc.binary_join_element_wise(queue, group, "/")
    arrays = {
        "op": ops,
        "at_us": columns["at_us"],
        "queue": queue,
        "action": pa.array(TRACE_ACTIONS).take(columns["action"]),
        "tenant": tenant,
        "group": group,
        "lane_key": pc.if_else(is_fifo, fifo_lane, op_texts),
        "messages": _messages(columns, naming.trace_id, op_texts, is_fifo),
    }
    return pa.Table.from_arrays([*arrays.values()], schema=OPERATIONS_ARROW)


def _whole(drawn: pa.Table) -> dict[str, pa.Array]:
    """What no stream of the workload draws is not among the columns."""
    columns = {name: drawn[name].combine_chunks() for name in drawn.column_names}
    nothing = pa.nulls(drawn.num_rows, pa.int32())
    if "sizes" not in columns:
        columns["sizes"] = _lists_of_one(columns["size"])
    return {"tenant": nothing, "group": nothing, "delay": nothing} | columns


def _lists_of_one(values: pa.Array) -> pa.Array:
    """[x] for x, [] for null."""
    if not values.null_count:
        return pa.ListArray.from_arrays(_counting(len(values) + 1).cast(pa.int32()), values)
    ends = pc.cumulative_sum(pc.is_valid(values).cast(pa.int32()))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return pa.ListArray.from_arrays(offsets, values.drop_null())


def _member(prefixes: list[str | None], stream: pa.Array, number: pa.Array) -> pa.Array:
    """`prefix` + number, null where the stream has none."""
    if all(prefix is None for prefix in prefixes):
        return pa.nulls(len(stream), pa.string())
    prefix = pa.array(prefixes, pa.string()).take(stream)
    return pc.binary_join_element_wise(prefix, number.cast(pa.string()), "")


def _groups(tenant: pa.Array, group: pa.Array, is_fifo: pa.Array) -> pa.Array:
    """A FIFO queue's groups are a tenant's own; on other queues the tenant is the group."""
    both = pc.binary_join_element_wise(tenant, group, "-")
    in_fifo = pc.coalesce(both, group, tenant, "g0")
    return pc.if_else(is_fifo, in_fifo, tenant)


def _messages(
    columns: dict[str, pa.Array], trace_id: str, op_texts: pa.Array, is_fifo: pa.Array
) -> pa.Array:
    sizes = columns["sizes"]
    assert sizes.offsets[0].as_py() == 0, "a fresh list begins at its first value"
    parent = pc.list_parent_indices(sizes)
    place = pc.subtract(_counting(len(parent)), sizes.offsets.take(parent)).cast(pa.string())
    keys = pc.binary_join_element_wise(trace_id, op_texts.take(parent), place, "-")
    values = [
        keys,
        pc.max_element_wise(sizes.flatten(), pc.binary_length(keys)),
        columns["delay"].take(parent),
        _dedup(columns, trace_id, is_fifo, parent, place),
    ]
    fields = list(MESSAGES_ARROW.value_type)
    structs = pa.StructArray.from_arrays(values, fields=fields)
    return pa.ListArray.from_arrays(sizes.offsets, structs, type=MESSAGES_ARROW)


def _dedup(
    columns: dict[str, pa.Array],
    trace_id: str,
    is_fifo: pa.Array,
    parent: pa.Array,
    place: pa.Array,
) -> pa.Array:
    """An id of its own for each message of a FIFO queue, except that what repeats an operation has
    the ids of that one.
    """
    nothing = pa.nulls(len(parent), pa.string())
    if not pc.any(is_fifo).as_py():
        return nothing
    stream, source = (columns[name].take(parent).cast(pa.string()) for name in ("stream", "source"))
    ids = pc.binary_join_element_wise(trace_id, stream, source, place, ".")
    return pc.if_else(is_fifo.take(parent), ids, nothing)


_numbers = pa.array([], pa.int64())


def _counting(count: int) -> pa.Array:
    """0 … count - 1."""
    global _numbers
    if len(_numbers) < count:
        _numbers = pa.array(range(max(count, 2 * len(_numbers))), pa.int64())
    return _numbers.slice(0, count)


def write_pieces(
    batches: Iterable[pa.RecordBatch], folder: str, naming: Naming, layout: Layout
) -> Iterator[pa.RecordBatch]:
    """A task of the stage: a file for each of its pieces, which follow each other; a row about
    each.
    """
    parts = (part for batch in batches for part in _cut_at_pieces(batch, layout))
    for piece, group in groupby(parts, key=itemgetter(0)):
        name = f"part-{piece:05d}.parquet"
        first_op = layout.first_ops[piece]
        writer = OperationWriter(Path(folder, name), naming, first_op, layout.slice_us)
        for _, part in group:
            writer.add(part)
        writer.close()
        row = [[name], [writer.operations], [writer.messages]]
        yield pa.RecordBatch.from_arrays([pa.array(values) for values in row], schema=WRITTEN_ARROW)


def _cut_at_pieces(batch: pa.RecordBatch, layout: Layout) -> Iterator[tuple[int, pa.RecordBatch]]:
    while batch.num_rows:
        piece = layout.piece_at(batch["at_us"][0].as_py())
        # Pieces of one task need not be neighbours, but none comes before an earlier one.
        is_inside = pc.less(batch["at_us"], layout.end_us(piece))
        rows = pc.sum(is_inside).as_py()
        yield piece, batch.slice(0, rows)
        batch = batch.slice(rows)
