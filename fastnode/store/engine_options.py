"""How RocksDB is set up for queues, where all that is inserted is deleted, and most of it soon.

What was found about the library by trying it is in `engine.py`.
"""

from typing import Final

from rocksdict import (
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    ChecksumType,
    DBCompressionType,
    Options,
    WriteBufferManager,
    WriteOptions,
)

from fastnode import config

KIB: Final = 1024
MIB: Final = 1024 * 1024

# A body above this goes to a blob file: compaction then moves a pointer instead of the body.
BLOB_BYTES_MIN: Final = 16 * KIB
MEMTABLE_BYTES: Final = 12 * MIB
# As many are flushed together: what one brought and the other took away is then written by neither
# flush, and no compaction meets it.
MEMTABLES_MERGED: Final = 2
MEMTABLES_MAX: Final = 5
# Small, because every group that was ever written to holds one: 8 groups must fit in a small
# machine.
ARENA_BLOCK_BYTES: Final = 256 * KIB
# A flush takes away at the old end of queues and brings at the new one, so it is merged with all of
# the first level, and the file that spans what lies between with all of that in the next one. So
# the level is small, and a file ends where it would span more than this (docs/decisions/0016).
LEVEL_BYTES: Final = 32 * MIB
FILE_BYTES: Final = 8 * MIB
SPANNED_BYTES_MAX: Final = 2 * FILE_BYTES
OPEN_FILES_MAX: Final = 256
BACKGROUND_JOBS_MAX: Final = 2
# A stretch of this many entries of which half are tombstones is compacted away: consumed messages
# leave nothing else.
TOMBSTONE_WINDOW: Final = 4_096
TOMBSTONES_IN_WINDOW: Final = 2_048


class EngineShared:
    """What all groups of a process share: one block cache and one budget for memtables."""

    def __init__(
        self,
        *,
        cache_bytes: int = config.BLOCK_CACHE_BYTES,
        write_buffer_bytes: int = config.MEMTABLES_BYTES_MAX,
    ) -> None:
        self.cache = Cache(cache_bytes)
        # Whoever writes beyond the budget is flushed, so upkeep sees to it that nobody has to;
        # stalling is left to each group's own memtable limit.
        self.write_buffers = WriteBufferManager(write_buffer_bytes, allow_stall=False)

    def metrics(self) -> dict[str, int]:
        return {
            "block_cache_bytes": self.cache.get_usage(),
            "write_buffer_bytes": self.write_buffers.get_usage(),
        }


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
    options.set_min_write_buffer_number_to_merge(MEMTABLES_MERGED)
    options.set_arena_block_size(ARENA_BLOCK_BYTES)
    options.set_max_open_files(OPEN_FILES_MAX)
    options.set_table_cache_num_shard_bits(2)


def set_files(options: Options) -> None:
    options.set_max_bytes_for_level_base(LEVEL_BYTES)
    options.set_target_file_size_base(FILE_BYTES)
    options.set_max_compaction_bytes(SPANNED_BYTES_MAX)
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
