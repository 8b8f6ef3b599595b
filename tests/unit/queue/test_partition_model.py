"""Random histories on a queue with partitions: the real handlers and store against the model of a
FIFO queue.

The four rules hold in each partition, so for each message group; the order between partitions is
free. In which order a receive looked at them is read from the queue: the model takes it from
there, and then agrees on every delivery. Everything else is as in `test_fifo_model.py`.

Each partition has a clock of its own, so nobody can say which of two came first within one
millisecond. So calls are made on a grid of time, and never in the millisecond in which something
becomes visible.
"""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from fastnode import config, native
from fastnode.queue import api
from fastnode.queue.live import LiveQueue
from fastnode.queue.partitions import PartitionedQueue
from tests.unit.queue.fifo_history import RETENTION_SECONDS
from tests.unit.queue.fifo_model import MS, SECOND, Attempt, Chosen, FifoModel, Message
from tests.unit.queue.fifo_world import FifoWorld
from tests.unit.queue.test_fifo_model import FifoHistory
from tests.unit.queue.test_partitions import HIGH_THROUGHPUT

GRID_MS = 10


class PartitionModel(FifoModel):
    """`order` names the partitions in the order in which the last receive looked at them."""

    def __init__(
        self, delay: int, place: Callable[[str], int], order: Callable[[], Sequence[int]]
    ) -> None:
        super().__init__(delay, RETENTION_SECONDS * SECOND, dedup_per_group=True)
        self._place = place
        self._order = order

    def place(self, group: str) -> int:
        return self._place(group)

    def choose(self, now: int, limit: int) -> Chosen:
        chosen = Chosen()
        for place in self._order():
            own = [message for message in self.messages if self.place(message.group) == place]
            part = self.choose_among(own, now, limit - len(chosen.delivered))
            chosen.delivered += part.delivered
            chosen.expired += part.expired
        return chosen

    def repeated(self, attempt_id: str, now: int) -> Attempt | None:
        """Each partition gives again what it gave, if all of that is untouched."""
        whole = self.attempts.get(attempt_id)
        if whole is None:
            return None
        kept: list[tuple[int, Attempt]] = []
        for place in sorted({self.place(message.group) for message, _ in whole.handles}):
            own = [taken for taken in whole.handles if self.place(taken[0].group) == place]
            self.attempts[attempt_id] = Attempt(whole.began, whole.due, own)
            part = super().repeated(attempt_id, now)
            kept += [] if part is None else [(place, part)]
        self.attempts[attempt_id] = whole
        handles = [taken for _, part in kept for taken in part.handles]
        return Attempt(whole.began, whole.due, handles) if kept else None


class PartitionHistory(FifoHistory):
    partitions = 2
    groups = 2

    @initialize(scope=st.just("messageGroup"), delay=st.sampled_from([0, 0, 2]))
    def start(self, scope: str, delay: int) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(config, "READY_PAGE", self.ready_page)
        assert scope == HIGH_THROUGHPUT["DeduplicationScope"]
        self.world = FifoWorld(
            self.groups,
            **HIGH_THROUGHPUT,
            PartitionCount=str(self.partitions),
            DelaySeconds=str(delay),
            MessageRetentionPeriod=str(RETENTION_SECONDS),
        )
        self.watch_turns()
        self.model = PartitionModel(delay * SECOND, self.place, lambda: self.order)
        self.begun = []
        self.poll = None
        self.handles = []
        self.sent = 0
        self.last_numbers = {}
        self.advance(1)

    def place(self, group: str) -> int:
        record = self.queue.record
        return native.partition_for(group, record.hash_seed, record.partition_count, False)

    def watch_turns(self) -> None:
        """Remember in which order each receive looks at the partitions."""
        self.order: Sequence[int] = range(self.partitions)
        rotated = PartitionedQueue.rotated

        def watched(queue: PartitionedQueue) -> list[LiveQueue]:
            shards = rotated(queue)
            self.order = [shard.partition for shard in shards]
            assert sorted(self.order) == list(range(self.partitions))
            return shards

        self.patch.setattr(PartitionedQueue, "rotated", watched)

    # --- time on a grid ------------------------------------------------------------------------

    def advance(self, milliseconds: int) -> None:
        super().advance(milliseconds)
        while self.world.now_ms % GRID_MS or self.now in self.visible_at(self.model.delay):
            super().advance(1)

    def visible_at(self, delay: int) -> set[int]:
        """The milliseconds in which messages become or became visible, with such a delay."""
        return {
            (message.sent + delay if message.due is None else message.due) // MS * MS
            for message in self.model.messages
        }

    def is_on_the_grid(self) -> bool:
        """What a poll was given in another millisecond is visible again, or in other hands; and
        nothing becomes visible in this one, in which nobody can say whether it has.
        """
        times = self.visible_at(self.model.delay)
        ahead = [at for at in times if at > self.now]
        return self.now not in times and all(at // MS % GRID_MS == 0 for at in ahead)

    @precondition(lambda self: self.poll is None and self.is_on_the_grid())
    @rule(wait=st.sampled_from([1, 5, 20]))
    def begin_poll(self, wait: int) -> None:
        # What was only begun is known, and when it becomes visible, once it is committed.
        self.commit()
        self.advance(0)
        if self.is_on_the_grid():
            super().begin_poll(wait)

    # --- while a poll waits --------------------------------------------------------------------
    # What one call does to several partitions is done in several logs, one after the other, and
    # the first may wake the poll before the others. So then a call is about one partition only.

    def entries(
        self, names: Sequence[tuple[str, str | None]]
    ) -> list[api.SendMessageBatchRequestEntry]:
        if self.poll is not None:
            names = [name for name in names if self.place(name[0]) == self.place(names[0][0])]
        return super().entries(names)

    def drawn(self, data: st.DataObject, count: int) -> list[tuple[Message, str]]:
        drawn = super().drawn(data, count)
        if self.poll is None:
            return drawn
        place = self.place(drawn[0][0].group)
        return [one for one in drawn if self.place(one[0].group) == place]

    def sweep(self, alone: bool) -> None:
        if self.poll is None:
            super().sweep(alone)

    def change_delay(self, seconds: int) -> None:
        if self.poll is None and self.now not in self.visible_at(seconds * SECOND):
            super().change_delay(seconds)


class OnePartition(PartitionHistory):
    """The attributes of a queue with partitions, and a home that is any group."""

    partitions = 1
    groups = 3


class TwoPartitionsInSmallPages(PartitionHistory):
    ready_page = 1


class ManyPartitions(PartitionHistory):
    """More partitions than groups: several live together."""

    partitions = 32
    groups = 3


_SETTINGS = settings(max_examples=20, stateful_step_count=40, deadline=None)
TestOnePartition = OnePartition.TestCase
TestOnePartition.settings = settings(_SETTINGS, max_examples=15)
TestTwoPartitions = PartitionHistory.TestCase
TestTwoPartitions.settings = _SETTINGS
TestTwoPartitionsInSmallPages = TwoPartitionsInSmallPages.TestCase
TestTwoPartitionsInSmallPages.settings = settings(_SETTINGS, max_examples=15)
TestManyPartitions = ManyPartitions.TestCase
TestManyPartitions.settings = _SETTINGS
