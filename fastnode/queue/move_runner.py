"""Message move tasks at work: a bounded batch at a time, at the rate that was asked for.

Each step takes messages by the same claims as a receive, and in one transaction removes them, posts
them as letters and counts them. So a task goes on after a crash exactly where it was.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec.structs import replace

from fastnode import config, native
from fastnode.errors import OperationError
from fastnode.flow import Suspension, start
from fastnode.queue.live import Choice, LiveQueue, Taken
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
    decode_task,
    encode_task,
)
from fastnode.queue.outbox import Outbox, Queues, post_all
from fastnode.queue.plans import plan_claim, plan_removal
from fastnode.queue.queue_url import parse_arn
from fastnode.store.group import Group
from fastnode.store.keyspace import TASKS_PREFIX, task_key, task_source
from fastnode.store.txn import Txn

_PAGE_ROWS: Final = 1_000


class _Batch(NamedTuple):
    """What a step moves, and why it stops after that."""

    choice: Choice
    targets: list[LiveQueue]
    failure_reason: str | None


class MoveTasks:
    """The active tasks of this node, by the segment of their source queue."""

    def __init__(self, queues: Queues, outbox: Outbox) -> None:
        self._queues = queues
        self._outbox = outbox
        self._active: set[bytes] = set()

    def is_active(self, segment: bytes) -> bool:
        return segment in self._active

    def active_count(self, account: str) -> int:
        return sum(1 for segment in self._active if segment.startswith(account.encode()))

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
                runner.pause(config.RETRY_MS, lambda: start(runner.run(), finish))
            else:
                raise error

        start(runner.run(), finish)

    def resume(self, group: Group) -> None:
        """This node leads the group: go on with the tasks that were at work."""
        first, end = TASKS_PREFIX, native.prefix_end(TASKS_PREFIX)
        while rows := group.scan(first, end, _PAGE_ROWS):
            for key, stored in rows:
                task = decode_task(stored)
                if task.status in ACTIVE:
                    self.run(task_source(key), task.started_at)
            first = rows[-1][0] + b"\x00"


class _Runner:
    def __init__(self, queues: Queues, outbox: Outbox, segment: bytes, started_at: int) -> None:
        self._queues = queues
        self._outbox = outbox
        self._name = native.split_queue_segment(segment)
        self._key = task_key(segment, started_at)
        self._alarm = queues.new_alarm()

    def pause(self, milliseconds: int, go_on: Callable[[], None]) -> None:
        # Only the difference counts, so the clock of any group will do.
        now_ms = self._queues.groups[0].now() >> 16
        self._alarm.set(now_ms + milliseconds, now_ms, go_on)

    async def run(self) -> None:
        """Until the task has ended, one way or another."""
        while (pause_ms := await self._step()) is not None:
            if pause_ms:
                paused = Suspension()
                self.pause(pause_ms, paused.resume)
                await paused

    async def _step(self) -> int | None:
        """Milliseconds until the next step; None when there is none."""
        queue = await self._source()
        stored = None if queue is None else queue.group.get(self._key)
        if queue is None or stored is None:
            return None
        task = decode_task(stored)
        if task.status == CANCELLING:
            await self._end(queue, replace(task, status=CANCELLED))
        if task.status != RUNNING:
            return None
        if (queue.group.now() - task.started_at) >> 16 >= config.MOVE_TASK_MS_MAX:
            await self._end(queue, replace(task, status=FAILED, failure_reason=TOO_LONG))
            return None
        txn = queue.group.begin(self._queues.new_request())
        batch = self._take(queue, task, txn.commit_ts)
        if not batch.choice.all:
            reason = batch.failure_reason
            status = COMPLETED if reason is None else FAILED
            await self._end(queue, replace(task, status=status, failure_reason=reason))
            return None
        return await self._move(queue, task, txn, batch)

    async def _source(self) -> LiveQueue | None:
        while True:
            queue = self._queues.find(*self._name)
            if queue is None:
                return None
            blocked = queue.group.latches.wait_for((self._key, queue.keys.generation))
            if blocked is None:
                return queue
            await blocked

    async def _end(self, queue: LiveQueue, task: MoveTask) -> None:
        txn = queue.group.begin(self._queues.new_request())
        txn.put(self._key, encode_task(task))
        await queue.group.submit(txn)

    # --- one batch ---------------------------------------------------------------------------

    def _take(self, queue: LiveQueue, task: MoveTask, now: int) -> _Batch:
        limit = min(task.rate or config.MOVE_RATE_MAX, config.TRANSACTION_MESSAGES_MAX)
        choice = queue.choose_oldest(limit, now)
        moved: list[Taken] = []
        targets: list[LiveQueue] = []
        reason: str | None = None
        for taken in choice.messages:
            # What came after the task began stays: a message that fails again would go in circles.
            if taken.position >> 16 > task.started_at:
                break
            target, reason = self._target(task, taken)
            if target is None:
                break
            moved.append(taken)
            targets.append(target)
        queue.give_back(Choice(choice.messages[len(moved) :], [], []))
        return _Batch(Choice(moved, choice.expired, []), targets, reason)

    def _target(self, task: MoveTask, taken: Taken) -> tuple[LiveQueue | None, str | None]:
        arn = task.destination_arn
        if arn is None:
            moved = taken.moved
            if moved is None:
                return None, NO_SOURCE
            arn = moved.source_arn
        named = parse_arn(arn)
        target = None if named is None else self._queues.find(*named)
        return target, None if target is not None else QUEUE_GONE

    async def _move(self, queue: LiveQueue, task: MoveTask, txn: Txn, batch: _Batch) -> int:
        choice, group = batch.choice, queue.group
        for taken in choice.all:
            plan_removal(queue, txn, taken.position, taken.state, taken.record)
        claimed = plan_claim(queue, txn, choice)
        messages = zip(choice.messages, batch.targets, strict=True)
        posted = post_all(txn, queue, messages, task.started_at)
        count = len(choice.messages)
        txn.put(self._key, encode_task(replace(task, moved=task.moved + count)))
        outcome = group.submit(txn)
        try:
            await outcome
        except OperationError:
            queue.give_back(choice)
            raise
        finally:
            if claimed is not None:
                queue.waiting.settle(claimed)
        for taken in choice.all:
            queue.removed(taken.position)
        queue.settled(choice)
        for letter in posted:
            await self._outbox.settled(letter)
        return count * 1000 // task.rate if task.rate else 0
