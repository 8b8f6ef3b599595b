"""Who waits for whom: a key with an unapplied write is latched, and a plan that needs it waits for
the apply.

Latches save log entries that would fail their check; they are leader memory and decide nothing.
Time is counted in the group's ticks: nobody sets a timer, and nothing is done while nobody waits.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from fastnode import config
from fastnode.errors import Overloaded
from fastnode.flow import Suspension

WAIT_TICKS_MAX: Final = round(config.LATCH_SECONDS / config.TICK_SECONDS)


class Latches:
    __slots__ = ("_ticks", "_waiters", "held", "waiting")

    def __init__(self) -> None:
        self.held: set[bytes] = set()
        # Only keys that somebody waits for: the tick at which each began, and who it is.
        self.waiting: dict[bytes, deque[tuple[int, Suspension]]] = {}
        self._waiters = 0
        self._ticks = 0

    def __len__(self) -> int:
        return len(self.held)

    @property
    def has_waiters(self) -> bool:
        return bool(self.waiting)

    def is_held(self, key: bytes) -> bool:
        return key in self.held

    def wait_for(self, keys: Sequence[bytes]) -> Suspension | None:
        """None if all keys are free; otherwise await the result, then look again: another may have
        been faster. It fails with `Overloaded` when the wait becomes too long.
        """
        held = self.held
        if not held:
            return None
        for key in keys:
            if key in held:
                return self.wait(key)
        return None

    def hold(self, keys: Sequence[bytes]) -> None:
        assert self.held.isdisjoint(keys), "a plan must wait until its keys are free"
        self.held.update(keys)

    def release(self, keys: Sequence[bytes]) -> list[Suspension]:
        """Who waited, in order of arrival. They are resumed by the caller, after all state is
        consistent.
        """
        self.held.difference_update(keys)
        if not self.waiting:
            return []
        queues = [self.waiting.pop(key) for key in keys if key in self.waiting]
        released = [suspension for queue in queues for _, suspension in queue]
        self._waiters -= len(released)
        return released

    def tick(self) -> list[Suspension]:
        """Who has waited for too long, per key in order of arrival. They are failed by the caller.

        A latch is held that long only while nothing can be applied.
        """
        self._ticks += 1
        expired: list[Suspension] = []
        for key, queue in list(self.waiting.items()):
            while queue and self._ticks - queue[0][0] > WAIT_TICKS_MAX:
                expired.append(queue.popleft()[1])
            if not queue:
                del self.waiting[key]
        self._waiters -= len(expired)
        return expired

    def wait(self, key: bytes) -> Suspension:
        """Until the key is released, by whoever is known to do so."""
        if self._waiters >= config.LATCH_WAITERS_MAX:
            raise Overloaded("too many calls wait for others to be applied")
        self._waiters += 1
        suspension = Suspension()
        self.waiting.setdefault(key, deque()).append((self._ticks, suspension))
        return suspension
