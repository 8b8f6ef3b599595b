"""The contract, section 8.4: message move tasks, as far as nothing has to take its time."""

import base64
import json
from typing import Any

import pytest

from tests.conformance.client import ACCOUNT, REGION, UUID, Client
from tests.conformance.contract import covers
from tests.conformance.kinds import INVALID_PARAMETER, MISSING_PARAMETER, NOT_FOUND
from tests.conformance.kit import (
    Refusal,
    arn_of,
    bodies,
    counts,
    each_refusal,
    name_of,
    new_queue,
    receive,
    receive_one,
    redrive_policy,
    send,
    text_attribute,
    until,
)
from tests.conformance.texts import missing_text, no_resource_text

ABSENT_ARN = f"arn:aws:sqs:{REGION}:{ACCOUNT}:no-such-queue"
TASK_ID = "12345678-1234-1234-1234-123456789012"
STATUSES = {"RUNNING", "COMPLETED", "CANCELLING", "CANCELLED", "FAILED"}


def encoded_handle(source_arn: str) -> str:
    text = json.dumps({"taskId": TASK_ID, "sourceArn": source_arn})
    return base64.b64encode(text.encode()).decode()


def arn_text(member: str) -> str:
    form = "arn:<partition>:<service>:<region>:<account-id>:<resource-id>"
    return f"You must use this format to specify the {member}: {form}"


REFUSALS = [
    Refusal(
        "8.4.start.no-source",
        "StartMessageMoveTask",
        {},
        MISSING_PARAMETER,
        missing_text("SourceArn"),
    ),
    Refusal(
        "8.4.start.not-an-arn",
        "StartMessageMoveTask",
        {"SourceArn": "queue"},
        INVALID_PARAMETER,
        arn_text("SourceArn"),
    ),
    Refusal(
        "8.4.start.unknown-source 1.6.resource-not-found",
        "StartMessageMoveTask",
        {"SourceArn": ABSENT_ARN},
        NOT_FOUND,
        no_resource_text("SourceArn"),
    ),
    Refusal(
        "8.4.list.unknown",
        "ListMessageMoveTasks",
        {"SourceArn": ABSENT_ARN},
        NOT_FOUND,
        no_resource_text("SourceArn"),
    ),
    *(
        Refusal(
            "8.4.cancel.bad-handle",
            "CancelMessageMoveTask",
            {"TaskHandle": handle},
            INVALID_PARAMETER,
            "Value for parameter TaskHandle is invalid.",
        )
        for handle in ("garbage!", "AAAA", base64.b64encode(b"{}").decode())
    ),
    Refusal(
        "8.4.cancel.unknown-source",
        "CancelMessageMoveTask",
        {"TaskHandle": encoded_handle(ABSENT_ARN)},
        NOT_FOUND,
        no_resource_text("SourceArn"),
    ),
]


@each_refusal(REFUSALS)
def test_refused(sqs: Client, refusal: Refusal) -> None:
    refusal.check(sqs)


def dead_letter_queue(sqs: Client) -> tuple[str, str]:
    """A queue and a source that sends its dead letters there after one receive."""
    queue = new_queue(sqs)
    policy = redrive_policy(queue)
    return queue, new_queue(sqs, RedrivePolicy=policy, VisibilityTimeout="0")


def kill(sqs: Client, source: str, dead_letters: str, *messages: str) -> None:
    """Send messages and let them die."""
    before = counts(sqs, dead_letters)[0]
    for body in messages:
        send(sqs, source, body, MessageAttributes={"k": text_attribute(body)})

    def are_dead() -> bool:
        receive(sqs, source)
        return counts(sqs, dead_letters)[0] == before + len(messages)

    until(are_dead)


def start(sqs: Client, source: str, **members: Any) -> str:
    answer = sqs.call("StartMessageMoveTask", SourceArn=arn_of(source), **members)
    handle: str = answer["TaskHandle"]
    return handle


def tasks(sqs: Client, source: str, **members: Any) -> list[dict[str, Any]]:
    answer = sqs.call("ListMessageMoveTasks", SourceArn=arn_of(source), **members)
    found: list[dict[str, Any]] = answer.get("Results", [])
    return found


def finished(sqs: Client, source: str) -> dict[str, Any]:
    until(lambda: tasks(sqs, source)[0]["Status"] not in ("RUNNING", "CANCELLING"))
    return tasks(sqs, source)[0]


# --- starting -----------------------------------------------------------------------------------


@covers("8.4.start.no-dead-letters")
def test_a_source_must_be_a_dead_letter_queue(sqs: Client, queue: str) -> None:
    refusal = sqs.refused("StartMessageMoveTask", SourceArn=arn_of(queue))
    text = "Source queue must be configured as a Dead Letter Queue."
    refusal.assert_is(INVALID_PARAMETER, text)


@covers("8.4.start.not-an-arn", "8.4.start.unknown-destination", "8.4.start.same")
@covers("8.4.start.rate", "0.2.move-rate")
@pytest.mark.parametrize(
    ("members", "kind", "text"),
    [
        ({"DestinationArn": "queue"}, INVALID_PARAMETER, arn_text("DestinationArn")),
        ({"DestinationArn": ABSENT_ARN}, NOT_FOUND, no_resource_text("DestinationArn")),
        (
            {"DestinationArn": "itself"},
            INVALID_PARAMETER,
            "Source queue arn and destination queue arn cannot be the same.",
        ),
        *(
            (
                {"MaxNumberOfMessagesPerSecond": rate},
                INVALID_PARAMETER,
                "Value for parameter MaxNumberOfMessagesPerSecond is invalid. Reason: You must "
                "enter a number that's between 1 and 500.",
            )
            for rate in (0, 501, -1)
        ),
    ],
)
def test_what_a_task_cannot_be_started_with(
    sqs: Client, members: dict[str, Any], kind: Any, text: str
) -> None:
    queue, _ = dead_letter_queue(sqs)
    if members.get("DestinationArn") == "itself":
        members = {"DestinationArn": arn_of(queue)}
    refusal = sqs.refused("StartMessageMoveTask", SourceArn=arn_of(queue), **members)
    refusal.assert_is(kind, text)


@covers("8.4.start.handle")
def test_a_handle_names_the_task_and_its_source(sqs: Client) -> None:
    queue, _ = dead_letter_queue(sqs)
    opened = json.loads(base64.b64decode(start(sqs, queue), validate=True))
    assert set(opened) == {"taskId", "sourceArn"}
    assert UUID.fullmatch(opened["taskId"])
    assert opened["sourceArn"] == arn_of(queue)


@covers("0.2.move-rate")
@pytest.mark.parametrize("rate", [1, 500])
def test_both_ends_of_the_rate_are_accepted(sqs: Client, rate: int) -> None:
    queue, _ = dead_letter_queue(sqs)
    start(sqs, queue, MaxNumberOfMessagesPerSecond=rate)
    assert tasks(sqs, queue)[0]["MaxNumberOfMessagesPerSecond"] == rate


# --- moving -------------------------------------------------------------------------------------


@covers("8.4.moves.back", "8.4.moves.kept", "8.4.moves.new", "8.4.moves.count")
@covers("11.new-id-on-redrive", "8.4.list.status", "8.4.list.handle", "8.4.list.source")
@covers("8.4.list.given", "8.4.list.numbers")
def test_messages_go_back_to_their_own_sources_as_new_ones(sqs: Client) -> None:
    queue, first = dead_letter_queue(sqs)
    second = new_queue(sqs, RedrivePolicy=redrive_policy(queue), VisibilityTimeout="0")
    kill(sqs, first, queue, "one")
    kill(sqs, second, queue, "two")
    everything = {"MessageAttributeNames": ["All"], "MessageSystemAttributeNames": ["All"]}
    dead = receive(sqs, queue, VisibilityTimeout=0, **everything)
    start(sqs, queue)
    task = finished(sqs, queue)
    moved = {
        "Status": "COMPLETED",
        "SourceArn": arn_of(queue),
        "ApproximateNumberOfMessagesMoved": 2,
        "ApproximateNumberOfMessagesToMove": 2,
    }
    started = task.pop("StartedTimestamp")
    assert task == moved
    assert type(started) is int and len(str(started)) == 13
    for source, body in ((first, "one"), (second, "two")):
        (old,) = (message for message in dead if message["Body"] == body)
        new = receive_one(sqs, source, WaitTimeSeconds=20, **everything)
        assert new["Body"] == body
        assert new["MessageAttributes"] == old["MessageAttributes"]
        assert new["MD5OfMessageAttributes"] == old["MD5OfMessageAttributes"]
        assert new["MessageId"] != old["MessageId"]
        assert new["Attributes"]["ApproximateReceiveCount"] == "1"
        assert int(new["Attributes"]["SentTimestamp"]) > int(old["Attributes"]["SentTimestamp"])
        assert "DeadLetterQueueSourceArn" not in new["Attributes"]
    assert counts(sqs, queue) == (0, 0, 0)


@covers("8.4.moves.destination", "8.4.list.given", "8.4.moves.oldest-first")
def test_messages_go_to_the_destination_oldest_first(sqs: Client) -> None:
    queue, source = dead_letter_queue(sqs)
    kill(sqs, source, queue, "one", "two", "three")
    destination = new_queue(sqs)
    start(sqs, queue, DestinationArn=arn_of(destination), MaxNumberOfMessagesPerSecond=500)
    task = finished(sqs, queue)
    assert task["Status"] == "COMPLETED"
    assert task["DestinationArn"] == arn_of(destination)
    assert task["MaxNumberOfMessagesPerSecond"] == 500
    until(lambda: counts(sqs, destination) == (3, 0, 0))
    assert bodies(receive(sqs, destination)) == ["one", "two", "three"]
    assert counts(sqs, source) == (0, 0, 0)


@covers("8.4.list.failed-source")
def test_a_message_without_a_source_fails_the_task(sqs: Client) -> None:
    queue, _ = dead_letter_queue(sqs)
    send(sqs, queue, "never was anywhere else")
    start(sqs, queue)
    task = finished(sqs, queue)
    assert task["Status"] == "FAILED"
    assert task["FailureReason"] == "CouldNotDetermineMessageSource"
    assert bodies(receive(sqs, queue)) == ["never was anywhere else"]


# --- cancelling and listing ---------------------------------------------------------------------


@covers("8.4.cancel.unknown-task")
def test_an_unknown_task_cannot_be_cancelled(sqs: Client) -> None:
    queue, _ = dead_letter_queue(sqs)
    refusal = sqs.refused("CancelMessageMoveTask", TaskHandle=encoded_handle(arn_of(queue)))
    refusal.assert_is(NOT_FOUND, "Task does not exist.")


@covers("8.4.cancel.not-running")
def test_a_finished_task_cannot_be_cancelled(sqs: Client) -> None:
    queue, _ = dead_letter_queue(sqs)
    handle = start(sqs, queue)
    assert finished(sqs, queue)["Status"] == "COMPLETED"
    sqs.refused("CancelMessageMoveTask", TaskHandle=handle).assert_is(INVALID_PARAMETER)


@covers("9.clean-tasks")
def test_a_recreated_queue_has_no_tasks(sqs: Client) -> None:
    queue, _ = dead_letter_queue(sqs)
    start(sqs, queue)
    finished(sqs, queue)
    sqs.call("DeleteQueue", QueueUrl=queue)
    sqs.call("CreateQueue", QueueName=name_of(queue))
    assert tasks(sqs, queue) == []


@covers("8.4.list.none")
def test_without_a_task_the_list_is_empty(sqs: Client) -> None:
    queue, _ = dead_letter_queue(sqs)
    assert tasks(sqs, queue) == []


@covers("8.4.list.newest", "8.4.list.keeps", "0.2.move-tasks-page", "8.4.list.status")
def test_the_last_ten_tasks_are_listed_newest_first(sqs: Client) -> None:
    queue, _ = dead_letter_queue(sqs)
    for rate in range(1, 12):
        start(sqs, queue, MaxNumberOfMessagesPerSecond=rate)
        finished(sqs, queue)
    ten = tasks(sqs, queue, MaxResults=10)
    assert [task["MaxNumberOfMessagesPerSecond"] for task in ten] == list(range(11, 1, -1))
    assert {task["Status"] for task in ten} <= STATUSES
    assert [task["MaxNumberOfMessagesPerSecond"] for task in tasks(sqs, queue)] == [11]
    for number in (0, 11):
        members = {"SourceArn": arn_of(queue), "MaxResults": number}
        sqs.refused("ListMessageMoveTasks", **members).assert_is(INVALID_PARAMETER)
