"""Compiled rules and their twin on random histories; rows that bring the memory back; damaged rows;
memory.
"""

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastnode import native
from fastnode._occ_ref import Resolved, Resolver
from fastnode.native import APPLIED, CONFLICT, DUPLICATE, STALE, TOO_OLD, Transaction
from tests.unit.conftest import SUFFIXES
from tests.unit.native.occ_transactions import (
    MS,
    START,
    TIGHT,
    Make,
    implementation,
    key,
    request,
    resolve,
    statuses,
    transaction,
    view,
)
from tests.unit.native.strategies import fitting

WIDE = {"window_ms": 10_000, "keys_max": 500, "classes": ((60_000, 400),) * 4}


@pytest.fixture(scope="session", params=list(SUFFIXES))
def make(request: pytest.FixtureRequest) -> Make:
    return implementation(SUFFIXES[request.param])


class Step(NamedTuple):
    """A transaction relative to the one before it, so that random ones land often enough."""

    request: int
    forward: int
    back: int
    retention: int
    reads: list[int]
    writes: list[tuple[int, int]]


steps = st.builds(
    Step,
    request=st.integers(0, 12),
    forward=st.sampled_from([-MS, 0, 1, 1, 1, MS, MS, 2 * MS, 5 * MS, 40 * MS]),
    back=st.sampled_from([0, 1, 2, MS, 3 * MS, 50 * MS]),
    retention=st.integers(0, 3),
    reads=st.lists(st.integers(0, 8), max_size=2),
    writes=st.lists(st.tuples(st.integers(native.PUT, native.TOUCH), st.integers(0, 8))),
)
histories = st.lists(st.lists(steps, max_size=4), max_size=12)


def entries_of(history: list[list[Step]]) -> Iterator[list[Transaction]]:
    now = START
    for entry in history:
        made = []
        for number, forward, back, retention, reads, writes in entry:
            now += forward
            rows = [fitting(kind, key(name), b"") for kind, name in writes]
            names = [key(name) for name in reads]
            made.append(
                Transaction(request(number), now - back, now, retention, number, names, rows)
            )
        yield made


def store(rows: dict[int, bytes], resolved: Resolved) -> None:
    """What the entry's batch does, and that it never deletes what is not there."""
    if resolved.row:
        assert resolved.row_id > max(rows, default=0)
        rows[resolved.row_id] = resolved.row
    for expired in resolved.expired:
        del rows[expired]


# --- twins, restarts ---------------------------------------------------------------------------


@pytest.mark.skipif(not native.COMPILED, reason="pure mode has nothing to compare")
@settings(max_examples=60)
@given(histories)
def test_compiled_rules_equal_their_twin(history: list[list[Step]]) -> None:
    compiled, twin = (implementation(suffix)(**TIGHT) for suffix in ("", "_ref"))
    for entry in entries_of(history):
        assert resolve(compiled, entry) == resolve(twin, entry)
        assert view(compiled) == view(twin)
        assert compiled.class_floors == twin.class_floors
    for number in range(13):
        assert compiled.find(request(number)) == twin.find(request(number))


@settings(max_examples=40)
@given(histories, st.integers(0, 12))
def test_what_the_rows_bring_back_goes_on_like_the_original(
    make: Make, history: list[list[Step]], restart: int
) -> None:
    original, restored = make(**TIGHT), make(**TIGHT)
    # What it held before does not matter.
    resolve(restored, [transaction(1, START, puts=(key(1),))])
    restored.restore([], 0)
    rows: dict[int, bytes] = {}
    for index, entry in enumerate(entries_of(history)):
        if index == restart:
            restored.restore(iter(rows.items()), original.last_commit_ts)
            assert view(restored) == view(original)
            assert restored.class_floors == original.class_floors
        resolved = resolve(original, entry)
        store(rows, resolved)
        if index >= restart:
            assert resolve(restored, entry) == resolved
    fresh = make(**TIGHT)
    fresh.restore(rows.items(), original.last_commit_ts)
    assert view(fresh) == view(original)


def bulk_history(count: int) -> Iterator[list[Transaction]]:
    """Many keys through a larger table: long runs of slots, wrapped ends, nodes used again."""
    seed, now = 1, START
    for number in range(count):
        entry = []
        for _ in range(1 + number % 7):
            seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
            now += 1 if seed >> 60 else 300 * MS
            puts = tuple(b"%d" % (seed >> shift & 1023) for shift in range(20, 20 + seed % 6))
            start_ts = now - ((seed >> 40) % 300 if seed % 50 else now - START)
            retention = seed >> 50 & 3
            entry.append(
                transaction(seed >> 52, now, start_ts=start_ts, puts=puts, retention=retention)
            )
        yield entry


@pytest.mark.skipif(not native.COMPILED, reason="pure mode has nothing to compare")
def test_compiled_tables_equal_their_twin_in_bulk() -> None:
    compiled, twin = (implementation(suffix)(**WIDE) for suffix in ("", "_ref"))
    rows: dict[int, bytes] = {}
    seen = set()
    for number, entry in enumerate(bulk_history(1_500)):
        resolved = resolve(twin, entry)
        assert resolve(compiled, entry) == resolved
        store(rows, resolved)
        seen.update(statuses(resolved))
        if number % 250 == 0:
            compiled.restore(rows.items(), twin.last_commit_ts)
        assert view(compiled) == view(twin)
        assert compiled.class_floors == twin.class_floors
    assert seen == {APPLIED, DUPLICATE, TOO_OLD, CONFLICT}
    assert twin.floor > START


def test_a_group_without_rows_knows_nothing_of_its_past(make: Make) -> None:
    resolver = make()
    resolver.restore([], START)
    assert view(resolver) == (START, START, 0, 0)
    early = transaction(1, START + 1, start_ts=START - 1)
    assert statuses(resolve(resolver, [early, transaction(2, START)])) == [TOO_OLD, STALE]


def test_a_row_that_nobody_needs_expires_with_the_next_entry(make: Make) -> None:
    """A checkpoint may keep a row whose deletion it missed; it must not stay for ever."""
    resolver = make(**TIGHT)
    rows = {}
    for number in range(1, 5):
        made = resolve(resolver, [transaction(number, START + number, retention=2)])
        rows[made.row_id] = made.row
    resolver.restore(rows.items(), START + 4)
    assert resolver.request_count == 1
    assert resolve(resolver, [transaction(9, START + 9)]).expired == [
        START + 1,
        START + 2,
        START + 3,
    ]


# --- damaged rows ------------------------------------------------------------------------------


def some_rows(make: Make) -> list[tuple[int, bytes]]:
    resolver = make(**TIGHT)
    first = [transaction(1, START, puts=(key(1), key(2))), transaction(2, START + 1, retention=1)]
    second = [transaction(3, START + 2, puts=(key(1),))]
    return [made[1:3] for made in (resolve(resolver, entry) for entry in (first, second))]


def test_truncated_prolonged_and_foreign_rows_are_refused(make: Make) -> None:
    (row_id, row), _ = some_rows(make)
    resolver = make(**TIGHT)
    cut = [row[:size] for size in range(len(row))]
    for damaged in [*cut, row + b"\x00", b"\x00" + row[1:], b"\x02" + row[1:]]:
        with pytest.raises(ValueError, match=r"version|truncated|more bytes"):
            resolver.restore([(row_id, damaged)], row_id)
        assert view(resolver) == (0, 0, 0, 0)


def test_rows_out_of_order_or_from_the_future_are_refused(make: Make) -> None:
    first, second = some_rows(make)
    resolver = make(**TIGHT)
    wrong = [[second, first], [first, first], [(first[0] - 1, first[1])], [(2**63, second[1])]]
    for rows in wrong:
        with pytest.raises(ValueError, match=r"order|place|newer"):
            resolver.restore(rows, second[0])
        assert view(resolver) == (0, 0, 0, 0)


def test_rows_of_other_bounds_are_refused(make: Make) -> None:
    rows = some_rows(make)
    with pytest.raises(ValueError, match="more keys than the table"):
        make(keys_max=1).restore(rows, rows[-1][0])
    with pytest.raises(ValueError, match="more requests than the window"):
        make(classes=((9, 1),) * 4).restore(rows, rows[-1][0])


def restored(make: Make, rows: list[tuple[int, bytes]]) -> object:
    resolver = make(**TIGHT)
    try:
        resolver.restore(rows, START + 2)
    except ValueError:
        assert view(resolver) == (0, 0, 0, 0)
        return ValueError
    return view(resolver), resolve(resolver, [transaction(9, START + 900 * MS, puts=(key(5),))])


@pytest.mark.skipif(not native.COMPILED, reason="pure mode has nothing to compare")
@settings(max_examples=40)
@given(st.integers(0, 1), st.integers(0, 200), st.integers(0, 255))
def test_damaged_rows_are_refused_by_both_or_mean_the_same(which: int, at: int, value: int) -> None:
    rows = some_rows(Resolver)
    row_id, row = rows[which]
    at %= len(row)
    rows[which] = row_id, row[:at] + bytes([value]) + row[at + 1 :]
    assert restored(implementation(""), rows) == restored(implementation("_ref"), rows)


# --- memory ------------------------------------------------------------------------------------


@pytest.mark.skipif(not native.COMPILED, reason="the twin states the size of its containers only")
def test_a_remembered_key_takes_at_most_40_bytes() -> None:
    resolver = implementation("")(keys_max=65_536, classes=((60_000, 64),) * 4)
    for number in range(64):
        puts = tuple(b"%d" % name for name in range(number * 1_024, (number + 1) * 1_024))
        resolve(resolver, [transaction(number, START + number, puts=puts)])
    assert resolver.key_count == 65_536
    assert resolver.memory_bytes <= 40 * resolver.key_count


@pytest.mark.skipif(not native.COMPILED, reason="the twin states the size of its containers only")
def test_rows_that_come_and_go_do_not_add_memory() -> None:
    resolver = implementation("")(**TIGHT)
    before = 0
    for number in range(3_000):
        resolve(resolver, [transaction(number, START + number * MS, puts=(key(number),))])
        before = before or (resolver.memory_bytes if number == 500 else 0)
    assert resolver.memory_bytes == before
