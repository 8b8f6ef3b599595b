"""Where the dead letters of a queue go, and theirs, and which queues send theirs to it: what the
admin API shows of it.
"""

from typing import Final

from msgspec import Struct

from fastnode import native
from fastnode.queue.live import LiveQueue
from fastnode.queue.queue_url import build_arn
from fastnode.queue.service import Service
from fastnode.store.keyspace import sources_prefix

# A chain may be a ring; and nobody reads a longer list.
_LINKS_MAX: Final = 10
_SOURCES_MAX: Final = 100


class Link(Struct, frozen=True):
    """A queue on the way of a dead letter. `max_receive_count` is None where the way ends."""

    account: str
    region: str
    name: str
    arn: str
    exists: bool
    max_receive_count: int | None = None


class DeadLetters(Struct, frozen=True):
    """`chain` begins with the queue itself; `sources` send their dead letters to it."""

    chain: list[Link]
    sources: list[Link]


async def dead_letters_of(
    service: Service, account: str, region: str, name: str
) -> DeadLetters | None:
    """None if there is no such queue."""
    # Queues of a chain and their sources are in any group.
    await service.readable(*service.groups)
    queue = service.find(account, region, name)
    if queue is None:
        return None
    return DeadLetters(_chain(service, queue), _sources(service, queue))


def _chain(service: Service, first: LiveQueue) -> list[Link]:
    links, seen = [_link(first)], {(first.account, first.region, first.name)}
    redrive = first.settings.redrive
    while redrive is not None and len(links) < _LINKS_MAX:
        place = redrive.account, redrive.region, redrive.name
        queue = service.find(*place)
        if queue is None:
            account, region, name = place
            return [*links, Link(*place, build_arn(region, account, name), exists=False)]
        links.append(_link(queue))
        redrive = None if place in seen else queue.settings.redrive
        seen.add(place)
    return links


def _sources(service: Service, queue: LiveQueue) -> list[Link]:
    prefix = sources_prefix(queue.keys.segment)
    end = native.prefix_end(prefix)
    keys = [key for group in service.groups for key in group.scan_keys(prefix, end, _SOURCES_MAX)]
    places = sorted(native.split_queue_segment(key[len(prefix) :]) for key in keys)
    found = [service.find(*place) for place in places[:_SOURCES_MAX]]
    return [_link(source) for source in found if source is not None]


def _link(queue: LiveQueue) -> Link:
    redrive = queue.settings.redrive
    arn = build_arn(queue.region, queue.account, queue.name)
    count = None if redrive is None else redrive.max_receive_count
    return Link(queue.account, queue.region, queue.name, arn, exists=True, max_receive_count=count)
