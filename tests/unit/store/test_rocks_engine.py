"""What only RocksDB can show: damage, stalls, failed flushes, and a process that is killed."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fastnode.errors import DiskFull
from fastnode.store.engine import EngineCorrupt, EngineError, RocksEngine, WriteStalled, typed_error
from fastnode.store.engine_options import EngineShared

ROOT = Path(__file__).parents[3]


def small_rocks(path: Path, memtable_bytes: int = 1 << 20) -> RocksEngine:
    shared = EngineShared(cache_bytes=1 << 20, write_buffer_bytes=8 << 20)
    return RocksEngine(path, shared, memtable_bytes=memtable_bytes)


def put_all(engine: RocksEngine, rows: list[tuple[bytes, bytes]]) -> None:
    batch = engine.batch()
    for key, value in rows:
        batch.put(key, value)
    engine.write(batch)


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


def test_stalled_write_leaves_nothing_and_a_new_batch_lands_later(tmp_path: Path) -> None:
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
    write_when_possible(engine, b"%06d" % refused, deadline_attempts=1_000)
    assert engine.get(b"%06d" % refused) is not None
    engine.close()


def write_when_possible(engine: RocksEngine, key: bytes, deadline_attempts: int) -> None:
    for _ in range(deadline_attempts):
        try:
            put_all(engine, [(key, b"")])
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
from fastnode.store.engine import RocksEngine, WriteStalled
from fastnode.store.engine_options import EngineShared

engine = RocksEngine(Path(sys.argv[1]), EngineShared(), memtable_bytes=256 << 10)
for number in range(3_000):
    while True:
        batch = engine.batch()
        batch.put(b"row %06d" % number, os.urandom(300))
        batch.put(b"applied", b"%d" % number)
        if number:
            batch.delete(b"live %06d" % (number - 1))
        batch.put(b"live %06d" % number, b"")
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
        child.wait(timeout=60)
    engine = small_rocks(tmp_path / "g")
    applied = int(engine.get(b"applied") or b"-1")
    assert 1_000 <= applied < 3_000
    rows = engine.scan_keys(b"row ", b"row!", 10_000)
    assert rows == [b"row %06d" % number for number in range(applied + 1)]
    assert engine.scan_keys(b"live ", b"live!", 10_000) == [b"live %06d" % applied]
    engine.close()


def put_patiently(engine: RocksEngine, rows: list[tuple[bytes, bytes]]) -> None:
    """An engine whose flushes lag behind on a busy machine refuses rows for a while."""
    deadline = time.monotonic() + 30.0
    while True:
        try:
            return put_all(engine, rows)
        except WriteStalled:
            assert time.monotonic() < deadline, "flushes do not come to an end"
        time.sleep(0.02)


def test_a_flush_of_both_ends_of_a_backlog_leaves_its_middle_alone(tmp_path: Path) -> None:
    engine = RocksEngine(tmp_path / "g", EngineShared())
    keys = [b"%06d" % number for number in range(16_000)]
    # In two turns through all of them, or RocksDB would move the flushed files and write no others.
    for begin in (*range(0, 15_500, 1_000), *range(1, 15_500, 1_000)):
        rows = keys[begin : min(begin + 1_000, 15_500) : 2]
        put_patiently(engine, [(key, os.urandom(4_096)) for key in rows])
    engine.flush()
    engine.compact()
    before = set(engine.path.glob("*.sst"))
    batch = engine.batch()
    for key in keys[:2_500]:
        batch.delete(key)
    engine.write(batch)
    put_patiently(engine, [(key, os.urandom(4_096)) for key in keys[15_500:]])
    engine.flush()
    # Compaction has come to its end when the space of what was deleted is back.
    deadline = time.monotonic() + 30.0
    while engine.metrics()["table_bytes"] > 14_000 * 4_096:
        assert time.monotonic() < deadline, "the front is still there"
        time.sleep(0.02)
    after = set(engine.path.glob("*.sst"))
    engine.close()
    assert len(before) >= 6
    assert len(before & after) >= len(before) / 2
