"""Queues as the admin API shows them: a list over all accounts and regions, and all about one."""

from collections.abc import Mapping

from msgspec import Struct

from fastnode import config, native
from fastnode.queue.attributes import Computed, shown_attributes
from fastnode.queue.partition_admin import counts_everywhere
from fastnode.queue.peek import BadCursor, decode_cursor, encode_cursor
from fastnode.queue.queue_url import build_arn
from fastnode.queue.service import Service
from fastnode.store.keyspace import QueueKeys


class QueueName(Struct, frozen=True, order=True):
    account: str
    region: str
    name: str


class QueuePage(Struct, frozen=True, omit_defaults=True):
    queues: list[QueueName]
    cursor: str | None = None


class MessageCounts(Struct, frozen=True):
    visible: int
    in_flight: int
    delayed: int


class QueueDetails(Struct, frozen=True):
    account: str
    region: str
    name: str
    arn: str
    created_ms: int
    modified_ms: int
    messages: MessageCounts
    attributes: dict[str, str]
    tags: Mapping[str, str]


class NameFilter(Struct, frozen=True):
    """Names that begin with one text and have another somewhere, in upper or lower case."""

    prefix: str = ""
    contains: str = ""

    def admits(self, name: str) -> bool:
        return name.startswith(self.prefix) and self.contains.lower() in name.lower()


async def list_all(service: Service, wanted: NameFilter, limit: int, cursor: str) -> QueuePage:
    """Queues with the names that are wanted, in the order of account, region and name.

    They may lie far apart, so a page looks at a bounded number and may be short.
    """
    begin = _begin(cursor)
    end = native.prefix_end(native.FAMILY_META)
    rows_max = limit if wanted == NameFilter() else config.LIST_PAGE_MAX
    found: list[bytes] = []
    known_to = end
    for group in service.groups:
        await service.readable(group)
        keys = group.scan_keys(begin, end, rows_max)
        found += keys
        if len(keys) == rows_max:
            # What comes after it in this group, nobody has looked at.
            known_to = min(known_to, keys[-1] + b"\x00")
    known = sorted(key for key in found if key < known_to)
    return _page(known, wanted, limit, is_all=known_to == end)


def _page(keys: list[bytes], wanted: NameFilter, limit: int, *, is_all: bool) -> QueuePage:
    queues: list[QueueName] = []
    for count, key in enumerate(keys, start=1):
        name = QueueName(*native.split_queue_segment(key[len(native.FAMILY_META) :]))
        if wanted.admits(name.name):
            queues.append(name)
        if len(queues) == limit and (count < len(keys) or not is_all):
            return QueuePage(queues, encode_cursor(0, key))
    return QueuePage(queues, None if is_all else encode_cursor(0, keys[-1]))


def _begin(cursor: str) -> bytes:
    if not cursor:
        return native.FAMILY_META
    key = decode_cursor(cursor).key
    if not key.startswith(native.FAMILY_META):
        raise BadCursor("the cursor belongs to another list")
    return key + b"\x00"


async def describe(service: Service, account: str, region: str, name: str) -> QueueDetails | None:
    """None if there is no such queue."""
    group = service.group_of(QueueKeys(account, region, name))
    await service.readable(group)
    queue = service.find(account, region, name)
    if queue is None:
        return None
    record = queue.record
    counts = await counts_everywhere(service, queue)
    computed = Computed(
        arn=build_arn(region, account, name),
        created_ms=record.created_ms,
        modified_ms=record.modified_ms,
        visible=counts.visible,
        in_flight=counts.in_flight,
        delayed=counts.delayed,
    )
    return QueueDetails(
        account,
        region,
        name,
        computed.arn,
        record.created_ms,
        record.modified_ms,
        MessageCounts(*counts),
        shown_attributes(["All"], record.attributes, computed),
        record.tags,
    )
