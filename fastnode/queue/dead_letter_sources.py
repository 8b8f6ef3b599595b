"""Which queues send their dead letters to a queue: ListDeadLetterSourceQueues, the index behind it,
and what a queue must be to become a target.

The index has one row per source, in the source's own group, and changes with its metadata in the
same transaction.
"""

from typing import Final

from fastnode import native
from fastnode.queue import validate_queues
from fastnode.queue.api import (
    ListDeadLetterSourceQueuesRequest,
    ListDeadLetterSourceQueuesResponse,
)
from fastnode.queue.attributes import QueueSettings
from fastnode.queue.caller import Call
from fastnode.queue.errors import SqsError
from fastnode.queue.live import LiveQueue
from fastnode.queue.names_page import names_page
from fastnode.queue.queue_url import build_arn, build_url, is_account
from fastnode.queue.redrive_policy import RedrivePolicy, check_target, parse_redrive_policy
from fastnode.queue.service import Service
from fastnode.store.keyspace import QueueKeys, source_key, sources_prefix
from fastnode.store.txn import Txn

_ROW: Final = b"\x01"


async def list_dead_letter_source_queues(
    service: Service, call: Call, request: ListDeadLetterSourceQueuesRequest
) -> ListDeadLetterSourceQueuesResponse:
    queue = await service.queue(call, request.queue_url)
    valid = validate_queues.list_dead_letter_source_queues(request)
    await service.readable(*service.groups)
    target = queue.keys.segment
    prefix = start = sources_prefix(target)
    if valid.after:
        last = QueueKeys(queue.account, queue.region, valid.after)
        start = source_key(target, last.segment) + b"\x00"
    names, token = names_page(service, valid, family_size=len(prefix), prefix=prefix, start=start)
    endpoint = call.caller.endpoint
    urls = [build_url(endpoint, queue.account, name) for name in names]
    return ListDeadLetterSourceQueuesResponse(urls, token)


def has_sources(service: Service, queue: LiveQueue) -> bool:
    """Whether the queue is the dead-letter queue of any other, or of itself."""
    prefix = sources_prefix(queue.keys.segment)
    end = native.prefix_end(prefix)
    return any(group.scan_keys(prefix, end, 1) for group in service.groups)


async def know_target(service: Service, text: str | None) -> None:
    """Before a plan with this RedrivePolicy: its target may be in a group that others lead."""
    try:
        redrive = parse_redrive_policy(text) if text else None
    except SqsError:
        return  # the plan says why
    if redrive is not None and is_account(redrive.account):
        target = QueueKeys(redrive.account, redrive.region, redrive.name)
        await service.readable(service.group_of(target))


def check_redrive(
    service: Service, source: QueueKeys, text: str | None, settings: QueueSettings
) -> None:
    """May the source have this RedrivePolicy, whose text is `text`? A queue may be its own target,
    even before it exists.
    """
    redrive = settings.redrive
    if not text or redrive is None:
        return
    account, region, name = native.split_queue_segment(source.segment)
    is_own = redrive.account == account
    is_here = is_own and redrive.region == region
    target: QueueSettings | None = None
    if is_here and redrive.name == name:
        target = settings
    elif is_here and (found := service.find(account, region, redrive.name)) is not None:
        target = found.settings
    source_arn = build_arn(region, account, name)
    check_target(text, source_arn, is_fifo=settings.is_fifo, is_own=is_own, target=target)


def plan_source(
    txn: Txn, source: QueueKeys, before: RedrivePolicy | None, after: RedrivePolicy | None
) -> None:
    """Write what changes in the index; the source's metadata guard it."""
    old, new = _row_of(source, before), _row_of(source, after)
    if old == new:
        return
    if old is not None:
        txn.delete_fresh(old)
    if new is not None:
        txn.put_fresh(new, _ROW)


def _row_of(source: QueueKeys, redrive: RedrivePolicy | None) -> bytes | None:
    if redrive is None:
        return None
    target = QueueKeys(redrive.account, redrive.region, redrive.name)
    return source_key(target.segment, source.segment)
