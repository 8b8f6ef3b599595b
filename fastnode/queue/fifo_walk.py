"""Where the sweeper is among the deduplication rows of a FIFO queue, and when it walks again.

The rows are in the order of their ids, so whoever looks for old ones passes all of them, a page at
a time. This is a leader's memory: whoever has lost it begins anew.
"""

from collections.abc import Sequence

from fastnode import config


class Walk:
    __slots__ = ("_at", "_began_ms", "_next_ms")

    def __init__(self) -> None:
        # Where the next page begins; empty between two walks.
        self._at = b""
        self._began_ms = 0
        self._next_ms = 0

    def is_due(self, now_ms: int) -> bool:
        return bool(self._at) or now_ms >= self._next_ms

    def page_begin(self, first: bytes, now_ms: int) -> bytes:
        if not self._at:
            self._began_ms = now_ms
        return self._at or first

    def passed(self, rows: Sequence[tuple[bytes, bytes]]) -> bool:
        """A page is done with; False if it was the last of the walk."""
        if len(rows) == config.SWEEP_ROWS:
            self._at = rows[-1][0] + b"\x00"
            return True
        self._at, self._next_ms = b"", self._began_ms + config.SWEEP_WALK_MS
        return False
