"""Section 8.1: the JSON of RedrivePolicy and RedriveAllowPolicy, every refusal with its text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from fastnode.queue import redrive_policy
from fastnode.queue.errors import SqsError
from fastnode.queue.redrive_policy import (
    RedriveAllowPolicy,
    RedrivePolicy,
    allows,
    check_target,
    normal_redrive_allow_policy,
    normal_redrive_policy,
    parse_redrive_allow_policy,
    parse_redrive_policy,
)

IPV = "InvalidParameterValueException"
IAV = "InvalidAttributeValue"
ARN = "arn:aws:sqs:us-east-1:000000000000:dead"
SOURCE = "arn:aws:sqs:us-east-1:000000000000:jobs"


def told(refusal: pytest.ExceptionInfo[SqsError]) -> tuple[str, str]:
    return refusal.value.row.shape, refusal.value.message


def policy(**members: object) -> str:
    return json.dumps(members)


# --- RedrivePolicy ------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 7, 1_000, "1", "7", "1000", "007"])
def test_policy_is_read_and_stored_with_a_number(count: int | str) -> None:
    text = policy(maxReceiveCount=count, deadLetterTargetArn=ARN)
    expected = RedrivePolicy("000000000000", "us-east-1", "dead", int(count))
    assert parse_redrive_policy(text) == expected
    stored = f'{{"deadLetterTargetArn":"{ARN}","maxReceiveCount":{int(count)}}}'
    assert normal_redrive_policy(text) == stored
    assert parse_redrive_policy(stored) == expected


@pytest.mark.parametrize(
    ("region", "partition"), [("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")]
)
def test_policy_keeps_the_partition_of_its_region(region: str, partition: str) -> None:
    arn = f"arn:{partition}:sqs:{region}:123456789012:d.fifo"
    stored = f'{{"deadLetterTargetArn":"{arn}","maxReceiveCount":3}}'
    assert normal_redrive_policy(stored) == stored


@pytest.mark.parametrize(
    "text",
    ["x", "[]", "5", "null", '"text"', "{", '{"maxReceiveCount":1,}', "[" * 100_000, "\ud800",
     "{" + " " * 8_192 + "}"],
)  # fmt: skip
def test_what_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(SqsError) as refusal:
        parse_redrive_policy(text)
    expected = (
        "Invalid value for the parameter RedrivePolicy. "
        "Reason: Redrive policy is not a valid JSON map."
    )
    assert told(refusal) == (IAV, expected)


NO_SUCH_TARGET = "Dead letter target does not exist."
NOT_AN_ARN = "Dead-letter target ARN should be fully qualified ARN."
NOT_SQS = "Only SQS queues are valid resources for deadLetterTargetArn."


def missing(member: str) -> str:
    return f"Redrive policy does not contain mandatory attribute: {member}."


def bad_count(value: str) -> str:
    range_text = "valid values are from 1 to 1000 both inclusive."
    return f"Invalid value for maxReceiveCount: {value}, {range_text}"


REFUSALS = [
    ("{}", missing("maxReceiveCount")),
    (policy(deadLetterTargetArn=ARN), missing("maxReceiveCount")),
    (policy(deadLetterTargetArn=ARN, maxReceiveCount=None), missing("maxReceiveCount")),
    (policy(maxReceiveCount=5), missing("deadLetterTargetArn")),
    *[
        (policy(deadLetterTargetArn=ARN, maxReceiveCount=value), bad_count(shown))
        for value, shown in [
            (0, "0"), (1_001, "1001"), (-1, "-1"), (1.5, "1.5"), (3.0, "3.0"), (True, "true"),
            ([], "[]"), ("", ""), ("0", "0"), ("1001", "1001"), (" 5", " 5"), ("5.0", "5.0"),
            ("-5", "-5"), ("five", "five"), ("\u0665", "\u0665"), ("9" * 5_000, "9" * 5_000),
            (10**30, str(10**30)),
        ]
    ],
    *[
        (policy(deadLetterTargetArn=arn, maxReceiveCount=5), NOT_AN_ARN)
        for arn in ("", "dead", "https://sqs/000000000000/dead", "arn:aws:sqs:us-east-1:dead",
                    ARN + ":more", "nra" + ARN[3:], 5, [ARN], "arn:aws:sqs:us-east-1::dead")
    ],
    *[
        (policy(deadLetterTargetArn=arn, maxReceiveCount=5), NOT_SQS)
        for arn in ("arn:aws:sns:us-east-1:000000000000:dead", ARN.replace("sqs", "SQS"))
    ],
    *[
        (policy(deadLetterTargetArn=arn, maxReceiveCount=5), NO_SUCH_TARGET)
        for arn in (ARN + "!", "arn:aws-cn:sqs:us-east-1:000000000000:dead", ARN + "x" * 80,
                    "arn:aws:sqs:cn-north-1:000000000000:dead")
    ],
    (policy(deadLetterTargetArn=ARN, maxReceiveCount=5, more=1),
     "Only following attributes are supported: [maxReceiveCount, deadLetterTargetArn]."),
]  # fmt: skip


@pytest.mark.parametrize(("text", "reason"), REFUSALS)
def test_policy_is_refused_with_its_text_and_the_reason(text: str, reason: str) -> None:
    with pytest.raises(SqsError) as refusal:
        parse_redrive_policy(text)
    expected = f"Value {text} for parameter RedrivePolicy is invalid. Reason: {reason}"
    assert told(refusal) == (IPV, expected)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
MEMBERS = st.fixed_dictionaries(
    {},
    optional={
        "deadLetterTargetArn": st.just(ARN) | JSON,
        "maxReceiveCount": st.integers(1, 1_000) | JSON,
        "redrivePermission": st.sampled_from(["allowAll", "byQueue"]) | JSON,
        "sourceQueueArns": st.lists(st.just(ARN)) | JSON,
    },
)


@given(st.text() | JSON.map(json.dumps) | MEMBERS.map(json.dumps))
def test_any_text_is_a_policy_in_normal_form_or_refused(text: str) -> None:
    for normal in (normal_redrive_policy, normal_redrive_allow_policy):
        try:
            stored = normal(text)
        except SqsError as error:
            assert error.row.shape in (IPV, IAV)
        else:
            assert normal(stored) == stored


# --- RedriveAllowPolicy -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"redrivePermission": "allowAll"}, RedriveAllowPolicy("allowAll")),
        ({"redrivePermission": "denyAll"}, RedriveAllowPolicy("denyAll")),
        ({"redrivePermission": "allowAll", "sourceQueueArns": []}, RedriveAllowPolicy("allowAll")),
        ({"sourceQueueArns": [SOURCE], "redrivePermission": "byQueue"},
         RedriveAllowPolicy("byQueue", (SOURCE,))),
        ({"redrivePermission": "byQueue", "sourceQueueArns": [f"{SOURCE}{n}" for n in range(10)]},
         RedriveAllowPolicy("byQueue", tuple(f"{SOURCE}{n}" for n in range(10)))),
    ],
)  # fmt: skip
def test_allow_policy_is_read(members: dict[str, object], expected: RedriveAllowPolicy) -> None:
    assert parse_redrive_allow_policy(policy(**members)) == expected


def test_allow_policy_is_stored_without_needless_characters() -> None:
    text = f'{{ "sourceQueueArns" : ["{SOURCE}"], "redrivePermission":"byQueue" }}'
    stored = f'{{"redrivePermission":"byQueue","sourceQueueArns":["{SOURCE}"]}}'
    assert normal_redrive_allow_policy(text) == stored
    assert normal_redrive_allow_policy('{"redrivePermission": "denyAll"}') == (
        '{"redrivePermission":"denyAll"}'
    )


@pytest.mark.parametrize(
    "text",
    ["x", "[]", "{}", "[" * 100_000, policy(redrivePermission="AllowAll"),
     policy(redrivePermission=["allowAll"]), policy(sourceQueueArns=[SOURCE]),
     policy(redrivePermission="denyAll", more=1),
     policy(redrivePermission="byQueue", sourceQueueArns=SOURCE),
     policy(redrivePermission="byQueue", sourceQueueArns=None),
     policy(redrivePermission="byQueue", sourceQueueArns=[5]),
     policy(redrivePermission="byQueue", sourceQueueArns=["jobs"]),
     policy(redrivePermission="byQueue", sourceQueueArns=[SOURCE.replace("sqs", "sns")])],
)  # fmt: skip
def test_allow_policy_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(SqsError) as refusal:
        parse_redrive_allow_policy(text)
    expected = (
        "Invalid value for the parameter RedriveAllowPolicy. Reason: Amazon SQS can't create the "
        "redrive allow policy, as it\u2019s in an unsupported format."
    )
    assert told(refusal) == (IAV, expected)


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"redrivePermission": "byQueue"},
         "When you specify the byQueue permission type, you must also specify one or more "
         "sourceQueueArns values."),
        ({"redrivePermission": "byQueue", "sourceQueueArns": []},
         "When you specify the byQueue permission type, you must also specify one or more "
         "sourceQueueArns values."),
        ({"redrivePermission": "allowAll", "sourceQueueArns": [SOURCE]},
         "To specify one or more source queue ARNs, you must set redrivePermission to byQueue."),
        ({"redrivePermission": "denyAll", "sourceQueueArns": [SOURCE]},
         "To specify one or more source queue ARNs, you must set redrivePermission to byQueue."),
        ({"redrivePermission": "byQueue", "sourceQueueArns": [SOURCE] * 11},
         "The maximum number of source queue ARNs you can specify is 10."),
    ],
)  # fmt: skip
def test_allow_policy_is_refused_with_its_text(members: dict[str, object], reason: str) -> None:
    text = policy(**members)
    with pytest.raises(SqsError) as refusal:
        parse_redrive_allow_policy(text)
    expected = (
        f"Value {text} for parameter RedriveAllowPolicy is invalid. "
        f"Reason: Amazon SQS can't create the redrive allow policy. {reason}"
    )
    assert told(refusal) == (IPV, expected)


# --- Both queues --------------------------------------------------------------------------------


class Queue(Struct, frozen=True):
    is_fifo: bool = False
    redrive_allow: RedriveAllowPolicy | None = None


@pytest.mark.parametrize(
    ("allow", "is_allowed"),
    [
        (None, True),
        (RedriveAllowPolicy("allowAll"), True),
        (RedriveAllowPolicy("denyAll"), False),
        (RedriveAllowPolicy("byQueue", (ARN, SOURCE)), True),
        (RedriveAllowPolicy("byQueue", (ARN, SOURCE + "2")), False),
    ],
)
def test_target_admits_whom_its_policy_names(
    allow: RedriveAllowPolicy | None, is_allowed: bool
) -> None:
    assert allows(Queue(redrive_allow=allow), SOURCE) is is_allowed


@pytest.mark.parametrize(
    ("is_own", "target", "reason"),
    [
        (False, None, "Dead-letter target owner should be same as the source."),
        (True, None, NO_SUCH_TARGET),
        (True, Queue(is_fifo=True), "Dead-letter queue must be same type of queue as the source."),
        (True, Queue(redrive_allow=RedriveAllowPolicy("denyAll")),
         "The redrive allow policy of the dead-letter queue does not permit this source."),
        (True, Queue(), None),
    ],
)  # fmt: skip
def test_target_must_suit_its_source(
    is_own: bool, target: Queue | None, reason: str | None
) -> None:
    if reason is None:
        check_target("{}", SOURCE, is_fifo=False, is_own=is_own, target=target)
        return
    with pytest.raises(SqsError) as refusal:
        check_target("{}", SOURCE, is_fifo=False, is_own=is_own, target=target)
    expected = f"Value {{}} for parameter RedrivePolicy is invalid. Reason: {reason}"
    assert told(refusal) == (IPV, expected)


def test_fifo_source_needs_a_fifo_target() -> None:
    check_target("{}", SOURCE, is_fifo=True, is_own=True, target=Queue(is_fifo=True))
    with pytest.raises(SqsError, match="must be same type"):
        check_target("{}", SOURCE, is_fifo=True, is_own=True, target=Queue())


def test_largest_policies_are_within_the_bound_of_the_text() -> None:
    arn = f"arn:aws-us-gov:sqs:us-gov-west-1:000000000000:{'q' * 80}"
    members = {"redrivePermission": "byQueue", "sourceQueueArns": [arn] * 10}
    assert len(json.dumps(members, indent=8)) < redrive_policy._CHARACTERS_MAX // 4
