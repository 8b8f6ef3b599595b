"""What the Query protocol answers, in XML and in JSON: the table of the contract, section 1.4."""

import base64
import json
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.http.query_codec import QueryCodec, QueryJsonCodec
from fastnode.queue import api
from fastnode.queue.api import MessageAttributeValue
from fastnode.queue.operations import OPERATIONS

CODEC = QueryCodec(OPERATIONS)
JSON_CODEC = QueryJsonCodec(OPERATIONS)
NAMESPACE = "http://queue.amazonaws.com/doc/2012-11-05/"
FAILED = api.BatchResultErrorEntry("b", sender_fault=True, code="C", message="M")
MESSAGE = api.Message(
    "id",
    "handle",
    "md5",
    "body",
    {"SenderId": "AIDA"},
    "md5a",
    {
        "n": MessageAttributeValue("String", "v"),
        "o": MessageAttributeValue("Binary", binary_value=b"\xfb\xff"),
    },
)
TASK = api.ListMessageMoveTasksResultEntry(
    status="RUNNING",
    source_arn="arn",
    approximate_number_of_messages_moved=0,
    approximate_number_of_messages_to_move=7,
    started_timestamp=1,
)


def answer(action: str, response: Any) -> str:
    status, headers, body = CODEC.encode(OPERATIONS[action], response, "id-1")
    assert (status, headers) == (200, b"Content-Type: text/xml\r\nx-amzn-RequestId: id-1\r\n")
    return body.decode()


TABLE: list[tuple[str, Any, str]] = [
    ("CreateQueue", api.CreateQueueResponse("u"), "<QueueUrl>u</QueueUrl>"),
    (
        "GetQueueAttributes",
        api.GetQueueAttributesResponse({"QueueArn": "arn:", "a": ""}),
        "<Attribute><Name>QueueArn</Name><Value>arn:</Value></Attribute>"
        "<Attribute><Name>a</Name><Value></Value></Attribute>",
    ),
    (
        "ListQueues",
        api.ListQueuesResponse(["u", "v"], "t"),
        "<QueueUrl>u</QueueUrl><QueueUrl>v</QueueUrl><NextToken>t</NextToken>",
    ),
    (
        "ListDeadLetterSourceQueues",
        api.ListDeadLetterSourceQueuesResponse(["u"]),
        "<QueueUrl>u</QueueUrl>",
    ),
    (
        "ListQueueTags",
        api.ListQueueTagsResponse({"k": "v"}),
        "<Tag><Key>k</Key><Value>v</Value></Tag>",
    ),
    (
        "ReceiveMessage",
        api.ReceiveMessageResponse([MESSAGE, api.Message("i", "h", "5", "b")]),
        "<Message><MessageId>id</MessageId><ReceiptHandle>handle</ReceiptHandle>"
        "<MD5OfBody>md5</MD5OfBody><Body>body</Body>"
        "<Attribute><Name>SenderId</Name><Value>AIDA</Value></Attribute>"
        "<MD5OfMessageAttributes>md5a</MD5OfMessageAttributes>"
        "<MessageAttribute><Name>n</Name><Value><DataType>String</DataType>"
        "<StringValue>v</StringValue></Value></MessageAttribute>"
        "<MessageAttribute><Name>o</Name><Value><DataType>Binary</DataType>"
        "<BinaryValue>+/8=</BinaryValue></Value></MessageAttribute></Message>"
        "<Message><MessageId>i</MessageId><ReceiptHandle>h</ReceiptHandle>"
        "<MD5OfBody>5</MD5OfBody><Body>b</Body></Message>",
    ),
    (
        "SendMessageBatch",
        api.SendMessageBatchResponse([api.SendMessageBatchResultEntry("a", "id", "md5")], [FAILED]),
        "<SendMessageBatchResultEntry><Id>a</Id><MessageId>id</MessageId>"
        "<MD5OfMessageBody>md5</MD5OfMessageBody></SendMessageBatchResultEntry>"
        "<BatchResultErrorEntry><Id>b</Id><Code>C</Code><Message>M</Message>"
        "<SenderFault>true</SenderFault></BatchResultErrorEntry>",
    ),
    (
        "DeleteMessageBatch",
        api.DeleteMessageBatchResponse([api.DeleteMessageBatchResultEntry("a")]),
        "<DeleteMessageBatchResultEntry><Id>a</Id></DeleteMessageBatchResultEntry>",
    ),
    (
        "ChangeMessageVisibilityBatch",
        api.ChangeMessageVisibilityBatchResponse(
            [api.ChangeMessageVisibilityBatchResultEntry("a")],
            [api.BatchResultErrorEntry("b", sender_fault=False, code="InternalError")],
        ),
        "<ChangeMessageVisibilityBatchResultEntry><Id>a</Id>"
        "</ChangeMessageVisibilityBatchResultEntry><BatchResultErrorEntry><Id>b</Id>"
        "<Code>InternalError</Code><SenderFault>false</SenderFault></BatchResultErrorEntry>",
    ),
    (
        "ListMessageMoveTasks",
        api.ListMessageMoveTasksResponse([TASK]),
        "<ListMessageMoveTasksResultEntry><Status>RUNNING</Status><SourceArn>arn</SourceArn>"
        "<ApproximateNumberOfMessagesMoved>0</ApproximateNumberOfMessagesMoved>"
        "<ApproximateNumberOfMessagesToMove>7</ApproximateNumberOfMessagesToMove>"
        "<StartedTimestamp>1</StartedTimestamp></ListMessageMoveTasksResultEntry>",
    ),
    (
        "CancelMessageMoveTask",
        api.CancelMessageMoveTaskResponse(0),
        "<ApproximateNumberOfMessagesMoved>0</ApproximateNumberOfMessagesMoved>",
    ),
]


@pytest.mark.parametrize(("action", "response", "inside"), TABLE)
def test_members_become_elements(action: str, response: Any, inside: str) -> None:
    assert answer(action, response) == (
        f'<?xml version="1.0"?><{action}Response xmlns="{NAMESPACE}">'
        f"<{action}Result>{inside}</{action}Result>"
        f"<ResponseMetadata><RequestId>id-1</RequestId></ResponseMetadata></{action}Response>"
    )


def test_an_empty_result_is_closed_at_once() -> None:
    empty = answer("ReceiveMessage", api.ReceiveMessageResponse())
    assert f'xmlns="{NAMESPACE}"><ReceiveMessageResult/><ResponseMetadata>' in empty


def test_an_action_without_output_has_no_result() -> None:
    void = answer("DeleteMessage", None)
    assert f'<DeleteMessageResponse xmlns="{NAMESPACE}"><ResponseMetadata>' in void


def test_a_result_of_the_wrong_kind_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        CODEC.encode(OPERATIONS["ReceiveMessage"], None, "id-1")
    with pytest.raises(AssertionError):
        CODEC.encode(OPERATIONS["DeleteMessage"], api.ReceiveMessageResponse(), "id-1")


def test_text_is_escaped_as_the_contract_says() -> None:
    response = api.CreateQueueResponse("&<>\"'\r\n\té😀")
    shown = "<QueueUrl>&amp;&lt;&gt;&quot;'&#xD;\n\té😀</QueueUrl>"
    assert shown in answer("CreateQueue", response)


legal = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff")


@given(st.text(st.one_of(legal, st.sampled_from("\t\n\r&<>\"'"))), st.binary())
def test_whatever_xml_can_carry_arrives_unchanged(text: str, octets: bytes) -> None:
    attributes = {text: MessageAttributeValue(text, binary_value=octets)}
    message = api.Message(text, "h", "m", text, {text: text}, None, attributes)
    root = ElementTree.fromstring(answer("ReceiveMessage", api.ReceiveMessageResponse([message])))
    (shown,) = root.iter(f"{{{NAMESPACE}}}Message")

    def texts(path: str) -> str:
        return shown.findtext("/".join(f"{{{NAMESPACE}}}{name}" for name in path.split("/"))) or ""

    paths = ["MessageId", "Body", "Attribute/Name", "Attribute/Value", "MessageAttribute/Name"]
    assert [texts(path) for path in paths] == [text] * 5
    assert base64.b64decode(texts("MessageAttribute/Value/BinaryValue")) == octets


@given(st.text())
def test_whatever_comes_out_is_xml(text: str) -> None:
    ElementTree.fromstring(answer("CreateQueue", api.CreateQueueResponse(text)))


# --- JSON ---------------------------------------------------------------------------------------


def json_answer(action: str, response: Any) -> Any:
    status, headers, body = JSON_CODEC.encode(OPERATIONS[action], response, "id-1")
    assert (status, headers.partition(b"\r\n")[0]) == (200, b"Content-Type: application/json")
    envelope = json.loads(body)[f"{action}Response"]
    assert envelope["ResponseMetadata"] == {"RequestId": "id-1"}
    return envelope.get(f"{action}Result")


def test_json_shows_absent_members_and_names_messages_in_lower_case() -> None:
    assert json_answer("ReceiveMessage", api.ReceiveMessageResponse()) == {"messages": None}
    plain = api.ReceiveMessageResponse([api.Message("i", "h", "5", "b")])
    (message,) = json_answer("ReceiveMessage", plain)["messages"]
    assert (message["Body"], message["Attributes"], message["MessageAttributes"]) == (
        "b",
        None,
        None,
    )
    assert json_answer("SendMessage", api.SendMessageResponse("id", "md5")) == {
        "MessageId": "id",
        "MD5OfMessageBody": "md5",
        "MD5OfMessageAttributes": None,
        "MD5OfMessageSystemAttributes": None,
        "SequenceNumber": None,
    }


def test_json_shows_maps_as_lists_of_pairs() -> None:
    (shown,) = json_answer("ReceiveMessage", api.ReceiveMessageResponse([MESSAGE]))["messages"]
    assert shown["Attributes"] == [{"Name": "SenderId", "Value": "AIDA"}]
    first, second = shown["MessageAttributes"]
    assert (first["Name"], first["Value"]["StringValue"]) == ("n", "v")
    assert (second["Name"], second["Value"]["BinaryValue"]) == ("o", "+/8=")
    tags = json_answer("ListQueueTags", api.ListQueueTagsResponse({"k": "v"}))
    assert tags == {"Tags": [{"Key": "k", "Value": "v"}]}
    attributes = api.GetQueueAttributesResponse({"a": "b"})
    assert json_answer("GetQueueAttributes", attributes) == {
        "Attributes": [{"Name": "a", "Value": "b"}]
    }


def test_json_lists_queues_and_entries() -> None:
    listed = json_answer("ListQueues", api.ListQueuesResponse(["u"]))
    assert listed == {"queueUrls": ["u"], "NextToken": None}
    failed = json_answer("DeleteMessageBatch", api.DeleteMessageBatchResponse([], [FAILED]))
    entry = {"Id": "b", "SenderFault": True, "Code": "C", "Message": "M"}
    assert failed == {"Successful": None, "Failed": [entry]}


def test_json_of_an_action_without_output_has_no_result() -> None:
    assert json_answer("DeleteMessage", None) is None
