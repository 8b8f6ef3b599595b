"""Records of messages that were sent lately and that nobody has received: most are received soon,
and then need not be read.
"""

from collections.abc import Iterable
from typing import Final

from fastnode import config

# So many messages in a row that find no room mean that those here are not asked for: they were
# removed unseen, or their groups are locked.
_REFUSED_MAX: Final = 16 * config.READ_AHEAD_MESSAGES


class Fresh:
    """What finds no room is left out: those before it will be received before it."""

    __slots__ = ("_bytes", "_records", "_refused")

    def __init__(self) -> None:
        self._records: dict[int, bytes] = {}
        self._bytes = 0
        self._refused = 0

    def add(self, position: int, record: bytes) -> None:
        if self._bytes + len(record) > config.READ_AHEAD_BYTES:
            self._refused += 1
            if self._refused < _REFUSED_MAX:
                return
            self._records.clear()
            self._bytes = self._refused = 0
        self._records[position] = record
        self._bytes += len(record)

    def take(self, positions: Iterable[int]) -> list[bytes | None]:
        """The records of these messages, None for one that is not here."""
        pop = self._records.pop
        records = [pop(position, None) for position in positions]
        found = sum([len(record) for record in records if record is not None])
        if found:
            self._bytes -= found
            self._refused = 0
        return records
