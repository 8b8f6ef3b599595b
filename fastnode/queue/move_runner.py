"""Message move tasks at work: a bounded batch at a time, at the rate that was asked for.

A task has a *mover* for each partition of its source, or one. Each step of a mover takes messages
by the same claims as a receive, and in one transaction removes them, posts them as letters and
counts them. So a task goes on after a crash exactly where it was.

Whatever has to be known of a task is stored. So any node may run it: it moves what it leads, looks
at what others do, and writes down the end if it leads the source's home group.
"""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from fastnode import config, native
from fastnode.errors import OperationError
from fastnode.flow import Suspension, start
from fastnode.queue.choice import Taken
from fastnode.queue.live import LiveQueue
from fastnode.queue.long_poll import Alarm
from fastnode.queue.move_choice import START, Batch, take_batch, target_name
from fastnode.queue.move_record import (
    ACTIVE,
    CANCELLED,
    CANCELLING,
    COMPLETED,
    FAILED,
    NO_SOURCE,
    QUEUE_GONE,
    RUNNING,
    TOO_LONG,
    MoveTask,
    combined,
    decode_task,
    encode_task,
)
from fastnode.queue.outbox import Outbox, Queues, look_at, post_all
from fastnode.queue.plans import plan_claim, plan_removal
from fastnode.store.group import Group
from fastnode.store.keyspace import (
    TASKS_PREFIX,
    PartitionKeys,
    partition_tasks_prefix,
    shard_task_key,
    task_key,
    task_source,
)
from fastnode.store.records import decode_generation
from fastnode.store.txn import Txn

_PAGE_ROWS: Final = 1_000
# Until whoever else has something to do has done it.
_NEXT_TURN_MS: Final = 1


class MoveTasks:
    """The active tasks of this node, by the segment of their source queue."""

    def __init__(self, queues: Queues, outbox: Outbox) -> None:
        self._queues = queues
        self._outbox = outbox
        self._active: set[bytes] = set()

    def is_active(self, segment: bytes) -> bool:
        return segment in self._active

    def active_count(self, account: str) -> int:
        """Of the account's sources, also of those that others lead, as far as is known here."""
        owner = account.encode()
        active = {segment for segment in self._active if segment.startswith(owner)}
        for group in self._queues.groups:
            if not group.leads:
                active |= _active_sources(group, owner)
        return len(active)

    def reserve(self, segment: bytes) -> None:
        """One task per source, from the moment that its start is planned."""
        self._active.add(segment)

    def release(self, segment: bytes) -> None:
        self._active.discard(segment)

    def run(self, segment: bytes, started_at: int) -> None:
        self.reserve(segment)
        runner = _Runner(self._queues, self._outbox, segment, started_at)

        def finish(_result: None, error: BaseException | None) -> None:
            if error is None:
                self.release(segment)
            elif isinstance(error, OperationError):
                runner.pause(runner.alarm, config.RETRY_MS, lambda: start(runner.run(), finish))
            else:
                raise error

        start(runner.run(), finish)

    def resume(self, group: Group) -> None:
        """Go on with the tasks that are at work and have their queues in the group."""
        first, end = TASKS_PREFIX, native.prefix_end(TASKS_PREFIX)
        while rows := group.scan(first, end, _PAGE_ROWS):
            for key, stored in rows:
                task = decode_task(stored)
                if task.status in ACTIVE and not self.is_active(task_source(key)):
                    self.run(task_source(key), task.started_at)
            first = rows[-1][0] + b"\x00"


def task_parts(groups: Sequence[Group], queue: LiveQueue, started_at: int) -> list[MoveTask]:
    """The rows that a task has in the partitions of its source."""
    segment, placed = queue.keys.segment, queue.record.partition_groups
    rows = [
        groups[number].get(shard_task_key(segment, partition, started_at))
        for partition, number in enumerate(placed)
    ]
    return [decode_task(row) for row in rows if row is not None]


def _active_sources(group: Group, owner: bytes) -> set[bytes]:
    begin, end = TASKS_PREFIX + owner, native.prefix_end(TASKS_PREFIX + owner)
    found: set[bytes] = set()
    while page := group.scan(begin, end, _PAGE_ROWS):
        found |= {task_source(key) for key, row in page if decode_task(row).status in ACTIVE}
        begin = page[-1][0] + b"\x00"
    return found


class _Runner:
    """A task: its movers, their common pace, and its end."""

    def __init__(self, queues: Queues, outbox: Outbox, segment: bytes, started_at: int) -> None:
        self.queues = queues
        self.outbox = outbox
        self.segment = segment
        self.started_at = started_at
        self.alarm = queues.new_alarm()
        self.has_failed = False
        self._name = native.split_queue_segment(segment)
        self._key = task_key(segment, started_at)
        # When the next message may be moved, whoever has it.
        self._free_at_ms = 0

    @property
    def _now_ms(self) -> int:
        """Only the difference of such times counts, so the clock of any group will do."""
        return self.queues.groups[0].now() >> 16

    def pause(self, alarm: Alarm, milliseconds: int, go_on: Callable[[], None]) -> None:
        now_ms = self._now_ms
        alarm.set(now_ms + milliseconds, now_ms, go_on)

    def milliseconds_to_wait(self) -> int:
        return max(self._free_at_ms - self._now_ms, 0)

    def spend(self, count: int, rate: int, share: float) -> None:
        """So many messages are moved; this node may use that share of the rate."""
        self._free_at_ms = self._now_ms + int(count * 1000 / (rate * share))

    def source(self) -> LiveQueue | None:
        return self.queues.find(*self._name)

    def task(self, queue: LiveQueue) -> MoveTask | None:
        stored = queue.group.get(self._key)
        return None if stored is None else decode_task(stored)

    async def run(self) -> None:
        """Until the task has ended, one way or another."""
        queue = self.source()
        if queue is None:
            return
        numbers = range(len(queue.record.partition_groups)) or (native.UNPARTITIONED,)
        running = len(numbers)
        ended = Suspension()

        def finish(_result: None, error: BaseException | None) -> None:
            nonlocal running
            if error is not None:
                raise error
            running -= 1
            if not running:
                ended.resume()

        for partition in numbers:
            start(_Mover(self, partition).run(), finish)
        await ended
        await self._end()

    async def _end(self) -> None:
        while (queue := self.source()) is not None and queue.group.is_ready:
            blocked = queue.group.latches.wait_for((self._key, queue.keys.generation))
            if blocked is None:
                break
            await blocked
        else:
            return
        task = self.task(queue)
        if task is None or task.status not in ACTIVE:
            return
        known = combined(task, task_parts(self.queues.groups, queue, self.started_at))
        if task.status == CANCELLING:
            task = replace(task, status=CANCELLED)
        elif known.status == FAILED:
            task = replace(task, status=FAILED, failure_reason=known.failure_reason)
        else:
            task = replace(task, status=COMPLETED)
        txn = queue.group.begin(self.queues.new_request())
        txn.check(queue.keys.generation)
        txn.put(self._key, encode_task(task))
        await queue.group.submit(txn)


class _Mover:
    """Moves what one partition has, or a queue without partitions."""

    def __init__(self, runner: _Runner, partition: int) -> None:
        self._runner = runner
        self._queues = runner.queues
        self._partition = partition
        self._key = shard_task_key(runner.segment, partition, runner.started_at)
        self._alarm = runner.queues.new_alarm()
        # Where to look next, and whether anything was found since looking from the start.
        self._begin = START
        self._has_found = False

    async def run(self) -> None:
        while (pause_ms := await self._step_or_wait()) is not None:
            if pause_ms:
                paused = Suspension()
                self._runner.pause(self._alarm, pause_ms, paused.resume)
                await paused

    async def _step_or_wait(self) -> int | None:
        """A partition that fails for the moment keeps no other from going on."""
        try:
            return await self._step()
        except OperationError:
            return config.RETRY_MS

    async def _step(self) -> int | None:
        """Milliseconds until the next step; None when there is none."""
        await look_at(self._queues, (self._runner.segment,))
        group = await self._settled_group()
        queue = self._runner.source()
        task = None if queue is None else self._runner.task(queue)
        if group is None or queue is None or task is None or task.status != RUNNING:
            return None
        stored = group.get(self._key)
        part = None if stored is None else decode_task(stored)
        if part is not None and part.status == FAILED:
            self._runner.has_failed = True
        if self._runner.has_failed or (part is not None and part.status == COMPLETED):
            return None
        shard = next((one for one in queue.shards if one.partition == self._partition), None)
        if shard is None or not group.is_ready:
            # Somebody else moves what is there, and may have to be told of it.
            if queue.group.is_ready and not group.leads:
                await self._queues.wake_movers(group, queue.group)
            return config.RETRY_MS
        if part is None:
            return await self._start(shard, task)
        if (group.now() - part.started_at) >> 16 >= config.MOVE_TASK_MS_MAX:
            await self._fail(TOO_LONG)
            return None
        return self._runner.milliseconds_to_wait() or await self._move_some(queue, shard, part)

    async def _settled_group(self) -> Group | None:
        """Where the messages are, once nobody purges or deletes them, or writes down what became of
        letters.
        """
        while (queue := self._runner.source()) is not None:
            placed = queue.record.partition_groups
            group = self._queues.groups[placed[self._partition]] if placed else queue.group
            blocked = group.latches.wait_for((self._key, self._generation_key(queue)))
            if blocked is None:
                return group
            await blocked
        return None

    def _generation_key(self, queue: LiveQueue) -> bytes:
        is_whole = self._partition == native.UNPARTITIONED
        keys = queue.keys if is_whole else PartitionKeys(queue.keys, self._partition)
        return keys.generation

    async def _start(self, shard: LiveQueue, task: MoveTask) -> int | None:
        """The partition's own row, in place of the oldest that is still remembered."""
        group = shard.group
        generation = group.get(shard.keys.generation)
        if generation is None or decode_generation(generation).deleted_ms:
            return None  # the queue is being deleted
        prefix = partition_tasks_prefix(self._runner.segment, self._partition)
        known = group.scan_keys(prefix, native.prefix_end(prefix), 2 * config.MOVE_TASKS_KEPT)
        txn = group.begin(self._queues.new_request())
        txn.check(shard.keys.generation)
        for key in known[: 1 - config.MOVE_TASKS_KEPT]:
            txn.delete(key)
        part = replace(task, started_at=txn.commit_ts, to_move=0)
        txn.put(self._key, encode_task(part))
        await group.submit(txn)
        return 0

    async def _give_up(self, part: MoveTask, lost: Taken) -> int | None:
        """The message has no target, or seems to have none: what is known of queues that others
        lead, or of the time before a restart, may be a moment behind.
        """
        named = target_name(part, lost)
        if named is None:
            await self._fail(NO_SOURCE)
            return None
        home = native.home_group(native.queue_segment(*named), len(self._queues.groups))
        await self._queues.readable(self._queues.groups[home])
        if self._queues.find(*named) is not None:
            return 0
        await self._fail(QUEUE_GONE)
        return None

    async def _fail(self, reason: str) -> None:
        group = await self._settled_group()
        stored = None if group is None else group.get(self._key)
        if group is not None and stored is not None:
            failed = replace(decode_task(stored), status=FAILED, failure_reason=reason)
            await self._store(group, failed)
        self._runner.has_failed = True

    async def _store(self, group: Group, part: MoveTask) -> None:
        txn = group.begin(self._queues.new_request())
        txn.put(self._key, encode_task(part))
        await group.submit(txn)

    # --- one batch ---------------------------------------------------------------------------

    async def _move_some(self, queue: LiveQueue, shard: LiveQueue, part: MoveTask) -> int | None:
        txn = shard.group.begin(self._queues.new_request())
        batch = take_batch(self._queues, shard, part, txn.commit_ts, self._begin)
        if batch.choice.all:
            if part.rate:
                share = len(queue.shards) / queue.record.partition_count
                self._runner.spend(len(batch.choice.messages), part.rate, share)
            await self._move(shard, part, txn, batch)
            self._begin = batch.begin
            self._has_found = batch.begin != START
            return 0
        if batch.lost is not None:
            return await self._give_up(part, batch.lost)
        self._begin = batch.begin
        if batch.begin != START:
            return _NEXT_TURN_MS
        if self._has_found:
            # Once more: what nobody could move when it was passed may be free by now.
            self._has_found = False
            return 0
        await self._store(shard.group, replace(part, status=COMPLETED))
        return None

    async def _move(self, shard: LiveQueue, part: MoveTask, txn: Txn, batch: Batch) -> None:
        choice = batch.choice
        for taken in choice.all:
            plan_removal(shard, txn, taken.position, taken.state, taken.record)
        claim = plan_claim(shard, txn, choice)
        messages = zip(choice.messages, batch.targets, strict=True)
        posted = post_all(txn, shard, messages, self._runner.started_at)
        moved = part.moved + len(choice.messages)
        txn.put(self._key, encode_task(replace(part, moved=moved)))
        outcome = shard.group.submit(txn)
        try:
            await outcome
        except OperationError:
            claim.give_back(choice)
            raise
        finally:
            claim.settle()
        shard.removed([taken.position for taken in choice.all])
        shard.settled(choice)
        for letter in posted:
            await self._runner.outbox.settled(letter)
