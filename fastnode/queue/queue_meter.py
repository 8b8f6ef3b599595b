"""How deep queues are, and how old their oldest message, for the metrics: of the deepest ones only,
since a line for each of a hundred thousand would bury whoever reads them.

Theory of operation. To count all queues at every look would take too long. A look goes on through
the stored names where the last one ended, for some hundred queues, and keeps the deepest of these
and of those it knew before. So a queue that has become deep is found after a few looks at most.
"""

import heapq
from collections.abc import Iterator
from typing import Final

from fastnode import config, native
from fastnode.queue.live import NO_POSITION, LiveQueue
from fastnode.queue.retention import oldest_of
from fastnode.queue.service import Service
from fastnode.store.group import Group
from fastnode.store.keyspace import COUNT_TOTAL, QueueKeys
from fastnode.store.records import decode_generation, decode_queue

_END_OF_NAMES: Final = native.prefix_end(native.FAMILY_META)
_MS_PER_SECOND: Final = 1_000
_STATES: Final = ("visible", "in_flight", "delayed")

Name = tuple[str, str, str]


class QueueMeter:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._known: list[Name] = []
        self._group_at = 0
        self._stored_at = native.FAMILY_META

    def metrics(self) -> dict[str, float]:
        live = self._service.live_queues()
        found: dict[str, float] = {
            "fastnode_queues_in_memory": len(live),
            "fastnode_long_polls_waiting": sum(len(queue.waiters) for queue in live),
        }
        candidates = dict.fromkeys((*self._known, *self._page()))
        depths = [(self._depth(name), name) for name in candidates]
        deepest = heapq.nlargest(config.METRIC_QUEUES_MAX, depths)
        self._known = [name for depth, name in deepest if depth]
        shown = [(name, self._service.find(*name)) for name in self._known]
        messages: dict[str, float] = {}
        ages: dict[str, float] = {}
        for name, queue in shown:
            if queue is not None:
                label = _label(name)
                for state, count in self._counts(queue).items():
                    messages[f'fastnode_queue_messages{{{label},state="{state}"}}'] = count
                ages[f"fastnode_queue_oldest_seconds{{{label}}}"] = self._age(queue)
        return found | messages | ages

    # --- which queues ---------------------------------------------------------------------------

    def _page(self) -> Iterator[Name]:
        """The names that come next, of groups that are led here."""
        groups, left = self._service.groups, config.METRIC_QUEUES_LOOK
        for _ in groups:
            group = groups[self._group_at]
            rows = group.scan(self._stored_at, _END_OF_NAMES, left) if group.is_ready else []
            for key, _ in rows:
                yield native.split_queue_segment(key[len(native.FAMILY_META) :])
            if rows and len(rows) == left:
                self._stored_at = rows[-1][0] + b"\x00"
                return
            left -= len(rows)
            self._stored_at = native.FAMILY_META
            self._group_at = (self._group_at + 1) % len(groups)

    def _depth(self, name: Name) -> int:
        """All messages of a queue, or of as much of it as is led here; without loading it."""
        keys = QueueKeys(*name)
        group = self._service.group_of(keys)
        stored = group.get(keys.meta) if group.is_ready else None
        if stored is None:
            return 0
        record = decode_queue(stored)
        parts = list(enumerate(record.partition_groups)) or [(native.UNPARTITIONED, group.number)]
        generation = decode_generation(group.get(keys.generation) or b"").number
        return sum(
            self._total(self._service.groups[number], keys, generation, partition)
            for partition, number in parts
        )

    def _total(self, group: Group, keys: QueueKeys, generation: int, partition: int) -> int:
        if not group.is_ready:
            return 0
        family = native.FAMILY_COUNTER
        counters = native.scope_prefix(family, keys.segment, generation, partition)
        return group.counter(native.counter_key(counters, COUNT_TOTAL))

    # --- what about them ------------------------------------------------------------------------

    def _counts(self, queue: LiveQueue) -> dict[str, int]:
        counts = dict.fromkeys(_STATES, 0)
        for shard in _led(queue):
            for state, count in zip(_STATES, shard.counts(shard.group.now()), strict=True):
                counts[state] += max(count, 0)
        return counts

    def _age(self, queue: LiveQueue) -> float:
        ages_ms = [0]
        for shard in _led(queue):
            position = oldest_of(shard)
            if position != NO_POSITION:
                ages_ms.append((shard.group.now() >> 16) - (position >> 32))
        return max(ages_ms) / _MS_PER_SECOND


def _led(queue: LiveQueue) -> list[LiveQueue]:
    return [shard for shard in queue.shards if shard.group.is_ready]


def _label(name: Name) -> str:
    """Names have no character that would have to be escaped."""
    account, region, queue = name
    return f'account="{account}",region="{region}",queue="{queue}"'
