"""How much work a node has taken on, and how much more it takes: one number for all its groups.

Work is counted in places: one for each transaction that is not applied yet, and one for every full
16 KiB of it, so that one bound holds for time and for memory. While no place is left, requests are
turned away before anything of them is read (`http/shedding.py`).

The bound follows what the node can do. Once transactions wait for longer than the target, it is as
many places as were freed in that time, for then a new one waits about that long. A slow disk alone
is no overload, so the bound never falls below what a few hundred connections need.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from fastnode.config import BACKLOG_PLACES_MAX, BACKLOG_PLACES_MIN, BACKLOG_WAIT_MS

# A transaction of 1 MiB takes 65 places.
PLACE_BITS: Final = 14
# Looks over which the rate is taken: a block of the log may free all of its places in one of them.
_LOOKS: Final = 4


class Backlog:
    """`room` is how many places are left. It may fall below zero: what is under way goes on."""

    __slots__ = ("_looks", "limit", "room")

    def __init__(self) -> None:
        self.limit = self.room = BACKLOG_PLACES_MAX
        self._looks: deque[tuple[int, int]] = deque(maxlen=_LOOKS)

    @property
    def has_reserve(self) -> bool:
        """Less than twice the work that is wanted: what makes room for others may still come in."""
        return self.room > -self.limit

    @property
    def places_taken(self) -> int:
        return self.limit - self.room

    def look(self, elapsed_ms: int, groups: Sequence[tuple[int, int]]) -> int:
        """Of each group: the places that it freed since the last look, and the age of its oldest
        unapplied transaction in milliseconds. Returns the sum of the places.

        A group that frees nothing while others do is stuck, and no bound on work would help it.
        """
        freed = sum(places for places, _ in groups)
        self._looks.append((elapsed_ms, freed))
        oldest_ms = max((age for places, age in groups if places or not freed), default=0)
        self._move(self._bound() if oldest_ms > BACKLOG_WAIT_MS else self.limit * 9 // 8)
        return freed

    def _bound(self) -> int:
        elapsed_ms = sum(elapsed for elapsed, _ in self._looks)
        freed = sum(places for _, places in self._looks)
        return min(self.limit, freed * BACKLOG_WAIT_MS // max(elapsed_ms, 1))

    def _move(self, wanted: int) -> None:
        limit = min(max(wanted, BACKLOG_PLACES_MIN), BACKLOG_PLACES_MAX)
        self.room += limit - self.limit
        self.limit = limit
