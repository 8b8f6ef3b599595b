"""What makes two requests attempts of one call, in both protocols, without an SDK.

The id of the invocation alone is not enough: it has to be the same call of the same key.
"""

import http.client
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from tests.nodes import ANSWER_SECONDS, AUTHORIZATION, Node, await_long_polls, boto3_client

FIRST, SECOND = "11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002"
AT_ONCE = 8
WAIT_SECONDS = 20


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("repeated") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def sqs(node: Node) -> Iterator[Any]:
    client = boto3_client(node.sqs_url)
    yield client
    client.close()


@pytest.fixture
def queue(sqs: Any, request: pytest.FixtureRequest) -> str:
    name = re.sub(r"\W+", "-", request.node.name)[-70:]
    url: str = sqs.create_queue(QueueName=name)["QueueUrl"]
    return url


def exchange(node: Node, headers: dict[str, str], body: str) -> bytes:
    connection = http.client.HTTPConnection(urlsplit(node.sqs_url).netloc, timeout=ANSWER_SECONDS)
    try:
        connection.request("POST", "/", body, {"Authorization": AUTHORIZATION} | headers)
        response = connection.getresponse()
        answer = response.read()
    finally:
        connection.close()
    assert response.status == 200, answer
    return answer


def call_json(node: Node, action: str, members: dict[str, Any], **headers: str) -> bytes:
    protocol = {
        "Content-Type": "application/x-amz-json-1.0",
        "X-Amz-Target": f"AmazonSQS.{action}",
    }
    return exchange(node, protocol | spelled(headers), json.dumps(members))


def call_query(node: Node, action: str, members: dict[str, Any], **headers: str) -> bytes:
    protocol = {"Content-Type": "application/x-www-form-urlencoded"}
    return exchange(node, protocol | spelled(headers), urlencode({"Action": action} | members))


def spelled(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items() if value}


def attempt(number: int, invocation: str = FIRST) -> dict[str, str]:
    """The headers of an SDK, as keywords."""
    return {
        "amz_sdk_invocation_id": invocation,
        "amz_sdk_request": f"attempt={number}; max=3",
    }


Caller = Callable[..., bytes]
MESSAGE_ID = re.compile(rb"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")


def send(call: Caller, node: Node, queue: str, body: str = "once", **headers: str) -> bytes:
    """The message's id; the answer begins with it but for the digest, which has no hyphens."""
    answer = call(node, "SendMessage", {"QueueUrl": queue, "MessageBody": body}, **headers)
    found = MESSAGE_ID.search(answer)
    assert found is not None, answer
    return found[0]


def waiting(sqs: Any, queue: str) -> int:
    name = "ApproximateNumberOfMessages"
    answer = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=[name])
    return int(answer["Attributes"][name])


@pytest.mark.parametrize("call", [call_json, call_query])
def test_attempts_of_one_call_are_answered_alike(
    node: Node, sqs: Any, queue: str, call: Caller
) -> None:
    ids = [send(call, node, queue, **attempt(number)) for number in range(1, 4)]
    assert len(set(ids)) == 1
    assert waiting(sqs, queue) == 1


@pytest.mark.parametrize("call", [call_json, call_query])
@pytest.mark.parametrize(
    "other",
    [
        {"amz_sdk_invocation_id": SECOND},
        {"body": "another body"},
        {"Authorization": AUTHORIZATION.replace("=test/", "=other/")},
        {"amz_sdk_invocation_id": ""},
    ],
    ids=["another-id", "another-body", "another-key", "no-id"],
)
def test_whatever_differs_makes_it_another_call(
    node: Node, sqs: Any, queue: str, call: Caller, other: dict[str, str]
) -> None:
    first = send(call, node, queue, **attempt(1))
    second = send(call, node, queue, **(attempt(2) | other))
    assert first != second
    assert waiting(sqs, queue) == 2


@pytest.mark.parametrize("call", [call_json, call_query])
def test_calls_without_an_id_are_never_taken_for_each_other(
    node: Node, sqs: Any, queue: str, call: Caller
) -> None:
    assert send(call, node, queue) != send(call, node, queue)
    assert waiting(sqs, queue) == 2


def test_attempts_under_way_at_once_become_one_message(node: Node, sqs: Any, queue: str) -> None:
    together = threading.Barrier(AT_ONCE)

    def send_together(number: int) -> bytes:
        together.wait(ANSWER_SECONDS)
        return send(call_json, node, queue, **attempt(number))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        ids = set(pool.map(send_together, range(1, AT_ONCE + 1)))
    assert len(ids) == 1
    assert waiting(sqs, queue) == 1


def test_a_poll_that_its_client_repeated_takes_no_message_from_the_newer_one(
    node: Node, queue: str
) -> None:
    """The client gave the first one up, and the node cannot know: its connection is open."""
    members = {"QueueUrl": queue, "WaitTimeSeconds": WAIT_SECONDS}
    ended: list[float] = []

    def poll(number: int) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(
            call_json(node, "ReceiveMessage", members, **attempt(number))
        )
        ended.append(time.monotonic())
        return answer

    with ThreadPoolExecutor(2) as pool:
        older = pool.submit(poll, 1)
        await_long_polls(node, 1)
        newer = pool.submit(poll, 2)
        assert older.result(ANSWER_SECONDS) == {}, "it ends when the newer one takes its place"
        await_long_polls(node, 1)
        began = time.monotonic()
        message_id = send(call_json, node, queue)
        (message,) = newer.result(ANSWER_SECONDS)["Messages"]
        assert message["MessageId"] == message_id.decode()
        assert ended[-1] - began < 0.75 * WAIT_SECONDS
