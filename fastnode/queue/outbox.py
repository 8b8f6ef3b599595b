"""Messages on their way from one queue to another, which may live in another group.

No transaction spans two groups. So a move is three: the *source* group removes the message and
stores a letter; the *target* group stores the message and remembers the letter's number (see
`inbox.py`); the source group removes the letter. A crash between any two repeats the next one, and
the target knows what it has decided. A letter that the target refuses (its queue is gone) becomes a
message of the source queue again.

A letter's number is the commit timestamp and index of its transaction, so numbers rise in the order
of the source's log without a counter. Letters of one pair of groups are delivered in that order,
one bounded batch at a time, and the source keeps the number of the last one that is through: so two
states of two groups show by themselves whether a letter would be lost or doubled between them.
"""

from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec
from msgspec import Struct

from fastnode import config, native
from fastnode.errors import NotLed, OperationError, Unavailable
from fastnode.flow import Suspension, start
from fastnode.native import MessageRecord
from fastnode.queue.choice import Taken
from fastnode.queue.live import LiveQueue
from fastnode.queue.long_poll import Alarm
from fastnode.queue.message_attributes import decode_extras
from fastnode.queue.move_record import decode_task, encode_task, refused_once
from fastnode.queue.plans import plan_return
from fastnode.queue.timers import Timer
from fastnode.store.group import Group
from fastnode.store.keyspace import (
    OUTBOX_PREFIX,
    encode_position,
    outbox_prefix,
    outbox_target,
    sent_key,
    shard_task_key,
    split_position,
)
from fastnode.store.txn import Txn


class Letter(Struct, frozen=True, array_like=True, gc=False):
    """A message between two queues, with what is needed to put it back. `state` is empty if nobody
    had received it; `task` says when the move task that sent it began, 0 for a dead letter.
    """

    target: bytes
    incarnation: int
    source: bytes
    generation: int
    position: bytes
    stored: bytes
    state: bytes
    task: int
    partition: int = native.UNPARTITIONED


Numbered = tuple[int, Letter]


class Posted(NamedTuple):
    """The last letter of a transaction, for whoever waits until it has arrived."""

    source: Group
    target: Group
    number: int


class Queues(Protocol):
    """What moving messages needs of the service."""

    @property
    def groups(self) -> Sequence[Group]: ...
    def find(self, account: str, region: str, name: str) -> LiveQueue | None: ...
    def new_request(self) -> bytes: ...
    def new_alarm(self) -> Alarm: ...
    async def readable(self, *groups: Group) -> None: ...
    async def confirmed(self, queue: LiveQueue) -> LiveQueue | None: ...
    async def wake_movers(self, group: Group, home: Group) -> None: ...


Deliver = Callable[
    [Queues, Group, int, Sequence[Numbered]], Coroutine[Suspension, Any, frozenset[int]]
]
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Letter)


def post_all(
    txn: Txn, queue: LiveQueue, messages: Iterable[tuple[Taken, LiveQueue]], task: int = 0
) -> list[Posted]:
    """Write letters, each to its target queue, in the transaction that removes the messages."""
    letters: dict[int, list[Letter]] = {}
    groups: dict[int, Group] = {}
    for taken, target in messages:
        group = target.group_at(target.partition_for(_group_id(taken.record)))
        groups[group.number] = group
        letters.setdefault(group.number, []).append(_letter(queue, target, taken, task))
    return [_post(txn, queue.group, groups[number], some) for number, some in letters.items()]


async def look_at(queues: Queues, segments: Iterable[bytes]) -> None:
    """What is known of these queues afterwards is certain: of one with partitions the home group
    may be led elsewhere, and be a moment behind here.
    """
    for segment in dict.fromkeys(segments):
        queue = queues.find(*native.split_queue_segment(segment))
        if queue is None:
            home = native.home_group(segment, len(queues.groups))
            await queues.readable(queues.groups[home])
        elif not queue.is_confirmed:
            await queues.confirmed(queue)


def shard_of(queue: LiveQueue, record: MessageRecord) -> LiveQueue:
    """The partition that a message belongs to."""
    return queue.shard_for(_group_id(record))


def _group_id(record: MessageRecord) -> str:
    return decode_extras(record.extras).group_id or ""


def _letter(queue: LiveQueue, target: LiveQueue, taken: Taken, task: int) -> Letter:
    return Letter(
        target=target.keys.segment,
        incarnation=target.record.incarnation,
        source=queue.keys.segment,
        generation=queue.generation,
        position=encode_position(taken.position),
        stored=taken.stored,
        state=b"" if taken.state is None else native.encode_state(*taken.state),
        task=task,
        partition=queue.partition,
    )


def _post(txn: Txn, source: Group, target: Group, letters: Sequence[Letter]) -> Posted:
    prefix, first = outbox_prefix(target.number), txn.commit_ts << 16
    for index, letter in enumerate(letters):
        txn.put_fresh(prefix + encode_position(first + index), _ENCODER.encode(letter))
    return Posted(source, target, first + len(letters) - 1)


class Outbox:
    """All pairs of groups of this node; each is carried on while it has letters."""

    def __init__(self, queues: Queues, deliver: Deliver) -> None:
        self._queues = queues
        self._deliver = deliver
        self._carriers: dict[tuple[int, int], _Carrier] = {}
        self._held_until_ns = 0

    def hold(self, nanoseconds: int) -> int:
        """Carry nothing more for so long, so that states of all groups can be taken that fit
        together. How many pairs are still at what they had begun.
        """
        self._held_until_ns = self._queues.groups[0].boottime_ns() + nanoseconds
        return sum(carrier.is_carrying for carrier in self._carriers.values())

    def _is_held(self) -> bool:
        return self._queues.groups[0].boottime_ns() < self._held_until_ns

    def resume(self, source: Group) -> None:
        """This node leads the group: carry on what somebody else has left, and what waits for it
        here.
        """
        start_at, end = OUTBOX_PREFIX, native.prefix_end(OUTBOX_PREFIX)
        while keys := source.scan_keys(start_at, end, 1):
            target = outbox_target(keys[0])
            self._carrier(source, self._queues.groups[target]).carry()
            start_at = native.prefix_end(outbox_prefix(target))

        for (_, number), carrier in list(self._carriers.items()):
            if number == source.number:
                carrier.carry()

    def pause(self, source: Group) -> None:
        """Somebody else leads the source's group, and carries on."""
        for key in [key for key in self._carriers if key[0] == source.number]:
            self._carriers.pop(key).stop()

    def settled(self, posted: Posted) -> Suspension:
        """Resumed when the letter has been decided, or could not be delivered for the moment."""
        return self._carrier(posted.source, posted.target).wait(posted.number)

    def _carrier(self, source: Group, target: Group) -> "_Carrier":
        key = source.number, target.number
        if key not in self._carriers:
            self._carriers[key] = _Carrier(
                self._queues, self._deliver, source, target, self._is_held
            )
        return self._carriers[key]


class _Carrier:
    """Delivers the letters of one group to another, in order, while there are any."""

    def __init__(
        self,
        queues: Queues,
        deliver: Deliver,
        source: Group,
        target: Group,
        is_held: Callable[[], bool],
    ) -> None:
        self._queues = queues
        self._deliver = deliver
        self._is_held = is_held
        self._source = source
        self._target = target
        self._alarm = queues.new_alarm()
        self.is_carrying = False
        self._is_stopped = False
        # Letters are removed in order: whatever is behind the last one is never scanned again.
        self._next = 0
        self._waiting: deque[tuple[int, Suspension]] = deque()

    def wait(self, number: int) -> Suspension:
        suspension = Suspension()
        self._waiting.append((number, suspension))
        self.carry()
        return suspension

    def stop(self) -> None:
        self._is_stopped = True
        self._alarm.clear()

    def carry(self) -> None:
        if not self.is_carrying and not self._is_stopped:
            self.is_carrying = True
            start(self._carry(), self._finish)

    async def _carry(self) -> None:
        while batch := self._batch():
            if self._is_held():
                raise Unavailable("letters are held back for a moment")
            refused = await self._deliver(self._queues, self._target, self._source.number, batch)
            await self._complete(batch, refused)
            self._next = batch[-1][0] + 1
            self._resume_waiting(batch[-1][0])

    def _finish(self, _result: None, error: BaseException | None) -> None:
        self.is_carrying = False
        if error is not None and not isinstance(error, OperationError):
            raise error
        # Nothing is left, or nothing can be done now: in either case nobody waits any longer.
        self._resume_waiting(None)
        if error is not None and not self._is_stopped:
            now_ms = self._source.now() >> 16
            self._alarm.set(now_ms + config.RETRY_MS, now_ms, self.carry)

    def _resume_waiting(self, last: int | None) -> None:
        while self._waiting and (last is None or self._waiting[0][0] <= last):
            self._waiting.popleft()[1].resume()

    def _batch(self) -> list[Numbered]:
        prefix = outbox_prefix(self._target.number)
        first = prefix + encode_position(self._next)
        limit = config.TRANSACTION_MESSAGES_MAX
        rows = self._source.scan(first, native.prefix_end(prefix), limit)
        return [(split_position(key), _DECODER.decode(letter)) for key, letter in rows]

    async def _complete(self, batch: Sequence[Numbered], refused: frozenset[int]) -> None:
        """The source's last step: letters go; refused ones are messages of their queue again."""
        group, prefix = self._source, outbox_prefix(self._target.number)
        returned = [letter for number, letter in batch if number in refused]
        queues = await self._sources(returned)
        if self._is_stopped:
            raise NotLed("another leader carries these letters")
        txn = group.begin(self._queues.new_request())
        for number, _ in batch:
            txn.delete(prefix + encode_position(number))
        txn.raise_to(sent_key(self._target.number), encode_position(batch[-1][0]))
        timers: list[tuple[LiveQueue, Timer]] = []
        for letter in returned:
            queue = queues[letter.source, letter.partition]
            if queue is not None and queue.generation == letter.generation:
                timers.append((queue, _plan_return(queue, txn, letter)))
        for key in dict.fromkeys(_task_key(letter) for letter in returned if letter.task):
            stored = group.get(key)
            if stored is not None:
                count = sum(1 for letter in returned if letter.task and _task_key(letter) == key)
                txn.put(key, encode_task(refused_once(decode_task(stored), count)))
        await group.submit(txn)
        for queue, timer in timers:
            queue.scheduled((timer,))
            queue.applied(txn)

    async def _sources(
        self, returned: Sequence[Letter]
    ) -> dict[tuple[bytes, int], LiveQueue | None]:
        """The queues that letters go back to, by segment and partition, once nobody changes them
        or their tasks.
        """
        while True:
            await look_at(self._queues, (letter.source for letter in returned))
            queues = {(one.source, one.partition): self._source_of(one) for one in returned}
            keys = [queue.keys.generation for queue in queues.values() if queue is not None]
            keys += [_task_key(letter) for letter in returned if letter.task]
            blocked = self._source.latches.wait_for(keys)
            if blocked is None:
                return queues
            await blocked

    def _source_of(self, letter: Letter) -> LiveQueue | None:
        queue = self._queues.find(*native.split_queue_segment(letter.source))
        if queue is None:
            return None
        has_it = queue.has_partition(letter.partition)
        shard = queue.shard_at(letter.partition) if has_it else None
        if has_it and shard is None:
            raise NotLed("the partition has no leader here")
        return shard


def _plan_return(queue: LiveQueue, txn: Txn, letter: Letter) -> Timer:
    txn.check(queue.keys.generation)
    state = native.decode_state(letter.state) if letter.state else None
    return plan_return(queue, txn, split_position(letter.position), letter.stored, state)


def _task_key(letter: Letter) -> bytes:
    return shard_task_key(letter.source, letter.partition, letter.task)
