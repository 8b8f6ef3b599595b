"""What handlers work with: the groups, the live queues, fresh identities. Wired in `node.py`."""

from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from typing import Any, Protocol
from weakref import WeakValueDictionary

from fastnode import config, native
from fastnode.clock import IdSource
from fastnode.errors import NotLed, Unavailable
from fastnode.flow import Suspension
from fastnode.queue import parts
from fastnode.queue.attributes import is_fifo_queue
from fastnode.queue.caller import Call, Caller
from fastnode.queue.errors import SqsError, queue_does_not_exist
from fastnode.queue.fanout_meter import FanoutMeter
from fastnode.queue.fifo_live import FifoQueue
from fastnode.queue.inbox import deliver
from fastnode.queue.live import LiveQueue
from fastnode.queue.long_poll import Alarm, Polls
from fastnode.queue.move_runner import MoveTasks
from fastnode.queue.outbox import Numbered, Outbox, Queues
from fastnode.queue.partition_groups import spread_partitions
from fastnode.queue.partitions import PartitionedQueue
from fastnode.queue.policy_access import require_access
from fastnode.queue.queue_url import resolve
from fastnode.queue.read_ahead import Keeper, ReadAhead
from fastnode.queue.retry import Gates
from fastnode.queue.standard_live import StandardQueue
from fastnode.store.group import Group
from fastnode.store.keyspace import QueueKeys, encode_position, split_position
from fastnode.store.records import NO_GENERATION, Generation, decode_generation, decode_queue

# Asked for a new queue's name and number of partitions, if more than one; raises what refuses it.
PartitionGate = Callable[[str, int], Coroutine[Suspension, Any, None]]
# The groups of a new queue's partitions: of its name, their number and its home group.
Placement = Callable[[str, int, int], tuple[int, ...]]


class Ask(Protocol):
    """Has a part of a call done where a group is led, which is not here. `call` may leave before
    the answer: then nobody waits for it any more.
    """

    def __call__(
        self, group: Group, part: parts.Part, call: Call | None = None
    ) -> Coroutine[Suspension, Any, Any]: ...


async def open_gate(_name: str, _count: int) -> None:
    """Whoever has no cluster to ask."""


async def ask_nobody(group: Group, part: parts.Part, call: Call | None = None) -> Any:
    """Whoever has no cluster to ask."""
    raise NotLed("the group has no leader here")


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
        # What the last caller meant by a URL, as long as it is live: a look-up instead of two, and
        # with many queues each is a walk through cold memory.
        self._meant: dict[str, LiveQueue] = {}
        self._read_ahead = ReadAhead(self._keepers)
        self.ask: Ask = ask_nobody
        self.outbox = Outbox(self, self._deliver)
        self.move_tasks = MoveTasks(self, self.outbox)
        self.fanout = FanoutMeter()
        self.gates = Gates()
        self.polls = Polls()
        # Receives that have landed here and are not answered yet, because they met dead letters.
        self.answering: set[bytes] = set()
        for group in groups:
            group.on_ready = self._begin_leading
            group.on_lost = self._end_leading

    async def _deliver(
        self, _queues: Queues, group: Group, source: int, letters: Sequence[Numbered]
    ) -> frozenset[int]:
        """Letters to their target group, wherever it is led."""
        if group.leads:
            return await deliver(self, group, source, letters)
        numbered = [(encode_position(number), letter) for number, letter in letters]
        refused = await self.ask(group, parts.Deliver(group.number, source, numbered))
        return frozenset(map(split_position, refused))

    async def wake_movers(self, group: Group, home: Group) -> None:
        """Who leads the group learns of the move tasks that are at work in the home group."""
        await self.ask(group, parts.Follow(home.number, home.applied_index))

    def _begin_leading(self, group: Group) -> None:
        """Go on with what whoever led before has left."""
        self._forget_group(group)
        self.outbox.resume(group)
        self.move_tasks.resume(group)

    def _end_leading(self, group: Group) -> None:
        self.outbox.pause(group)
        self._forget_group(group)

    def _forget_group(self, group: Group) -> None:
        """Memory follows what its node plans: none is worth anything in another leadership."""
        self._meant.clear()
        for memory in (self._live, self._retired):
            for key, queue in list(memory.items()):
                # Whoever waited for it goes on within, and may have looked for it anew.
                if queue.lose(group) and memory.get(key) is queue:
                    del memory[key]

    def new_request(self) -> bytes:
        """The identity of a transaction that carries no client's answer."""
        return self._ids.take(16)

    def identity(self, call: Call) -> bytes:
        """The identity of a call, for its whole life."""
        if not call.request:
            call.request = self._ids.take(16)
        return call.request

    def home(self, caller: Caller, queue_url: str | None) -> Group | None:
        """The group that remembers calls about a queue without partitions, be there such a queue or
        not; None for what is no URL.
        """
        try:
            account, name = self.resolve(queue_url)
        except SqsError:
            return None
        key = account or caller.account, caller.region, name
        queue = self._live.get(key)
        if queue is not None:
            return queue.group
        return self.group_of(QueueKeys(*key)) if key[0] else None

    def new_secret(self) -> bytes:
        return self._ids.take(16)

    def live_queue(self, caller: Caller, queue_url: str | None) -> LiveQueue | None:
        """The queue that a call means, if it is in memory, nobody is changing it, and nobody else
        could have changed it.
        """
        queue = self._meant.get(queue_url or "")
        if queue is None or queue.owner is not caller:
            queue = self._own_queue(caller, queue_url or "")
        # Whether the caller may is a question for the general way.
        if queue is None or queue.policy is not None:
            return None
        group = queue.group
        if not group.is_ready or queue.generation_key in group.latches.held:
            return None
        return queue

    def _own_queue(self, caller: Caller, queue_url: str) -> LiveQueue | None:
        """The caller's own, if URL and queue are known."""
        resolved = self._resolved.get(queue_url)
        if resolved is None:
            return None
        account, name = resolved
        queue = self._live.get((account or caller.account, caller.region, name))
        if queue is None or queue.account != caller.account:
            return None
        self._meant[queue_url] = queue
        queue.owner = caller
        return queue

    async def queue(self, call: Call, queue_url: str | None) -> LiveQueue:
        """The queue that a call means. Waits while it is being purged or deleted."""
        caller = call.caller
        account, name = self.resolve(queue_url)
        named = account or caller.account, caller.region, name
        queue = self.find(*named)
        if queue is None and named[0]:
            # Others may lead, and have made it.
            await self.readable(self.group_of(QueueKeys(*named)))
            queue = self.find(*named)
        if queue is not None and queue.group.latches.is_held(queue.keys.generation):
            queue = await self._unchanging(queue)
        if queue is not None and not queue.is_confirmed:
            queue = await self.confirmed(queue)
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

    async def confirmed(self, queue: LiveQueue) -> LiveQueue | None:
        """The queue of the same name, as it is now, whoever leads its home group."""
        await self.readable(queue.group)
        found = self.find(queue.account, queue.region, queue.name)
        if found is not None:
            found.is_confirmed = True
        return found

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
                await self._readable(group)

    async def still_led(self, group: Group) -> None:
        """For a call that found just now that it has nothing to write: no log says that this node
        led. A leader that stood still does not know what others have done since.
        """
        term = group.term
        await self.readable(group)
        if not group.is_ready or group.term != term:
            raise NotLed("the group has another leader")

    async def _readable(self, group: Group) -> None:
        for _ in range(config.PLANS_MAX):
            try:
                if group.leads:
                    await group.readable()
                else:
                    await group.reached(await self.ask(group, parts.Barrier(group.number)))
                return
            except NotLed:
                # The lead has just come here, or gone from here.
                continue
        raise Unavailable("the group changes its leader too often")

    def resolve(self, queue_url: str | None) -> tuple[str | None, str]:
        """Account, if the URL names one, and name of the queue. Clients repeat the same few URLs;
        starting over is the cheapest bound on the rest.
        """
        known = self._resolved.get(queue_url or "")
        if known is not None:
            return known
        resolved = resolve(queue_url)
        if len(self._resolved) >= config.RESOLVED_URLS_MAX:
            self._resolved.clear()
            self._meant.clear()
        if queue_url is not None and len(queue_url) <= config.RESOLVED_URL_LENGTH_MAX:
            self._resolved[queue_url] = resolved
        return resolved

    def find(self, account: str, region: str, name: str) -> LiveQueue | None:
        """The queue of that name. What it is may be a moment behind if another node leads its home
        group; what it holds counts only where it is led.
        """
        queue = self._live.get((account, region, name))
        if queue is not None and queue.group.leads:
            return queue
        return self._load(account, region, name)

    def require(self, queue: LiveQueue) -> None:
        """Raise if there is no queue of this name any more."""
        if self.find(queue.account, queue.region, queue.name) is None:
            raise queue_does_not_exist()

    def doubt(self, keys: QueueKeys, partition: int) -> None:
        """Whether the partition's queue still exists is to be asked anew."""
        queue = self._live.get(native.split_queue_segment(keys.segment))
        if isinstance(queue, PartitionedQueue):
            queue.doubt(partition)

    def forget(self, queue: LiveQueue) -> None:
        """The queue was deleted."""
        key = queue.account, queue.region, queue.name
        self._meant.clear()
        self._live.pop(key, None)
        self._retired.pop(key, None)
        queue.close()

    def is_live(self, account: str, region: str, name: str) -> bool:
        """Whether it is in memory."""
        return (account, region, name) in self._live

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
        """A queue that is not in memory, or is and somebody else may have changed it."""
        if not account:
            return None  # an anonymous caller's own queue: it has none
        name_key = account, region, name
        keys = QueueKeys(account, region, name)
        group = self.group_of(keys)
        stored = group.get(keys.meta)
        known = self._live.get(name_key) or self._retired.pop(name_key, None)
        if known is not None and (group.leads or known.follow(stored)):
            self._live[name_key] = known
            return known
        if known is not None:
            self.forget(known)
        if stored is None:
            return None
        if len(self._live) >= config.LIVE_QUEUES_MAX:
            self._retire_idle()
        queue = self._live[name_key] = self._new_queue(group, keys, stored)
        return queue

    def _new_queue(self, group: Group, keys: QueueKeys, stored: bytes) -> LiveQueue:
        record = decode_queue(stored)
        parts = self.generation_of(keys).number, record, self.new_alarm(), self._read_ahead
        queue: LiveQueue
        if record.partition_groups:
            queue = PartitionedQueue(self.groups, keys, group, *parts)
        elif is_fifo_queue(record.attributes):
            queue = FifoQueue(group, keys, *parts)
        else:
            queue = StandardQueue(group, keys, *parts)
        queue.stored = stored
        return queue

    def _keepers(self) -> Iterator[Keeper]:
        for memory in (self._live, self._retired):
            for queue in list(memory.values()):
                yield from queue.keepers

    def _retire_idle(self) -> None:
        """Make room: memory of a queue that nobody uses is read again at its next use."""
        self._meant.clear()
        idle = [key for key, queue in self._live.items() if queue.is_idle]
        for key in idle[: config.LIVE_QUEUES_MAX // 2 + 1]:
            self._retired[key] = self._live.pop(key)
