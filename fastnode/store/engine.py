"""The ordered key-value engine under one group: its protocol, and RocksDB.

Not here: what keys mean (`keyspace`), what a batch contains (`apply`), when to flush (the runtime),
and the simulator's engine (`memory_engine`).

What rocksdict 0.3.29 really does, found by trying it, and what we make of it:

- `Rdict.write`, `iter` and its steps, `Checkpoint` and opening hold the GIL; `get` of a list,
  `flush`, `compact_range` and `close` release it. So `flush` belongs in a thread and `write` must
  never wait: every write has `no_slowdown`, and RocksDB answers "Result incomplete: Write stall"
  instead of blocking.
- A write that is refused has already consumed rocksdict's WriteBatch: make a new one to try again.
- `items()` and `keys()` end silently at a block that fails its checksum, as if there were no more
  keys. Only `iter()` has a status, so scans use it and ask. With bounds `items()` would take a
  quarter less time for a row, but ends the process when another thread flushes.
- A step beyond the last wanted row may walk over any number of deleted keys, so a scan stops *on*
  its last row.
- `set_iterate_lower_bound` sets the upper bound. So only the upper bound is set.
- A range deletion hides keys from iterators at once, at the cost of one seek, in the memtable as in
  files.
- `close` flushes the memtables and fails if it cannot; a graceful stop still calls `flush` first,
  in a thread. A process that dies without closing keeps exactly what was flushed, and since a group
  is one column family that is always a prefix of its writes.
- After a flush has failed every write is refused with that flush's error, and reads go on. When the
  disk was full and has space again, RocksDB resumes by itself (5 s on a 6 MiB file system).
- A directory stays locked while an iterator on it is alive, so none leaves this file.
- `Checkpoint` flushes first what is not flushed, so a checkpoint is complete without a log.
- Opened read-only, a directory is neither locked nor changed; but one that does not exist is made,
  and refused afterwards.
- Every failure is a bare `Exception` that differs only in its text.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import Final, Protocol

from rocksdict import (
    AccessType,
    Checkpoint,
    Rdict,
    RdictIter,
    ReadOptions,
    WriteBatch,
)

from fastnode.errors import DiskFull, FastnodeError, OperationError
from fastnode.store.engine_options import (
    MEMTABLE_BYTES,
    EngineShared,
    options_for,
    write_options,
)

METRICS: Final = {
    "memtable_bytes": "rocksdb.cur-size-all-mem-tables",
    # Of the cache that all groups of a process share.
    "block_cache_bytes": "rocksdb.block-cache-usage",
    "immutable_memtables": "rocksdb.num-immutable-mem-table",
    "table_bytes": "rocksdb.total-sst-files-size",
    "blob_bytes": "rocksdb.total-blob-file-size",
    "live_blob_bytes": "rocksdb.live-blob-file-size",
    "pending_compaction_bytes": "rocksdb.estimate-pending-compaction-bytes",
    "running_compactions": "rocksdb.num-running-compactions",
    "background_errors": "rocksdb.background-errors",
    "keys_estimate": "rocksdb.estimate-num-keys",
}


class EngineError(FastnodeError):
    """The engine of one group failed; `detail` is the storage library's own words."""

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(f"{path}: {detail}")
        self.path = path
        self.detail = detail


class EngineCorrupt(EngineError):
    """Bytes on disk are not what was written. Nothing read from this engine can be trusted."""


class WriteStalled(OperationError):
    """Flushing cannot keep up; nothing was written, make the batch again and write it later."""


class Batch(Protocol):
    """Writes that take effect together, in order. Good for one `write`, whatever becomes of it."""

    def put(self, key: bytes, value: bytes) -> None: ...
    def delete(self, key: bytes) -> None: ...
    def delete_range(self, begin: bytes, end: bytes) -> None:
        """Delete every key in [begin, end)."""
        ...


class Engine(Protocol):
    """An ordered map from bytes to bytes whose writes survive a crash up to some flush."""

    def get(self, key: bytes) -> bytes | None: ...

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]: ...

    def scan(self, start: bytes, end: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """The first `limit` rows of [start, end), in key order."""
        ...

    def scan_keys(self, start: bytes, end: bytes, limit: int) -> list[bytes]: ...

    def batch(self) -> Batch: ...

    def write(self, batch: Batch) -> None:
        """Apply all of `batch` or, with `WriteStalled`, nothing. Never waits."""
        ...

    def flush(self) -> None:
        """Make every write that returned before this call durable. Blocks: call it in a thread."""
        ...

    def compact(self) -> None:
        """Give back the space of what was deleted and flushed. Blocks: call it in a thread."""
        ...

    def is_stalled(self) -> bool:
        """Whether the next write would be refused, as far as one can tell beforehand."""
        ...

    def metrics(self) -> dict[str, int]: ...

    def close(self) -> None: ...


class StateEngine(Engine, Protocol):
    """An engine whose whole state can be given to others, and replaced by theirs."""

    def checkpoint(self, path: Path) -> None: ...

    def replace(self, install: Callable[[], None]) -> None: ...


class RocksEngine:
    """One group's RocksDB: raw bytes, one column family, no write-ahead log of its own."""

    def __init__(
        self,
        path: Path,
        shared: EngineShared,
        *,
        memtable_bytes: int = MEMTABLE_BYTES,
        is_read_only: bool = False,
    ) -> None:
        self.path = path
        self._access = AccessType.read_only() if is_read_only else AccessType.read_write()
        self._shared = shared
        self._memtable_bytes = memtable_bytes
        self._write_options = write_options()
        # Held by whoever works on the files in a thread: nobody may close them meanwhile.
        self._files = Lock()
        self._db = self._open()

    def _open(self) -> Rdict:
        options = options_for(self._shared, self._memtable_bytes)
        try:
            return Rdict(str(self.path), options, access_type=self._access)
        except Exception as error:  # rocksdict has no exception type of its own
            raise typed_error(self.path, error) from error

    def replace(self, install: Callable[[], None]) -> None:
        """Go on with another state, which `install` puts in the place of this one."""
        with self._files:
            self._db.close()
            install()
            self._db = self._open()

    def get(self, key: bytes) -> bytes | None:
        try:
            value: bytes | None = self._db.get(key)
        except Exception as error:  # rocksdict has no exception type of its own
            raise typed_error(self.path, error) from error
        return value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        try:
            values: list[bytes | None] | None = self._db.get(list(keys))
        except Exception as error:  # rocksdict has no exception type of its own
            raise typed_error(self.path, error) from error
        assert values is not None
        return values

    def scan(self, start: bytes, end: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        rows: list[tuple[bytes, bytes]] = []
        iterator = self._iterator(start, end, limit)
        iterator.seek(start)
        while iterator.valid():
            rows.append((iterator.key(), iterator.value()))
            if len(rows) == limit:
                return rows
            iterator.next()
        self._check_ended(iterator)
        return rows

    def scan_keys(self, start: bytes, end: bytes, limit: int) -> list[bytes]:
        keys: list[bytes] = []
        iterator = self._iterator(start, end, limit)
        iterator.seek(start)
        while iterator.valid():
            keys.append(iterator.key())
            if len(keys) == limit:
                return keys
            iterator.next()
        self._check_ended(iterator)
        return keys

    def batch(self) -> Batch:
        return WriteBatch(raw_mode=True)

    def write(self, batch: Batch) -> None:
        assert isinstance(batch, WriteBatch), "a batch of this engine"
        try:
            self._db.write(batch, self._write_options)
        except Exception as error:  # rocksdict has no exception type of its own
            raise typed_error(self.path, error) from error

    def flush(self) -> None:
        try:
            with self._files:
                self._db.flush(wait=True)
        except Exception as error:  # rocksdict has no exception type of its own
            raise typed_error(self.path, error) from error

    def compact(self) -> None:
        try:
            with self._files:
                self._db.compact_range(None, None)
        except Exception as error:  # rocksdict has no exception type of its own
            raise typed_error(self.path, error) from error

    def checkpoint(self, path: Path) -> None:
        """The state as of now as a directory of its own on the same file system; it must not exist.
        Blocks: call it in a thread.
        """
        # A checkpoint holds the GIL while it flushes; after this there is little left to flush.
        self.flush()
        try:
            with self._files:
                Checkpoint(self._db).create_checkpoint(str(path))
        except Exception as error:  # rocksdict has no exception type of its own
            raise typed_error(path, error) from error

    def is_stalled(self) -> bool:
        read = self._db.property_int_value
        return bool(read("rocksdb.is-write-stopped") or read("rocksdb.actual-delayed-write-rate"))

    def metrics(self) -> dict[str, int]:
        read = self._db.property_int_value
        return {name: read(property_name) or 0 for name, property_name in METRICS.items()}

    def close(self) -> None:
        try:
            self._db.close()
        except Exception as error:  # rocksdict has no exception type of its own
            raise typed_error(self.path, error) from error

    def _iterator(self, start: bytes, end: bytes, limit: int) -> RdictIter:
        assert limit > 0
        bounds = ReadOptions()
        bounds.set_iterate_upper_bound(max(start, end))
        return self._db.iter(bounds)

    def _check_ended(self, iterator: RdictIter) -> None:
        """An iterator stops at the end of its range and at damage; only its status tells which."""
        try:
            iterator.status()
        except Exception as error:  # rocksdict has no exception type of its own
            raise typed_error(self.path, error) from error


def typed_error(path: Path, error: Exception) -> Exception:
    """Our name for what rocksdict reports as text. Misuse, a bug of ours, keeps its own type."""
    text = str(error)
    if type(error) is not Exception:
        return error
    if "Write stall" in text:
        return WriteStalled(f"{path}: {text}")
    if "No space left" in text:
        return DiskFull(f"{path}: {text}")
    if text.startswith("Corruption"):
        return EngineCorrupt(path, text)
    return EngineError(path, text)
