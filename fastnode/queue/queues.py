"""The life of queues: CreateQueue, DeleteQueue, PurgeQueue, their attributes, and finding them by
name.
"""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from fastnode import native
from fastnode.errors import PlanAgain
from fastnode.queue import validate_queues
from fastnode.queue.api import (
    CreateQueueRequest,
    CreateQueueResponse,
    DeleteQueueRequest,
    GetQueueAttributesRequest,
    GetQueueAttributesResponse,
    GetQueueUrlRequest,
    GetQueueUrlResponse,
    ListQueuesRequest,
    ListQueuesResponse,
    PurgeQueueRequest,
    SetQueueAttributesRequest,
)
from fastnode.queue.attributes import (
    Computed,
    differing_attribute,
    parse_set,
    settings_of,
    shown_attributes,
)
from fastnode.queue.caller import Call
from fastnode.queue.dead_letter_sources import check_redrive, know_target, plan_source
from fastnode.queue.errors import (
    purge_queue_in_progress,
    queue_deleted_recently,
    queue_does_not_exist,
    queue_name_exists,
    queue_not_accessible,
)
from fastnode.queue.fifo_attributes import deduplicates_per_group, partition_count_of
from fastnode.queue.live import LiveQueue
from fastnode.queue.names_page import names_page
from fastnode.queue.partition_admin import (
    counts_everywhere,
    follow_everywhere,
    open_partitions,
    renew_partitions,
)
from fastnode.queue.partitions import PartitionedQueue
from fastnode.queue.policy_access import has_access
from fastnode.queue.queue_url import build_arn, build_url
from fastnode.queue.service import Service
from fastnode.queue.validate_queues import ValidCreate
from fastnode.store.keyspace import QueueKeys, names_prefix, tasks_prefix
from fastnode.store.records import Generation, QueueRecord, encode_generation, encode_queue
from fastnode.store.txn import Txn

# AWS's waiting rules, in force with --strict only: tests and scripts purge and recreate all the
# time.
WAIT_MS: Final = 60_000


# --- creating and deleting -------------------------------------------------------------------


async def create_queue(
    service: Service, call: Call, request: CreateQueueRequest
) -> CreateQueueResponse:
    valid = validate_queues.create_queue(request)
    caller = call.caller
    await ensure_queue(service, caller.account, caller.region, valid)
    return CreateQueueResponse(build_url(caller.endpoint, caller.account, valid.name))


async def ensure_queue(service: Service, account: str, region: str, valid: ValidCreate) -> None:
    """The queue exists afterwards, with the attributes that were named."""
    keys = QueueKeys(account, region, valid.name)
    group = service.group_of(keys)
    partition_groups = service.partition_groups(keys, partition_count_of(valid.attributes))
    await know_target(service, valid.supplied.get("RedrivePolicy"))
    existing = await _existing(service, account, region, valid, partition_groups)
    if existing is not None:
        record = existing.record
        differing = differing_attribute(record.attributes, valid.supplied, record.partition_count)
        if differing is not None:
            raise queue_name_exists(differing)
        await service.still_led(group)
        return
    settings = settings_of(valid.attributes)
    check_redrive(service, keys, valid.supplied.get("RedrivePolicy"), settings)
    generation = service.generation_of(keys)
    txn = group.begin(service.new_request())
    now_ms = txn.commit_ts >> 16
    if service.is_strict and now_ms - generation.deleted_ms < WAIT_MS:
        raise queue_deleted_recently()
    record = _new_record(txn, service.new_secret(), valid.attributes, valid.tags, partition_groups)
    txn.put(keys.meta, encode_queue(record))
    txn.put(keys.generation, encode_generation(Generation(generation.number + 1, 0)))
    plan_source(txn, keys, None, settings.redrive)
    await group.submit(txn)


async def _existing(
    service: Service,
    account: str,
    region: str,
    valid: ValidCreate,
    partition_groups: tuple[int, ...],
) -> LiveQueue | None:
    """The queue of the name, once nobody changes it; None if there may be one, and is none. Then
    its partitions are open.
    """
    keys = QueueKeys(account, region, valid.name)
    group = service.group_of(keys)
    is_admitted = not partition_groups
    while True:
        blocked = group.latches.wait_for((keys.meta, keys.generation))
        if blocked is not None:
            await blocked
            continue
        existing = service.find(account, region, valid.name)
        if existing is not None or is_admitted:
            return existing
        # Whoever is admitted looks again: another call may have created the queue meanwhile.
        await service.partition_gate(valid.name, len(partition_groups))
        await open_partitions(service, keys, partition_groups)
        is_admitted = True


def _new_record(
    txn: Txn,
    secret: bytes,
    attributes: dict[str, str],
    tags: Mapping[str, str],
    partition_groups: tuple[int, ...],
) -> QueueRecord:
    now_ms = txn.commit_ts >> 16
    return QueueRecord(
        incarnation=txn.commit_ts,
        created_ms=now_ms,
        modified_ms=now_ms,
        purged_ms=0,
        secret=secret,
        hash_seed=int.from_bytes(txn.request[:8], "big"),
        partition_count=len(partition_groups) or 1,
        attributes=attributes,
        tags=dict(tags),
        dedup_per_group=deduplicates_per_group(attributes),
        partition_groups=partition_groups,
    )


async def delete_queue(service: Service, call: Call, request: DeleteQueueRequest) -> None:
    queue = await unchanging_queue(service, call, request.queue_url)
    if isinstance(queue, PartitionedQueue):
        # First these: a deletion that is interrupted leaves an empty queue, not lost space.
        queue = await _renewed(service, call, queue, request.queue_url, is_deleted=True)
    txn = queue.group.begin(service.new_request())
    txn.delete(queue.keys.meta)
    txn.drop(tasks_prefix(queue.keys.segment))
    plan_source(txn, queue.keys, queue.settings.redrive, None)
    _plan_next_generation(queue, txn, deleted_ms=txn.commit_ts >> 16)
    await queue.group.submit(txn)
    service.forget(queue)


async def purge_queue(service: Service, call: Call, request: PurgeQueueRequest) -> None:
    queue = await unchanging_queue(service, call, request.queue_url)
    now_ms = queue.group.now() >> 16
    if service.is_strict and now_ms - queue.record.purged_ms < WAIT_MS:
        raise purge_queue_in_progress(queue.name)
    if isinstance(queue, PartitionedQueue):
        queue = await _renewed(service, call, queue, request.queue_url, is_deleted=False)
    txn = queue.group.begin(service.new_request())
    record = replace(queue.record, purged_ms=now_ms)
    txn.put(queue.keys.meta, encode_queue(record))
    generation = _plan_next_generation(queue, txn, deleted_ms=0)
    await queue.group.submit(txn)
    queue.change(record)
    queue.restart(generation)


async def _renewed(
    service: Service,
    call: Call,
    queue: PartitionedQueue,
    queue_url: str | None,
    *,
    is_deleted: bool,
) -> LiveQueue:
    """The queue, when its partitions are empty. One that was made meanwhile under its name is not
    meant: whoever called may have left, called again, been answered and sent messages to it.
    """
    # A leader that stood still would take a queue that was made before the call for such a one.
    await service.still_led(queue.group)
    try:
        await renew_partitions(service, queue, is_deleted=is_deleted)
    except PlanAgain:
        _require_same(queue, service.find(queue.account, queue.region, queue.name))
        raise
    return _require_same(queue, await unchanging_queue(service, call, queue_url))


def _require_same(queue: LiveQueue, found: LiveQueue | None) -> LiveQueue:
    if found is None or found.record.incarnation != queue.record.incarnation:
        raise queue_does_not_exist()
    return found


def _plan_next_generation(queue: LiveQueue, txn: Txn, *, deleted_ms: int) -> int:
    """Constant work, whatever the queue holds: old keys go by range."""
    generation = queue.generation + 1
    txn.put(queue.keys.generation, encode_generation(Generation(generation, deleted_ms)))
    for prefix in queue.messages.prefixes():
        txn.drop(prefix)
    return generation


async def unchanging_queue(service: Service, call: Call, queue_url: str | None) -> LiveQueue:
    """The queue, once no other call changes its metadata."""
    while True:
        queue = await service.queue(call, queue_url)
        blocked = queue.group.latches.wait_for((queue.keys.meta,))
        if blocked is None:
            return queue
        await blocked


# --- attributes --------------------------------------------------------------------------------


async def get_queue_attributes(
    service: Service, call: Call, request: GetQueueAttributesRequest
) -> GetQueueAttributesResponse:
    queue = await service.queue(call, request.queue_url)
    if not request.attribute_names:
        return GetQueueAttributesResponse()
    counts = await counts_everywhere(service, queue)
    record = queue.record
    computed = Computed(
        arn=build_arn(queue.region, queue.account, queue.name),
        created_ms=record.created_ms,
        modified_ms=record.modified_ms,
        visible=counts.visible,
        in_flight=counts.in_flight,
        delayed=counts.delayed,
        partition_count=record.partition_count,
    )
    return GetQueueAttributesResponse(
        shown_attributes(request.attribute_names, record.attributes, computed)
    )


async def set_queue_attributes(
    service: Service, call: Call, request: SetQueueAttributesRequest
) -> None:
    changes = request.attributes or {}
    await know_target(service, changes.get("RedrivePolicy"))
    queue = await unchanging_queue(service, call, request.queue_url)
    attributes = parse_set(queue.record.attributes, changes, queue.record.partition_count)
    settings = settings_of(attributes)
    check_redrive(service, queue.keys, changes.get("RedrivePolicy"), settings)
    txn = queue.group.begin(service.new_request())
    plan_source(txn, queue.keys, queue.settings.redrive, settings.redrive)
    record = replace(queue.record, attributes=attributes, modified_ms=txn.commit_ts >> 16)
    await store_record(queue, txn, record)
    await follow_everywhere(service, queue)


async def store_record(queue: LiveQueue, txn: Txn, record: QueueRecord) -> None:
    """New metadata for a queue that `unchanging_queue` gave."""
    txn.check(queue.keys.generation)
    txn.put(queue.keys.meta, encode_queue(record))
    await queue.group.submit(txn)
    queue.change(record)


# --- finding -----------------------------------------------------------------------------------


async def get_queue_url(
    service: Service, call: Call, request: GetQueueUrlRequest
) -> GetQueueUrlResponse:
    owner, name = validate_queues.get_queue_url(request)
    caller = call.caller
    account = owner or caller.account
    await service.readable(service.group_of(QueueKeys(account, caller.region, name)))
    queue = service.find(account, caller.region, name)
    if queue is None and account == caller.account:
        raise queue_does_not_exist()
    # A stranger must not learn which of the two it is.
    if queue is None or not has_access(queue, call):
        raise queue_not_accessible()
    return GetQueueUrlResponse(build_url(caller.endpoint, account, name))


async def list_queues(
    service: Service, call: Call, request: ListQueuesRequest
) -> ListQueuesResponse:
    valid = validate_queues.list_queues(request)
    await service.readable(*service.groups)
    caller = call.caller
    prefix = start = names_prefix(caller.account, caller.region, valid.prefix)
    if valid.after:
        last = QueueKeys(caller.account, caller.region, valid.after)
        start = max(prefix, last.meta + b"\x00")
    family_size = len(native.FAMILY_META)
    names, token = names_page(service, valid, family_size=family_size, prefix=prefix, start=start)
    urls = [build_url(caller.endpoint, caller.account, name) for name in names]
    return ListQueuesResponse(urls, token)
