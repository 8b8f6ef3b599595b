"""Where everything of a queue is stored: the key layouts of `native`, with the prefixes computed
once.

A *position* is a message's place in its queue: commit timestamp << 16 | entry. Positions order as
their keys do.
"""

from typing import Final

from fastnode import native

COUNT_TOTAL: Final = 0
COUNT_IN_FLIGHT: Final = 1
COUNT_DELAYED: Final = 2

_TERMINATOR_BYTES: Final = 2

# A group's own rows sort apart from every queue's, which begin with "!sqs|".
APPLIED_KEY: Final = b"!raft|applied"
WINDOW_PREFIX: Final = b"!raft|window|"


def window_key(row_id: int) -> bytes:
    """Where an entry's row of the conflict table and the committed window is kept."""
    return WINDOW_PREFIX + row_id.to_bytes(8, "big")


class QueueKeys:
    """The keys of a queue's name: they outlive its generations."""

    __slots__ = ("generation", "meta", "segment")

    def __init__(self, account: str, region: str, name: str) -> None:
        self.segment = native.queue_segment(account, region, name)
        self.meta = native.queue_key(native.FAMILY_META, self.segment)
        self.generation = native.queue_key(native.FAMILY_GENERATION, self.segment)


def names_prefix(account: str, region: str, prefix: str) -> bytes:
    """How the metadata keys of all names with the prefix begin: a name without its terminator."""
    return QueueKeys(account, region, prefix).meta[:-_TERMINATOR_BYTES]


class MessageKeys:
    """The keys of one generation of one queue (or of one of its partitions)."""

    __slots__ = (
        "counters",
        "data",
        "data_size",
        "delayed",
        "in_flight",
        "mark",
        "state",
        "state_size",
        "timer",
        "timer_size",
        "total",
    )

    def __init__(self, segment: bytes, generation: int) -> None:
        self.data = native.scope_prefix(native.FAMILY_DATA, segment, generation)
        self.data_size = len(self.data)
        self.state = native.scope_prefix(native.FAMILY_STATE, segment, generation)
        self.state_size = len(self.state)
        self.timer = native.scope_prefix(native.FAMILY_TIMER, segment, generation)
        self.timer_size = len(self.timer)
        self.mark = native.scope_prefix(native.FAMILY_MARK, segment, generation)
        self.counters = native.scope_prefix(native.FAMILY_COUNTER, segment, generation)
        self.total = native.counter_key(self.counters, COUNT_TOTAL)
        self.in_flight = native.counter_key(self.counters, COUNT_IN_FLIGHT)
        self.delayed = native.counter_key(self.counters, COUNT_DELAYED)

    def data_key(self, position: int) -> bytes:
        return native.message_key(self.data, position >> 16, position & 0xFFFF)

    def state_key(self, position: int) -> bytes:
        return native.message_key(self.state, position >> 16, position & 0xFFFF)

    def timer_key(self, visible_at: int, position: int) -> bytes:
        return native.timer_key(self.timer, visible_at, position >> 16, position & 0xFFFF)

    def position_of(self, data_key: bytes) -> int:
        commit_ts, entry = native.split_message_key(self.data_size, data_key)
        return commit_ts << 16 | entry

    def state_position_of(self, state_key: bytes) -> int:
        commit_ts, entry = native.split_message_key(self.state_size, state_key)
        return commit_ts << 16 | entry

    def timer_of(self, timer_key: bytes) -> tuple[int, int]:
        """(visible at, position)"""
        visible_at, commit_ts, entry = native.split_timer_key(self.timer_size, timer_key)
        return visible_at, commit_ts << 16 | entry

    def prefixes(self) -> tuple[bytes, ...]:
        """Everything that a new generation leaves behind."""
        return (self.data, self.state, self.timer, self.mark, self.counters)
