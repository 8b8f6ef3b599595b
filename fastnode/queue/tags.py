"""TagQueue, UntagQueue and ListQueueTags."""

from fastnode.queue.api import (
    ListQueueTagsRequest,
    ListQueueTagsResponse,
    TagQueueRequest,
    UntagQueueRequest,
)
from fastnode.queue.caller import Call
from fastnode.queue.errors import not_in_this_version
from fastnode.queue.service import Service


async def tag_queue(service: Service, call: Call, request: TagQueueRequest) -> None:
    raise not_in_this_version("TagQueue")


async def untag_queue(service: Service, call: Call, request: UntagQueueRequest) -> None:
    raise not_in_this_version("UntagQueue")


async def list_queue_tags(
    service: Service, call: Call, request: ListQueueTagsRequest
) -> ListQueueTagsResponse:
    raise not_in_this_version("ListQueueTags")
