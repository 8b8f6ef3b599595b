"""The plain version of what is kept of group indexes: which messages a group has, first to last.

`_filed.pyx` does the same in C.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from fastnode._keys_ref import POSITION_BYTES

# What a group costs besides, in positions.
GROUP_PLACES: Final = 16


class Filed:
    """Positions of message groups as the engine has them. Of a group that is here they begin with
    its first message; where they do not reach its last one they are *cut*.

    A group is named by what its rows in the group index have between family and position.
    """

    __slots__ = ("_cut", "_kept", "_places", "_places_max")

    def __init__(self, places_max: int) -> None:
        self._kept: dict[bytes, bytearray] = {}
        self._cut: set[bytes] = set()
        self._places = 0
        self._places_max = places_max

    @property
    def places(self) -> int:
        """How much is kept."""
        return self._places

    def known(self, group: bytes, limit: int) -> list[int] | None:
        """The first positions of the group; None if the engine has to be asked."""
        kept = self._kept.get(group)
        if kept is None or (group in self._cut and len(kept) < limit * POSITION_BYTES):
            return None
        return [int.from_bytes(one, "big") for one in _split(kept)[:limit]]

    def successor(self, group: bytes, changed: Mapping[bytes, bool]) -> bytes | None:
        """The first position of the group that stays where `changed` says which go: empty if none
        does, None if the engine has to be asked.
        """
        kept = self._kept.get(group)
        if kept is None:
            return None
        for position in _split(kept):
            if changed.get(position, True):
                return position
        return None if group in self._cut else b""

    def load(self, group: bytes, rows: Sequence[bytes], *, is_whole: bool) -> None:
        """Keys of the group index, from the group's first message on."""
        self._drop(group)
        if rows:
            kept = self._kept[group] = bytearray().join(row[-POSITION_BYTES:] for row in rows)
            self._places += GROUP_PLACES + len(kept) // POSITION_BYTES
            if not is_whole:
                self._cut.add(group)
        self._bound()

    def begin(self, group: bytes) -> None:
        """The group has no messages, so all that come are known."""
        self._drop(group)
        self._kept[group] = bytearray()
        self._places += GROUP_PLACES

    def change(self, groups: Mapping[bytes, Mapping[bytes, bool]]) -> None:
        """Rows of the group index were written: True put, False deleted."""
        for group, changed in groups.items():
            kept = self._kept.get(group)
            if kept is None:
                continue
            before = len(kept)
            positions = set(_split(kept)) - {one for one, exists in changed.items() if not exists}
            last = bytes(kept[-POSITION_BYTES:])
            is_cut = group in self._cut
            added = {one for one, exists in changed.items() if exists}
            positions |= {one for one in added if one < last} if is_cut else added
            kept[:] = b"".join(sorted(positions))
            self._places += (len(kept) - before) // POSITION_BYTES
            if not kept:
                self._drop(group)
        self._bound()

    def forget(self) -> None:
        self._kept.clear()
        self._cut.clear()
        self._places = 0

    def _drop(self, group: bytes) -> None:
        kept = self._kept.pop(group, None)
        if kept is not None:
            self._places -= GROUP_PLACES + len(kept) // POSITION_BYTES
            self._cut.discard(group)

    def _bound(self) -> None:
        if self._places > self._places_max:
            # The cheapest bound is to start over.
            self.forget()


def _split(kept: bytearray) -> list[bytes]:
    return [bytes(kept[at : at + POSITION_BYTES]) for at in range(0, len(kept), POSITION_BYTES)]
