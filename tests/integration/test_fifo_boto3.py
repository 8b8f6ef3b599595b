"""FIFO queues of a real node through boto3: order, deduplication and locks, across restarts too."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.nodes import Node, boto3_client

Message = dict[str, Any]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("fifo") / "data", "--fsync", "never") as running:
        yield running
        assert running.stop() == 0, running.stderr_tail()


@pytest.fixture(scope="module")
def sqs(node: Node) -> Iterator[Any]:
    client = boto3_client(node.sqs_url)
    yield client
    client.close()


def create(sqs: Any, name: str, **attributes: str) -> str:
    named = {"FifoQueue": "true"} | attributes
    url: str = sqs.create_queue(QueueName=f"{name}.fifo", Attributes=named)["QueueUrl"]
    return url


def entries(*texts: str) -> list[dict[str, str]]:
    """`g:a` is the body a for the group g, with its own text as deduplication id."""
    return [
        {
            "Id": f"entry-{number}",
            "MessageBody": text.partition(":")[2],
            "MessageGroupId": text.partition(":")[0],
            "MessageDeduplicationId": text,
        }
        for number, text in enumerate(texts)
    ]


def send(sqs: Any, queue: str, *texts: str) -> list[Message]:
    answer = sqs.send_message_batch(QueueUrl=queue, Entries=entries(*texts))
    assert "Failed" not in answer
    sent: list[Message] = answer["Successful"]
    return sent


def receive(sqs: Any, queue: str, **members: Any) -> list[Message]:
    asked = {"MaxNumberOfMessages": 10, "MessageSystemAttributeNames": ["All"]} | members
    messages: list[Message] = sqs.receive_message(QueueUrl=queue, **asked).get("Messages", [])
    return messages


def delete(sqs: Any, queue: str, messages: list[Message]) -> None:
    handles = [
        {"Id": str(number), "ReceiptHandle": message["ReceiptHandle"]}
        for number, message in enumerate(messages)
    ]
    assert "Failed" not in sqs.delete_message_batch(QueueUrl=queue, Entries=handles)


def bodies(messages: list[Message]) -> list[str]:
    return [message["Body"] for message in messages]


def test_the_life_of_messages_in_two_groups(sqs: Any) -> None:
    queue = create(sqs, "life")
    sent = send(sqs, queue, "g1:a", "g2:x", "g1:b", "g1:c")
    numbers = [one["SequenceNumber"] for one in sent]
    assert numbers == sorted(numbers)
    first = receive(sqs, queue, MaxNumberOfMessages=2)
    assert bodies(first) == ["a", "b"]
    assert [one["Attributes"]["SequenceNumber"] for one in first] == [numbers[0], numbers[2]]
    second = receive(sqs, queue)
    assert bodies(second) == ["x"], "the first group is locked"
    delete(sqs, queue, first)
    third = receive(sqs, queue)
    assert bodies(third) == ["c"]
    delete(sqs, queue, [*second, *third])
    assert receive(sqs, queue) == []


def test_duplicates_are_dropped_and_named(sqs: Any) -> None:
    queue = create(sqs, "duplicates", ContentBasedDeduplication="true")
    members = {"QueueUrl": queue, "MessageBody": "same", "MessageGroupId": "g"}
    first, again = (sqs.send_message(**members) for _ in range(2))
    assert (again["MessageId"], again["SequenceNumber"]) == (
        first["MessageId"],
        first["SequenceNumber"],
    )
    batch = send(sqs, queue, "g:a", "g:b")
    repeated = send(sqs, queue, "g:b", "g:c")
    assert repeated[0]["MessageId"] == batch[1]["MessageId"]
    assert bodies(receive(sqs, queue)) == ["same", "a", "b", "c"]


def test_a_missing_group_and_an_expired_handle_are_refused(sqs: Any) -> None:
    queue = create(sqs, "refusals")
    with pytest.raises(ClientError, match="MessageGroupId") as missing:
        sqs.send_message(QueueUrl=queue, MessageBody="a", MessageDeduplicationId="a")
    assert missing.value.response["Error"]["Code"] == "MissingParameter"
    send(sqs, queue, "g:a")
    (message,) = receive(sqs, queue, VisibilityTimeout=0)
    with pytest.raises(ClientError, match="receipt handle has expired") as expired:
        sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    assert expired.value.response["Error"]["Code"] == "InvalidParameterValue"


def test_a_repeated_attempt_gives_the_same_handles(sqs: Any) -> None:
    queue = create(sqs, "attempts")
    send(sqs, queue, "g:a", "g:b")
    first, again = (receive(sqs, queue, ReceiveRequestAttemptId="attempt") for _ in range(2))
    handles = [[message["ReceiptHandle"] for message in messages] for messages in (first, again)]
    assert handles[0] == handles[1] != []
    delete(sqs, queue, again)
    assert receive(sqs, queue, ReceiveRequestAttemptId="attempt") == []


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_order_locks_and_deduplication_outlive_the_node(tmp_path: Path, end: str) -> None:
    node = Node(tmp_path / "data")
    with node:
        sqs = boto3_client(node.sqs_url)
        queue = create(sqs, "restart")
        sent = send(sqs, queue, "g1:a", "g1:b", "g2:x", "g1:c", "g2:y")
        held = receive(sqs, queue, MaxNumberOfMessages=1, VisibilityTimeout=600)
        assert bodies(held) == ["a"]
        sqs.close()
        node.stop() if end == "stop" else node.kill()
        node.start()
        sqs = boto3_client(node.sqs_url)
        queue = sqs.get_queue_url(QueueName="restart.fifo")["QueueUrl"]
        (duplicate, later) = send(sqs, queue, "g1:b", "g1:d")
        assert duplicate["MessageId"] == sent[1]["MessageId"]
        assert later["SequenceNumber"] > sent[-1]["SequenceNumber"]
        assert bodies(receive(sqs, queue)) == ["x", "y"], "the first group is still locked"
        delete(sqs, queue, held)
        assert bodies(receive(sqs, queue)) == ["b", "c", "d"]
        sqs.close()
