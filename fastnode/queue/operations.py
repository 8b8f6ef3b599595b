"""The table of actions: what each takes, what it gives, who does it. A new action is a new row."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from msgspec import Struct

from fastnode.flow import Suspension
from fastnode.queue import api, delete, queues, receive, send, visibility

Handler = Callable[..., Coroutine[Suspension, Any, Any]]


@dataclass(frozen=True)
class Operation:
    """`response` is None for an action without output."""

    name: str
    request: type[Struct]
    response: type[Struct] | None
    handler: Handler


_ROWS: Final = (
    Operation("CreateQueue", api.CreateQueueRequest, api.CreateQueueResponse, queues.create_queue),
    Operation("DeleteQueue", api.DeleteQueueRequest, None, queues.delete_queue),
    Operation("GetQueueUrl", api.GetQueueUrlRequest, api.GetQueueUrlResponse, queues.get_queue_url),
    Operation("ListQueues", api.ListQueuesRequest, api.ListQueuesResponse, queues.list_queues),
    Operation(
        "GetQueueAttributes",
        api.GetQueueAttributesRequest,
        api.GetQueueAttributesResponse,
        queues.get_queue_attributes,
    ),
    Operation(
        "SetQueueAttributes", api.SetQueueAttributesRequest, None, queues.set_queue_attributes
    ),
    Operation("PurgeQueue", api.PurgeQueueRequest, None, queues.purge_queue),
    Operation("SendMessage", api.SendMessageRequest, api.SendMessageResponse, send.send_message),
    Operation(
        "SendMessageBatch",
        api.SendMessageBatchRequest,
        api.SendMessageBatchResponse,
        send.send_message_batch,
    ),
    Operation(
        "ReceiveMessage",
        api.ReceiveMessageRequest,
        api.ReceiveMessageResponse,
        receive.receive_message,
    ),
    Operation("DeleteMessage", api.DeleteMessageRequest, None, delete.delete_message),
    Operation(
        "DeleteMessageBatch",
        api.DeleteMessageBatchRequest,
        api.DeleteMessageBatchResponse,
        delete.delete_message_batch,
    ),
    Operation(
        "ChangeMessageVisibility",
        api.ChangeMessageVisibilityRequest,
        None,
        visibility.change_message_visibility,
    ),
    Operation(
        "ChangeMessageVisibilityBatch",
        api.ChangeMessageVisibilityBatchRequest,
        api.ChangeMessageVisibilityBatchResponse,
        visibility.change_message_visibility_batch,
    ),
)
OPERATIONS: Final = {row.name: row for row in _ROWS}
assert len(OPERATIONS) == len(_ROWS), "an action has two rows"
