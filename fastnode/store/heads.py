"""Group heads: of each message group of a FIFO queue its first message, and when it is available.

Two rows per group that has messages, and none of one that has none:

- `head`: the group → position of its first message (10 bytes), when it is available (8 bytes);
- `ready`: when it is available, position → the group's id.

They follow from the group index and the states alone, so nobody plans them: a transaction *touches*
the groups whose rows it writes, and whoever applies a batch works out their heads once, at its end.
However the log is cut into batches the rows are the same. What a receive does with them is not
decided here.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from fastnode import config, native
from fastnode.native import FAMILY_STATE, HeadChanges
from fastnode.store.engine import Batch
from fastnode.store.keyspace import (
    FAMILY_HEAD,
    FAMILY_READY,
    POSITION_BYTES,
    head_group,
    split_head_key,
)
from fastnode.store.sums import SumRows

_TIMESTAMP_BYTES: Final = 8
_HEAD_START: Final = len(FAMILY_HEAD)
_UNCHANGED: Final[Mapping[bytes, bool]] = {}


class Reader(Protocol):
    def get(self, key: bytes) -> bytes | None: ...
    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]: ...
    def scan_keys(self, start: bytes, end: bytes, limit: int) -> list[bytes]: ...


class HeadRows:
    """Head rows as the engine has them, of the groups that were touched lately: most sends go to
    the same groups as those before. What a batch makes of them is believed once it is written.
    `sums` are rows of another kind that are kept in the same way.
    """

    __slots__ = ("_planned", "_rows", "sums")

    def __init__(self) -> None:
        self.sums = SumRows()
        self._rows: dict[bytes, bytes | None] = {}
        self._planned: dict[bytes, bytes | None] = {}

    @property
    def known(self) -> Mapping[bytes, bytes | None]:
        """What need not be read; None means that there is no such row."""
        return self._rows

    def read(self, engine: Reader, head_keys: Sequence[bytes]) -> list[bytes | None]:
        rows = self._rows
        missing = [key for key in head_keys if key not in rows]
        if missing:
            if len(rows) + len(missing) > config.HEADS_REMEMBERED_MAX:
                # The cheapest bound is to start over.
                rows.clear()
                missing = list(head_keys)
            # All at once is cheaper than one by one.
            rows.update(zip(missing, engine.get_many(missing), strict=True))
        return [rows[key] for key in head_keys]

    def get(self, engine: Reader, head_key: bytes) -> bytes | None:
        rows = self._rows
        return rows[head_key] if head_key in rows else engine.get(head_key)

    def forget(self) -> None:
        """Ranges are dropped: what was in them is not asked for."""
        self._rows.clear()

    def plan(self, planned: dict[bytes, bytes | None]) -> None:
        """Instead of what was planned before and not written."""
        self._planned = planned

    def written(self) -> None:
        self.sums.written()
        if self._planned:
            self._rows.update(self._planned)
            self._planned = {}


def write_heads(engine: Reader, batch: Batch, changes: HeadChanges, rows: HeadRows) -> None:
    """The rows of every group that was touched, after everything else of the batch."""
    if changes.dropped:
        rows.forget()
    planned: dict[bytes, bytes | None] = {}
    head_keys = list(changes.touched)
    for head_key, stored in zip(head_keys, rows.read(engine, head_keys), strict=True):
        old = None if changes.dropped and _has_dropped(changes, head_key) else stored
        changed = changes.groups.get(head_key[_HEAD_START:], _UNCHANGED)
        if old is not None and _stays(changes, changed, old[:POSITION_BYTES]):
            continue
        planned[head_key] = new = _head(engine, changes, head_key, old)
        if new != old:
            _replace(batch, head_key, old, new)
    rows.plan(planned)


def _has_dropped(changes: HeadChanges, key: bytes) -> bool:
    """Whether what the engine has under the key is gone."""
    return any(start <= key < end for start, end in changes.dropped)


def _stays(changes: HeadChanges, changed: Mapping[bytes, bool], head: bytes) -> bool:
    """Whether nothing happened to the head, and nothing has come before it."""
    return head not in changes.states and head not in changed and min(changed, default=head) >= head


def _replace(batch: Batch, head_key: bytes, old: bytes | None, new: bytes | None) -> None:
    scope, group_id = split_head_key(head_key)
    if old is not None:
        batch.delete(_ready_key(scope, old))
    if new is None:
        batch.delete(head_key)
    else:
        batch.put(head_key, new)
        batch.put(_ready_key(scope, new), group_id)


def _head(engine: Reader, changes: HeadChanges, head_key: bytes, old: bytes | None) -> bytes | None:
    group = head_group(head_key)
    changed = changes.groups.get(head_key[_HEAD_START:], _UNCHANGED)
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
