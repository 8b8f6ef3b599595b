"""The wire shapes: member names, absent members, and what responses leave out."""

import msgspec
import pytest

from fastnode.queue import api

ACTIONS_WITH_OUTPUT = (
    "ChangeMessageVisibilityBatch",
    "CreateQueue",
    "DeleteMessageBatch",
    "GetQueueAttributes",
    "GetQueueUrl",
    "ListQueues",
    "ReceiveMessage",
    "SendMessage",
    "SendMessageBatch",
    "ListQueueTags",
    "ListDeadLetterSourceQueues",
    "StartMessageMoveTask",
    "ListMessageMoveTasks",
    "CancelMessageMoveTask",
)
ACTIONS_WITHOUT_OUTPUT = (
    "AddPermission",
    "RemovePermission",
    "TagQueue",
    "UntagQueue",
    "ChangeMessageVisibility",
    "DeleteMessage",
    "DeleteQueue",
    "PurgeQueue",
    "SetQueueAttributes",
)

# Section 2: the input members of each action, exactly as on the wire.
REQUEST_MEMBERS = {
    "CreateQueue": "QueueName Attributes tags Tags",
    "DeleteQueue": "QueueUrl",
    "GetQueueUrl": "QueueName QueueOwnerAWSAccountId",
    "ListQueues": "QueueNamePrefix MaxResults NextToken",
    "GetQueueAttributes": "QueueUrl AttributeNames",
    "SetQueueAttributes": "QueueUrl Attributes",
    "PurgeQueue": "QueueUrl",
    "SendMessage": "QueueUrl MessageBody DelaySeconds MessageAttributes MessageSystemAttributes "
    "MessageDeduplicationId MessageGroupId",
    "SendMessageBatch": "QueueUrl Entries",
    "ReceiveMessage": "QueueUrl AttributeNames MessageSystemAttributeNames MessageAttributeNames "
    "MaxNumberOfMessages VisibilityTimeout WaitTimeSeconds ReceiveRequestAttemptId",
    "DeleteMessage": "QueueUrl ReceiptHandle",
    "DeleteMessageBatch": "QueueUrl Entries",
    "ChangeMessageVisibility": "QueueUrl ReceiptHandle VisibilityTimeout",
    "ChangeMessageVisibilityBatch": "QueueUrl Entries",
    "TagQueue": "QueueUrl Tags tags",
    "UntagQueue": "QueueUrl TagKeys",
    "ListQueueTags": "QueueUrl",
    "AddPermission": "QueueUrl Label AWSAccountIds Actions",
    "RemovePermission": "QueueUrl Label",
    "ListDeadLetterSourceQueues": "QueueUrl MaxResults NextToken",
    "StartMessageMoveTask": "SourceArn DestinationArn MaxNumberOfMessagesPerSecond",
    "ListMessageMoveTasks": "SourceArn MaxResults",
    "CancelMessageMoveTask": "TaskHandle",
}

# Sections 1.4, 2.2 and 7.2: output members.
RESPONSE_MEMBERS = {
    "CreateQueueResponse": "QueueUrl",
    "GetQueueUrlResponse": "QueueUrl",
    "ListQueuesResponse": "QueueUrls NextToken",
    "GetQueueAttributesResponse": "Attributes",
    "SendMessageResponse": "MessageId MD5OfMessageBody MD5OfMessageAttributes "
    "MD5OfMessageSystemAttributes SequenceNumber",
    "SendMessageBatchResultEntry": "Id MessageId MD5OfMessageBody MD5OfMessageAttributes "
    "MD5OfMessageSystemAttributes SequenceNumber",
    "Message": "MessageId ReceiptHandle MD5OfBody Body Attributes MD5OfMessageAttributes "
    "MessageAttributes",
    "ReceiveMessageResponse": "Messages",
    "BatchResultErrorEntry": "Id SenderFault Code Message",
    "SendMessageBatchResponse": "Successful Failed",
    "DeleteMessageBatchResponse": "Successful Failed",
    "ChangeMessageVisibilityBatchResponse": "Successful Failed",
    "ListQueueTagsResponse": "Tags",
    "ListDeadLetterSourceQueuesResponse": "queueUrls NextToken",
    "StartMessageMoveTaskResponse": "TaskHandle",
    "CancelMessageMoveTaskResponse": "ApproximateNumberOfMessagesMoved",
    "ListMessageMoveTasksResponse": "Results",
    "ListMessageMoveTasksResultEntry": "TaskHandle Status SourceArn DestinationArn "
    "MaxNumberOfMessagesPerSecond ApproximateNumberOfMessagesMoved "
    "ApproximateNumberOfMessagesToMove FailureReason StartedTimestamp",
    "MessageAttributeValue": "DataType StringValue BinaryValue StringListValues BinaryListValues",
}


def request_type(action: str) -> type[msgspec.Struct]:
    found: type[msgspec.Struct] = getattr(api, f"{action}Request")
    return found


def wire_members(struct: type[msgspec.Struct]) -> list[str]:
    return [one.encode_name for one in msgspec.structs.fields(struct)]


@pytest.mark.parametrize("action", [*ACTIONS_WITH_OUTPUT, *ACTIONS_WITHOUT_OUTPUT])
def test_request_has_the_members_of_the_contract(action: str) -> None:
    assert wire_members(request_type(action)) == REQUEST_MEMBERS[action].split()


@pytest.mark.parametrize(("name", "members"), RESPONSE_MEMBERS.items())
def test_response_has_the_members_of_the_contract(name: str, members: str) -> None:
    assert wire_members(getattr(api, name)) == members.split()


def test_only_actions_with_output_have_a_response() -> None:
    assert all(hasattr(api, f"{action}Response") for action in ACTIONS_WITH_OUTPUT)
    assert not any(hasattr(api, f"{action}Response") for action in ACTIONS_WITHOUT_OUTPUT)


@pytest.mark.parametrize("action", REQUEST_MEMBERS)
def test_null_absent_and_unknown_members_mean_nothing(action: str) -> None:
    nulls = dict.fromkeys(REQUEST_MEMBERS[action].split())
    absent = msgspec.json.decode(b'{"Unheard":[1,{"a":null}]}', type=request_type(action))
    assert msgspec.json.decode(msgspec.json.encode(nulls), type=request_type(action)) == absent


def test_create_queue_takes_tags_in_either_spelling() -> None:
    decoded = msgspec.json.decode(
        b'{"tags":{"a":"1"},"Tags":{"b":"2"}}', type=api.CreateQueueRequest
    )
    assert (decoded.tags, decoded.tags_capitalised) == ({"a": "1"}, {"b": "2"})


def test_binary_values_are_base64_on_the_wire() -> None:
    wire = b'{"DataType":"Binary","BinaryValue":"AQID"}'
    value = msgspec.json.decode(wire, type=api.MessageAttributeValue)
    assert value.binary_value == b"\x01\x02\x03"
    assert msgspec.json.encode(value) == wire


@pytest.mark.parametrize(
    "empty",
    [
        api.ReceiveMessageResponse(),
        api.ListQueuesResponse(),
        api.GetQueueAttributesResponse(),
        api.SendMessageBatchResponse(successful=[], failed=[]),
        api.DeleteMessageBatchResponse([], []),
        api.ChangeMessageVisibilityBatchResponse(),
        api.ListQueuesResponse(queue_urls=[], next_token=None),
        api.ListQueueTagsResponse({}),
        api.ListDeadLetterSourceQueuesResponse([]),
        api.ListMessageMoveTasksResponse([]),
    ],
)
def test_empty_results_are_an_empty_object(empty: msgspec.Struct) -> None:
    # Section 1.2: never null, never an empty collection.
    assert msgspec.json.encode(empty) == b"{}"


def test_failed_entry_shows_a_fault_that_is_not_the_senders() -> None:
    entry = api.BatchResultErrorEntry("a", False, "InternalError")
    assert msgspec.json.encode(entry) == b'{"Id":"a","SenderFault":false,"Code":"InternalError"}'


def test_message_leaves_out_what_was_not_asked_for() -> None:
    message = api.Message("id", "handle", "md5", "body")
    expected = {"MessageId": "id", "ReceiptHandle": "handle", "MD5OfBody": "md5", "Body": "body"}
    assert msgspec.json.decode(msgspec.json.encode(message)) == expected


@pytest.mark.parametrize(
    "wire", [b'{"DelaySeconds":"5"}', b'{"MessageBody":5}', b'{"MessageAttributes":[]}', b"[]"]
)
def test_wrong_json_types_do_not_decode(wire: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(wire, type=api.SendMessageRequest)


def test_query_text_converts_into_the_same_struct() -> None:
    converted = msgspec.convert(
        {"QueueUrl": "q", "DelaySeconds": "5"}, api.SendMessageRequest, strict=False
    )
    assert converted == api.SendMessageRequest(queue_url="q", delay_seconds=5)
