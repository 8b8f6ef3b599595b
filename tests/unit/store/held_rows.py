"""Engines for one that holds rows back, and rows for them."""

from pathlib import Path

from fastnode.store.engine import Batch, Engine, RocksEngine
from fastnode.store.engine_options import EngineShared
from tests.stored import StoredRows

APPLIED = b"!raft|applied"

Rows = list[tuple[bytes, bytes | None]]


class Stored(StoredRows):
    """A stall may be over after some flushes, as RocksDB's is. Counts what it does."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = self.reads = self.rows_read = 0
        self.stalled_flushes = 0

    def scan_keys(self, start: bytes, end: bytes, limit: int) -> list[bytes]:
        keys = super().scan_keys(start, end, limit)
        self.reads += 1
        self.rows_read += len(keys)
        return keys

    def write(self, batch: Batch) -> None:
        super().write(batch)
        self.writes += 1

    def flush(self) -> None:
        super().flush()
        if self.stalled_flushes:
            self.stalled_flushes -= 1
            self.stalled = self.stalled_flushes > 0


def write_rows(engine: Engine, rows: Rows) -> None:
    batch = engine.batch()
    for key, value in rows:
        if value is None:
            batch.delete(key)
        else:
            batch.put(key, value)
    engine.write(batch)


def all_rows(engine: Engine) -> dict[bytes, bytes]:
    return dict(engine.scan(b"", b"\xff", 1_000_000))


def small_rocks(path: Path) -> RocksEngine:
    return RocksEngine(path, EngineShared(cache_bytes=1 << 20, write_buffer_bytes=8 << 20))
