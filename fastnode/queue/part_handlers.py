"""What is done for other nodes, in groups that this one leads. See `parts.py` for what travels."""

from collections.abc import Callable, Coroutine
from typing import Any, Final

from fastnode import native
from fastnode.errors import NotLed, PlanAgain
from fastnode.flow import Suspension
from fastnode.queue import parts
from fastnode.queue.api import Message
from fastnode.queue.caller import Call
from fastnode.queue.choice import Counts
from fastnode.queue.claims import Claims
from fastnode.queue.delete import delete_in
from fastnode.queue.errors import SqsError, queue_does_not_exist
from fastnode.queue.fifo_send import store_in
from fastnode.queue.inbox import deliver
from fastnode.queue.live import LiveQueue
from fastnode.queue.partition_admin import counts_here, open_partition, renew_partition
from fastnode.queue.partitions import PartitionedQueue
from fastnode.queue.parts import Part
from fastnode.queue.receipt import open_receipt
from fastnode.queue.receive_again import give_back_taken, landed_here
from fastnode.queue.receive_answer import answers
from fastnode.queue.receive_one import redelivered
from fastnode.queue.repeats import find_parts
from fastnode.queue.service import Service
from fastnode.queue.visibility import Change, change_in
from fastnode.store.keyspace import QueueKeys, encode_position, split_position

Handler = Callable[..., Coroutine[Suspension, Any, Any]]


class PartWorker:
    """Does parts for other nodes."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.claims = Claims(service, service.new_alarm())

    async def perform(self, part: Part, call: Call) -> Any:
        """`call` leaves when nobody waits for the result any more."""
        return await _HANDLERS[type(part)](self, part, call)


# --- groups ------------------------------------------------------------------------------------


async def _barrier(worker: PartWorker, part: parts.Barrier, _call: Call) -> int:
    group = worker.service.groups[part.group]
    if not group.leads:
        raise NotLed("another node leads the group")
    if part.is_of_commits or not group.is_readable:
        await group.readable()
    return group.applied_index


async def _deliver(worker: PartWorker, part: parts.Deliver, _call: Call) -> list[bytes]:
    group = worker.service.groups[part.group]
    if not group.is_ready:
        raise NotLed("another node leads the group")
    letters = [(split_position(number), letter) for number, letter in part.letters]
    refused = await deliver(worker.service, group, part.source, letters)
    return [encode_position(number) for number in refused]


async def _find(worker: PartWorker, part: parts.Find, _call: Call) -> list[tuple[int, int, int]]:
    group = worker.service.groups[part.group]
    if not group.is_ready:
        raise NotLed("another node leads the group")
    return await find_parts(group, part.request)


async def _follow(worker: PartWorker, part: parts.Follow, _call: Call) -> None:
    group = worker.service.groups[part.group]
    await group.reached(part.index)
    # Tasks whose sources have partitions here: who leads their home group waits for us.
    worker.service.move_tasks.resume(group)


# --- partitions --------------------------------------------------------------------------------


async def _queue(service: Service, part: parts.OfQueue) -> PartitionedQueue:
    """The queue that is meant. Who asks may know it better, or worse."""
    name = native.split_queue_segment(part.segment)
    queue = service.find(*name)
    if queue is None or not queue.is_confirmed or queue.record.incarnation != part.incarnation:
        await service.readable(service.group_of(QueueKeys(*name)))
        queue = service.find(*name)
    if queue is None:
        raise queue_does_not_exist()
    queue.is_confirmed = True
    if not isinstance(queue, PartitionedQueue) or queue.record.incarnation != part.incarnation:
        raise PlanAgain("the queue was made anew")
    return queue


async def _shard(service: Service, part: parts.OfQueue, partition: int) -> LiveQueue:
    queue = await _queue(service, part)
    shard = queue.shard_at(partition)
    if shard is None:
        raise NotLed("another node leads the partition")
    return shard


async def _of_call(service: Service, part: parts.OfCall, call: Call) -> LiveQueue:
    call.request, call.retention = part.request, part.retention
    return await _shard(service, part, part.partition)


async def _send(worker: PartWorker, part: parts.Send, call: Call) -> list[parts.Sent | None]:
    shard = await _of_call(worker.service, part, call)
    return await store_in(worker.service, shard, call, part.sender, part.messages)


async def _delete(worker: PartWorker, part: parts.Delete, call: Call) -> dict[str, parts.Refusal]:
    shard = await _of_call(worker.service, part, call)
    opened = [(number, open_receipt(shard, handle)) for number, handle in part.handles]
    refused = await delete_in(worker.service, shard, call, opened)
    return {handle: _refusal(error) for handle, error in refused.items()}


async def _change(worker: PartWorker, part: parts.Change, call: Call) -> list[parts.Refusal | None]:
    shard = await _of_call(worker.service, part, call)
    changes = [
        Change(number, open_receipt(shard, handle), seconds)
        for number, handle, seconds in part.changes
    ]
    refused = await change_in(worker.service, shard, call, changes)
    return [None if error is None else _refusal(error) for error in refused]


def _refusal(error: SqsError) -> parts.Refusal:
    return parts.Refusal(error.row.shape, error.message)


async def _count(worker: PartWorker, part: parts.Count, _call: Call) -> dict[int, Counts]:
    return await counts_here(worker.service, await _queue(worker.service, part))


async def _renew(worker: PartWorker, part: parts.Renew, _call: Call) -> None:
    shard = await _shard(worker.service, part, part.partition)
    await renew_partition(worker.service, shard, part.until_ms, is_deleted=part.is_deleted)


async def _open(worker: PartWorker, part: parts.Open, _call: Call) -> None:
    group = worker.service.groups[part.group]
    keys = QueueKeys(*native.split_queue_segment(part.segment))
    await open_partition(worker.service, group, keys, part.partition)


# --- receiving ---------------------------------------------------------------------------------


async def _claim(worker: PartWorker, part: parts.Claim, call: Call) -> parts.Claimed:
    queue = await _queue(worker.service, part)
    deadline_ms = (queue.group.now() >> 16) + part.wait_ms
    claim, count, budget = await worker.claims.claim(queue, part.valid, call, deadline_ms)
    return parts.Claimed(claim, count, budget.visited, budget.rows, budget.nanoseconds)


async def _take(worker: PartWorker, part: parts.Take, _call: Call) -> list[Message]:
    received = await worker.claims.take(part.claim, part.count, part.request, part.valid)
    return answers(received, part.valid)


async def _give_back(worker: PartWorker, part: parts.GiveBack, _call: Call) -> None:
    await worker.claims.give_back(part.claim)


async def _return(worker: PartWorker, part: parts.Return, _call: Call) -> None:
    service = worker.service
    queue = service.find(*native.split_queue_segment(part.segment))
    if queue is None or isinstance(queue, PartitionedQueue) or queue.group.number != part.group:
        return
    await give_back_taken(service, queue, part.request, part.receive, part.term)


async def _redeliver(
    worker: PartWorker, part: parts.Redeliver, _call: Call
) -> list[Message] | None:
    queue = await _queue(worker.service, part)
    if part.request:
        return await landed_here(worker.service, queue, part.request, part.valid)
    return answers(await redelivered(worker.service, queue, part.valid), part.valid)


_HANDLERS: Final[dict[type[Part], Handler]] = {
    parts.Barrier: _barrier,
    parts.Deliver: _deliver,
    parts.Follow: _follow,
    parts.Find: _find,
    parts.Send: _send,
    parts.Delete: _delete,
    parts.Change: _change,
    parts.Count: _count,
    parts.Renew: _renew,
    parts.Open: _open,
    parts.Claim: _claim,
    parts.Take: _take,
    parts.GiveBack: _give_back,
    parts.Return: _return,
    parts.Redeliver: _redeliver,
}
assert frozenset(_HANDLERS) == frozenset(parts.ANSWERS), "a part that nobody does"
