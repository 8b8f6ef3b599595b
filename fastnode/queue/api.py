"""The wire shapes of the queue API: one request and one response Struct per action.

Member names on the wire are the API's own; attribute names in Python are their snake case. Every
request member may be absent: what is required is decided by the rules in `validate.py`, so that the
client gets the contract's error. Both codecs fill the same Structs. An action without a response
Struct answers with an empty body. No rules live here.
"""

from msgspec import Struct, field


class Request(Struct, frozen=True, rename="pascal", gc=False):
    """Base of requests: `null` and absent mean the same, unknown members are ignored.

    Decoded values form a tree, never a cycle, so the collector need not look at them (`gc=False`).
    """


class Response(Struct, frozen=True, rename="pascal", omit_defaults=True, gc=False):
    """Base of responses: a member at its default (`None`, or an empty collection) is left out."""


# --- Values shared by requests and responses ----------------------------------------------------


class MessageAttributeValue(Response, frozen=True):
    """One attribute of a message; the list members exist to be refused, not ignored."""

    data_type: str | None = None
    string_value: str | None = None
    binary_value: bytes | None = None
    string_list_values: list[str] | None = None
    binary_list_values: list[bytes] | None = None


MessageAttributes = dict[str, MessageAttributeValue]


class BatchResultErrorEntry(Response, frozen=True):
    """Why one entry of a batch failed while the request as a whole succeeded."""

    id: str
    sender_fault: bool
    code: str
    message: str | None = None


# --- Queues -------------------------------------------------------------------------------------


class CreateQueueRequest(Request, frozen=True):
    queue_name: str | None = None
    attributes: dict[str, str] | None = None
    # The model spells this member in lower case; clients that follow TagQueue send the other.
    tags: dict[str, str] | None = field(default=None, name="tags")
    tags_capitalised: dict[str, str] | None = field(default=None, name="Tags")


class CreateQueueResponse(Response, frozen=True):
    queue_url: str


class DeleteQueueRequest(Request, frozen=True):
    queue_url: str | None = None


class GetQueueUrlRequest(Request, frozen=True):
    queue_name: str | None = None
    queue_owner_aws_account_id: str | None = field(default=None, name="QueueOwnerAWSAccountId")


class GetQueueUrlResponse(Response, frozen=True):
    queue_url: str


class ListQueuesRequest(Request, frozen=True):
    queue_name_prefix: str | None = None
    max_results: int | None = None
    next_token: str | None = None


class ListQueuesResponse(Response, frozen=True):
    queue_urls: list[str] = []
    next_token: str | None = None


class GetQueueAttributesRequest(Request, frozen=True):
    queue_url: str | None = None
    attribute_names: list[str] | None = None


class GetQueueAttributesResponse(Response, frozen=True):
    attributes: dict[str, str] = {}


class SetQueueAttributesRequest(Request, frozen=True):
    queue_url: str | None = None
    attributes: dict[str, str] | None = None


class PurgeQueueRequest(Request, frozen=True):
    queue_url: str | None = None


# --- Sending ------------------------------------------------------------------------------------


class SendMessageRequest(Request, frozen=True):
    queue_url: str | None = None
    message_body: str | None = None
    delay_seconds: int | None = None
    message_attributes: MessageAttributes | None = None
    message_system_attributes: MessageAttributes | None = None
    message_deduplication_id: str | None = None
    message_group_id: str | None = None


class SendMessageResponse(Response, frozen=True):
    message_id: str
    md5_of_message_body: str = field(name="MD5OfMessageBody")
    md5_of_message_attributes: str | None = field(default=None, name="MD5OfMessageAttributes")
    md5_of_message_system_attributes: str | None = field(
        default=None, name="MD5OfMessageSystemAttributes"
    )
    sequence_number: str | None = None


class SendMessageBatchRequestEntry(Request, frozen=True):
    id: str | None = None
    message_body: str | None = None
    delay_seconds: int | None = None
    message_attributes: MessageAttributes | None = None
    message_system_attributes: MessageAttributes | None = None
    message_deduplication_id: str | None = None
    message_group_id: str | None = None


class SendMessageBatchRequest(Request, frozen=True):
    queue_url: str | None = None
    entries: list[SendMessageBatchRequestEntry] | None = None


class SendMessageBatchResultEntry(Response, frozen=True):
    id: str
    message_id: str
    md5_of_message_body: str = field(name="MD5OfMessageBody")
    md5_of_message_attributes: str | None = field(default=None, name="MD5OfMessageAttributes")
    md5_of_message_system_attributes: str | None = field(
        default=None, name="MD5OfMessageSystemAttributes"
    )
    sequence_number: str | None = None


class SendMessageBatchResponse(Response, frozen=True):
    successful: list[SendMessageBatchResultEntry] = []
    failed: list[BatchResultErrorEntry] = []


# --- Receiving ----------------------------------------------------------------------------------


class ReceiveMessageRequest(Request, frozen=True):
    queue_url: str | None = None
    attribute_names: list[str] | None = None
    message_system_attribute_names: list[str] | None = None
    message_attribute_names: list[str] | None = None
    max_number_of_messages: int | None = None
    visibility_timeout: int | None = None
    wait_time_seconds: int | None = None
    receive_request_attempt_id: str | None = None


class Message(Response, frozen=True):
    message_id: str
    receipt_handle: str
    md5_of_body: str = field(name="MD5OfBody")
    body: str
    attributes: dict[str, str] = {}
    md5_of_message_attributes: str | None = field(default=None, name="MD5OfMessageAttributes")
    message_attributes: MessageAttributes = {}


class ReceiveMessageResponse(Response, frozen=True):
    messages: list[Message] = []


# --- Deleting and changing visibility -----------------------------------------------------------


class DeleteMessageRequest(Request, frozen=True):
    queue_url: str | None = None
    receipt_handle: str | None = None


class DeleteMessageBatchRequestEntry(Request, frozen=True):
    id: str | None = None
    receipt_handle: str | None = None


class DeleteMessageBatchRequest(Request, frozen=True):
    queue_url: str | None = None
    entries: list[DeleteMessageBatchRequestEntry] | None = None


class DeleteMessageBatchResultEntry(Response, frozen=True):
    id: str


class DeleteMessageBatchResponse(Response, frozen=True):
    successful: list[DeleteMessageBatchResultEntry] = []
    failed: list[BatchResultErrorEntry] = []


class ChangeMessageVisibilityRequest(Request, frozen=True):
    queue_url: str | None = None
    receipt_handle: str | None = None
    visibility_timeout: int | None = None


class ChangeMessageVisibilityBatchRequestEntry(Request, frozen=True):
    id: str | None = None
    receipt_handle: str | None = None
    visibility_timeout: int | None = None


class ChangeMessageVisibilityBatchRequest(Request, frozen=True):
    queue_url: str | None = None
    entries: list[ChangeMessageVisibilityBatchRequestEntry] | None = None


class ChangeMessageVisibilityBatchResultEntry(Response, frozen=True):
    id: str


class ChangeMessageVisibilityBatchResponse(Response, frozen=True):
    successful: list[ChangeMessageVisibilityBatchResultEntry] = []
    failed: list[BatchResultErrorEntry] = []


# --- Tags and permissions -----------------------------------------------------------------------


class TagQueueRequest(Request, frozen=True):
    queue_url: str | None = None
    # Clients that follow CreateQueue send this member in lower case.
    tags: dict[str, str] | None = None
    tags_lowercase: dict[str, str] | None = field(default=None, name="tags")


class UntagQueueRequest(Request, frozen=True):
    queue_url: str | None = None
    tag_keys: list[str] | None = None


class ListQueueTagsRequest(Request, frozen=True):
    queue_url: str | None = None


class ListQueueTagsResponse(Response, frozen=True):
    tags: dict[str, str] = {}


class AddPermissionRequest(Request, frozen=True):
    queue_url: str | None = None
    label: str | None = None
    aws_account_ids: list[str] | None = field(default=None, name="AWSAccountIds")
    actions: list[str] | None = None


class RemovePermissionRequest(Request, frozen=True):
    queue_url: str | None = None
    label: str | None = None


# --- Dead letters -------------------------------------------------------------------------------


class ListDeadLetterSourceQueuesRequest(Request, frozen=True):
    queue_url: str | None = None
    max_results: int | None = None
    next_token: str | None = None


class ListDeadLetterSourceQueuesResponse(Response, frozen=True):
    queue_urls: list[str] = field(default_factory=list, name="queueUrls")
    next_token: str | None = None


class StartMessageMoveTaskRequest(Request, frozen=True):
    source_arn: str | None = None
    destination_arn: str | None = None
    max_number_of_messages_per_second: int | None = None


class StartMessageMoveTaskResponse(Response, frozen=True):
    task_handle: str


class CancelMessageMoveTaskRequest(Request, frozen=True):
    task_handle: str | None = None


class CancelMessageMoveTaskResponse(Response, frozen=True):
    # No default: a count of zero is shown.
    approximate_number_of_messages_moved: int


class ListMessageMoveTasksRequest(Request, frozen=True):
    source_arn: str | None = None
    max_results: int | None = None


class ListMessageMoveTasksResultEntry(Response, frozen=True, kw_only=True):
    task_handle: str | None = None
    status: str
    source_arn: str
    destination_arn: str | None = None
    max_number_of_messages_per_second: int | None = None
    approximate_number_of_messages_moved: int
    approximate_number_of_messages_to_move: int
    failure_reason: str | None = None
    started_timestamp: int


class ListMessageMoveTasksResponse(Response, frozen=True):
    results: list[ListMessageMoveTasksResultEntry] = []
