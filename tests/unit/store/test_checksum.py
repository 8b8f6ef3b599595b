"""The state checksum: equal for equal rows however they came, different for any other rows."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fastnode import native
from fastnode.clock import GroupClock
from fastnode.native import ADD, DELETE, DROP, FRESH_PUT, MAX, PUT
from fastnode.store.checksum import EMPTY_STATE, state_checksum
from fastnode.store.engine import Engine, RocksEngine
from fastnode.store.engine_options import BLOB_BYTES_MIN, EngineShared
from fastnode.store.group import Group
from fastnode.store.memory_engine import MemoryEngine
from tests.world import FakeClock

Write = tuple[int, bytes, bytes]


def small_rocks(path: Path) -> RocksEngine:
    return RocksEngine(path, EngineShared(cache_bytes=1 << 20, write_buffer_bytes=8 << 20))


def put_all(engine: Engine, rows: Iterable[tuple[bytes, bytes]]) -> None:
    batch = engine.batch()
    for key, value in rows:
        batch.put(key, value)
    engine.write(batch)


def open_group(engine: Engine) -> Group:
    """Its conflict table and committed window come from the engine's rows, as after a restart."""
    return Group(0, engine, GroupClock(FakeClock()))


def apply(group: Group, entries: Sequence[bytes]) -> None:
    group.commit(group.applied_index + len(entries), 1, entries)
    assert group.apply()


keys = st.binary(min_size=1, max_size=3).map(lambda end: b"!sqs|" + end)
deltas = st.integers(-5, 5).map(lambda value: value.to_bytes(8, "big", signed=True))
values = st.binary(max_size=8) | st.just(bytes(BLOB_BYTES_MIN))
# Each kind keeps to its own rows, as those of a queue do; a drop may hit them all.
writes = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([PUT, FRESH_PUT]), keys.map(lambda key: key + b"p"), values),
        st.tuples(st.just(DELETE), keys.map(lambda key: key + b"p"), st.just(b"")),
        st.tuples(st.just(ADD), keys.map(lambda key: key + b"a"), deltas),
        st.tuples(st.just(MAX), keys.map(lambda key: key + b"m"), st.binary(max_size=4)),
        st.tuples(keys, keys).map(lambda ends: (DROP, min(ends), max(ends))),
    ),
    max_size=5,
)
# Few requests and old starts, so that some transactions repeat others, conflict or come too late;
# long pauses, so that what is remembered of them expires.
transactions = st.tuples(
    st.integers(0, 9),
    st.integers(0, 3),
    st.sampled_from([0, 0, 0, 4_000, 11_000, 70_000]),
    st.lists(keys, max_size=2),
    writes,
)


def encode_history(history: list[tuple[int, int, int, list[bytes], list[Write]]]) -> list[bytes]:
    """One transaction per entry, each with a later timestamp than the one before it."""
    entries, stamps = [], [1 << 16]
    for request, age, pause_ms, reads, changes in history:
        start_ts = stamps[-min(age + 1, len(stamps))]
        stamps.append(stamps[-1] + (pause_ms << 16) + 1)
        encoded = native.encode_transaction(
            bytes((request,)) * 16, start_ts, stamps[-1], 0, 0, reads, changes
        )
        entries.append(native.encode_entry([encoded]))
    return entries


histories = st.lists(transactions, min_size=1, max_size=12).map(encode_history)


def cut(entries: Sequence[bytes], sizes: Iterable[int]) -> list[Sequence[bytes]]:
    parts, at = [], 0
    for size in sizes:
        parts.append(entries[at : at + size])
        at += size
    return [part for part in [*parts, entries[at:]] if part]


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(
    entries=histories,
    sizes=st.lists(st.integers(1, 4), max_size=6),
    reopened=st.sets(st.integers(0, 6)),
)
def test_replicas_agree_whatever_their_batches_flushes_and_restarts(
    entries: list[bytes], sizes: list[int], reopened: set[int]
) -> None:
    memory = MemoryEngine()
    steady = open_group(memory)
    for each in entries:
        apply(steady, [each])
    expected = state_checksum(memory)
    assert expected.position.applied_index == len(entries)
    with TemporaryDirectory() as directory:
        rocks: RocksEngine = small_rocks(Path(directory) / "g")
        group = open_group(rocks)
        for number, part in enumerate(cut(entries, sizes)):
            apply(group, part)
            if number in reopened:
                rocks.close()
                rocks = small_rocks(Path(directory) / "g")
                group = open_group(rocks)
        assert state_checksum(rocks) == expected
        rocks.flush()
        assert state_checksum(rocks, page_rows=1) == expected
        rocks.close()


@given(entries=histories, sizes=st.lists(st.integers(1, 4), max_size=6))
def test_a_replica_that_crashed_and_replayed_agrees(entries: list[bytes], sizes: list[int]) -> None:
    steady, crashed = MemoryEngine(), MemoryEngine()
    apply(open_group(steady), entries)
    for number, part in enumerate(cut(entries, sizes)):
        group = open_group(crashed)
        apply(group, entries[group.applied_index :][: len(part)])
        # Every other time nothing was flushed, and the log replays further.
        if number % 2:
            crashed.flush()
        crashed.crash()
    group = open_group(crashed)
    apply(group, entries[group.applied_index :])
    assert state_checksum(crashed) == state_checksum(steady)


rows = st.dictionaries(st.binary(max_size=2).map(lambda end: b"!" + end), st.binary(max_size=2))


@given(one=rows, other=rows)
def test_different_rows_have_different_checksums(
    one: dict[bytes, bytes], other: dict[bytes, bytes]
) -> None:
    engines = MemoryEngine(), MemoryEngine()
    put_all(engines[0], one.items())
    put_all(engines[1], other.items())
    first, second = (state_checksum(engine) for engine in engines)
    assert (first.checksum == second.checksum) == (one == other)
    assert first.rows == len(one)


def test_a_byte_that_moves_from_key_to_value_is_seen() -> None:
    engines = MemoryEngine(), MemoryEngine()
    put_all(engines[0], [(b"!ab", b"c")])
    put_all(engines[1], [(b"!a", b"bc")])
    assert state_checksum(engines[0]).checksum != state_checksum(engines[1]).checksum


@pytest.mark.parametrize("count", [63, 64, 65, 128])
def test_pages_neither_skip_nor_repeat_rows(count: int) -> None:
    engine = MemoryEngine()
    put_all(engine, [(b"!%04d" % number, b"v") for number in range(count)])
    assert state_checksum(engine).rows == count
    assert state_checksum(engine) == state_checksum(engine, page_rows=1_000)


def test_an_engine_never_written_to_is_the_empty_state() -> None:
    assert state_checksum(MemoryEngine()) == EMPTY_STATE
