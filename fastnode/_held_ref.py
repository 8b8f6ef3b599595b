"""The plain version of rows that are held back from an engine, because most of them do not stay.

`_held.pyx` does the same in C. When they are written after all is for `store/held_engine.py` to
say.

A message in its short life is a dozen rows: its record, a state and a timer for each receive, and
whatever takes these away again. A row that comes and goes while it is held is never written.

That takes knowing that the engine has no such row from before. It has none under a key that names
a message for the first time: a record, its places in indexes and each of its timers are put once,
and nobody overwrites them. A state is overwritten; but the engine has none of a message whose
record it does not have, and none where whoever brings it says that it is the first. Every other row
that goes leaves a deletion behind.
"""

from typing import Final, Protocol

from fastnode._keys_ref import (
    FAMILY_DATA,
    FAMILY_GROUP,
    FAMILY_READY,
    FAMILY_STATE,
    FAMILY_TIMER,
)

# A batch takes rows away if one in so many of its own does.
TAKING_AWAY: Final = 8
# What a row takes besides its key and value, more or less.
ROW_BYTES: Final = 64

_NAMED_ONCE: Final = (FAMILY_DATA, FAMILY_TIMER, FAMILY_GROUP, FAMILY_READY)
_STATE_START: Final = len(FAMILY_STATE)


class Batch(Protocol):
    def put(self, key: bytes, value: bytes) -> None: ...
    def delete(self, key: bytes) -> None: ...
    def delete_range(self, begin: bytes, end: bytes) -> None: ...


class HeldBatch:
    """What one write does, in order. Ranges are kept with how many rows come before them."""

    __slots__ = ("_firsts", "_ranges", "_rows")

    def __init__(self) -> None:
        self._rows: list[tuple[bytes, bytes | None]] = []
        # Which of the rows, by their number, are the first states of their messages.
        self._firsts: set[int] = set()
        self._ranges: list[tuple[int, bytes, bytes]] = []

    def __len__(self) -> int:
        """Of rows."""
        return len(self._rows)

    @property
    def has_ranges(self) -> bool:
        return bool(self._ranges)

    @property
    def rows(self) -> list[tuple[bytes, bytes | None]]:
        """With None for what is deleted."""
        return list(self._rows)

    @property
    def takes_away(self) -> bool:
        """Whether somebody consumes: entries that only send have hardly a deletion."""
        deletions = sum(value is None for _, value in self._rows)
        return TAKING_AWAY * deletions > len(self._rows)

    @property
    def first_states(self) -> list[bytes]:
        """Their keys, in order."""
        return [self._rows[number][0] for number in sorted(self._firsts)]

    def is_first(self, number: int) -> bool:
        return number in self._firsts

    def put(self, key: bytes, value: bytes) -> None:
        self._rows.append((key, value))

    def put_first_state(self, key: bytes, value: bytes) -> None:
        """Of a message that had none."""
        self._firsts.add(len(self._rows))
        self.put(key, value)

    def delete(self, key: bytes) -> None:
        self._rows.append((key, None))

    def delete_range(self, begin: bytes, end: bytes) -> None:
        self._ranges.append((len(self._rows), begin, end))

    def write_to(self, batch: Batch) -> None:
        done = 0
        for count, begin, end in self._ranges:
            _write_rows(self._rows[done:count], batch)
            batch.delete_range(begin, end)
            done = count
        _write_rows(self._rows[done:], batch)


class Held:
    """Rows that cover those of an engine."""

    __slots__ = ("_new", "_rows", "_size", "_taken")

    def __init__(self) -> None:
        self._rows: dict[bytes, bytes | None] = {}
        # Of these the engine has nothing.
        self._new: set[bytes] = set()
        self._size = 0
        self._taken = 0

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def size(self) -> int:
        """In bytes."""
        return self._size

    @property
    def taken(self) -> int:
        """How many rows have come, to be held or to take others away."""
        return self._taken

    def get(self, key: bytes, default: object) -> object:
        """None for a deletion; the default if the engine has to be asked."""
        return self._rows.get(key, default)

    def rows_in(self, start: bytes, end: bytes) -> list[tuple[bytes, bytes | None]]:
        """In the order of their keys, with None for what is deleted."""
        rows = self._rows
        return [(key, rows[key]) for key in sorted(key for key in rows if start <= key < end)]

    def take(self, batch: HeldBatch) -> None:
        """It has no ranges: what they cover is not only here."""
        assert not batch.has_ranges
        self._taken += len(batch)
        for number, (key, value) in enumerate(batch.rows):
            if value is not None:
                self._put(key, value, is_first=batch.is_first(number))
            else:
                self._delete(key)

    def write_to(self, batch: Batch) -> None:
        """In the order of the keys: an engine is fastest next to its last row."""
        _write_rows(sorted(self._rows.items()), batch)

    def _put(self, key: bytes, value: bytes, *, is_first: bool) -> None:
        if key not in self._rows and (is_first or self._is_new(key)):
            self._new.add(key)
        self._forget(key)
        self._rows[key] = value
        self._size += ROW_BYTES + len(key) + len(value)

    def _delete(self, key: bytes) -> None:
        self._forget(key)
        if key in self._new:
            self._new.remove(key)
        else:
            self._rows[key] = None
            self._size += ROW_BYTES + len(key)

    def _forget(self, key: bytes) -> None:
        if key in self._rows:
            self._size -= ROW_BYTES + len(key) + len(self._rows.pop(key) or b"")

    def _is_new(self, key: bytes) -> bool:
        if key.startswith(FAMILY_STATE):
            return FAMILY_DATA + key[_STATE_START:] in self._new
        return key.startswith(_NAMED_ONCE)


def _write_rows(rows: list[tuple[bytes, bytes | None]], batch: Batch) -> None:
    for key, value in rows:
        if value is not None:
            batch.put(key, value)
        else:
            batch.delete(key)
