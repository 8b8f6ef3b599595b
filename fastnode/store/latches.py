"""Who waits for whom: a key with an unapplied write is latched, and a plan that needs it waits for
the apply.

Latches save log entries that would fail their check; they are leader memory and decide nothing.
"""

from collections import deque
from collections.abc import Iterable

from fastnode import config
from fastnode.errors import Overloaded
from fastnode.flow import Suspension


class Latches:
    __slots__ = ("_waiters", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[bytes, deque[Suspension]] = {}
        self._waiters = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def is_held(self, key: bytes) -> bool:
        return key in self._waiting

    def wait_for(self, keys: Iterable[bytes]) -> Suspension | None:
        """None if all keys are free; otherwise await the result, then look again: another may have
        been faster.
        """
        if not self._waiting:
            return None
        for key in keys:
            waiting = self._waiting.get(key)
            if waiting is not None:
                if self._waiters >= config.LATCH_WAITERS_MAX:
                    raise Overloaded("too many calls wait for others to be applied")
                self._waiters += 1
                suspension = Suspension()
                waiting.append(suspension)
                return suspension
        return None

    def hold(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            assert key not in self._waiting, "a plan must wait until its keys are free"
            self._waiting[key] = deque()

    def release(self, keys: Iterable[bytes]) -> list[Suspension]:
        """Who waited, in order of arrival. They are resumed by the caller, after all state is
        consistent.
        """
        released: list[Suspension] = []
        for key in keys:
            released.extend(self._waiting.pop(key))
        self._waiters -= len(released)
        return released
