"""What is kept in memory for clients: requests that have arrived in part, requests that wait for
their answers, answers that are not read. Counts of one connection and of all, and their bounds.
Sans-IO.

A client for which little is kept is never refused for the sake of others.
"""

from typing import Final

from fastnode.config import (
    HTTP_ARRIVING_BYTES_MAX,
    HTTP_OPEN_BYTES_MAX,
    HTTP_UNREAD_BYTES_MAX,
)

SMALL_BYTES: Final = 16 * 1024


class Crowd:
    """The sums over all connections of a listener, and how often one of them was too much."""

    __slots__ = ("arriving_bytes", "open_bytes", "refused", "unread_bytes")

    def __init__(self) -> None:
        self.arriving_bytes = self.open_bytes = self.unread_bytes = 0
        self.refused = {"bytes": 0, "connections": 0, "handshake": 0, "late": 0, "unread": 0}


class Holding:
    """The part of one connection. Every question is asked after the answer was counted; who hears
    that it is too much gives it back by what it does next.
    """

    __slots__ = ("_arriving", "_crowd", "_open", "_unread")

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd
        self._arriving = self._open = self._unread = 0

    def arriving(self, size: int) -> bool:
        """So much of requests is not complete now; false if that is too much."""
        self._crowd.arriving_bytes += size - self._arriving
        self._arriving = size
        return size <= SMALL_BYTES or self._crowd.arriving_bytes <= HTTP_ARRIVING_BYTES_MAX

    def open(self, size: int) -> bool:
        """A request of this size is complete, and waits; false if it may not."""
        self._crowd.open_bytes += size
        self._open += size
        return self._open <= SMALL_BYTES or self._crowd.open_bytes <= HTTP_OPEN_BYTES_MAX

    def answered(self, size: int) -> None:
        self._crowd.open_bytes -= size
        self._open -= size

    def unread(self, size: int) -> bool:
        """Answers of this size are not read to their end; false if that is too much."""
        self._crowd.unread_bytes += size - self._unread
        self._unread = size
        return self._crowd.unread_bytes <= HTTP_UNREAD_BYTES_MAX

    def clear(self) -> None:
        self.arriving(0)
        self.answered(self._open)
        self.unread(0)
