"""The contract, sections 1.1, 1.2 and 1.3: requests and answers of the JSON protocol."""

import base64
import json
from typing import Any

import pytest

from tests.conformance import kinds
from tests.conformance.client import JSON_TYPE, UUID, VOID, Client, Reply, json_refusal
from tests.conformance.contract import covers
from tests.conformance.kit import (
    ABSENT_QUEUE,
    binary_attribute,
    new_name,
    new_queue,
    receive_one,
    redrive_policy,
    send,
    sent_and_received,
)


def post(sqs: Client, body: bytes, **headers: str) -> Reply:
    return sqs.exchange("POST", "/", {"Content-Type": JSON_TYPE} | headers, body)


def target(action: str) -> dict[str, str]:
    return {"X-Amz-Target": f"AmazonSQS.{action}"}


@covers("1.1.json", "1.2.success", only="json")
def test_a_target_and_a_json_object_make_a_request(sqs: Client, queue: str) -> None:
    body = json.dumps({"QueueUrl": queue, "MessageBody": "x"}).encode()
    reply = post(sqs, body, **target("SendMessage"))
    assert reply.status == 200
    assert reply.headers["content-type"] == JSON_TYPE
    assert UUID.fullmatch(reply.headers["x-amzn-requestid"])
    assert set(json.loads(reply.body)) == {"MessageId", "MD5OfMessageBody"}


@covers("1.1.json-on-queue-path", "11.json-on-path", only="json")
def test_a_queue_path_is_as_good_as_the_root(sqs: Client, queue: str) -> None:
    path = queue.removeprefix(sqs.url)
    reply = sqs.send("SendMessage", {"QueueUrl": queue, "MessageBody": "x"}, path=path)
    assert "MessageId" in sqs.read("SendMessage", reply)
    reply = sqs.send("ListQueues", {}, path=path)
    assert "QueueUrls" in sqs.read("ListQueues", reply)


@covers("1.1.json-unknown-target", only="json")
@pytest.mark.parametrize("name", ["AmazonSQS.Frobnicate", "AmazonSNS.SendMessage", "SendMessage"])
def test_an_unknown_target_is_an_unknown_operation(sqs: Client, name: str) -> None:
    reply = post(sqs, b"{}", **{"X-Amz-Target": name})
    json_refusal(reply).assert_is(kinds.UNKNOWN_ACTION)


@covers("1.1.json-no-target", only="json")
def test_an_absent_target_is_an_unknown_operation(sqs: Client) -> None:
    json_refusal(post(sqs, b"{}")).assert_is(kinds.UNKNOWN_ACTION)


@covers("1.1.content-type-loose", only="json")
@pytest.mark.parametrize(
    "content_type", ["Application/X-AMZ-JSON-1.0", "application/x-amz-json-1.0; charset=utf-8"]
)
def test_the_content_type_matches_loosely(sqs: Client, content_type: str) -> None:
    headers = {"Content-Type": content_type} | target("ListQueues")
    assert sqs.exchange("POST", "/", headers, b"{}").status == 200


@covers("1.2.query-mode", only="json")
def test_the_query_mode_header_changes_nothing(sqs: Client) -> None:
    members = {"QueueUrl": ABSENT_QUEUE}
    reply = sqs.send("PurgeQueue", members, headers={"x-amzn-query-mode": "true"})
    json_refusal(reply).assert_is(kinds.NO_QUEUE, "The specified queue does not exist.")


@covers("1.2.blobs")
def test_binary_values_travel_as_base64(sqs: Client, queue: str) -> None:
    encoded = base64.b64encode(bytes(range(256))).decode()
    send(sqs, queue, MessageAttributes={"blob": binary_attribute(encoded)})
    message = receive_one(sqs, queue, MessageAttributeNames=["All"])
    assert message["MessageAttributes"] == {"blob": binary_attribute(encoded)}


@covers("1.2.empty", only="json")
def test_an_empty_result_is_an_empty_object(sqs: Client, queue: str) -> None:
    for action in ("ReceiveMessage", "GetQueueAttributes", "ListQueueTags"):
        assert sqs.send(action, {"QueueUrl": queue}).body == b"{}", action


def void_members(sqs: Client, action: str, queue: str) -> dict[str, Any]:
    message = sent_and_received(sqs, queue)
    sqs.call(
        "AddPermission", QueueUrl=queue, Label="own", AWSAccountIds=["111111111111"], Actions=["*"]
    )
    return {
        "AddPermission": {"Label": "a", "AWSAccountIds": ["111111111111"], "Actions": ["*"]},
        "ChangeMessageVisibility": {
            "ReceiptHandle": message["ReceiptHandle"],
            "VisibilityTimeout": 1,
        },
        "DeleteMessage": {"ReceiptHandle": message["ReceiptHandle"]},
        "RemovePermission": {"Label": "own"},
        "SetQueueAttributes": {"Attributes": {"DelaySeconds": "1"}},
        "TagQueue": {"Tags": {"a": "b"}},
        "UntagQueue": {"TagKeys": ["a"]},
    }.get(action, {})


@covers("1.2.void", "11.void", only="json")
@pytest.mark.parametrize("action", sorted(VOID))
def test_an_action_without_output_answers_with_no_bytes(
    sqs: Client, queue: str, action: str
) -> None:
    reply = sqs.send(action, {"QueueUrl": queue} | void_members(sqs, action, queue))
    assert (reply.status, reply.body) == (200, b"")
    assert reply.headers["content-type"] == JSON_TYPE
    assert reply.headers["content-length"] == "0"


@covers("1.2.absent", "1.2.absent-successful", only="json")
def test_members_without_a_value_are_left_out(sqs: Client, queue: str) -> None:
    members: dict[str, dict[str, Any]] = {
        "ReceiveMessage": {"QueueUrl": queue},
        "ListQueues": {"QueueNamePrefix": "nothing-has-this-prefix"},
        "ListQueueTags": {"QueueUrl": queue},
        "GetQueueAttributes": {"QueueUrl": queue, "AttributeNames": ["Policy"]},
        "ListDeadLetterSourceQueues": {"QueueUrl": queue},
    }
    for action, each in members.items():
        assert json.loads(sqs.send(action, each).body) == {}, action
    good = {"Id": "a", "MessageBody": "x"}
    sent = sqs.send("SendMessageBatch", {"QueueUrl": queue, "Entries": [good]})
    assert set(json.loads(sent.body)) == {"Successful"}
    bad = {"Id": "a", "ReceiptHandle": "garbage"}
    deleted = sqs.send("DeleteMessageBatch", {"QueueUrl": queue, "Entries": [bad]})
    assert set(json.loads(deleted.body)) == {"Failed"}


@covers("1.2.error", "1.2.error-type-model", "11.namespaces", only="json")
def test_an_error_of_the_model_has_the_namespace_of_the_service(sqs: Client) -> None:
    reply = sqs.send("PurgeQueue", {"QueueUrl": ABSENT_QUEUE})
    assert reply.status == 400
    assert reply.headers["content-type"] == JSON_TYPE
    assert UUID.fullmatch(reply.headers["x-amzn-requestid"])
    code = "AWS.SimpleQueueService.NonExistentQueue;Sender"
    assert reply.headers["x-amzn-query-error"] == code
    assert json.loads(reply.body) == {
        "__type": "com.amazonaws.sqs#QueueDoesNotExist",
        "message": "The specified queue does not exist.",
    }


@covers("1.2.error-type-generic", "11.namespaces", only="json")
def test_a_generic_error_has_the_namespace_of_the_framework(sqs: Client) -> None:
    refusal = sqs.refused("CreateQueue", QueueName="bad name")
    assert refusal.type == "com.amazon.coral.service#InvalidParameterValueException"
    assert refusal.reply.headers["x-amzn-query-error"] == "InvalidParameterValue;Sender"


@covers("1.2.not-an-object", "1.6.serialization", only="json")
@pytest.mark.parametrize(
    "body",
    [b"", b"nonsense", b'{"QueueName":', b"[]", b'"text"', b"1", b"null", b"{}{}", b"\xff{}"],
)
def test_a_body_that_is_no_object_cannot_be_read(sqs: Client, body: bytes) -> None:
    json_refusal(post(sqs, body, **target("CreateQueue"))).assert_is(kinds.MALFORMED)


MAP_TEXT = "Start of structure or map found where not expected."
LIST_TEXT = "Start of list found where not expected"


@covers("1.2.wrong-type", only="json")
@pytest.mark.parametrize(
    ("action", "members", "text"),
    [
        (
            "ReceiveMessage",
            {"MaxNumberOfMessages": "many"},
            "STRING_VALUE can not be converted to an Integer",
        ),
        ("ReceiveMessage", {"MaxNumberOfMessages": {}}, MAP_TEXT),
        ("ReceiveMessage", {"MaxNumberOfMessages": 1.5}, None),
        ("ReceiveMessage", {"WaitTimeSeconds": [1]}, LIST_TEXT),
        ("ReceiveMessage", {"AttributeNames": "All"}, None),
        ("SendMessage", {"MessageBody": {"a": 1}}, MAP_TEXT),
        ("SendMessage", {"MessageBody": ["a"]}, LIST_TEXT),
        ("SendMessage", {"MessageBody": 1}, None),
        ("SendMessage", {"MessageBody": "a", "MessageAttributes": []}, LIST_TEXT),
        ("SendMessageBatch", {"Entries": {"Id": "a"}}, MAP_TEXT),
        ("SendMessageBatch", {"Entries": ["a"]}, None),
        ("TagQueue", {"Tags": ["a"]}, LIST_TEXT),
        ("UntagQueue", {"TagKeys": {"a": "b"}}, MAP_TEXT),
    ],
)
def test_a_member_of_the_wrong_type_cannot_be_read(
    sqs: Client, queue: str, action: str, members: dict[str, Any], text: str | None
) -> None:
    sqs.refused(action, QueueUrl=queue, **members).assert_is(kinds.MALFORMED, text)


@covers("1.2.unknown-member", only="json")
def test_unknown_members_are_ignored(sqs: Client, queue: str) -> None:
    sqs.call("SendMessage", QueueUrl=queue, MessageBody="x", Frobnicate={"a": [1]})


@covers("1.3.tags-spelling", only="json")
def test_either_spelling_of_tags_is_accepted(sqs: Client) -> None:
    for spelling in ("tags", "Tags"):
        name = new_name()
        created = sqs.call("CreateQueue", QueueName=name, **{spelling: {"a": "1"}})
        url = created["QueueUrl"]
        sqs.call("TagQueue", QueueUrl=url, **{spelling: {"b": "2"}})
        tags = sqs.call("ListQueueTags", QueueUrl=url)["Tags"]
        assert tags == {"a": "1", "b": "2"}, spelling


@covers("1.3.url-lists", only="json")
def test_the_two_lists_of_urls_are_spelled_differently(sqs: Client, queue: str) -> None:
    source = new_queue(sqs, RedrivePolicy=redrive_policy(queue))
    assert sqs.call("ListDeadLetterSourceQueues", QueueUrl=queue) == {"queueUrls": [source]}
    assert queue in sqs.call("ListQueues")["QueueUrls"]


@covers("0.2.wide-encodings")
def test_a_legal_message_may_be_encoded_wastefully(sqs: Client, queue: str) -> None:
    # JSON escapes each of these letters as six bytes, a form as three or six.
    body = "\u00e9" * 524_288
    assert len(send(sqs, queue, body)["MessageId"]) == 36
    assert receive_one(sqs, queue)["Body"] == body
    send(sqs, queue, "%" * 1_048_576)


@covers("1.4.missing-queue-text")
def test_the_text_of_a_missing_queue_depends_on_the_protocol(sqs: Client) -> None:
    end = "." if sqs.is_json else " for this wsdl version."
    refusal = sqs.refused("PurgeQueue", QueueUrl=ABSENT_QUEUE)
    refusal.assert_is(kinds.NO_QUEUE, "The specified queue does not exist" + end)
