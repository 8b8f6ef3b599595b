"""Which group each partition of a queue lives in. Pure and immutable.

A queue that the operator has not placed is spread over the groups from its home group on. The
answer is recorded in the queue's metadata when it is created; a map that changes later moves
nothing.
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from fastnode.config import GROUPS_MAX, PARTITIONS_MAX
from fastnode.errors import UsageError
from fastnode.queue.partition_groups import spread_partitions
from fastnode.queue.queue_url import is_queue_name

_FIFO_SUFFIX: Final = ".fifo"
_COUNTS: Final = tuple(1 << n for n in range(1, PARTITIONS_MAX.bit_length()))
_ENTRY_MATCH: Final = re.compile(r"([^:=]*):([^:=]*)=([^:=]*)").fullmatch
_NUMBER_MATCH: Final = re.compile(r"[0-9]{1,9}").fullmatch


class PartitionMap:
    """`placed` holds the groups of partitions 0, 1, … of the queues that the operator has placed,
    in whatever account and region they are.
    """

    __slots__ = ("_groups", "_placed")

    def __init__(self, groups: int, placed: Mapping[str, Sequence[int]]) -> None:
        assert all(0 <= group < groups for row in placed.values() for group in row)
        self._groups = groups
        self._placed = MappingProxyType({name: tuple(row) for name, row in placed.items()})

    def covers(self, name: str, count: int) -> bool:
        """Whether there is a place for so many partitions: always, unless the operator has given
        the queue fewer.
        """
        return len(self._placed.get(name, ())) >= count or name not in self._placed

    def groups_of(self, name: str, count: int, home: int) -> tuple[int, ...]:
        """The group of each partition. A queue of one partition is an ordinary one, at home."""
        if count > 1 and len(self._placed.get(name, ())) >= count:
            return self._placed[name][:count]
        return spread_partitions(name, count, home, groups=self._groups)

    @property
    def named_groups(self) -> frozenset[int]:
        """Groups that hold partitions by the operator's word, or will."""
        return frozenset(group for row in self._placed.values() for group in row)


def parse_partition_map(text: str, groups: int) -> PartitionMap:
    """`orders.fifo:4=1,2,1,2;other.fifo:2=1,1`: queue, number of partitions, a group for each."""
    assert 1 <= groups <= GROUPS_MAX
    placed: dict[str, tuple[int, ...]] = {}
    for entry in text.split(";") if text.strip() else ():
        name, row = _parse_entry(entry.strip(), groups)
        if name in placed:
            raise _refusal(f"{name} is placed twice: keep one of the two entries")
        placed[name] = row
    return PartitionMap(groups, placed)


def _parse_entry(entry: str, groups: int) -> tuple[str, tuple[int, ...]]:
    match = _ENTRY_MATCH(entry)
    if match is None:
        raise _refusal(
            f"{entry!r} is no entry: write NAME.fifo:COUNT=GROUP,GROUP,… and ; between entries"
        )
    name, count_text, row_text = (part.strip() for part in match.groups())
    if not (is_queue_name(name) and name.endswith(_FIFO_SUFFIX)):
        raise _refusal(f"{name!r} is no name of a FIFO queue, and no other queue has partitions")
    count = _number(count_text)
    if count not in _COUNTS:
        counts = ", ".join(map(str, _COUNTS))
        raise _refusal(f"{name} has {count_text!r} partitions: write one of {counts}")
    row = tuple(_parse_group(name, group.strip(), groups) for group in row_text.split(","))
    if len(row) != count:
        raise _refusal(f"{name} has {count} partitions and {len(row)} groups: name one for each")
    return name, row


def _parse_group(name: str, text: str, groups: int) -> int:
    group = _number(text)
    if group is None or group >= groups:
        raise _refusal(f"{name} is in group {text!r}: write numbers from 0 to {groups - 1}")
    return group


def _number(text: str) -> int | None:
    """`007` is 7; digits of other scripts, signs and empty texts are no numbers."""
    return int(text) if _NUMBER_MATCH(text) else None


def _refusal(reason: str) -> UsageError:
    return UsageError(f"--partition-map: {reason}")
