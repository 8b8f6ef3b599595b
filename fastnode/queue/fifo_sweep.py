"""What a FIFO queue remembers for five minutes goes when they are over: deduplication rows and
receive attempts.
"""

from typing import Final

from fastnode import config
from fastnode.queue.attempts import began_at
from fastnode.queue.live import LiveQueue
from fastnode.queue.service import Service
from fastnode.store.group import Group
from fastnode.store.keyspace import POSITION_BYTES, MessageKeys, encode_position

_ID_BYTES: Final = 16


def has_stale_rows(group: Group, keys: MessageKeys) -> bool:
    return bool(_stale_rows(group, keys, group.now(), 1))


async def sweep_stale_rows(service: Service, queue: LiveQueue) -> bool:
    """One transaction's worth; True if there may be more.

    An id that was used again after its window has a newer row, which stays.
    """
    group, keys = queue.group, queue.messages
    if group.latches.is_held(queue.keys.generation):
        return False
    txn = group.begin(service.new_request())
    rows = _stale_rows(group, keys, txn.commit_ts, config.SWEEP_MESSAGES)
    for age_key, kind in rows:
        position, suffix = _split(keys, age_key)
        target = (keys.attempt if kind else keys.dedup) + suffix
        if group.latches.is_held(target):
            continue
        stored = group.get(target)
        if stored is not None and position == (began_at(stored) if kind else stored[_ID_BYTES:]):
            txn.delete(target)
        txn.delete_fresh(age_key)
    if not txn.writes:
        return False
    txn.check(queue.keys.generation)
    await group.submit(txn)
    return len(rows) == config.SWEEP_MESSAGES


def _stale_rows(group: Group, keys: MessageKeys, now: int, limit: int) -> list[tuple[bytes, bytes]]:
    oldest = max((now >> 16) - config.DEDUPLICATION_MS, 0)
    end = keys.dedup_age + encode_position(oldest << 32)
    return group.scan(keys.dedup_age, end, limit)


def _split(keys: MessageKeys, age_key: bytes) -> tuple[bytes, bytes]:
    """The position that the row is as old as, and what its key ends with."""
    rest = age_key[len(keys.dedup_age) :]
    return rest[:POSITION_BYTES], rest[POSITION_BYTES:]
