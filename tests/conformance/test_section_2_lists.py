"""The contract, section 2.1: finding queues by name and in lists."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance import kinds
from tests.conformance.client import ACCOUNT, Client, claim
from tests.conformance.contract import covers
from tests.conformance.kit import (
    name_of,
    new_name,
)

# --- finding ------------------------------------------------------------------------------------


@covers("2.1.url.found")
def test_a_url_is_found_by_name_and_owner(sqs: Client, queue: str) -> None:
    name = name_of(queue)
    assert sqs.call("GetQueueUrl", QueueName=name) == {"QueueUrl": queue}
    owned = sqs.call("GetQueueUrl", QueueName=name, QueueOwnerAWSAccountId=ACCOUNT)
    assert owned == {"QueueUrl": queue}


@covers("2.1.url.foreign")
def test_a_foreign_queue_is_found_by_those_whom_its_policy_admits(sqs: Client, queue: str) -> None:
    stranger = sqs.another(claim("111111111111"))
    members = {"QueueName": name_of(queue), "QueueOwnerAWSAccountId": ACCOUNT}
    text = "The specified queue does not exist or you do not have access to it."
    stranger.refused("GetQueueUrl", **members).assert_is(kinds.NO_QUEUE, text)
    sqs.call(
        "AddPermission",
        QueueUrl=queue,
        Label="l",
        AWSAccountIds=["111111111111"],
        Actions=["GetQueueUrl"],
    )
    assert stranger.call("GetQueueUrl", **members) == {"QueueUrl": queue}


@pytest.fixture
def listed(sqs: Client) -> Callable[..., dict[str, Any]]:
    """Five queues of one prefix, created out of order, and a call that lists them."""
    prefix = new_name()
    for letter in "cabed":
        sqs.call("CreateQueue", QueueName=f"{prefix}-{letter}")

    def call(end: str = "-", **members: Any) -> dict[str, Any]:
        return sqs.call("ListQueues", QueueNamePrefix=prefix + end, **members)

    return call


def last_letters(page: dict[str, Any]) -> str:
    return "".join(url[-1] for url in page["QueueUrls"])


@covers("2.1.list.prefix", "2.1.list.none", "2.1.list.sorted")
def test_queues_are_listed_by_prefix_and_sorted(listed: Callable[..., dict[str, Any]]) -> None:
    assert last_letters(listed()) == "abcde"
    assert last_letters(listed("-b")) == "b"
    assert listed("-B") == {}


@covers("2.1.list.token", "2.1.list.sorted", "0.2.page")
def test_a_token_comes_only_when_more_remain(listed: Callable[..., dict[str, Any]]) -> None:
    first = listed(MaxResults=2)
    second = listed(MaxResults=3, NextToken=first["NextToken"])
    assert [last_letters(first), last_letters(second)] == ["ab", "cde"]
    assert "NextToken" not in second
    assert last_letters(listed(MaxResults=1000)) == "abcde"
    assert last_letters(listed(MaxResults=1)) == "a"


@covers("9.token")
def test_a_token_survives_the_deletion_of_its_queue(
    sqs: Client, listed: Callable[..., dict[str, Any]]
) -> None:
    first = listed(MaxResults=2)
    for url in (first["QueueUrls"][1], listed("-c")["QueueUrls"][0]):
        sqs.call("DeleteQueue", QueueUrl=url)
    sqs.call("CreateQueue", QueueName=name_of(first["QueueUrls"][0]) + "x")
    assert last_letters(listed(MaxResults=10, NextToken=first["NextToken"])) == "de"


@covers("2.1.list.own")
def test_only_queues_of_the_caller_are_listed(sqs: Client, queue: str) -> None:
    for stranger in (claim("111111111111"), claim("test", "eu-west-1")):
        found = sqs.another(stranger).call("ListQueues", QueueNamePrefix=name_of(queue))
        assert queue not in found.get("QueueUrls", [])


@covers("2.1.list.no-token", "11.no-token")
def test_without_a_page_size_a_thousand_queues_come_and_no_token(sqs: Client) -> None:
    own = sqs.another(claim("222222222222" if sqs.is_json else "333333333333"))
    for number in range(1_001):
        own.call("CreateQueue", QueueName=f"many-{number}")
    page = own.call("ListQueues")
    assert len(page["QueueUrls"]) == 1_000
    assert "NextToken" not in page
    assert "NextToken" in own.call("ListQueues", MaxResults=1_000)
