"""JSON 1.0 on the wire: contract §1.2."""

import json
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from fastnode.http.http1 import Request
from fastnode.http.json_codec import JsonCodec, is_json
from fastnode.queue.api import ReceiveMessageResponse, SendMessageRequest
from fastnode.queue.errors import (
    SqsError,
    internal_failure,
    queue_does_not_exist,
    receipt_handle_is_invalid,
    service_unavailable,
)


class Row(NamedTuple):
    name: str
    request: type[Struct]
    response: type[Struct] | None
    handler: Any = None


SEND = Row("SendMessage", SendMessageRequest, None)
RECEIVE = Row("ReceiveMessage", SendMessageRequest, ReceiveMessageResponse)
CODEC = JsonCodec({"SendMessage": SEND, "ReceiveMessage": RECEIVE})


def post(body: bytes = b"{}", **headers: bytes) -> Request:
    named = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    return Request(b"POST", b"/", "1.1", named, True, body)


def refusal(body: bytes) -> SqsError:
    with pytest.raises(SqsError) as caught:
        CODEC.decode(SEND, post(body))
    return caught.value


def test_members_are_decoded_and_unknown_ones_ignored() -> None:
    body = b'{"QueueUrl":"u","MessageBody":"\\u00e9","DelaySeconds":3,"Extra":[1]}'
    decoded = CODEC.decode(SEND, post(body))
    assert isinstance(decoded, SendMessageRequest)
    assert (decoded.queue_url, decoded.message_body, decoded.delay_seconds) == ("u", "é", 3)


NOT_OBJECTS = {
    "empty": b"",
    "cut off": b"{",
    "words": b"nonsense",
    "list": b"[]",
    "text": b'"text"',
    "number": b"1",
    "null": b"null",
    "more behind": b"{}x",
    "not utf-8": b'{"MessageBody":"\xff"}',
    "cut off behind half a character": b'{"MessageBody":"\\ud800"',
    "deep lists": b'{"x":' + b"[" * 100_000,
    "deep objects": b'{"x":' * 100_000,
}


@pytest.mark.parametrize("body", NOT_OBJECTS.values(), ids=NOT_OBJECTS.keys())
def test_what_is_not_a_json_object_is_a_serialization_error(body: bytes) -> None:
    error = refusal(body)
    assert error.type_name == "com.amazon.coral.service#SerializationException"
    assert (error.row.query_code, error.row.status) == ("MalformedInput", 400)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"DelaySeconds":"3"}', "STRING_VALUE can not be converted to an Integer"),
        (b'{"DelaySeconds":{}}', "Start of structure or map found where not expected."),
        (b'{"MessageBody":[]}', "Start of list found where not expected"),
        (b'{"MessageBody":1}', "NUMBER_VALUE can not be converted to a String"),
    ],
)
def test_a_member_of_the_wrong_type_has_the_contracts_words(body: bytes, text: str) -> None:
    error = refusal(body)
    assert (error.row.shape, error.message) == ("SerializationException", text)


@pytest.mark.parametrize(
    ("escaped", "text"),
    [
        (rb"\ud800", "\uffff"),
        (rb"\uDFFF", "\uffff"),
        (rb"\udc00\ud800", "\uffff\uffff"),
        (rb"\ud800\ud83d\ude00", "\uffff\N{GRINNING FACE}"),
        (rb"\\ud800 \udfff", "\\ud800 \uffff"),
        (rb"\\\ud800\n", "\\\uffff\n"),
    ],
)
def test_half_a_character_is_left_to_the_rules_of_its_member(escaped: bytes, text: str) -> None:
    decoded = CODEC.decode(SEND, post(b'{"MessageBody":"' + escaped + b'"}'))
    assert isinstance(decoded, SendMessageRequest) and decoded.message_body == text


MEMBERS = st.sampled_from(["MessageBody", "DelaySeconds", "MessageAttributes", "x"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(MEMBERS, inner, max_size=3),
)


@given(st.binary(max_size=60) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_any_body_is_decoded_or_refused(body: bytes) -> None:
    try:
        assert isinstance(CODEC.decode(SEND, post(body)), SendMessageRequest)
    except SqsError as error:
        assert error.row.shape == "SerializationException"


@pytest.mark.parametrize(
    ("headers", "is_known"),
    [
        ({"x_amz_target": b"AmazonSQS.SendMessage"}, True),
        ({"x_amz_target": b"AmazonSQS.Sendmessage"}, False),
        ({"x_amz_target": b"DynamoDB_20120810.SendMessage"}, False),
        ({"x_amz_target": b"SendMessage"}, False),
        ({"x_amz_target": b"\xff"}, False),
        ({}, False),
    ],
)
def test_the_target_names_the_operation(headers: dict[str, bytes], is_known: bool) -> None:
    if is_known:
        assert CODEC.operation_of(post(**headers)) is SEND
        return
    with pytest.raises(SqsError) as caught:
        CODEC.operation_of(post(**headers))
    assert caught.value.type_name == "com.amazon.coral.service#UnknownOperationException"
    assert (caught.value.row.query_code, caught.value.row.status) == ("InvalidAction", 400)


@pytest.mark.parametrize(
    ("method", "content_type", "expected"),
    [
        (b"POST", b"application/x-amz-json-1.0", True),
        (b"POST", b"Application/X-Amz-JSON-1.0 ; charset=utf-8", True),
        (b"GET", b"application/x-amz-json-1.0", False),
        (b"POST", b"application/json", False),
        (b"POST", b"application/x-amz-json-1.01", False),
        (b"POST", b"application/x-www-form-urlencoded", False),
        (b"POST", b"", False),
    ],
)
def test_json_is_recognised_by_method_and_content_type(
    method: bytes, content_type: bytes, expected: bool
) -> None:
    request = Request(method, b"/", "1.1", {b"content-type": content_type}, True)
    assert is_json(request) is expected


HEADERS = b"Content-Type: application/x-amz-json-1.0\r\nx-amzn-RequestId: id-1\r\n"


def test_an_action_without_output_has_a_zero_length_body() -> None:
    assert CODEC.encode(SEND, None, "id-1") == (200, HEADERS, b"")


def test_an_empty_result_is_an_empty_object() -> None:
    assert CODEC.encode(RECEIVE, ReceiveMessageResponse(), "id-1") == (200, HEADERS, b"{}")


def test_a_result_of_the_wrong_kind_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        CODEC.encode(RECEIVE, None, "id-1")


@pytest.mark.parametrize(
    ("error", "status", "header", "type_name"),
    [
        (
            queue_does_not_exist(),
            400,
            b"AWS.SimpleQueueService.NonExistentQueue;Sender",
            "com.amazonaws.sqs#QueueDoesNotExist",
        ),
        (
            receipt_handle_is_invalid("x"),
            404,
            b"ReceiptHandleIsInvalid;Sender",
            "com.amazonaws.sqs#ReceiptHandleIsInvalid",
        ),
        (
            internal_failure(),
            500,
            b"InternalFailure;Receiver",
            "com.amazon.coral.service#InternalFailure",
        ),
    ],
)
def test_an_error_names_code_shape_and_text(
    error: SqsError, status: int, header: bytes, type_name: str
) -> None:
    rendered = CODEC.encode_error(error, "id-1")
    assert rendered[:2] == (status, HEADERS + b"x-amzn-query-error: " + header + b"\r\n")
    assert json.loads(rendered[2]) == {"__type": type_name, "message": error.message}


def test_an_error_may_say_when_to_come_back() -> None:
    _, headers, _ = CODEC.encode_error(service_unavailable("later"), "id-1", 7)
    assert headers.endswith(b"\r\nRetry-After: 7\r\n")
