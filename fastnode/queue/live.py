"""The leader's memory of one queue: what it is, what a receive can choose from, who waits.

Built at the queue's first use, follows the applied state (handlers report what their transactions
did, in log order), and can be thrown away at any time: everything in it can be read again from the
engine.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

from fastnode import config, native
from fastnode.native import (
    MESSAGE_MOVED,
    HandoutKeys,
    MessageRecord,
    PlannedSend,
    Receipt,
    SendKeys,
)
from fastnode.queue.attributes import settings_of
from fastnode.queue.caller import Caller
from fastnode.queue.choice import DEAD_MAX, PASSED_OVER_MAX, Choice, Counts, Taken
from fastnode.queue.fair import Tenants
from fastnode.queue.long_poll import Alarm, Waiter, Waiters
from fastnode.queue.pages import timer_page, waiting_page
from fastnode.queue.partition_groups import partition_secret
from fastnode.queue.policy import policy_of
from fastnode.queue.read_ahead import Keeper, ReadAhead
from fastnode.queue.throttle import Throttle, throttle_of
from fastnode.queue.timers import Timer, Timers
from fastnode.queue.traffic import Traffic
from fastnode.queue.waiting import Item, Waiting
from fastnode.store.group import Group
from fastnode.store.keyspace import MessageKeys, QueueKeys
from fastnode.store.records import QueueRecord
from fastnode.store.txn import Txn

# No message is stored at the beginning of time.
NO_POSITION: Final = 0


class LiveQueue(Traffic):
    def __init__(
        self,
        group: Group,
        keys: QueueKeys,
        generation: int,
        record: QueueRecord,
        alarm: Alarm,
        read_ahead: ReadAhead,
        partition: int = native.UNPARTITIONED,
    ) -> None:
        super().__init__()
        self.group = group
        self.keys = keys
        self.generation_key = keys.generation
        # Who was last found to call a queue of his own by it.
        self.owner: Caller | None = None
        self.partition = partition
        self.account, self.region, self.name = native.split_queue_segment(keys.segment)
        # The metadata as stored, to see whether another leader has changed them.
        self.stored = b""
        # Whether it is known to exist; of a queue that is led here that goes without saying.
        self.is_confirmed = True
        self._alarm = alarm
        self.read_ahead = read_ahead
        self.waiters = Waiters()
        self.throttle: Throttle | None = None
        # Receives whose messages were answered to another attempt of their call.
        self.answered_again: OrderedDict[int, None] = OrderedDict()
        self.change(record)
        self.restart(generation)

    def change(self, record: QueueRecord) -> None:
        """Attributes were set."""
        self.record = record
        self.settings = settings_of(record.attributes)
        self.policy = policy_of(record.attributes)
        self.throttle = throttle_of(self.settings.limits, self.throttle)
        self.receipt_secret = partition_secret(record.secret, self.partition)

    def restart(self, generation: int) -> None:
        """The queue was purged: nothing of the old generation counts any more."""
        self.generation = generation
        keys = self.messages = MessageKeys(self.keys.segment, generation, self.partition)
        self.send_keys = SendKeys(self.keys.generation, keys.total, keys.data)
        self.handout_keys = HandoutKeys(
            self.keys.generation, keys.places, keys.total, keys.in_flight, keys.mark
        )
        mark = self.group.get(self.messages.mark)
        self.waiting = Waiting(int.from_bytes(mark or b"", "big"), self.read_ahead)
        self._waiting_end = native.prefix_end(self.messages.data)
        self.timers = Timers()
        self.tenants: Tenants | None = None
        # Rows that receives have looked at so far.
        self.scanned = 0
        # Retention has removed everything before it; see retention.py.
        self.swept_to = 0
        # No message was found before it; see `oldest_of`.
        self.oldest = NO_POSITION
        self._has_arrivals = self.group.counter(self.messages.arrived) > 0

    def close(self) -> None:
        """The queue was deleted."""
        self._alarm.clear()
        self.waiters.end_all()

    def lose(self, group: Group) -> bool:
        """The lead of a group has changed; True if the queue must be read anew."""
        if self.group is group:
            self.close()
        return self.group is group

    def follow(self, stored: bytes | None) -> bool:
        """Somebody else leads: is this still the queue that is stored?"""
        return stored == self.stored

    @property
    def shards(self) -> Sequence["LiveQueue"]:
        """What of it is led here: itself, or some of its partitions."""
        return (self,)

    @property
    def keepers(self) -> Iterable[Keeper]:
        """Of messages that nobody has asked for yet."""
        return (self.waiting,)

    @property
    def partition_numbers(self) -> Sequence[int]:
        return (self.partition,)

    def shard_for(self, _group_id: str) -> "LiveQueue":
        return self

    def partition_for(self, _group_id: str) -> int:
        return self.partition

    def group_at(self, _partition: int) -> Group:
        return self.group

    def shard_at(self, _partition: int) -> "LiveQueue | None":
        """None: another node leads it."""
        return self

    def others(self) -> list[Group]:
        """For each other node that leads a part of the queue, a group that it leads."""
        return []

    def has_partition(self, partition: int) -> bool:
        return partition == self.partition

    def open_receipts(self, handles: Sequence[str]) -> list[Receipt | None]:
        """What its own handles say; None for all others."""
        return native.open_receipts(self.receipt_secret, self.partition, handles)

    def tell_tenants_apart(self, commit_ts: int) -> None:
        """What is planned from that time on is filed under its tenant; see `fair.py`."""

    @property
    def is_idle(self) -> bool:
        return not self.waiters and not self.waiting.has_claims

    @property
    def delay(self) -> int:
        """The queue's own delay, in the clock's unit."""
        return self.settings.delay_seconds * 1000 << 16

    # --- choosing ----------------------------------------------------------------------------

    def choose(self, limit: int, now: int, receives_max: int = 0) -> Choice:
        """Claim up to `limit` messages: due ones first, in send order, then the never received.

        What was received `receives_max` times is a dead letter; 0 means that there are none.
        """
        choice = Choice([], [], [])
        self._catch_up(now)
        if self.timers.has_due:
            self._choose_due(limit, now, receives_max, choice)
        while wanted := min(limit - len(choice.messages), PASSED_OVER_MAX - len(choice.expired)):
            items = self.waiting.take(wanted)
            if not items:
                if not self.waiting.needs_page:
                    break
                self._load_waiting()
                continue
            self.scanned += len(items)
            for position, stored in items:
                taken = Taken(position, stored, native.decode_message(stored), None)
                is_expired = self._is_expired(taken, now)
                (choice.expired if is_expired else choice.messages).append(taken)
        return choice

    def give_back(self, choice: Choice) -> None:
        """The receive failed: what it claimed is available again, in its old place."""
        claimed = sorted(choice.all)
        self.waiting.put_back([(t.position, t.stored) for t in claimed if t.state is None])
        for taken in claimed:
            if taken.state is not None:
                self.timers.put_back(taken.position, was_received=taken.state.nonce > 0)

    def settled(self, choice: Choice) -> None:
        """The receive is through; what it did to each message was reported before."""

    def claim(self, position: int) -> int:
        """Waiting messages from there on are being taken; see `Waiting.claim`."""
        return self.waiting.claim(position)

    def withdraw(self, positions: Collection[int], through: int) -> None:
        self.waiting.withdraw(positions, through)

    def withdrawn(self, positions: Collection[int], remaining: Sequence[Item]) -> None:
        self.waiting.withdrawn(positions, remaining)

    def has_available(self) -> bool:
        return self.timers.has_due or self.waiting.has_messages

    def counts(self, now: int) -> Counts:
        """Stored sums, corrected by what became visible through time alone."""
        self._catch_up(now)
        counter, messages, timers = self.group.counter, self.messages, self.timers
        in_flight = counter(messages.in_flight) - timers.due_received
        delayed = counter(messages.delayed) - timers.due_delayed
        return Counts(counter(messages.total) - in_flight - delayed, in_flight, delayed)

    def _choose_due(self, limit: int, now: int, receives_max: int, choice: Choice) -> None:
        latched: list[tuple[int, bool]] = []
        aside = 0
        while (
            len(choice.messages) < limit
            and len(latched) + len(choice.expired) + aside < PASSED_OVER_MAX
            and len(choice.dead) < DEAD_MAX
        ):
            due = self.timers.take()
            if due is None:
                break
            self.scanned += 1
            if self.group.latches.is_held(self.messages.state_key(due[0])):
                latched.append(due)
                continue
            (taken,) = self._read((due[0],))
            assert taken.state is not None, "a timer without its message"
            if self._admits(taken.record, due, now):
                self._sort_out(taken, now, receives_max, choice)
            else:
                aside += 1
        for position, was_received in latched:
            self.timers.put_back(position, was_received=was_received)

    def _read(self, positions: Sequence[int]) -> Iterator[Taken]:
        keys, count = self.messages, len(positions)
        wanted = [keys.state_key(position) for position in positions]
        wanted += [keys.data_key(position) for position in positions]
        found = self.group.get_many(wanted)
        for position, state, stored in zip(positions, found[:count], found[count:], strict=True):
            assert stored is not None, "an index row without its message"
            decoded = None if state is None else native.decode_state(state)
            yield Taken(position, stored, native.decode_message(stored), decoded)

    def _admits(self, _record: MessageRecord, _due: tuple[int, bool], _now: int) -> bool:
        """Whether a due message may be taken now."""
        return True

    def _sort_out(self, taken: Taken, now: int, receives_max: int, choice: Choice) -> None:
        if self._is_expired(taken, now):
            choice.expired.append(taken)
        elif receives_max and taken.receives_here >= receives_max:
            choice.dead.append(taken)
        else:
            choice.messages.append(taken)

    def _is_expired(self, taken: Taken, now: int) -> bool:
        return taken.record.sent_ms + self.settings.retention_ms <= now >> 16

    def _catch_up(self, now: int) -> None:
        while self.timers.needs_page(now):
            page = timer_page(self.group, self.messages, self.timers.horizon)
            self.timers.load(page, is_last=len(page) < config.TIMER_PAGE)
            self.timers.advance(now)
        self.timers.advance(now)

    def _load_waiting(self) -> None:
        waiting, end, limit = self.waiting, self._waiting_end, self.waiting.page_rows
        rows, taken = waiting_page(self.group, self.messages, waiting.next_position, end, limit)
        waiting.load(rows, taken, is_last=len(rows) < limit)

    # --- what transactions did ---------------------------------------------------------------

    def added(self, messages: Iterable[PlannedSend]) -> None:
        waiting = self.waiting
        for _, _, position, record in messages:
            waiting.append(position, record)
        self._announce()

    def added_plain(self, position: int, records: Sequence[bytes]) -> None:
        self.messages_in += len(records)
        if self.tenants is not None:
            self.added([PlannedSend("", "", position + n, one) for n, one in enumerate(records)])
            return
        self.waiting.extend(position, records)
        self._announce()

    def _announce(self) -> None:
        """Messages came; more may come in the same moment."""
        if self.waiters:
            self.group.afterwards(self.waiters.wake_one)

    def scheduled(self, timers: Iterable[Timer]) -> None:
        """Messages were delayed, received, had their visibility changed, or came back."""
        for timer in timers:
            self.timers.schedule(timer)
            self.swept_to = min(self.swept_to, timer.position)
            self.oldest = min(self.oldest, timer.position)
        if self.waiters:
            self._ring()

    def handed_out(self, positions: tuple[int, ...], visible_at: int) -> None:
        """As `scheduled`, for what one receive took."""
        self.deliveries += len(positions)
        self.timers.hide(positions, visible_at, True)
        if self.swept_to:
            self.swept_to = min(self.swept_to, *positions)
        if self.waiters:
            self._ring()

    def removed(self, positions: Collection[int]) -> None:
        self.messages_out += len(positions)
        self.timers.forget(positions)

    def applied(self, txn: Txn) -> None:
        """A transaction that may have changed what is deliverable is through."""

    def arrived(self, messages: Collection[PlannedSend]) -> None:
        """Messages came from another queue."""
        self._has_arrivals = True
        self.messages_in += len(messages)
        self.added(messages)

    # --- finding a message ---------------------------------------------------------------------

    def position_of(self, message_id: bytes) -> int:
        """Where a message is, or `NO_POSITION`. In another queue an id names another's position."""
        commit_ts, entry = native.message_id_position(message_id)
        position = commit_ts << 16 | entry
        if not self._has_arrivals:
            return position
        stored = self.group.get(self.messages.id_key(message_id))
        if stored is not None:
            return int.from_bytes(stored, "big")
        record = self.group.get(self.messages.data_key(position))
        is_own = record is not None and native.decode_message(record).message_id == message_id
        return position if is_own else NO_POSITION

    def indexed_record(self, position: int) -> MessageRecord | None:
        """The message there, if it has rows that are found by its content: it came from another
        queue.
        """
        stored = self.group.get(self.messages.data_key(position)) if self._has_arrivals else None
        record = None if stored is None else native.decode_message(stored)
        return record if record is not None and record.flags & MESSAGE_MOVED else None

    def times_of(self, positions: Iterable[int]) -> dict[int, int] | None:
        """Until when received messages are hidden, from memory; None if that must be read."""
        return None if self._has_arrivals else self.timers.times_of(positions)

    # --- waiting for a message ---------------------------------------------------------------

    def wait(self, deadline_ms: int, told: Callable[[bool], None] | None = None) -> Waiter:
        waiter = self.waiters.join(deadline_ms, told)
        self._set_alarm(self.group.now())
        return waiter

    def _ring(self) -> None:
        now = self.group.now()
        self._catch_up(now)
        # First: after a pause the same moment may end a wait and bring what it was for.
        if self._is_due(now):
            self.waiters.wake_one()
        self.waiters.expire(now >> 16)
        self._set_alarm(now)

    def _is_due(self, _now: int) -> bool:
        """Whether time alone has made a message available."""
        return self.timers.has_due

    def next_at(self) -> int | None:
        """When time alone will."""
        return self.timers.next_at()

    def _set_alarm(self, now: int) -> None:
        deadline_ms = self.waiters.next_deadline_ms()
        if deadline_ms is None:
            self._alarm.clear()
            return
        next_at = self.next_at()
        if next_at is not None:
            # A timer is due once the clock has passed its counter bits too: the millisecond after.
            deadline_ms = min(deadline_ms, (next_at >> 16) + 1)
        self._alarm.set(deadline_ms, now >> 16, self._ring)
