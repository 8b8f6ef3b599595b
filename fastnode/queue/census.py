"""How many messages are stored in all queues that are led here, and which queues hold most of them.
Sans-IO.

Read from the counters that are stored, so queues that nobody uses count too. A walk over them takes
a bounded number of rows at a time and goes on where the last one ended; what it found is published
at its end.
"""

import heapq
from collections.abc import Iterator, Sequence
from typing import Final

from fastnode import config, native
from fastnode.store.group import Group
from fastnode.store.keyspace import COUNT_TOTAL
from fastnode.store.sums import decode_counter

_BEGIN: Final = native.FAMILY_COUNTER
_END: Final = native.prefix_end(native.FAMILY_COUNTER)
# Candidates are sorted out when there are so many.
_CANDIDATES_MAX: Final = 50 * config.CENSUS_DEEPEST

Name = tuple[str, str, str]


class Census:
    """`stored` and `deepest` are those of the last whole walk."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self._groups = groups
        self.stored = 0
        self.deepest: dict[Name, int] = {}
        self._group_at, self._row_at, self._sum = 0, _BEGIN, 0
        self._found: dict[Name, int] = {}

    def walk(self) -> Iterator[None]:
        """On to the end, or as far as one slot may go. Stops now and then."""
        for _ in range(config.CENSUS_ROWS_MAX // config.HISTORY_STEP):
            if self._step():
                self._publish()
                return
            yield

    def _step(self) -> bool:
        """Some rows; true at the end of the last group."""
        left = config.HISTORY_STEP
        while self._group_at < len(self._groups):
            group = self._groups[self._group_at]
            rows = group.scan(self._row_at, _END, left) if group.is_ready else []
            for key, value in rows:
                if key[-1] == COUNT_TOTAL:
                    self._count(key, decode_counter(value))
            if len(rows) == left:
                self._row_at = rows[-1][0] + b"\x00"
                return False
            left -= len(rows)
            self._group_at, self._row_at = self._group_at + 1, _BEGIN
        return True

    def _count(self, key: bytes, messages: int) -> None:
        if messages <= 0:
            return
        self._sum += messages
        parsed = native.parse_key(key)
        name = parsed.account, parsed.region, parsed.name
        self._found[name] = self._found.get(name, 0) + messages
        if len(self._found) > _CANDIDATES_MAX:
            self._found = _largest(self._found, _CANDIDATES_MAX // 2)

    def _publish(self) -> None:
        self.stored, self.deepest = self._sum, _largest(self._found, config.CENSUS_DEEPEST)
        self._group_at, self._row_at, self._sum, self._found = 0, _BEGIN, 0, {}


def _largest(found: dict[Name, int], count: int) -> dict[Name, int]:
    names = heapq.nlargest(count, found, key=lambda name: found[name])
    return {name: found[name] for name in names}
