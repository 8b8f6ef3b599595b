"""A FIFO queue with partitions: each is a queue of its own, in its own group.

The queue itself (metadata, policy, rate limits, who waits) lives in its home group; messages,
deduplication, counters and generations live in the partitions. No operation on a message crosses
groups.
"""

from collections.abc import Sequence

from fastnode import native
from fastnode.queue.fifo_live import FifoQueue
from fastnode.queue.live import Counts, LiveQueue
from fastnode.queue.long_poll import Alarm
from fastnode.store.group import Group
from fastnode.store.keyspace import PartitionKeys, QueueKeys
from fastnode.store.records import NO_GENERATION, Generation, QueueRecord, decode_generation


def partition_generation(group: Group, keys: PartitionKeys) -> Generation:
    stored = group.get(keys.generation)
    return NO_GENERATION if stored is None else decode_generation(stored)


class Partition(FifoQueue):
    """One partition. Who waits for its messages waits for those of the whole queue."""

    def __init__(
        self, front: "PartitionedQueue", group: Group, partition: int, alarm: Alarm
    ) -> None:
        keys = PartitionKeys(front.keys, partition)
        generation = partition_generation(group, keys).number
        super().__init__(group, keys, generation, front.record, alarm, partition)
        self.waiters = front.waiters
        self._front = front

    def _set_alarm(self, _now: int) -> None:
        self._front.set_alarm()


class PartitionedQueue(LiveQueue):
    _partitions: Sequence[Partition] = ()
    _first = 0

    def __init__(
        self,
        groups: Sequence[Group],
        keys: QueueKeys,
        home: Group,
        generation: int,
        record: QueueRecord,
        alarm: Alarm,
    ) -> None:
        super().__init__(home, keys, generation, record, alarm)
        self._partitions = [
            Partition(self, groups[number], partition, alarm)
            for partition, number in enumerate(record.partition_groups)
        ]

    def change(self, record: QueueRecord) -> None:
        super().change(record)
        for partition in self._partitions:
            partition.change(record)

    @property
    def shards(self) -> Sequence[LiveQueue]:
        return self._partitions

    def shard_for(self, group_id: str) -> LiveQueue:
        record = self.record
        return self._partitions[
            native.partition_for(group_id, record.hash_seed, record.partition_count, False)
        ]

    def rotated(self) -> list[LiveQueue]:
        """The partitions, beginning with another one each time, so that none starves."""
        self._first = (self._first + 1) % len(self._partitions)
        return [*self._partitions[self._first :], *self._partitions[: self._first]]

    @property
    def is_idle(self) -> bool:
        return all(partition.is_idle for partition in self._partitions)

    def counts(self, now: int) -> Counts:
        every = [partition.counts(partition.group.now()) for partition in self._partitions]
        return Counts(*(sum(column) for column in zip(*every, strict=True)))

    def has_available(self) -> bool:
        return any(partition.has_available() for partition in self._partitions)

    def set_alarm(self) -> None:
        self._set_alarm(self.group.now())

    def _catch_up(self, _now: int) -> None:
        """Each partition does when it is asked."""

    def _is_due(self, _now: int) -> bool:
        return self.has_available()

    def next_at(self) -> int | None:
        times = [partition.next_at() for partition in self._partitions]
        return min((at for at in times if at is not None), default=None)
