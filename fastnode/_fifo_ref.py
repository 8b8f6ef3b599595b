"""The plain version of what the leader of a FIFO queue remembers: which groups can deliver, records
that were sent lately, and messages that were handed out once.

`_fifo.pyx` does the same in C. What all of it is for, and when it is right, is for `queue` to say.
"""

import heapq
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Final, NamedTuple, Self

from fastnode._core_ref import FRESH_DELETE, TOUCH
from fastnode._deliver_ref import Item, Write, receipt_places, state_keys
from fastnode._keys_ref import POSITION_BYTES, text

# A place in the stored order: when, and which position.
Place = tuple[int, int]
NO_HORIZON: Final = (1 << 64, 0)
_TIME_BYTES: Final = 8
# Of records: the first page may hold large ones.
FIRST_PAGE_ROWS: Final = 16
PAGE_ROWS_MAX: Final = 1_024


class Head(NamedTuple):
    """The first message of a group. `available_at` is when it was sent if nobody has received it
    yet; then the queue's delay comes on top of it.
    """

    available_at: int
    position: int
    group_id: str

    @classmethod
    def stored(cls, group_id: str, row: bytes) -> Self:
        position, available_at = row[:POSITION_BYTES], row[POSITION_BYTES:]
        return cls(int.from_bytes(available_at, "big"), int.from_bytes(position, "big"), group_id)

    @property
    def is_unreceived(self) -> bool:
        return self.available_at == self.position >> 16

    def due_at(self, delay: int) -> int:
        return self.available_at + delay if self.is_unreceived else self.available_at


class Ready:
    """Which message groups can deliver, and which comes next: a mirror of the stored ready rows.

    Every group with messages has one row, ordered by the moment its first message becomes (or
    became) available. The earliest rows are here; the rest is in the engine beyond the *horizon*
    and is paged in as it comes near, so memory is bounded however many groups there are.

    A group that a receive has taken is known to nobody until it is given back.
    """

    __slots__ = ("_heaps", "_horizon", "_known", "_page_max", "_size_max", "_taken")

    def __init__(self, page_max: int) -> None:
        # One heap of heads that wait for the queue's delay, one of those that do not: in each the
        # stored order is the order in which they become due.
        self._heaps: tuple[list[Head], list[Head]] = ([], [])
        self._known: dict[str, Head] = {}
        self._taken: set[str] = set()
        self._horizon: Place = (0, 0)
        self._page_max = page_max
        self._size_max = 4 * page_max

    @property
    def horizon(self) -> Place:
        return self._horizon

    @property
    def has_taken(self) -> bool:
        return bool(self._taken)

    def needs_page(self, now: int, delay: int) -> bool:
        """Whether a group beyond the horizon may be due, and before all that are known."""
        if self._horizon[0] > now:
            return False
        first = min(((head.due_at(delay), head.position) for head in self._tops()), default=None)
        return first is None or first >= self._horizon

    def load(self, rows: Sequence[tuple[bytes, bytes]], *, is_last: bool) -> None:
        """Rows from the horizon on, as they are stored: by when, and position, the group's id."""
        page = [Head(*_place(key), group_id.decode()) for key, group_id in rows]
        self._horizon = NO_HORIZON if is_last else (page[-1].available_at, page[-1].position + 1)
        # Where groups wait for the queue's delay, what is due may lie behind more than a page of
        # them: to drop those and read them again would never end.
        self._size_max = max(self._size_max, 2 * (len(self._known) + len(page)))
        for head in page:
            self.put(head)

    def put(self, head: Head) -> None:
        """The group's first message is this one now."""
        self._known.pop(head.group_id, None)
        if head.group_id in self._taken or head >= self._horizon:
            return
        self._known[head.group_id] = head
        heapq.heappush(self._heaps[head.is_unreceived], head)
        if len(self._heaps[0]) + len(self._heaps[1]) > self._size_max:
            self._shrink()

    def renew(self, group_id: str, row: bytes | None) -> None:
        """The group's head is stored like this now; None: it has no messages any more."""
        if row is None:
            self._known.pop(group_id, None)
        else:
            self.put(Head.stored(group_id, row))

    def renew_all(
        self,
        heads: dict[str, bytes],
        known: Mapping[bytes, bytes | None],
        read: Callable[[bytes], bytes | None],
    ) -> None:
        """As `renew`, for groups whose heads are at these keys; what is not known is read."""
        for group_id, key in heads.items():
            self.renew(group_id, known[key] if key in known else read(key))

    def sent(self, group_id: str, position: int) -> bool:
        """A message was stored. Behind others of its group it changes nothing; of a group that
        nobody knows, when all are known, it is the first. False: only the engine knows which is.
        """
        place = position >> 16, position
        if place >= self._horizon or group_id in self._known or group_id in self._taken:
            return True
        if self._horizon != NO_HORIZON:
            return False
        self.put(Head(*place, group_id))
        return True

    def take(self, now: int, delay: int) -> Head | None:
        """The group whose first message has been available for longest."""
        due = [head for head in self._tops() if head.due_at(delay) <= now]
        if not due:
            return None
        head = min(due, key=lambda one: (one.due_at(delay), one.position))
        heapq.heappop(self._heaps[head.is_unreceived])
        del self._known[head.group_id]
        self._taken.add(head.group_id)
        return head

    def take_many(
        self,
        now: int,
        limit: int,
        head_prefix: bytes,
        positions_of: Callable[[bytes, int, int], Iterable[int]],
        positions: list[int],
        groups: list[str],
        heads: dict[str, bytes],
    ) -> bool:
        """As `take` in a queue without delay, group by group until there are so many positions.
        Adds these, the group of each, and where the groups have their heads. True: a page has to
        be read first.
        """
        while len(positions) < limit:
            if self.needs_page(now, 0):
                return True
            head = self.take(now, 0)
            if head is None:
                break
            heads[head.group_id] = key = head_prefix + text(head.group_id)
            found = positions_of(key, head.position, limit - len(positions))
            for position in found:
                positions.append(position)
                groups.append(head.group_id)
        return False

    def claim(self, group_id: str) -> bool:
        """Take this very group, wherever it stands; False if somebody has it."""
        if group_id in self._taken:
            return False
        self._known.pop(group_id, None)
        self._taken.add(group_id)
        return True

    def give_back(self, group_ids: Iterable[str]) -> None:
        """Whoever took the groups is done with them; `renew` says what has become of them."""
        self._taken.difference_update(group_ids)

    def next_at(self, delay: int) -> int | None:
        """When the next group becomes due, or the next page has to be read."""
        times = [head.due_at(delay) for head in self._tops()]
        if self._horizon < NO_HORIZON:
            times.append(self._horizon[0])
        return min(times, default=None)

    def has_due(self, now: int, delay: int) -> bool:
        return any(head.due_at(delay) <= now for head in self._tops())

    def _tops(self) -> list[Head]:
        """The first head of each heap that is still true; heaps drop what is no longer known."""
        tops: list[Head] = []
        for heap in self._heaps:
            while heap and self._known.get(heap[0].group_id) != heap[0]:
                heapq.heappop(heap)
            tops += heap[:1]
        return tops

    def _shrink(self) -> None:
        """Keep the earliest rows; the rest stays in the engine."""
        heads = sorted(self._known.values())
        if len(heads) > self._page_max:
            self._horizon = heads[self._page_max][:2]
        self._size_max = 4 * self._page_max
        kept = heads[: self._page_max]
        self._known = {head.group_id: head for head in kept}
        for is_unreceived, heap in enumerate(self._heaps):
            heap[:] = [head for head in kept if head.is_unreceived == is_unreceived]


def _place(key: bytes) -> Place:
    at = len(key) - POSITION_BYTES
    return int.from_bytes(key[at - _TIME_BYTES : at], "big"), int.from_bytes(key[at:], "big")


class Fresh:
    """Records of messages that nobody has received: most that were sent lately are received soon,
    and then need not be read one by one.

    While there is room sends add to them. What finds none is read a page at a time when it is
    wanted: `_next` is where the next page may begin, unless all that follows is known. So many
    messages in a row that are not here as `missed_max` mean that those here are not asked for: they
    were removed unseen, or their groups are locked.
    """

    __slots__ = (
        *("_bytes", "_bytes_max", "_missed", "_missed_max", "_next", "_reaches_end", "_records"),
        *("_record_bytes", "page_rows"),
    )

    def __init__(
        self, bytes_max: int, missed_max: int, record_bytes: int, *, is_empty: bool
    ) -> None:
        """`record_bytes` is what a record costs beside its own; `is_empty`: there are no messages
        yet.
        """
        self._record_bytes = record_bytes
        # How many records the next page should have.
        self.page_rows = FIRST_PAGE_ROWS
        self._bytes_max, self._missed_max = bytes_max, missed_max
        self._records: dict[int, bytes] = {}
        self._bytes = self._missed = self._next = 0
        self._reaches_end = is_empty

    @property
    def kept_bytes(self) -> int:
        return self._bytes + len(self._records) * self._record_bytes

    def add(self, position: int, record: bytes) -> bool:
        """It was sent; True if it is kept. A page read meanwhile may have brought it already."""
        if not self._reaches_end or position < self._next:
            return False
        if self._bytes + len(record) > self._bytes_max:
            self._reaches_end = False
            return False
        self._keep(position, record)
        self._next = position + 1
        return True

    def page_begin(self, positions: Sequence[int]) -> int | None:
        """Where a page of records should be read that has some of these; None if none should."""
        if self._reaches_end or not positions or max(positions) < self._next:
            return None
        # What was sent before the first of these is in the hands of others.
        return max(self._next, min(positions)) if self._bytes <= self._bytes_max // 2 else None

    def load(
        self,
        rows: Sequence[tuple[bytes, bytes]],
        received: Container[int],
        state_prefix: bytes,
        held: set[bytes],
    ) -> None:
        """A page. What is received, or is just being changed, will not be asked for."""
        self._reaches_end = len(rows) < self.page_rows
        for key, record in rows:
            position = int.from_bytes(key[-POSITION_BYTES:], "big")
            if self._bytes + len(record) > self._bytes_max:
                self._reaches_end = False
                break
            self._next = position + 1
            if position not in received and state_keys(state_prefix, [position])[0] not in held:
                self._keep(position, record)
        size = sum(len(record) for _, record in rows)
        fitting = self._bytes_max * len(rows) // (2 * size) if size else 1
        self.page_rows = max(1, min(fitting, 4 * self.page_rows, PAGE_ROWS_MAX))

    def take(
        self,
        positions: Sequence[int],
        data_prefix: bytes,
        read: Callable[[list[bytes]], list[bytes | None]],
    ) -> list[Item]:
        """These messages with their records, of which those that are not here are read."""
        records = [self._records.pop(position, None) for position in positions]
        self._bytes -= sum(len(record) for record in records if record is not None)
        missing = [at for at, record in enumerate(records) if record is None]
        self._missed = 0 if len(missing) < len(records) else self._missed + len(missing)
        if self._missed >= self._missed_max:
            self.let_go()
        if missing:
            wanted = state_keys(data_prefix, [positions[at] for at in missing])
            for at, stored in zip(missing, read(wanted), strict=True):
                records[at] = stored
        items = [(at, one) for at, one in zip(positions, records, strict=True) if one is not None]
        assert len(items) == len(records), "a row of a group without its message"
        return items

    def _keep(self, position: int, record: bytes) -> None:
        self._records[position] = record
        self._bytes += len(record)

    def let_go(self) -> None:
        """Of everything: what is wanted can be read."""
        self._records.clear()
        self._bytes = self._missed = self._next = 0
        self._reaches_end = False


class Handed:
    """Messages that were received once: what a delete that follows wants to know, without reading
    it. One that is received again, or removed, is forgotten: its old handle is good no more. How
    long it is hidden may change, which others know.
    """

    __slots__ = ("_count_max", "_handed")

    def __init__(self, count_max: int) -> None:
        # Group and nonce, by position.
        self._handed: dict[int, tuple[str, int]] = {}
        self._count_max = count_max

    def add(self, positions: Sequence[int], groups: Sequence[str], nonce: int) -> None:
        if len(self._handed) + len(positions) > self._count_max:
            # The cheapest bound is to start over.
            self._handed.clear()
        self._handed.update(zip(positions, zip(groups, repeat(nonce), strict=False), strict=True))

    def forget(self, positions: Iterable[int]) -> None:
        for position in positions:
            self._handed.pop(position, None)

    def hidden(
        self,
        receipts: tuple[bytes, int, int],
        handles: Iterable[bytes],
        scheduled: dict[int, int],
        now: int,
        prefixes: tuple[bytes, bytes, bytes],
        held: set[bytes],
    ) -> tuple[dict[int, int], tuple[bytes, ...], dict[str, bytes], list[Write]] | None:
        """What the handles name: until when each message, by its position, is hidden, the keys of
        their states, the heads of their groups, and what takes them out of these. `receipts` are
        what genuine handles have: secret, partition and generation; `prefixes` those of states, of
        group indexes and of heads. None unless every handle is the last one of its message, which
        is hidden after `now`, and no state is held.
        """
        places = receipt_places(*receipts, handles)
        if places is None:
            return None
        for position, nonce in places:
            _, known = self._handed.get(position, ("", -1))
            if known != nonce or scheduled.get(position, 0) <= now:
                return None
        groups = {position: self._handed[position][0] for position, _ in places}
        keys = tuple(state_keys(prefixes[0], groups))
        if not held.isdisjoint(keys):
            return None
        writes = [
            (FRESH_DELETE, state_keys(prefixes[1] + text(group_id), [position])[0], b"")
            for position, group_id in groups.items()
        ]
        heads = {group_id: prefixes[2] + text(group_id) for group_id in groups.values()}
        writes += [(TOUCH, head_key, b"") for head_key in heads.values()]
        return {position: scheduled[position] for position in groups}, keys, heads, writes
