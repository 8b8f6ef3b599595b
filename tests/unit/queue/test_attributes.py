"""Section 3: which attributes a queue takes, what it stores and what it shows."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.queue import attributes
from fastnode.queue.attributes import Computed, differing_attribute, parse_create, parse_set
from fastnode.queue.errors import SqsError
from fastnode.queue.redrive_policy import RedriveAllowPolicy, RedrivePolicy

COMPUTED = Computed("arn:aws:sqs:r:000000000000:q", 1_700_000_000_999, 1_700_000_060_000, 4, 2, 1)
FIFO = {"FifoQueue": "true"}


def refusal_of(supplied: Mapping[str, str], name: str = "q") -> tuple[str, str]:
    with pytest.raises(SqsError) as refusal:
        parse_create(supplied, name)
    return refusal.value.row.shape, refusal.value.message


# Section 3.1: ranges, ends included.
RANGES = [
    ("VisibilityTimeout", 0, 43_200),
    ("DelaySeconds", 0, 900),
    ("MaximumMessageSize", 1_024, 1_048_576),
    ("MessageRetentionPeriod", 60, 1_209_600),
    ("ReceiveMessageWaitTimeSeconds", 0, 20),
    ("KmsDataKeyReusePeriodSeconds", 60, 86_400),
]


@pytest.mark.parametrize(("name", "low", "high"), RANGES)
def test_number_is_accepted_at_both_ends_and_refused_beyond(name: str, low: int, high: int) -> None:
    for value in (low, high):
        assert parse_create({name: str(value)}, "q") == {name: str(value)}
    for value in (low - 1, high + 1):
        expected = ("InvalidAttributeValue", f"Invalid value for the parameter {name}.")
        assert refusal_of({name: str(value)}) == expected


# Section 3.3.
@pytest.mark.parametrize(
    "text", ["", " 6", "6 ", "5.5", "-1", "true", "1e2", "+5", "\u0665", "6\n", "9" * 5_000]
)
def test_number_must_be_an_integer_string(text: str) -> None:
    expected = ("InvalidAttributeValue", "Invalid value for the parameter DelaySeconds.")
    assert refusal_of({"DelaySeconds": text}) == expected


@pytest.mark.parametrize(
    "name",
    [
        "Nonsense",
        "",
        "All",
        "QueueArn",
        "CreatedTimestamp",
        "LastModifiedTimestamp",
        "ApproximateNumberOfMessages",
        "ApproximateNumberOfMessagesNotVisible",
        "ApproximateNumberOfMessagesDelayed",
        "delayseconds",
        # Section 2.1: a standard queue does not know these names.
        "ContentBasedDeduplication",
    ],
)
def test_unknown_and_read_only_names_are_refused_in_writes(name: str) -> None:
    expected = ("InvalidAttributeName", f"Unknown Attribute {name}.")
    assert refusal_of({name: "1"}) == expected
    with pytest.raises(SqsError) as refusal:
        parse_set({}, {name: "1"})
    assert (refusal.value.row.shape, refusal.value.message) == expected


STANDARD_NAME = (
    "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
)
FIFO_NAME = (
    "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, "
    "must end with .fifo suffix and be 1 to 80 in length"
)
HIGH_THROUGHPUT = (
    "The perMessageGroupId value is allowed only when the value for DeduplicationScope is "
    "messageGroup"
)
IPV = "InvalidParameterValueException"

CREATE_REFUSALS = [
    ("2.1-fifo-false", "q", {"FifoQueue": "false"}, "InvalidAttributeName",
     "Unknown Attribute FifoQueue."),
    ("2.1-scope", "q", {"DeduplicationScope": "queue"}, "InvalidAttributeName",
     "You can specify the DeduplicationScope only when FifoQueue is set to true."),
    ("2.1-limit", "q", {"FifoThroughputLimit": "perQueue"}, "InvalidAttributeName",
     "You can specify the FifoThroughputLimit only when FifoQueue is set to true."),
    ("2.1-fifo-name-without-type", "q.fifo", {}, IPV, STANDARD_NAME),
    ("2.1-fifo-type-without-name", "q", FIFO, IPV, FIFO_NAME),
    ("2.1-name-before-attributes", "q!", {"Nonsense": "1"}, IPV, STANDARD_NAME),
    ("3.3-boolean", "q", {"SqsManagedSseEnabled": "yes"}, "InvalidAttributeValue",
     "Invalid value for the parameter SqsManagedSseEnabled."),
    ("3.3-names-before-values", "q", {"DelaySeconds": "x", "Nonsense": "1"},
     "InvalidAttributeName", "Unknown Attribute Nonsense."),
    ("3.3-scope-word", "q.fifo", FIFO | {"DeduplicationScope": "group"}, "InvalidAttributeValue",
     "Invalid value for the parameter DeduplicationScope."),
    ("3.3-limit-word", "q.fifo", FIFO | {"FifoThroughputLimit": "perGroup"},
     "InvalidAttributeValue", "Invalid value for the parameter FifoThroughputLimit."),
    ("3.3-fifo-boolean", "q.fifo", FIFO | {"ContentBasedDeduplication": "1"},
     "InvalidAttributeValue", "Invalid value for the parameter ContentBasedDeduplication."),
    ("3.3-throughput-with-other-scope", "q.fifo",
     FIFO | {"FifoThroughputLimit": "perMessageGroupId", "DeduplicationScope": "queue"},
     "InvalidAttributeValue", HIGH_THROUGHPUT),
    ("3.3-throughput", "q.fifo", FIFO | {"FifoThroughputLimit": "perMessageGroupId"},
     "InvalidAttributeValue", HIGH_THROUGHPUT),
    ("3.3-two-encryptions", "q", {"KmsMasterKeyId": "k", "SqsManagedSseEnabled": "True"},
     "InvalidAttributeName",
     "You can use one type of server-side encryption (SSE) at one time. "
     "You can either enable KMS SSE or SQS SSE."),
    ("key-id-bound", "q", {"KmsMasterKeyId": "k" * 2_049}, "InvalidAttributeValue",
     "Invalid value for the parameter KmsMasterKeyId."),
    ("8.1-redrive", "q", {"RedrivePolicy": "{}"}, IPV,
     "Value {} for parameter RedrivePolicy is invalid. Reason: Redrive policy does not contain "
     "mandatory attribute: maxReceiveCount."),
    ("8.1-allow", "q", {"RedriveAllowPolicy": "{}"}, "InvalidAttributeValue",
     "Invalid value for the parameter RedriveAllowPolicy. Reason: Amazon SQS can't create the "
     "redrive allow policy, as it\u2019s in an unsupported format."),
    ("3.4-no-policy", "q", {"Policy": "{}"}, "InvalidAttributeValue",
     "Invalid value for the parameter Policy."),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "supplied", "shape", "text"),
    [case[1:] for case in CREATE_REFUSALS],
    ids=[case[0] for case in CREATE_REFUSALS],
)
def test_create_is_refused(name: str, supplied: dict[str, str], shape: str, text: str) -> None:
    assert refusal_of(supplied, name) == (shape, text)


def test_values_are_stored_in_normal_form_and_defaults_are_not() -> None:
    supplied = {"DelaySeconds": "007", "SqsManagedSseEnabled": "False", "Policy": ""}
    assert parse_create(supplied, "q") == {"DelaySeconds": "7", "SqsManagedSseEnabled": "false"}
    assert parse_create({}, "q") == {}


TARGET_ARN = "arn:aws:sqs:us-east-1:000000000000:dead"
REDRIVE = f'{{"deadLetterTargetArn":"{TARGET_ARN}","maxReceiveCount":3}}'
REDRIVE_AS_SUPPLIED = f'{{"maxReceiveCount": "3", "deadLetterTargetArn": "{TARGET_ARN}"}}'
DENY = '{"redrivePermission":"denyAll"}'

# Section 3.3, SSE transitions, and 2.1, SetQueueAttributes: stored, changes, stored afterwards.
KMS = {"KmsMasterKeyId": "k", "KmsDataKeyReusePeriodSeconds": "600"}
SET_CASES: list[tuple[str, dict[str, str], dict[str, str], dict[str, str]]] = [
    ("merge", {"DelaySeconds": "1"}, {"VisibilityTimeout": "5"},
     {"DelaySeconds": "1", "VisibilityTimeout": "5"}),
    ("overwrite", {"DelaySeconds": "1"}, {"DelaySeconds": "2"}, {"DelaySeconds": "2"}),
    ("key-switches-sse-off", {"SqsManagedSseEnabled": "true"}, KMS,
     KMS | {"SqsManagedSseEnabled": "false"}),
    ("empty-key-removes-both", KMS | {"SqsManagedSseEnabled": "false"}, {"KmsMasterKeyId": ""},
     {"SqsManagedSseEnabled": "false"}),
    ("empty-key-with-period", KMS | {"SqsManagedSseEnabled": "false"},
     {"KmsMasterKeyId": "", "KmsDataKeyReusePeriodSeconds": "300"},
     {"SqsManagedSseEnabled": "false"}),
    ("sse-drops-kms", KMS | {"SqsManagedSseEnabled": "false"}, {"SqsManagedSseEnabled": "true"},
     {"SqsManagedSseEnabled": "true"}),
    ("empty-policies", {"DelaySeconds": "1"},
     {"Policy": "", "RedrivePolicy": "", "RedriveAllowPolicy": ""}, {"DelaySeconds": "1"}),
    ("key-replaces-key", KMS | {"SqsManagedSseEnabled": "false"}, {"KmsMasterKeyId": "k2"},
     KMS | {"KmsMasterKeyId": "k2", "SqsManagedSseEnabled": "false"}),
    ("key-with-sse-off", {}, {"KmsMasterKeyId": "k", "SqsManagedSseEnabled": "FALSE"},
     {"KmsMasterKeyId": "k", "SqsManagedSseEnabled": "false"}),
    ("from-key-to-sse-in-one-call", KMS | {"SqsManagedSseEnabled": "false"},
     {"KmsMasterKeyId": "", "SqsManagedSseEnabled": "true"}, {"SqsManagedSseEnabled": "true"}),
    ("sse-off-keeps-kms", KMS | {"SqsManagedSseEnabled": "false"},
     {"SqsManagedSseEnabled": "false"}, KMS | {"SqsManagedSseEnabled": "false"}),
    ("redrive-is-replaced", {"RedrivePolicy": REDRIVE}, {"RedrivePolicy": REDRIVE_AS_SUPPLIED},
     {"RedrivePolicy": REDRIVE}),
    ("empty-redrive-removes", {"RedrivePolicy": REDRIVE, "RedriveAllowPolicy": DENY},
     {"RedrivePolicy": ""}, {"RedriveAllowPolicy": DENY}),
    ("empty-allow-removes", {"RedrivePolicy": REDRIVE, "RedriveAllowPolicy": DENY},
     {"RedriveAllowPolicy": ""}, {"RedrivePolicy": REDRIVE}),
    ("fifo-again", {"FifoQueue": "true"}, {"FifoQueue": "True"}, {"FifoQueue": "true"}),
    ("messageGroup-scope-alone", {"FifoQueue": "true"}, {"DeduplicationScope": "messageGroup"},
     {"FifoQueue": "true", "DeduplicationScope": "messageGroup"}),
    ("empty-removes-stored", {"Policy": "{}", "DelaySeconds": "1"}, {"Policy": ""},
     {"DelaySeconds": "1"}),
    ("throughput-uses-stored-scope",
     {"FifoQueue": "true", "DeduplicationScope": "messageGroup"},
     {"FifoThroughputLimit": "perMessageGroupId"},
     {"FifoQueue": "true", "DeduplicationScope": "messageGroup",
      "FifoThroughputLimit": "perMessageGroupId"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("current", "changes", "after"), [c[1:] for c in SET_CASES], ids=[c[0] for c in SET_CASES]
)
def test_set_gives_the_whole_new_map(
    current: dict[str, str], changes: dict[str, str], after: dict[str, str]
) -> None:
    before = dict(current)
    assert parse_set(current, changes) == after
    assert current == before


@pytest.mark.parametrize(
    ("current", "changes", "shape", "text"),
    [
        ({}, {}, "MissingRequiredParameterException",
         "The request must contain the parameter Attribute.Name."),
        ({}, {"FifoQueue": "true"}, "InvalidAttributeName", "Unknown Attribute FifoQueue."),
        (FIFO, {"FifoQueue": "False"}, "InvalidAttributeValue",
         "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not "
         "supported."),
        ({}, {"DelaySeconds": "5", "VisibilityTimeout": "x"}, "InvalidAttributeValue",
         "Invalid value for the parameter VisibilityTimeout."),
        (FIFO, {"FifoThroughputLimit": "perMessageGroupId"}, "InvalidAttributeValue",
         HIGH_THROUGHPUT),
        (FIFO | {"FifoThroughputLimit": "perMessageGroupId", "DeduplicationScope": "messageGroup"},
         {"DeduplicationScope": "queue"}, "InvalidAttributeValue", HIGH_THROUGHPUT),
        ({}, {"KmsMasterKeyId": "k", "SqsManagedSseEnabled": "true"}, "InvalidAttributeName",
         "You can use one type of server-side encryption (SSE) at one time. "
         "You can either enable KMS SSE or SQS SSE."),
    ],
)  # fmt: skip
def test_set_is_refused(
    current: dict[str, str], changes: dict[str, str], shape: str, text: str
) -> None:
    with pytest.raises(SqsError) as refusal:
        parse_set(current, changes)
    assert (refusal.value.row.shape, refusal.value.message) == (shape, text)


# Section 2.1, idempotency of CreateQueue.
@pytest.mark.parametrize(
    ("stored", "supplied", "differing"),
    [
        ({"DelaySeconds": "5"}, {}, None),
        ({"DelaySeconds": "5"}, {"DelaySeconds": "5"}, None),
        ({"DelaySeconds": "5"}, {"DelaySeconds": "05"}, None),
        ({"DelaySeconds": "5"}, {"DelaySeconds": "6"}, "DelaySeconds"),
        ({}, {"VisibilityTimeout": "30"}, None),
        ({}, {"VisibilityTimeout": "31"}, "VisibilityTimeout"),
        ({"VisibilityTimeout": "31"}, {"VisibilityTimeout": "30"}, "VisibilityTimeout"),
        ({}, {"SqsManagedSseEnabled": "TRUE", "Policy": ""}, None),
        ({}, {"KmsMasterKeyId": "k"}, "KmsMasterKeyId"),
        ({}, {"DelaySeconds": "0", "VisibilityTimeout": "1"}, "VisibilityTimeout"),
        ({"RedrivePolicy": REDRIVE}, {"RedrivePolicy": REDRIVE_AS_SUPPLIED}, None),
        ({"RedrivePolicy": REDRIVE}, {"RedrivePolicy": ""}, "RedrivePolicy"),
        ({}, {"RedrivePolicy": "", "RedriveAllowPolicy": ""}, None),
        ({}, {"RedriveAllowPolicy": DENY}, "RedriveAllowPolicy"),
        ({"RedriveAllowPolicy": DENY}, {"RedriveAllowPolicy": f" {DENY} "}, None),
        ({}, {"ThrottleSendCapacity": "0"}, None),
        ({"ThrottleSendCapacity": "10"}, {"ThrottleSendCapacity": "0"}, "ThrottleSendCapacity"),
    ],
)
def test_repeated_create_names_the_differing_attribute(
    stored: dict[str, str], supplied: dict[str, str], differing: str | None
) -> None:
    assert differing_attribute(stored, supplied) == differing


VALID = st.fixed_dictionaries(
    {},
    optional={
        name: st.integers(low, high).map(str)
        for name, low, high in RANGES
        if not name.startswith("Kms")
    },
)


@given(VALID, VALID)
def test_create_then_the_same_create_never_differs(
    first: dict[str, str], second: dict[str, str]
) -> None:
    stored = parse_create(first, "q")
    assert differing_attribute(stored, first) is None
    if second:
        assert differing_attribute(parse_set(stored, second), second) is None


@given(VALID)
def test_settings_say_what_is_shown(supplied: dict[str, str]) -> None:
    stored = parse_create(supplied, "q")
    shown = attributes.shown_attributes(["All"], stored, COMPUTED)
    settings = attributes.settings_of(stored)
    assert settings.visibility_timeout_ms == int(shown["VisibilityTimeout"]) * 1_000
    assert settings.delay_seconds == int(shown["DelaySeconds"])
    assert settings.maximum_message_size == int(shown["MaximumMessageSize"])
    assert settings.retention_ms == int(shown["MessageRetentionPeriod"]) * 1_000
    assert settings.wait_seconds == int(shown["ReceiveMessageWaitTimeSeconds"])
    assert not settings.is_fifo
    assert not settings.has_content_based_deduplication


def test_settings_have_both_redrive_policies_decoded() -> None:
    plain = attributes.settings_of({})
    assert (plain.redrive, plain.redrive_allow) == (None, None)
    settings = attributes.settings_of({"RedrivePolicy": REDRIVE, "RedriveAllowPolicy": DENY})
    assert settings.redrive == RedrivePolicy("000000000000", "us-east-1", "dead", 3)
    assert settings.redrive_allow == RedriveAllowPolicy("denyAll")


def test_settings_of_a_fifo_queue() -> None:
    settings = attributes.settings_of(FIFO | {"ContentBasedDeduplication": "true"})
    assert settings.is_fifo
    assert settings.has_content_based_deduplication


# Section 3.1: `All` on a fresh queue has exactly 12 entries, on a FIFO queue 16.
FRESH = {
    "VisibilityTimeout": "30",
    "DelaySeconds": "0",
    "MaximumMessageSize": "1048576",
    "MessageRetentionPeriod": "345600",
    "ReceiveMessageWaitTimeSeconds": "0",
    "SqsManagedSseEnabled": "true",
    "QueueArn": "arn:aws:sqs:r:000000000000:q",
    "CreatedTimestamp": "1700000000",
    "LastModifiedTimestamp": "1700000060",
    "ApproximateNumberOfMessages": "4",
    "ApproximateNumberOfMessagesNotVisible": "2",
    "ApproximateNumberOfMessagesDelayed": "1",
}
FRESH_FIFO = FRESH | {
    "FifoQueue": "true",
    "ContentBasedDeduplication": "false",
    "DeduplicationScope": "queue",
    "FifoThroughputLimit": "perQueue",
}
WITH_KEY = {"KmsMasterKeyId": "k", "SqsManagedSseEnabled": "false"}


@pytest.mark.parametrize(
    ("names", "stored", "shown"),
    [
        (["All"], {}, FRESH),
        (["All"], FIFO, FRESH_FIFO),
        (["DelaySeconds", "All"], {}, FRESH),
        ([], {}, {}),
        (["Policy", "KmsMasterKeyId", "RedrivePolicy", "RedriveAllowPolicy"], {}, {}),
        (["FifoQueue", "ContentBasedDeduplication", "DeduplicationScope"], {}, {}),
        (["QueueArn", "DelaySeconds", "DelaySeconds"], {"DelaySeconds": "9"},
         {"DelaySeconds": "9", "QueueArn": "arn:aws:sqs:r:000000000000:q"}),
        (["All"], {"RedrivePolicy": REDRIVE, "RedriveAllowPolicy": DENY},
         FRESH | {"RedrivePolicy": REDRIVE, "RedriveAllowPolicy": DENY}),
        (["RedrivePolicy"], {"RedrivePolicy": REDRIVE}, {"RedrivePolicy": REDRIVE}),
        (["All"], WITH_KEY, FRESH | WITH_KEY | {"KmsDataKeyReusePeriodSeconds": "300"}),
        (["KmsDataKeyReusePeriodSeconds"], {"KmsDataKeyReusePeriodSeconds": "60"}, {}),
    ],
)  # fmt: skip
def test_shown_attributes(names: list[str], stored: dict[str, str], shown: dict[str, str]) -> None:
    assert attributes.shown_attributes(names, stored, COMPUTED) == shown


@pytest.mark.parametrize("name", ["", "Nonsense", "all", "QueueArn "])
def test_unknown_name_is_refused_when_reading(name: str) -> None:
    with pytest.raises(SqsError) as refusal:
        attributes.shown_attributes(["All", name], {}, COMPUTED)
    assert refusal.value.row.shape == "InvalidAttributeName"
    assert refusal.value.message == f"Unknown Attribute {name}."
