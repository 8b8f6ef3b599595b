"""A real node through boto3, as an application uses it."""

import threading
import time
from collections.abc import Iterator
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.nodes import ANSWER_SECONDS, Node, await_long_polls, boto3_client

Message = dict[str, Any]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("node") / "data") as running:
        yield running
        assert running.stop() == 0, running.stderr_tail()


@pytest.fixture(scope="module")
def sqs(node: Node) -> Iterator[Any]:
    client = boto3_client(node.sqs_url)
    yield client
    client.close()


@pytest.fixture
def queue(sqs: Any, request: pytest.FixtureRequest) -> str:
    url: str = sqs.create_queue(QueueName=request.node.name[:80])["QueueUrl"]
    return url


def receive(sqs: Any, queue: str, **members: Any) -> list[Message]:
    answer = sqs.receive_message(QueueUrl=queue, **{"MaxNumberOfMessages": 10} | members)
    messages: list[Message] = answer.get("Messages", [])
    return messages


def bodies(messages: list[Message]) -> list[str]:
    return [message["Body"] for message in messages]


def counts(sqs: Any, queue: str) -> tuple[int, int, int]:
    """Visible, in flight, delayed."""
    names = ["", "NotVisible", "Delayed"]
    attributes = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    visible, hidden, delayed = (
        int(attributes[f"ApproximateNumberOfMessages{name}"]) for name in names
    )
    return visible, hidden, delayed


# --- queues -------------------------------------------------------------------------------------


def test_created_queue_is_found_by_name_and_in_lists(sqs: Any, node: Node) -> None:
    created = sqs.create_queue(QueueName="found-a")["QueueUrl"]
    sqs.create_queue(QueueName="found-b")
    assert created == f"{node.sqs_url}/000000000000/found-a"
    assert sqs.get_queue_url(QueueName="found-a")["QueueUrl"] == created
    listed = sqs.list_queues(QueueNamePrefix="found-")["QueueUrls"]
    assert [url.rsplit("/", 1)[1] for url in listed] == ["found-a", "found-b"]
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix="absent-")


def test_lists_come_in_pages(sqs: Any) -> None:
    for number in range(5):
        sqs.create_queue(QueueName=f"page-{number}")
    pages = sqs.get_paginator("list_queues").paginate(
        QueueNamePrefix="page-", PaginationConfig={"PageSize": 2}
    )
    found = [page["QueueUrls"] for page in pages]
    assert [len(page) for page in found] == [2, 2, 1]
    assert len({url for page in found for url in page}) == 5


def test_attributes_are_stored_and_shown(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="attributes", Attributes={"VisibilityTimeout": "7"})[
        "QueueUrl"
    ]
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "3"})
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert shown["VisibilityTimeout"] == "7"
    assert shown["DelaySeconds"] == "3"
    assert shown["QueueArn"] == "arn:aws:sqs:us-east-1:000000000000:attributes"
    assert int(shown["CreatedTimestamp"]) <= int(shown["LastModifiedTimestamp"])
    one = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["DelaySeconds"])["Attributes"]
    assert one == {"DelaySeconds": "3"}


def test_repeated_create_is_accepted_unless_an_attribute_differs(sqs: Any) -> None:
    attributes = {"VisibilityTimeout": "11"}
    first = sqs.create_queue(QueueName="twice", Attributes=attributes)["QueueUrl"]
    assert sqs.create_queue(QueueName="twice")["QueueUrl"] == first
    assert sqs.create_queue(QueueName="twice", Attributes=attributes)["QueueUrl"] == first
    with pytest.raises(sqs.exceptions.QueueNameExists):
        sqs.create_queue(QueueName="twice", Attributes={"VisibilityTimeout": "12"})


def test_deleted_queue_is_gone_and_a_new_one_of_its_name_is_empty(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="left behind")
    name = queue.rsplit("/", 1)[1]
    sqs.delete_queue(QueueUrl=queue)
    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        sqs.get_queue_url(QueueName=name)
    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        sqs.delete_queue(QueueUrl=queue)
    sqs.create_queue(QueueName=name)
    assert receive(sqs, queue) == []


def test_purge_removes_waiting_delayed_and_in_flight_messages(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="in flight")
    assert bodies(receive(sqs, queue)) == ["in flight"]
    sqs.send_message(QueueUrl=queue, MessageBody="waiting")
    sqs.send_message(QueueUrl=queue, MessageBody="delayed", DelaySeconds=900)
    assert counts(sqs, queue) == (1, 1, 1)
    sqs.purge_queue(QueueUrl=queue)
    assert counts(sqs, queue) == (0, 0, 0)
    sqs.send_message(QueueUrl=queue, MessageBody="after")
    assert bodies(receive(sqs, queue)) == ["after"]


# --- messages -----------------------------------------------------------------------------------


def test_message_comes_back_with_digest_attributes_and_times(sqs: Any, queue: str) -> None:
    attributes = {
        "text": {"DataType": "String", "StringValue": "grüße"},
        "count": {"DataType": "Number", "StringValue": "7"},
        "bytes": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
    }
    sent = sqs.send_message(QueueUrl=queue, MessageBody="hello 🐇", MessageAttributes=attributes)
    (message,) = receive(
        sqs, queue, MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"]
    )
    digest = md5("hello 🐇".encode(), usedforsecurity=False).hexdigest()
    assert message["MessageId"] == sent["MessageId"]
    assert message["Body"] == "hello 🐇"
    assert message["MD5OfBody"] == sent["MD5OfMessageBody"] == digest
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert message["MessageAttributes"] == attributes
    system = message["Attributes"]
    assert system["ApproximateReceiveCount"] == "1"
    assert int(system["SentTimestamp"]) <= int(system["ApproximateFirstReceiveTimestamp"])


def test_batch_keeps_ids_and_order_and_reports_a_bad_entry_alone(sqs: Any, queue: str) -> None:
    entries = [{"Id": f"e{number}", "MessageBody": f"body {number}"} for number in range(4)]
    entries[2]["MessageBody"] = "forbidden \x01"
    answer = sqs.send_message_batch(QueueUrl=queue, Entries=entries)
    assert [entry["Id"] for entry in answer["Successful"]] == ["e0", "e1", "e3"]
    assert [(entry["Id"], entry["Code"]) for entry in answer["Failed"]] == [
        ("e2", "InvalidMessageContents")
    ]
    received = receive(sqs, queue)
    assert bodies(received) == ["body 0", "body 1", "body 3"]
    assert [message["MessageId"] for message in received] == [
        entry["MessageId"] for entry in answer["Successful"]
    ]


def test_largest_message_goes_through(sqs: Any, queue: str) -> None:
    body = "x" * 1_048_576
    sqs.send_message(QueueUrl=queue, MessageBody=body)
    assert bodies(receive(sqs, queue)) == [body]
    with pytest.raises(ClientError, match="Message must be shorter than"):
        sqs.send_message(QueueUrl=queue, MessageBody=body + "x")


def test_long_poll_is_woken_by_a_send(sqs: Any, queue: str, node: Node) -> None:
    received: list[tuple[float, list[str]]] = []

    def poll() -> None:
        client = boto3_client(node.sqs_url)
        found = bodies(receive(client, queue, WaitTimeSeconds=20))
        received.append((time.monotonic(), found))
        client.close()

    poller = threading.Thread(target=poll)
    poller.start()
    await_long_polls(node, 1)
    sent_at = time.monotonic()
    sqs.send_message(QueueUrl=queue, MessageBody="wake up")
    poller.join(ANSWER_SECONDS)
    assert not poller.is_alive()
    ((returned_at, found),) = received
    assert found == ["wake up"]
    assert returned_at - sent_at < 15, "sooner than it would have ended by itself"


def test_long_poll_on_an_empty_queue_ends_after_its_wait(sqs: Any, queue: str) -> None:
    started = time.monotonic()
    assert receive(sqs, queue, WaitTimeSeconds=1) == []
    assert 1.0 <= time.monotonic() - started < 15


def test_delayed_message_appears_when_its_delay_is_over(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="much later", DelaySeconds=900)
    sqs.send_message(QueueUrl=queue, MessageBody="now")
    assert bodies(receive(sqs, queue)) == ["now"]
    started = time.monotonic()
    sqs.send_message(QueueUrl=queue, MessageBody="later", DelaySeconds=1)
    assert bodies(receive(sqs, queue, WaitTimeSeconds=20)) == ["later"]
    assert 0.99 <= time.monotonic() - started < 15


def test_expired_message_comes_again_before_younger_ones(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="a")
    first = receive(sqs, queue, VisibilityTimeout=600)
    assert bodies(first) == ["a"]
    assert receive(sqs, queue) == []
    sqs.change_message_visibility(
        QueueUrl=queue, ReceiptHandle=first[0]["ReceiptHandle"], VisibilityTimeout=1
    )
    deadline = time.monotonic() + ANSWER_SECONDS
    while counts(sqs, queue) != (1, 0, 0):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    sqs.send_message(QueueUrl=queue, MessageBody="b")
    again = receive(sqs, queue, MessageSystemAttributeNames=["ApproximateReceiveCount"])
    assert bodies(again) == ["a", "b"]
    assert again[0]["MessageId"] == first[0]["MessageId"]
    assert again[0]["ReceiptHandle"] != first[0]["ReceiptHandle"]
    assert again[0]["Attributes"] == {"ApproximateReceiveCount": "2"}


def test_waiting_messages_are_delivered_in_send_order(sqs: Any, queue: str) -> None:
    for number in range(12):
        sqs.send_message(QueueUrl=queue, MessageBody=str(number))
    found = [*bodies(receive(sqs, queue)), *bodies(receive(sqs, queue))]
    assert found == [str(number) for number in range(12)]


def test_visibility_can_be_given_back_and_prolonged(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="a")
    (message,) = receive(sqs, queue, VisibilityTimeout=600)
    sqs.change_message_visibility(
        QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
    )
    (message,) = receive(sqs, queue, VisibilityTimeout=4)
    sqs.change_message_visibility(
        QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=600
    )
    assert receive(sqs, queue, WaitTimeSeconds=5) == []
    assert counts(sqs, queue) == (0, 1, 0)


def test_visibility_batch_reports_each_entry(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="a")
    (message,) = receive(sqs, queue)
    answer = sqs.change_message_visibility_batch(
        QueueUrl=queue,
        Entries=[
            {"Id": "good", "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 0},
            {"Id": "bad", "ReceiptHandle": "nonsense", "VisibilityTimeout": 0},
        ],
    )
    assert [entry["Id"] for entry in answer["Successful"]] == ["good"]
    assert [entry["Code"] for entry in answer["Failed"]] == ["ReceiptHandleIsInvalid"]
    assert bodies(receive(sqs, queue)) == ["a"]


def test_deleted_messages_do_not_come_back(sqs: Any, queue: str) -> None:
    for body in "abcd":
        sqs.send_message(QueueUrl=queue, MessageBody=body)
    messages = receive(sqs, queue, VisibilityTimeout=1)
    handles = [message["ReceiptHandle"] for message in messages]
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=handles[0])
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=handles[0])
    answer = sqs.delete_message_batch(
        QueueUrl=queue,
        Entries=[
            {"Id": "b", "ReceiptHandle": handles[1]},
            {"Id": "c", "ReceiptHandle": handles[2]},
            {"Id": "bad", "ReceiptHandle": "nonsense"},
        ],
    )
    assert [entry["Id"] for entry in answer["Successful"]] == ["b", "c"]
    assert [entry["Code"] for entry in answer["Failed"]] == ["ReceiptHandleIsInvalid"]
    assert bodies(receive(sqs, queue, WaitTimeSeconds=20)) == ["d"]
    assert counts(sqs, queue) == (0, 1, 0)


# --- errors -------------------------------------------------------------------------------------


def test_errors_arrive_as_the_classes_of_the_sdk(sqs: Any, queue: str) -> None:
    absent = f"{queue}-absent"
    errors = sqs.exceptions
    with pytest.raises(errors.QueueDoesNotExist):
        sqs.send_message(QueueUrl=absent, MessageBody="x")
    with pytest.raises(errors.ReceiptHandleIsInvalid) as caught:
        sqs.delete_message(QueueUrl=queue, ReceiptHandle="nonsense")
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404
    with pytest.raises(errors.InvalidAttributeName):
        sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["Nonsense"])
    with pytest.raises(errors.InvalidAttributeValue):
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={"VisibilityTimeout": "x"})
    with pytest.raises(errors.InvalidMessageContents):
        sqs.send_message(QueueUrl=queue, MessageBody="\x01")


def test_batch_errors_refuse_the_whole_request(sqs: Any, queue: str) -> None:
    errors = sqs.exceptions
    entry = {"Id": "a", "MessageBody": "x"}
    with pytest.raises(errors.EmptyBatchRequest):
        sqs.send_message_batch(QueueUrl=queue, Entries=[])
    with pytest.raises(errors.BatchEntryIdsNotDistinct):
        sqs.send_message_batch(QueueUrl=queue, Entries=[entry, entry])
    with pytest.raises(errors.TooManyEntriesInBatchRequest):
        many = [{"Id": f"e{number}", "MessageBody": "x"} for number in range(11)]
        sqs.send_message_batch(QueueUrl=queue, Entries=many)
    with pytest.raises(errors.InvalidBatchEntryId):
        sqs.send_message_batch(QueueUrl=queue, Entries=[{"Id": "!", "MessageBody": "x"}])
    assert receive(sqs, queue) == []


@pytest.mark.parametrize(
    "members",
    [{"MaxNumberOfMessages": 11}, {"WaitTimeSeconds": 21}, {"VisibilityTimeout": 43_201}],
)
def test_values_out_of_range_are_invalid_parameters(
    sqs: Any, node: Node, members: dict[str, int]
) -> None:
    queue = sqs.create_queue(QueueName="ranges")["QueueUrl"]
    with pytest.raises(ClientError) as caught:
        receive(sqs, queue, **members)
    assert caught.value.response["Error"]["Code"] == "InvalidParameterValue"
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400


# --- restart ------------------------------------------------------------------------------------


def test_queues_messages_and_handles_survive_a_graceful_restart(tmp_path: Path) -> None:
    node = Node(tmp_path / "data")
    with node:
        before = boto3_client(node.sqs_url)
        name = before.create_queue(QueueName="kept")["QueueUrl"].rsplit("/", 1)[1]
        for body in ("taken", "waiting"):
            before.send_message(QueueUrl=name, MessageBody=body)
        (taken,) = receive(before, name, MaxNumberOfMessages=1, VisibilityTimeout=600)
        before.close()
        assert node.stop() == 0, node.stderr_tail()
        node.start()
        after = boto3_client(node.sqs_url)
        queue = after.get_queue_url(QueueName=name)["QueueUrl"]
        assert counts(after, queue) == (1, 1, 0)
        assert bodies(receive(after, queue)) == ["waiting"]
        after.delete_message(QueueUrl=queue, ReceiptHandle=taken["ReceiptHandle"])
        assert counts(after, queue) == (0, 1, 0)
        after.close()
