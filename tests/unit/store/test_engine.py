"""All engines through one contract, one by one; two along random histories with crashes."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fastnode.store.engine import Engine, RocksEngine, WriteStalled
from fastnode.store.engine_options import BLOB_BYTES_MIN, EngineShared
from fastnode.store.held_engine import HeldEngine
from fastnode.store.memory_engine import MemoryEngine

Row = tuple[bytes, bytes]


def small_rocks(path: Path) -> RocksEngine:
    return RocksEngine(path, EngineShared(cache_bytes=1 << 20, write_buffer_bytes=8 << 20))


def put_all(engine: Engine, rows: list[Row]) -> None:
    batch = engine.batch()
    for key, value in rows:
        batch.put(key, value)
    engine.write(batch)


@pytest.fixture(params=["rocks", "memory", "held"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    built: Engine = MemoryEngine() if request.param == "memory" else small_rocks(tmp_path / "g")
    if isinstance(built, RocksEngine) and request.param == "held":
        built = HeldEngine(built)
    yield built
    built.close()


def test_rows_come_back_by_key_by_keys_and_by_range(engine: Engine) -> None:
    put_all(engine, [(b"a", b"1"), (b"c", b"3"), (b"b", b"2"), (b"b\x00", b"")])
    assert engine.get(b"a") == b"1"
    assert engine.get(b"b\x00") == b""
    assert engine.get(b"x") is None
    assert engine.get_many([b"c", b"x", b"a", b"c"]) == [b"3", None, b"1", b"3"]
    assert engine.get_many([]) == []
    assert engine.scan(b"a", b"c", 10) == [(b"a", b"1"), (b"b", b"2"), (b"b\x00", b"")]
    assert engine.scan_keys(b"b", b"d", 10) == [b"b", b"b\x00", b"c"]


def test_scans_stop_at_their_limit(engine: Engine) -> None:
    put_all(engine, [(b"%d" % number, b"") for number in range(10)])
    assert engine.scan_keys(b"3", b"9", 4) == [b"3", b"4", b"5", b"6"]
    assert [key for key, _ in engine.scan(b"3", b"9", 1)] == [b"3"]


def test_empty_and_inverted_ranges_hold_nothing(engine: Engine) -> None:
    put_all(engine, [(b"a", b"1"), (b"b", b"2")])
    for start, end in [(b"a", b"a"), (b"b", b"a"), (b"z", b"b"), (b"c", b"d")]:
        assert engine.scan(start, end, 5) == []
        assert engine.scan_keys(start, end, 5) == []


def test_scan_without_a_positive_limit_is_a_bug(engine: Engine) -> None:
    for scan in (engine.scan, engine.scan_keys):
        with pytest.raises(AssertionError):
            scan(b"a", b"b", 0)


def test_operations_of_a_batch_take_effect_in_order(engine: Engine) -> None:
    batch = engine.batch()
    batch.put(b"a", b"old")
    batch.put(b"b", b"old")
    batch.delete(b"b")
    batch.delete_range(b"a", b"c")
    batch.put(b"a", b"new")
    engine.write(batch)
    assert engine.scan(b"", b"z", 10) == [(b"a", b"new")]


def test_range_deletion_leaves_its_end_and_accepts_an_empty_range(engine: Engine) -> None:
    put_all(engine, [(b"a", b""), (b"b", b""), (b"c", b"")])
    engine.flush()
    batch = engine.batch()
    batch.delete_range(b"a", b"c")
    batch.delete_range(b"c", b"c")
    engine.write(batch)
    assert engine.scan_keys(b"", b"z", 10) == [b"c"]


def test_large_values_come_back_after_a_flush(engine: Engine) -> None:
    body = os.urandom(BLOB_BYTES_MIN * 3)
    put_all(engine, [(b"large", body), (b"small", b"x")])
    engine.flush()
    assert engine.get_many([b"large", b"small"]) == [body, b"x"]
    assert engine.scan(b"l", b"m", 1) == [(b"large", body)]


def test_metrics_are_numbers_and_the_engine_is_not_stalled(engine: Engine) -> None:
    put_all(engine, [(b"a", b"1")])
    engine.flush()
    metrics = engine.metrics()
    assert metrics["keys_estimate"] == 1
    # A node that is short of space asks for it.
    assert metrics["table_bytes"] >= 0
    assert not engine.is_stalled()


# --- one history through both engines ---------------------------------------------------------


KEYS = st.binary(max_size=3) | st.sampled_from([b"a", b"b", b"ab", b"b\x00", b"\xff\xff"])
# The letter stands for a value that goes to a blob file; spelled out it would drown a failure.
LARGE = b"L"
VALUES = st.binary(max_size=8) | st.just(LARGE)
WRITES = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, VALUES),
        st.tuples(st.just("delete"), KEYS, st.just(b"")),
        st.tuples(st.just("delete_range"), KEYS, KEYS),
    ),
    max_size=6,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), WRITES),
        st.tuples(st.just("flush"), st.just(())),
        st.tuples(st.just("crash"), st.just(())),
        st.tuples(st.just("reopen"), st.just(())),
        st.tuples(st.just("look"), st.tuples(KEYS, KEYS, st.integers(1, 4))),
    ),
    max_size=14,
)


def copy_image(source: Path, image: Path) -> None:
    """Copy what a kill would leave behind; anew if files come or go meanwhile in the background."""
    for _ in range(100):
        names = sorted(os.listdir(source))
        try:
            shutil.copytree(source, image)
        except shutil.Error:
            names = []
        if sorted(os.listdir(source)) == names:
            return
        shutil.rmtree(image, ignore_errors=True)
    raise AssertionError("the directory does not come to rest")


class RocksUnderTest:
    """RocksDB with a crash: the directory as a killed process leaves it is what the files hold.

    Copying them is that image: all that was written to the files, nothing of the memtables.
    (`test_rocks_engine.py` checks with a real kill.)
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._number = 0
        self.engine = small_rocks(root / "0")

    def crash(self) -> None:
        image = self._root / str(self._number + 1)
        copy_image(self._root / str(self._number), image)
        self.engine.close()
        self._number += 1
        self.engine = small_rocks(image)

    def reopen(self) -> None:
        self.engine.close()
        self.engine = small_rocks(self._root / str(self._number))


def apply_writes(engine: Engine, writes: list[tuple[str, bytes, bytes]]) -> None:
    batch = engine.batch()
    for kind, key, argument in writes:
        if kind == "put":
            batch.put(key, argument * BLOB_BYTES_MIN if argument == LARGE else argument)
        elif kind == "delete":
            batch.delete(key)
        else:
            batch.delete_range(min(key, argument), max(key, argument))
    engine.write(batch)


def look(engine: Engine, start: bytes, end: bytes, limit: int) -> list[object]:
    return [
        engine.get(start),
        engine.get_many([start, end]),
        engine.scan(start, end, limit),
        engine.scan_keys(start, end, limit),
        engine.scan(b"", b"\xff" * 5, 10_000),
    ]


def play(rocks: RocksUnderTest, memory: MemoryEngine, step: str, argument: object) -> None:
    if step == "write":
        assert isinstance(argument, list)
        apply_writes(rocks.engine, argument)
        apply_writes(memory, argument)
    elif step == "flush":
        rocks.engine.flush()
        memory.flush()
    elif step == "crash":
        rocks.crash()
        memory.crash()
    elif step == "reopen":
        rocks.reopen()
        memory.close()


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_one_history_gives_equal_results_on_both_engines(steps: list[tuple[str, object]]) -> None:
    with TemporaryDirectory() as root:
        rocks, memory = RocksUnderTest(Path(root)), MemoryEngine()
        for step, argument in steps:
            play(rocks, memory, step, argument)
            window = argument if step == "look" else (b"", b"\xff" * 5, 3)
            assert isinstance(window, tuple)
            assert look(rocks.engine, *window) == look(memory, *window)
        rocks.engine.close()


# --- the simulator's engine ---------------------------------------------------------------------


def test_memory_engine_loses_in_a_crash_exactly_what_was_not_flushed() -> None:
    engine = MemoryEngine()
    put_all(engine, [(b"a", b"1"), (b"b", b"2")])
    engine.flush()
    batch = engine.batch()
    batch.delete(b"a")
    batch.put(b"b", b"3")
    batch.put(b"c", b"4")
    engine.write(batch)
    engine.crash()
    assert engine.scan(b"", b"z", 9) == [(b"a", b"1"), (b"b", b"2")]


def test_memory_engine_refuses_a_write_while_stalled_and_takes_it_later() -> None:
    engine = MemoryEngine()
    batch = engine.batch()
    batch.put(b"a", b"1")
    engine.stalled = True
    with pytest.raises(WriteStalled):
        engine.write(batch)
    assert engine.get(b"a") is None
    engine.stalled = False
    put_all(engine, [(b"a", b"1")])
    assert engine.get(b"a") == b"1"
