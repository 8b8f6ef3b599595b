"""The contract, sections 0.2, 2, 3 and 7.1, of FIFO queues: names, attributes, needs of a send."""

from typing import Any

import pytest

from tests.conformance import kinds
from tests.conformance.client import Client
from tests.conformance.contract import covers
from tests.conformance.fifo_kit import HIGH_THROUGHPUT, entry, got, new_fifo, put
from tests.conformance.kinds import ATTRIBUTE_VALUE, INVALID_PARAMETER, MISSING_PARAMETER, Kind
from tests.conformance.kit import attributes, new_name, set_attributes

NAME_TEXT = (
    "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, "
    "must end with .fifo suffix and be 1 to 80 in length"
)
NO_DEDUPLICATION_TEXT = (
    "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId "
    "provided explicitly"
)
NO_GROUP_TEXT = "The request must contain the parameter MessageGroupId."
PAIR_TEXT = (
    "The perMessageGroupId value is allowed only when the value for DeduplicationScope is "
    "messageGroup"
)
BAD_IDS = ["", "x" * 129, "with space", "é"]


def id_text(name: str, value: str) -> str:
    return (
        f"Value {value} for parameter {name} is invalid. Reason: {name} can only include "
        "alphanumeric and punctuation characters. 1 to 128 in length."
    )


def delay_text(seconds: int) -> str:
    return (
        f"Value {seconds} for parameter DelaySeconds is invalid. Reason: The request include "
        "parameter that is not valid for this queue type."
    )


# --- names and attributes -----------------------------------------------------------------------


@covers("0.2.queue-name-fifo")
def test_the_suffix_counts_in_the_eighty_characters(sqs: Client) -> None:
    stem = new_name()
    fits, too_long = (f"{stem:x<{size - 5}}.fifo" for size in (80, 81))
    members = {"Attributes": {"FifoQueue": "true"}}
    assert sqs.call("CreateQueue", QueueName=fits, **members)["QueueUrl"].endswith(f"/{fits}")
    for name in (too_long, ".fifo", "a.b.fifo"):
        refusal = sqs.refused("CreateQueue", QueueName=name, **members)
        refusal.assert_is(INVALID_PARAMETER, NAME_TEXT)


@covers("3.1.fifo-attributes", "3.1.all-fifo")
@pytest.mark.parametrize("supplied", [{}, HIGH_THROUGHPUT])
def test_a_fifo_queue_shows_four_attributes_more(sqs: Client, supplied: dict[str, str]) -> None:
    shown = attributes(sqs, new_fifo(sqs, **supplied))
    expected = {
        "FifoQueue": "true",
        "ContentBasedDeduplication": "false",
        "DeduplicationScope": "queue",
        "FifoThroughputLimit": "perQueue",
    } | supplied
    assert expected.items() <= shown.items()
    assert len(shown) == 16


@covers("2.1.set.fifo-type")
def test_the_type_of_a_queue_cannot_be_changed(sqs: Client) -> None:
    queue = new_fifo(sqs)
    set_attributes(sqs, queue, FifoQueue="true")
    refusal = sqs.refused("SetQueueAttributes", QueueUrl=queue, Attributes={"FifoQueue": "false"})
    text = (
        "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported."
    )
    refusal.assert_is(ATTRIBUTE_VALUE, text)


@covers("3.3.fifo-words")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DeduplicationScope", "group"),
        ("FifoThroughputLimit", "perGroup"),
        ("ContentBasedDeduplication", "yes"),
    ],
)
def test_other_words_are_refused(sqs: Client, name: str, value: str) -> None:
    queue = new_fifo(sqs)
    refusal = sqs.refused("SetQueueAttributes", QueueUrl=queue, Attributes={name: value})
    refusal.assert_is(ATTRIBUTE_VALUE, f"Invalid value for the parameter {name}.")


@covers("3.3.fifo-words", "3.3.high-throughput")
def test_a_limit_per_group_needs_its_scope(sqs: Client) -> None:
    queue = new_fifo(sqs)
    limit = {"FifoThroughputLimit": "perMessageGroupId"}
    refusal = sqs.refused("SetQueueAttributes", QueueUrl=queue, Attributes=limit)
    refusal.assert_is(ATTRIBUTE_VALUE, PAIR_TEXT)
    refusal = sqs.refused(
        "CreateQueue", QueueName=f"{new_name()}.fifo", Attributes={"FifoQueue": "true"} | limit
    )
    refusal.assert_is(ATTRIBUTE_VALUE, PAIR_TEXT)
    set_attributes(sqs, queue, **HIGH_THROUGHPUT)
    stored = new_fifo(sqs, DeduplicationScope="messageGroup")
    set_attributes(sqs, stored, **limit)
    for each in (queue, stored):
        assert attributes(sqs, each, *HIGH_THROUGHPUT) == HIGH_THROUGHPUT


# --- sends --------------------------------------------------------------------------------------


def refused_send(sqs: Client, kind: Kind, text: str, **members: Any) -> None:
    queue = new_fifo(sqs, MaximumMessageSize="1024")
    whole = {"MessageBody": "x", "MessageGroupId": "g", "MessageDeduplicationId": "d"} | members
    named = {name: value for name, value in whole.items() if value is not None}
    sqs.refused("SendMessage", QueueUrl=queue, **named).assert_is(kind, text)
    assert got(sqs, queue) == []


@covers("2.2.send.fifo-group")
def test_a_send_needs_a_group(sqs: Client) -> None:
    refused_send(sqs, MISSING_PARAMETER, NO_GROUP_TEXT, MessageGroupId=None)


@covers("2.2.send.fifo-deduplication")
def test_a_send_needs_deduplication(sqs: Client) -> None:
    refused_send(sqs, INVALID_PARAMETER, NO_DEDUPLICATION_TEXT, MessageDeduplicationId=None)


@covers("2.2.send.deduplication-form", "0.2.deduplication-id", "0.2.group-id")
@pytest.mark.parametrize("name", ["MessageDeduplicationId", "MessageGroupId"])
@pytest.mark.parametrize("value", BAD_IDS)
def test_ids_have_a_form(sqs: Client, name: str, value: str) -> None:
    refused_send(sqs, INVALID_PARAMETER, id_text(name, value), **{name: value})


@covers("0.2.deduplication-id")
def test_ids_may_have_128_characters_and_punctuation(sqs: Client) -> None:
    queue = new_fifo(sqs)
    put(sqs, queue, "g" * 128, "body", MessageDeduplicationId="d" * 128)
    put(sqs, queue, "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", "other", MessageDeduplicationId="~!")
    assert got(sqs, queue) == ["body", "other"]


@covers("0.2.attempt-id")
@pytest.mark.parametrize("value", BAD_IDS)
def test_an_attempt_has_an_id_of_the_same_form(sqs: Client, value: str) -> None:
    queue = new_fifo(sqs)
    refusal = sqs.refused("ReceiveMessage", QueueUrl=queue, ReceiveRequestAttemptId=value)
    refusal.assert_is(INVALID_PARAMETER, id_text("ReceiveRequestAttemptId", value))
    assert got(sqs, queue, ReceiveRequestAttemptId="x" * 128) == []


@covers("2.2.send.delay-fifo")
def test_a_delay_of_its_own_is_refused(sqs: Client) -> None:
    refused_send(sqs, INVALID_PARAMETER, delay_text(5), DelaySeconds=5)


# --- batches ------------------------------------------------------------------------------------

BODY_TEXT = "The request must contain the parameter MessageBody."
SIZE_TEXT = "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes."


@covers("7.1.fifo-group", "12.fifo-batch-group")
def test_an_entry_without_a_group_fails_the_batch(sqs: Client) -> None:
    refused_batch(sqs, INVALID_PARAMETER, NO_GROUP_TEXT, entry(1, group=None))


@covers("7.1.fifo-deduplication")
def test_an_entry_without_deduplication_fails_the_batch(sqs: Client) -> None:
    bare = entry(1)
    del bare["MessageDeduplicationId"]
    refused_batch(sqs, INVALID_PARAMETER, NO_DEDUPLICATION_TEXT, bare)


@covers("7.1.fifo-entry")
@pytest.mark.parametrize(
    ("members", "kind", "text"),
    [
        ({"MessageBody": ""}, MISSING_PARAMETER, BODY_TEXT),
        ({"DelaySeconds": 5}, INVALID_PARAMETER, delay_text(5)),
        ({"MessageBody": "x" * 1_025}, INVALID_PARAMETER, SIZE_TEXT),
    ],
    ids=["body", "delay", "size"],
)
def test_a_bad_entry_fails_the_batch(
    sqs: Client, members: dict[str, Any], kind: Kind, text: str
) -> None:
    refused_batch(sqs, kind, text, entry(1) | members)


def refused_batch(sqs: Client, kind: Kind, text: str, bad: dict[str, Any]) -> None:
    queue = new_fifo(sqs, MaximumMessageSize="1024")
    refusal = sqs.refused("SendMessageBatch", QueueUrl=queue, Entries=[entry(0), bad])
    refusal.assert_is(kind, text)
    assert got(sqs, queue) == [], "nothing of it is applied"


@covers("7.1.fifo-entry")
def test_forbidden_characters_fail_their_entry_alone(sqs: Client) -> None:
    queue = new_fifo(sqs)
    entries = [entry(0, body="fine"), entry(1, body="\ufffe")]
    answer = sqs.call("SendMessageBatch", QueueUrl=queue, Entries=entries)
    assert [one["Id"] for one in answer["Successful"]] == ["e0"]
    assert [one["Code"] for one in answer["Failed"]] == [kinds.CONTENTS.batch_code]
