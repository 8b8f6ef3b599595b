"""Messages that nobody has received yet, in send order: a cursor over their records and a buffer
ahead of it.

Apply order is key order, so nothing is ever inserted behind the cursor and no dead entry is looked
at twice. While the buffer reaches the end of the backlog, sends append to it directly and a busy
queue never reads the engine.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from fastnode import config
from fastnode.native import page_items, take_plain
from fastnode.queue.choice import PlainChoice
from fastnode.queue.read_ahead import ReadAhead
from fastnode.store.keyspace import split_position

# (position, record): a position is commit timestamp << 16 | entry, see store/keyspace.py.
Item = tuple[int, bytes]
_FIRST_PAGE_ROWS: Final = 16


class Waiting:
    __slots__ = (
        "_buffer",
        "_buffered_bytes",
        "_claims",
        "_next",
        "_reaches_end",
        "_read_ahead",
        "_withdrawn",
        "page_rows",
    )

    def __init__(self, mark: int, read_ahead: ReadAhead) -> None:
        self._read_ahead = read_ahead
        # How many records the next page should have.
        self.page_rows = _FIRST_PAGE_ROWS
        self._buffer: deque[Item] = deque()
        self._buffered_bytes = 0
        self._next = mark
        self._reaches_end = False
        # The first position of each receive that is not applied yet, in order.
        self._claims: list[int] = []
        self._withdrawn: set[int] = set()

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

    @property
    def kept_bytes(self) -> int:
        return self._buffered_bytes + len(self._buffer) * config.READ_AHEAD_RECORD_BYTES

    def let_go(self) -> None:
        """Receives and removals that are under way may put back what they have taken from before
        the buffer, or keep a page from bringing it again.
        """
        if self._buffer and not self._claims and not self._withdrawn:
            self._next = self._buffer[0][0]
            self._reaches_end = False
            self.page_rows = _FIRST_PAGE_ROWS
            self._rebuffer(())

    def append(self, position: int, record: bytes) -> None:
        """A send was applied. A page read meanwhile may have brought the record already."""
        if not self._reaches_end or position < self._next:
            return
        buffer = self._buffer
        if (
            len(buffer) >= config.READ_AHEAD_MESSAGES
            or self._buffered_bytes >= config.READ_AHEAD_BYTES
        ):
            self._reaches_end = False
            return
        buffer.append((position, record))
        self._buffered_bytes += len(record)
        self._next = position + 1
        self._read_ahead.add(len(record) + config.READ_AHEAD_RECORD_BYTES, self)

    def extend(self, position: int, records: Sequence[bytes]) -> None:
        """As `append`, for messages in a row."""
        if not self._reaches_end:
            return
        if len(records) == 1:
            self.append(position, records[0])
            return
        count, size = len(records), self._buffered_bytes + sum(map(len, records))
        items = zip(range(position, position + count), records, strict=True)
        has_room = len(self._buffer) + count <= config.READ_AHEAD_MESSAGES
        if has_room and size <= config.READ_AHEAD_BYTES and position >= self._next:
            self._buffer.extend(items)
            more, self._buffered_bytes = size - self._buffered_bytes, size
            self._next = position + count
            self._read_ahead.add(more + count * config.READ_AHEAD_RECORD_BYTES, self)
        else:
            for item in items:
                self.append(*item)

    def load(
        self, rows: Sequence[tuple[bytes, bytes]], taken: Iterable[int], *, is_last: bool
    ) -> None:
        """A page of stored records from `next_position` on; those in `taken` wait no more."""
        before = self.kept_bytes
        self._buffer.extend(page_items(rows, self._withdrawn.union(taken)))
        self._buffered_bytes = sum([len(record) for _, record in self._buffer])
        if rows:
            self._next = split_position(rows[-1][0]) + 1
            page_bytes = sum([len(record) for _, record in rows])
            self.page_rows = _next_page_rows(self.page_rows, page_bytes // len(rows))
        self._reaches_end = is_last
        self._read_ahead.add(self.kept_bytes - before, self)

    def take(self, limit: int) -> list[Item]:
        """The oldest buffered messages. The caller claims them, or puts them back."""
        buffer = self._buffer
        items = [buffer.popleft() for _ in range(min(limit, len(buffer)))]
        self._buffered_bytes -= sum([len(record) for _, record in items])
        return items

    def is_short_of(self, wanted: int) -> bool:
        """Whether more than is buffered could be taken."""
        return len(self._buffer) < wanted and not self._reaches_end

    def take_plain(
        self, limit: int, expired_ms: int, state_prefix: bytes, held: set[bytes]
    ) -> PlainChoice | None:
        """As `take` and `claim`, if there are messages and these need nothing but to be handed
        out.
        """
        buffer = self._buffer
        taken = take_plain(buffer, limit, expired_ms, state_prefix, held)
        if taken is None or not taken[0]:
            return None
        items, positions, keys, size = taken
        self._buffered_bytes -= size
        # The buffer is in order.
        first, mark, claims = positions[0], buffer[0][0] if buffer else self._next, self._claims
        if claims:
            mark = min(mark, claims[0])
            insort(claims, first)
        else:
            claims.append(first)
        return PlainChoice(items, positions, keys, first, mark)

    def untake(self, choice: PlainChoice) -> None:
        """They were just taken, and nobody wants them after all."""
        self.settle(choice.first)
        self._buffer.extendleft(reversed(choice.items))
        self._buffered_bytes += sum([len(record) for _, record in choice.items])

    def put_back(self, items: Sequence[Item]) -> None:
        """In their old places: receives that failed must not reorder the queue, or the mark would
        pass over what they had taken.
        """
        self._rebuffer(sorted([*items, *self._buffer]))

    # --- messages that are removed without being received --------------------------------------

    def withdraw(self, positions: Collection[int], through: int) -> None:
        """Their removal is submitted: no receive may take them, from the buffer or from a page.

        Whatever waits before `through` is among them or is buffered.
        """
        self._withdrawn.update(positions)
        self._rebuffer([item for item in self._buffer if item[0] not in self._withdrawn])
        self._next = max(self._next, through)

    def withdrawn(self, positions: Iterable[int], remaining: Sequence[Item]) -> None:
        """The removal is through; `remaining` is what it failed to remove. What of that lies ahead
        of the cursor comes with its page.
        """
        self._withdrawn.difference_update(positions)
        if remaining:
            self.put_back([item for item in remaining if item[0] < self._next])

    # --- the low-water mark -------------------------------------------------------------------

    def claim(self, position: int, filed: int | None = None) -> int:
        """A receive takes waiting messages from `position` on; the mark that its transaction may
        store.

        A new leader walks from the mark, so it stays at or below whatever an earlier receive, which
        may still fail, took. `filed` is where messages wait that lie behind all of these.
        """
        first = self._first_untaken() if filed is None or self.has_messages else filed
        claims = self._claims
        # What came back from a failed receive may lie before what a later one still holds.
        mark = min(first, claims[0]) if claims else first
        insort(claims, position)
        return mark

    def settle(self, position: int) -> None:
        """The receive that claimed `position` is applied or has failed."""
        del self._claims[bisect_left(self._claims, position)]

    def _first_untaken(self) -> int:
        return self._buffer[0][0] if self._buffer else self._next

    def _rebuffer(self, items: Sequence[Item]) -> None:
        self._buffer = deque(items)
        self._buffered_bytes = sum(len(record) for _, record in items)


def _next_page_rows(rows: int, average_bytes: int) -> int:
    """As many rows as fit the read-ahead buffer, approached from below: the first page may hold
    large bodies.
    """
    fitting = config.READ_AHEAD_BYTES // max(average_bytes, 1)
    return max(config.RECEIVE_MESSAGES_MAX, min(fitting, 4 * rows, config.READ_AHEAD_MESSAGES))
