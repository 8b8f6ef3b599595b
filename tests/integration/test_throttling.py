"""A queue with a rate limit on a real node: the answer on the wire in both protocols, an SDK that
waits and succeeds, and the short way of sends, which must not go past the limit.
"""

import http.client
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import pytest
from botocore.exceptions import ClientError

from tests.nodes import AUTHORIZATION, Node, boto3_client

# So slow that a test sees nothing of it.
SLOW = {"ThrottleSendCapacity": "10", "ThrottleSendRefillPerSecond": "0.01"}
SLOW_WAIT_SECONDS = 100


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("throttled") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def sqs(node: Node) -> Iterator[Any]:
    client = boto3_client(node.sqs_url)
    yield client
    client.close()


def exchange(node: Node, headers: dict[str, str], body: str) -> Answer:
    connection = http.client.HTTPConnection(urlsplit(node.sqs_url).netloc, timeout=40)
    try:
        connection.request("POST", "/", body, headers | {"Authorization": AUTHORIZATION})
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())
    finally:
        connection.close()


def send_json(node: Node, url: str) -> Answer:
    headers = {
        "Content-Type": "application/x-amz-json-1.0",
        "X-Amz-Target": "AmazonSQS.SendMessage",
    }
    return exchange(node, headers, json.dumps({"QueueUrl": url, "MessageBody": "m"}))


def send_query(node: Node, url: str) -> Answer:
    members = {"Action": "SendMessage", "QueueUrl": url, "MessageBody": "m"}
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    return exchange(node, headers, urlencode(members))


@pytest.mark.parametrize(
    ("send", "said"),
    [
        (send_json, b'"__type":"com.amazonaws.sqs#RequestThrottled"'),
        (send_query, b"<Code>RequestThrottled</Code>"),
    ],
)
def test_refusal_is_403_and_says_when_to_come_back(
    node: Node, sqs: Any, send: Callable[[Node, str], Answer], said: bytes
) -> None:
    url = sqs.create_queue(QueueName=send.__name__, Attributes=SLOW)["QueueUrl"]
    answers = [send(node, url) for _ in range(12)]
    assert [answer.status for answer in answers] == [200] * 10 + [403] * 2
    for answer in answers[10:]:
        assert said in answer.body
        wait_seconds = int(answer.headers["Retry-After"])
        assert SLOW_WAIT_SECONDS // 2 < wait_seconds <= SLOW_WAIT_SECONDS
    assert "Retry-After" not in answers[0].headers


def test_limit_counts_messages_of_batches_and_spares_the_other_side(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="batches", Attributes=SLOW)["QueueUrl"]
    entries = [{"Id": str(number), "MessageBody": "m"} for number in range(6)]
    sqs.send_message_batch(QueueUrl=url, Entries=entries)
    with pytest.raises(ClientError) as refusal:
        sqs.send_message_batch(QueueUrl=url, Entries=entries)
    assert refusal.value.response["Error"]["Code"] == "RequestThrottled"
    sqs.send_message_batch(QueueUrl=url, Entries=entries[:4])
    received = [sqs.receive_message(QueueUrl=url)["Messages"][0] for _ in range(10)]
    assert len({message["MessageId"] for message in received}) == 10


def test_attributes_are_shown_as_set_and_never_on_a_plain_queue(sqs: Any) -> None:
    limited = sqs.create_queue(QueueName="limited", Attributes=SLOW)["QueueUrl"]
    plain = sqs.create_queue(QueueName="plain")["QueueUrl"]

    def shown(url: str, *names: str) -> dict[str, str]:
        answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(names))
        return {k: v for k, v in answer["Attributes"].items() if k.startswith("Throttle")}

    assert shown(limited, "All") == SLOW
    assert shown(plain, "All") == {}
    assert shown(plain, "ThrottleRecvCapacity") == {"ThrottleRecvCapacity": "0"}


def test_sdk_that_repeats_gets_through(node: Node, sqs: Any) -> None:
    limits = {"ThrottleSendCapacity": "10", "ThrottleSendRefillPerSecond": "5"}
    url = sqs.create_queue(QueueName="patient", Attributes=limits)["QueueUrl"]
    patient = boto3_client(node.sqs_url, attempts=10)
    for _ in range(13):
        patient.send_message(QueueUrl=url, MessageBody="m")
    patient.close()
