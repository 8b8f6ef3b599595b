"""Messages of a FIFO queue that were received once: what a delete that follows wants to know,
without reading it.
"""

from collections.abc import Iterable, Sequence
from itertools import repeat

from fastnode import config


class Handed:
    """A message that is received again, or removed, is forgotten: its old handle is good no more.
    How long it is hidden may change, which `timers.py` knows.
    """

    __slots__ = ("_handed",)

    def __init__(self) -> None:
        # Group and nonce, by position.
        self._handed: dict[int, tuple[str, int]] = {}

    def add(self, positions: Sequence[int], groups: Sequence[str], nonce: int) -> None:
        handed = self._handed
        if len(handed) + len(positions) > config.HELD_MESSAGES_MAX:
            # The cheapest bound is to start over.
            handed.clear()
        if groups.count(groups[0]) == len(groups):
            handed.update(dict.fromkeys(positions, (groups[0], nonce)))
        else:
            handed.update(zip(positions, zip(groups, repeat(nonce), strict=False), strict=True))

    def forget(self, positions: Iterable[int]) -> None:
        if self._handed:
            for position in positions:
                self._handed.pop(position, None)

    def groups_of(self, places: Iterable[tuple[int, int]]) -> dict[int, str] | None:
        """The groups of messages by their positions, if the nonces are those of the receives that
        handed them out.
        """
        groups: dict[int, str] = {}
        for position, nonce in places:
            known = self._handed.get(position)
            if known is None or known[1] != nonce:
                return None
            groups[position] = known[0]
        return groups
