"""A router that wants signatures, in front of real handlers: who gets in, and what the rest reads.

The texts and codes are those of the contract, section 10.2.
"""

import itertools
import json
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from fastnode.http.http1 import Request
from fastnode.http.identity import IdentitySettings
from fastnode.http.router import Router
from fastnode.http.sigv4 import Key, Verifier
from fastnode.queue.operations import OPERATIONS
from tests.unit.http import signed_requests
from tests.unit.http.http_fakes import Node
from tests.unit.http.signed_requests import ACCESS_KEY, ACCOUNT, HOST, KEYS, NOW
from tests.world import World

URL = f"http://{HOST}/{ACCOUNT}/q"


class Front:
    """A world behind a router that verifies. The queue `q` of `ACCOUNT` exists."""

    def __init__(self) -> None:
        self.world = World()
        self.verifier = Verifier(KEYS, lambda: NOW)
        numbers = itertools.count(1)
        self.router = Router(
            OPERATIONS,
            self.world.service,
            IdentitySettings("us-east-1", "http://127.0.0.1:9324", verifier=self.verifier),
            lambda: f"id-{next(numbers)}",
            logging.getLogger("fastnode.test"),
        )
        node = Node()
        node.server.respond = self.router.respond
        self._connection, self._transport = node.connect()
        assert self.call("CreateQueue", {"QueueName": "q"}) == (200, {"QueueUrl": URL})

    def raw(self, request: Request) -> bytes:
        lines = [request.method + b" " + request.target + b" HTTP/1.1"]
        lines += [name + b": " + value for name, value in request.headers.items()]
        lines += [b"Content-Length: %d" % len(request.body)]
        before = len(self._transport.written)
        self._connection.data_received(b"\r\n".join(lines) + b"\r\n\r\n" + request.body)
        self.world.commit()
        return self._transport.written[before:]

    def answer(self, request: Request) -> tuple[int, Any]:
        raw = self.raw(request)
        body = raw.partition(b"\r\n\r\n")[2]
        return int(raw.split()[1]), json.loads(body) if body else None

    def call(self, action: str, members: Mapping[str, object], **signing: Any) -> tuple[int, Any]:
        return self.answer(request_for(action, members, **signing))


def request_for(action: str, members: Mapping[str, object], **signing: Any) -> Request:
    headers = signed_requests.JSON | {"X-Amz-Target": f"AmazonSQS.{action}"}
    return signed_requests.signed(headers=headers, body=json.dumps(members).encode(), **signing)


def unsigned(action: str, members: Mapping[str, object]) -> Request:
    request = request_for(action, members)
    del request.headers[b"authorization"]
    return request


@pytest.fixture
def front() -> Front:
    return Front()


def test_a_plain_send_takes_the_short_way_with_its_own_signature(front: Front) -> None:
    taken: list[bool] = []
    lane: Any = front.router._lanes[b"AmazonSQS.SendMessage"]
    sent = lane._sent

    def watched(*arguments: Any) -> bool:
        taken.append(sent(*arguments))
        return taken[-1]

    lane._sent = watched
    bodies = ["one", "two", "three"]
    for body in bodies:
        status, answer = front.call("SendMessage", {"QueueUrl": URL, "MessageBody": body})
        assert (status, len(answer["MessageId"])) == (200, 36)
    assert taken == [False, True, True]
    forged = request_for("SendMessage", {"QueueUrl": URL, "MessageBody": "four"}, secret="wrong")
    assert front.answer(forged)[0] == 403
    assert len(taken) == len(bodies)
    status, answer = front.call("ReceiveMessage", {"QueueUrl": URL, "MaxNumberOfMessages": 10})
    assert [message["Body"] for message in answer["Messages"]] == bodies


def test_a_known_client_cannot_skip_its_signature(front: Front) -> None:
    """The short way recognises nobody by anything but a signature of this very request."""
    good = request_for("SendMessage", {"QueueUrl": URL, "MessageBody": "one"})
    for _ in range(3):
        assert front.answer(good)[0] == 200
    good.body = good.body.replace(b"one", b"two")
    status, answer = front.answer(good)
    assert (status, answer["__type"]) == (
        403,
        "com.amazon.coral.service#InvalidSignatureException",
    )


def test_a_removed_key_stops_on_the_short_way_too(front: Front) -> None:
    for _ in range(3):
        assert front.call("SendMessage", {"QueueUrl": URL, "MessageBody": "m"})[0] == 200
    front.verifier.replace_keys({"OTHER": Key("secret", ACCOUNT)})
    status, answer = front.call("SendMessage", {"QueueUrl": URL, "MessageBody": "m"})
    assert (status, answer) == (
        403,
        {
            "__type": "com.amazon.coral.service#UnrecognizedClientException",
            "message": "The security token included in the request is invalid.",
        },
    )


def test_errors_are_shaped_by_the_protocol_of_the_request(front: Front) -> None:
    forged = request_for("ListQueues", {}, secret="wrong")
    raw = front.raw(forged)
    assert b"x-amzn-query-error: SignatureDoesNotMatch;Sender\r\n" in raw
    forged.headers[b"content-type"] = b"application/x-www-form-urlencoded"
    raw = front.raw(forged)
    assert raw.startswith(b"HTTP/1.1 403 ")
    assert b"<Type>Sender</Type><Code>SignatureDoesNotMatch</Code>" in raw


@pytest.mark.parametrize(
    "action", ["ListQueues", "CreateQueue", "GetQueueUrl", "StartMessageMoveTask", "NoSuchAction"]
)
def test_the_anonymous_reach_nothing_but_queues(front: Front, action: str) -> None:
    assert front.answer(unsigned(action, {"QueueName": "q"})) == (
        403,
        {
            "__type": "com.amazon.coral.service#AccessDeniedException",
            "message": f"Access to the resource http://{HOST}/ is denied.",
        },
    )


def test_a_policy_may_admit_the_anonymous_to_a_queue(front: Front) -> None:
    sent = unsigned("SendMessage", {"QueueUrl": URL, "MessageBody": "m"})
    status, answer = front.answer(sent)
    assert (status, answer["__type"].partition("#")[2]) == (403, "AccessDeniedException")
    by_name = unsigned("SendMessage", {"QueueUrl": "q", "MessageBody": "m"})
    assert front.answer(by_name)[1]["__type"] == "com.amazonaws.sqs#QueueDoesNotExist"
    statement = {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    change = {"QueueUrl": URL, "Attributes": {"Policy": policy}}
    assert front.call("SetQueueAttributes", change)[0] == 200
    for _ in range(3):
        assert front.answer(sent)[0] == 200
    received = unsigned("ReceiveMessage", {"QueueUrl": URL})
    assert front.answer(received)[0] == 403


def test_a_bad_signature_is_refused_before_the_action_is_read(front: Front) -> None:
    status, answer = front.call("NoSuchAction", {}, access_key="UNKNOWN")
    assert (status, answer["__type"].partition("#")[2]) == (403, "UnrecognizedClientException")


def test_accounts_and_regions_have_queues_of_their_own(front: Front) -> None:
    front.verifier.replace_keys({**KEYS, "SECOND": Key("other", "999999999999")})
    assert front.call("ListQueues", {}) == (200, {"QueueUrls": [URL]})
    assert front.call("ListQueues", {}, region="eu-west-1") == (200, {})
    assert front.call("ListQueues", {}, access_key="SECOND", secret="other") == (200, {})
    status, answer = front.call("GetQueueUrl", {"QueueName": "q"}, region="eu-west-1")
    assert (status, answer["__type"]) == (400, "com.amazonaws.sqs#QueueDoesNotExist")


@pytest.mark.parametrize("value", ["nonsense", "=1", "Root=1-2;x", "Root=a b", ";", "Root=1-2\xe9"])
def test_a_malformed_trace_header_is_refused_for_any_action(front: Front, value: str) -> None:
    request = request_for("ListQueues", {})
    request.headers[b"x-amzn-trace-id"] = value.encode("latin-1")
    assert front.answer(request) == (
        400,
        {
            "__type": "com.amazon.coral.service#InvalidParameterValueException",
            "message": "The request has a 'X-Amzn-Trace-Id' HTTP header which is reserved for AWS "
            f"X-Ray trace header and has an invalid value '{value}'",
        },
    )


@pytest.mark.parametrize(
    "value",
    [
        "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1",
        "Root=1-2",
        "Self=1;Root=1; Lineage=a:0|b:1;",
        "Sampled=?",
        "Root=",
        "",
    ],
)
def test_a_trace_header_of_pairs_is_accepted(front: Front, value: str) -> None:
    request = request_for("ListQueues", {})
    request.headers[b"x-amzn-trace-id"] = value.encode()
    assert front.answer(request)[0] == 200


def test_the_sender_is_known_by_its_key(front: Front) -> None:
    front.call("SendMessage", {"QueueUrl": URL, "MessageBody": "m"})
    asked = {"QueueUrl": URL, "AttributeNames": ["SenderId"]}
    _, answer = front.call("ReceiveMessage", asked)
    assert answer["Messages"][0]["Attributes"] == {"SenderId": ACCESS_KEY}
