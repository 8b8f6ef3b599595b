"""How many messages of a FIFO queue wait for the queue's own delay."""

from typing import Final

from fastnode import native
from fastnode.store.group import Group
from fastnode.store.keyspace import MessageKeys

_COUNTED_MAX: Final = 100_000


def count_delayed(group: Group, keys: MessageKeys, now: int, delay: int) -> int:
    """It depends on the delay as it is now, so nobody keeps a sum."""
    first = max(now - delay + 1, 0) << 16
    sent = group.scan_keys(keys.data_key(first), native.prefix_end(keys.data), _COUNTED_MAX)
    # What somebody has received is not delayed, however long the delay has become since.
    received = group.scan_keys(keys.state_key(first), native.prefix_end(keys.state), _COUNTED_MAX)
    return len(sent) - len(received)
