"""Which message groups can deliver, and which comes next: a mirror of the stored ready rows.

Every group with messages has one row, ordered by the moment its first message becomes (or became)
available. The earliest rows are here; the rest is in the engine beyond the *horizon* and is paged
in as it comes near, so memory is bounded however many groups there are.
"""

import heapq
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from fastnode import config
from fastnode.store.keyspace import POSITION_BYTES

# A place in the stored order: when, and which position.
_Place = tuple[int, int]
_NO_HORIZON: Final = (1 << 64, 0)


class Head(NamedTuple):
    """The first message of a group. `available_at` is when it was sent if nobody has received it
    yet; then the queue's delay comes on top of it.
    """

    available_at: int
    position: int
    group_id: str

    @property
    def is_unreceived(self) -> bool:
        return self.available_at == self.position >> 16

    def due_at(self, delay: int) -> int:
        return self.available_at + delay if self.is_unreceived else self.available_at


def head_of(group_id: str, row: bytes) -> Head:
    """As it is stored."""
    position = int.from_bytes(row[:POSITION_BYTES], "big")
    return Head(int.from_bytes(row[POSITION_BYTES:], "big"), position, group_id)


class Ready:
    """A group that a receive has taken is known to nobody until it is given back."""

    __slots__ = ("_heaps", "_horizon", "_known", "_size_max", "_taken")

    def __init__(self) -> None:
        # One heap of heads that wait for the queue's delay, one of those that do not: in each the
        # stored order is the order in which they become due.
        self._heaps: tuple[list[Head], list[Head]] = ([], [])
        self._known: dict[str, Head] = {}
        self._taken: set[str] = set()
        self._horizon: _Place = (0, 0)
        self._size_max = 4 * config.READY_PAGE

    @property
    def horizon(self) -> _Place:
        return self._horizon

    @property
    def has_taken(self) -> bool:
        return bool(self._taken)

    @property
    def knows_all(self) -> bool:
        return self._horizon == _NO_HORIZON

    def lacks(self, group_id: str, position: int) -> bool:
        """Whether the group should be here if its first message were this one, and neither is nor
        is in the hands of a receive.
        """
        sent_at, horizon = position >> 16, self._horizon
        if sent_at > horizon[0] or (sent_at == horizon[0] and position >= horizon[1]):
            return False
        return group_id not in self._known and group_id not in self._taken

    def needs_page(self, now: int, delay: int) -> bool:
        """Whether a group beyond the horizon may be due, and before all that are known."""
        if self._horizon[0] > now:
            return False
        first = min(((head.due_at(delay), head.position) for head in self._tops()), default=None)
        return first is None or first >= self._horizon

    def load(self, page: Sequence[Head], *, is_last: bool) -> None:
        """Rows from the horizon on."""
        self._horizon = _NO_HORIZON if is_last else (page[-1].available_at, page[-1].position + 1)
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

    def forget(self, group_id: str) -> None:
        """The group has no messages any more."""
        self._known.pop(group_id, None)

    def take(self, now: int, delay: int) -> Head | None:
        """The group whose first message has been available for longest."""
        if delay:
            due = [head for head in self._tops() if head.due_at(delay) <= now]
            head = min(due, key=lambda one: (one.due_at(delay), one.position), default=None)
        else:
            # In the order that they are stored in.
            head = min([head for head in self._tops() if head[0] <= now], default=None)
        if head is None:
            return None
        heapq.heappop(self._heaps[head.is_unreceived])
        del self._known[head.group_id]
        self._taken.add(head.group_id)
        return head

    def claim(self, group_id: str) -> bool:
        """Take this very group, wherever it stands; False if somebody has it."""
        if group_id in self._taken:
            return False
        self._known.pop(group_id, None)
        self._taken.add(group_id)
        return True

    def give_back(self, group_ids: Iterable[str]) -> None:
        """Whoever took the groups is done with them; `put` says what has become of them."""
        self._taken.difference_update(group_ids)

    def has_due(self, now: int, delay: int) -> bool:
        return any(head.due_at(delay) <= now for head in self._tops())

    def next_at(self, delay: int) -> int | None:
        """When the next group becomes due, or the next page has to be read."""
        times = [head.due_at(delay) for head in self._tops()]
        if self._horizon < _NO_HORIZON:
            times.append(self._horizon[0])
        return min(times, default=None)

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
        if len(heads) > config.READY_PAGE:
            self._horizon = heads[config.READY_PAGE][:2]
        self._size_max = 4 * config.READY_PAGE
        kept = heads[: config.READY_PAGE]
        self._known = {head.group_id: head for head in kept}
        for is_unreceived, heap in enumerate(self._heaps):
            heap[:] = [head for head in kept if head.is_unreceived == is_unreceived]
