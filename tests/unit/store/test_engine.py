"""Both engines through one contract, and what only RocksDB can show: damage, stalls, crashes."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fastnode.errors import DiskFull
from fastnode.store.engine import (
    BLOB_BYTES_MIN,
    Batch,
    Engine,
    EngineCorrupt,
    EngineError,
    EngineShared,
    RocksEngine,
    WriteStalled,
    typed_error,
)
from fastnode.store.memory_engine import MemoryEngine

ROOT = Path(__file__).parents[3]
Row = tuple[bytes, bytes]


def small_rocks(path: Path, memtable_bytes: int = 1 << 20) -> RocksEngine:
    shared = EngineShared(cache_bytes=1 << 20, write_buffer_bytes=8 << 20)
    return RocksEngine(path, shared, memtable_bytes=memtable_bytes)


def put_all(engine: Engine, rows: list[Row]) -> None:
    batch = engine.batch()
    for key, value in rows:
        batch.put(key, value)
    engine.write(batch)


@pytest.fixture(params=["rocks", "memory"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    built: Engine = small_rocks(tmp_path / "g") if request.param == "rocks" else MemoryEngine()
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
    assert engine.scan_reverse(b"a", b"c", 2) == [(b"b\x00", b""), (b"b", b"2")]


def test_scans_stop_at_their_limit(engine: Engine) -> None:
    put_all(engine, [(b"%d" % number, b"") for number in range(10)])
    assert engine.scan_keys(b"3", b"9", 4) == [b"3", b"4", b"5", b"6"]
    assert [key for key, _ in engine.scan(b"3", b"9", 1)] == [b"3"]
    assert [key for key, _ in engine.scan_reverse(b"3", b"9", 1)] == [b"8"]


def test_empty_and_inverted_ranges_hold_nothing(engine: Engine) -> None:
    put_all(engine, [(b"a", b"1"), (b"b", b"2")])
    for start, end in [(b"a", b"a"), (b"b", b"a"), (b"z", b"b"), (b"c", b"d")]:
        assert engine.scan(start, end, 5) == []
        assert engine.scan_reverse(start, end, 5) == []
        assert engine.scan_keys(start, end, 5) == []


def test_scan_without_a_positive_limit_is_a_bug(engine: Engine) -> None:
    for scan in (engine.scan, engine.scan_reverse, engine.scan_keys):
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
    with pytest.raises(AssertionError):
        batch.delete_range(b"b", b"a")


def test_large_values_come_back_after_a_flush(engine: Engine) -> None:
    body = os.urandom(BLOB_BYTES_MIN * 3)
    put_all(engine, [(b"large", body), (b"small", b"x")])
    engine.flush()
    assert engine.get_many([b"large", b"small"]) == [body, b"x"]
    assert engine.scan(b"l", b"m", 1) == [(b"large", body)]


def test_metrics_are_numbers_and_the_engine_is_not_stalled(engine: Engine) -> None:
    put_all(engine, [(b"a", b"1")])
    assert engine.metrics()["keys_estimate"] == 1
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
    (`test_killed_process…` below checks with a real kill.)
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
        engine.scan_reverse(start, end, limit),
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
    engine.write(batch)
    assert engine.get(b"a") == b"1"


# --- RocksDB alone ------------------------------------------------------------------------------


def test_close_flushes_and_a_closed_engine_can_be_opened_again(tmp_path: Path) -> None:
    engine = small_rocks(tmp_path / "g")
    put_all(engine, [(b"a", b"1")])
    engine.scan(b"a", b"b", 1)
    engine.close()
    engine = small_rocks(tmp_path / "g")
    assert engine.get(b"a") == b"1"
    engine.close()


def test_directory_in_use_is_refused_with_its_path(tmp_path: Path) -> None:
    engine = small_rocks(tmp_path / "g")
    with pytest.raises(EngineError, match="lock") as caught:
        small_rocks(tmp_path / "g")
    assert caught.value.path == tmp_path / "g"
    engine.close()


def test_stalled_write_leaves_nothing_and_the_same_batch_lands_later(tmp_path: Path) -> None:
    engine = small_rocks(tmp_path / "g", memtable_bytes=64 << 10)
    refused = None
    for number in range(10_000):
        batch = engine.batch()
        batch.put(b"%06d" % number, os.urandom(15_000))
        try:
            engine.write(batch)
        except WriteStalled:
            refused = number
            break
    assert refused is not None, "this test needs a write that outruns the flush thread"
    assert engine.get(b"%06d" % refused) is None
    engine.flush()
    write_when_possible(engine, batch, deadline_attempts=1_000)
    assert engine.get(b"%06d" % refused) is not None
    engine.close()


def write_when_possible(engine: RocksEngine, batch: Batch, deadline_attempts: int) -> None:
    for _ in range(deadline_attempts):
        try:
            engine.write(batch)
            return
        except WriteStalled:
            engine.flush()
    raise AssertionError("still stalled")


def damaged_engine(tmp_path: Path) -> RocksEngine:
    """An engine with one table whose data blocks fail their checksums and whose index is whole."""
    engine = small_rocks(tmp_path / "g")
    put_all(engine, [(b"%06d" % number, os.urandom(100)) for number in range(2_000)])
    engine.flush()
    engine.close()
    (table,) = (tmp_path / "g").glob("*.sst")
    contents = bytearray(table.read_bytes())
    for offset in range(1_000, len(contents) * 3 // 4, 3_000):
        contents[offset] ^= 0xFF
    table.write_bytes(contents)
    return small_rocks(tmp_path / "g")


def test_damaged_table_is_reported_by_every_read_and_never_read_as_absence(tmp_path: Path) -> None:
    engine = damaged_engine(tmp_path)
    reads: list[Callable[[], object]] = [
        lambda: engine.get(b"000500"),
        lambda: engine.get_many([b"000500", b"000501"]),
        lambda: engine.scan(b"000500", b"000510", 100),
        lambda: engine.scan_reverse(b"000500", b"000510", 100),
        lambda: engine.scan_keys(b"000500", b"000510", 100),
    ]
    for read in reads:
        with pytest.raises(EngineCorrupt, match=r"checksum.*\.sst") as caught:
            read()
        assert caught.value.path == tmp_path / "g"
    engine.close()


def test_damaged_manifest_is_refused_at_open(tmp_path: Path) -> None:
    engine = small_rocks(tmp_path / "g")
    put_all(engine, [(b"a", b"1")])
    engine.close()
    for manifest in (tmp_path / "g").glob("MANIFEST-*"):
        contents = bytearray(manifest.read_bytes())
        contents[20] ^= 0xFF
        manifest.write_bytes(contents)
    with pytest.raises(EngineCorrupt):
        small_rocks(tmp_path / "g")


def test_missing_table_is_refused_at_open(tmp_path: Path) -> None:
    engine = small_rocks(tmp_path / "g")
    put_all(engine, [(b"a", b"1")])
    engine.close()
    (table,) = (tmp_path / "g").glob("*.sst")
    table.unlink()
    with pytest.raises(EngineError):
        small_rocks(tmp_path / "g")


def test_failed_flush_is_reported_and_later_writes_are_refused(tmp_path: Path) -> None:
    engine = small_rocks(tmp_path / "g")
    put_all(engine, [(b"a", b"1")])
    shutil.rmtree(tmp_path / "g", ignore_errors=True)
    with pytest.raises(EngineError, match="No such file"):
        engine.flush()
    with pytest.raises(EngineError):
        put_all(engine, [(b"b", b"1")])
    assert engine.get(b"a") == b"1"
    assert engine.metrics()["background_errors"] == 1
    with pytest.raises(EngineError):
        engine.close()


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("Result incomplete: Write stall", WriteStalled),
        ("IO error: No space left on device: While appending to file: x", DiskFull),
        ("Corruption: block checksum mismatch", EngineCorrupt),
        ("IO error: While open a file", EngineError),
    ],
)
def test_library_texts_become_typed_errors(text: str, family: type[Exception]) -> None:
    assert type(typed_error(Path("g"), Exception(text))) is family


def test_misuse_keeps_its_own_type(tmp_path: Path) -> None:
    misuse = KeyError("raw mode only support bytes")
    assert typed_error(tmp_path, misuse) is misuse


CHILD = """
import os, sys
from pathlib import Path
from fastnode.store.engine import EngineShared, RocksEngine, WriteStalled

engine = RocksEngine(Path(sys.argv[1]), EngineShared(), memtable_bytes=256 << 10)
for number in range(3_000):
    batch = engine.batch()
    batch.put(b"row %06d" % number, os.urandom(300))
    batch.put(b"applied", b"%d" % number)
    if number:
        batch.delete(b"live %06d" % (number - 1))
    batch.put(b"live %06d" % number, b"")
    while True:
        try:
            engine.write(batch)
            break
        except WriteStalled:
            engine.flush()
    if number == 1_000:
        engine.flush()
        os.write(1, b"flushed\\n")
os.write(1, b"written\\n")
sys.stdin.read()
"""


def test_killed_process_leaves_exactly_a_prefix_of_its_writes(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path / "g")],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"flushed\n"
        assert child.stdout.readline() == b"written\n"
        child.send_signal(signal.SIGKILL)
        child.wait(timeout=10)
    engine = small_rocks(tmp_path / "g")
    applied = int(engine.get(b"applied") or b"-1")
    assert 1_000 <= applied < 3_000
    rows = engine.scan_keys(b"row ", b"row!", 10_000)
    assert rows == [b"row %06d" % number for number in range(applied + 1)]
    assert engine.scan_keys(b"live ", b"live!", 10_000) == [b"live %06d" % applied]
    engine.close()
