"""The leader's memory of one queue: what it is, what a receive can choose from, who waits.

Built at the queue's first use, follows the applied state (handlers report what their transactions
did, in log order), and can be thrown away at any time: everything in it can be read again from the
engine.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from fastnode import config, native
from fastnode.native import MessageRecord, MessageState, PlannedSend
from fastnode.queue.attributes import settings_of
from fastnode.queue.long_poll import Alarm, Waiter, Waiters
from fastnode.queue.timers import Timer, Timers
from fastnode.queue.waiting import Waiting
from fastnode.store.group import Group
from fastnode.store.keyspace import MessageKeys, QueueKeys
from fastnode.store.records import QueueRecord

TIMER_DELAYED: Final = b"\x00"
TIMER_RECEIVED: Final = b"\x01"
_FIRST_PAGE_ROWS: Final = 16
# A receive that meets more expired or latched messages than this leaves the rest to the next one.
_PASSED_OVER_MAX: Final = 64


class Taken(NamedTuple):
    """A message that a receive claims. `state` is None if nobody has received it before."""

    position: int
    stored: bytes
    record: MessageRecord
    state: MessageState | None


class Choice(NamedTuple):
    messages: list[Taken]
    expired: list[Taken]


class Counts(NamedTuple):
    visible: int
    in_flight: int
    delayed: int


class LiveQueue:
    def __init__(
        self, group: Group, keys: QueueKeys, generation: int, record: QueueRecord, alarm: Alarm
    ) -> None:
        self.group = group
        self.keys = keys
        self.account, self.region, self.name = native.split_queue_segment(keys.segment)
        self._alarm = alarm
        self.waiters = Waiters()
        self.change(record)
        self.restart(generation)

    def change(self, record: QueueRecord) -> None:
        """Attributes were set."""
        self.record = record
        self.settings = settings_of(record.attributes)

    def restart(self, generation: int) -> None:
        """The queue was purged: nothing of the old generation counts any more."""
        self.generation = generation
        self.messages = MessageKeys(self.keys.segment, generation)
        mark = self.group.get(self.messages.mark)
        self.waiting = Waiting(int.from_bytes(mark or b"", "big"))
        self.timers = Timers()
        self._page_rows = _FIRST_PAGE_ROWS

    def close(self) -> None:
        """The queue was deleted."""
        self._alarm.clear()
        self.waiters.end_all()

    @property
    def is_idle(self) -> bool:
        return not self.waiters and not self.waiting.has_claims

    # --- choosing ----------------------------------------------------------------------------

    def choose(self, limit: int, now: int) -> Choice:
        """Claim up to `limit` messages: due ones first, in send order, then the never received."""
        choice = Choice([], [])
        self._catch_up(now)
        if self.timers.has_due:
            self._choose_due(limit, now, choice)
        while len(choice.messages) < limit and len(choice.expired) < _PASSED_OVER_MAX:
            item = self.waiting.take()
            if item is None:
                if not self.waiting.needs_page:
                    break
                self._load_waiting()
                continue
            position, stored = item
            self._sort_out(
                Taken(position, stored, native.decode_message(stored), None), now, choice
            )
        return choice

    def give_back(self, choice: Choice) -> None:
        """The receive failed: what it claimed is available again, in its old place."""
        claimed = sorted(choice.messages + choice.expired)
        self.waiting.put_back([(t.position, t.stored) for t in claimed if t.state is None])
        for taken in claimed:
            if taken.state is not None:
                was_received = taken.state.receive_count > 0
                self.timers.put_back(taken.position, was_received=was_received)

    def has_available(self) -> bool:
        return self.timers.has_due or self.waiting.has_messages

    def counts(self, now: int) -> Counts:
        """Stored sums, corrected by what became visible through time alone."""
        self._catch_up(now)
        counter, messages, timers = self.group.counter, self.messages, self.timers
        in_flight = counter(messages.in_flight) - timers.due_received
        delayed = counter(messages.delayed) - timers.due_delayed
        return Counts(counter(messages.total) - in_flight - delayed, in_flight, delayed)

    def _choose_due(self, limit: int, now: int, choice: Choice) -> None:
        latched: list[tuple[int, bool]] = []
        while (
            len(choice.messages) < limit and len(latched) + len(choice.expired) < _PASSED_OVER_MAX
        ):
            due = self.timers.take()
            if due is None:
                break
            state_key = self.messages.state_key(due[0])
            if self.group.latches.is_held(state_key):
                latched.append(due)
                continue
            state, stored = self.group.get_many((state_key, self.messages.data_key(due[0])))
            assert state is not None and stored is not None, "a timer without its message"
            record = native.decode_message(stored)
            self._sort_out(Taken(due[0], stored, record, native.decode_state(state)), now, choice)
        for position, was_received in latched:
            self.timers.put_back(position, was_received=was_received)

    def _sort_out(self, taken: Taken, now: int, choice: Choice) -> None:
        is_expired = taken.record.sent_ms + self.settings.retention_ms <= now >> 16
        (choice.expired if is_expired else choice.messages).append(taken)

    def _catch_up(self, now: int) -> None:
        while self.timers.needs_page(now):
            start = self.messages.timer_key(self.timers.horizon, 0)
            end = native.prefix_end(self.messages.timer)
            rows = self.group.scan(start, end, config.TIMER_PAGE)
            page = [
                Timer(*self.messages.timer_of(key), flag == TIMER_RECEIVED) for key, flag in rows
            ]
            self.timers.load(page, is_last=len(page) < config.TIMER_PAGE)
            self.timers.advance(now)
        self.timers.advance(now)

    def _load_waiting(self) -> None:
        """The next page of records, without those that have state: received or delayed before the
        page was read.
        """
        keys, limit = self.messages, self._page_rows
        start = keys.data_key(self.waiting.next_position)
        stored = self.group.scan(start, native.prefix_end(keys.data), limit)
        rows = [(keys.position_of(key), record) for key, record in stored]
        taken: list[int] = []
        if rows:
            first, last = keys.state_key(rows[0][0]), keys.state_key(rows[-1][0] + 1)
            taken = [
                keys.state_position_of(key) for key in self.group.scan_keys(first, last, limit)
            ]
            self._page_rows = _next_page_rows(
                limit, sum(len(record) for _, record in rows) // len(rows)
            )
        self.waiting.load(rows, taken, is_last=len(rows) < limit)

    # --- what transactions did ---------------------------------------------------------------

    def added(self, messages: Iterable[PlannedSend]) -> None:
        append = self.waiting.append
        for _, _, position, record in messages:
            append(position, record)
        if self.waiters:
            self.waiters.wake_one()

    def scheduled(self, timer: Timer) -> None:
        """A message was delayed, received, or had its visibility changed."""
        self.timers.schedule(timer)
        if self.waiters:
            self._ring()

    def removed(self, position: int) -> None:
        self.timers.forget(position)

    # --- waiting for a message ---------------------------------------------------------------

    def wait(self, deadline_ms: int) -> Waiter:
        waiter = self.waiters.join(deadline_ms)
        self._set_alarm(self.group.now())
        return waiter

    def _ring(self) -> None:
        now = self.group.now()
        self._catch_up(now)
        self.waiters.expire(now >> 16)
        if self.timers.has_due:
            self.waiters.wake_one()
        self._set_alarm(now)

    def _set_alarm(self, now: int) -> None:
        deadline_ms = self.waiters.next_deadline_ms()
        if deadline_ms is None:
            self._alarm.clear()
            return
        next_at = self.timers.next_at()
        if next_at is not None:
            # A timer is due once the clock has passed its counter bits too: the millisecond after.
            deadline_ms = min(deadline_ms, (next_at >> 16) + 1)
        self._alarm.set(deadline_ms, now >> 16, self._ring)


def _next_page_rows(rows: int, average_bytes: int) -> int:
    """As many rows as fit the read-ahead buffer, approached from below: the first page may hold
    large bodies.
    """
    fitting = config.READ_AHEAD_BYTES // max(average_bytes, 1)
    return max(config.RECEIVE_MESSAGES_MAX, min(fitting, 4 * rows, config.READ_AHEAD_MESSAGES))
