"""Rows that are held back: which of them are forgotten, in what order they are read and written.

Each rule of `_held_ref.py` has its test, on the twin and on the compiled module.
"""

from itertools import product
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode import _held_ref, native
from fastnode.native import (
    FAMILY_COUNTER,
    FAMILY_DATA,
    FAMILY_GROUP,
    FAMILY_READY,
    FAMILY_STATE,
    FAMILY_TIMER,
    FRESH_DELETE,
    FRESH_PUT,
    PUT,
)
from tests.unit.conftest import Impl
from tests.unit.native.landed_writes import Taker, Write, encoded, histories, outcomes

# Each has `Held` and `HeldBatch`.
MODULES: list[Any] = [_held_ref, *([native] if native.COMPILED else [])]
both = pytest.mark.parametrize("module", MODULES, ids=["twin", "compiled"][: len(MODULES)])
compiled_only = pytest.mark.skipif(not native.COMPILED, reason="pure mode has nothing to compare")

NAMED_ONCE = (FAMILY_DATA, FAMILY_TIMER, FAMILY_GROUP, FAMILY_READY)
FAMILIES = (*NAMED_ONCE, FAMILY_STATE, FAMILY_COUNTER, b"!other|", b"")
# The compiled module copies a record's key of up to 512 bytes to its stack, and a longer one not.
NEAR = b"n" * (512 - len(FAMILY_DATA))
NAMES = st.sampled_from([b"", b"1", b"2", b"1\x00", b"\xff", NEAR, NEAR + b"n", NEAR * 3])
KEYS = st.builds(lambda family, name: family + name, st.sampled_from(FAMILIES), NAMES)
VALUES = st.sampled_from([b"", b"v", b"value", bytes(3_000)])
Rows = list[tuple[bytes, bytes | None]]
ROWS = st.lists(st.tuples(KEYS, st.none() | VALUES), max_size=12)
RANGES = st.tuples(KEYS, KEYS)
NOWHERE = object()


class Told:
    """A batch of an engine that notes what it is given, in order."""

    def __init__(self) -> None:
        self.operations: list[tuple[Any, ...]] = []

    def put(self, key: bytes, value: bytes) -> None:
        self.operations.append((key, value))

    def delete(self, key: bytes) -> None:
        self.operations.append((key, None))

    def delete_range(self, begin: bytes, end: bytes) -> None:
        self.operations.append(("range", begin, end))


def batch_of(module: Any, rows: Rows, *, are_first: bool = False) -> Any:
    """Its states, if they are the first of their messages, are called so."""
    batch = module.HeldBatch()
    for key, value in rows:
        if value is None:
            batch.delete(key)
        elif are_first and key.startswith(FAMILY_STATE):
            batch.put_first_state(key, value)
        else:
            batch.put(key, value)
    return batch


def holding(module: Any, *batches: Rows) -> Any:
    held = module.Held()
    for rows in batches:
        held.take(batch_of(module, rows))
    return held


def told_by(rows: Any) -> list[tuple[Any, ...]]:
    told = Told()
    rows.write_to(told)
    return told.operations


def seen(held: Any, keys: list[bytes], ranges: list[tuple[bytes, bytes]]) -> list[object]:
    found = [held.get(key, NOWHERE) for key in keys]
    return [len(held), held.size, told_by(held), found, [held.rows_in(*each) for each in ranges]]


# --- both alike --------------------------------------------------------------------------------


@compiled_only
@given(
    st.lists(st.tuples(ROWS, st.booleans()), max_size=8),
    st.lists(RANGES, max_size=4),
    st.lists(KEYS, max_size=4),
)
def test_compiled_and_plain_hold_the_same(
    batches: list[tuple[Rows, bool]], ranges: list[tuple[bytes, bytes]], others: list[bytes]
) -> None:
    plain, compiled = (holding(module) for module in MODULES)
    keys = [*others, *(key for rows, _ in batches for key, _ in rows)]
    for rows, are_first in batches:
        made = [batch_of(module, rows, are_first=are_first) for module in MODULES]
        assert made[0].rows == made[1].rows == rows
        assert made[0].first_states == made[1].first_states
        assert made[0].takes_away == made[1].takes_away
        assert len(made[0]) == len(made[1]) == len(made[0].rows)
        plain.take(made[0])
        compiled.take(made[1])
        assert seen(plain, keys, ranges) == seen(compiled, keys, ranges)


@both
@given(st.lists(ROWS, max_size=6), RANGES)
def test_what_is_held_is_the_last_of_each_key_and_counts_by_its_bytes(
    module: Any, batches: list[Rows], window: tuple[bytes, bytes]
) -> None:
    held = holding(module, *batches)
    last = dict(row for rows in batches for row in rows)
    found = told_by(held)
    # What is missing is gone, and everything else is as it was written last, in order.
    assert found == [(key, last[key]) for key in sorted(last) if (key, last[key]) in found]
    assert all(last[key] is None for key in last if held.get(key, NOWHERE) is NOWHERE)
    assert len(held) == len(found)
    sizes = [_held_ref.ROW_BYTES + len(key) + len(value or b"") for key, value in found]
    assert held.size == sum(sizes)
    assert held.rows_in(*window) == [row for row in found if window[0] <= row[0] < window[1]]


# Keys that differ early or late, end in zeros, or begin like others: in a table of many rows they
# are sorted by words, and looked for by how their first 48 or 64 bytes are hashed.
STEMS = st.sampled_from([0, 3, 40, 47, 48, 49, 63, 64, 65, 120]).map(lambda size: b"s" * size)
ENDS = st.text("\x00\x01a\xff", max_size=20).map(lambda text: text.encode("latin-1"))
LIKE_KEYS = st.builds(lambda stem, end: stem + end, STEMS, ENDS)
# All keys of three of these: long runs of them have a word in common, and go on in many ways.
PIECES = st.sampled_from([b"", b"\x00", b"a", b"\x00" * 8, b"a" * 7, b"a" * 8, b"ab" * 8])


def check_order(keys: list[bytes]) -> None:
    held = holding(native, [(key, b"v") for key in keys])
    assert [key for key, _ in told_by(held)] == sorted(set(keys))


@compiled_only
@given(LIKE_KEYS, st.sets(PIECES, min_size=4), st.sampled_from([b"", b"tail" * 8]))
def test_keys_that_go_on_alike_are_sorted(stem: bytes, pieces: set[bytes], tail: bytes) -> None:
    check_order([stem + b"".join(each) + tail for each in product(pieces, repeat=3)])


@compiled_only
@given(st.lists(LIKE_KEYS, min_size=13, max_size=80), st.lists(st.tuples(LIKE_KEYS, LIKE_KEYS)))
def test_many_keys_that_are_alike_are_sorted_and_found(
    keys: list[bytes], ranges: list[tuple[bytes, bytes]]
) -> None:
    check_order(keys)
    held = holding(native, [(key, b"v") for key in keys])
    stems = [b"s", b"s" * 48, b"s" * 64, *(key[:-1] + b"a" for key in keys[:8])]
    for start, end in ranges + [(stem, native.prefix_end(stem)) for stem in stems]:
        found = [key for key, _ in held.rows_in(start, end)]
        assert found == sorted({key for key in keys if start <= key < end})


# --- what is forgotten, and what is not --------------------------------------------------------


@both
@pytest.mark.parametrize("family", NAMED_ONCE)
def test_a_row_that_is_named_once_comes_and_goes_without_a_trace(
    module: Any, family: bytes
) -> None:
    key = family + b"1"
    held = holding(module, [(key, b"a")], [(key, None)])
    assert (len(held), held.size, told_by(held)) == (0, 0, [])
    assert held.get(key, NOWHERE) is NOWHERE
    held = holding(module, [(key, b"a"), (key, b"larger than before"), (key, None)])
    assert told_by(held) == []
    # Nobody knows it any more.
    state = FAMILY_STATE + b"1"
    held.take(batch_of(module, [(state, b"1"), (state, None), (key, None)]))
    assert told_by(held) == sorted([(state, None), (key, None)])


@both
@pytest.mark.parametrize("family", [*NAMED_ONCE, FAMILY_STATE, FAMILY_COUNTER, b""])
def test_a_row_that_was_deleted_first_may_be_in_the_engine(module: Any, family: bytes) -> None:
    key = family + b"1"
    held = holding(module, [(key, None)], [(key, b"again")])
    assert told_by(held) == [(key, b"again")]
    held.take(batch_of(module, [(key, None)]))
    assert told_by(held) == [(key, None)] and held.get(key, NOWHERE) is None


@both
@pytest.mark.parametrize("name", [b"1", NEAR, NEAR + b"n", NEAR * 3], ids=len)
def test_a_state_of_a_record_that_is_new_goes_without_a_trace(module: Any, name: bytes) -> None:
    record, state = FAMILY_DATA + name, FAMILY_STATE + name
    received: Rows = [(record, b"body"), (state, b"1"), (state, b"received again")]
    held = holding(module, received, [(state, None)])
    assert told_by(held) == [(record, b"body")]
    deleted: Rows = [(record, None), (state, None)]
    assert told_by(holding(module, received, deleted)) == []
    assert told_by(holding(module, received, deleted[::-1])) == []


@both
@pytest.mark.parametrize("name", [b"1", NEAR, NEAR + b"n", NEAR * 3], ids=len)
def test_a_state_of_another_record_leaves_a_deletion(module: Any, name: bytes) -> None:
    record, state = FAMILY_DATA + name, FAMILY_STATE + name
    gone: list[tuple[Any, ...]] = [(state, None)]
    # The engine has the record; another one is new; it was deleted, so the engine may have it.
    assert told_by(holding(module, [(state, b"1")], [(state, None)])) == gone
    other = FAMILY_DATA + name + b"2"
    held = holding(module, [(other, b""), (state, b"1")], [(state, None)])
    assert told_by(held) == [(other, b""), *gone]
    held = holding(module, [(record, None), (record, b"body"), (state, b"1")], [(state, None)])
    assert told_by(held) == [(record, b"body"), *gone]
    # It came before its record, when nobody knew that this would be new.
    held = holding(module, [(state, b"1"), (record, b"body")], [(state, None), (record, None)])
    assert told_by(held) == gone


@both
def test_the_first_state_of_a_message_goes_without_a_trace(module: Any) -> None:
    state = FAMILY_STATE + b"1"
    first = batch_of(module, [(state, b"1")], are_first=True)
    assert first.first_states == [state] and first.rows == [(state, b"1")]
    held = holding(module)
    held.take(first)
    held.take(batch_of(module, [(state, b"2")]))
    assert told_by(held) == [(state, b"2")]
    held.take(batch_of(module, [(state, None)]))
    assert told_by(held) == []
    # The engine may have one from before it was deleted.
    held = holding(module, [(state, None)])
    held.take(first)
    held.take(batch_of(module, [(state, None)]))
    assert told_by(held) == [(state, None)]


@both
@pytest.mark.parametrize("family", [FAMILY_COUNTER, b"!other|", b"", FAMILY_DATA[:-1]])
def test_any_other_row_leaves_a_deletion(module: Any, family: bytes) -> None:
    key = family + b"1"
    held = holding(module, [(key, bytes(3_000))], [(key, None)])
    assert told_by(held) == [(key, None)]
    assert held.size == _held_ref.ROW_BYTES + len(key)


@both
def test_a_counter_is_one_row_however_often_it_changes(module: Any) -> None:
    key = FAMILY_COUNTER + b"q"
    changes: list[Rows] = [[(key, b"%d" % number)] for number in range(200)]
    held = holding(module, *changes)
    assert (len(held), told_by(held)) == (1, [(key, b"199")])
    assert held.size == _held_ref.ROW_BYTES + len(key) + 3
    assert held.get(key, NOWHERE) == b"199"


# --- batches, and many rows --------------------------------------------------------------------


@both
@pytest.mark.parametrize(("puts", "takes_away"), [(0, True), (6, True), (7, False), (90, False)])
def test_a_batch_takes_away_if_more_than_an_eighth_of_it_does(
    module: Any, puts: int, takes_away: bool
) -> None:
    batch = batch_of(module, [(b"gone", None), *((b"%d" % number, b"") for number in range(puts))])
    assert batch.takes_away == takes_away
    assert not batch_of(module, []).takes_away


@both
def test_ranges_are_not_taken_in_and_keep_their_place(module: Any) -> None:
    batch = module.HeldBatch()
    assert not batch.has_ranges
    batch.put(b"a", b"1")
    batch.delete_range(b"a", b"c")
    batch.delete_range(b"d", b"e")
    batch.delete(b"b")
    batch.put(b"c", b"")
    assert batch.has_ranges and batch.rows == [(b"a", b"1"), (b"b", None), (b"c", b"")]
    held = holding(module, [(b"x", b"y")])
    with pytest.raises(AssertionError):
        held.take(batch)
    assert told_by(held) == [(b"x", b"y")]
    ranges = [("range", b"a", b"c"), ("range", b"d", b"e")]
    assert told_by(batch) == [(b"a", b"1"), *ranges, (b"b", None), (b"c", b"")]


@both
def test_a_batch_is_not_used_up(module: Any) -> None:
    batch = batch_of(module, [(b"a", b"1"), (b"b", None)])
    assert told_by(batch) == told_by(batch) == batch.rows
    held = module.Held()
    held.take(batch)
    held.take(batch)
    assert told_by(held) == batch.rows


@both
@pytest.mark.parametrize("seed", range(3))
def test_thousands_of_rows_come_and_go_in_any_order(module: Any, seed: int) -> None:
    random = Random(seed)
    keys = [FAMILY_DATA + number.to_bytes(2, "big") for number in range(5_000)]
    expected: dict[bytes, bytes] = {}
    held = module.Held()
    # Two thirds of them go while others still come, and then the rest.
    for goes in (0.4, 0.6, 2.0):
        rows: Rows = []
        for key in random.sample(keys, len(keys)):
            if key not in expected and goes < 1:
                expected[key] = random.randbytes(random.randrange(9))
                rows.append((key, expected[key]))
            elif expected and random.random() < goes:
                gone = key if key in expected else next(iter(expected))
                del expected[gone]
                rows.append((gone, None))
        held.take(batch_of(module, rows))
        assert len(held) == len(expected)
        assert all(held.get(key, NOWHERE) == expected.get(key, NOWHERE) for key in keys)
        assert told_by(held) == sorted(expected.items())
    assert (len(held), held.size, held.rows_in(b"", b"\xff")) == (0, 0, [])


# --- what has landed ---------------------------------------------------------------------------


class Sums(Taker):
    """Is told of ranges by nobody else."""

    def drop(self, start: bytes, end: bytes) -> None:
        self.delete_range(start, end)
        super().drop(start, end)


@given(histories)
def test_what_landed_is_held_as_it_would_be_written(
    impl: Impl, drawn: list[tuple[bool, list[Write]]]
) -> None:
    """The compiled module only notes where rows lie, in an entry that nobody else keeps."""
    lands = outcomes([lands for lands, _ in drawn])
    transactions = [writes for _, writes in drawn]
    taker, sums, batch = Taker(), Sums(), native.HeldBatch()
    entry = impl.entry.Entry(encoded(*transactions))
    changes_heads = impl.landed.write_landed(entry, lands, taker, taker)
    entry = impl.entry.Entry(encoded(*transactions))
    assert impl.landed.write_landed(entry, lands, batch, sums) is changes_heads
    del entry
    told = Taker()
    batch.write_to(told)
    assert told.taken == taker.taken
    assert (sums.added, sums.raised) == (taker.added, taker.raised)
    first = [key for lands, writes in drawn if lands for key in first_states(writes)]
    assert sorted(batch.first_states) == sorted(first)


def first_states(writes: list[Write]) -> list[bytes]:
    """Of a transaction that takes no timer away."""
    if any(kind == FRESH_DELETE and key.startswith(FAMILY_TIMER) for kind, key, _ in writes):
        return []
    return [
        key for kind, key, _ in writes if kind in (PUT, FRESH_PUT) and key.startswith(FAMILY_STATE)
    ]
