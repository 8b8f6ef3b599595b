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
# Messages that ever came from another queue: their ids do not say where they are.
COUNT_ARRIVED: Final = 3

# How a text ends; nothing else in a text looks like it.
_TERMINATOR: Final = native.text("")
_TERMINATOR_BYTES: Final = len(_TERMINATOR)
_SOURCES_PREFIX: Final = b"!sqs|queue|dlsource|"

# Each group's first message, and all groups by when that one is available: see `heads.py`.
FAMILY_HEAD: Final = b"!sqs|msg|head|"
_PARTITION: Final = b"!sqs|queue|part|"
FAMILY_READY: Final = native.FAMILY_READY
_FAMILY_ATTEMPT: Final = b"!sqs|msg|attempt|"
_FAMILY_ATTEMPT_AGE: Final = b"!sqs|msg|attemptage|"
_HEAD_START: Final = len(FAMILY_HEAD)
_GENERATION_BYTES: Final = 8
_PARTITION_BYTES: Final = 4

# A group's own rows sort apart from every queue's, which begin with "!sqs|".
APPLIED_KEY: Final = b"!raft|applied"
WINDOW_PREFIX: Final = b"!raft|window|"


def window_key(row_id: int) -> bytes:
    """Where an entry's row of the conflict table and the committed window is kept."""
    return WINDOW_PREFIX + row_id.to_bytes(8, "big")


# --- What crosses groups -----------------------------------------------------------------------

OUTBOX_PREFIX: Final = b"!sqs|outbox|"
TASKS_PREFIX: Final = b"!sqs|queue|task|"
_PARTITION_TASKS: Final = b"!sqs|queue|parttask|"
_INBOX: Final = b"!sqs|inbox|"
_SENT: Final = b"!sqs|sent|"
_REFUSED: Final = b"!sqs|refused|"
POSITION_BYTES: Final = 10


def encode_position(position: int) -> bytes:
    return position.to_bytes(POSITION_BYTES, "big")


def outbox_prefix(target_group: int) -> bytes:
    """In the source's group: letters for queues of the target group, in the order of the log."""
    return OUTBOX_PREFIX + target_group.to_bytes(2, "big")


def outbox_target(key: bytes) -> int:
    """The group that a letter is for."""
    return int.from_bytes(key[len(OUTBOX_PREFIX) :][:2], "big")


def sent_key(target_group: int) -> bytes:
    """In the source's group: the number of the last letter to that target that is through."""
    return _SENT + target_group.to_bytes(2, "big")


def inbox_key(source_group: int) -> bytes:
    """In the target's group: the number of the last letter of that source that was decided."""
    return _INBOX + source_group.to_bytes(2, "big")


def refused_prefix(source_group: int) -> bytes:
    """In the target's group: letters that were decided against, until the source knows."""
    return _REFUSED + source_group.to_bytes(2, "big")


def split_position(key: bytes) -> int:
    """The position that a key ends with."""
    return int.from_bytes(key[-POSITION_BYTES:], "big")


def tasks_prefix(segment: bytes) -> bytes:
    """Message move tasks of a source queue, oldest first."""
    return TASKS_PREFIX + segment


def task_key(segment: bytes, started_at: int) -> bytes:
    return tasks_prefix(segment) + started_at.to_bytes(8, "big")


def partition_tasks_prefix(segment: bytes, partition: int) -> bytes:
    """In the partition's group: what tasks have moved out of it, oldest first."""
    return _PARTITION_TASKS + segment + partition.to_bytes(_PARTITION_BYTES, "big")


def shard_task_key(segment: bytes, partition: int, started_at: int) -> bytes:
    """Where a task keeps what it has moved: a queue without partitions has one row for all."""
    if partition == native.UNPARTITIONED:
        return task_key(segment, started_at)
    return partition_tasks_prefix(segment, partition) + started_at.to_bytes(8, "big")


def task_source(key: bytes) -> bytes:
    """The segment of the queue whose messages a task moves."""
    return key[len(TASKS_PREFIX) : -8]


# --- Queues ------------------------------------------------------------------------------------


class QueueKeys:
    """The keys of a queue's name: they outlive its generations."""

    __slots__ = ("generation", "meta", "segment")

    def __init__(self, account: str, region: str, name: str) -> None:
        self.segment = native.queue_segment(account, region, name)
        self.meta = native.queue_key(native.FAMILY_META, self.segment)
        self.generation = native.queue_key(native.FAMILY_GENERATION, self.segment)


class PartitionKeys(QueueKeys):
    """Of one partition of a queue: its generation is its own, in its own group."""

    __slots__ = ()

    def __init__(self, queue: QueueKeys, partition: int) -> None:
        self.segment = queue.segment
        self.meta = queue.meta
        self.generation = _PARTITION + queue.segment + partition.to_bytes(_PARTITION_BYTES, "big")


def names_prefix(account: str, region: str, prefix: str) -> bytes:
    """How the metadata keys of all names with the prefix begin: a name without its terminator."""
    return QueueKeys(account, region, prefix).meta[:-_TERMINATOR_BYTES]


def sources_prefix(target: bytes) -> bytes:
    """In each group: its queues whose dead letters go to the target, which is a queue segment."""
    return _SOURCES_PREFIX + target


def source_key(target: bytes, source: bytes) -> bytes:
    return _SOURCES_PREFIX + target + source


def split_head_key(head_key: bytes) -> tuple[bytes, bytes]:
    """The scope, which every key of the same queue, partition and generation has after its family,
    and the group id.
    """
    region_end = head_key.index(_TERMINATOR, _HEAD_START) + _TERMINATOR_BYTES
    name_end = head_key.index(_TERMINATOR, region_end) + _TERMINATOR_BYTES
    is_partitioned = head_key.startswith(native.PARTITIONED, _HEAD_START)
    end = name_end + (_PARTITION_BYTES if is_partitioned else 0) + _GENERATION_BYTES
    return head_key[_HEAD_START:end], untext(head_key[end:])


def untext(text: bytes) -> bytes:
    """What it says, without its end."""
    return text[:-_TERMINATOR_BYTES].replace(b"\x00\xff", b"\x00")


def head_group(head_key: bytes) -> bytes:
    """What the rows of the same message group begin with in the group index."""
    return native.FAMILY_GROUP + head_key[_HEAD_START:]


class MessageKeys:
    """The keys of one generation of one queue (or of one of its partitions)."""

    __slots__ = (
        "age",
        "arrived",
        "attempt",
        "attempt_age",
        "counters",
        "data",
        "data_size",
        "dedup",
        "delayed",
        "group",
        "head",
        "ids",
        "in_flight",
        "mark",
        "places",
        "ready",
        "ready_size",
        "state",
        "state_size",
        "timer",
        "timer_size",
        "total",
    )

    def __init__(
        self, segment: bytes, generation: int, partition: int = native.UNPARTITIONED
    ) -> None:
        def prefix(family: bytes) -> bytes:
            return native.scope_prefix(family, segment, generation, partition)

        self.data = prefix(native.FAMILY_DATA)
        self.data_size = len(self.data)
        self.state = prefix(native.FAMILY_STATE)
        self.state_size = len(self.state)
        self.timer = prefix(native.FAMILY_TIMER)
        self.timer_size = len(self.timer)
        self.places = native.PlaceKeys(self.data, self.state, self.timer)
        self.mark = prefix(native.FAMILY_MARK)
        self.counters = prefix(native.FAMILY_COUNTER)
        self.total = native.counter_key(self.counters, COUNT_TOTAL)
        self.in_flight = native.counter_key(self.counters, COUNT_IN_FLIGHT)
        self.delayed = native.counter_key(self.counters, COUNT_DELAYED)
        self.arrived = native.counter_key(self.counters, COUNT_ARRIVED)
        self.ids = prefix(native.FAMILY_ID)
        self.age = prefix(native.FAMILY_AGE)
        self.group = prefix(native.FAMILY_GROUP)
        self.head = prefix(FAMILY_HEAD)
        self.ready = prefix(FAMILY_READY)
        self.ready_size = len(self.ready)
        self.dedup = prefix(native.FAMILY_DEDUP)
        self.attempt = prefix(_FAMILY_ATTEMPT)
        self.attempt_age = prefix(_FAMILY_ATTEMPT_AGE)

    def data_key(self, position: int) -> bytes:
        return native.message_key(self.data, position >> 16, position & 0xFFFF)

    def state_key(self, position: int) -> bytes:
        return native.message_key(self.state, position >> 16, position & 0xFFFF)

    def timer_key(self, visible_at: int, position: int) -> bytes:
        return native.timer_key(self.timer, visible_at, position >> 16, position & 0xFFFF)

    def id_key(self, message_id: bytes) -> bytes:
        """Where a message that kept its id when it came from another queue is found."""
        return native.id_key(self.ids, message_id)

    def age_key(self, sent_ms: int, position: int) -> bytes:
        """A message that is older than its position says, for the retention sweeper."""
        return native.timer_key(self.age, sent_ms, position >> 16, position & 0xFFFF)

    def position_of(self, data_key: bytes) -> int:
        commit_ts, entry = native.split_message_key(self.data_size, data_key)
        return commit_ts << 16 | entry

    def timer_of(self, timer_key: bytes) -> tuple[int, int]:
        """(visible at, position)"""
        visible_at, commit_ts, entry = native.split_timer_key(self.timer_size, timer_key)
        return visible_at, commit_ts << 16 | entry

    def group_prefix(self, group_id: str) -> bytes:
        """What the rows of a message group begin with; they are in the order of their positions."""
        return self.group + native.text(group_id)

    def group_key(self, group_id: str, position: int) -> bytes:
        return native.group_key(self.group, group_id, position >> 16, position & 0xFFFF)

    def group_position(self, group_key: bytes) -> int:
        return split_position(group_key)

    def head_key(self, group_id: str) -> bytes:
        return self.head + native.text(group_id)

    def ready_key(self, available_at: int, position: int) -> bytes:
        return native.timer_key(self.ready, available_at, position >> 16, position & 0xFFFF)

    def split_ready_key(self, ready_key: bytes) -> tuple[int, int]:
        """(available at, position)"""
        available_at, commit_ts, entry = native.split_timer_key(self.ready_size, ready_key)
        return available_at, commit_ts << 16 | entry

    def dedup_key(self, group_id: str, dedup_id: str) -> bytes:
        return native.dedup_key(self.dedup, group_id, dedup_id)

    def attempt_key(self, attempt_id: str) -> bytes:
        """What the receive of that attempt took."""
        return self.attempt + native.text(attempt_id)

    def attempt_age_key(self, position: int, attempt_id: str) -> bytes:
        """By age, so that what is older than the window is found without looking at the rest."""
        return self.attempt_age + encode_position(position) + native.text(attempt_id)

    def prefixes(self) -> tuple[bytes, ...]:
        """Everything that a new generation leaves behind."""
        plain = (self.data, self.state, self.timer, self.mark, self.counters, self.ids, self.age)
        fifo = (self.group, self.head, self.ready, self.dedup, self.attempt, self.attempt_age)
        return (*plain, *fifo)
