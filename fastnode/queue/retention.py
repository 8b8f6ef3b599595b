"""Retention: messages whose time ran out go, whoever holds them: waiting, delayed or in flight.

Theory of operation. A message's position begins with the time it was sent, so the expired ones of a
queue are the first of its records, and one bounded scan of keys finds them without a body. Nothing
is inserted among them, so the walk goes on from where it ended (`LiveQueue.swept_to`); a message
that comes back to an older place takes the cursor back to it. A message that came from another
queue is older than its position says: its age row is found by the time of its first sending. Those
go first, so the walk over records meets what is left.

Every removal is a transaction of its own identity that writes the state key of each message, as
every other transaction that touches one does. So a message is removed once, whoever else wants it:

- Its state key is latched: a receive, a delete or a change is on its way. The sweeper leaves it for
  its next turn and remembers that it is still there.
- It has state. Receives leave out what is latched, deletes and changes wait for it and find it
  gone, so nothing but its timer has to be forgotten when the removal is applied.
- It has no state and is not latched: nobody has received it. It may be in the read-ahead buffer or
  come with the next page, and receives take from there without looking at latches. So it is
  withdrawn from there when the removal is submitted, under a claim that holds the mark back, and
  restored if the removal fails.

A round looks at a page of queues, those in memory more often, and then gives each queue that has
something to remove one transaction after the other, in turn, within a bound. A queue that is empty
costs one read, and so does one in memory whose oldest message is known to have time left. After a
restart the rotation begins anew and nothing else has to be known.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from fastnode import config, native
from fastnode.errors import OperationError
from fastnode.flow import Suspension, start
from fastnode.queue.attributes import settings_of
from fastnode.queue.fifo_live import FifoQueue
from fastnode.queue.fifo_sweep import has_stale_rows, may_have_stale_rows, sweep_stale_rows
from fastnode.queue.live import NO_POSITION, LiveQueue
from fastnode.queue.long_poll import Alarm
from fastnode.queue.plans import plan_removal
from fastnode.queue.service import Service
from fastnode.queue.waiting import Item
from fastnode.store.group import Group
from fastnode.store.keyspace import MessageKeys, QueueKeys, encode_position, split_position
from fastnode.store.records import decode_generation, decode_queue
from fastnode.store.txn import Txn

# Account, region, name.
QueueName = tuple[str, str, str]
_END_OF_NAMES: Final = native.prefix_end(native.FAMILY_META)


class Expired(NamedTuple):
    """Once these are gone, no record is left before `through`; 0 if that is not known."""

    positions: list[int]
    through: int


class Sweeper:
    """Works in the background from `start` to `stop`, one round after the other."""

    def __init__(self, service: Service, alarm: Alarm) -> None:
        self._service = service
        self._alarm = alarm
        self._is_stopped = False
        # Queues with something to remove, in the order of their turns.
        self._behind: dict[QueueName, None] = {}
        self._live_at = 0
        self._group_at = 0
        self._stored_at = native.FAMILY_META

    def start(self) -> None:
        self._rest(None, None)

    def stop(self) -> None:
        self._is_stopped = True
        self._alarm.clear()

    def _ring(self) -> None:
        start(self._sweep_round(), self._rest)

    def _rest(self, _result: Any, error: BaseException | None) -> None:
        if error is not None:
            raise error
        if not self._is_stopped:
            now_ms = self._service.groups[0].now() >> 16
            self._alarm.set(now_ms + config.SWEEP_INTERVAL_MS, now_ms, self._ring)

    async def _sweep_round(self) -> None:
        # Those that are known have their turns first, so that the list stays short.
        if len(self._behind) < config.SWEEP_STEPS:
            self._behind.update(dict.fromkeys(self._live_page()))
            self._behind.update(dict.fromkeys(self._stored_page()))
        for _ in range(config.SWEEP_STEPS):
            if not self._behind or self._is_stopped:
                return
            name = next(iter(self._behind))
            del self._behind[name]
            queue = self._service.find(*name)
            if queue is not None and await self._has_more(queue):
                self._behind[name] = None

    async def _has_more(self, queue: LiveQueue) -> bool:
        """Remove what one transaction may; whether the queue should have another turn soon."""
        try:
            has_more = False
            for shard in queue.shards:
                if isinstance(shard, FifoQueue) and await sweep_stale_rows(self._service, shard):
                    has_more = True
                    await self._make_way()
                has_more |= await sweep(self._service, shard)
            return has_more
        except OperationError:
            # Whatever stands in the way, the rotation comes by again.
            return False

    def _make_way(self) -> Suspension:
        """Whoever only looks at rows waits for nothing, and would keep everybody else waiting."""
        pause = Suspension()
        now_ms = self._service.groups[0].now() >> 16
        self._alarm.set(now_ms + config.SWEEP_PAUSE_MS, now_ms, pause.resume)
        return pause

    # --- looking for work ----------------------------------------------------------------------

    def _live_page(self) -> Iterator[QueueName]:
        live = self._service.live_queues()
        begin = self._live_at if self._live_at < len(live) else 0
        self._live_at = begin + config.SWEEP_LIVE_QUEUES
        for queue in live[begin : self._live_at]:
            if any(shard.group.leads and _is_behind(shard) for shard in queue.shards):
                yield queue.account, queue.region, queue.name

    def _stored_page(self) -> Iterator[QueueName]:
        groups, left = self._service.groups, config.SWEEP_STORED_QUEUES
        for _ in groups[: config.SWEEP_GROUPS]:
            group = groups[self._group_at]
            rows = group.scan(self._stored_at, _END_OF_NAMES, left)
            yield from self._behind_among(group, rows)
            if len(rows) == left:
                self._stored_at = rows[-1][0] + b"\x00"
                return
            left -= len(rows)
            self._stored_at = native.FAMILY_META
            self._group_at = (self._group_at + 1) % len(groups)

    def _behind_among(
        self, group: Group, rows: Sequence[tuple[bytes, bytes]]
    ) -> Iterator[QueueName]:
        for key, stored in rows:
            name = native.split_queue_segment(key[len(native.FAMILY_META) :])
            if self._service.is_live(*name):
                continue
            record = decode_queue(stored)
            if record.partition_groups:
                # What partitions hold is in other groups: they are looked at in memory.
                yield name
                continue
            if not group.leads:
                continue
            settings, keys = settings_of(record.attributes), _current_keys(group, name)
            if has_expired(group, keys, settings.retention_ms) or (
                settings.is_fifo and may_have_stale_rows(group, keys)
            ):
                yield name


def _is_behind(shard: LiveQueue) -> bool:
    if _has_old(shard):
        return True
    return isinstance(shard, FifoQueue) and has_stale_rows(shard)


def _has_old(shard: LiveQueue) -> bool:
    group, keys, retention_ms = shard.group, shard.messages, shard.settings.retention_ms
    if group.counter(keys.arrived):
        return has_expired(group, keys, retention_ms, shard.swept_to)
    end = _sent_before_ms(group.now(), retention_ms) << 32
    if shard.oldest >= end or not group.counter(keys.total):
        return False
    return NO_POSITION < oldest_of(shard) < end


def oldest_of(shard: LiveQueue) -> int:
    """The position of its oldest message. Next time nobody looks among what is gone: a message that
    comes back to an older place says so.
    """
    keys, begin = shard.messages, max(shard.swept_to, shard.oldest)
    found = shard.group.scan_keys(keys.data_key(begin), native.prefix_end(keys.data), 1)
    if not found:
        return NO_POSITION
    shard.oldest = keys.position_of(found[0])
    return shard.oldest


def _current_keys(group: Group, name: QueueName) -> MessageKeys:
    keys = QueueKeys(*name)
    generation = group.get(keys.generation)
    assert generation is not None, "a queue without a generation"
    return MessageKeys(keys.segment, decode_generation(generation).number)


def has_expired(group: Group, keys: MessageKeys, retention_ms: int, swept_to: int = 0) -> bool:
    if not group.counter(keys.total):
        return False
    sent_before_ms = _sent_before_ms(group.now(), retention_ms)
    return bool(find_expired(group, keys, swept_to, sent_before_ms, 1).positions)


def find_expired(
    group: Group, keys: MessageKeys, swept_to: int, sent_before_ms: int, limit: int
) -> Expired:
    if group.counter(keys.arrived):
        aged = group.scan_keys(keys.age, keys.age_key(sent_before_ms, 0), limit)
        if aged:
            return Expired([split_position(key) for key in aged], 0)
    begin, end = keys.data_key(swept_to), keys.data_key(sent_before_ms << 32)
    positions = [keys.position_of(key) for key in group.scan_keys(begin, end, limit)]
    return Expired(positions, positions[-1] + 1 if positions else swept_to)


def _sent_before_ms(now: int, retention_ms: int) -> int:
    return max((now >> 16) - retention_ms + 1, 0)


# --- removing ----------------------------------------------------------------------------------


async def sweep(service: Service, queue: LiveQueue) -> bool:
    """One transaction's worth of expired messages; True if there may be more."""
    group, keys = queue.group, queue.messages
    if group.latches.is_held(queue.keys.generation):
        return False
    txn = group.begin(service.new_request())
    sent_before_ms = _sent_before_ms(txn.commit_ts, queue.settings.retention_ms)
    expired = find_expired(group, keys, queue.swept_to, sent_before_ms, config.SWEEP_MESSAGES)
    is_held = group.latches.is_held
    free = [position for position in expired.positions if not is_held(keys.state_key(position))]
    if not free:
        return False
    unreceived = _plan(queue, txn, free)
    await _submit(queue, txn, unreceived, expired.through)
    queue.removed(free)
    queue.applied(txn)
    if expired.through:
        held = set(expired.positions).difference(free)
        queue.swept_to = min(held, default=expired.through)
    return len(expired.positions) == config.SWEEP_MESSAGES


def _plan(queue: LiveQueue, txn: Txn, positions: Sequence[int]) -> list[int]:
    """All of them go; those that nobody has received."""
    states = queue.group.get_many([queue.messages.state_key(position) for position in positions])
    txn.check(queue.keys.generation)
    for position, stored in zip(positions, states, strict=True):
        state = None if stored is None else native.decode_state(stored)
        plan_removal(queue, txn, position, state, queue.indexed_record(position))
    return [position for position, state in zip(positions, states, strict=True) if state is None]


async def _submit(queue: LiveQueue, txn: Txn, unreceived: Sequence[int], through: int) -> None:
    group, keys = queue.group, queue.messages
    if not unreceived:
        await group.submit(txn)
        return
    queue.withdraw(unreceived, through)
    # A purge meanwhile gives the queue another one.
    waiting, claimed = queue.waiting, min(unreceived)
    txn.raise_to(keys.mark, encode_position(queue.claim(claimed)))
    remaining: list[Item] = []
    try:
        await group.submit(txn)
    except OperationError:
        stored = group.get_many([keys.data_key(position) for position in unreceived])
        pairs = zip(unreceived, stored, strict=True)
        remaining = [(position, record) for position, record in pairs if record is not None]
        raise
    finally:
        queue.withdrawn(unreceived, remaining)
        waiting.settle(claimed)
