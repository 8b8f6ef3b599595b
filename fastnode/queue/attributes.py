"""Queue attributes: what may be set, to what, and what a client is shown. Pure.

A queue stores only what was set explicitly, as the text that a client would read back; defaults are
added on the way out. `QueueSettings` is the same map decoded once, for the message path.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct

from fastnode.config import (
    DELAY_SECONDS_MAX,
    MESSAGE_BYTES_MAX,
    VISIBILITY_SECONDS_MAX,
    WAIT_SECONDS_MAX,
)
from fastnode.queue.errors import (
    SqsError,
    invalid_attribute_value,
    missing_parameter,
    sqs_error,
    unknown_attribute,
)
from fastnode.queue.fifo_attributes import (
    PARTITION_COUNT,
    check_new_partitions,
    check_same_partitions,
    check_throughput,
    parse_partition_count,
)
from fastnode.queue.policy import as_valid_policy
from fastnode.queue.queue_url import check_new_name
from fastnode.queue.redrive_policy import (
    RedriveAllowPolicy,
    RedrivePolicy,
    normal_redrive_allow_policy,
    normal_redrive_policy,
    parse_redrive_allow_policy,
    parse_redrive_policy,
)
from fastnode.queue.throttle import (
    ATTRIBUTE_NAMES,
    OFF,
    Limits,
    check_limits,
    limits_of,
    parse_amount,
)

# Normal form of a value, or None when it is not one; a parser with texts of its own raises them.
Parser = Callable[[str], str | None]

# --- Kinds of value -----------------------------------------------------------------------------

_DIGITS_MATCH: Final = re.compile(r"[0-9]{1,10}").fullmatch
_KEY_ID_LENGTH_MAX: Final = 2_048


def _whole_number(low: int, high: int) -> Parser:
    def parse(text: str) -> str | None:
        is_valid = _DIGITS_MATCH(text) and low <= int(text) <= high
        return str(int(text)) if is_valid else None

    return parse


def _word(*words: str) -> Parser:
    return lambda text: text if text in words else None


def _boolean(text: str) -> str | None:
    lowered = text.lower()
    return lowered if lowered in ("true", "false") else None


def _only_true(text: str) -> str | None:
    return "true" if text.lower() == "true" else None


def _key_id(text: str) -> str | None:
    return text if len(text) <= _KEY_ID_LENGTH_MAX else None


# --- The table ----------------------------------------------------------------------------------


class Rule(Struct, frozen=True):
    """One settable attribute. `default` is None when an unset attribute is not shown.

    An extension is not AWS's: it is stored only while it differs from its default, and unset it is
    shown to those who name it only.
    """

    name: str
    parse: Parser
    default: str | None = None
    is_fifo_only: bool = False
    is_removable: bool = False
    is_extension: bool = False


_RULES: Final = (
    Rule("VisibilityTimeout", _whole_number(0, VISIBILITY_SECONDS_MAX), "30"),
    Rule("DelaySeconds", _whole_number(0, DELAY_SECONDS_MAX), "0"),
    Rule("MaximumMessageSize", _whole_number(1_024, MESSAGE_BYTES_MAX), str(MESSAGE_BYTES_MAX)),
    Rule("MessageRetentionPeriod", _whole_number(60, 1_209_600), "345600"),
    Rule("ReceiveMessageWaitTimeSeconds", _whole_number(0, WAIT_SECONDS_MAX), "0"),
    Rule("SqsManagedSseEnabled", _boolean, "true"),
    Rule("Policy", as_valid_policy, is_removable=True),
    Rule("RedrivePolicy", normal_redrive_policy, is_removable=True),
    Rule("RedriveAllowPolicy", normal_redrive_allow_policy, is_removable=True),
    Rule("KmsMasterKeyId", _key_id, is_removable=True),
    Rule("KmsDataKeyReusePeriodSeconds", _whole_number(60, 86_400), "300"),
    Rule("FifoQueue", _only_true, is_fifo_only=True),
    Rule("ContentBasedDeduplication", _boolean, "false", is_fifo_only=True),
    Rule("DeduplicationScope", _word("queue", "messageGroup"), "queue", is_fifo_only=True),
    Rule(
        "FifoThroughputLimit",
        _word("perQueue", "perMessageGroupId"),
        "perQueue",
        is_fifo_only=True,
    ),
    Rule(PARTITION_COUNT, parse_partition_count, is_fifo_only=True, is_extension=True),
    *(Rule(name, parse_amount, OFF, is_extension=True) for name in ATTRIBUTE_NAMES),
)
RULES: Final = {rule.name: rule for rule in _RULES}
assert len(RULES) == len(_RULES), "duplicate rule in the attribute table"

_EXTENSIONS: Final = frozenset(rule.name for rule in _RULES if rule.is_extension)
_KMS_NAMES: Final = ("KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds")
# A standard queue does not know these two names at all; the other FIFO names get another text.
_UNKNOWN_ON_STANDARD: Final = ("FifoQueue", "ContentBasedDeduplication")


# --- Setting ------------------------------------------------------------------------------------


def parse_create(attributes: Mapping[str, str], name: str) -> dict[str, str]:
    """What a new queue stores; also decides whether this is a name for a queue of its type."""
    is_fifo = _only_true(attributes.get("FifoQueue", "")) is not None
    check_new_name(name, is_fifo=is_fifo)
    stored = _apply({}, _parse(attributes, is_fifo=is_fifo))
    check_new_partitions(stored)
    return stored


def parse_set(
    current: Mapping[str, str], changes: Mapping[str, str], partition_count: int = 1
) -> dict[str, str]:
    """What a queue stores after SetQueueAttributes; all changes are checked before any is made."""
    if not changes:
        raise missing_parameter("Attribute.Name")
    is_fifo = is_fifo_queue(current)
    if is_fifo and _boolean(changes.get("FifoQueue", "")) == "false":
        raise _queue_type_is_fixed()
    parsed = _parse(changes, is_fifo=is_fifo)
    check_same_partitions(_with_partitions(current, partition_count), parsed)
    return _apply(current, parsed)


def differing_attribute(
    stored: Mapping[str, str], supplied: Mapping[str, str], partition_count: int = 1
) -> str | None:
    """The first attribute of a repeated CreateQueue that is not what the queue has now.

    `supplied` has passed `parse_create`; only what it names is compared.
    """
    current = _with_partitions(stored, partition_count)
    for name, text in supplied.items():
        rule = RULES[name]
        if _parse_value(rule, text) != current.get(name, rule.default or ""):
            return name
    return None


def _parse(supplied: Mapping[str, str], *, is_fifo: bool) -> dict[str, str]:
    for name in supplied:
        _check_name(name, is_fifo=is_fifo)
    parsed = {name: _parse_value(RULES[name], text) for name, text in supplied.items()}
    if parsed.get("KmsMasterKeyId") and parsed.get("SqsManagedSseEnabled") == "true":
        raise _two_encryptions()
    return parsed


def _check_name(name: str, *, is_fifo: bool) -> None:
    rule = RULES.get(name)
    if rule is None or (not is_fifo and name in _UNKNOWN_ON_STANDARD):
        raise unknown_attribute(name)
    if rule.is_fifo_only and not is_fifo:
        text = f"You can specify the {name} only when FifoQueue is set to true."
        raise sqs_error("InvalidAttributeName", text)


def _parse_value(rule: Rule, text: str) -> str:
    if rule.is_removable and not text:
        return ""
    value = rule.parse(text)
    if value is None:
        raise invalid_attribute_value(rule.name)
    return value


def _apply(current: Mapping[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    kept = {name: text for name, text in current.items() if not _ends_with(name, changes)}
    merged = kept | _with_consequences(changes)
    check_throughput(merged)
    check_limits(merged)
    return {name: text for name, text in merged.items() if not _is_plain(RULES[name], text)}


def _ends_with(name: str, changes: Mapping[str, str]) -> bool:
    """Whether the changes end a stored value: KMS attributes go with the use of a KMS key."""
    ends_kms = changes.get("KmsMasterKeyId") == "" or changes.get("SqsManagedSseEnabled") == "true"
    return changes.get(name) == "" or (ends_kms and name in _KMS_NAMES)


def _is_plain(rule: Rule, text: str) -> bool:
    return rule.is_extension and text == rule.default


def _with_consequences(changes: Mapping[str, str]) -> dict[str, str]:
    """A KMS key switches the other encryption off; removing it takes the reuse period along."""
    added = {name: text for name, text in changes.items() if text}
    if changes.get("KmsMasterKeyId"):
        added["SqsManagedSseEnabled"] = "false"
    elif "KmsMasterKeyId" in changes:
        added.pop("KmsDataKeyReusePeriodSeconds", None)
    return added


def is_fifo_queue(stored: Mapping[str, str]) -> bool:
    return stored.get("FifoQueue") == "true"


def _queue_type_is_fixed() -> SqsError:
    reason = "Modifying queue type is not supported."
    text = f"Invalid value for the parameter FifoQueue. Reason: {reason}"
    return sqs_error("InvalidAttributeValue", text)


def _two_encryptions() -> SqsError:
    return sqs_error(
        "InvalidAttributeName",
        "You can use one type of server-side encryption (SSE) at one time. "
        "You can either enable KMS SSE or SQS SSE.",
    )


# --- The message path ---------------------------------------------------------------------------


class QueueSettings(Struct, frozen=True, gc=False):
    """The attributes that sending and receiving look at, decoded once per change."""

    visibility_timeout_ms: int
    delay_seconds: int
    maximum_message_size: int
    retention_ms: int
    wait_seconds: int
    is_fifo: bool
    has_content_based_deduplication: bool
    redrive: RedrivePolicy | None
    redrive_allow: RedriveAllowPolicy | None
    limits: Limits | None


def settings_of(stored: Mapping[str, str]) -> QueueSettings:
    def number(name: str) -> int:
        return int(stored.get(name) or RULES[name].default or 0)

    redrive, redrive_allow = stored.get("RedrivePolicy"), stored.get("RedriveAllowPolicy")
    return QueueSettings(
        visibility_timeout_ms=number("VisibilityTimeout") * 1_000,
        delay_seconds=number("DelaySeconds"),
        maximum_message_size=number("MaximumMessageSize"),
        retention_ms=number("MessageRetentionPeriod") * 1_000,
        wait_seconds=number("ReceiveMessageWaitTimeSeconds"),
        is_fifo=is_fifo_queue(stored),
        has_content_based_deduplication=stored.get("ContentBasedDeduplication") == "true",
        redrive=parse_redrive_policy(redrive) if redrive else None,
        redrive_allow=parse_redrive_allow_policy(redrive_allow) if redrive_allow else None,
        limits=limits_of(stored),
    )


# --- Showing ------------------------------------------------------------------------------------


class Computed(Struct, frozen=True):
    """What a queue shows and nobody sets."""

    arn: str
    created_ms: int
    modified_ms: int
    visible: int
    in_flight: int
    delayed: int
    partition_count: int = 1


_COMPUTED: Final[Mapping[str, Callable[[Computed], str]]] = {
    "QueueArn": lambda computed: computed.arn,
    "CreatedTimestamp": lambda computed: str(computed.created_ms // 1_000),
    "LastModifiedTimestamp": lambda computed: str(computed.modified_ms // 1_000),
    "ApproximateNumberOfMessages": lambda computed: str(computed.visible),
    "ApproximateNumberOfMessagesNotVisible": lambda computed: str(computed.in_flight),
    "ApproximateNumberOfMessagesDelayed": lambda computed: str(computed.delayed),
}


def shown_attributes(
    names: Iterable[str], stored: Mapping[str, str], computed: Computed
) -> dict[str, str]:
    """The answer of GetQueueAttributes: known names that have a value, in a stable order."""
    asked = list(names)
    for name in asked:
        if name not in RULES and name not in _COMPUTED and name != "All":
            raise unknown_attribute(name)
    settings = _shown_settings(_with_partitions(stored, computed.partition_count))
    everything = settings | {name: of(computed) for name, of in _COMPUTED.items()}
    wanted = set(asked)
    if "All" in wanted:
        wanted |= {name for name in everything if name in stored or name not in _EXTENSIONS}
    return {name: text for name, text in everything.items() if name in wanted}


def _shown_settings(stored: Mapping[str, str]) -> dict[str, str]:
    shown: dict[str, str] = {}
    for rule in _RULES:
        text = stored.get(rule.name, rule.default)
        if text is not None and _has_meaning(rule, stored):
            shown[rule.name] = text
    return shown


def _with_partitions(stored: Mapping[str, str], partition_count: int) -> dict[str, str]:
    """A count that nobody named is not stored among the attributes, yet the queue has one."""
    return {PARTITION_COUNT: str(partition_count), **stored}


def _has_meaning(rule: Rule, stored: Mapping[str, str]) -> bool:
    if rule.name == "KmsDataKeyReusePeriodSeconds":
        return "KmsMasterKeyId" in stored
    return not rule.is_fifo_only or is_fifo_queue(stored)
