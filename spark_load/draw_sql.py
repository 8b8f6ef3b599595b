"""The draws of `generate` as SQL text: from a stream's number n to what operation n is.

Text only, without Spark. The rows it is selected from have n, a cell (`arrivals.Cell`) and what the
stream draws from (`stream_row`). Every draw is a hash of the stream's salt, a purpose and n.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from spark_load.draws import alias_table, zipf_weights
from spark_load.schema import SEND_ACTIONS, TRACE_ACTIONS
from spark_load.workload import Population, Stream

TABLES: Final = ("mix", "tenant", "group", "size")
_CELL: Final = {
    "slice": "INT",
    "stream": "INT",
    "first": "BIGINT",
    "operations": "BIGINT",
    "begin_us": "BIGINT",
    "end_us": "BIGINT",
    "begin_rate": "DOUBLE",
    "end_rate": "DOUBLE",
    "area": "DOUBLE",
}
_STREAM: Final = {
    "stream": "INT",
    "salt": "BIGINT",
    "batch_low": "INT",
    "batch_span": "INT",
    "delay_share": "DOUBLE",
    "delay_low": "INT",
    "delay_span": "INT",
    "repeat_share": "DOUBLE",
    **{f"{table}_{bound}": "INT" for table in TABLES for bound in ("first", "rows")},
}
# What is never null needs no code that looks whether it is.
CELL_DDL: Final = ", ".join(
    [*(f"{name}: {kind} NOT NULL" for name, kind in _CELL.items()), "offset: DOUBLE"]
)
STREAM_DDL: Final = ", ".join(f"{name} {kind} NOT NULL" for name, kind in _STREAM.items())
# Purposes: what a seed means depends on these numbers.
_AT, _MIX, _BATCH, _TENANT, _GROUP, _SIZE, _SIZE_IN, _DELAY, _DELAY_IN, _REPEAT = range(10)
_SEND, _SEND_BATCH = (TRACE_ACTIONS.index(action) for action in SEND_ACTIONS)


class Tables:
    """What all streams draw from, in one alias table: that of a stream begins at its `_first` row.

    One constant of the query: carried in rows it would be copied with each of them. `low` and
    `span` say what a row stands for: an action, a member's number, sizes from low on.
    """

    def __init__(self) -> None:
        self._keep: list[float] = []
        self._other: list[int] = []
        self._low: list[int] = []
        self._span: list[int] = []

    def add(
        self, weights: Sequence[float], lows: Sequence[int], spans: Sequence[int] | None = None
    ) -> tuple[int, int]:
        first = len(self._keep)
        keep, other = alias_table(weights) if weights else ([], [])
        self._keep += keep
        self._other += [first + row for row in other]
        self._low += lows
        self._span += spans or [1] * len(lows)
        return first, len(keep)

    def columns(self) -> list[str]:
        """To be selected beside `*`; the optimizer makes constants of them."""
        integers = {"other": self._other, "low": self._low, "span": self._span}
        return [
            _constant("keep", "DOUBLE", self._keep),
            *(_constant(name, "INT", values) for name, values in integers.items()),
        ]


def _constant(name: str, kind: str, values: Sequence[float]) -> str:
    texts = ",".join(repr(value) for value in values)
    return f"CAST(split('{texts}', ',') AS ARRAY<{kind}>) AS {name}"


def stream_row(number: int, stream: Stream, seed: int, tables: Tables) -> tuple[Any, ...]:
    """A stream as a row of STREAM_DDL; what it draws from is added to the tables."""
    batch_low, batch_high = stream.batch
    delay_low, delay_high = stream.delay_seconds
    sizes = stream.sizes
    spans = [high - low + 1 for low, high in zip(sizes.lows, sizes.highs, strict=True)]
    actions = [TRACE_ACTIONS.index(action) for action in stream.mix]
    return (
        *(number, _salt(seed, number), batch_low, batch_high - batch_low + 1),
        *(stream.delay_share, delay_low, delay_high - delay_low + 1, stream.duplicate_share),
        *tables.add([*stream.mix.values()], actions),
        *_add_members(tables, stream.tenants),
        *_add_members(tables, stream.groups),
        *tables.add(sizes.weights, sizes.lows, spans),
    )


def _salt(seed: int, stream: int) -> int:
    digest = hashlib.blake2b(f"{seed}/{stream}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def _add_members(tables: Tables, population: Population | None) -> tuple[int, int]:
    if population is None:
        return tables.add([], [])
    weights = zipf_weights(population.count, population.skew)
    return tables.add(weights, range(population.count))


def uniform(purpose: int, *numbers: str) -> str:
    """A number inside (0, 1)."""
    facts = ", ".join(["salt", str(purpose), *numbers])
    return f"((shiftrightunsigned(xxhash64({facts}), 12) + 0.5D) * {2.0**-52!r}D)"


def place_in(table: str, share: str) -> str:
    """Where in the stream's part of the tables a draw points, with a fraction. Of one row there is
    nothing to draw.
    """
    only = f"double({table}_first)"
    return f"if({table}_rows = 1, {only}, {table}_first + {share} * {table}_rows)"


def pick(place: str) -> str:
    """The row that `AliasTable.draw` would give."""
    return f"if({place} - int({place}) < keep[int({place})], int({place}), other[int({place})])"


class Needs(NamedTuple):
    """What some stream draws; what none does is not computed and not carried."""

    batches: bool
    tenants: bool
    groups: bool
    delays: bool
    recordings: bool


def needs_of(streams: Iterable[Stream]) -> Needs:
    every = list(streams)
    return Needs(
        batches=any("SendMessageBatch" in stream.mix for stream in every),
        tenants=any(stream.tenants for stream in every),
        groups=any(stream.groups for stream in every),
        delays=any(stream.delay_share for stream in every),
        recordings=any(stream.timestamps for stream in every),
    )


def draw_steps(tables: Tables, needs: Needs) -> list[list[str]]:
    """Selections, each from the one before it; the last has what `operations.py` makes a trace of.

    What is used more than once has a step of its own: Spark computes it once, and its compiled code
    stays short enough for the JVM to optimise.
    """
    repeats = f"repeat_share > 0 AND n % 2 = 1 AND {uniform(_REPEAT, 'n')} < repeat_share"
    return [
        ["*", *tables.columns()],
        [
            "*",
            # Every other operation may repeat the one before it, which never repeats another.
            f"if({repeats}, n - 1, n) AS source",
            f"coalesce(offset + (n - first), area * {uniform(_AT, 'n')}) AS y",
            f"{place_in('mix', uniform(_MIX, 'n'))} AS mix_place",
            f"{place_in('size', uniform(_SIZE, 'n', '0'))} AS size_place",
        ],
        [
            "*",
            f"{place_in('tenant', uniform(_TENANT, 'source'))} AS tenant_place",
            f"{place_in('group', uniform(_GROUP, 'source'))} AS group_place",
            f"low[{pick('mix_place')}] AS action",
            f"{pick('size_place')} AS size_row",
        ],
        [
            *("stream", "source", "action"),
            f"{f'coalesce(stamped_us, {_at_us()})' if needs.recordings else _at_us()} AS at_us",
            *([_member("tenant")] if needs.tenants else []),
            *([_member("group")] if needs.groups else []),
            *([_delay()] if needs.delays else []),
            _sizes() if needs.batches else _single_size(),
        ],
    ]


def _member(table: str) -> str:
    return f"if({table}_rows = 0, NULL, low[{pick(f'{table}_place')}]) AS {table}"


def _delay() -> str:
    seconds = f"delay_low + int({uniform(_DELAY_IN, 'n')} * delay_span)"
    return f"if({uniform(_DELAY, 'n')} < delay_share, {seconds}, NULL) AS delay"


def _at_us() -> str:
    """Where the integral of the cell's straight rate reaches y. This form of the quadratic's root
    is exact for level rates too.
    """
    slope = "((end_rate - begin_rate) / ((end_us - begin_us) * 1e-6D))"
    root = f"sqrt(greatest(begin_rate * begin_rate + 2 * {slope} * y, 0D))"
    return f"least(end_us - 1, begin_us + bigint(2e6D * y / (begin_rate + {root})))"


def _single_size() -> str:
    return f"if(action = {_SEND}, {_size('size_row', '0')}, NULL) AS size"


def _sizes() -> str:
    """One for each message."""
    single = f"WHEN {_SEND} THEN array({_size('size_row', '0')})"
    count = f"batch_low + int({uniform(_BATCH, 'n')} * batch_span)"
    shares = uniform(_SIZE, "n", "i")
    places = f"transform(sequence(0, {count} - 1), i -> {place_in('size', shares)})"
    rows = f"transform({places}, place -> {pick('place')})"
    batch = f"WHEN {_SEND_BATCH} THEN transform({rows}, (row, i) -> {_size('row', 'i')})"
    return f"CASE action {single} {batch} ELSE CAST(array() AS ARRAY<INT>) END AS sizes"


def _size(row: str, place: str) -> str:
    return f"low[{row}] + int({uniform(_SIZE_IN, 'n', place)} * span[{row}])"
