"""A group's checkpoint that a backup is made of: beside the group's directory until it is copied.

All functions block: call them in a thread. Not here: when a checkpoint may be taken, and whether
those of all groups fit together (`cut`).
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from fastnode.store.cut import Marks, marks_of
from fastnode.store.engine import RocksEngine
from fastnode.store.engine_options import EngineShared
from fastnode.store.snapshot import Manifest, SnapshotFile, describe, summed_file
from fastnode.store.swap import BACKUP, beside, remove, typed_errors

# What a client asks for at once, and what it gets at most.
PIECE_BYTES_MAX: Final = 1_048_576
# Sums of files are worked out at this pace, so that the log keeps its disk.
READ_BYTES_PER_SECOND: Final = 128 * 1_048_576
_KNOWN_FILES_MAX: Final = 65_536
_LOOK_BYTES: Final = 1_048_576


class Checkpointed(Protocol):
    def checkpoint(self, path: Path) -> None: ...


def checkpoint_path(group_path: Path) -> Path:
    return beside(group_path, BACKUP)


def take_checkpoint(engine: Checkpointed, group_path: Path) -> None:
    """In place of an older one."""
    path = checkpoint_path(group_path)
    with typed_errors(path):
        remove(path)
    engine.checkpoint(path)


def drop_checkpoint(group_path: Path) -> None:
    """Idempotent."""
    path = checkpoint_path(group_path)
    with typed_errors(path):
        remove(path)


def marks_in(group_path: Path, groups: int) -> Marks:
    shared = EngineShared(cache_bytes=_LOOK_BYTES, write_buffer_bytes=_LOOK_BYTES)
    engine = RocksEngine(checkpoint_path(group_path), shared, is_read_only=True)
    try:
        return marks_of(engine, groups)
    finally:
        engine.close()


def read_piece(group_path: Path, file: SnapshotFile, offset: int) -> bytes:
    """What the file holds from the offset on, up to the bound."""
    assert 0 <= offset < file.size
    path = checkpoint_path(group_path) / file.name
    with typed_errors(path), path.open("rb") as opened:
        return os.pread(opened.fileno(), min(PIECE_BYTES_MAX, file.size - offset), offset)


class Checksums:
    """Files of an engine never change, and most live through many backups: their sums are worked
    out once. They are told apart as a build tool does it, by name, file, size and time.
    """

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep
        self._known: dict[tuple[str, int, int, int], SnapshotFile] = {}

    def manifest(self, group_path: Path, group: int) -> Manifest:
        return describe(checkpoint_path(group_path), group, self._describe)

    def _describe(self, path: Path) -> SnapshotFile:
        with typed_errors(path):
            found = path.stat()
        key = path.name, found.st_ino, found.st_size, found.st_mtime_ns
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _KNOWN_FILES_MAX:
                self._known.clear()
            known = self._known[key] = summed_file(path, self._pace)
        return known

    def _pace(self, count: int) -> None:
        self._sleep(count / READ_BYTES_PER_SECOND)
