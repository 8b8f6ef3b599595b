"""The leader's memory of a standard queue: what every queue has, and its tenants if it is fair.

A queue is fair from the first message with a group id on; see `fair.py`. One that is not costs one
test per call.
"""

from collections.abc import Collection, Iterable, Sequence

from fastnode import config, native
from fastnode.native import MESSAGE_FILED, MessageRecord, PlannedSend, hidden_messages
from fastnode.queue.choice import Choice, Hidden, PlainChoice, Taken
from fastnode.queue.fair import Tenants
from fastnode.queue.live import LiveQueue
from fastnode.queue.waiting import Item


class StandardQueue(LiveQueue):
    def restart(self, generation: int) -> None:
        super().restart(generation)
        keys = self.messages
        first = self.group.scan_keys(keys.ready, native.prefix_end(keys.ready), 1)
        if first:
            self.tell_tenants_apart(keys.split_ready_key(first[0])[0])

    def tell_tenants_apart(self, commit_ts: int) -> None:
        if self.tenants is None:
            self.tenants = Tenants(self.group, self.messages)
            # Read again from the engine; nobody takes what a receive under way has latched.
            self.timers = self.tenants.timers
            self._waiting_end = self.messages.data_key(commit_ts << 16)

    # --- choosing ----------------------------------------------------------------------------

    def choose(self, limit: int, now: int, receives_max: int = 0) -> Choice:
        tenants = self.tenants
        if tenants is None:
            return super().choose(limit, now, receives_max)
        self._catch_up(now)
        tenants.quieten(now)
        choice = super().choose(limit, now, receives_max)
        for taken in choice.all:
            if taken.state is None:
                tenants.hold(taken.position, taken.record, now)
        while len(choice.messages) < limit and not choice.is_cut_short:
            dead_left = config.TRANSACTION_MESSAGES_MAX - len(choice.dead)
            positions = tenants.take(min(limit - len(choice.messages), dead_left), now)
            if not positions:
                break
            self.scanned += len(positions)
            for taken in self._read(positions):
                self._sort_out(taken, now, receives_max, choice)
        return choice

    def take_plain(self, limit: int, now: int) -> PlainChoice | None:
        """What `choose` would claim, if these are messages that need nothing but to be handed out;
        otherwise nothing is taken.
        """
        if not self.timers.is_quiet(now):
            self._catch_up(now)
            if self.timers.has_due:
                return None
        if self.tenants is not None:
            return None
        waiting, oldest_ms = self.waiting, (now >> 16) - self.settings.retention_ms
        while waiting.is_short_of(limit):
            self._load_waiting()
        held = self.group.latches.held
        choice = waiting.take_plain(limit, oldest_ms, self.messages.state, held)
        if choice is not None:
            self.scanned += len(choice.items)
        return choice

    def untake(self, choice: PlainChoice) -> None:
        """It was just taken, and nobody wants it after all."""
        self.waiting.untake(choice)

    def give_back(self, choice: Choice) -> None:
        tenants = self.tenants
        if tenants is not None:
            for taken in choice.all:
                if taken.state is None:
                    tenants.give_back(taken.position, taken.record)
            choice = Choice(*([one for one in part if not _is_filed(one)] for part in choice))
        super().give_back(choice)

    def settled(self, choice: Choice) -> None:
        if self.tenants is not None:
            self.tenants.settled(taken.record for taken in choice.all if _is_filed(taken))
            self._wake()

    def delivered(self, choice: PlainChoice, _nonce: int, visible_at: int) -> None:
        """The receive is through."""
        self.handed_out(choice.positions, visible_at)
        if self.tenants is not None:
            self.settled(choice.decoded())

    def has_available(self) -> bool:
        is_filed = self.tenants is not None and self.tenants.has_messages
        return is_filed or LiveQueue.has_available(self)

    def claim(self, position: int) -> int:
        filed = None if self.tenants is None else self.tenants.first_waiting()
        return self.waiting.claim(position, filed)

    def withdraw(self, positions: Collection[int], through: int) -> None:
        super().withdraw(positions, through)
        if self.tenants is not None:
            self.tenants.withdraw(positions)

    def withdrawn(self, positions: Collection[int], remaining: Sequence[Item]) -> None:
        if self.tenants is None:
            super().withdrawn(positions, remaining)
        else:
            super().withdrawn(positions, self.tenants.withdrawn(positions, remaining))
            self._wake()

    def _wake(self) -> None:
        """Messages of a tenant may have been found again."""
        if self.waiters and self.has_available():
            self.waiters.wake_one()

    def _admits(self, record: MessageRecord, due: tuple[int, bool], now: int) -> bool:
        return self.tenants is None or self.tenants.admits(record, due, now)

    # --- what transactions did ---------------------------------------------------------------

    def added(self, messages: Iterable[PlannedSend]) -> None:
        super().added(messages if self.tenants is None else self.tenants.added(messages))

    def removed(self, positions: Collection[int]) -> None:
        LiveQueue.removed(self, positions)
        if self.tenants is not None:
            for position in positions:
                self.tenants.removed(position)

    def hidden(self, handles: Sequence[bytes], held: set[bytes]) -> Hidden | None:
        """Messages by their handles, if they may be deleted and nothing else has to be known for
        that; None if it must be looked up.
        """
        if self._has_arrivals:
            return None
        secret, partition, generation = self.receipt_secret, self.partition, self.generation
        scheduled, states = self.timers.scheduled, self.messages.state
        found = hidden_messages(secret, partition, generation, handles, scheduled, states, held)
        return None if found is None else Hidden(found[0], found[1])

    def deleted(self, hidden: Hidden) -> None:
        """The delete is through."""
        if self.tenants is None:
            super().removed(hidden.times)
        else:
            self.removed(hidden.times)

    def indexed_record(self, position: int) -> MessageRecord | None:
        """As for every queue, and what waits in a fair one."""
        if self.tenants is None or self.tenants.has_taken(position):
            return super().indexed_record(position)
        stored = self.group.get(self.messages.data_key(position))
        return None if stored is None else native.decode_message(stored)


def _is_filed(taken: Taken) -> bool:
    return taken.state is None and bool(taken.record.flags & MESSAGE_FILED)
