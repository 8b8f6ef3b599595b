"""What the queues of a process keep of messages before anybody asks for them, within one bound.

A queue keeps the records that its consumers will want next, so that a busy one never reads the
engine. Where consumers stay away that is in vain, and a thousand such queues would fill a machine.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from fastnode import config


class Keeper(Protocol):
    @property
    def kept_bytes(self) -> int: ...

    def let_go(self) -> None:
        """Keep nothing that can be read again, unless somebody is working with it."""
        ...


class ReadAhead:
    """Only what is added is counted: when that has used up the room, everybody is asked what is
    left of it. If that is much, all have to let go, and who is busy reads again.
    """

    __slots__ = ("_keepers", "_room")

    def __init__(self, keepers: Callable[[], Iterable[Keeper]]) -> None:
        self._keepers = keepers
        self._room = config.READ_AHEAD_ALL_BYTES

    def add(self, size: int, adding: Keeper) -> None:
        """So much more is kept by `adding`, which may be about to use it."""
        self._room -= size
        if self._room < 0:
            self._look(adding)

    def _look(self, adding: Keeper) -> None:
        if self._kept_bytes() > config.READ_AHEAD_ALL_BYTES // 2:
            for keeper in self._keepers():
                if keeper is not adding:
                    keeper.let_go()
        # What nobody could let go of must not make the next look come at once.
        room = config.READ_AHEAD_ALL_BYTES - self._kept_bytes()
        self._room = max(room, config.READ_AHEAD_BYTES)

    def _kept_bytes(self) -> int:
        return sum(keeper.kept_bytes for keeper in self._keepers())
