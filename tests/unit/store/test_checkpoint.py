"""What snapshots ask of RocksDB: complete checkpoints, and looking without touching."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fastnode.store.engine import EngineError, RocksEngine
from fastnode.store.engine_options import BLOB_BYTES_MIN, EngineShared

ROWS = [(b"!a", b"small"), (b"!b", bytes(BLOB_BYTES_MIN))]


def open_rocks(path: Path, *, is_read_only: bool = False) -> RocksEngine:
    shared = EngineShared(cache_bytes=1 << 20, write_buffer_bytes=8 << 20)
    return RocksEngine(path, shared, is_read_only=is_read_only)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[RocksEngine]:
    engine = open_rocks(tmp_path / "g")
    batch = engine.batch()
    for key, value in ROWS:
        batch.put(key, value)
    engine.write(batch)
    yield engine
    engine.close()


def test_checkpoint_holds_what_was_not_flushed(engine: RocksEngine, tmp_path: Path) -> None:
    engine.checkpoint(tmp_path / "c")
    copy = open_rocks(tmp_path / "c")
    assert copy.scan(b"", b"\xff", 10) == ROWS
    copy.close()


def test_checkpoint_into_an_existing_directory_is_refused(
    engine: RocksEngine, tmp_path: Path
) -> None:
    with pytest.raises(EngineError, match="exists"):
        engine.checkpoint(tmp_path)


def test_read_only_engine_takes_no_lock_and_changes_nothing(engine: RocksEngine) -> None:
    engine.flush()
    before = sorted(path.name for path in engine.path.iterdir())
    looking = open_rocks(engine.path, is_read_only=True)
    assert looking.scan(b"", b"\xff", 10) == ROWS
    batch = looking.batch()
    batch.put(b"!c", b"")
    with pytest.raises(EngineError, match="read only"):
        looking.write(batch)
    looking.close()
    assert sorted(path.name for path in engine.path.iterdir()) == before
