"""Section 2.1: the checks of the actions on queues, and their texts."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.queue import validate_queues
from fastnode.queue.api import CreateQueueRequest, GetQueueUrlRequest, ListQueuesRequest
from fastnode.queue.errors import SqsError

IPV = "InvalidParameterValueException"


def told(refusal: pytest.ExceptionInfo[SqsError]) -> tuple[str, str]:
    return refusal.value.row.shape, refusal.value.message


# --- CreateQueue and GetQueueUrl, 2.1 -----------------------------------------------------------


def test_create_queue_gives_what_to_store_and_what_to_compare() -> None:
    request = CreateQueueRequest(queue_name="q", attributes={"DelaySeconds": "05"}, tags={"a": ""})
    valid = validate_queues.create_queue(request)
    assert valid == validate_queues.ValidCreate(
        "q", {"DelaySeconds": "5"}, {"DelaySeconds": "05"}, {"a": ""}
    )


def test_create_queue_takes_tags_in_the_other_spelling() -> None:
    request = CreateQueueRequest(queue_name="q", tags_capitalised={"a": "1"})
    assert validate_queues.create_queue(request).tags == {"a": "1"}


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({}, "Value for parameter QueueName is invalid. Reason: Must specify a queue name."),
        ({"queue_name": ""}, "Queue name cannot be empty"),
        ({"queue_name": "q", "tags": {str(n): "" for n in range(51)}},
         "Too many tags added for queue q."),
        ({"queue_name": "q", "tags": {"": "v"}},
         "Tag keys must be between 1 and 128 characters in length."),
        ({"queue_name": "q", "tags": {"k" * 129: "v"}},
         "Tag keys must be between 1 and 128 characters in length."),
        ({"queue_name": "q", "tags": {"k": "v" * 257}},
         "Tag values must be between 0 and 256 characters in length."),
        ({"queue_name": "q", "tags": {"aws:k": "v"}},
         "Tag keys that start with aws: are reserved for system use."),
    ],
)  # fmt: skip
def test_create_queue_is_refused(members: dict[str, Any], text: str) -> None:
    with pytest.raises(SqsError) as refusal:
        validate_queues.create_queue(CreateQueueRequest(**members))
    assert told(refusal) == (IPV, text)


def test_largest_tags_are_accepted() -> None:
    tags = {str(n).ljust(128, "k"): "v" * 256 for n in range(50)}
    request = CreateQueueRequest(queue_name="q", tags=tags)
    assert validate_queues.create_queue(request).tags == tags


def test_get_queue_url_gives_owner_and_name() -> None:
    owner = "123456789012"
    request = GetQueueUrlRequest(queue_name="q.fifo", queue_owner_aws_account_id=owner)
    assert validate_queues.get_queue_url(request) == (owner, "q.fifo")
    assert validate_queues.get_queue_url(GetQueueUrlRequest(queue_name="q")) == (None, "q")


@pytest.mark.parametrize(
    ("name", "owner", "shape"),
    [(None, None, IPV), ("", None, IPV), ("a b", None, "QueueDoesNotExist"),
     ("q", "nobody", "QueueDoesNotExist")],
)  # fmt: skip
def test_get_queue_url_is_refused(name: str | None, owner: str | None, shape: str) -> None:
    request = GetQueueUrlRequest(queue_name=name, queue_owner_aws_account_id=owner)
    with pytest.raises(SqsError) as refusal:
        validate_queues.get_queue_url(request)
    assert refusal.value.row.shape == shape


# --- ListQueues, 2.1 ----------------------------------------------------------------------------


def test_list_queues_without_limit_is_one_page_without_token() -> None:
    assert validate_queues.list_queues(ListQueuesRequest()) == validate_queues.ValidList(
        "", "", 1_000, False
    )


@pytest.mark.parametrize("limit", [1, 1_000])
def test_list_queues_with_limit_continues_after_the_token(limit: int) -> None:
    token = validate_queues.encode_next_token("orders")
    request = ListQueuesRequest(queue_name_prefix="or", max_results=limit, next_token=token)
    assert validate_queues.list_queues(request) == validate_queues.ValidList(
        "or", "orders", limit, True
    )


@pytest.mark.parametrize("limit", [0, -1, 1_001])
def test_list_queues_limit_is_refused(limit: int) -> None:
    with pytest.raises(SqsError) as refusal:
        validate_queues.list_queues(ListQueuesRequest(max_results=limit))
    assert told(refusal) == (
        IPV,
        "Value for parameter MaxResults is invalid. Reason: MaxResults must be an integer between "
        "1 and 1000.",
    )


NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,75}(\.fifo)?", fullmatch=True)


@given(NAMES)
def test_next_token_gives_the_name_back(name: str) -> None:
    assert validate_queues.decode_next_token(validate_queues.encode_next_token(name)) == name


@pytest.mark.parametrize(
    "token",
    ["x", "orders", "AQ==", "b3JkZXJz", "AW9y ZGVycw==", "\u00e9", "\ud800", "AW9yZGVycw"],
)
def test_bad_next_token_is_refused(token: str) -> None:
    with pytest.raises(SqsError) as refusal:
        validate_queues.list_queues(ListQueuesRequest(next_token=token))
    assert told(refusal) == (IPV, "Invalid or expired next token.")


@given(st.text())
def test_any_other_token_is_refused_or_is_one_of_ours(token: str) -> None:
    try:
        name = validate_queues.decode_next_token(token)
    except SqsError as refusal:
        assert refusal.message == "Invalid or expired next token."
    else:
        assert validate_queues.encode_next_token(name) == token
