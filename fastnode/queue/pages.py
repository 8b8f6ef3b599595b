"""Stored rows that the leader's memory of a queue mirrors, read a page at a time."""

from collections.abc import Sequence

from fastnode import config, native
from fastnode.native import TIMER_RECEIVED
from fastnode.queue.timers import Timer
from fastnode.store.group import Group
from fastnode.store.keyspace import MessageKeys, split_position

Row = tuple[bytes, bytes]


def timer_page(group: Group, keys: MessageKeys, horizon: int) -> list[Timer]:
    """From that time on. A page that is not full is the last."""
    start, end = keys.timer_key(horizon, 0), native.prefix_end(keys.timer)
    rows = group.scan(start, end, config.TIMER_PAGE)
    return [Timer(*keys.timer_of(key), flag == TIMER_RECEIVED) for key, flag in rows]


def waiting_page(
    group: Group, keys: MessageKeys, position: int, end: bytes, limit: int
) -> tuple[Sequence[Row], list[int]]:
    """Records from the position on, and which of them have state: they were received or delayed
    before the page was read.
    """
    start = keys.data_key(position)
    rows = group.scan(start, max(start, end), limit)
    if not rows:
        return rows, []
    first = keys.state_key(split_position(rows[0][0]))
    last = keys.state_key(split_position(rows[-1][0]) + 1)
    return rows, [split_position(key) for key in group.scan_keys(first, last, limit)]
