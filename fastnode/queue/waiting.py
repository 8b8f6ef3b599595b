"""Messages that nobody has received yet, in send order: a cursor over their records and a buffer
ahead of it.

Apply order is key order, so nothing is ever inserted behind the cursor and no dead entry is looked
at twice. While the buffer reaches the end of the backlog, sends append to it directly and a busy
queue never reads the engine.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from fastnode import config

# (position, record): a position is commit timestamp << 16 | entry, see store/keyspace.py.
Item = tuple[int, bytes]


class Waiting:
    __slots__ = ("_buffer", "_buffered_bytes", "_claims", "_next", "_reaches_end")

    def __init__(self, mark: int) -> None:
        self._buffer: deque[Item] = deque()
        self._buffered_bytes = 0
        self._next = mark
        self._reaches_end = False
        # The first position of each receive that is not applied yet, oldest receive first.
        self._claims: deque[int] = deque()

    @property
    def next_position(self) -> int:
        """Everything before it was taken, is in the buffer, or is no waiting message."""
        return self._next

    @property
    def needs_page(self) -> bool:
        return not self._buffer and not self._reaches_end

    @property
    def has_claims(self) -> bool:
        return bool(self._claims)

    @property
    def has_messages(self) -> bool:
        return bool(self._buffer) or not self._reaches_end

    def append(self, position: int, record: bytes) -> None:
        """A send was applied. A page read meanwhile may have brought the record already."""
        if not self._reaches_end or position < self._next:
            return
        if self._is_full():
            self._reaches_end = False
            return
        self._push(position, record)
        self._next = position + 1

    def load(self, rows: Sequence[Item], taken: Iterable[int], *, is_last: bool) -> None:
        """A page of records from `next_position` on; those in `taken` wait no more."""
        skipped = frozenset(taken)
        for position, record in rows:
            if position not in skipped:
                self._push(position, record)
        if rows:
            self._next = rows[-1][0] + 1
        self._reaches_end = is_last

    def take(self) -> Item | None:
        """The oldest buffered message. The caller claims it, or puts it back."""
        if not self._buffer:
            return None
        item = self._buffer.popleft()
        self._buffered_bytes -= len(item[1])
        return item

    def put_back(self, items: Sequence[Item]) -> None:
        """To the front, in order: a receive that failed must not reorder the queue."""
        for position, record in reversed(items):
            self._buffer.appendleft((position, record))
            self._buffered_bytes += len(record)

    # --- the low-water mark -------------------------------------------------------------------

    def claim(self, position: int) -> int:
        """A receive takes waiting messages from `position` on; the mark that its transaction may
        store.

        A new leader walks from the mark, so it stays at or below whatever an earlier receive, which
        may still fail, took.
        """
        mark = self._claims[0] if self._claims else self._first_untaken()
        self._claims.append(position)
        return mark

    def settle(self, position: int) -> None:
        """The receive that claimed `position` is applied or has failed."""
        self._claims.remove(position)

    def _first_untaken(self) -> int:
        return self._buffer[0][0] if self._buffer else self._next

    def _push(self, position: int, record: bytes) -> None:
        self._buffer.append((position, record))
        self._buffered_bytes += len(record)

    def _is_full(self) -> bool:
        return (
            len(self._buffer) >= config.READ_AHEAD_MESSAGES
            or self._buffered_bytes >= config.READ_AHEAD_BYTES
        )
