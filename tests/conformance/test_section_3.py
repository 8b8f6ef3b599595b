"""The contract, section 3: queue attributes."""

import json
import time
from typing import Any

import pytest

from tests.conformance import kinds
from tests.conformance.client import REGION, Client, claim
from tests.conformance.contract import covers
from tests.conformance.kinds import ATTRIBUTE_NAME, ATTRIBUTE_VALUE, OVER_LIMIT
from tests.conformance.kit import (
    Refusal,
    arn_of,
    attributes,
    counts,
    each_refusal,
    name_of,
    new_name,
    new_queue,
    receive,
    receive_one,
    send,
    set_attributes,
)

DEFAULTS = {
    "VisibilityTimeout": "30",
    "DelaySeconds": "0",
    "MaximumMessageSize": "1048576",
    "MessageRetentionPeriod": "345600",
    "ReceiveMessageWaitTimeSeconds": "0",
    "SqsManagedSseEnabled": "true",
}
COUNTS = [f"ApproximateNumberOfMessages{end}" for end in ("", "NotVisible", "Delayed")]
READ_ONLY = ["QueueArn", "CreatedTimestamp", "LastModifiedTimestamp", *COUNTS]
RANGES = {
    "VisibilityTimeout": (0, 43_200),
    "DelaySeconds": (0, 900),
    "MaximumMessageSize": (1_024, 1_048_576),
    "MessageRetentionPeriod": (60, 1_209_600),
    "ReceiveMessageWaitTimeSeconds": (0, 20),
    "KmsDataKeyReusePeriodSeconds": (60, 86_400),
}
RANGE_ROWS = {
    "VisibilityTimeout": "0.2.visibility-timeout",
    "DelaySeconds": "0.2.delay",
    "MaximumMessageSize": "0.2.maximum-message-size",
    "MessageRetentionPeriod": "0.2.retention",
    "KmsDataKeyReusePeriodSeconds": "3.1.kms-period",
}
ONE_ENCRYPTION = (
    "You can use one type of server-side encryption (SSE) at one time. "
    "You can either enable KMS SSE or SQS SSE."
)
ACTIONS = ["SendMessage", "ReceiveMessage", "DeleteMessage", "GetQueueUrl", "PurgeQueue"]
ACTIONS += ["GetQueueAttributes", "ChangeMessageVisibility", "ListDeadLetterSourceQueues"]


def statement(**members: Any) -> dict[str, Any]:
    plain = {"Effect": "Allow", "Principal": "*", "Action": "SQS:SendMessage", "Resource": "*"}
    return plain | members


def policy(*statements: dict[str, Any], **members: Any) -> str:
    whole = {"Version": "2012-10-17", "Statement": list(statements)} | members
    return json.dumps({name: value for name, value in whole.items() if value is not None})


def bad_set(rows: str, kind: kinds.Kind, text: str | None, **values: str) -> Refusal:
    return Refusal(rows, "SetQueueAttributes", {"Attributes": values}, kind, text)


def bad_value(rows: str, name: str, value: str) -> Refusal:
    text = f"Invalid value for the parameter {name}."
    return bad_set(rows, ATTRIBUTE_VALUE, text, **{name: value})


REFUSALS = [
    *(
        bad_value(f"3.3.number 3.1.ranges {RANGE_ROWS.get(name, '')}", name, str(number))
        for name, (low, high) in RANGES.items()
        for number in (low - 1, high + 1)
    ),
    *(
        bad_value("3.3.number 12.attribute-values", "VisibilityTimeout", text)
        for text in ("", " 6", "5.5", "-1", "true", "6 ", "0x10", "1_0", "\u0663", "9" * 40)
    ),
    bad_set(
        "3.3.unknown 9.case",
        ATTRIBUTE_NAME,
        "Unknown Attribute visibilitytimeout.",
        visibilitytimeout="1",
    ),
    *(
        bad_set("3.3.read-only", ATTRIBUTE_NAME, f"Unknown Attribute {name}.", **{name: "1"})
        for name in [*READ_ONLY, "All"]
    ),
    *(
        bad_value("3.3.boolean 3.1.sse", "SqsManagedSseEnabled", text)
        for text in ("yes", "1", "", "tru")
    ),
    bad_set(
        "3.3.two-encryptions 11.sse",
        ATTRIBUTE_NAME,
        ONE_ENCRYPTION,
        KmsMasterKeyId="alias/a",
        SqsManagedSseEnabled="true",
    ),
    *(
        bad_value("3.4.invalid", "Policy", text)
        for text in (
            "nonsense",
            "[]",
            '"text"',
            policy(),
            policy(statement(), Extra="x"),
            policy(statement(Extra="x")),
            policy(statement(), Version="2020-01-01"),
            policy(statement(), Statement=None),
        )
    ),
    bad_set(
        "3.4.many-actions 2.1.set.over-limit 0.2.policy-actions 1.6.over-limit",
        OVER_LIMIT,
        "8 actions were found in a statement from the submitted policy, max allowed is 7",
        Policy=policy(statement(Action=[f"SQS:{name}" for name in ACTIONS])),
    ),
    bad_set(
        "3.4.many-statements 2.1.set.over-limit 0.2.policy-statements",
        OVER_LIMIT,
        "21 statements were found in the submitted policy, max allowed is 20",
        Policy=policy(*(statement(Sid=f"s{number}") for number in range(21))),
    ),
    bad_set(
        "0.2.policy-principals",
        OVER_LIMIT,
        None,
        Policy=policy(statement(Principal={"AWS": [f"{number:012}" for number in range(51)]})),
    ),
    bad_set(
        "0.2.policy-conditions",
        OVER_LIMIT,
        None,
        Policy=policy(
            *(
                statement(Condition={"IpAddress": {"aws:SourceIp": f"10.0.0.{number}"}})
                for number in range(11)
            )
        ),
    ),
    bad_value("0.2.policy-size", "Policy", policy(statement(Sid="s" * 8_192))),
]


@each_refusal(REFUSALS)
def test_refused(sqs: Client, refusal: Refusal) -> None:
    refusal.check(sqs)


# --- what a queue shows -------------------------------------------------------------------------


@covers("3.1.defaults", "3.1.all-standard", "3.1.no-fifo-attributes", "3.1.counts", "11.sse")
@covers("11.one-mebibyte", "0.2.maximum-message-size", "0.2.retention")
def test_a_fresh_queue_shows_twelve_attributes(sqs: Client, queue: str) -> None:
    shown = attributes(sqs, queue)
    assert set(shown) == {*DEFAULTS, *READ_ONLY}
    assert {name: shown[name] for name in DEFAULTS} == DEFAULTS
    assert [shown[name] for name in COUNTS] == ["0"] * 3
    fifo = ["FifoQueue", "ContentBasedDeduplication", "DeduplicationScope", "FifoThroughputLimit"]
    assert attributes(sqs, queue, *fifo) == {}


@covers("3.1.stable-order")
def test_attributes_keep_their_order(sqs: Client, queue: str) -> None:
    first = list(attributes(sqs, queue))
    set_attributes(sqs, queue, DelaySeconds="1")
    assert list(attributes(sqs, queue)) == first


@covers("3.1.strings", only="json")
def test_every_value_is_a_string(sqs: Client, queue: str) -> None:
    assert all(type(value) is str for value in attributes(sqs, queue).values())


@covers("3.1.arn")
@pytest.mark.parametrize(
    ("region", "partition"),
    [(REGION, "aws"), ("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")],
)
def test_the_arn_names_partition_region_account_and_name(
    sqs: Client, region: str, partition: str
) -> None:
    own = sqs.another(claim("444444444444", region))
    url = new_queue(own)
    arn = f"arn:{partition}:sqs:{region}:444444444444:{name_of(url)}"
    assert attributes(own, url, "QueueArn") == {"QueueArn": arn}


@covers("3.1.ranges", *RANGE_ROWS.values())
@pytest.mark.parametrize("name", sorted(RANGES))
def test_both_ends_of_a_range_are_accepted(sqs: Client, queue: str, name: str) -> None:
    if name.startswith("Kms"):
        set_attributes(sqs, queue, KmsMasterKeyId="alias/a")
    for number in RANGES[name]:
        set_attributes(sqs, queue, **{name: str(number)})
        assert attributes(sqs, queue, name) == {name: str(number)}
        url = sqs.call(
            "CreateQueue",
            QueueName=new_name(),
            Attributes={name: str(number)} | ({"KmsMasterKeyId": "k"} if "Kms" in name else {}),
        )["QueueUrl"]
        assert attributes(sqs, url, name) == {name: str(number)}


@covers("3.1.sse", "3.2.booleans")
@pytest.mark.parametrize(
    ("given", "shown"), [("False", "false"), ("TRUE", "true"), ("false", "false")]
)
def test_booleans_are_shown_in_lower_case(sqs: Client, queue: str, given: str, shown: str) -> None:
    set_attributes(sqs, queue, SqsManagedSseEnabled=given)
    assert attributes(sqs, queue, "SqsManagedSseEnabled") == {"SqsManagedSseEnabled": shown}


# --- what attributes mean -----------------------------------------------------------------------


@covers("3.2.counts", "3.2.exact")
def test_counts_tell_available_received_and_delayed_apart(sqs: Client, queue: str) -> None:
    for number in range(6):
        send(sqs, queue, DelaySeconds=900 if number < 3 else 0)
    receive(sqs, queue, MaxNumberOfMessages=2)
    assert counts(sqs, queue) == (1, 2, 3)


@covers("3.2.counts-zero-timeout")
def test_a_receive_with_timeout_zero_leaves_a_message_visible(sqs: Client, queue: str) -> None:
    send(sqs, queue)
    receive_one(sqs, queue, VisibilityTimeout=0)
    assert counts(sqs, queue) == (1, 0, 0)


@covers("3.2.delay-change", "3.2.immediate")
def test_a_change_of_the_delay_affects_later_sends_only(sqs: Client, queue: str) -> None:
    send(sqs, queue)
    set_attributes(sqs, queue, DelaySeconds="900")
    send(sqs, queue)
    assert counts(sqs, queue) == (1, 0, 1)
    set_attributes(sqs, queue, DelaySeconds="0")
    assert counts(sqs, queue) == (1, 0, 1)


@covers("3.2.visibility-change")
def test_a_change_of_the_timeout_is_used_by_later_receives(sqs: Client, queue: str) -> None:
    send(sqs, queue)
    set_attributes(sqs, queue, VisibilityTimeout="0")
    assert len(receive(sqs, queue)) == 1
    set_attributes(sqs, queue, VisibilityTimeout="600")
    assert len(receive(sqs, queue)) == 1
    set_attributes(sqs, queue, VisibilityTimeout="0")
    assert receive(sqs, queue) == []


@covers("3.2.immediate")
def test_a_change_of_the_wait_holds_at_once(sqs: Client, queue: str) -> None:
    set_attributes(sqs, queue, ReceiveMessageWaitTimeSeconds="1", MaximumMessageSize="1024")
    sqs.refused("SendMessage", QueueUrl=queue, MessageBody="x" * 1_025)
    begun = time.monotonic()
    assert receive(sqs, queue) == []
    assert time.monotonic() - begun >= 0.9


# --- encryption ---------------------------------------------------------------------------------

SSE = ("KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds", "SqsManagedSseEnabled")


@covers("3.3.kms-set", "3.3.kms-removed", "3.1.kms-key", "3.1.kms-period", "11.sse")
def test_a_key_of_kms_replaces_our_encryption_and_goes_without_it(sqs: Client, queue: str) -> None:
    set_attributes(sqs, queue, KmsMasterKeyId="alias/never-checked")
    shown = attributes(sqs, queue)
    assert [shown[name] for name in SSE] == ["alias/never-checked", "300", "false"]
    set_attributes(sqs, queue, KmsMasterKeyId="", KmsDataKeyReusePeriodSeconds="300")
    assert attributes(sqs, queue, *SSE) == {"SqsManagedSseEnabled": "false"}


@covers("3.3.sse-set")
def test_our_encryption_drops_the_key(sqs: Client) -> None:
    queue = new_queue(sqs, KmsMasterKeyId="alias/a")
    set_attributes(sqs, queue, SqsManagedSseEnabled="true")
    assert attributes(sqs, queue, *SSE) == {"SqsManagedSseEnabled": "true"}


# --- policies -----------------------------------------------------------------------------------


@covers("3.4.fields", "3.4.unchanged", "3.1.policy", "0.2.policy-actions", "0.2.policy-statements")
@pytest.mark.parametrize("version", ["2008-10-17", "2012-10-17"])
def test_a_policy_comes_back_unchanged(sqs: Client, queue: str, version: str) -> None:
    seven = [f"SQS:{name}" for name in ACTIONS[:7]]
    statements = [
        statement(Sid="one", Resource=arn_of(queue), Action=seven),
        {
            "Effect": "Deny",
            "NotPrincipal": {"AWS": "arn:aws:iam::000000000000:root"},
            "NotAction": "SQS:*",
            "NotResource": arn_of(queue),
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        },
        *(statement(Sid=f"s{number}") for number in range(18)),
    ]
    text = policy(*statements, Version=version, Id="some-id")
    set_attributes(sqs, queue, Policy=text)
    assert json.loads(attributes(sqs, queue, "Policy")["Policy"]) == json.loads(text)
    single = policy(Version=version, Statement=statement())
    set_attributes(sqs, queue, Policy=single)
    assert json.loads(attributes(sqs, queue)["Policy"]) == json.loads(single)


@covers("0.2.policy-principals", "0.2.policy-conditions", "0.2.policy-size")
def test_a_policy_at_its_limits_is_accepted(sqs: Client, queue: str) -> None:
    fifty = {"AWS": [f"{number:012}" for number in range(50)]}
    ten = (
        statement(Condition={"IpAddress": {"aws:SourceIp": f"10.0.0.{number}"}})
        for number in range(10)
    )
    padding = 8_192 - len(policy(statement(), Id=""))
    for text in (
        policy(statement(Principal=fifty)),
        policy(*ten),
        policy(statement(), Id="x" * padding),
    ):
        set_attributes(sqs, queue, Policy=text)
