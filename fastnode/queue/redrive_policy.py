"""RedrivePolicy and RedriveAllowPolicy: their JSON, its rules, and whom a target admits. Pure.

Whether a target exists is not known here; see `dead_letter_sources.py`.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct

from fastnode.queue.errors import SqsError, invalid_attribute_value, invalid_value
from fastnode.queue.queue_url import build_arn, is_queue_name

# Ten ARNs of the longest names need a fifth of it; refusals repeat the text.
_CHARACTERS_MAX: Final = 8_192
_RECEIVE_COUNT_MAX: Final = 1_000
_SOURCES_MAX: Final = 10
_ARN_PARTS: Final = 6

_REDRIVE_MEMBERS: Final = ("maxReceiveCount", "deadLetterTargetArn")
_ALLOW_MEMBERS: Final = ("redrivePermission", "sourceQueueArns")
_PERMISSIONS: Final = ("allowAll", "denyAll", "byQueue")

_NO_SUCH_TARGET: Final = "Dead letter target does not exist."
_NOT_CREATED: Final = "Amazon SQS can't create the redrive allow policy"


def _members(text: str) -> Mapping[str, Any] | None:
    """The members of a JSON object; None if the text is not one."""
    if len(text) > _CHARACTERS_MAX:
        return None
    try:
        decoded = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return decoded if isinstance(decoded, dict) else None


def _arn_parts(arn: object) -> list[str] | None:
    """The six parts of an ARN, or None if it is not one."""
    parts = arn.split(":") if isinstance(arn, str) else []
    return parts if len(parts) == _ARN_PARTS and parts[0] == "arn" and all(parts) else None


# --- Where dead letters go ----------------------------------------------------------------------


class RedrivePolicy(Struct, frozen=True, gc=False):
    """The target, and how often a message is received before it goes there."""

    account: str
    region: str
    name: str
    max_receive_count: int


class Target(Protocol):
    """What the rules look at in a dead-letter queue."""

    @property
    def is_fifo(self) -> bool: ...
    @property
    def redrive_allow(self) -> "RedriveAllowPolicy | None": ...


def parse_redrive_policy(text: str) -> RedrivePolicy:
    members = _members(text)
    if members is None:
        raise invalid_attribute_value("RedrivePolicy", "Redrive policy is not a valid JSON map.")
    if not set(members) <= set(_REDRIVE_MEMBERS):
        supported = ", ".join(_REDRIVE_MEMBERS)
        raise _refused(text, f"Only following attributes are supported: [{supported}].")
    for name in _REDRIVE_MEMBERS:
        if members.get(name) is None:
            raise _refused(text, f"Redrive policy does not contain mandatory attribute: {name}.")
    count = _receive_count(text, members["maxReceiveCount"])
    return RedrivePolicy(*_target(text, members["deadLetterTargetArn"]), count)


def normal_redrive_policy(text: str) -> str:
    """The form that is stored and shown: the count is a number, however it was written."""
    policy = parse_redrive_policy(text)
    arn = build_arn(policy.region, policy.account, policy.name)
    members = {"deadLetterTargetArn": arn, "maxReceiveCount": policy.max_receive_count}
    return msgspec.json.encode(members).decode()


def check_target(
    text: str, source_arn: str, *, is_fifo: bool, is_own: bool, target: Target | None
) -> None:
    """The rules that need to know both queues; `is_own`: the target has the source's owner."""
    if not is_own:
        raise _refused(text, "Dead-letter target owner should be same as the source.")
    if target is None:
        raise _refused(text, _NO_SUCH_TARGET)
    if target.is_fifo is not is_fifo:
        raise _refused(text, "Dead-letter queue must be same type of queue as the source.")
    if not allows(target, source_arn):
        reason = "The redrive allow policy of the dead-letter queue does not permit this source."
        raise _refused(text, reason)


def _receive_count(text: str, value: object) -> int:
    digits = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    is_number = digits.isascii() and digits.isdigit() and len(digits.lstrip("0")) <= 4
    if not is_number or not 1 <= int(digits) <= _RECEIVE_COUNT_MAX:
        reason = f"Invalid value for maxReceiveCount: {digits}, valid values are from 1 to 1000"
        raise _refused(text, f"{reason} both inclusive.")
    return int(digits)


def _target(text: str, arn: object) -> tuple[str, str, str]:
    parts = _arn_parts(arn)
    if parts is None:
        raise _refused(text, "Dead-letter target ARN should be fully qualified ARN.")
    _, _, service, region, account, name = parts
    if service != "sqs":
        raise _refused(text, "Only SQS queues are valid resources for deadLetterTargetArn.")
    if not is_queue_name(name) or build_arn(region, account, name) != arn:
        raise _refused(text, _NO_SUCH_TARGET)
    return account, region, name


def _refused(text: str, reason: str) -> SqsError:
    return invalid_value(text, "RedrivePolicy", reason)


# --- Whose dead letters are taken ---------------------------------------------------------------


class RedriveAllowPolicy(Struct, frozen=True):
    """`sources` are ARNs, and only `byQueue` has any."""

    permission: str
    sources: tuple[str, ...] = ()


def parse_redrive_allow_policy(text: str) -> RedriveAllowPolicy:
    members = _members(text)
    if members is None or not set(members) <= set(_ALLOW_MEMBERS):
        raise _unsupported_format()
    permission, sources = members.get("redrivePermission"), members.get("sourceQueueArns", [])
    if permission not in _PERMISSIONS or not _are_sqs_arns(sources):
        raise _unsupported_format()
    if permission == "byQueue" and not sources:
        reason = "When you specify the byQueue permission type, you must also specify one or more"
        raise _not_created(text, f"{reason} sourceQueueArns values.")
    if permission != "byQueue" and sources:
        reason = "To specify one or more source queue ARNs, you must set redrivePermission to"
        raise _not_created(text, f"{reason} byQueue.")
    if len(sources) > _SOURCES_MAX:
        reason = f"The maximum number of source queue ARNs you can specify is {_SOURCES_MAX}."
        raise _not_created(text, reason)
    return RedriveAllowPolicy(permission, tuple(sources))


def normal_redrive_allow_policy(text: str) -> str:
    """The form that is stored and shown."""
    policy = parse_redrive_allow_policy(text)
    members: dict[str, Any] = {"redrivePermission": policy.permission}
    if policy.sources:
        members["sourceQueueArns"] = policy.sources
    return msgspec.json.encode(members).decode()


def allows(target: Target, source_arn: str) -> bool:
    """Whether the target takes dead letters of the source; without a policy it takes all."""
    policy = target.redrive_allow
    return policy is None or policy.permission == "allowAll" or source_arn in policy.sources


def _are_sqs_arns(sources: object) -> bool:
    if not isinstance(sources, list):
        return False
    every_parts = [_arn_parts(source) for source in sources]
    return all(parts is not None and parts[2] == "sqs" for parts in every_parts)


def _unsupported_format() -> SqsError:
    # One apostrophe of this text is straight and the other one curly, as on AWS.
    reason = f"{_NOT_CREATED}, as it\N{RIGHT SINGLE QUOTATION MARK}s in an unsupported format."
    return invalid_attribute_value("RedriveAllowPolicy", reason)


def _not_created(text: str, reason: str) -> SqsError:
    return invalid_value(text, "RedriveAllowPolicy", f"{_NOT_CREATED}. {reason}")
