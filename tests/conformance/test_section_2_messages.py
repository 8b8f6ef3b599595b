"""The contract, section 2.2: sending, receiving, deleting, changing visibility."""

import time
from typing import Any

import pytest

from tests.conformance import kinds
from tests.conformance.client import UUID, Client
from tests.conformance.contract import covers
from tests.conformance.kinds import INVALID_PARAMETER, MISSING_PARAMETER
from tests.conformance.kit import (
    Refusal,
    change,
    counts,
    delete,
    each_refusal,
    new_queue,
    receive,
    receive_one,
    send,
    sent_and_received,
    text_attribute,
)
from tests.conformance.texts import (
    CHARACTERS_TEXT,
    GARBAGE_TEXT,
    NOT_FOR_TYPE,
    deleted_text,
    missing_text,
    value_text,
)

MIB = 1_048_576


def bad_send(rows: str, kind: kinds.Kind, text: str | None, **members: Any) -> Refusal:
    return Refusal(rows, "SendMessage", {"MessageBody": "x"} | members, kind, text)


def bad_receive(rows: str, parameter: str, value: object, reason: str) -> Refusal:
    text = value_text(value, parameter, reason)
    return Refusal(rows, "ReceiveMessage", {parameter: value}, INVALID_PARAMETER, text)


GROUP_REASON = (
    "MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length."
)
SEND_REFUSALS = [
    Refusal(
        "2.2.send.body-missing 1.6.missing-required-parameter",
        "SendMessage",
        {},
        MISSING_PARAMETER,
        missing_text("MessageBody"),
    ),
    bad_send(
        "2.2.send.body-missing", MISSING_PARAMETER, missing_text("MessageBody"), MessageBody=""
    ),
    *(
        bad_send(
            "2.2.send.body-characters 4.1.refused-body 1.6.invalid-message-contents",
            kinds.CONTENTS,
            CHARACTERS_TEXT,
            MessageBody=f"a{character}b",
        )
        for character in ("\x00", "\x08", "\x0b", "\x0c", "\x0e", "\x1f", "\ufffe", "\uffff")
    ),
    Refusal(
        "4.1.refused-body",
        "SendMessage",
        {"MessageBody": "lone \ud800 surrogate"},
        kinds.CONTENTS,
        CHARACTERS_TEXT,
        only="json",
    ),
    bad_send(
        "2.2.send.size 0.2.message-size 11.one-mebibyte",
        INVALID_PARAMETER,
        "One or more parameters are invalid. Reason: Message must be shorter than 1048576 bytes.",
        MessageBody="x" * (MIB + 1),
    ),
    Refusal(
        "2.2.send.size",
        "SendMessage",
        {"MessageBody": "x" * 1_025},
        INVALID_PARAMETER,
        "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes.",
        queue={"MaximumMessageSize": "1024"},
    ),
    *(
        bad_send(
            "2.2.send.delay 0.2.delay",
            INVALID_PARAMETER,
            value_text(number, "DelaySeconds", "DelaySeconds must be >= 0 and <= 900."),
            DelaySeconds=number,
        )
        for number in (-1, 901, 2**31)
    ),
    *(
        bad_send(
            "2.2.send.group-form 0.2.group-id 11.group-on-standard",
            INVALID_PARAMETER,
            value_text(group, "MessageGroupId", GROUP_REASON),
            MessageGroupId=group,
        )
        for group in ("", "g" * 129, "a b", "\u00e9")
    ),
    bad_send(
        "2.2.send.deduplication-standard",
        INVALID_PARAMETER,
        value_text("d", "MessageDeduplicationId", NOT_FOR_TYPE + "."),
        MessageDeduplicationId="d",
    ),
]
RECEIVE_REFUSALS = [
    *(
        bad_receive(
            "2.2.receive.max 0.2.max-number-of-messages",
            "MaxNumberOfMessages",
            number,
            "Must be between 1 and 10, if provided.",
        )
        for number in (0, 11, -1)
    ),
    *(
        bad_receive(
            "2.2.receive.wait 0.2.wait-time",
            "WaitTimeSeconds",
            number,
            "Must be >= 0 and <= 20, if provided.",
        )
        for number in (-1, 21)
    ),
    *(
        bad_receive(
            "2.2.receive.visibility 0.2.visibility-timeout",
            "VisibilityTimeout",
            number,
            "Must be >= 0 and <= 43200, if provided.",
        )
        for number in (-1, 43_201)
    ),
    Refusal(
        "2.2.receive.attempt-standard",
        "ReceiveMessage",
        {"ReceiveRequestAttemptId": "a"},
        INVALID_PARAMETER,
        value_text("a", "ReceiveRequestAttemptId", NOT_FOR_TYPE),
    ),
]
HANDLE_REFUSALS = [
    *(
        Refusal(
            "2.2.delete.missing 5.4.missing",
            "DeleteMessage",
            members,
            MISSING_PARAMETER,
            missing_text("ReceiptHandle"),
        )
        for members in ({}, {"ReceiptHandle": ""})
    ),
    Refusal(
        "2.2.delete.malformed 5.4.malformed 1.6.receipt-handle-is-invalid 11.handle-404 "
        "12.bad-handle-text",
        "DeleteMessage",
        {"ReceiptHandle": "garbage"},
        kinds.HANDLE,
        GARBAGE_TEXT,
    ),
    Refusal(
        "2.2.change.malformed 5.4.malformed",
        "ChangeMessageVisibility",
        {"ReceiptHandle": "garbage", "VisibilityTimeout": 1},
        kinds.HANDLE,
        GARBAGE_TEXT,
    ),
    *(
        Refusal(
            "5.4.missing",
            "ChangeMessageVisibility",
            members | {"VisibilityTimeout": 1},
            MISSING_PARAMETER,
            missing_text("ReceiptHandle"),
        )
        for members in ({}, {"ReceiptHandle": ""})
    ),
    Refusal(
        "2.2.change.missing",
        "ChangeMessageVisibility",
        {"ReceiptHandle": "garbage"},
        MISSING_PARAMETER,
        missing_text("VisibilityTimeout"),
    ),
]


@each_refusal(SEND_REFUSALS + RECEIVE_REFUSALS + HANDLE_REFUSALS)
def test_refused(sqs: Client, refusal: Refusal) -> None:
    refusal.check(sqs)


# --- sending ------------------------------------------------------------------------------------


@covers("2.2.send.answer", "0.2.message-id")
def test_a_send_answers_with_digests_of_what_it_carried(sqs: Client, queue: str) -> None:
    plain = send(sqs, queue)
    assert set(plain) == {"MessageId", "MD5OfMessageBody"}
    assert UUID.fullmatch(plain["MessageId"])
    attributes = {"k": text_attribute("x")}
    answer = send(sqs, queue, MessageAttributes=attributes)
    assert set(answer) == {*plain, "MD5OfMessageAttributes"}
    trace = {"AWSTraceHeader": text_attribute("Root=1-5759e988-bd862e3fe1be46a994272793")}
    answer = send(sqs, queue, MessageSystemAttributes=trace)
    assert set(answer) == {*plain, "MD5OfMessageSystemAttributes"}


@covers("2.2.send.not-idempotent")
def test_two_equal_sends_are_two_messages(sqs: Client, queue: str) -> None:
    first, second = send(sqs, queue, "same"), send(sqs, queue, "same")
    assert first["MessageId"] != second["MessageId"]
    assert len(receive(sqs, queue)) == 2


@covers("2.2.send.size", "0.2.message-size", "11.one-mebibyte")
@pytest.mark.parametrize("limit", [1_024, MIB])
def test_a_message_of_exactly_the_limit_is_accepted(sqs: Client, limit: int) -> None:
    queue = new_queue(sqs, MaximumMessageSize=str(limit))
    send(sqs, queue, "x" * limit)
    assert len(receive_one(sqs, queue)["Body"]) == limit


@covers("2.2.send.delay", "0.2.delay")
def test_both_ends_of_the_delay_are_accepted(sqs: Client, queue: str) -> None:
    for seconds in (0, 900):
        send(sqs, queue, DelaySeconds=seconds)
    assert counts(sqs, queue) == (1, 0, 1)


@covers("2.2.send.group-standard", "0.2.group-id", "11.group-on-standard")
@pytest.mark.parametrize("group", ["g", "g" * 128, "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"])
def test_a_group_is_accepted_on_a_standard_queue(sqs: Client, queue: str, group: str) -> None:
    send(sqs, queue, MessageGroupId=group)
    message = receive_one(sqs, queue, MessageSystemAttributeNames=["MessageGroupId"])
    assert message["Attributes"] == {"MessageGroupId": group}


# --- receiving ----------------------------------------------------------------------------------


@covers("0.2.max-number-of-messages", "0.2.wait-time", "0.2.visibility-timeout")
def test_both_ends_of_what_a_receive_takes_are_accepted(sqs: Client, queue: str) -> None:
    for _ in range(12):
        send(sqs, queue)
    assert len(sqs.call("ReceiveMessage", QueueUrl=queue)["Messages"]) == 1
    assert len(receive(sqs, queue, MaxNumberOfMessages=1, WaitTimeSeconds=0)) == 1
    members = {"MaxNumberOfMessages": 10, "WaitTimeSeconds": 20, "VisibilityTimeout": 43_200}
    assert len(receive(sqs, queue, **members)) == 10
    assert receive(sqs, queue, VisibilityTimeout=0) == []


@covers("2.2.receive.unknown-name")
def test_unknown_and_absent_system_attributes_are_left_out(sqs: Client, queue: str) -> None:
    send(sqs, queue)
    names = ["Frobnicate", "MessageGroupId", "SenderId"]
    message = receive_one(sqs, queue, MessageSystemAttributeNames=names)
    assert set(message["Attributes"]) == {"SenderId"}


@covers("2.2.receive.odd-name")
@pytest.mark.parametrize("name", ["AWS.", "..foo", "foo!", "a" * 300])
def test_odd_attribute_names_match_nothing(sqs: Client, queue: str, name: str) -> None:
    send(sqs, queue, MessageAttributes={"k": text_attribute("x")})
    assert "MessageAttributes" not in receive_one(sqs, queue, MessageAttributeNames=[name])


# --- deleting and changing ----------------------------------------------------------------------


@covers("2.2.delete.idempotent", "5.4.delete.deleted", "5.4.delete.current")
def test_a_message_may_be_deleted_again_and_again(sqs: Client, queue: str) -> None:
    message = sent_and_received(sqs, queue)
    for _ in range(3):
        delete(sqs, queue, message)
    assert counts(sqs, queue) == (0, 0, 0)


@covers("2.2.change.range", "0.2.visibility-timeout")
@pytest.mark.parametrize("seconds", [-1, 43_201])
def test_a_timeout_out_of_range_is_refused(sqs: Client, queue: str, seconds: int) -> None:
    message = sent_and_received(sqs, queue)
    refusal = sqs.refused(
        "ChangeMessageVisibility",
        QueueUrl=queue,
        ReceiptHandle=message["ReceiptHandle"],
        VisibilityTimeout=seconds,
    )
    text = value_text(seconds, "VisibilityTimeout", "Must be between 0 and 43200.")
    refusal.assert_is(INVALID_PARAMETER, text)


@covers("2.2.change.total", "0.2.visibility-total", "5.4.budget")
def test_twelve_hours_count_from_the_receive(sqs: Client, queue: str) -> None:
    message = sent_and_received(sqs, queue)
    # The budget is counted in milliseconds: let some pass.
    time.sleep(0.01)
    refusal = sqs.refused(
        "ChangeMessageVisibility",
        QueueUrl=queue,
        ReceiptHandle=message["ReceiptHandle"],
        VisibilityTimeout=43_200,
    )
    reason = "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]"
    refusal.assert_is(INVALID_PARAMETER, value_text(43_200, "VisibilityTimeout", reason))
    change(sqs, queue, message, 43_190)


@covers("2.2.change.deleted", "5.4.change.deleted", "5.4.not-in-flight")
def test_a_deleted_message_cannot_be_changed(sqs: Client, queue: str) -> None:
    message = sent_and_received(sqs, queue)
    delete(sqs, queue, message)
    members = {"ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 1}
    refusal = sqs.refused("ChangeMessageVisibility", QueueUrl=queue, **members)
    refusal.assert_is(INVALID_PARAMETER, deleted_text(message))


@covers("5.4.delete.purged", "5.4.change.purged")
def test_a_purged_message_is_as_good_as_deleted(sqs: Client, queue: str) -> None:
    message = sent_and_received(sqs, queue)
    sqs.call("PurgeQueue", QueueUrl=queue)
    members = {"ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 1}
    refusal = sqs.refused("ChangeMessageVisibility", QueueUrl=queue, **members)
    refusal.assert_is(INVALID_PARAMETER, deleted_text(message))
    delete(sqs, queue, message)


@covers("5.4.other-queue")
def test_a_handle_of_another_queue_is_invalid(sqs: Client, queue: str) -> None:
    message = sent_and_received(sqs, queue)
    handle = {"ReceiptHandle": message["ReceiptHandle"]}
    other = new_queue(sqs)
    sqs.refused("DeleteMessage", QueueUrl=other, **handle).assert_is(kinds.HANDLE)
    changed = handle | {"VisibilityTimeout": 0}
    sqs.refused("ChangeMessageVisibility", QueueUrl=other, **changed).assert_is(kinds.HANDLE)
    assert counts(sqs, queue) == (0, 1, 0)
