"""Group heads: of each message group of a FIFO queue its first message, and when it is available.

Two rows per group that has messages, and none of one that has none:

- `head`: the group → position of its first message (10 bytes), when it is available (8 bytes);
- `ready`: when it is available, position → the group's id.

They follow from the group index and the states alone, so nobody plans them: a transaction *touches*
the groups whose rows it writes, and whoever applies a batch works out their heads once, at its end.
However the log is cut into batches the rows are the same. What a receive does with them is not
decided here.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from fastnode import native
from fastnode.native import DELETE, DROP, FAMILY_GROUP, FAMILY_STATE, FRESH_DELETE, TOUCH
from fastnode.store.engine import Batch
from fastnode.store.keyspace import (
    FAMILY_READY,
    POSITION_BYTES,
    head_group,
    split_head_key,
)

_TIMESTAMP_BYTES: Final = 8


class Reader(Protocol):
    def get(self, key: bytes) -> bytes | None: ...
    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]: ...
    def scan_keys(self, start: bytes, end: bytes, limit: int) -> list[bytes]: ...


class Changes:
    """What a batch does to group indexes and states, in order, and which heads it touches.

    `groups` has for each group the positions whose rows were written: True put, False deleted.
    `states` goes by position alone: commit timestamps never repeat, so it names one message.
    A dropped range is a whole family of a scope, and whoever drops one family drops them all.
    """

    __slots__ = ("_dropped", "groups", "states", "touched")

    def __init__(self) -> None:
        # A dict for its order: what is written must not depend on how a process hashes.
        self.touched: dict[bytes, None] = {}
        self.groups: defaultdict[bytes, dict[bytes, bool]] = defaultdict(dict)
        self.states: dict[bytes, bytes | None] = {}
        self._dropped: list[tuple[bytes, bytes]] = []

    def put(self, key: bytes, value: bytes) -> None:
        if key.startswith(FAMILY_GROUP):
            self.groups[key[:-POSITION_BYTES]][key[-POSITION_BYTES:]] = True
        elif key.startswith(FAMILY_STATE):
            self.states[key[-POSITION_BYTES:]] = value

    def write(self, kind: int, key: bytes, value: bytes) -> None:
        """Everything but puts."""
        if kind == TOUCH:
            self.touched[key] = None
        elif kind == DELETE or kind == FRESH_DELETE:
            self._delete(key)
        elif kind == DROP:
            self._drop(key, value)

    def has_dropped(self, key: bytes) -> bool:
        """Whether what the engine has under the key is gone."""
        return bool(self._dropped) and any(start <= key < end for start, end in self._dropped)

    def _delete(self, key: bytes) -> None:
        if key.startswith(FAMILY_GROUP):
            self.groups[key[:-POSITION_BYTES]][key[-POSITION_BYTES:]] = False
        elif key.startswith(FAMILY_STATE):
            self.states[key[-POSITION_BYTES:]] = None

    def _drop(self, start: bytes, end: bytes) -> None:
        """States stay: without its row in the group index nobody asks for a message's state."""
        self._dropped.append((start, end))
        for group in [group for group in self.groups if start <= group < end]:
            del self.groups[group]


def write_heads(engine: Reader, batch: Batch, changes: Changes) -> None:
    """The rows of every group that was touched, after everything else of the batch."""
    head_keys = list(changes.touched)
    # All at once is cheaper than one by one.
    for head_key, stored in zip(head_keys, engine.get_many(head_keys), strict=True):
        old = None if changes.has_dropped(head_key) else stored
        new = _head(engine, changes, head_key, old)
        if new != old:
            _replace(batch, head_key, old, new)


def _replace(batch: Batch, head_key: bytes, old: bytes | None, new: bytes | None) -> None:
    scope, group_id = split_head_key(head_key)
    if old is not None:
        batch.delete(_ready_key(scope, old))
    if new is None:
        batch.delete(head_key)
    else:
        batch.put(head_key, new)
        batch.put(_ready_key(scope, new), group_id)


def _head(engine: Reader, changes: Changes, head_key: bytes, old: bytes | None) -> bytes | None:
    group = head_group(head_key)
    changed = changes.groups.get(group, {})
    old_position = None if old is None else old[:POSITION_BYTES]
    position = _first_position(engine, changed, group, old_position)
    if position is None:
        return None
    if position in changes.states:
        state = changes.states[position]
    elif position == old_position:
        return old
    elif position in changed:
        # Nobody can have received a message that this batch brings.
        state = None
    else:
        state = engine.get(FAMILY_STATE + split_head_key(head_key)[0] + position)
    return position + _available_at(position, state)


def _first_position(
    engine: Reader, changed: Mapping[bytes, bool], group: bytes, old: bytes | None
) -> bytes | None:
    """A group without a head has no rows in the engine: what it has now is in this batch."""
    candidates = [position for position, exists in changed.items() if exists]
    if old is not None:
        stored = old if changed.get(old, True) else _next_position(engine, changed, group, old)
        candidates += [] if stored is None else [stored]
    return min(candidates, default=None)


def _next_position(
    engine: Reader, changed: Mapping[bytes, bool], group: bytes, deleted_head: bytes
) -> bytes | None:
    """Looks behind the head that is gone: before it are the remains of all that was consumed."""
    # The old head is deleted and before the range: so many rows hold one that stays, if any does.
    limit = sum(not exists for exists in changed.values())
    keys = engine.scan_keys(group + deleted_head + b"\x00", native.prefix_end(group), limit)
    positions = (key[-POSITION_BYTES:] for key in keys)
    return next((position for position in positions if changed.get(position, True)), None)


def _available_at(position: bytes, state: bytes | None) -> bytes:
    """Without a state since its commit timestamp, with which its position begins."""
    if state is None:
        return position[:_TIMESTAMP_BYTES]
    return native.decode_state(state).visible_at.to_bytes(_TIMESTAMP_BYTES, "big")


def _ready_key(scope: bytes, head: bytes) -> bytes:
    return FAMILY_READY + scope + head[POSITION_BYTES:] + head[:POSITION_BYTES]
