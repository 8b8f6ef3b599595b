"""What handlers work with: the groups, the live queues, fresh identities. Wired in `node.py`."""

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from fastnode import config, native
from fastnode.clock import IdSource
from fastnode.flow import Suspension
from fastnode.queue.attributes import is_fifo_queue
from fastnode.queue.caller import Call, Caller
from fastnode.queue.errors import queue_does_not_exist
from fastnode.queue.fifo_live import FifoQueue
from fastnode.queue.inbox import deliver
from fastnode.queue.live import LiveQueue
from fastnode.queue.long_poll import Alarm
from fastnode.queue.move_runner import MoveTasks
from fastnode.queue.outbox import Outbox
from fastnode.queue.partition_groups import spread_partitions
from fastnode.queue.partitions import PartitionedQueue
from fastnode.queue.policy_access import require_access
from fastnode.queue.queue_url import resolve
from fastnode.queue.standard_live import StandardQueue
from fastnode.store.group import Group
from fastnode.store.keyspace import QueueKeys
from fastnode.store.records import NO_GENERATION, Generation, decode_generation, decode_queue

# Asked for a new queue's name and number of partitions, if more than one; raises what refuses it.
PartitionGate = Callable[[str, int], Coroutine[Suspension, Any, None]]
# The groups of a new queue's partitions: of its name, their number and its home group.
Placement = Callable[[str, int, int], tuple[int, ...]]


async def open_gate(_name: str, _count: int) -> None:
    """Whoever has no cluster to ask."""


class Service:
    def __init__(
        self,
        groups: Sequence[Group],
        ids: IdSource,
        new_alarm: Callable[[], Alarm],
        *,
        is_strict: bool,
    ) -> None:
        self.groups = groups
        self.is_strict = is_strict
        self._ids = ids
        self.partition_gate: PartitionGate = open_gate
        self.placement: Placement = partial(spread_partitions, groups=len(groups))
        self.new_alarm = new_alarm
        self._live: dict[tuple[str, str, str], LiveQueue] = {}
        # Out of memory's way, but some call still works with them: there must never be two.
        self._retired: WeakValueDictionary[tuple[str, str, str], LiveQueue] = WeakValueDictionary()
        self._resolved: dict[str, tuple[str | None, str]] = {}
        self.outbox = Outbox(self, deliver)
        self.move_tasks = MoveTasks(self, self.outbox)

    def resume(self) -> None:
        """Every group is led and ready: go on with what was begun before the last stop."""
        for group in self.groups:
            self.outbox.resume(group)
            self.move_tasks.resume(group)

    def new_request(self) -> bytes:
        """The identity of one call, for its whole life."""
        return self._ids.take(16)

    def new_secret(self) -> bytes:
        return self._ids.take(16)

    def live_queue(self, caller: Caller, queue_url: str | None) -> LiveQueue | None:
        """The queue that a call means, if it is in memory and nobody is changing it."""
        resolved = self._resolved.get(queue_url or "")
        if resolved is None:
            return None
        account, name = resolved
        queue = self._live.get((account or caller.account, caller.region, name))
        if queue is None or queue.group.latches.is_held(queue.keys.generation):
            return None
        # Whether the caller may is a question for the general way.
        is_plain = queue.policy is None and queue.account == caller.account
        return queue if is_plain else None

    async def queue(self, call: Call, queue_url: str | None) -> LiveQueue:
        """The queue that a call means. Waits while it is being purged or deleted."""
        caller = call.caller
        account, name = self._resolved.get(queue_url or "") or self._resolve(queue_url)
        queue = self.find(account or caller.account, caller.region, name)
        if queue is not None and queue.group.latches.is_held(queue.keys.generation):
            queue = await self._unchanging(queue)
        if queue is None:
            raise queue_does_not_exist()
        if queue.policy is not None or queue.account != caller.account:
            require_access(queue, call)
        return queue

    async def queue_named(
        self, call: Call, account: str, region: str, name: str
    ) -> LiveQueue | None:
        """As `queue`, for calls that name it by its ARN."""
        queue = self.find(account, region, name)
        queue = None if queue is None else await self._unchanging(queue)
        if queue is not None:
            require_access(queue, call)
        return queue

    async def _unchanging(self, queue: LiveQueue) -> LiveQueue | None:
        """The queue of the same name, once nobody purges or deletes it."""
        found: LiveQueue | None = queue
        while found is not None:
            blocked = found.group.latches.wait_for((found.keys.generation,))
            if blocked is None:
                return found
            await blocked
            found = self.find(queue.account, queue.region, queue.name)
        return None

    async def readable(self, *groups: Group) -> None:
        """What is read from these groups afterwards is true: nobody else leads them by now."""
        for group in groups:
            if not group.is_readable:
                await group.readable()

    def _resolve(self, queue_url: str | None) -> tuple[str | None, str]:
        """Clients repeat the same few URLs; starting over is the cheapest bound on the rest."""
        resolved = resolve(queue_url)
        if len(self._resolved) >= config.RESOLVED_URLS_MAX:
            self._resolved.clear()
        self._resolved[queue_url or ""] = resolved
        return resolved

    def find(self, account: str, region: str, name: str) -> LiveQueue | None:
        queue = self._live.get((account, region, name))
        return queue if queue is not None else self._load(account, region, name)

    def forget(self, queue: LiveQueue) -> None:
        """The queue was deleted."""
        key = queue.account, queue.region, queue.name
        self._live.pop(key, None)
        self._retired.pop(key, None)
        queue.close()

    def live_queues(self) -> list[LiveQueue]:
        return list(self._live.values())

    def end_polls(self) -> None:
        """The node stops: whoever waits for a message gets an empty answer now."""
        for queue in self._live.values():
            queue.waiters.end_all()

    def group_of(self, keys: QueueKeys) -> Group:
        return self.groups[native.home_group(keys.segment, len(self.groups))]

    def partition_groups(self, keys: QueueKeys, count: int) -> tuple[int, ...]:
        """Where the partitions of a new queue live."""
        if count == 1:
            return ()
        home = native.home_group(keys.segment, len(self.groups))
        return self.placement(native.split_queue_segment(keys.segment)[2], count, home)

    def generation_of(self, keys: QueueKeys) -> Generation:
        stored = self.group_of(keys).get(keys.generation)
        return NO_GENERATION if stored is None else decode_generation(stored)

    def _load(self, account: str, region: str, name: str) -> LiveQueue | None:
        retired = self._retired.pop((account, region, name), None)
        if retired is not None:
            self._live[account, region, name] = retired
            return retired
        if not account:
            return None  # an anonymous caller's own queue: it has none
        keys = QueueKeys(account, region, name)
        group = self.group_of(keys)
        stored = group.get(keys.meta)
        if stored is None:
            return None
        if len(self._live) >= config.LIVE_QUEUES_MAX:
            self._retire_idle()
        generation = self.generation_of(keys).number
        record = decode_queue(stored)
        alarm = self.new_alarm()
        queue: LiveQueue
        if record.partition_groups:
            queue = PartitionedQueue(self.groups, keys, group, generation, record, alarm)
        elif is_fifo_queue(record.attributes):
            queue = FifoQueue(group, keys, generation, record, alarm)
        else:
            queue = StandardQueue(group, keys, generation, record, alarm)
        self._live[account, region, name] = queue
        return queue

    def _retire_idle(self) -> None:
        """Make room: memory of a queue that nobody uses is read again at its next use."""
        idle = [key for key, queue in self._live.items() if queue.is_idle]
        for key in idle[: config.LIVE_QUEUES_MAX // 2 + 1]:
            self._retired[key] = self._live.pop(key)
