"""The contract, sections 1.4 and 1.5: answers of the Query protocol, and its queue paths."""

import json

import pytest

from tests.conformance import kinds
from tests.conformance.client import VOID, Client, parse_xml
from tests.conformance.contract import covers
from tests.conformance.kit import (
    ABSENT_QUEUE,
    arn_of,
    bodies,
    name_of,
    new_queue,
    receive,
    redrive_policy,
    send,
)
from tests.conformance.query_wire import NAMESPACE
from tests.conformance.raw_query import XML_NAMESPACE, answer, form, get, path_of, refusal_of

# --- answers ------------------------------------------------------------------------------------


@covers("1.4.envelope", "1.4.result", "12.xml-namespace", only="query")
def test_an_answer_is_an_envelope_around_a_result(sqs: Client, queue: str) -> None:
    reply = get(sqs, Action="GetQueueUrl", QueueName=name_of(queue))
    assert reply.headers["content-type"] == "text/xml"
    assert reply.body.decode() == (
        f'<?xml version="1.0"?><GetQueueUrlResponse xmlns="{XML_NAMESPACE}"><GetQueueUrlResult>'
        f"<QueueUrl>{queue}</QueueUrl></GetQueueUrlResult><ResponseMetadata><RequestId>"
        f"{reply.headers['x-amzn-requestid']}</RequestId></ResponseMetadata></GetQueueUrlResponse>"
    )


@covers("1.4.error-envelope", "1.4.detail", "1.4.error-type", only="query")
def test_an_error_is_an_envelope_of_its_own(sqs: Client) -> None:
    reply = get(sqs, Action="PurgeQueue", QueueUrl=ABSENT_QUEUE)
    assert reply.status == 400
    assert reply.headers["content-type"] == "text/xml"
    assert reply.body.decode() == (
        f'<?xml version="1.0"?><ErrorResponse xmlns="{XML_NAMESPACE}"><Error><Type>Sender</Type>'
        "<Code>AWS.SimpleQueueService.NonExistentQueue</Code>"
        "<Message>The specified queue does not exist for this wsdl version.</Message><Detail/>"
        f"</Error><RequestId>{reply.headers['x-amzn-requestid']}</RequestId></ErrorResponse>"
    )


@covers("1.4.void", only="query")
def test_an_action_without_output_has_no_result(sqs: Client, queue: str) -> None:
    assert "PurgeQueue" in VOID
    reply = get(sqs, Action="PurgeQueue", QueueUrl=queue)
    assert [child.tag for child in parse_xml(reply)] == [NAMESPACE + "ResponseMetadata"]


@covers("1.4.empty", only="query")
def test_an_empty_output_is_a_closed_element(sqs: Client, queue: str) -> None:
    for action in ("ReceiveMessage", "GetQueueAttributes", "ListQueueTags"):
        reply = get(sqs, Action=action, QueueUrl=queue)
        assert f"<{action}Result/>".encode() in reply.body


@covers("1.4.escaping", only="query")
def test_text_is_escaped_with_quotes_and_carriage_returns(sqs: Client, queue: str) -> None:
    body = '<a b="c">&\'\r\n\t'
    send(sqs, queue, body)
    reply = get(sqs, Action="ReceiveMessage", QueueUrl=queue)
    assert b"<Body>&lt;a b=&quot;c&quot;&gt;&amp;" in reply.body
    assert b"&#xD;\n\t</Body>" in reply.body
    (message,) = answer(sqs, reply)["Messages"]
    assert message["Body"] == body


@covers("1.4.out-move-tasks", only="query")
def test_move_tasks_are_repeated_elements(sqs: Client, queue: str) -> None:
    new_queue(sqs, RedrivePolicy=redrive_policy(queue))
    sqs.call("StartMessageMoveTask", SourceArn=arn_of(queue))
    reply = get(sqs, Action="ListMessageMoveTasks", SourceArn=arn_of(queue))
    assert reply.body.count(b"<ListMessageMoveTasksResultEntry>") == 1


@covers("1.4.accept-json", "11.accept-json", only="query")
def test_an_answer_is_nested_json_for_those_who_accept_it(sqs: Client, queue: str) -> None:
    prefix = name_of(queue)
    reply = get(sqs, accept="application/json", Action="ListQueues", QueueNamePrefix=prefix)
    assert reply.headers["content-type"] == "application/json"
    result = json.loads(reply.body)["ListQueuesResponse"]["ListQueuesResult"]
    assert queue in (result.get("queueUrls") or result.get("QueueUrls") or [])


@covers("1.4.accept-json-messages", "11.accept-json", only="query")
def test_messages_are_lower_case_in_such_an_answer(sqs: Client, queue: str) -> None:
    send(sqs, queue, "hello")
    reply = get(sqs, accept="application/json", Action="ReceiveMessage", QueueUrl=queue)
    result = json.loads(reply.body)["ReceiveMessageResponse"]["ReceiveMessageResult"]
    assert bodies(result["messages"]) == ["hello"]


@covers("1.4.accept-json-attributes", "11.accept-json", only="query")
def test_attributes_are_a_list_in_such_an_answer(sqs: Client, queue: str) -> None:
    fields = {"Action": "GetQueueAttributes", "QueueUrl": queue, "AttributeName.1": "DelaySeconds"}
    reply = get(sqs, accept="application/json", **fields)
    result = json.loads(reply.body)["GetQueueAttributesResponse"]["GetQueueAttributesResult"]
    assert result == {"Attributes": [{"Name": "DelaySeconds", "Value": "0"}]}


@covers("1.4.accept-json-error", "11.accept-json", only="query")
def test_errors_are_objects_in_such_an_answer(sqs: Client) -> None:
    reply = get(sqs, accept="application/json", Action="PurgeQueue", QueueUrl=ABSENT_QUEUE)
    assert reply.status == 400
    error = json.loads(reply.body)["Error"]
    assert error["Code"] == "AWS.SimpleQueueService.NonExistentQueue"
    assert error["Message"] == "The specified queue does not exist for this wsdl version."


# --- queue paths --------------------------------------------------------------------------------


@covers("1.5.path-names-queue", only="query")
@pytest.mark.parametrize("style", ["plain", "region"])
def test_a_queue_path_names_the_queue(sqs: Client, queue: str, style: str) -> None:
    path = path_of(sqs, queue)
    path = path if style == "plain" else f"/queue/us-east-1{path}"
    assert "MessageId" in answer(sqs, form(sqs, path, Action="SendMessage", MessageBody="x"))
    assert len(receive(sqs, queue)) == 1


@covers("1.5.parameter-wins", only="query")
def test_the_parameter_wins_over_the_path(sqs: Client, queue: str) -> None:
    other = new_queue(sqs)
    fields = {"Action": "SendMessage", "QueueUrl": other, "MessageBody": "x"}
    answer(sqs, form(sqs, path_of(sqs, queue), **fields))
    assert (len(receive(sqs, queue)), len(receive(sqs, other))) == (0, 1)


@covers("1.5.path-create-list", only="query")
@pytest.mark.parametrize("action", ["CreateQueue", "ListQueues"])
def test_some_actions_are_not_for_queue_paths(sqs: Client, queue: str, action: str) -> None:
    text = f"The action {action} is not valid for this endpoint."
    reply = get(sqs, path_of(sqs, queue), Action=action, QueueName="some-name")
    refusal_of(reply).assert_is(kinds.UNKNOWN_ACTION, text)


@covers("1.5.path-get-queue-url", only="query")
def test_a_queue_path_may_be_asked_for_another_queue(sqs: Client, queue: str) -> None:
    other = new_queue(sqs)
    reply = get(sqs, path_of(sqs, queue), Action="GetQueueUrl", QueueName=name_of(other))
    assert answer(sqs, reply) == {"QueueUrl": other}


@covers("1.5.path-delete-by-get", only="query")
def test_a_queue_may_be_deleted_by_get(sqs: Client, queue: str) -> None:
    answer(sqs, get(sqs, path_of(sqs, queue), Action="DeleteQueue"))
    sqs.refused("PurgeQueue", QueueUrl=queue).assert_is(kinds.NO_QUEUE)


@covers("1.5.path-missing-member", "1.6.missing-required-parameter", only="query")
@pytest.mark.parametrize(
    ("action", "member"), [("SendMessage", "MessageBody"), ("DeleteMessage", "ReceiptHandle")]
)
def test_a_missing_member_is_named(sqs: Client, queue: str, action: str, member: str) -> None:
    text = f"The request must contain the parameter {member}."
    reply = get(sqs, path_of(sqs, queue), Action=action)
    refusal_of(reply).assert_is(kinds.MISSING_PARAMETER, text)
