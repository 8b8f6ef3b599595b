"""TagQueue, UntagQueue and ListQueueTags. Tags of a new queue come by CreateQueue."""

from msgspec.structs import replace

from fastnode.queue.api import (
    ListQueueTagsRequest,
    ListQueueTagsResponse,
    TagQueueRequest,
    UntagQueueRequest,
)
from fastnode.queue.caller import Call
from fastnode.queue.errors import missing_parameter
from fastnode.queue.live import LiveQueue
from fastnode.queue.queues import store_record, unchanging_queue
from fastnode.queue.service import Service
from fastnode.queue.validate_queues import check_tag_key, check_tags


async def tag_queue(service: Service, call: Call, request: TagQueueRequest) -> None:
    queue = await unchanging_queue(service, call, request.queue_url)
    added = request.tags or request.tags_lowercase
    if not added:
        raise missing_parameter("Tags")
    tags = queue.record.tags | added
    check_tags(queue.name, tags)
    await _store_tags(service, queue, tags)


async def untag_queue(service: Service, call: Call, request: UntagQueueRequest) -> None:
    queue = await unchanging_queue(service, call, request.queue_url)
    removed = set(request.tag_keys or [""])
    for key in removed:
        check_tag_key(key)
    tags = {key: value for key, value in queue.record.tags.items() if key not in removed}
    await _store_tags(service, queue, tags)


async def list_queue_tags(
    service: Service, call: Call, request: ListQueueTagsRequest
) -> ListQueueTagsResponse:
    queue = await service.queue(call, request.queue_url)
    await service.readable(queue.group)
    # It may be gone, or another one of its name, by now.
    queue = await service.queue(call, request.queue_url)
    return ListQueueTagsResponse(queue.record.tags)


async def _store_tags(service: Service, queue: LiveQueue, tags: dict[str, str]) -> None:
    """Tags are not attributes: the time of the last modification stays."""
    if tags == queue.record.tags:
        await service.still_led(queue.group)
    else:
        txn = queue.group.begin(service.new_request())
        await store_record(queue, txn, replace(queue.record, tags=tags))
