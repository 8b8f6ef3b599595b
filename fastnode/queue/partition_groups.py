"""Which groups partitions live in: those of a new queue that nobody has placed, and those in which
stored queues have some. And by what secret a partition signs.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from fastnode import native
from fastnode.store.group import Group
from fastnode.store.records import decode_queue

_PAGE_ROWS: Final = 1_000
_END: Final = native.prefix_end(native.FAMILY_META)


def spread_partitions(_name: str, count: int, home: int, *, groups: int) -> tuple[int, ...]:
    """As evenly as it can be, from the home group of the queue on."""
    return tuple((home + partition) % groups for partition in range(count))


def groups_with_partitions(groups: Sequence[Group]) -> frozenset[int]:
    """Groups that hold a partition, or the metadata of a queue that has some, in the state that is
    applied here. Reads all metadata: for questions that are asked once in a while.
    """
    return frozenset(number for group in groups for number in _used_by(group))


def _used_by(group: Group) -> Iterator[int]:
    begin = native.FAMILY_META
    while rows := group.scan(begin, _END, _PAGE_ROWS):
        for _key, stored in rows:
            placed = decode_queue(stored).partition_groups
            if placed:
                yield from (group.number, *placed)
        begin = rows[-1][0] + b"\x00"


def partition_secret(secret: bytes, partition: int) -> bytes:
    """Each partition signs its own handles, so that none passes for another partition's."""
    if partition == native.UNPARTITIONED:
        return secret
    number = int.from_bytes(secret, "big") ^ (partition + 1)
    return number.to_bytes(len(secret), "big")
