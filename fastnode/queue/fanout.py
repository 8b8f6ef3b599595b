"""A receive of a queue whose partitions are led by several nodes, at the node that answers it.

The *places* of a queue are this node and the others that lead partitions of it. Each look begins
with another place. If that one has something, that is the answer. Otherwise all the others are
asked at once; they set messages aside, and the answer takes as many as fit. While a client waits,
every place waits for it, and the first that has something answers.
"""

from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any, Final

from fastnode import config
from fastnode.errors import NotLed, OperationError, Unavailable
from fastnode.flow import Suspension, gather, start
from fastnode.queue import parts
from fastnode.queue.api import Message
from fastnode.queue.caller import Call
from fastnode.queue.errors import SqsError
from fastnode.queue.long_poll import Waiter
from fastnode.queue.partitions import PartitionedQueue
from fastnode.queue.places import identity_of
from fastnode.queue.receive_answer import answers, each_once
from fastnode.queue.receive_one import Budget, Received, give_back, receive_here, redelivered
from fastnode.queue.service import Service
from fastnode.queue.validate import ValidReceive
from fastnode.store.group import Group

# A poll that is woken in vain, or whose places change their leaders, looks again, so often.
_LOOKS_MAX: Final = 64
# A place that has not answered by then has nothing: what others set aside is theirs again soon.
_LOOK_MS: Final = config.CLAIM_MS // 2
# After a place has failed that a poll waits at.
_PAUSE_MS: Final = 300


async def receive(
    service: Service, call: Call, queue: PartitionedQueue, valid: ValidReceive, deadline_ms: int
) -> list[Message]:
    fanout = _Fanout(service, call, queue, valid)
    messages = await fanout.repeat() if valid.attempt_id is not None else []
    for _ in range(_LOOKS_MAX):
        messages = messages or await fanout.look()
        if messages or call.is_gone or queue.group.now() >> 16 >= deadline_ms:
            break
        messages = await fanout.wait(deadline_ms)
        if fanout.is_over or call.is_gone:
            break
    if messages and call.is_gone:
        await fanout.give_back()
        return []
    if not messages and not fanout.has_heard:
        raise Unavailable("no partition of the queue can be reached")
    return messages


class _Fanout:
    """One receive. What other places set aside for it is taken, or is theirs again by time."""

    def __init__(
        self, service: Service, call: Call, queue: PartitionedQueue, valid: ValidReceive
    ) -> None:
        self._service = service
        self._call = call
        self._queue = queue
        self._valid = valid
        self._received: list[Received] = []
        self._taken: list[tuple[Group, int]] = []
        # Whether any partition was looked at, and whether the poll has ended.
        self.has_heard = False
        self.is_over = False

    async def look(self) -> list[Message]:
        budget = Budget(self._valid.messages_max)
        others = [place for place in self._queue.others() if place.leader]
        turn = self._queue.next_place(len(others) + 1)
        messages: list[Message] = []
        if turn:
            first = others.pop(turn - 1)
            messages = await self._look_there([first], budget)
        if not messages:
            messages = await self._look_here(budget)
        if not messages:
            messages = await self._look_there(others, budget)
        self._service.fanout.add(budget.visited, budget.rows, budget.nanoseconds)
        if self._call.wants_explanation:
            self._call.explanation = budget.explain()
        return messages

    async def repeat(self) -> list[Message]:
        """What an earlier receive of the same attempt id took, wherever it is."""
        self._received = await redelivered(self._service, self._queue, self._valid)
        part = parts.Redeliver(*identity_of(self._queue), b"", self._valid)
        there = await gather(self._service.ask(place, part) for place in self._queue.others())
        found = answers(self._received, self._valid)
        return each_once([*found, *(message for some in there for message in some or ())])

    async def wait(self, deadline_ms: int) -> list[Message]:
        """What the first of the other places gives that has something; nothing when it is worth
        looking again, or the time is over.
        """
        call, queue = self._call, self._queue
        wait_ms = deadline_ms - (queue.group.now() >> 16)
        woken, waiter = Suspension(), queue.wait(deadline_ms)
        waits = [(place, self._new_call()) for place in queue.others()]
        start(_awaited(waiter), partial(_wake, woken, None))
        for place, waiting in waits:
            start(self._watch(place, wait_ms, waiting), partial(_wake, woken, place))
        call.on_gone = waiter.leave
        try:
            place, found = await woken
        finally:
            call.on_gone = None
            waiter.leave()
            for _, waiting in waits:
                waiting.leave()
        if place is None:
            self.is_over = not found
            return []
        if found is None:
            return []
        return await self._take(place, found.claim, min(found.count, self._valid.messages_max))

    async def give_back(self) -> None:
        """Nobody is left to read the answer."""
        await gather(give_back(self._service, part) for part in self._received)
        await gather(
            self._service.ask(place, parts.GiveBack(claim)) for place, claim in self._taken
        )

    async def _look_here(self, budget: Budget) -> list[Message]:
        self.has_heard = self.has_heard or bool(self._queue.shards)
        request = self._service.identity(self._call)
        self._received = await receive_here(
            self._service, self._queue, request, self._valid, budget
        )
        return answers(self._received, self._valid)

    async def _look_there(self, places: Sequence[Group], budget: Budget) -> list[Message]:
        budget.remote += len(places)
        claims = await self._claims(places)
        takes: list[Coroutine[Suspension, Any, list[Message] | OperationError]] = []
        for place, claimed in zip(places, claims, strict=True):
            if claimed is None or not claimed.claim:
                continue
            count = min(claimed.count, budget.messages_left)
            budget.messages_left -= count
            budget.visited += claimed.partitions
            budget.rows += claimed.rows
            budget.nanoseconds += claimed.nanoseconds
            takes.append(self._take_or_error(place, claimed.claim, count))
        outcomes = await gather(takes)
        messages = [one for some in outcomes if isinstance(some, list) for one in some]
        for some in outcomes:
            if isinstance(some, OperationError) and not messages:
                raise some
        return messages

    async def _claims(self, places: Sequence[Group]) -> list[parts.Claimed | None]:
        """What each place has now."""
        if not places:
            return []
        calls = [self._new_call() for _ in places]
        alarm, now_ms = self._service.new_alarm(), self._queue.group.now() >> 16
        alarm.set(now_ms + _LOOK_MS, now_ms, partial(_leave_all, calls))
        try:
            return await gather(
                self._claim(place, 0, call) for place, call in zip(places, calls, strict=True)
            )
        finally:
            alarm.clear()

    def _new_call(self) -> Call:
        """One that can leave while the client stays."""
        return Call(self._call.caller, self._call.action, self._call.request_id)

    async def _watch(self, place: Group, wait_ms: int, call: Call) -> parts.Claimed | None:
        """As `_claim`, for a poll: if it fails, look again, but not at once."""
        claimed = await self._claim(place, wait_ms, call)
        if claimed is None and not call.is_gone:
            paused, now_ms = Suspension(), self._queue.group.now() >> 16
            self._service.new_alarm().set(now_ms + _PAUSE_MS, now_ms, paused.resume)
            await paused
        return claimed

    async def _claim(self, place: Group, wait_ms: int, call: Call) -> parts.Claimed | None:
        """None: it fails for the moment, and has nothing to give."""
        part = parts.Claim(*identity_of(self._queue), self._valid, wait_ms)
        try:
            claimed: parts.Claimed = await self._service.ask(place, part, call)
        except OperationError:
            return None
        self.has_heard = True
        return claimed

    async def _take_or_error(
        self, place: Group, claim: int, count: int
    ) -> list[Message] | OperationError:
        """A place that fails must not cost the client what others have given."""
        try:
            return await self._take(place, claim, count)
        except OperationError as error:
            return error

    async def _take(self, place: Group, claim: int, count: int) -> list[Message]:
        request = self._service.identity(self._call)
        part = parts.Take(*identity_of(self._queue), request, claim, count, self._valid)
        try:
            messages: list[Message] = await self._service.ask(place, part)
        except NotLed:
            return []  # the lead has come here, and what was set aside is there no more
        self._taken.append((place, claim))
        return messages


def _leave_all(calls: Sequence[Call]) -> None:
    for call in calls:
        call.leave()


async def _awaited(waiter: Waiter) -> bool:
    """Whether it is worth looking again."""
    is_woken: bool = await waiter
    return is_woken


def _wake(woken: Suspension, place: Group | None, found: Any, error: BaseException | None) -> None:
    """A place that has waited in vain wakes nobody: this one ends the wait in time."""
    if error is not None and not isinstance(error, SqsError):
        raise error
    if woken.is_done or (isinstance(found, parts.Claimed) and not found.claim):
        return
    if error is None:
        woken.resume((place, found))
    else:
        woken.fail(error)
