"""Operations of a trace as Python values, from Arrow batches. Pure.

Column by column, straight from Arrow's buffers where a column has no nulls: a scalar of a nested
Arrow row costs more than the request it becomes.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple

import pyarrow as pa

from spark_load.replay.named import maker

# How the buffers of these types are read, by `memoryview.cast`.
_NUMBERS: Final[dict[pa.DataType, Literal["q", "i"]]] = {pa.int64(): "q", pa.int32(): "i"}


class Outgoing(NamedTuple):
    """A message to send."""

    key: str
    size: int
    delay: int | None
    dedup: str | None


class Operation(NamedTuple):
    """What a producer is to do, `at_us` after the start."""

    op: int
    at_us: int
    queue: str
    action: str
    group: str | None
    messages: list[Outgoing]


_outgoing: Final = maker(Outgoing)
_operation: Final = maker(Operation)


def read_operations(batch: pa.RecordBatch) -> Iterator[Operation]:
    """The rows of a batch that has at least the columns of an operation."""
    names = ("op", "at_us", "queue", "action", "group")
    scalars = (read_column(batch.column(name)) for name in names)
    messages = read_messages(batch.column("messages"))
    return map(_operation, zip(*scalars, messages, strict=True))


def read_messages(column: pa.ListArray) -> Iterator[list[Outgoing]]:
    """The messages of each row. `flatten` keeps to the rows of a slice; its offsets do not."""
    fields = column.flatten().flatten()
    messages = list(map(_outgoing, zip(*map(read_column, fields), strict=True)))
    offsets = read_column(column.offsets)
    first = offsets[0] if offsets else 0
    return (messages[start - first : stop - first] for start, stop in pairwise(offsets))


def read_column(column: pa.Array) -> list[Any]:
    """The values of a column of numbers or texts."""
    count = len(column)
    if column.null_count == count:
        return [None] * count
    if column.null_count:
        return list(column.to_pylist())
    if column.type in _NUMBERS:
        values = memoryview(column.buffers()[1]).cast(_NUMBERS[column.type])
        return list(values[column.offset : column.offset + count].tolist())
    return _read_texts(column)


def _read_texts(column: pa.StringArray) -> list[str]:
    """Cut out of one text; where a character may be several bytes, Arrow does it."""
    _, places, characters = column.buffers()
    offsets = memoryview(places).cast("i")[column.offset : column.offset + len(column) + 1].tolist()
    first = offsets[0]
    raw = bytes(memoryview(characters)[first : offsets[-1]]) if characters else b""
    if not raw.isascii():
        values: list[str] = column.to_pylist()
        return values
    text = raw.decode("ascii")
    return [text[begin - first : end - first] for begin, end in pairwise(offsets)]
