"""The leader's memory of a FIFO queue: what its groups can deliver.

A group delivers its messages in order, up to the first that is invisible (in flight or delayed).
Groups take turns by the moment their first message became available. Both follow from stored rows
(`store/heads.py`); here is the mirror that makes choosing cheap, and who has taken which group.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from fastnode import config, native
from fastnode.native import (
    TOUCH,
    FifoDraft,
    FifoKeys,
    Head,
    MessageRecord,
    PlannedSend,
    place_plain,
)
from fastnode.queue.choice import Choice, Counts, Hidden, PlainChoice, Taken
from fastnode.queue.fifo_aside import when_changed
from fastnode.queue.fifo_delayed import count_delayed
from fastnode.queue.fifo_walk import Walk
from fastnode.queue.fullness import is_full
from fastnode.queue.live import LiveQueue
from fastnode.queue.plans import group_of
from fastnode.queue.read_ahead import Keeper
from fastnode.queue.waiting import Item
from fastnode.store.keyspace import split_head_key
from fastnode.store.records import QueueRecord
from fastnode.store.txn import Txn

# As many groups may be passed over because somebody is changing their first message.
_PASSED_OVER_MAX: Final = 64
# To take off a body that is smaller costs more than to keep it.
_LIGHT_BODY_BYTES: Final = 256
# So many records in a row that had to be read: those kept are not asked for.
_MISSED_MAX: Final = 16 * config.READ_AHEAD_MESSAGES


class FifoQueue(LiveQueue):
    def change(self, record: QueueRecord) -> None:
        """A shorter delay makes messages available that wait already."""
        super().change(record)
        self._wake()

    def restart(self, generation: int) -> None:
        super().restart(generation)
        self.ready = native.Ready(config.READY_PAGE)
        # Messages that receives have taken, without large bodies: whoever deletes one or changes
        # its visibility wants to know its group.
        self._held: dict[int, MessageRecord] = {}
        self._handed = native.Handed(config.HELD_MESSAGES_MAX)
        keys = self.messages
        is_empty = not self.group.counter(keys.total)
        self._fresh = native.Fresh(
            config.READ_AHEAD_BYTES, _MISSED_MAX, config.READ_AHEAD_RECORD_BYTES, is_empty=is_empty
        )
        self.fifo_keys = FifoKeys(
            self.keys.generation, keys.total, keys.data, keys.group, keys.head
        )
        self.walk = Walk()
        has_used = self.group.scan_keys(keys.dedup, native.prefix_end(keys.dedup), 1)
        window_end_ms = self._now_ms() + config.DEDUPLICATION_MS
        self.recent = native.Recent(
            window_end_ms if has_used else 0, self._now_ms, config.DEDUPLICATION_MS
        )

    def _now_ms(self) -> int:
        return self.group.now() >> 16

    @property
    def keepers(self) -> Iterable[Keeper]:
        return (self._fresh,)

    @property
    def is_idle(self) -> bool:
        return not self.waiters and not self.ready.has_taken

    # --- choosing ----------------------------------------------------------------------------

    def choose(self, limit: int, now: int, receives_max: int = 0) -> Choice:
        choice = Choice([], [], [])
        self._catch_up(now)
        barren: list[Head] = []
        while (
            len(choice.messages) < limit
            and not choice.is_cut_short
            and len(barren) < _PASSED_OVER_MAX
        ):
            self._load_ready(now)
            head = self.ready.take(now, self.delay)
            if head is None:
                break
            if not self._choose_group(head, limit, now, receives_max, choice):
                barren.append(head)
        for head in barren:
            self._set_aside(head)
        return choice

    def _set_aside(self, head: Head) -> None:
        """Somebody is changing the first message: until that is over the group stays taken, or
        whoever waits would be woken for it all the time.
        """
        ready = self.ready

        def go_on() -> None:
            # After a purge nothing of the old generation counts.
            if self.ready is ready:
                self._release((head.group_id,))
                self._wake()

        key = self.messages.state_key(head.position)
        if not when_changed(self.group.latches, key, go_on):
            self._release((head.group_id,))

    def take_plain(self, limit: int, now: int) -> PlainChoice | None:
        """As in a standard queue."""
        if not self.timers.is_quiet(now):
            self._catch_up(now)
        if not self.timers.knows_all or self._has_arrivals or self.delay:
            return None
        keys, find = self.messages, self.group.head_rows.positions
        positions: list[int] = []
        groups: list[str] = []
        heads: dict[str, bytes] = {}
        while self.ready.take_many(now, limit, keys.head, find, positions, groups, heads):
            self._load_ready(now)
        items = self._unreceived(positions)
        oldest_ms, held = (now >> 16) - self.settings.retention_ms, self.group.latches.held
        places = place_plain(items, oldest_ms, keys.state, held) if items else None
        if places is None:
            self._give_back(heads)
            return None
        self.scanned += len(items)
        first = min(positions)
        return PlainChoice(items, *places, first, self.claim(first), groups, heads)

    def _unreceived(self, positions: Sequence[int]) -> list[Item]:
        """These messages; nothing if somebody has received one of them."""
        return [] if self.timers.has_any(positions) else self._records(positions)

    def untake(self, choice: PlainChoice) -> None:
        self.waiting.settle(choice.first)
        self._give_back(choice.heads)

    def choose_by_group(
        self, limit: int, now: int, through: int, begin: bytes
    ) -> tuple[Choice, bytes]:
        """For a move task: claim from groups whose first message was sent by `through`, in the
        order of their ids. What is due first may all be younger, and must not be looked at again
        at every step. Where to begin next time; empty if every group has been looked at.
        """
        keys, choice = self.messages, Choice([], [], [])
        rows = self.group.scan(
            keys.head + begin, native.prefix_end(keys.head), config.MOVE_GROUPS_MAX
        )
        for key, row in rows:
            head = Head.stored(split_head_key(key)[1].decode(), row)
            if head.position > through or head.due_at(self.delay) > now:
                continue
            if not self.ready.claim(head.group_id):
                continue
            if not self._choose_group(head, limit, now, 0, choice):
                self._release((head.group_id,))
            if len(choice.messages) >= limit or choice.is_cut_short:
                return choice, key[len(keys.head) :]
        is_last = len(rows) < config.MOVE_GROUPS_MAX
        return choice, b"" if is_last else rows[-1][0][len(keys.head) :] + b"\x00"

    def give_back(self, choice: Choice) -> None:
        """Who waits is woken at the next turn: the caller may be in the middle of a plan."""
        self._release({group_of(taken.record) for taken in choice.all})
        self._set_alarm(self.group.now())

    def settled(self, choice: Choice) -> None:
        self._release({group_of(taken.record) for taken in choice.all})
        self._wake()

    def delivered(self, choice: PlainChoice, nonce: int, visible_at: int) -> None:
        LiveQueue.handed_out(self, choice.positions, visible_at)
        self._handed.add(choice.positions, choice.groups, nonce)
        self._give_back(choice.heads)
        self._wake()

    def has_available(self) -> bool:
        return self._is_due(self.group.now())

    def _choose_group(
        self, head: Head, limit: int, now: int, receives_max: int, choice: Choice
    ) -> bool:
        """Take what the group delivers, in order; False if that is nothing at all."""
        count = len(choice.all)
        self._make_room(limit)
        for taken in self._deliverable(head, limit - len(choice.messages), now):
            self._sort_out(taken, now, receives_max, choice)
            self._held[taken.position] = _lightened(taken.record)
            if len(choice.messages) >= limit or choice.is_cut_short:
                break
        return len(choice.all) > count

    def _make_room(self, count: int) -> None:
        if len(self._held) + count > config.HELD_MESSAGES_MAX:
            # The cheapest bound is to start over.
            self._held.clear()

    def _deliverable(self, head: Head, limit: int, now: int) -> Iterator[Taken]:
        """The group's messages up to the first that is invisible, read a page at a time; who takes
        of them has had enough at some time.
        """
        keys = self.messages
        begin = keys.group_key(head.group_id, head.position)
        end = native.prefix_end(keys.group_prefix(head.group_id))
        while rows := self.group.scan_keys(begin, end, limit):
            positions = [keys.group_position(row) for row in rows]
            states = self._states(positions)
            for position, record in self._records(positions):
                self.scanned += 1
                # One that somebody is changing counts as invisible.
                taken = self._taken(position, states.get(position), record)
                is_changing = self.group.latches.is_held(keys.state_key(position))
                if is_changing or self._visible_at(taken) > now:
                    return
                yield taken
            begin = rows[-1] + b"\x00"

    def _states(self, positions: Sequence[int]) -> dict[int, bytes | None]:
        """Every state has a timer: where all timers are known, most messages have none to read.

        Arrivals may have one that nobody has reported.
        """
        if self.timers.knows_all and not self._has_arrivals:
            positions = [position for position in positions if self.timers.has(position)]
        if not positions:
            return {}
        stored = self.group.get_many([self.messages.state_key(one) for one in positions])
        return dict(zip(positions, stored, strict=True))

    def _records(self, positions: Sequence[int]) -> list[Item]:
        keys, fresh, group = self.messages, self._fresh, self.group
        begin = fresh.page_begin(positions)
        if begin is not None:
            # What was sent next is soon wanted, and much cheaper in a row than one by one.
            rows = group.scan(keys.data_key(begin), native.prefix_end(keys.data), fresh.page_rows)
            before = fresh.kept_bytes
            fresh.load(rows, self.timers.scheduled, keys.state, group.latches.held)
            self.read_ahead.add(fresh.kept_bytes - before, fresh)
        return fresh.take(positions, keys.data, group.get_many)

    def _taken(self, position: int, state: bytes | None, record: bytes) -> Taken:
        decoded = None if state is None else native.decode_state(state)
        return Taken(position, record, native.decode_message(record), decoded)

    def _visible_at(self, taken: Taken) -> int:
        if taken.state is None:
            return (taken.position >> 16) + self.delay
        return taken.state.visible_at

    # --- counting ----------------------------------------------------------------------------

    def counts(self, now: int) -> Counts:
        """What is delayed depends on the queue's delay as it is now, so it is counted."""
        self._catch_up(now)
        counter, messages = self.group.counter, self.messages
        in_flight = counter(messages.in_flight) - self.timers.due_received
        delayed = count_delayed(self.group, messages, now, self.delay) if self.delay else 0
        return Counts(counter(messages.total) - in_flight - delayed, in_flight, delayed)

    # --- what transactions did ---------------------------------------------------------------

    def added(self, messages: Iterable[PlannedSend]) -> None:
        """Whoever added them reports the transaction, which knows their groups."""

    def sent(self, commit_ts: int, drafts: Iterable[FifoDraft], records: Iterable[bytes]) -> None:
        """Messages were stored."""
        for draft, record in zip(drafts, records, strict=True):
            self.sent_one(commit_ts << 16 | draft[0], draft[1], record)

    def sent_one(self, position: int, group_id: str, record: bytes) -> None:
        self.messages_in += 1
        if self._fresh.add(position, record):
            self.read_ahead.add(len(record) + config.READ_AHEAD_RECORD_BYTES, self._fresh)
        if not self.ready.sent(group_id, position):
            self._refresh({group_id: self.messages.head_key(group_id)})
        if self.waiters:
            self.group.afterwards(self._wake)

    def applied(self, txn: Txn) -> None:
        touched = {key for kind, key, _ in txn.writes if kind == TOUCH}
        own = [key for key in touched if key.startswith(self.messages.head)]
        self._refresh({split_head_key(key)[1].decode(): key for key in own})
        self._wake()

    def handed_out(self, positions: tuple[int, ...], visible_at: int) -> None:
        self._handed.forget(positions)
        LiveQueue.handed_out(self, positions, visible_at)

    def removed(self, positions: Collection[int]) -> None:
        LiveQueue.removed(self, positions)
        self._handed.forget(positions)
        if self._held:
            for position in positions:
                self._held.pop(position, None)

    def hidden(self, handles: Sequence[bytes], held: set[bytes]) -> Hidden | None:
        """As in a standard queue; here a handle must be the last one, and still good."""
        keys, now, scheduled = self.messages, self.group.now(), self.timers.scheduled
        receipts = self.receipt_secret, self.partition, self.generation
        prefixes = keys.state, keys.group, keys.head
        found = self._handed.hidden(receipts, handles, scheduled, now, prefixes, held)
        return None if found is None else Hidden(*found)

    def deleted(self, hidden: Hidden) -> None:
        self.removed(hidden.times)
        self._refresh(hidden.heads)
        self._wake()

    def times_of(self, positions: Iterable[int]) -> dict[int, int] | None:
        """Whether a handle is still good is in the states."""
        return None

    def indexed_record(self, position: int) -> MessageRecord | None:
        """Every message is found by its group. What was received lately may have no body here."""
        held = self._held.get(position)
        if held is not None:
            return held
        stored = self.group.get(self.messages.data_key(position))
        return None if stored is None else native.decode_message(stored)

    def _release(self, group_ids: Iterable[str]) -> None:
        self._give_back({group_id: self.messages.head_key(group_id) for group_id in group_ids})

    def _give_back(self, heads: dict[str, bytes]) -> None:
        self.ready.give_back(heads)
        self._refresh(heads)

    def _refresh(self, heads: dict[str, bytes]) -> None:
        """What has become of these groups, whose heads are there?"""
        rows = self.group.head_rows
        self.ready.renew_all(heads, rows.known, rows.get)

    # --- waiting for a message ---------------------------------------------------------------

    def _wake(self) -> None:
        if not self.waiters:
            return
        now = self.group.now()
        if self._is_due(now):
            self.waiters.wake_one()
        self._set_alarm(now)

    def _is_due(self, now: int) -> bool:
        self._load_ready(now)
        return self.ready.has_due(now, self.delay) and not is_full(self, now)

    def next_at(self) -> int | None:
        if is_full(self, self.group.now()):
            return self.timers.next_at()
        return self.ready.next_at(self.delay)

    def _catch_up(self, now: int) -> None:
        super()._catch_up(now)
        self._load_ready(now)

    def _load_ready(self, now: int) -> None:
        keys = self.messages
        while self.ready.needs_page(now, self.delay):
            begin = keys.ready_key(*self.ready.horizon)
            rows = self.group.scan(begin, native.prefix_end(keys.ready), config.READY_PAGE)
            self.ready.load(rows, is_last=len(rows) < config.READY_PAGE)


def _lightened(record: MessageRecord) -> MessageRecord:
    return record if len(record.body) <= _LIGHT_BODY_BYTES else record._replace(body=b"")
