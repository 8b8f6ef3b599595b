"""What a receive claims, before its transaction says whether it gets it."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from fastnode import config, native
from fastnode.native import MESSAGE_MOVED, MessageRecord, MessageState, Write
from fastnode.queue.message_attributes import Moved, decode_extras

# A receive that meets more expired or latched messages than this leaves the rest to the next one.
PASSED_OVER_MAX: Final = 64
# One transaction creates no more messages than a sequence number has room for.
DEAD_MAX: Final = config.TRANSACTION_MESSAGES_MAX
# Of a standard queue.
NO_HEADS: Final[dict[str, bytes]] = {}


class Taken(NamedTuple):
    """A message that a receive claims. `state` is None if nobody has received it before."""

    position: int
    stored: bytes
    record: MessageRecord
    state: MessageState | None

    @property
    def moved(self) -> Moved | None:
        """What it brought along, if it came from another queue."""
        is_moved = self.record.flags & MESSAGE_MOVED
        return decode_extras(self.record.extras).moved if is_moved else None

    @property
    def receives_here(self) -> int:
        """How often this queue handed it out; what it brought along does not count."""
        if self.state is None:
            return 0
        moved = self.moved
        return self.state.receive_count - (moved.receive_count if moved else 0)


class Choice(NamedTuple):
    """What a receive claims: to deliver, to remove, and to move to the dead-letter queue."""

    messages: list[Taken]
    expired: list[Taken]
    dead: list[Taken]

    @property
    def all(self) -> list[Taken]:
        return self.messages + self.expired + self.dead

    @property
    def is_cut_short(self) -> bool:
        """There may be more behind what had to be passed over."""
        return len(self.expired) >= PASSED_OVER_MAX or len(self.dead) >= DEAD_MAX


class PlainChoice:
    """What a receive claims on its short way: positions and records of messages that nobody has
    received, and the keys of their states; what is claimed, and the mark that may be stored, see
    `Waiting.claim`; in a FIFO queue the group of each, and of these groups where their heads are.
    """

    __slots__ = ("first", "groups", "heads", "items", "keys", "mark", "positions")

    def __init__(
        self,
        items: list[tuple[int, bytes]],
        positions: tuple[int, ...],
        keys: tuple[bytes, ...],
        first: int,
        mark: int,
        groups: Sequence[str] = (),
        heads: dict[str, bytes] = NO_HEADS,
    ) -> None:
        self.items = items
        self.positions = positions
        self.keys = keys
        self.first = first
        self.mark = mark
        self.groups = groups
        self.heads = heads

    def decoded(self) -> Choice:
        """As the long way has it."""
        taken = [
            Taken(position, stored, native.decode_message(stored), None)
            for position, stored in self.items
        ]
        return Choice(taken, [], [])


class Hidden:
    """What a delete removes on its short way: when each message, by its position, would become
    visible, the keys of their states, and in a FIFO queue where the heads of their groups are and
    what takes them out of these.
    """

    __slots__ = ("heads", "keys", "times", "unfiling")

    def __init__(
        self,
        times: dict[int, int],
        keys: tuple[bytes, ...],
        heads: dict[str, bytes] = NO_HEADS,
        unfiling: Sequence[Write] = (),
    ) -> None:
        self.times = times
        self.keys = keys
        self.heads = heads
        self.unfiling = unfiling


class Counts(NamedTuple):
    visible: int
    in_flight: int
    delayed: int
