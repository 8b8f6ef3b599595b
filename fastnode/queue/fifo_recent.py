"""Which deduplication ids may have been used lately: a leader's memory that errs on one side only.

Most sends are new, and to find that out in the engine costs as much as storing them. An id that is
not in here was not used within the window; one that is has to be looked up. Two bits stand for an
id, in filters that follow each other as they fill up, each larger than the one before; one whose
ids are all older than the window is thrown away.
"""

from collections.abc import Callable
from typing import Final

from fastnode import config

_FIRST_BITS: Final = 1 << 14
_BITS_MAX: Final = 1 << 23
_FILTERS_MAX: Final = 8
# So many bits for each id let one new id in a hundred be looked up in vain.
_BITS_PER_ID: Final = 16


class _Filter:
    __slots__ = ("bits", "mask", "newest_ms", "room")

    def __init__(self, size: int) -> None:
        self.bits = bytearray(size >> 3)
        self.mask = size - 1
        self.room = size // _BITS_PER_ID
        self.newest_ms = 0


class Recent:
    """It knows nothing of what was used before it was made: until `complete_ms` every id counts as
    used. 0 if nothing was.
    """

    __slots__ = ("_complete_ms", "_filters", "_now_ms")

    def __init__(self, complete_ms: int, now_ms: Callable[[], int]) -> None:
        self._complete_ms = complete_ms
        self._now_ms = now_ms
        self._filters = [_Filter(_FIRST_BITS)]

    def may_have(self, key: bytes) -> bool:
        if self._complete_ms:
            if self._now_ms() < self._complete_ms:
                return True
            self._complete_ms = 0
        value = hash(key)
        other = value >> 32
        for one in self._filters:
            bits, at = one.bits, value & one.mask
            if bits[at >> 3] >> (at & 7) & 1:
                at = other & one.mask
                if bits[at >> 3] >> (at & 7) & 1:
                    return True
        return False

    def add(self, key: bytes, now_ms: int) -> None:
        newest = self._filters[-1]
        if not newest.room:
            newest = self._grow(now_ms)
        value = hash(key)
        for at in (value & newest.mask, value >> 32 & newest.mask):
            newest.bits[at >> 3] |= 1 << (at & 7)
        newest.room -= 1
        newest.newest_ms = now_ms

    def _grow(self, now_ms: int) -> _Filter:
        size = min(16 * (self._filters[-1].mask + 1), _BITS_MAX)
        oldest_ms = now_ms - config.DEDUPLICATION_MS
        self._filters = [one for one in self._filters if one.newest_ms > oldest_ms]
        if len(self._filters) == _FILTERS_MAX:
            # More than it may remember: what is forgotten counts as used until it is too old.
            self._complete_ms = self._filters.pop(0).newest_ms + config.DEDUPLICATION_MS + 1
        self._filters.append(_Filter(size))
        return self._filters[-1]
