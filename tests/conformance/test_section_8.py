"""The contract, sections 8.1 to 8.3: dead-letter queues, their policies and their moves."""

import json
from typing import Any

import pytest

from tests.conformance import kinds
from tests.conformance.client import ACCOUNT, REGION, Client, claim
from tests.conformance.contract import covers
from tests.conformance.kinds import INVALID_PARAMETER
from tests.conformance.kit import (
    Refusal,
    arn_of,
    attributes,
    bodies,
    counts,
    each_refusal,
    name_of,
    new_name,
    new_queue,
    receive,
    receive_one,
    redrive_policy,
    send,
    set_attributes,
    text_attribute,
    until,
)
from tests.conformance.texts import MAX_RESULTS_TEXT, TOKEN_TEXT

ABSENT_ARN = f"arn:aws:sqs:{REGION}:{ACCOUNT}:no-such-queue"
TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793"
EVERYTHING = {"MessageAttributeNames": ["All"], "MessageSystemAttributeNames": ["All"]}


def reason_text(attribute: str, value: str, reason: str) -> str:
    return f"Value {value} for parameter {attribute} is invalid. Reason: {reason}"


def bad_redrive(rows: str, reason: str, **members: Any) -> Refusal:
    plain = {"deadLetterTargetArn": ABSENT_ARN, "maxReceiveCount": 1} | members
    value = json.dumps({key: one for key, one in plain.items() if one is not None})
    text = reason_text("RedrivePolicy", value, reason)
    named = {"Attributes": {"RedrivePolicy": value}}
    return Refusal(rows, "SetQueueAttributes", named, INVALID_PARAMETER, text)


def bad_allow(rows: str, reason: str, **members: Any) -> Refusal:
    value = json.dumps(members)
    text = reason_text("RedriveAllowPolicy", value, reason)
    named = {"Attributes": {"RedriveAllowPolicy": value}}
    return Refusal(rows, "SetQueueAttributes", named, INVALID_PARAMETER, text)


ALLOW = "Amazon SQS can't create the redrive allow policy. "
REFUSALS = [
    *(
        bad_redrive(
            "8.1.member-missing",
            f"Redrive policy does not contain mandatory attribute: {member}.",
            **{member: None},
        )
        for member in ("deadLetterTargetArn", "maxReceiveCount")
    ),
    *(
        bad_redrive(
            "8.1.count 0.2.max-receive-count",
            f"Invalid value for maxReceiveCount: {count}, valid values are from 1 to 1000 both "
            "inclusive.",
            maxReceiveCount=count,
        )
        for count in (0, 1_001, -1)
    ),
    bad_redrive("8.1.no-target", "Dead letter target does not exist."),
    bad_redrive(
        "8.1.not-sqs",
        "Only SQS queues are valid resources for deadLetterTargetArn.",
        deadLetterTargetArn=f"arn:aws:sns:{REGION}:{ACCOUNT}:topic",
    ),
    bad_redrive(
        "8.1.not-sqs",
        "Dead-letter target ARN should be fully qualified ARN.",
        deadLetterTargetArn="some-queue",
    ),
    bad_redrive(
        "8.1.extra-member",
        "Only following attributes are supported: [maxReceiveCount, deadLetterTargetArn].",
        extra="x",
    ),
    bad_allow(
        "8.1.allow-no-arns",
        ALLOW + "When you specify the byQueue permission type, you must also specify one or more "
        "sourceQueueArns values.",
        redrivePermission="byQueue",
    ),
    *(
        bad_allow(
            "8.1.allow-arns",
            ALLOW + "To specify one or more source queue ARNs, you must set redrivePermission to "
            "byQueue.",
            redrivePermission=permission,
            sourceQueueArns=[ABSENT_ARN],
        )
        for permission in ("allowAll", "denyAll")
    ),
    bad_allow(
        "8.1.allow-many-arns 0.2.source-queue-arns",
        ALLOW + "The maximum number of source queue ARNs you can specify is 10.",
        redrivePermission="byQueue",
        sourceQueueArns=[f"{ABSENT_ARN}-{number}" for number in range(11)],
    ),
    *(
        Refusal(
            "2.4.sources.bad-max 0.2.page",
            "ListDeadLetterSourceQueues",
            {"MaxResults": number},
            INVALID_PARAMETER,
            MAX_RESULTS_TEXT,
        )
        for number in (0, 1_001)
    ),
    Refusal(
        "2.4.sources.bad-token",
        "ListDeadLetterSourceQueues",
        {"MaxResults": 1, "NextToken": "garbage"},
        INVALID_PARAMETER,
        TOKEN_TEXT,
    ),
]


@each_refusal(REFUSALS)
def test_refused(sqs: Client, refusal: Refusal) -> None:
    refusal.check(sqs)


# --- configuration ------------------------------------------------------------------------------


@covers("8.1.not-json", "8.1.allow-format")
@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        *(
            ("RedrivePolicy", value, "Redrive policy is not a valid JSON map.")
            for value in ("nonsense", "[]", "1", '"text"')
        ),
        *(
            (
                "RedriveAllowPolicy",
                value,
                "Amazon SQS can't create the redrive allow policy, as it\u2019s in an unsupported "
                "format.",
            )
            for value in (
                "nonsense",
                "[]",
                "{}",
                '{"redrivePermission":"some"}',
                '{"redrivePermission":"allowAll","extra":"x"}',
            )
        ),
    ],
)
def test_a_policy_of_another_format_is_refused_with_its_reason(
    sqs: Client, queue: str, name: str, value: str, reason: str
) -> None:
    refusal = sqs.refused("SetQueueAttributes", QueueUrl=queue, Attributes={name: value})
    assert refusal.status == 400
    assert refusal.code in (INVALID_PARAMETER.code, kinds.ATTRIBUTE_VALUE.code)
    assert refusal.text == f"Invalid value for the parameter {name}. Reason: {reason}"


@covers("8.1.stored", "3.1.redrive", "0.2.max-receive-count")
@pytest.mark.parametrize(("count", "stored"), [(1, 1), ("5", 5), (1_000, 1_000)])
def test_a_redrive_policy_is_stored_with_a_number(
    sqs: Client, queue: str, count: int | str, stored: int
) -> None:
    source = new_queue(sqs, RedrivePolicy=redrive_policy(queue, count))
    text = f'{{"deadLetterTargetArn":"{arn_of(queue)}","maxReceiveCount":{stored}}}'
    assert attributes(sqs, source, "RedrivePolicy") == {"RedrivePolicy": text}
    assert attributes(sqs, source)["RedrivePolicy"] == text


@covers("8.1.itself")
def test_a_queue_may_be_its_own_target(sqs: Client, queue: str) -> None:
    set_attributes(sqs, queue, RedrivePolicy=redrive_policy(queue))


@covers("8.1.foreign")
@pytest.mark.parametrize("stranger", [claim("111111111111"), claim("test", "eu-west-1")])
def test_a_target_elsewhere_is_refused(sqs: Client, queue: str, stranger: Any) -> None:
    other = sqs.another(stranger)
    foreign = attributes(other, new_queue(other), "QueueArn")["QueueArn"]
    value = json.dumps({"deadLetterTargetArn": foreign, "maxReceiveCount": 1})
    refusal = sqs.refused("SetQueueAttributes", QueueUrl=queue, Attributes={"RedrivePolicy": value})
    refusal.assert_is(INVALID_PARAMETER)


@covers("8.1.allow-kinds", "8.1.forbidden", "11.allow-policy", "3.1.redrive-allow")
def test_the_target_decides_who_may_be_its_source(sqs: Client, queue: str) -> None:
    source = new_queue(sqs)
    wanted = {"RedrivePolicy": redrive_policy(queue)}
    own = [arn_of(source)]

    def allow(**policy: Any) -> None:
        set_attributes(sqs, queue, RedriveAllowPolicy=json.dumps(policy))
        shown = attributes(sqs, queue)["RedriveAllowPolicy"]
        assert json.loads(shown) == policy
        set_attributes(sqs, source, RedrivePolicy="")

    for forbidding in (
        {"redrivePermission": "denyAll"},
        {"redrivePermission": "byQueue", "sourceQueueArns": [ABSENT_ARN]},
    ):
        allow(**forbidding)
        refusal = sqs.refused("SetQueueAttributes", QueueUrl=source, Attributes=wanted)
        refusal.assert_is(INVALID_PARAMETER)
        name = new_name()
        sqs.refused("CreateQueue", QueueName=name, Attributes=wanted).assert_is(INVALID_PARAMETER)
    for admitting in (
        {"redrivePermission": "allowAll"},
        {"redrivePermission": "byQueue", "sourceQueueArns": own},
    ):
        allow(**admitting)
        set_attributes(sqs, source, **wanted)


@covers("0.2.source-queue-arns")
def test_ten_sources_may_be_named(sqs: Client, queue: str) -> None:
    arns = [f"{ABSENT_ARN}-{number}" for number in range(10)]
    value = json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": arns})
    set_attributes(sqs, queue, RedriveAllowPolicy=value)


# --- moving -------------------------------------------------------------------------------------


def source_of(sqs: Client, dead_letters: str, count: int = 1) -> str:
    """A queue whose messages are visible again at once."""
    policy = redrive_policy(dead_letters, count)
    return new_queue(sqs, RedrivePolicy=policy, VisibilityTimeout="0")


def dead_letter(sqs: Client, dead_letters: str) -> dict[str, Any]:
    return receive_one(sqs, dead_letters, WaitTimeSeconds=20, **EVERYTHING)


@covers("8.2.moves", "8.2.count-continues", "8.2.kept", "8.2.source-arn", "8.2.sent-kept")
@covers("8.2.group-kept", "4.4.dead-letter-source", "12.dead-letter-time", "4.4.count")
def test_a_message_moves_at_the_receive_after_its_last(sqs: Client, queue: str) -> None:
    source = source_of(sqs, queue)
    send(
        sqs,
        source,
        "letter",
        MessageGroupId="tenant",
        MessageAttributes={"k": text_attribute("x")},
        MessageSystemAttributes={"AWSTraceHeader": text_attribute(TRACE)},
    )
    before = receive_one(sqs, source, **EVERYTHING)
    assert before["Attributes"]["ApproximateReceiveCount"] == "1"
    assert "DeadLetterQueueSourceArn" not in before["Attributes"]
    assert receive(sqs, source) == []
    after = dead_letter(sqs, queue)
    kept = ("MessageId", "Body", "MD5OfBody", "MessageAttributes", "MD5OfMessageAttributes")
    assert [after[name] for name in kept] == [before[name] for name in kept]
    shown = after["Attributes"]
    assert shown["ApproximateReceiveCount"] == "2"
    assert shown["DeadLetterQueueSourceArn"] == arn_of(source)
    for name in ("SentTimestamp", "MessageGroupId", "AWSTraceHeader"):
        assert shown[name] == before["Attributes"][name]
    assert counts(sqs, source) == (0, 0, 0)


@covers("8.2.moves", "8.2.goes-on")
def test_the_receive_that_moves_goes_on_to_the_next_message(sqs: Client, queue: str) -> None:
    source = source_of(sqs, queue, 2)
    send(sqs, source, "first")
    for _ in range(2):
        assert bodies(receive(sqs, source)) == ["first"]
    send(sqs, source, "second")
    assert bodies(receive(sqs, source)) == ["second"]
    assert dead_letter(sqs, queue)["Body"] == "first"


@covers("8.2.available")
def test_a_moved_message_is_available_at_once(sqs: Client) -> None:
    dead_letters = new_queue(sqs, DelaySeconds="900")
    source = source_of(sqs, dead_letters)
    send(sqs, source, "letter")
    receive_one(sqs, source)
    assert receive(sqs, source) == []
    assert dead_letter(sqs, dead_letters)["Body"] == "letter"


@covers("8.2.no-queue")
def test_without_its_dead_letter_queue_a_source_delivers_on(sqs: Client, queue: str) -> None:
    source = source_of(sqs, queue)
    send(sqs, source, "letter")
    sqs.call("DeleteQueue", QueueUrl=queue)
    for _ in range(4):
        assert bodies(receive(sqs, source)) == ["letter"]


@covers("8.2.chains")
def test_dead_letters_may_have_dead_letters(sqs: Client, queue: str) -> None:
    middle = source_of(sqs, queue)
    source = source_of(sqs, middle)
    send(sqs, source, "letter")
    receive_one(sqs, source)
    assert receive(sqs, source) == []
    until(lambda: counts(sqs, middle) == (1, 0, 0))
    assert counts(sqs, queue) == (0, 0, 0)

    def has_moved_on() -> bool:
        receive(sqs, middle)
        return counts(sqs, queue) == (1, 0, 0)

    until(has_moved_on)
    assert dead_letter(sqs, queue)["Attributes"]["DeadLetterQueueSourceArn"] == arn_of(middle)


# --- sources ------------------------------------------------------------------------------------


@covers("2.4.sources.none", "8.3.current")
def test_sources_are_those_of_the_current_policies(sqs: Client, queue: str) -> None:
    assert sqs.call("ListDeadLetterSourceQueues", QueueUrl=queue) == {}
    first = new_queue(sqs, RedrivePolicy=redrive_policy(queue))
    second = new_queue(sqs)
    set_attributes(sqs, second, RedrivePolicy=redrive_policy(queue))

    def sources() -> list[str]:
        found: list[str] = sqs.call("ListDeadLetterSourceQueues", QueueUrl=queue).get(
            "queueUrls", []
        )
        return found

    assert set(sources()) == {first, second}
    set_attributes(sqs, first, RedrivePolicy="")
    assert sources() == [second]
    set_attributes(sqs, second, RedrivePolicy=redrive_policy(new_queue(sqs)))
    assert sources() == []
    set_attributes(sqs, second, RedrivePolicy=redrive_policy(queue))
    sqs.call("DeleteQueue", QueueUrl=second)
    assert sources() == []


@covers("2.4.sources.pages", "11.source-pages", "0.2.page")
def test_sources_come_in_pages(sqs: Client, queue: str) -> None:
    made = [new_queue(sqs, RedrivePolicy=redrive_policy(queue)) for _ in range(3)]
    found: list[str] = []
    members: dict[str, Any] = {"QueueUrl": queue, "MaxResults": 2}
    first = sqs.call("ListDeadLetterSourceQueues", **members)
    found += first["queueUrls"]
    second = sqs.call("ListDeadLetterSourceQueues", **members, NextToken=first["NextToken"])
    found += second["queueUrls"]
    assert [len(first["queueUrls"]), len(second["queueUrls"])] == [2, 1]
    assert "NextToken" not in second
    assert sorted(map(name_of, found)) == sorted(map(name_of, made))
    assert "NextToken" not in sqs.call("ListDeadLetterSourceQueues", QueueUrl=queue)
