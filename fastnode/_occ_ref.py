"""The plain version of the apply rules: who lands, who conflicts, who was here before; home of
their constants and types.

A `Resolver` is the replicated memory of one group: the conflict table (fingerprint of a key → last
commit) and the committed window (request → commit and mask). It changes only with the transactions
that land, and each entry with one that lands gives one row. The newest row carries the floors, and
what is above its table's floor is remembered: so the rows that are left rebuild the same memory.
What a transaction writes to the engine is not decided here. `_occ.pyx` does the same in C.
"""

import struct
import sys
from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from xxhash import xxh3_64_digest

from fastnode._core_ref import DELETE, PUT, Transaction
from fastnode._entry_ref import Entry

APPLIED: Final = 0
STALE: Final = 1
DUPLICATE: Final = 2
TOO_OLD: Final = 3
CONFLICT: Final = 4

ROW_VERSION: Final = 1
# Two keys with one fingerprint can only make a transaction plan again, never let one slip through.
SEED_HIGH: Final = 0x9E3779B97F4A7C15
SEED_LOW: Final = 0xC2B2AE3D27D4EB4F

WINDOW_MS: Final = 10_000
KEYS_MAX: Final = 262_144
# The compiled tables keep a position and a tag in 32 bits.
TABLE_ROWS_MAX: Final = 2**22 - 2
# An entry after a long silence forgets by time no more than this and as much as it brings, so that
# it is not the one that pays for everything.
FORGOTTEN_MAX: Final = 256


class RetentionClass(NamedTuple):
    """How long, and how many, requests of one class are remembered."""

    retention_ms: int
    rows_max: int


# In the order of `Transaction.retention`: server attempts, SDK identities, receives, attempt ids.
CLASSES: Final = (
    RetentionClass(60_000, 131_072),
    RetentionClass(300_000, 131_072),
    RetentionClass(60_000, 65_536),
    RetentionClass(300_000, 65_536),
)


class Resolved(NamedTuple):
    """What became of one entry's transactions, and what its batch stores and deletes for it.

    An outcome is (status, commit timestamp, mask): those that are stored for a DUPLICATE, otherwise
    the transaction's own, with the mask 0 where nothing landed. Without a landed transaction the
    row is empty and its id 0.
    """

    outcomes: list[tuple[int, int, int]]
    row_id: int
    row: bytes
    expired: list[int]


_HEAD: Final = struct.Struct(">B5Q5I")
_KEY: Final = struct.Struct(">16sQ")
_REQUEST: Final = struct.Struct(">16sQH")
_UNREADABLE: Final = "the row is damaged or of an unknown version"


class Resolver:
    def __init__(
        self,
        window_ms: int = WINDOW_MS,
        keys_max: int = KEYS_MAX,
        classes: Sequence[tuple[int, int]] = CLASSES,
    ) -> None:
        check_bounds(window_ms, keys_max, classes)
        self._window_ms = window_ms
        self._keys_max = keys_max
        self._classes = classes
        self._clear()

    def _clear(self) -> None:
        self.floor = 0
        self.last_commit_ts = 0
        # The oldest commit first: a key that is written again moves to the end.
        self._keys: OrderedDict[bytes, int] = OrderedDict()
        self._requests: dict[bytes, tuple[int, int]] = {}
        self._by_class: list[deque[tuple[int, bytes]]] = [deque() for _ in CLASSES]
        self._class_floors = [0 for _ in CLASSES]
        # Rows that are still needed, ascending, and how many remembered things each of them holds.
        self._row_ids: list[int] = []
        self._held: dict[int, int] = {}
        self._expired: list[int] = []
        # What is newer than `before` belongs to the row that is being made.
        self._before = 0
        self._held_now = 0

    @property
    def key_count(self) -> int:
        return len(self._keys)

    @property
    def request_count(self) -> int:
        return len(self._requests)

    @property
    def class_floors(self) -> list[int]:
        """Of each class, the last commit whose request was forgotten: younger ones are known."""
        return list(self._class_floors)

    @property
    def memory_bytes(self) -> int:
        """Of the containers only; the compiled tables are measured in full."""
        containers = (self._keys, self._requests, self._row_ids, self._held, *self._by_class)
        return sum(map(sys.getsizeof, containers))

    def find(self, request: bytes) -> tuple[int, int] | None:
        """Commit timestamp and mask of a request that the committed window remembers."""
        return self._requests.get(request)

    def resolve(self, entry: Entry) -> Resolved:
        """Judge and remember the transactions of one log entry."""
        transactions = entry.transactions()
        if any(transaction.retention >= len(CLASSES) for transaction in transactions):
            raise ValueError("unknown retention class")
        self._before, self._held_now = self.last_commit_ts, 0
        keys: list[tuple[bytes, int]] = []
        requests: list[list[tuple[bytes, int, int]]] = [[] for _ in CLASSES]
        outcomes = []
        for transaction in transactions:
            outcome, written = self._judge(transaction)
            outcomes.append(outcome)
            if outcome[0] == APPLIED:
                request, _, commit_ts, retention, mask, _, _ = transaction
                self._remember(transaction, written)
                keys += [(fingerprint, commit_ts) for fingerprint in written]
                requests[retention].append((request, commit_ts, mask))
        if self.last_commit_ts == self._before:
            return Resolved(outcomes, 0, b"", [])
        self._forget_by_time(FORGOTTEN_MAX + len(keys) + sum(map(len, requests)))
        self._add_row(self.last_commit_ts)
        expired, self._expired = sorted(self._expired), []
        return Resolved(outcomes, self.last_commit_ts, self._encode_row(keys, requests), expired)

    def restore(self, rows: Iterable[tuple[int, bytes]], last_commit_ts: int) -> None:
        """Become what the rows were left by, given in ascending order. A group that has applied
        something and has no rows knows nothing about the past, so the floor is its present.
        """
        self._clear()
        try:
            for row_id, row in rows:
                self._restore_row(row_id, row)
            if last_commit_ts < self.last_commit_ts:
                raise ValueError("a row is newer than the last commit")
        except BaseException:
            self._clear()
            raise
        if not self.last_commit_ts:
            self.floor = last_commit_ts
        self.last_commit_ts = last_commit_ts

    def _judge(self, transaction: Transaction) -> tuple[tuple[int, int, int], list[bytes]]:
        request, start_ts, commit_ts, _, mask, reads, writes = transaction
        known = self._requests.get(request)
        if known is not None:
            return (DUPLICATE, *known), []
        if commit_ts <= self.last_commit_ts:
            return (STALE, commit_ts, 0), []
        if start_ts < self.floor:
            return (TOO_OLD, commit_ts, 0), []
        newest = self._keys.get
        written = [_fingerprint(key) for kind, key, _ in writes if kind == PUT or kind == DELETE]
        for fingerprint in written:
            if newest(fingerprint, 0) > start_ts:
                return (CONFLICT, commit_ts, 0), []
        for key in reads:
            if newest(_fingerprint(key), 0) > start_ts:
                return (CONFLICT, commit_ts, 0), []
        return (APPLIED, commit_ts, mask), written

    def _remember(self, transaction: Transaction, written: list[bytes]) -> None:
        request, _, commit_ts, retention, mask, _, _ = transaction
        if len(self._by_class[retention]) == self._classes[retention][1]:
            self._evict_request(retention)
        self._add_request(request, commit_ts, mask, retention)
        for fingerprint in written:
            if fingerprint not in self._keys and len(self._keys) == self._keys_max:
                self._evict_keys()
            # A transaction with more keys than the table holds has raised the floor to itself.
            if commit_ts > self.floor:
                self._add_key(fingerprint, commit_ts)
        self.last_commit_ts = commit_ts

    def _add_key(self, fingerprint: bytes, commit_ts: int) -> None:
        superseded = self._keys.pop(fingerprint, None)
        if superseded is not None:
            self._release(superseded)
        self._keys[fingerprint] = commit_ts
        self._held_now += 1

    def _add_request(self, request: bytes, commit_ts: int, mask: int, retention: int) -> None:
        self._requests[request] = commit_ts, mask
        self._by_class[retention].append((commit_ts, request))
        self._held_now += 1

    def _evict_keys(self) -> int:
        """All keys of the oldest commit together: so the floor alone says what is remembered."""
        count = 0
        self.floor = next(iter(self._keys.values()))
        while self._keys and next(iter(self._keys.values())) == self.floor:
            self._keys.popitem(last=False)
            self._release(self.floor)
            count += 1
        return count

    def _evict_request(self, retention: int) -> None:
        commit_ts, request = self._by_class[retention].popleft()
        del self._requests[request]
        self._class_floors[retention] = commit_ts
        self._release(commit_ts)

    def _forget_by_time(self, count_max: int) -> None:
        now_ms = self.last_commit_ts >> 16
        count = 0
        while self._keys and count < count_max:
            if now_ms - (next(iter(self._keys.values())) >> 16) <= self._window_ms:
                break
            count += self._evict_keys()
        for retention, (retention_ms, _) in enumerate(self._classes):
            remembered = self._by_class[retention]
            for _ in range(count_max):
                if not remembered or now_ms - (remembered[0][0] >> 16) <= retention_ms:
                    break
                self._evict_request(retention)

    def _release(self, commit_ts: int) -> None:
        """One thing less is held by the row of that commit; a row that holds nothing expires."""
        if commit_ts > self._before:
            self._held_now -= 1
            return
        at = bisect_left(self._row_ids, commit_ts)
        row_id = self._row_ids[at]
        self._held[row_id] -= 1
        if not self._held[row_id]:
            del self._held[row_id], self._row_ids[at]
            self._expired.append(row_id)

    def _add_row(self, row_id: int) -> None:
        if self._held_now:
            self._row_ids.append(row_id)
            self._held[row_id] = self._held_now
        else:
            self._expired.append(row_id)

    def _encode_row(
        self, keys: list[tuple[bytes, int]], requests: list[list[tuple[bytes, int, int]]]
    ) -> bytes:
        counts = len(keys), *map(len, requests)
        parts = [_HEAD.pack(ROW_VERSION, self.floor, *self._class_floors, *counts)]
        parts += [_KEY.pack(*key) for key in keys]
        parts += [_REQUEST.pack(*request) for rows in requests for request in rows]
        return b"".join(parts)

    def _restore_row(self, row_id: int, row: bytes) -> None:
        if not self.last_commit_ts < row_id < 2**64:
            raise ValueError("the rows are not in ascending order")
        self._before, self._held_now = self.last_commit_ts, 0
        floors, keys, requests = _decode_row(row)
        self._raise_floors(floors, row_id)
        self._restore_keys(keys, row_id)
        for retention, rows in enumerate(requests):
            self._restore_requests(rows, retention, row_id)
        self._add_row(row_id)
        self.last_commit_ts = row_id

    def _raise_floors(self, floors: Sequence[int], row_id: int) -> None:
        before = self.floor, *self._class_floors
        if any(not old <= new <= row_id for old, new in zip(before, floors, strict=True)):
            raise ValueError("a floor sinks or is in the future")
        while self._keys and next(iter(self._keys.values())) <= floors[0]:
            self._evict_keys()
        for retention, remembered in enumerate(self._by_class):
            while remembered and remembered[0][0] <= floors[retention + 1]:
                self._evict_request(retention)
        self.floor, *self._class_floors = floors

    def _restore_keys(self, keys: Iterable[tuple[bytes, int]], row_id: int) -> None:
        latest = self._before + 1
        for fingerprint, commit_ts in keys:
            if not latest <= commit_ts <= row_id:
                raise ValueError("a key is not in its place")
            latest = commit_ts
            if commit_ts > self.floor:
                if fingerprint not in self._keys and len(self._keys) == self._keys_max:
                    raise ValueError("the rows hold more keys than the table")
                self._add_key(fingerprint, commit_ts)

    def _restore_requests(
        self, rows: Iterable[tuple[bytes, int, int]], retention: int, row_id: int
    ) -> None:
        latest = self._before
        for request, commit_ts, mask in rows:
            if not latest < commit_ts <= row_id:
                raise ValueError("a request is not in its place")
            latest = commit_ts
            if commit_ts > self._class_floors[retention]:
                if request in self._requests:
                    raise ValueError("a request is remembered twice")
                if len(self._by_class[retention]) == self._classes[retention][1]:
                    raise ValueError("the rows hold more requests than the window")
                self._add_request(request, commit_ts, mask, retention)


def check_bounds(window_ms: int, keys_max: int, classes: Sequence[tuple[int, int]]) -> None:
    if len(classes) != len(CLASSES):
        raise ValueError(f"there are {len(CLASSES)} retention classes")
    if not all(0 <= ms < 2**48 for ms in (window_ms, *(ms for ms, _ in classes))):
        raise ValueError("a time is a number of milliseconds that fits into a timestamp")
    counts = [rows_max for _, rows_max in classes]
    if not all(1 <= count <= TABLE_ROWS_MAX for count in (keys_max, *counts, sum(counts))):
        raise ValueError(f"a table holds between 1 and {TABLE_ROWS_MAX} rows")


def _fingerprint(key: bytes) -> bytes:
    return xxh3_64_digest(key, SEED_HIGH) + xxh3_64_digest(key, SEED_LOW)


def _decode_row(
    row: bytes,
) -> tuple[list[int], Iterable[tuple[bytes, int]], list[Iterable[tuple[bytes, int, int]]]]:
    if len(row) < _HEAD.size or row[0] != ROW_VERSION:
        raise ValueError(_UNREADABLE)
    _, *numbers = _HEAD.unpack_from(row)
    floors, (key_count, *request_counts) = numbers[:5], numbers[5:]
    keys_end = _HEAD.size + key_count * _KEY.size
    if len(row) != keys_end + sum(request_counts) * _REQUEST.size:
        raise ValueError(_UNREADABLE)
    requests: list[Iterable[tuple[bytes, int, int]]] = []
    at = keys_end
    for count in request_counts:
        requests.append(_REQUEST.iter_unpack(row[at : at + count * _REQUEST.size]))
        at += count * _REQUEST.size
    return floors, _KEY.iter_unpack(row[_HEAD.size : keys_end]), requests
