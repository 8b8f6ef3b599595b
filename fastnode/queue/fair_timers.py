"""Timers of a fair queue: due messages of noisy tenants stand aside, so that those of quiet ones
are found without looking at them.

Whoever is aside is due like the others and counts like them. Which tenants are noisy is decided in
`fair_shares.py`.
"""

import heapq
from collections.abc import Callable
from typing import Final

from fastnode.queue.timers import Timers

# As many may be passed over because somebody is changing them.
_PASSED_OVER_MAX: Final = 64
_STALE_MAX: Final = 64


class TenantTimers(Timers):
    __slots__ = ("_aside", "_let_go")

    def __init__(self, let_go: Callable[[int], str | None]) -> None:
        """`let_go` is told of every message that becomes due, and names its tenant if that is
        known and noisy.
        """
        super().__init__()
        self._let_go = let_go
        self._aside: dict[str, list[int]] = {}

    def set_aside(self, tenant: str, position: int, *, was_received: bool) -> None:
        self._due[position] = was_received
        self._due_received += was_received
        heap = self._aside.setdefault(tenant, [])
        heapq.heappush(heap, position)
        # What was deleted while it stood here.
        if len(heap) > 2 * len(self._due) + _STALE_MAX:
            self._aside[tenant] = sorted(one for one in set(heap) if one in self._due)

    def has_aside(self, tenant: str) -> bool:
        heap = self._aside.get(tenant)
        if heap is None:
            return False
        while heap and heap[0] not in self._due:
            heapq.heappop(heap)
        if not heap:
            del self._aside[tenant]
        return bool(heap)

    def take_aside(self, tenant: str, is_changing: Callable[[int], bool]) -> int | None:
        """The tenant's due message that was sent first, of those that nobody is changing."""
        heap = self._aside.get(tenant, [])
        changing: list[int] = []
        found: int | None = None
        while heap and found is None and len(changing) < _PASSED_OVER_MAX:
            position = heapq.heappop(heap)
            if position not in self._due:
                continue
            if is_changing(position):
                changing.append(position)
            else:
                found = position
        for position in changing:
            heapq.heappush(heap, position)
        if found is not None:
            self._due_received -= self._due.pop(found)
        return found

    def rejoin(self, tenant: str) -> None:
        """The tenant is quiet again."""
        for position in self._aside.pop(tenant, ()):
            if position in self._due:
                heapq.heappush(self._due_heap, position)

    def _make_due(self, position: int, was_received: bool) -> None:
        tenant = self._let_go(position)
        if tenant is None:
            super()._make_due(position, was_received)
        else:
            self.set_aside(tenant, position, was_received=was_received)
