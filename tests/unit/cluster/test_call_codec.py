"""Calls and their ends as bytes: everything comes back as it was."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode import errors
from fastnode.cluster.call_codec import (
    DONE,
    FAILED,
    REFUSED,
    decode_call,
    decode_error,
    decode_result,
    encode_call,
    encode_error,
    encode_result,
)
from fastnode.peers.calls import LinkLost
from fastnode.queue import api
from fastnode.queue.caller import CLIENT_RETRIES, Call, Caller
from fastnode.queue.errors import ERRORS, SqsError
from fastnode.queue.operations import OPERATIONS
from tests.unit.native.strategies import printables

CALLER = Caller("123456789012", "eu-west-1", "https://sqs.example", "AIDAX", True)


class Full(Call):
    trace_header = "Root=1"
    source_ip = "::1"
    is_secure = True
    wants_explanation = True

    def __init__(self, caller: Caller, action: str, request_id: str) -> None:
        super().__init__(caller, action, request_id)
        self.request, self.retention = b"\xff\x00" * 8, CLIENT_RETRIES
        self.is_repeated = self.is_reused = True


def sample(kind: Any) -> Any:
    """A value of the type, with something in every member."""
    origin: Any = getattr(kind, "__origin__", None)
    arguments: list[Any] = list(getattr(kind, "__args__", ()))
    if origin is list:
        return [sample(arguments[0])]
    if origin is dict:
        return {sample(arguments[0]): sample(arguments[1])}
    if arguments:  # a union
        return sample(arguments[0])
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        fields = msgspec.structs.fields(kind)
        return kind(**{field.name: sample(field.type) for field in fields})
    return {str: "é\0\N{SNOWMAN}", int: 7, bool: True, bytes: b"\xff\0", float: 1.5}[kind]


@pytest.mark.parametrize("action", sorted(OPERATIONS))
@pytest.mark.parametrize("call_type", [Call, Full])
def test_a_call_arrives_as_it_was(action: str, call_type: type[Call]) -> None:
    call = call_type(CALLER, action, "request-1")
    for request in (sample(OPERATIONS[action].request), OPERATIONS[action].request()):
        arrived, operation, decoded = decode_call(encode_call(call, request))
        assert operation is OPERATIONS[action] and decoded == request
        for name in (
            *("action", "caller", "request_id", "trace_header", "source_ip", "is_secure"),
            *("request", "retention", "is_repeated", "is_reused", "wants_explanation"),
        ):
            assert getattr(arrived, name) == getattr(call, name)
        assert not arrived.is_gone and arrived.explanation is None


@pytest.mark.parametrize("action", sorted(OPERATIONS))
@pytest.mark.parametrize("explanation", [None, "partitions=1"])
def test_an_answer_arrives_as_it_was(action: str, explanation: str | None) -> None:
    there, here = Call(CALLER, action, "r"), Call(CALLER, action, "r")
    there.explanation = explanation
    response = None if OPERATIONS[action].response is None else sample(OPERATIONS[action].response)
    assert decode_result(here, *encode_result(there, response)) == response
    assert here.explanation == explanation


@given(st.binary(max_size=200), printables)
def test_any_bytes_and_text_survive(value: bytes, text: str) -> None:
    attribute = api.MessageAttributeValue("Binary", None, value)
    request = api.SendMessageRequest("q", text, message_attributes={text: attribute})
    _, _, decoded = decode_call(encode_call(Call(CALLER, "SendMessage", "r"), request))
    assert decoded == request


@pytest.mark.parametrize("shape", sorted(ERRORS))
@pytest.mark.parametrize("retry_after", [None, 9])
def test_a_refusal_arrives_as_it_was(shape: str, retry_after: int | None) -> None:
    error = SqsError(ERRORS[shape], "Why not.")
    error.retry_after_seconds = retry_after
    status, payload = encode_error(error)
    arrived = decode_error(status, payload)
    assert status == REFUSED and isinstance(arrived, SqsError)
    assert (arrived.row, arrived.message, arrived.retry_after_seconds) == (
        error.row,
        "Why not.",
        retry_after,
    )


@pytest.mark.parametrize(
    "kind",
    [
        errors.Overloaded,
        errors.PlanAgain,
        errors.Unavailable,
        errors.NotLed,
        errors.DeadlineExceeded,
        errors.DiskFull,
    ],
)
def test_a_failure_arrives_as_it_was(kind: type[errors.OperationError]) -> None:
    status, payload = encode_error(kind("why"))
    arrived = decode_error(status, payload)
    assert status == FAILED and type(arrived) is kind and str(arrived) == "why"
    assert arrived.retry_after_seconds == kind.retry_after_seconds


def test_a_failure_of_the_way_is_unavailability_for_whoever_asked() -> None:
    arrived = decode_error(*encode_error(LinkLost("cut", was_written=True)))
    assert type(arrived) is errors.Unavailable


@pytest.mark.parametrize("status", [3, 200, 255])
def test_a_status_that_nobody_knows_is_unavailability(status: int) -> None:
    call = Call(CALLER, "SendMessage", "r")
    with pytest.raises(errors.Unavailable, match=f"status {status}"):
        decode_result(call, status, b"")


@given(st.binary(max_size=60))
def test_bytes_that_are_no_call_are_a_value_error(payload: bytes) -> None:
    with pytest.raises(ValueError, match="no forwarded call"):
        decode_call(payload)


@pytest.mark.parametrize(
    ("status", "payload"),
    [
        (DONE, b""),
        (DONE, b"\x91\x01"),
        (REFUSED, b"\x00"),
        (REFUSED, msgspec.msgpack.encode(["NoSuchShape", "m", None])),
        (FAILED, b"x"),
        (FAILED, msgspec.msgpack.encode(["NoSuchKind", "m"])),
    ],
)
def test_bytes_that_are_no_answer_are_a_value_error(status: int, payload: bytes) -> None:
    with pytest.raises(ValueError, match="no answer to a forwarded call"):
        decode_result(Call(CALLER, "SendMessage", "r"), status, payload)


def test_a_call_of_an_action_that_does_not_exist_is_a_value_error() -> None:
    call = Call(CALLER, "Explode", "r")
    with pytest.raises(ValueError, match="no forwarded call"):
        decode_call(encode_call(call, api.ListQueuesRequest()))
