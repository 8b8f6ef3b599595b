"""The Query protocol without a socket: what requests mean and what errors look like. Cites the
contract's sections. What answers look like is in `test_xml_answer.py`.
"""

from typing import Any
from urllib.parse import urlencode

import pytest
from msgspec import Struct

from fastnode.http.http1 import Request
from fastnode.http.query_codec import (
    NoOperation,
    QueryCodec,
    QueryJsonCodec,
    prefers_json,
)
from fastnode.native import PARAMETERS_MAX
from fastnode.queue import api
from fastnode.queue.api import MessageAttributeValue
from fastnode.queue.errors import (
    SqsError,
    queue_does_not_exist,
    service_unavailable,
    unknown_action,
)
from fastnode.queue.operations import OPERATIONS

CODEC = QueryCodec(OPERATIONS)
JSON_CODEC = QueryJsonCodec(OPERATIONS)
URL = "http://localhost:9324/000000000000/q"
HEADERS = b"Content-Type: text/xml\r\nx-amzn-RequestId: id-1\r\n"


def request(
    form: str = "", target: str = "/", method: bytes = b"POST", **headers: bytes
) -> Request:
    named = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    return Request(method, target.encode(), "1.1", named, True, form.encode())


def read(asked: Request) -> Struct:
    return CODEC.decode(CODEC.operation_of(asked), asked)


def read_form(action: str, form: str) -> Struct:
    return read(request(f"Action={action}&Version=2012-11-05&{form}"))


def refusal(asked: Request) -> SqsError:
    with pytest.raises(SqsError) as caught:
        read(asked)
    return caught.value


# --- contract 1.3: parameters -------------------------------------------------------------------

TABLE: list[tuple[str, str, dict[str, Any]]] = [
    ("CreateQueue", "QueueName=q", {"queue_name": "q"}),
    (
        "CreateQueue",
        "Attribute.1.Name=DelaySeconds&Attribute.1.Value=5&Attribute.2.Name=a&Attribute.2.Value=",
        {"attributes": {"DelaySeconds": "5", "a": ""}},
    ),
    ("CreateQueue", "Tag.1.Key=k&Tag.1.Value=v", {"tags": {"k": "v"}}),
    ("CreateQueue", "Tags.1.Key=k&Tags.1.Value=v", {"tags_capitalised": {"k": "v"}}),
    ("TagQueue", "Tag.1.Key=k&Tag.1.Value=v", {"tags_lowercase": {"k": "v"}}),
    ("TagQueue", "Tags.1.Key=k&Tags.1.Value=v", {"tags": {"k": "v"}}),
    ("UntagQueue", "TagKey.1=a&TagKey.2=b", {"tag_keys": ["a", "b"]}),
    ("SetQueueAttributes", "Attribute.1.Name=a&Attribute.1.Value=b", {"attributes": {"a": "b"}}),
    ("GetQueueAttributes", "AttributeName.1=All", {"attribute_names": ["All"]}),
    (
        "ReceiveMessage",
        "AttributeName.2=b&AttributeName.1=a&MaxNumberOfMessages=10",
        {
            "attribute_names": ["a", "b"],
            "message_system_attribute_names": ["a", "b"],
            "max_number_of_messages": 10,
        },
    ),
    ("ReceiveMessage", "MessageAttributeName.1=x.*", {"message_attribute_names": ["x.*"]}),
    (
        "SendMessage",
        "MessageBody=hi&DelaySeconds=0&MessageAttribute.1.Name=n"
        "&MessageAttribute.1.Value.DataType=String&MessageAttribute.1.Value.StringValue=v"
        "&MessageAttribute.2.Name=o&MessageAttribute.2.Value.DataType=Binary"
        "&MessageAttribute.2.Value.BinaryValue=%2B%2F8%3D",
        {
            "message_body": "hi",
            "delay_seconds": 0,
            "message_attributes": {
                "n": MessageAttributeValue("String", "v"),
                "o": MessageAttributeValue("Binary", binary_value=b"\xfb\xff"),
            },
        },
    ),
    (
        "SendMessage",
        "MessageSystemAttribute.1.Name=AWSTraceHeader"
        "&MessageSystemAttribute.1.Value.DataType=String"
        "&MessageSystemAttribute.1.Value.StringValue=Root%3D1",
        {
            "message_system_attributes": {
                "AWSTraceHeader": MessageAttributeValue("String", "Root=1")
            }
        },
    ),
    (
        "SendMessage",
        "MessageAttribute.1.Name=n&MessageAttribute.1.Value.StringListValue.1=a"
        "&MessageAttribute.1.Value.BinaryListValue.1=YQ==",
        {
            "message_attributes": {
                "n": MessageAttributeValue(string_list_values=["a"], binary_list_values=[b"a"])
            }
        },
    ),
    (
        "SendMessage",
        "MessageAttribute.1.Name=n",
        {"message_attributes": {"n": MessageAttributeValue()}},
    ),
    (
        "AddPermission",
        "Label=l&AWSAccountId.1=1&AWSAccountId.2=2&ActionName.1=SendMessage",
        {"label": "l", "aws_account_ids": ["1", "2"], "actions": ["SendMessage"]},
    ),
    (
        "SendMessageBatch",
        "SendMessageBatchRequestEntry.1.Id=a&SendMessageBatchRequestEntry.1.MessageBody=b"
        "&SendMessageBatchRequestEntry.1.DelaySeconds=1"
        "&SendMessageBatchRequestEntry.1.MessageGroupId=g"
        "&SendMessageBatchRequestEntry.1.MessageDeduplicationId=d"
        "&SendMessageBatchRequestEntry.1.MessageAttribute.1.Name=n"
        "&SendMessageBatchRequestEntry.1.MessageAttribute.1.Value.StringValue=v"
        "&SendMessageBatchRequestEntry.1.MessageAttribute.1.Value.DataType=String",
        {
            "entries": [
                api.SendMessageBatchRequestEntry(
                    "a",
                    "b",
                    1,
                    {"n": MessageAttributeValue("String", "v")},
                    message_deduplication_id="d",
                    message_group_id="g",
                )
            ]
        },
    ),
    (
        "DeleteMessageBatch",
        "DeleteMessageBatchRequestEntry.1.Id=a&DeleteMessageBatchRequestEntry.1.ReceiptHandle=h",
        {"entries": [api.DeleteMessageBatchRequestEntry("a", "h")]},
    ),
    (
        "ChangeMessageVisibilityBatch",
        "ChangeMessageVisibilityBatchRequestEntry.1.Id=a"
        "&ChangeMessageVisibilityBatchRequestEntry.1.ReceiptHandle=h"
        "&ChangeMessageVisibilityBatchRequestEntry.1.VisibilityTimeout=7",
        {"entries": [api.ChangeMessageVisibilityBatchRequestEntry("a", "h", 7)]},
    ),
    ("ListQueues", "QueueNamePrefix=p&MaxResults=2", {"queue_name_prefix": "p", "max_results": 2}),
    ("StartMessageMoveTask", "SourceArn=arn%3Aaws", {"source_arn": "arn:aws"}),
]


@pytest.mark.parametrize(("action", "form", "members"), TABLE)
def test_parameters_fill_members(action: str, form: str, members: dict[str, Any]) -> None:
    expected = OPERATIONS[action].request
    if "queue_url" in expected.__struct_fields__:
        form, members = f"{form}&{urlencode({'QueueUrl': URL})}", members | {"queue_url": URL}
    assert read_form(action, form) == expected(**members)


def test_the_version_may_be_missing_and_other_parameters_are_ignored() -> None:
    asked = request("Action=PurgeQueue&QueueUrl=q&X-Amz-Signature=%ff&&=&Attribute.1.Name=x")
    assert read(asked) == api.PurgeQueueRequest("q")


def test_a_batch_without_entries_is_an_empty_one() -> None:
    """Contract 7.1: an absent list is EmptyBatchRequest, which only Query cannot tell apart."""
    assert read_form("SendMessageBatch", "QueueUrl=q") == api.SendMessageBatchRequest("q", [])


def test_url_and_body_are_read_together_and_the_url_counts_more() -> None:
    asked = request(
        "MessageBody=body&QueueUrl=q&Action=DeleteQueue", "/?Action=SendMessage&DelaySeconds=3"
    )
    assert read(asked) == api.SendMessageRequest("q", "body", 3)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("DelaySeconds=abc", "STRING_VALUE can not be converted to an Integer"),
        ("DelaySeconds=", "STRING_VALUE can not be converted to an Integer"),
        ("MessageBody=%zz", "The request has a percent sign that begins no escape."),
        ("MessageBody=%ff", "The request is not in UTF-8."),
        (
            "MessageAttribute.1.Name=n&MessageAttribute.1.Value.BinaryValue=***",
            "Invalid base64 encoded string - at `$.MessageAttributes[...].BinaryValue`",
        ),
    ],
)
def test_a_value_of_the_wrong_kind_is_malformed_input(form: str, text: str) -> None:
    error = refusal(request("Action=SendMessage&QueueUrl=q&" + form))
    assert (error.row.query_code, error.row.status, error.message) == ("MalformedInput", 400, text)


def test_the_number_of_parameters_is_bounded() -> None:
    allowed = "Action=PurgeQueue&QueueUrl=q" + "&x" * (PARAMETERS_MAX - 2)
    assert read(request(allowed)) == api.PurgeQueueRequest("q")
    assert refusal(request(allowed + "&x")).row.query_code == "MalformedInput"


# --- contract 1.1 and 1.5: actions, paths -------------------------------------------------------


@pytest.mark.parametrize("action", ["Nonsense", "sendMessage", "", "<&"])
def test_an_unknown_action_is_invalid(action: str) -> None:
    error = refusal(request(urlencode({"Action": action})))
    assert (error.row.query_code, error.row.status) == ("InvalidAction", 400)
    assert error.message == f"The action {action} is not valid for this endpoint."


def test_a_get_without_action_has_no_operation() -> None:
    error = refusal(request(target="/000000000000/q?Version=2012-11-05", method=b"GET"))
    assert isinstance(error, NoOperation)
    for codec in (CODEC, JSON_CODEC):
        assert codec.encode_error(error, "id-1") == (
            404,
            HEADERS,
            b"<UnknownOperationException/>\n",
        )


def test_a_post_without_action_misses_a_parameter() -> None:
    error = refusal(request("QueueUrl=q"))
    assert (error.row.query_code, error.row.status) == ("MissingParameter", 400)
    assert error.message == "The request must contain the parameter Action."


@pytest.mark.parametrize(
    ("path", "url"),
    [
        ("/000000000000/q", "/000000000000/q"),
        ("/000000000000/q.fifo/", "/000000000000/q.fifo/"),
        ("/queue/eu-west-1/000000000000/q", "/queue/eu-west-1/000000000000/q"),
        ("http://localhost:9324/000000000000/q", "/000000000000/q"),
    ],
)
def test_the_path_may_name_the_queue(path: str, url: str) -> None:
    assert read(request("Action=PurgeQueue", path)) == api.PurgeQueueRequest(url)
    by_get = request(target=path + "?Action=DeleteQueue", method=b"GET")
    assert read(by_get) == api.DeleteQueueRequest(url)


def test_the_parameter_wins_over_the_path() -> None:
    asked = request("Action=PurgeQueue&QueueUrl=other", "/000000000000/q")
    assert read(asked) == api.PurgeQueueRequest("other")


@pytest.mark.parametrize("path", ["/", "/q", "/1/q", "/a/000000000000/q", "/000000000000/"])
def test_without_parameter_or_path_the_queue_is_missing(path: str) -> None:
    error = refusal(request("Action=PurgeQueue", path))
    assert error.message == "The request must contain the parameter QueueUrl."
    assert error.row.query_code == "MissingParameter"


@pytest.mark.parametrize("action", ["CreateQueue", "ListQueues"])
def test_actions_about_no_queue_are_invalid_at_a_queue(action: str) -> None:
    error = refusal(request(f"Action={action}&QueueName=q", "/000000000000/q"))
    assert error.message == f"The action {action} is not valid for this endpoint."
    assert read(request(f"Action={action}&QueueName=q", "/sqs/")) is not None


def test_another_queues_url_may_be_asked_for_at_a_queue() -> None:
    asked = request("Action=GetQueueUrl&QueueName=other", "/000000000000/q")
    assert read(asked) == api.GetQueueUrlRequest("other")


# --- contract 1.4: errors -----------------------------------------------------------------------


def test_an_error_has_the_contracts_envelope_and_the_text_of_this_protocol() -> None:
    status, headers, body = CODEC.encode_error(queue_does_not_exist(), "id-1")
    assert (status, headers) == (400, HEADERS)
    assert body == (
        b'<?xml version="1.0"?>'
        b'<ErrorResponse xmlns="http://queue.amazonaws.com/doc/2012-11-05/"><Error>'
        b"<Type>Sender</Type><Code>AWS.SimpleQueueService.NonExistentQueue</Code>"
        b"<Message>The specified queue does not exist for this wsdl version.</Message>"
        b"<Detail/></Error><RequestId>id-1</RequestId></ErrorResponse>"
    )


def test_a_fault_of_ours_is_the_receivers_and_says_when_to_come_back() -> None:
    error = service_unavailable("later")
    for codec, fault in ((CODEC, b"<Type>Receiver</Type>"), (JSON_CODEC, b'"Type":"Receiver"')):
        status, headers, body = codec.encode_error(error, "id-1", 7)
        assert (status, headers.endswith(b"\r\nRetry-After: 7\r\n")) == (503, True)
        assert fault in body


def test_what_a_client_sent_cannot_break_out_of_an_error() -> None:
    _, _, body = CODEC.encode_error(unknown_action('</Message>"&\r\x00\x1b\ud800\uffff'), "id-1")
    echoed = "The action &lt;/Message&gt;&quot;&amp;&#xD;\ufffd\ufffd\ufffd\ufffd is not valid"
    assert echoed.encode() in body


def test_an_error_in_json_has_code_and_text() -> None:
    status, headers, body = JSON_CODEC.encode_error(queue_does_not_exist(), "id-1")
    assert (status, headers) == (400, HEADERS.replace(b"text/xml", b"application/json"))
    assert body == (
        b'{"Error":{"Type":"Sender","Code":"AWS.SimpleQueueService.NonExistentQueue",'
        b'"Message":"The specified queue does not exist for this wsdl version."},'
        b'"RequestId":"id-1"}'
    )


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (b"application/json", True),
        (b"Application/JSON; charset=utf-8", True),
        (b"application/json, text/plain, */*", True),
        (b"*/*", False),
        (b"text/xml", False),
        (b"application/x-amz-json-1.0", False),
    ],
)
def test_json_is_for_those_who_name_it(accept: bytes, expected: bool) -> None:
    assert prefers_json(request(accept=accept)) is expected
    assert prefers_json(request()) is False
