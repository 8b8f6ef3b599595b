"""An engine that holds rows back, over one that writes them.

What is held is lost in a crash together with the position that it leads to, as a memtable is; the
log has it. All of it is written at once, so the engine below always has the state after some entry.

Only the thread of the event loop takes rows in and reads; flushes and checkpoints come from others,
and write out what is held first. Whoever reads looks at what is held before he looks below: what he
does not find in one place any more is in the other by then.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final, cast

from fastnode import config, native
from fastnode.errors import DiskFull
from fastnode.store.engine import Batch, EngineError, StateEngine, WriteStalled

Row = tuple[bytes, bytes]

_NOT_HELD: Final = object()
_PAUSE_SECONDS: Final = 0.01
# Where a page was not enough, the next one has so many times its rows.
_MORE: Final = 4
# So many of the rows that come have to be written.
_STAYING: Final = 0.75


class HeldEngine:
    def __init__(self, below: StateEngine) -> None:
        self.below = below
        self.compact = below.compact
        self.is_stalled = below.is_stalled
        self.metrics = below.metrics
        self._held = native.Held()
        self._writing = Lock()
        # Batches that are not held for long: where nothing is taken away, it is work for nothing.
        self._let_through = 0
        # A flush: then the engine refuses rows too, and whoever writes shall hear of it at once.
        self._has_failed = False

    # --- reading ---------------------------------------------------------------------------

    def get(self, key: bytes) -> bytes | None:
        held = self._held.get(key, _NOT_HELD)
        return self.below.get(key) if held is _NOT_HELD else cast(bytes | None, held)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        held = self._held
        values = [held.get(key, _NOT_HELD) for key in keys]
        missing = [at for at, value in enumerate(values) if value is _NOT_HELD]
        if missing:
            stored = self.below.get_many([keys[at] for at in missing])
            for at, value in zip(missing, stored, strict=True):
                values[at] = value
        return cast(list[bytes | None], values)

    def scan(self, start: bytes, end: bytes, limit: int) -> list[Row]:
        return self._covered_pages(self.below.scan, start, end, limit)

    def scan_keys(self, start: bytes, end: bytes, limit: int) -> list[bytes]:
        return [key for key, _ in self._covered_pages(self._keys_below, start, end, limit)]

    def _keys_below(self, start: bytes, end: bytes, limit: int) -> list[Row]:
        return [(key, b"") for key in self.below.scan_keys(start, end, limit)]

    def _covered_pages(
        self, read: Callable[[bytes, bytes, int], list[Row]], start: bytes, end: bytes, limit: int
    ) -> list[Row]:
        """As many as are asked for, mostly from one page: what is held behind its last row, such as
        the messages that just came, is nobody's business. If rows of it are deleted, more are read.
        """
        held, wanted, rows = self._held, limit, list[Row]()
        while True:
            page = read(start, end, wanted)
            is_last = len(page) < wanted
            behind = end if is_last else page[-1][0] + b"\x00"
            covering = held.rows_in(start, behind)
            rows += _covered(page, covering) if covering else page
            if is_last or len(rows) >= limit:
                del rows[limit:]
                return rows
            start, wanted = behind, min(_MORE * wanted, limit + len(held))

    # --- writing ---------------------------------------------------------------------------

    def batch(self) -> native.HeldBatch:
        return native.HeldBatch()

    def write(self, batch: Batch) -> None:
        assert isinstance(batch, native.HeldBatch), "a batch of this engine"
        with self._writing:
            if batch.takes_away:
                self._let_through = 0
            held = self._held
            passes = self._let_through and len(held) + len(batch) >= config.HELD_PASSING_ROWS_MIN
            if passes or batch.has_ranges or self._has_failed:
                self._write_out(batch)
                self._let_through = max(self._let_through - 1, 0)
                return
            if len(held) >= config.HELD_ROWS_MAX or held.size >= config.HELD_BYTES_MAX:
                taken, written = held.taken, len(held)
                self._write_out()
                if written > taken * _STAYING:
                    self._let_through = config.HELD_PAUSE_BATCHES
            self._held.take(batch)

    def _write_out(self, last: native.HeldBatch | None = None) -> None:
        """What is held, and behind it one more batch; or, if it is refused, nothing."""
        batch = self.below.batch()
        if len(self._held):
            self._held.write_to(batch)
        if last is not None:
            last.write_to(batch)
        self.below.write(batch)
        self._has_failed = False
        if len(self._held):
            self._held = native.Held()

    def flush(self) -> None:
        try:
            self._settle()
            self.below.flush()
        except (EngineError, DiskFull):
            self._has_failed = True
            raise

    def checkpoint(self, path: Path) -> None:
        self._settle()
        self.below.checkpoint(path)

    def replace(self, install: Callable[[], None]) -> None:
        with self._writing:
            self._held = native.Held()
            self.below.replace(install)

    def close(self) -> None:
        """What an engine refuses to the end is in the log, as after a crash."""
        try:
            with suppress(WriteStalled, DiskFull):
                self._settle()
        finally:
            self.below.close()

    def _settle(self) -> None:
        """Hold nothing any more. An engine that stalls is waited for, in the caller's thread."""
        deadline = time.monotonic() + config.HELD_WAIT_SECONDS
        while True:
            try:
                with self._writing:
                    if len(self._held):
                        self._write_out()
                return
            except WriteStalled:
                if time.monotonic() >= deadline:
                    raise
            self.below.flush()
            time.sleep(_PAUSE_SECONDS)


def _covered(below: Iterable[Row], held: Iterable[tuple[bytes, bytes | None]]) -> list[Row]:
    """Rows of an engine and those that cover them, in the order of their keys."""
    rows: dict[bytes, bytes | None] = dict(below)
    rows.update(held)
    return [(key, value) for key, value in sorted(rows.items()) if value is not None]
