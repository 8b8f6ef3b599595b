"""A sorted map in memory: the simulator's engine, which models flush and crash, and what a worker
keeps its mirrors of other workers' metadata in.

`crash` goes back to the state at some flush, which is all that RocksDB promises without a log of
its own.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence

from fastnode.errors import DiskFull
from fastnode.store.engine import Batch, WriteStalled


class MemoryBatch:
    """Operations in order: (key, value) puts, (key, None) deletes, (begin, end, None) a range."""

    __slots__ = ("operations",)

    def __init__(self) -> None:
        self.operations: list[tuple[bytes, bytes | None] | tuple[bytes, bytes, None]] = []

    def put(self, key: bytes, value: bytes) -> None:
        self.operations.append((key, value))

    def delete(self, key: bytes) -> None:
        self.operations.append((key, None))

    def delete_range(self, begin: bytes, end: bytes) -> None:
        assert begin <= end
        self.operations.append((begin, end, None))


class MemoryEngine:
    """`Engine` without a disk. `stalled` and `is_full` are set by whoever plays the disk."""

    def __init__(self) -> None:
        self.stalled = False
        self.is_full = False
        self._rows: dict[bytes, bytes] = {}
        self._keys: list[bytes] = []
        self._flushed: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        return self._rows.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self._rows.get(key) for key in keys]

    def scan(self, start: bytes, end: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        return [(key, self._rows[key]) for key in self.scan_keys(start, end, limit)]

    def scan_keys(self, start: bytes, end: bytes, limit: int) -> list[bytes]:
        assert limit > 0
        low, high = self._range(start, end)
        return self._keys[low : min(high, low + limit)]

    def batch(self) -> Batch:
        return MemoryBatch()

    def write(self, batch: Batch) -> None:
        """A batch is consumed also when it is refused, as RocksDB's is."""
        assert isinstance(batch, MemoryBatch), "a batch of this engine"
        operations, batch.operations = batch.operations, []
        if self.stalled:
            raise WriteStalled
        if self.is_full:
            raise DiskFull
        for operation in operations:
            if len(operation) == 3:
                self._delete_range(operation[0], operation[1])
            elif operation[1] is None:
                self._delete(operation[0])
            else:
                self._put(operation[0], operation[1])

    def flush(self) -> None:
        self._flushed = dict(self._rows)

    def compact(self) -> None:
        """Deleted rows take no space here."""

    def is_stalled(self) -> bool:
        return self.stalled

    def metrics(self) -> dict[str, int]:
        """Of those that RocksDB has: what somebody asks for. There are no tables."""
        return {"keys_estimate": len(self._rows), "memtable_bytes": 0, "table_bytes": 0}

    def close(self) -> None:
        """RocksDB flushes when it is closed, so this does too."""
        self.flush()

    def crash(self) -> None:
        """Lose what was not flushed."""
        self._rows = dict(self._flushed)
        self._keys = sorted(self._rows)

    def _range(self, start: bytes, end: bytes) -> tuple[int, int]:
        low = bisect_left(self._keys, start)
        return low, max(low, bisect_left(self._keys, end))

    def _put(self, key: bytes, value: bytes) -> None:
        if key not in self._rows:
            insort(self._keys, key)
        self._rows[key] = value

    def _delete(self, key: bytes) -> None:
        if self._rows.pop(key, None) is not None:
            del self._keys[bisect_left(self._keys, key)]

    def _delete_range(self, begin: bytes, end: bytes) -> None:
        low, high = self._range(begin, end)
        for key in self._keys[low:high]:
            del self._rows[key]
        del self._keys[low:high]
