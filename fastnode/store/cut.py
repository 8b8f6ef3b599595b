"""Whether the states of all groups fit together, though each was taken at a moment of its own.

A message that changes groups is a letter on its way (`queue/outbox.py`): the source removes the
message and writes the letter, the target takes it in, the source removes the letter. States of two
groups would lose it if the source's is from after the end and the target's from before the middle,
and double it if the target's is from after the middle and the source's from before the beginning.
Both can be seen: letters are numbered by the source's time, the target keeps the last number that
it decided, and the source the last one that is through.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from fastnode.store.apply import Position, load_position
from fastnode.store.keyspace import inbox_key, sent_key


class Marks(NamedTuple):
    """Of one group: how far it is, the last letter that is through by its target, and the last
    that was decided by its source.
    """

    position: Position
    sent: Mapping[int, int]
    decided: Mapping[int, int]


class Rows(Protocol):
    def get(self, key: bytes) -> bytes | None: ...


def marks_of(engine: Rows, groups: int) -> Marks:
    return Marks(
        load_position(engine),
        {number: _number(engine.get(sent_key(number))) for number in range(groups)},
        {number: _number(engine.get(inbox_key(number))) for number in range(groups)},
    )


def misfit(marks: Sequence[Marks]) -> str:
    """What would be lost or doubled, or nothing. `marks` are those of all groups, by number."""
    for source, sender in enumerate(marks):
        for target, receiver in enumerate(marks):
            decided = receiver.decided[source]
            if sender.sent[target] > decided:
                return f"a message from group {source} has not arrived in group {target}"
            if decided >> 16 > sender.position.commit_ts:
                return f"a message from group {source} is in group {target} already"
    return ""


def _number(stored: bytes | None) -> int:
    return int.from_bytes(stored or b"", "big")
