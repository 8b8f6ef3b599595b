"""Counters and marks that are kept from batch to batch: the same rows as if each was read anew."""

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode import config
from fastnode.store.memory_engine import MemoryEngine
from fastnode.store.sums import SumRows, Sums, decode_counter

KEYS, MARKS = (b"c0", b"c1", b"c2"), (b"m0", b"m1")
adds = st.tuples(st.just("add"), st.sampled_from(KEYS), st.integers(-5, 5))
raises = st.tuples(st.just("raise"), st.sampled_from(MARKS), st.binary(min_size=2, max_size=2))
drops = st.tuples(st.just("drop"), st.sampled_from(KEYS + MARKS), st.just(b"n"))
changes_of_batches = st.lists(st.one_of(adds, adds, raises, drops), min_size=1, max_size=6)
batches = st.lists(st.tuples(changes_of_batches, st.booleans()), min_size=4, max_size=8)


class CountingEngine(MemoryEngine):
    """Says how often a row was read."""

    reads = 0

    def get(self, key: bytes) -> bytes | None:
        self.reads += 1
        return super().get(key)


def write(
    engine: MemoryEngine, known: SumRows, changes: list[tuple[str, bytes, object]], *, lands: bool
) -> None:
    """A batch that the engine takes, or refuses."""
    batch, sums = engine.batch(), Sums(engine, known)
    for kind, key, value in changes:
        if kind == "add":
            assert isinstance(value, int)
            sums.added[key] = sums.added.get(key, 0) + value
        else:
            assert isinstance(value, bytes)
            if kind == "raise":
                sums.raised[key] = max(value, sums.raised.get(key, b""))
            else:
                batch.delete_range(key, value)
                sums.drop(key, value)
    sums.write(batch)
    if lands:
        engine.write(batch)
        known.written()


@pytest.mark.parametrize("room", [1, 3, 100])
@given(history=batches)
def test_what_is_known_changes_nothing(
    room: int, history: list[tuple[list[tuple[str, bytes, object]], bool]]
) -> None:
    engine, plain, known = MemoryEngine(), MemoryEngine(), SumRows()
    with patch.object(config, "SUMS_REMEMBERED_MAX", room):
        for changes, lands in history:
            write(engine, known, changes, lands=lands)
            write(plain, SumRows(), changes, lands=lands)
            assert engine.scan(b"", b"\xff", 100) == plain.scan(b"", b"\xff", 100)


def test_a_counter_is_read_once() -> None:
    engine, known = CountingEngine(), SumRows()
    for _ in range(5):
        write(engine, known, [("add", b"c1", 2), ("raise", b"m1", b"ab")], lands=True)
    assert (engine.reads, decode_counter(engine.get(b"c1"))) == (2, 10)


def test_what_was_dropped_is_not_known_any_more() -> None:
    engine, known = MemoryEngine(), SumRows()
    write(engine, known, [("add", b"c1", 2), ("raise", b"m1", b"zz")], lands=True)
    write(engine, known, [("drop", b"c", b"n")], lands=True)
    write(engine, known, [("add", b"c1", 3), ("raise", b"m1", b"ab")], lands=True)
    assert (decode_counter(engine.get(b"c1")), engine.get(b"m1")) == (3, b"ab")


def test_so_many_are_known_and_no_more() -> None:
    engine, known = CountingEngine(), SumRows()
    for number in range(3 * config.SUMS_REMEMBERED_MAX):
        known.read(engine, b"%d" % number)
        assert len(known.rows) <= config.SUMS_REMEMBERED_MAX
