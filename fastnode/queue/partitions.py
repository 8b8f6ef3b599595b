"""A FIFO queue with partitions: each is a queue of its own, in its own group.

The queue itself (metadata, policy, rate limits, who waits) lives in its home group; messages,
deduplication, counters and generations live in the partitions. No operation on a message crosses
groups.
"""

from collections.abc import Iterable, Sequence

from fastnode import native
from fastnode.errors import NotLed
from fastnode.native import Receipt
from fastnode.queue.choice import Counts
from fastnode.queue.fifo_live import FifoQueue
from fastnode.queue.live import LiveQueue
from fastnode.queue.long_poll import Alarm
from fastnode.queue.partition_groups import partition_secret
from fastnode.queue.read_ahead import Keeper, ReadAhead
from fastnode.store.group import Group
from fastnode.store.keyspace import PartitionKeys, QueueKeys
from fastnode.store.records import (
    NO_GENERATION,
    Generation,
    QueueRecord,
    decode_generation,
    decode_queue,
)


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
        record, read_ahead = front.record, front.read_ahead
        super().__init__(group, keys, generation, record, alarm, read_ahead, partition)
        self.waiters = front.waiters
        self._front = front

    def _set_alarm(self, _now: int) -> None:
        self._front.set_alarm()

    def _ring(self) -> None:
        """Who waits does so by the time of the queue's own group, and this one's may be ahead."""
        self._catch_up(self.group.now())
        self._front.ring()


class PartitionedQueue(LiveQueue):
    """The queue as a whole, and those of its partitions that this node leads."""

    _first_place = 0
    _first_shard = 0

    def __init__(
        self,
        groups: Sequence[Group],
        keys: QueueKeys,
        home: Group,
        generation: int,
        record: QueueRecord,
        alarm: Alarm,
        read_ahead: ReadAhead,
    ) -> None:
        self._groups = groups
        self._partitions: dict[int, Partition] = {}
        super().__init__(home, keys, generation, record, alarm, read_ahead)
        self.is_confirmed = False

    def change(self, record: QueueRecord) -> None:
        super().change(record)
        # Whoever is woken meanwhile may find out that another one is led here.
        for partition in tuple(self._partitions.values()):
            partition.change(record)

    def follow(self, stored: bytes | None) -> bool:
        """Who waits goes on waiting while the queue is the same, whatever its attributes."""
        if stored == self.stored:
            return True
        record = None if stored is None else decode_queue(stored)
        if stored is None or record is None or record.incarnation != self.record.incarnation:
            return False
        self.stored = stored
        self.change(record)
        return True

    def lose(self, group: Group) -> bool:
        kept = {at: one for at, one in self._partitions.items() if one.group is not group}
        has_lost, self._partitions = len(kept) < len(self._partitions), kept
        self.is_confirmed = False
        if self.group is group and not self.follow(group.get(self.keys.meta)):
            self.close()
            return True
        if has_lost:
            # Whoever waits looks again, at whoever leads now.
            for _ in range(len(self.waiters)):
                self.waiters.wake_one()
        return False

    def group_at(self, partition: int) -> Group:
        return self._groups[self.record.partition_groups[partition]]

    def open_receipts(self, handles: Sequence[str]) -> list[Receipt | None]:
        return [self._opened(handle) for handle in handles]

    def _opened(self, handle: str) -> Receipt | None:
        """Each partition signs for itself."""
        try:
            receipt = native.decode_receipt(handle)
        except ValueError:
            return None
        if not self.has_partition(receipt.partition):
            return None
        secret = partition_secret(self.record.secret, receipt.partition)
        return receipt if native.receipt_is_genuine(secret, receipt) else None

    def has_partition(self, partition: int) -> bool:
        return 0 <= partition < self.record.partition_count

    def shard_at(self, number: int) -> Partition | None:
        """None: another node leads it, or this one does not know yet whether the queue that it
        believes in still exists.
        """
        partition = self._partitions.get(number)
        if partition is not None:
            return partition
        group = self.group_at(number)
        if not group.is_ready or not (self.is_confirmed or self.group.is_readable):
            return None
        partition = self._partitions[number] = Partition(self, group, number, self._alarm)
        return partition

    @property
    def partition_numbers(self) -> Sequence[int]:
        return range(self.record.partition_count)

    @property
    def shards(self) -> Sequence[LiveQueue]:
        return [one for at in self.partition_numbers if (one := self.shard_at(at)) is not None]

    @property
    def keepers(self) -> Iterable[Keeper]:
        return [keeper for one in self._partitions.values() for keeper in one.keepers]

    def others(self) -> list[Group]:
        groups = map(self.group_at, self.partition_numbers)
        return list({group.leader: group for group in groups if not group.leads}.values())

    def doubt(self, partition: int) -> None:
        """The queue is being deleted, or was and is being made anew."""
        self._partitions.pop(partition, None)
        self.is_confirmed = False

    @property
    def is_led_here(self) -> bool:
        """As a whole."""
        return len(self.shards) == self.record.partition_count

    def next_place(self, count: int) -> int:
        """Where of so many places to look first: at another one each time, so that none starves."""
        self._first_place += 1
        return self._first_place % count

    def partition_for(self, group_id: str) -> int:
        record = self.record
        return native.partition_for(group_id, record.hash_seed, record.partition_count, False)

    def shard_for(self, group_id: str) -> LiveQueue:
        shard = self.shard_at(self.partition_for(group_id))
        if shard is None:
            raise NotLed("the partition has no leader here")
        return shard

    def rotated(self) -> list[LiveQueue]:
        """The partitions, beginning with another one each time, so that none starves."""
        shards = self.shards
        self._first_shard += 1
        first = self._first_shard % max(len(shards), 1)
        return [*shards[first:], *shards[:first]]

    @property
    def is_idle(self) -> bool:
        return not self.waiters and all(one.is_idle for one in self._partitions.values())

    def counts(self, now: int) -> Counts:
        """Of what is led here."""
        every = [shard.counts(shard.group.now()) for shard in self.shards]
        return Counts(*map(sum, zip(*every, strict=True))) if every else Counts(0, 0, 0)

    def has_available(self) -> bool:
        return any(shard.has_available() for shard in self.shards)

    def set_alarm(self) -> None:
        self._set_alarm(self.group.now())

    def ring(self) -> None:
        self._ring()

    def _catch_up(self, _now: int) -> None:
        """Each partition does when it is asked."""

    def _is_due(self, _now: int) -> bool:
        return self.has_available()

    def next_at(self) -> int | None:
        """By the clock of the home group, which alarms are set by: a partition's may be behind, and
        its own time would ring and ring.
        """
        now, times = self.group.now(), [(one.next_at(), one.group.now()) for one in self.shards]
        return min((now + at - its_now for at, its_now in times if at is not None), default=None)
