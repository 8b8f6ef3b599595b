"""Where the partitions of a queue are: here, or at the node that leads them.

What a handler does in a partition it does by `at_partition`, and need not know which of the two.
"""

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from fastnode import config
from fastnode.errors import NotLed, PlanAgain, Unavailable
from fastnode.flow import Suspension, gather
from fastnode.queue.caller import Call
from fastnode.queue.live import LiveQueue
from fastnode.queue.parts import Part
from fastnode.queue.service import Service
from fastnode.store.group import Group

T = TypeVar("T")
R = TypeVar("R")
Work = Coroutine[Suspension, Any, R]


def identity_of(queue: LiveQueue) -> tuple[bytes, int]:
    """How parts name the queue: see `parts.OfQueue`."""
    return queue.keys.segment, queue.record.incarnation


def of_call(service: Service, call: Call, queue: LiveQueue) -> tuple[bytes, int, bytes, int]:
    """How parts name the queue and the call: see `parts.OfCall`."""
    return *identity_of(queue), service.identity(call), call.retention


def by_partition(items: Iterable[T], partition_of: Callable[[T], int]) -> dict[int, list[T]]:
    """Items of one call, by the partition that they belong to, each part in its old order."""
    parts: dict[int, list[T]] = {}
    for item in items:
        parts.setdefault(partition_of(item), []).append(item)
    return parts


async def at_partition(
    service: Service,
    queue: LiveQueue,
    partition: int,
    here: Callable[[LiveQueue], Work[R]],
    there: Callable[[], Part],
    read: Callable[[Any], R],
) -> R:
    """What `here` gives for the partition if this node leads it, or what the leader answers, as
    `read` makes it of the answer.
    """
    for _ in range(config.PLANS_MAX):
        shard = queue.shard_at(partition)
        try:
            if shard is not None and (shard is queue or shard.group.takes_calls):
                return await here(shard)
            return read(await service.ask(queue.group_at(partition), there()))
        except NotLed:
            # Nothing was written. The lead has just come here, or gone from here.
            if shard is queue:
                raise  # without partitions a call goes to the leader as a whole
            if await service.confirmed(queue) is not queue:
                raise PlanAgain("the queue was made anew") from None
        except PlanAgain:
            # What this node believes of the queue may be old.
            await service.readable(queue.group)
            raise
    raise Unavailable("the partition changes its leader too often")


async def at_group(
    service: Service, group: Group, here: Callable[[], Work[R]], there: Callable[[], Part]
) -> R:
    """As `at_partition`, for a group."""
    for _ in range(config.PLANS_MAX):
        try:
            if group.takes_calls:
                return await here()
            answer: R = await service.ask(group, there())
            return answer
        except NotLed:
            continue
    raise Unavailable("the group changes its leader too often")


async def in_partitions(works: Iterable[Work[R]]) -> list[R]:
    """All together; one alone without the cost of that."""
    begun = list(works)
    return await gather(begun) if len(begun) > 1 else [await work for work in begun]
