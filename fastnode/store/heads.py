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
    untext,
)
from fastnode.store.sums import SumRows

_TIMESTAMP_BYTES: Final = 8
_HEAD_START: Final = len(FAMILY_HEAD)
_UNCHANGED: Final[dict[bytes, bool]] = {}
# Whoever has to read the group index reads so many rows more than are asked for.
_ROWS_AHEAD: Final = 32


class Reader(Protocol):
    def get(self, key: bytes) -> bytes | None: ...
    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]: ...
    def scan_keys(self, start: bytes, end: bytes, limit: int) -> list[bytes]: ...


class HeadRows:
    """Head rows as the engine has them, of the groups that were touched lately: most sends go to
    the same groups as those before; and the positions that these groups have behind their heads.
    What a batch makes of them is believed once it is written. `sums` are rows of another kind that
    are kept in the same way.
    """

    __slots__ = ("_changes", "_engine", "_filed", "_planned", "_rows", "sums")

    def __init__(self, engine: Reader) -> None:
        self._engine = engine
        self.sums = SumRows()
        self._rows: dict[bytes, bytes | None] = {}
        self._planned: dict[bytes, bytes | None] = {}
        self._filed = native.Filed(config.FILED_PLACES_MAX)
        self._changes: HeadChanges | None = None

    @property
    def known(self) -> dict[bytes, bytes | None]:
        """What need not be read; None means that there is no such row."""
        return self._rows

    def read(self, head_keys: Sequence[bytes]) -> list[bytes | None]:
        rows = self._rows
        missing = [key for key in head_keys if key not in rows]
        if missing:
            if len(rows) + len(missing) > config.HEADS_REMEMBERED_MAX:
                # The cheapest bound is to start over.
                rows.clear()
                missing = list(head_keys)
            # All at once is cheaper than one by one.
            rows.update(zip(missing, self._engine.get_many(missing), strict=True))
        return [rows[key] for key in head_keys]

    def get(self, head_key: bytes) -> bytes | None:
        rows = self._rows
        return rows[head_key] if head_key in rows else self._engine.get(head_key)

    def positions(self, head_key: bytes, first: int, limit: int) -> list[int]:
        """Of the group, from `first` on, which is where it began when somebody looked."""
        known = self._filed.known(head_key[_HEAD_START:], limit)
        if known and known[0] >= first:
            return known
        row = self.get(head_key)
        begin = first.to_bytes(POSITION_BYTES, "big")
        if known is None and row is not None and row[:POSITION_BYTES] == begin:
            rows = self._load(head_key, begin, limit)
        else:
            rows = _index_rows(self._engine, head_key, begin, limit)
        return [int.from_bytes(row[-POSITION_BYTES:], "big") for row in rows[:limit]]

    def successor(self, head_key: bytes, changed: dict[bytes, bool], head: bytes) -> bytes | None:
        """What comes behind a head that is gone, with others: before it are the remains of all that
        was consumed.
        """
        filed, group = self._filed, head_key[_HEAD_START:]
        found = filed.successor(group, changed)
        if found is not None:
            return found or None
        # So many rows hold one that stays, if any does.
        for row in self._load(head_key, head, len(changed) + 1):
            position = row[-POSITION_BYTES:]
            if changed.get(position, True):
                return position
        return None

    def _load(self, head_key: bytes, head: bytes, count: int) -> list[bytes]:
        limit = count + _ROWS_AHEAD
        rows = _index_rows(self._engine, head_key, head, limit)
        self._filed.load(head_key[_HEAD_START:], rows, is_whole=len(rows) < limit)
        return rows

    def forget(self) -> None:
        """Ranges are dropped: what was in them is not asked for."""
        self._rows.clear()
        self._filed.forget()

    def plan(self, planned: dict[bytes, bytes | None], changes: HeadChanges | None) -> None:
        """Instead of what was planned before and not written."""
        self._planned, self._changes = planned, changes

    def unplan(self) -> None:
        """What was planned is never written."""
        self.plan({}, None)
        self.sums.plan({})

    def written(self) -> None:
        self.sums.written()
        changes, self._changes = self._changes, None
        if changes is None:
            return
        rows, filed = self._rows, self._filed
        if changes.dropped:
            filed.forget()
        else:
            for head_key, row in self._planned.items():
                if row is not None and rows.get(head_key, row) is None:
                    filed.begin(head_key[_HEAD_START:])
            filed.change(changes.groups)
        rows.update(self._planned)
        self._planned = {}


def write_heads(engine: Reader, batch: Batch, changes: HeadChanges, rows: HeadRows) -> None:
    """The rows of every group that was touched, after everything else of the batch."""
    if changes.dropped:
        rows.forget()
    planned: dict[bytes, bytes | None] = {}
    scope = _Scope()
    touched, groups, states, dropped = changes
    head_keys = list(touched)
    for head_key, stored in zip(head_keys, rows.read(head_keys), strict=True):
        old = None if dropped and _has_dropped(changes, head_key) else stored
        changed = groups.get(head_key[_HEAD_START:], _UNCHANGED)
        if old is not None and _stays(states, changed, old[:POSITION_BYTES]):
            continue
        scope.enter(head_key)
        planned[head_key] = new = _head(engine, states, changed, head_key, old, rows, scope)
        if new != old:
            scope.replace(batch, head_key, old, new)
    rows.plan(planned, changes)


def _has_dropped(changes: HeadChanges, key: bytes) -> bool:
    """Whether what the engine has under the key is gone."""
    return any(start <= key < end for start, end in changes.dropped)


def _stays(
    states: Mapping[bytes, bytes | None], changed: Mapping[bytes, bool], head: bytes
) -> bool:
    """Whether nothing happened to the head, and nothing has come before it."""
    if head in states or head in changed:
        return False
    for added in changed:
        if added < head:
            return False
    return True


class _Scope:
    """Where the heads of a queue are. A batch has many of one queue, mostly in a row."""

    __slots__ = ("_heads", "_ready", "states")

    def __init__(self) -> None:
        self._heads = self._ready = self.states = b""

    def enter(self, head_key: bytes) -> None:
        if not self._heads or not head_key.startswith(self._heads):
            scope = split_head_key(head_key)[0]
            self._heads, self._ready = FAMILY_HEAD + scope, FAMILY_READY + scope
            self.states = FAMILY_STATE + scope

    def replace(self, batch: Batch, head_key: bytes, old: bytes | None, new: bytes | None) -> None:
        if old is not None:
            batch.delete(self._ready + old[POSITION_BYTES:] + old[:POSITION_BYTES])
        if new is None:
            batch.delete(head_key)
        else:
            batch.put(head_key, new)
            ready_key = self._ready + new[POSITION_BYTES:] + new[:POSITION_BYTES]
            batch.put(ready_key, untext(head_key[len(self._heads) :]))


def _head(
    engine: Reader,
    states: Mapping[bytes, bytes | None],
    changed: dict[bytes, bool],
    head_key: bytes,
    old: bytes | None,
    rows: HeadRows,
    scope: _Scope,
) -> bytes | None:
    position = old_position = None if old is None else old[:POSITION_BYTES]
    if position is not None and not changed.get(position, True):
        position = rows.successor(head_key, changed, position)
    # A group without a head has no rows in the engine: what it has now is in this batch.
    for added, exists in changed.items():
        if exists and (position is None or added < position):
            position = added
    if position is None:
        return None
    if position in states:
        state = states[position]
    elif position == old_position:
        return old
    elif position in changed:
        # Nobody can have received a message that this batch brings.
        state = None
    else:
        state = engine.get(scope.states + position)
    return position + _available_at(position, state)


def _index_rows(engine: Reader, head_key: bytes, begin: bytes, limit: int) -> list[bytes]:
    group = head_group(head_key)
    return engine.scan_keys(group + begin, native.prefix_end(group), limit)


def _available_at(position: bytes, state: bytes | None) -> bytes:
    """Without a state since its commit timestamp, with which its position begins."""
    if state is None:
        return position[:_TIMESTAMP_BYTES]
    return native.decode_state(state).visible_at.to_bytes(_TIMESTAMP_BYTES, "big")
