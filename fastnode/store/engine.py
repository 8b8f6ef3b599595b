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
  keys. Only `iter()` has a status, so scans use it and ask.
- A step beyond the last wanted row may walk over any number of deleted keys, so a scan stops *on*
  its last row.
- `set_iterate_lower_bound` sets the upper bound. So only the upper bound is set, and a scan
  backwards compares with its start.
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

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from rocksdict import (
    AccessType,
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    Checkpoint,
    ChecksumType,
    DBCompressionType,
    Options,
    Rdict,
    RdictIter,
    ReadOptions,
    WriteBatch,
    WriteBufferManager,
    WriteOptions,
)

from fastnode import config
from fastnode.errors import DiskFull, FastnodeError, OperationError

KIB: Final = 1024
MIB: Final = 1024 * 1024

# A body above this goes to a blob file: compaction then moves a pointer instead of the body.
BLOB_BYTES_MIN: Final = 16 * KIB
MEMTABLE_BYTES: Final = 16 * MIB
MEMTABLES_MAX: Final = 4
# Small, because every group that was ever written to holds one: 8 groups must fit in a small
# machine.
ARENA_BLOCK_BYTES: Final = 256 * KIB
OPEN_FILES_MAX: Final = 256
BACKGROUND_JOBS_MAX: Final = 2
# A stretch of this many entries of which half are tombstones is compacted away: consumed messages
# leave nothing else.
TOMBSTONE_WINDOW: Final = 4_096
TOMBSTONES_IN_WINDOW: Final = 2_048

METRICS: Final = {
    "memtable_bytes": "rocksdb.cur-size-all-mem-tables",
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

    def scan_reverse(self, start: bytes, end: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """The last `limit` rows of [start, end), last first."""
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


class EngineShared:
    """What all groups of a process share: one block cache and one budget for memtables."""

    def __init__(
        self,
        *,
        cache_bytes: int = config.BLOCK_CACHE_BYTES,
        write_buffer_bytes: int = config.WRITE_BUFFER_BYTES,
    ) -> None:
        self.cache = Cache(cache_bytes)
        # The budget flushes the fullest group early; stalling is left to each group's own memtable
        # limit.
        self.write_buffers = WriteBufferManager(write_buffer_bytes, allow_stall=False)

    def metrics(self) -> dict[str, int]:
        return {
            "block_cache_bytes": self.cache.get_usage(),
            "write_buffer_bytes": self.write_buffers.get_usage(),
        }


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
        access = AccessType.read_only() if is_read_only else AccessType.read_write()
        self._shared = shared
        self._write_options = write_options()
        try:
            self._db = Rdict(str(path), options_for(shared, memtable_bytes), access_type=access)
        except Exception as error:  # rocksdict has no exception type of its own
            raise typed_error(path, error) from error

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

    def scan_reverse(self, start: bytes, end: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        rows: list[tuple[bytes, bytes]] = []
        iterator = self._iterator(start, end, limit)
        iterator.seek_to_last()
        while iterator.valid():
            if iterator.key() < start:
                return rows
            rows.append((iterator.key(), iterator.value()))
            if len(rows) == limit:
                return rows
            iterator.prev()
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
            self._db.flush(wait=True)
        except Exception as error:  # rocksdict has no exception type of its own
            raise typed_error(self.path, error) from error

    def compact(self) -> None:
        try:
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


def write_options() -> WriteOptions:
    options = WriteOptions()
    # The stub calls this property a method.
    options.disable_wal = True  # type: ignore[method-assign,assignment]
    options.no_slowdown = True
    return options


def options_for(shared: EngineShared, memtable_bytes: int) -> Options:
    """Options for queues: all that is inserted is deleted, most of it before it is flushed."""
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(table_options(shared))
    set_memory(options, shared, memtable_bytes)
    set_files(options)
    set_background(options)
    return options


def table_options(shared: EngineShared) -> BlockBasedOptions:
    table = BlockBasedOptions()
    table.set_block_cache(shared.cache)
    # Index and filter blocks count against the cache, so that its size bounds them too.
    table.set_cache_index_and_filter_blocks(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    # Most looked-up state keys do not exist: a message that was never received has none.
    table.set_bloom_filter(10, False)
    # In parts, of which a read takes one. The filter of a whole file of a million small keys does
    # not fit into a shard of the cache and would be read again for every look-up: 270 us, not 4.
    table.set_index_type(BlockBasedIndexType.two_level_index_search())
    table.set_partition_filters(True)
    table.set_metadata_block_size(4 * KIB)
    table.set_pin_top_level_index_and_filter(True)
    table.set_block_size(16 * KIB)
    table.set_format_version(5)
    table.set_checksum_type(ChecksumType.xxh3())
    return table


def set_memory(options: Options, shared: EngineShared, memtable_bytes: int) -> None:
    options.set_write_buffer_manager(shared.write_buffers)
    options.set_write_buffer_size(memtable_bytes)
    options.set_max_write_buffer_number(MEMTABLES_MAX)
    options.set_arena_block_size(ARENA_BLOCK_BYTES)
    options.set_max_open_files(OPEN_FILES_MAX)
    options.set_table_cache_num_shard_bits(2)


def set_files(options: Options) -> None:
    options.set_compression_type(DBCompressionType.lz4())
    options.set_enable_blob_files(True)
    options.set_min_blob_size(BLOB_BYTES_MIN)
    options.set_blob_file_size(64 * MIB)
    options.set_blob_compression_type(DBCompressionType.lz4())
    # Queues empty themselves from the old end, so the oldest blob files are the ones that hold
    # garbage.
    options.set_enable_blob_gc(True)
    options.set_blob_gc_age_cutoff(0.5)
    options.set_blob_gc_force_threshold(0.5)
    options.set_manifest_preallocation_size(64 * KIB)
    options.set_max_manifest_file_size(4 * MIB)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 * MIB)
    options.set_bytes_per_sync(1 * MIB)


def set_background(options: Options) -> None:
    options.set_max_background_jobs(BACKGROUND_JOBS_MAX)
    options.set_max_file_opening_threads(1)
    options.set_skip_stats_update_on_db_open(True)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    options.set_avoid_unnecessary_blocking_io(True)
    options.add_compact_on_deletion_collector_factory(TOMBSTONE_WINDOW, TOMBSTONES_IN_WINDOW, 0.5)
