"""The engine below one that holds rows back, in memory. As RocksDB's, it is copied and replaced.

Not here: how it crashes and stalls, which `MemoryEngine` does.
"""

from collections.abc import Callable
from pathlib import Path

from fastnode.store.memory_engine import MemoryEngine


class StoredRows(MemoryEngine):
    def __init__(self) -> None:
        super().__init__()
        # There are no files: the last checkpoint, wherever it was to be.
        self.copied: dict[bytes, bytes] = {}

    def rows(self) -> dict[bytes, bytes]:
        return dict(self._rows)

    def load(self, rows: dict[bytes, bytes]) -> None:
        """Become that state, durably."""
        self._flushed = dict(rows)
        self.crash()

    def checkpoint(self, path: Path) -> None:
        self.copied = self.rows()

    def replace(self, install: Callable[[], None]) -> None:
        install()
