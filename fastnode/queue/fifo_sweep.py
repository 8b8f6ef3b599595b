"""What a FIFO queue remembers for five minutes goes when they are over: receive attempts, which
have rows in the order of their ages, and deduplication rows, which have not.

A row for the age of each would be one more write of every send, so a walk over all of them looks
for the old ones now and then. They stay for up to half a window longer than they count, and as long
as a walk takes.
"""

from collections.abc import Sequence
from typing import Final

from fastnode import config, native
from fastnode.flow import Suspension
from fastnode.queue.attempts import began_at
from fastnode.queue.fifo_live import FifoQueue
from fastnode.queue.service import Service
from fastnode.store.group import Group
from fastnode.store.keyspace import POSITION_BYTES, MessageKeys, encode_position

_ID_BYTES: Final = 16


def may_have_stale_rows(group: Group, keys: MessageKeys) -> bool:
    """Of a queue that nobody has used since the start: its first row becomes as old as any."""
    bound = _first_that_counts(group.now())
    first = group.scan(keys.dedup, native.prefix_end(keys.dedup), 1)
    return any(_is_stale(row, bound) for _, row in first) or _has_stale_attempts(group, keys)


def has_stale_rows(queue: FifoQueue) -> bool:
    """Or at least rows that nobody has looked at for long enough."""
    group, keys = queue.group, queue.messages
    if _has_stale_attempts(group, keys):
        return True
    if not queue.walk.is_due(group.now() >> 16):
        return False
    return bool(group.scan_keys(keys.dedup, native.prefix_end(keys.dedup), 1))


async def sweep_stale_rows(service: Service, queue: FifoQueue) -> bool:
    """One transaction's worth of attempts, one page of deduplication rows; True if there may be
    more.
    """
    has_attempts = await _sweep_attempts(service, queue)
    return await _sweep_ids(service, queue) or has_attempts


# --- deduplication rows --------------------------------------------------------------------------


async def _sweep_ids(service: Service, queue: FifoQueue) -> bool:
    """All removals of the page are planned at once: an id that is used again afterwards waits for
    its latch, and what is used again already is left alone.
    """
    group, keys, walk = queue.group, queue.messages, queue.walk
    now = group.now()
    if not walk.is_due(now >> 16) or group.latches.is_held(queue.keys.generation):
        return False
    begin, bound = walk.page_begin(keys.dedup, now >> 16), _first_that_counts(now)
    rows = group.scan(begin, native.prefix_end(keys.dedup), config.SWEEP_ROWS)
    is_held = group.latches.is_held
    stale = [key for key, row in rows if _is_stale(row, bound) and not is_held(key)]
    size = config.SWEEP_MESSAGES
    removals = [_remove(service, queue, stale[at : at + size]) for at in range(0, len(stale), size)]
    for removal in removals:
        await removal
    return walk.passed(rows)


def _remove(service: Service, queue: FifoQueue, dedup_keys: Sequence[bytes]) -> Suspension:
    txn = queue.group.begin(service.new_request())
    txn.check(queue.keys.generation)
    for key in dedup_keys:
        txn.delete(key)
    return queue.group.submit(txn)


def _first_that_counts(now: int) -> bytes:
    """The first position that is not older than the window."""
    return encode_position(max((now >> 16) - config.DEDUPLICATION_MS, 0) << 32)


def _is_stale(row: bytes, bound: bytes) -> bool:
    return row[_ID_BYTES:] < bound


# --- receive attempts ----------------------------------------------------------------------------


async def _sweep_attempts(service: Service, queue: FifoQueue) -> bool:
    """An id that was used again after its window has a newer row, which stays."""
    group, keys = queue.group, queue.messages
    if group.latches.is_held(queue.keys.generation) or not _has_stale_attempts(group, keys):
        return False
    txn = group.begin(service.new_request())
    rows = _stale_attempts(group, keys, txn.commit_ts, config.SWEEP_MESSAGES)
    for age_key in rows:
        position, attempt_key = _split(keys, age_key)
        if group.latches.is_held(attempt_key):
            continue
        stored = group.get(attempt_key)
        if stored is not None and position == began_at(stored):
            txn.delete(attempt_key)
        txn.delete_fresh(age_key)
    if not txn.writes:
        return False
    txn.check(queue.keys.generation)
    await group.submit(txn)
    return len(rows) == config.SWEEP_MESSAGES


def _has_stale_attempts(group: Group, keys: MessageKeys) -> bool:
    return bool(_stale_attempts(group, keys, group.now(), 1))


def _stale_attempts(group: Group, keys: MessageKeys, now: int, limit: int) -> list[bytes]:
    return group.scan_keys(keys.attempt_age, keys.attempt_age + _first_that_counts(now), limit)


def _split(keys: MessageKeys, age_key: bytes) -> tuple[bytes, bytes]:
    """The position that the row is as old as, and the key of its attempt."""
    rest = age_key[len(keys.attempt_age) :]
    return rest[:POSITION_BYTES], keys.attempt + rest[POSITION_BYTES:]
