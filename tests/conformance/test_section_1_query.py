"""The contract, sections 1.1 and 1.3: requests of the Query protocol, field by field."""

import base64
import json
import xml.etree.ElementTree as ET
from urllib.parse import urlencode

import pytest

from tests.conformance import kinds
from tests.conformance.client import FORM_TYPE, PROLOG, Client
from tests.conformance.contract import covers
from tests.conformance.kit import (
    arn_of,
    attributes,
    bodies,
    counts,
    name_of,
    new_name,
    receive,
    send,
    sent_and_received,
)
from tests.conformance.raw_query import XML_NAMESPACE, answer, form, get, path_of, refusal_of

# --- choosing the protocol ----------------------------------------------------------------------


@covers("1.1.query-get", only="query")
def test_a_get_with_an_action_is_a_request(sqs: Client, queue: str) -> None:
    reply = get(sqs, Action="GetQueueUrl", QueueName=name_of(queue))
    assert answer(sqs, reply) == {"QueueUrl": queue}


@covers("1.1.query-both-places", only="query")
def test_parameters_come_from_url_and_form_together(sqs: Client, queue: str) -> None:
    path = f"/?{urlencode({'Action': 'SendMessage', 'QueueUrl': queue})}"
    assert "MessageId" in answer(sqs, form(sqs, path, MessageBody="from the form"))
    assert bodies(receive(sqs, queue)) == ["from the form"]


@covers("1.1.no-action", only="query")
@pytest.mark.parametrize("accept", ["", "application/json"])
def test_a_queue_path_without_an_action_is_not_found(sqs: Client, queue: str, accept: str) -> None:
    reply = get(sqs, path_of(sqs, queue), accept)
    assert reply.status == 404
    root = ET.fromstring(reply.body)
    assert root.tag.rpartition("}")[2] == "UnknownOperationException"


@covers("1.1.query-unknown-action", "1.6.unknown-operation", only="query")
def test_an_unknown_action_is_named(sqs: Client) -> None:
    text = "The action Frobnicate is not valid for this endpoint."
    refusal_of(form(sqs, Action="Frobnicate")).assert_is(kinds.UNKNOWN_ACTION, text)


@covers("1.1.content-type-loose", only="query")
@pytest.mark.parametrize(
    "content_type", [FORM_TYPE.upper(), FORM_TYPE + "; charset=utf-8", "application/octet-stream"]
)
def test_the_content_type_of_a_form_matches_loosely(
    sqs: Client, queue: str, content_type: str
) -> None:
    path = "/?Action=GetQueueUrl&QueueName=" + name_of(queue)
    assert sqs.exchange("POST", path, {"Content-Type": content_type}, b"").status == 200


# --- requests -----------------------------------------------------------------------------------


@covers("1.3.version-missing", "1.4.namespace-without-version", "12.xml-namespace", only="query")
def test_the_version_may_be_missing(sqs: Client, queue: str) -> None:
    reply = form(sqs, Action="GetQueueUrl", QueueName=name_of(queue))
    assert reply.body.startswith(
        PROLOG + b'<GetQueueUrlResponse xmlns="%b">' % XML_NAMESPACE.encode()
    )


@covers("1.3.index-order", "1.3.send-batch", only="query")
def test_indexes_are_numbers(sqs: Client, queue: str) -> None:
    entry = "SendMessageBatchRequestEntry"
    fields = {"Action": "SendMessageBatch", "QueueUrl": queue}
    for number in (10, 9, 1, 100):
        fields[f"{entry}.{number}.Id"] = f"id-{number}"
        fields[f"{entry}.{number}.MessageBody"] = f"body {number}"
    result = answer(sqs, form(sqs, **fields))
    assert [one["Id"] for one in result["Successful"]] == ["id-1", "id-9", "id-10", "id-100"]
    assert bodies(receive(sqs, queue)) == ["body 1", "body 9", "body 10", "body 100"]


@covers("1.3.attributes", "1.3.attribute-names", "1.4.out-attributes", only="query")
def test_attributes_are_numbered_pairs(sqs: Client) -> None:
    names = {"Attribute.1.Name": "DelaySeconds", "Attribute.2.Name": "VisibilityTimeout"}
    values = {"Attribute.1.Value": "7", "Attribute.2.Value": "8"}
    created = form(sqs, Action="CreateQueue", QueueName=new_name(), **names, **values)
    url = answer(sqs, created)["QueueUrl"]
    asked = {"AttributeName.1": "DelaySeconds", "AttributeName.2": "QueueArn"}
    reply = form(sqs, Action="GetQueueAttributes", QueueUrl=url, **asked)
    assert b"<Attribute><Name>DelaySeconds</Name><Value>7</Value></Attribute>" in reply.body
    assert b"<Name>QueueArn</Name><Value>arn:" in reply.body
    assert answer(sqs, reply) == {"Attributes": {"DelaySeconds": "7", "QueueArn": arn_of(url)}}


@covers("1.3.system-attribute-names", only="query")
def test_system_attribute_names_share_the_name_of_attribute_names(sqs: Client, queue: str) -> None:
    send(sqs, queue)
    asked = {"AttributeName.1": "SenderId", "AttributeName.2": "ApproximateReceiveCount"}
    reply = form(sqs, Action="ReceiveMessage", QueueUrl=queue, **asked)
    (message,) = answer(sqs, reply)["Messages"]
    assert set(message["Attributes"]) == {"SenderId", "ApproximateReceiveCount"}


@covers(
    "1.3.message-attributes",
    "1.3.message-attribute-names",
    "1.3.message-system-attributes",
    "1.4.out-messages",
    only="query",
)
def test_message_attributes_are_numbered_and_nested(sqs: Client, queue: str) -> None:
    trace = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
    fields = {
        "MessageAttribute.1.Name": "text",
        "MessageAttribute.1.Value.DataType": "String",
        "MessageAttribute.1.Value.StringValue": "a & b",
        "MessageAttribute.2.Name": "blob",
        "MessageAttribute.2.Value.DataType": "Binary",
        "MessageAttribute.2.Value.BinaryValue": base64.b64encode(b"\x00\xff").decode(),
        "MessageSystemAttribute.1.Name": "AWSTraceHeader",
        "MessageSystemAttribute.1.Value.DataType": "String",
        "MessageSystemAttribute.1.Value.StringValue": trace,
    }
    sent = form(sqs, Action="SendMessage", QueueUrl=queue, MessageBody="x", **fields)
    assert set(answer(sqs, sent)) == {
        *("MessageId", "MD5OfMessageBody", "MD5OfMessageAttributes"),
        "MD5OfMessageSystemAttributes",
    }
    asked = {"MessageAttributeName.1": "All", "AttributeName.1": "AWSTraceHeader"}
    received = form(sqs, Action="ReceiveMessage", QueueUrl=queue, **asked)
    (message,) = answer(sqs, received)["Messages"]
    assert list(message) == [
        *("MessageId", "ReceiptHandle", "MD5OfBody", "Body", "Attributes"),
        *("MD5OfMessageAttributes", "MessageAttributes"),
    ]
    assert message["Attributes"] == {"AWSTraceHeader": trace}
    assert message["MessageAttributes"] == {
        "text": {"DataType": "String", "StringValue": "a & b"},
        "blob": {"DataType": "Binary", "BinaryValue": "AP8="},
    }


@covers("1.3.tags", "1.3.tags-plural", "1.3.tag-keys", "1.4.out-tags", only="query")
def test_tags_are_numbered_pairs_in_singular_or_plural(sqs: Client) -> None:
    tags = {"Tag.1.Key": "a", "Tag.1.Value": "1"}
    created = form(sqs, Action="CreateQueue", QueueName=new_name(), **tags)
    url = answer(sqs, created)["QueueUrl"]
    more = {"Tags.1.Key": "b", "Tags.1.Value": "2", "Tags.2.Key": "c", "Tags.2.Value": ""}
    answer(sqs, form(sqs, Action="TagQueue", QueueUrl=url, **more))
    keys = {"TagKey.1": "a"}
    answer(sqs, form(sqs, Action="UntagQueue", QueueUrl=url, **keys))
    reply = form(sqs, Action="ListQueueTags", QueueUrl=url)
    assert b"<Tag><Key>b</Key><Value>2</Value></Tag>" in reply.body
    assert answer(sqs, reply) == {"Tags": {"b": "2", "c": ""}}


@covers("1.3.permissions", only="query")
def test_accounts_and_actions_are_numbered(sqs: Client, queue: str) -> None:
    fields = {"AWSAccountId.1": "111111111111", "AWSAccountId.2": "222222222222"}
    actions = {"ActionName.1": "SendMessage", "ActionName.2": "ReceiveMessage"}
    reply = form(sqs, Action="AddPermission", QueueUrl=queue, Label="l", **fields, **actions)
    assert answer(sqs, reply) == {}
    (statement,) = json.loads(attributes(sqs, queue, "Policy")["Policy"])["Statement"]
    assert statement["Action"] == ["SQS:SendMessage", "SQS:ReceiveMessage"]
    assert len(statement["Principal"]["AWS"]) == 2


@covers("1.3.send-batch", "1.4.out-successful", "1.4.out-failed", only="query")
def test_entries_of_a_send_are_numbered_and_nested(sqs: Client, queue: str) -> None:
    entry = "SendMessageBatchRequestEntry"
    fields = {
        f"{entry}.1.Id": "good",
        f"{entry}.1.MessageBody": "x",
        f"{entry}.1.DelaySeconds": "0",
        f"{entry}.1.MessageGroupId": "g",
        f"{entry}.1.MessageAttribute.1.Name": "k",
        f"{entry}.1.MessageAttribute.1.Value.DataType": "String",
        f"{entry}.1.MessageAttribute.1.Value.StringValue": "x",
        f"{entry}.2.Id": "bad",
        f"{entry}.2.MessageBody": "x",
        f"{entry}.2.MessageDeduplicationId": "d",
    }
    reply = form(sqs, Action="SendMessageBatch", QueueUrl=queue, **fields)
    for element in (
        b"<SendMessageBatchResultEntry><Id>good</Id>",
        b"<SenderFault>true</SenderFault>",
    ):
        assert element in reply.body
    result = answer(sqs, reply)
    assert result["Successful"][0]["MD5OfMessageAttributes"] == "a45daa70926828a2f0a1db3418e6feb4"
    assert [one["Id"] for one in result["Failed"]] == ["bad"]


@covers("1.3.delete-batch", "1.3.change-batch", "1.4.out-successful", only="query")
@pytest.mark.parametrize("action", ["DeleteMessageBatch", "ChangeMessageVisibilityBatch"])
def test_entries_of_deletes_and_changes_are_numbered(sqs: Client, queue: str, action: str) -> None:
    message = sent_and_received(sqs, queue)
    entry = f"{action}RequestEntry.1"
    fields = {f"{entry}.Id": "a", f"{entry}.ReceiptHandle": message["ReceiptHandle"]}
    if action.startswith("Change"):
        fields[f"{entry}.VisibilityTimeout"] = "0"
    reply = form(sqs, Action=action, QueueUrl=queue, **fields)
    assert b"<%bResultEntry><Id>a</Id></%bResultEntry>" % ((action.encode(),) * 2) in reply.body
    assert answer(sqs, reply) == {"Successful": [{"Id": "a"}]}
    assert counts(sqs, queue) == ((0, 0, 0) if action.startswith("Delete") else (1, 0, 0))


@covers("1.3.list-values", only="query")
@pytest.mark.parametrize("kind", ["StringListValue", "BinaryListValue"])
def test_list_values_are_read_and_refused(sqs: Client, queue: str, kind: str) -> None:
    fields = {
        "MessageAttribute.1.Name": "k",
        "MessageAttribute.1.Value.DataType": kind.removesuffix("ListValue"),
        "MessageAttribute.1.Value.StringValue": "x",
        "MessageAttribute.1.Value.BinaryValue": "eA==",
        f"MessageAttribute.1.Value.{kind}.1": "eA==",
    }
    reply = form(sqs, Action="SendMessage", QueueUrl=queue, MessageBody="x", **fields)
    refusal_of(reply).assert_is(kinds.UNSUPPORTED)


@covers("1.3.scalars", "1.4.out-urls", only="query")
def test_scalars_have_their_own_name(sqs: Client) -> None:
    prefix = new_name()
    for number in range(2):
        answer(sqs, form(sqs, Action="CreateQueue", QueueName=f"{prefix}-{number}"))
    reply = form(sqs, Action="ListQueues", QueueNamePrefix=prefix, MaxResults="1")
    assert reply.body.count(b"<QueueUrl>") == 1
    first = answer(sqs, reply)
    second = form(
        sqs,
        Action="ListQueues",
        QueueNamePrefix=prefix,
        MaxResults="5",
        NextToken=first["NextToken"],
    )
    assert [name_of(url) for url in answer(sqs, second)["QueueUrls"]] == [f"{prefix}-1"]
