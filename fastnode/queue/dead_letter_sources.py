"""ListDeadLetterSourceQueues: which queues send their dead letters to a queue."""

from fastnode.queue.api import (
    ListDeadLetterSourceQueuesRequest,
    ListDeadLetterSourceQueuesResponse,
)
from fastnode.queue.caller import Call
from fastnode.queue.errors import not_in_this_version
from fastnode.queue.service import Service


async def list_dead_letter_source_queues(
    service: Service, call: Call, request: ListDeadLetterSourceQueuesRequest
) -> ListDeadLetterSourceQueuesResponse:
    raise not_in_this_version("ListDeadLetterSourceQueues")
