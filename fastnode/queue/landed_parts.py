"""Calls about a queue with partitions that were here before. Each partition's group remembers the
part that landed there, and whoever repeats such a call asks all groups, before anything else.

The queue may be gone by now, or another one of the same name, which would put the messages
elsewhere and knows nothing of the handles.
"""

from typing import NamedTuple

from fastnode.flow import gather
from fastnode.queue.caller import Call
from fastnode.queue.parts import Find
from fastnode.queue.places import at_group
from fastnode.queue.queue_url import is_fifo_name
from fastnode.queue.repeats import Landed, find_parts, request_at
from fastnode.queue.service import Service
from fastnode.store.group import Group


class LandedPart(NamedTuple):
    partition: int
    landed: Landed


async def landed_entries(
    service: Service, call: Call, queue_url: str | None
) -> dict[int, LandedPart]:
    """The entries of a repeated call that have taken effect, by their numbers."""
    if not _may_have_partitions(service, call, queue_url):
        return {}
    found = await gather(_parts_in(service, group, call.request) for group in service.groups)
    entries: dict[int, LandedPart] = {}
    for partition, commit_ts, mask in (part for some in found for part in some):
        landed = Landed(request_at(call.request, partition), commit_ts, mask)
        entries |= dict.fromkeys(landed.entries, LandedPart(partition, landed))
    service.gates.recognised += bool(entries)
    return entries


def _may_have_partitions(service: Service, call: Call, queue_url: str | None) -> bool:
    account, name = service.resolve(queue_url)
    queue = service.find(account or call.caller.account, call.caller.region, name)
    return is_fifo_name(name) and (queue is None or bool(queue.record.partition_groups))


async def _parts_in(service: Service, group: Group, request: bytes) -> list[tuple[int, int, int]]:
    return await at_group(
        service,
        group,
        lambda: find_parts(group, request),
        lambda: Find(group.number, request),
    )
