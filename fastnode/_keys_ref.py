"""The plain version of the key encoding, and the home of its constants.

Keys compare as bytes exactly as their parts compare as tuples, every key says where each part ends,
and no queue's prefix is a prefix of another queue's. `_keys.pyx` does the same in C and imports the
constants from here. What a value holds is not decided here: see `_core_ref.py`.
"""

from typing import Final, NamedTuple

import xxhash

FAMILY_META: Final = b"!sqs|queue|meta|"
FAMILY_GENERATION: Final = b"!sqs|queue|gen|"
FAMILY_TOMBSTONE: Final = b"!sqs|queue|tombstone|"
FAMILY_COUNTER: Final = b"!sqs|queue|count|"
FAMILY_MARK: Final = b"!sqs|queue|mark|"
FAMILY_DATA: Final = b"!sqs|msg|data|"
FAMILY_STATE: Final = b"!sqs|msg|state|"
FAMILY_TIMER: Final = b"!sqs|msg|vis|"
FAMILY_AGE: Final = b"!sqs|msg|byage|"
FAMILY_DEDUP: Final = b"!sqs|msg|dedup|"
FAMILY_GROUP: Final = b"!sqs|msg|group|"
FAMILY_READY: Final = b"!sqs|msg|ready|"
FAMILY_ID: Final = b"!sqs|msg|id|"

# A position ends the keys of messages: commit timestamp and entry.
POSITION_BYTES: Final = 10
# An account is digits, so no queue segment can begin with this letter.
PARTITIONED: Final = b"p|"
UNPARTITIONED: Final = -1
ACCOUNT_DIGITS: Final = 12

# What follows the queue segment in a key of the family.
SHAPES: Final[dict[bytes, str]] = {
    FAMILY_META: "queue",
    FAMILY_GENERATION: "queue",
    FAMILY_TOMBSTONE: "tombstone",
    FAMILY_COUNTER: "kind",
    FAMILY_MARK: "mark",
    FAMILY_DATA: "message",
    FAMILY_STATE: "message",
    FAMILY_TIMER: "timer",
    FAMILY_AGE: "timer",
    FAMILY_DEDUP: "dedup",
    FAMILY_GROUP: "group",
    FAMILY_ID: "id",
}


class ParsedKey(NamedTuple):
    """A whole key taken apart; without a partition it is -1, without a generation None."""

    family: bytes
    account: str
    region: str
    name: str
    partition: int
    generation: int | None
    tail: tuple[int | str | bytes, ...]


def text(value: str) -> bytes:
    """The terminator sorts below whatever else can follow, so a text sorts before longer ones."""
    return value.encode().replace(b"\x00", b"\x00\xff") + b"\x00\x01"


def queue_segment(account: str, region: str, name: str) -> bytes:
    _check_account(account.encode())
    return account.encode() + text(region) + text(name)


def split_queue_segment(segment: bytes) -> tuple[str, str, str]:
    reader = _Reader(segment)
    account, region, name = reader.account(), reader.text(), reader.text()
    reader.finish()
    return account, region, name


def queue_key(family: bytes, segment: bytes) -> bytes:
    return family + segment


def tombstone_key(segment: bytes, generation: int) -> bytes:
    return FAMILY_TOMBSTONE + segment + _u64(generation)


def scope_prefix(
    family: bytes, segment: bytes, generation: int, partition: int = UNPARTITIONED
) -> bytes:
    """What all keys of one family, queue, partition and generation begin with."""
    if partition == UNPARTITIONED:
        return family + segment + _u64(generation)
    return family + PARTITIONED + segment + partition.to_bytes(4, "big") + _u64(generation)


def message_key(prefix: bytes, commit_ts: int, entry: int) -> bytes:
    return prefix + _u64(commit_ts) + _u16(entry)


def split_message_key(prefix_length: int, key: bytes) -> tuple[int, int]:
    reader = _Reader(key, prefix_length)
    commit_ts, entry = reader.number(8), reader.number(2)
    reader.finish()
    return commit_ts, entry


def timer_key(prefix: bytes, at: int, commit_ts: int, entry: int) -> bytes:
    return prefix + _u64(at) + _u64(commit_ts) + _u16(entry)


def split_timer_key(prefix_length: int, key: bytes) -> tuple[int, int, int]:
    reader = _Reader(key, prefix_length)
    at, commit_ts, entry = reader.number(8), reader.number(8), reader.number(2)
    reader.finish()
    return at, commit_ts, entry


def dedup_key(prefix: bytes, group_id: str, dedup_id: str) -> bytes:
    return prefix + text(group_id) + text(dedup_id)


def group_key(prefix: bytes, group_id: str, commit_ts: int, entry: int) -> bytes:
    return prefix + text(group_id) + _u64(commit_ts) + _u16(entry)


def id_key(prefix: bytes, message_id: bytes) -> bytes:
    if len(message_id) != 16:
        raise ValueError("a message id has 16 bytes")
    return prefix + message_id


def counter_key(prefix: bytes, kind: int) -> bytes:
    return prefix + kind.to_bytes(1, "big")


def prefix_end(prefix: bytes) -> bytes:
    """The smallest key above every key that begins with `prefix`."""
    kept = prefix.rstrip(b"\xff")
    if not kept:
        raise ValueError("no key is above this prefix")
    return kept[:-1] + bytes([kept[-1] + 1])


def parse_key(key: bytes) -> ParsedKey:
    """Take any key of any family apart; whatever is not exactly one raises ValueError."""
    family = _family_of(key)
    shape = SHAPES[family]
    reader = _Reader(key, len(family))
    partitioned = shape not in ("queue", "tombstone") and reader.skip(PARTITIONED)
    account, region, name = reader.account(), reader.text(), reader.text()
    partition = reader.number(4) if partitioned else UNPARTITIONED
    generation = None if shape == "queue" else reader.number(8)
    tail = _tail(reader, shape)
    reader.finish()
    return ParsedKey(family, account, region, name, partition, generation, tail)


def home_group(segment: bytes, groups: int) -> int:
    """The Raft group that owns the queue."""
    if groups < 1:
        raise ValueError("a cluster has at least one group")
    return xxhash.xxh3_64_intdigest(segment, 0) % groups


def partition_for(group_id: str, seed: int, partition_count: int, per_queue: bool) -> int:
    """The partition of a message group; the queue's secret seed keeps outsiders from aiming."""
    if partition_count > 1 and partition_count & (partition_count - 1):
        raise ValueError("the number of partitions is a power of two")
    if partition_count <= 1 or per_queue or not group_id:
        return 0
    return xxhash.xxh3_64_intdigest(group_id.encode(), seed) & (partition_count - 1)


class _Reader:
    """Consumes a key from the left; running out of bytes is a ValueError."""

    def __init__(self, key: bytes, at: int = 0) -> None:
        if not 0 <= at <= len(key):
            raise ValueError("the key is shorter than its prefix")
        self._key = key
        self._at = at

    def take(self, size: int) -> bytes:
        taken = self._key[self._at : self._at + size]
        if len(taken) != size:
            raise ValueError("the key is truncated")
        self._at += size
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def skip(self, expected: bytes) -> bool:
        found = self._key.startswith(expected, self._at)
        self._at += len(expected) if found else 0
        return found

    def account(self) -> str:
        digits = self.take(ACCOUNT_DIGITS)
        _check_account(digits)
        return digits.decode()

    def text(self) -> str:
        start = self._at
        while True:
            zero = self._key.find(b"\x00", self._at)
            if zero < 0:
                raise ValueError("the text has no end")
            self._at = zero + 2
            mark = self._key[zero + 1 : zero + 2]
            if mark == b"\x01":
                return self._key[start:zero].replace(b"\x00\xff", b"\x00").decode()
            if mark != b"\xff":
                raise ValueError("the text has an unknown escape")

    def finish(self) -> None:
        if self._at != len(self._key):
            raise ValueError("the key goes on after its end")

    def at_end(self) -> bool:
        return self._at == len(self._key)


def _tail(reader: _Reader, shape: str) -> tuple[int | str | bytes, ...]:
    if shape == "message":
        return reader.number(8), reader.number(2)
    if shape == "timer":
        return reader.number(8), reader.number(8), reader.number(2)
    if shape == "dedup":
        return reader.text(), reader.text()
    if shape == "group":
        return reader.text(), reader.number(8), reader.number(2)
    if shape == "id":
        return (reader.take(16),)
    # A scope has one low-water mark, or several that a kind byte tells apart.
    if shape == "kind" or (shape == "mark" and not reader.at_end()):
        return (reader.number(1),)
    return ()


def _family_of(key: bytes) -> bytes:
    for family in SHAPES:
        if key.startswith(family):
            return family
    raise ValueError("the key belongs to no family")


def _check_account(digits: bytes) -> None:
    if len(digits) != ACCOUNT_DIGITS or not digits.isdigit():
        raise ValueError("an account is 12 digits")


def _u16(value: int) -> bytes:
    return value.to_bytes(2, "big")


def _u64(value: int) -> bytes:
    return value.to_bytes(8, "big")
