"""What a worker tells its siblings about the metadata of its groups: which rows, what has changed
since an index, a copy in pages. Pure, but for reading the group.

Metadata are the rows by which a worker finds queues that it does not lead: names, attributes,
generations, sources of dead-letter queues, move tasks. Never messages, marks or counters.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from msgspec import Struct, msgpack

from fastnode import native
from fastnode.native import DROP

# "!sqs|queue|count|" and "!sqs|queue|mark|" are not here: they change with every message.
_QUEUE: Final = b"!sqs|queue|"
_FAMILIES: Final = (b"dlsource|", b"gen|", b"meta|", b"part|", b"parttask|", b"task|")
MIRRORED: Final = tuple(sorted(_QUEUE + name for name in _FAMILIES))
# Where families differ first; most keys of a transaction are told apart by it alone.
_FAMILY_AT: Final = 5
_FAMILY_LETTER: Final = _QUEUE[_FAMILY_AT]
ROWS_MAX: Final = 200
REMEMBERED_MAX: Final = 10_000

# From the first key up to the second.
Range = tuple[bytes, bytes]
Rows = list[tuple[bytes, bytes]]


class Asked(Struct, frozen=True, array_like=True):
    """What has changed in the group since the index? With `after`, or for an index that nobody
    remembers: the rows themselves, from that key on.
    """

    group: int
    since: int
    after: bytes = b""


class Told(Struct, frozen=True, array_like=True):
    """Ranges with all the rows in them. `after` is where a copy goes on. `index` is how far a
    mirror is that has them all, if not `is_copy`; of a copy, how far the group was.
    """

    index: int
    term: int
    commit_ts: int
    is_copy: bool
    is_all: bool
    after: bytes
    ranges: list[tuple[bytes, bytes, Rows]]


encode: Final = msgpack.Encoder().encode
decode_asked: Final = msgpack.Decoder(Asked).decode
decode_told: Final = msgpack.Decoder(Told).decode


class Position(Protocol):
    @property
    def applied_index(self) -> int: ...
    @property
    def term(self) -> int: ...
    @property
    def commit_ts(self) -> int: ...


class Source(Protocol):
    """A group that this worker leads."""

    def scan(self, start: bytes, end: bytes, limit: int) -> Rows: ...


def mirrored_ranges(writes: Iterable[tuple[int, bytes, bytes]]) -> list[Range]:
    """Of what a transaction writes: the metadata."""
    return [
        (key, value if kind == DROP else key + b"\x00")
        for kind, key, value in writes
        if key[_FAMILY_AT] == _FAMILY_LETTER and key.startswith(MIRRORED)
    ]


class Noted(NamedTuple):
    ranges: list[Range]
    reached: int
    is_all: bool


class Changes:
    """Which metadata of a group changed at which index, in this process; the oldest are forgotten
    first.
    """

    def __init__(self) -> None:
        self._at: dict[Range, int] = {}
        # Nothing that changed up to here is known.
        self._floor: int | None = None

    def note(self, ranges: Iterable[Range], index: int) -> None:
        if self._floor is None:
            self._floor = index - 1
        for each in ranges:
            self._at.pop(each, None)
            self._at[each] = index
        while len(self._at) > REMEMBERED_MAX:
            oldest = next(iter(self._at))
            self._floor = self._at.pop(oldest)

    def since(self, since: int, now: int) -> Noted | None:
        """What changed after an index, the oldest first and not more than a page. None: nobody
        knows.
        """
        if self._floor is None:
            self._floor = now
        if since < self._floor:
            return None
        newer: list[Range] = []
        reached = since
        # Newest last, and most who ask lack only a few.
        for each in self._newer(since):
            index = self._at[each]
            if len(newer) >= ROWS_MAX and index > reached:
                return Noted(newer, reached, is_all=False)
            newer.append(each)
            reached = index
        return Noted(newer, now, is_all=True)

    def _newer(self, since: int) -> list[Range]:
        newer: list[Range] = []
        for each, index in reversed(self._at.items()):
            if index <= since:
                break
            newer.append(each)
        return newer[::-1]


def tell(source: Source, position: Position, changes: Changes, asked: Asked) -> Told:
    index, term, commit_ts = position.applied_index, position.term, position.commit_ts
    noted = None if asked.after else changes.since(asked.since, index)
    if noted is None:
        ranges, after = _copy(source, asked.after)
        return Told(index, term, commit_ts, True, not after, after, ranges)
    rows = [(*each, _rows(source, each)) for each in noted.ranges]
    return Told(noted.reached, term, commit_ts, False, noted.is_all, b"", rows)


def _rows(source: Source, each: Range) -> Rows:
    """All rows of a range that changed: one, or those of a queue's move tasks."""
    return source.scan(*each, ROWS_MAX)


def _copy(source: Source, after: bytes) -> tuple[list[tuple[bytes, bytes, Rows]], bytes]:
    """A page of everything, from a key on, and where the next one begins; empty after the last."""
    ranges: list[tuple[bytes, bytes, Rows]] = []
    left = ROWS_MAX
    for family in MIRRORED:
        begin, end = max(family, after), native.prefix_end(family)
        if begin >= end:
            continue
        rows = source.scan(begin, end, left)
        if len(rows) == left:
            stop = rows[-1][0] + b"\x00"
            return [*ranges, (begin, stop, rows)], stop
        ranges.append((begin, end, rows))
        left -= len(rows)
    return ranges, b""
