"""Messages set aside for receives that other nodes answer: in memory, for a moment.

A receive of a queue with partitions asks the nodes that lead them what they have, then takes what
fits into its answer and gives back the rest. Between the two nobody else may touch the messages:
their states are latched. Whoever does not come back in time gets nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple

from fastnode import config
from fastnode.errors import NotLed, OperationError, Unavailable
from fastnode.flow import Suspension, gather
from fastnode.queue import dead_letters
from fastnode.queue.caller import RECEIVES, Call
from fastnode.queue.choice import Choice
from fastnode.queue.live import LiveQueue
from fastnode.queue.long_poll import Alarm
from fastnode.queue.partitions import PartitionedQueue
from fastnode.queue.receive_one import Budget, Received, choose, commit, give_back
from fastnode.queue.repeats import request_at
from fastnode.queue.service import Service
from fastnode.queue.validate import ValidReceive


class _Held(NamedTuple):
    """What was chosen of a partition, in which generation and in whose term."""

    shard: LiveQueue
    generation: int
    term: int
    choice: Choice
    latched: list[bytes]


class Claims:
    """Of one node. No node uses a number that another has used: whoever comes late, or to a node
    that leads instead, finds nothing.
    """

    def __init__(self, service: Service, alarm: Alarm) -> None:
        self._service = service
        self._alarm = alarm
        # Each with its deadline; in the order of their deadlines, which are all as far away.
        self._held: dict[int, tuple[int, list[_Held]]] = {}
        self._taken: dict[int, tuple[int, list[Received]]] = {}

    async def claim(
        self, queue: PartitionedQueue, valid: ValidReceive, call: Call, deadline_ms: int
    ) -> tuple[int, int, Budget]:
        """Number of the claim, 0 for none, how many messages it holds, and what choosing cost.
        Waits for the first message until the deadline, or until the call leaves.
        """
        service, led = self._service, len(queue.shards)
        while True:
            if len(queue.shards) < led:
                raise Unavailable("some of the partitions are led elsewhere now")
            budget = Budget(valid.messages_max)
            shards = [shard for shard in queue.rotated() if _may_give(shard)]
            held = [_hold(service, shard, valid, budget) for shard in shards]
            count = sum(len(one.choice.messages) for one in held)
            if count:
                return self._keep(held), count, budget
            request = service.new_request()
            await gather(_finish(service, one, request, valid) for one in held if one.choice.all)
            if call.is_gone or queue.group.now() >> 16 >= deadline_ms:
                return 0, 0, budget
            waiter = queue.wait(deadline_ms)
            call.on_gone = waiter.leave
            is_woken: bool = await waiter
            call.on_gone = None
            if call.is_gone:
                if is_woken:
                    queue.waiters.wake_one()
                return 0, 0, budget

    async def take(
        self, claim: int, count: int, request: bytes, valid: ValidReceive
    ) -> list[Received]:
        """Deliver the first `count` messages and give back the others. A claim that is over gives
        nothing.
        """
        _, held = self._held.pop(claim, (0, []))
        outcomes = await gather(
            _deliver_or_error(self._service, one, wanted, request, valid)
            for one, wanted in zip(held, _shares(held, count), strict=True)
        )
        parts = [part for part in outcomes if isinstance(part, Received)]
        for part in outcomes:
            if isinstance(part, OperationError) and not parts:
                raise part
        self._taken[claim] = self._now_ms() + config.CLAIM_MS, parts
        self._set_alarm()
        return parts

    async def give_back(self, claim: int) -> None:
        """The answer could not be written: as if the receive had never been."""
        _, received = self._taken.pop(claim, (0, []))
        await gather(give_back(self._service, part) for part in received)

    def _keep(self, held: list[_Held]) -> int:
        number = int.from_bytes(self._service.new_request()[8:], "big") or 1
        for one in held:
            one.shard.group.latches.hold(one.latched)
        self._held[number] = self._now_ms() + config.CLAIM_MS, held
        self._set_alarm()
        return number

    def _now_ms(self) -> int:
        return self._service.groups[0].boottime_ns() // 1_000_000

    def _set_alarm(self) -> None:
        deadlines = [next(iter(kept.values()))[0] for kept in (self._held, self._taken) if kept]
        if deadlines:
            self._alarm.set(min(deadlines), self._now_ms(), self._expire)
        else:
            self._alarm.clear()

    def _expire(self) -> None:
        now_ms = self._now_ms()
        for claim in [one for one, (at_ms, _) in self._held.items() if at_ms <= now_ms]:
            for held in self._held.pop(claim)[1]:
                _release(held)
        for claim in [one for one, (at_ms, _) in self._taken.items() if at_ms <= now_ms]:
            del self._taken[claim]
        self._set_alarm()


def _may_give(shard: LiveQueue) -> bool:
    return shard.group.is_ready and shard.has_available()


def _hold(service: Service, shard: LiveQueue, valid: ValidReceive, budget: Budget) -> _Held:
    dead = dead_letters.destination(service, shard)
    choice = choose(shard, shard.group.now(), valid, budget, dead.receives_max if dead else 0)
    latched = [shard.messages.state_key(taken.position) for taken in choice.all]
    return _Held(shard, shard.generation, shard.group.term, choice, latched)


def _shares(held: Sequence[_Held], count: int) -> list[int]:
    """How many messages of each part are wanted, from the first part on."""
    shares: list[int] = []
    for one in held:
        shares.append(min(len(one.choice.messages), count - sum(shares)))
    return shares


def _is_current(held: _Held) -> bool:
    shard = held.shard
    is_same = shard.generation == held.generation and shard.group.term == held.term
    return is_same and shard.group.is_ready


def _release(held: _Held) -> None:
    waiting = held.shard.group.latches.release(held.latched)
    if _is_current(held):
        held.shard.give_back(held.choice)
    for one in waiting:
        one.resume()
    if held.shard.waiters:
        held.shard.waiters.wake_one()


async def _deliver_or_error(
    service: Service, held: _Held, wanted: int, request: bytes, valid: ValidReceive
) -> Received | OperationError | None:
    """A partition that fails must not cost the client what others have given."""
    try:
        return await _deliver(service, held, wanted, request, valid)
    except OperationError as error:
        return error


async def _deliver(
    service: Service, held: _Held, wanted: int, request: bytes, valid: ValidReceive
) -> Received | None:
    """The messages that are wanted of this part; the rest is available again."""
    shard, choice = held.shard, held.choice
    if not wanted or not _is_current(held):
        _release(held)
        return None
    waiting = shard.group.latches.release(held.latched)
    shard.give_back(Choice(choice.messages[wanted:], [], []))
    taken = held._replace(choice=choice._replace(messages=choice.messages[:wanted]))
    return await _finish(service, taken, request, valid, waiting)


async def _finish(
    service: Service,
    held: _Held,
    request: bytes,
    valid: ValidReceive,
    waiting: Sequence[Suspension] = (),
) -> Received | None:
    """`waiting` are those who wait for the messages' states: they go on when the transaction has
    latched them again, not before.
    """
    shard, choice = held.shard, held.choice
    try:
        txn = shard.group.begin(request_at(request, shard.partition), RECEIVES)
    except OperationError as error:
        shard.give_back(choice)
        for one in waiting:
            one.resume()
        if isinstance(error, NotLed):
            return None
        raise
    return await commit(service, shard, txn, choice, valid, waiting)
