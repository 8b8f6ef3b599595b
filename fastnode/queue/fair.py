"""Fair queues: whoever floods a standard queue makes others wait less than itself.

On a standard queue a message group id names a *tenant*. While any quiet tenant has an available
message, receives take from quiet tenants, in send order; else from the noisy one that has the
fewest in flight. Who is noisy is decided in `fair_shares.py`.

Theory of operation. A noisy tenant may have a million messages in front of a quiet one's, and no
receive may walk over them, not even the first after a restart. So messages are *filed*: from the
first message with a group id on, each message that waits has a row in the group index, under its
tenant, or under nobody if it has none. The row goes in the transaction that first receives or
removes the message, so the index holds exactly what waits. The store keeps the first row of each
tenant (`store/heads.py`, as for the groups of a FIFO queue), and all tenants in the order of these:
a million messages of a tenant that is passed over are one row.

Here is the mirror of these rows. For each tenant it knows the first message that waits and that
nobody has taken; beyond the *horizon* tenants are in the engine only, so memory is bounded however
many there are. Several receives may take messages of one tenant at a time: what they hold is left
out wherever rows are read, and when they are through their tenants are looked up again, because a
page that was read meanwhile has found the stored rows where they no longer are.

- Filing begins in memory when the first such message is planned, and with the first row that is
  found at a restart. Positions are given at planning, so whatever waits and is not filed lies
  before all that is filed: the cursor over the records (`waiting.py`) serves it, and ends there.
- The low-water mark stays at or below the first message that waits, of noisy tenants too.
- Messages that come back (their timeout ran out) are due in send order, as everywhere; those of
  noisy tenants stand aside (`fair_timers.py`).
- A move task takes messages in send order, whoever is noisy: what came after it began must not be
  what it finds first.
- A queue without group ids has none of this: no row, no memory, one test per call.
"""

import heapq
from collections.abc import Collection, Iterable
from typing import Final

from fastnode import config, native
from fastnode.native import MESSAGE_FILED, MessageRecord, PlannedSend
from fastnode.queue.fair_shares import NOBODY, Shares
from fastnode.queue.fair_timers import TenantTimers
from fastnode.queue.message_attributes import decode_extras
from fastnode.queue.waiting import Item
from fastnode.store.group import Group
from fastnode.store.keyspace import POSITION_BYTES, MessageKeys
from fastnode.store.txn import Txn

_NO_HORIZON: Final = 1 << 80
_ROWS: Final = 16


def tenant_of(record: MessageRecord) -> str:
    return decode_extras(record.extras).group_id or NOBODY


def plan_filing(keys: MessageKeys, txn: Txn, position: int, tenant: str) -> None:
    """The message waits; its record says that it is filed."""
    txn.put_fresh(keys.group_key(tenant, position), b"")
    txn.touch(keys.head_key(tenant))


def plan_unfiling(keys: MessageKeys, txn: Txn, position: int, record: MessageRecord) -> None:
    """The message, which nobody has received so far, waits no more."""
    if record.flags & MESSAGE_FILED:
        tenant = tenant_of(record)
        txn.delete_fresh(keys.group_key(tenant, position))
        txn.touch(keys.head_key(tenant))


class Tenants:
    """What receives of a fair queue choose from, besides unfiled messages and due ones."""

    def __init__(self, group: Group, keys: MessageKeys) -> None:
        self._group = group
        self._keys = keys
        self.shares = Shares()
        self.timers = TenantTimers(self._came_due)
        # The first message of each tenant that nobody has taken, both ways round; the heap has
        # those of quiet tenants, and some that are true no more.
        self._first: dict[str, int] = {}
        self._tenant_at: dict[int, str] = {}
        # Tenants of which it is known that they have no other one.
        self._alone: set[str] = set()
        self._heap: list[int] = []
        self._horizon = 0
        # Messages whose removal is submitted, with their tenants where those are known.
        self._withdrawn: dict[int, str | None] = {}

    @property
    def has_messages(self) -> bool:
        return bool(self._first) or self._horizon < _NO_HORIZON

    def has_taken(self, position: int) -> bool:
        """A receive has it, so it waits no more."""
        return self.shares.holds(position)

    def first_waiting(self) -> int | None:
        """No filed message that waits and is not taken lies before it; None if there is none."""
        noisy = [self._first[tenant] for tenant in self.shares.noisy if tenant in self._first]
        self._clean_heap()
        known = noisy + self._heap[:1]
        if self._horizon < _NO_HORIZON:
            known.append(self._horizon)
        return min(known, default=None)

    # --- choosing ----------------------------------------------------------------------------

    def quieten(self, now: int) -> None:
        """A receive begins: noisy tenants may have become quiet since the last one."""
        if self.shares.noisy:
            for tenant in self.shares.quieten(now >> 16, self._has_backlog):
                self.timers.rejoin(tenant)
                if tenant in self._first:
                    self._push(self._first[tenant])

    def take(self, limit: int, now: int) -> list[int]:
        """The positions of the next messages, by the rule. The caller claims them, or gives them
        back.
        """
        positions: list[int] = []
        while len(positions) < limit:
            position = self._take_quiet(now >> 16)
            if position is None:
                position = self._take_noisy(now >> 16)
            if position is None:
                break
            positions.append(position)
        return positions

    def admits(self, record: MessageRecord, due: tuple[int, bool], now: int) -> bool:
        """Whether a due message is a quiet tenant's; it is taken then, and stands aside else."""
        position, was_received = due
        tenant = tenant_of(record)
        if self.shares.is_noisy(tenant, now >> 16):
            self.timers.set_aside(tenant, position, was_received=was_received)
            return False
        self.shares.hold(position, tenant, now >> 16)
        return True

    def hold(self, position: int, record: MessageRecord, now: int) -> None:
        """A receive took a message that is not filed."""
        self.shares.hold(position, tenant_of(record), now >> 16)

    def _take_quiet(self, now_ms: int) -> int | None:
        while True:
            self._clean_heap()
            if self._heap and self._heap[0] < self._horizon:
                tenant = self._tenant_at[self._heap[0]]
                if not self.shares.is_noisy(tenant, now_ms):
                    return self._take_first(tenant, now_ms)
            elif self._horizon < _NO_HORIZON:
                self._load()
            else:
                return None

    def _take_noisy(self, now_ms: int) -> int | None:
        noisy = [tenant for tenant in self.shares.noisy if self._has_backlog(tenant)]
        for tenant in sorted(noisy, key=self.shares.in_flight):
            position = self.timers.take_aside(tenant, self._is_changing)
            if position is not None:
                self.shares.hold(position, tenant, now_ms)
                return position
            if tenant in self._first:
                return self._take_first(tenant, now_ms)
        return None

    def _take_first(self, tenant: str, now_ms: int) -> int:
        is_alone = tenant in self._alone
        position = self._forget(tenant)
        self.shares.hold(position, tenant, now_ms)
        if not is_alone:
            self._find(tenant, position + 1)
        return position

    def _has_backlog(self, tenant: str) -> bool:
        is_unknown = tenant not in self._first and self._horizon < _NO_HORIZON
        return is_unknown or tenant in self._first or self.timers.has_aside(tenant)

    def _is_changing(self, position: int) -> bool:
        return self._group.latches.is_held(self._keys.state_key(position))

    # --- what became of messages ---------------------------------------------------------------

    def added(self, messages: Iterable[PlannedSend]) -> list[PlannedSend]:
        """Sends were applied; those that are not filed, because they were planned before."""
        unfiled: list[PlannedSend] = []
        for message in messages:
            record = native.decode_message(message.record)
            tenant = tenant_of(record)
            self.shares.sent(tenant, message.position >> 32)
            if not record.flags & MESSAGE_FILED:
                unfiled.append(message)
            elif message.position < self._horizon and self._is_free(message.position):
                self._add(tenant, message.position)
        return unfiled

    def _add(self, tenant: str, position: int) -> None:
        is_new = tenant not in self._first
        self._put(tenant, position)
        if is_new and self._horizon == _NO_HORIZON:
            self._alone.add(tenant)

    def give_back(self, position: int, record: MessageRecord) -> None:
        """A receive failed: the message waits again."""
        self.shares.let_go(position)
        if record.flags & MESSAGE_FILED:
            self._put(tenant_of(record), position)

    def settled(self, records: Iterable[MessageRecord]) -> None:
        """A receive of filed messages is applied, and with it their tenants' stored rows."""
        self._look_up({tenant_of(record) for record in records})

    def removed(self, position: int) -> None:
        self.shares.finish(position, self._group.now() >> 16)

    def withdraw(self, positions: Collection[int]) -> None:
        """Their removal is submitted: no receive may take them."""
        self._withdrawn.update(dict.fromkeys(positions))
        for position in positions:
            tenant = self._tenant_at.get(position)
            if tenant is not None:
                self._withdrawn[position] = tenant
                self._forget(tenant)
                self._find(tenant, position + 1)

    def withdrawn(self, positions: Iterable[int], remaining: Iterable[Item]) -> list[Item]:
        """The removal is through; what it failed to remove and is not filed."""
        tenants = {self._withdrawn.pop(position, None) for position in positions}
        unfiled: list[Item] = []
        for position, stored in remaining:
            record = native.decode_message(stored)
            if record.flags & MESSAGE_FILED:
                self._put(tenant_of(record), position)
            else:
                unfiled.append((position, stored))
        self._look_up(tenant for tenant in tenants if tenant is not None)
        return unfiled

    def _came_due(self, position: int) -> str | None:
        held = self.shares.let_go(position)
        return held[0] if held is not None and held[0] in self.shares.noisy else None

    # --- the mirror ----------------------------------------------------------------------------

    def _put(self, tenant: str, position: int) -> None:
        """The message waits: it is its tenant's first unless there is one before it."""
        self._alone.discard(tenant)
        known = self._first.get(tenant)
        if known is not None:
            if known <= position:
                return
            del self._tenant_at[known]
        self._first[tenant] = position
        self._tenant_at[position] = tenant
        if tenant not in self.shares.noisy:
            self._push(position)
        if len(self._first) > 4 * config.TENANT_PAGE:
            self._shrink()

    def _forget(self, tenant: str) -> int:
        self._alone.discard(tenant)
        position = self._first.pop(tenant)
        del self._tenant_at[position]
        return position

    def _find(self, tenant: str, begin: int) -> None:
        """The tenant's first message from there on that nobody has taken."""
        keys = self._keys
        start = keys.group_key(tenant, begin)
        end = native.prefix_end(keys.group_prefix(tenant))
        while rows := self._group.scan_keys(start, end, _ROWS):
            for row in rows:
                position = keys.group_position(row)
                if self._is_free(position):
                    self._put(tenant, position)
                    return
                if position in self._withdrawn:
                    self._withdrawn[position] = tenant
            start = rows[-1] + b"\x00"

    def _look_up(self, tenants: Iterable[str]) -> None:
        """A page that was read meanwhile may have missed them."""
        missing = [tenant for tenant in tenants if tenant not in self._first]
        if missing:
            rows = self._group.get_many([self._keys.head_key(tenant) for tenant in missing])
            for tenant, row in zip(missing, rows, strict=True):
                if row is not None:
                    self._find(tenant, int.from_bytes(row[:POSITION_BYTES], "big"))

    def _is_free(self, position: int) -> bool:
        return position not in self._withdrawn and not self.shares.holds(position)

    def _load(self) -> None:
        """A page of tenants from the horizon on."""
        keys, horizon = self._keys, self._horizon
        begin = keys.ready_key(horizon >> 16, horizon)
        rows = self._group.scan(begin, native.prefix_end(keys.ready), config.TENANT_PAGE)
        heads = [(tenant.decode(), keys.split_ready_key(key)[1]) for key, tenant in rows]
        is_last = len(heads) < config.TENANT_PAGE
        self._horizon = _NO_HORIZON if is_last else heads[-1][1] + 1
        for tenant, position in heads:
            if self._is_free(position):
                self._put(tenant, position)
            elif tenant not in self._first:
                self._find(tenant, position)

    def _push(self, position: int) -> None:
        heapq.heappush(self._heap, position)
        if len(self._heap) > 2 * len(self._first) + _ROWS:
            self._heap = sorted(filter(self._is_quiet_first, set(self._heap)))

    def _clean_heap(self) -> None:
        while self._heap and not self._is_quiet_first(self._heap[0]):
            heapq.heappop(self._heap)

    def _is_quiet_first(self, position: int) -> bool:
        tenant = self._tenant_at.get(position)
        return tenant is not None and tenant not in self.shares.noisy

    def _shrink(self) -> None:
        """Keep the tenants whose messages are oldest; the rest stays in the engine."""
        positions = sorted(self._tenant_at)
        self._horizon = min(self._horizon, positions[config.TENANT_PAGE])
        for position in positions[config.TENANT_PAGE :]:
            self._forget(self._tenant_at[position])
        self._heap = sorted(filter(self._is_quiet_first, self._heap))
