"""What a queue is called: its name, its URL and its ARN. Pure; whether it exists is not known here.

A URL names a queue by its last two path segments; the host is ignored, because clients reach a node
through names that it does not know. What cannot name any queue is a queue that does not exist.
"""

import re
from typing import Final

from fastnode.queue.errors import invalid_parameter, queue_does_not_exist

_STANDARD_MATCH: Final = re.compile(r"[A-Za-z0-9_-]{1,80}").fullmatch
_FIFO_MATCH: Final = re.compile(r"[A-Za-z0-9_-]{1,75}\.fifo").fullmatch
_ANY_MATCH: Final = re.compile(r"[A-Za-z0-9_-]{1,80}|[A-Za-z0-9_-]{1,75}\.fifo").fullmatch
# One look at the whole URL; the length of the name is what the expression leaves to be checked.
_URL_MATCH: Final = re.compile(r"(?:.*/([0-9]{12})/)?([A-Za-z0-9_-]{1,80}(?:\.fifo)?)/*").fullmatch
_ARN_MATCH: Final = re.compile(r"arn:[a-z-]+:sqs:([a-z0-9-]{1,32}):([0-9]{12}):([^:]+)").fullmatch
_ACCOUNT_MATCH: Final = re.compile(r"[0-9]{12}").fullmatch

_NAME_LENGTH_MAX: Final = 80
_FIFO_SUFFIX: Final = ".fifo"
_PARTITIONS: Final = (("cn-", "aws-cn"), ("us-gov-", "aws-us-gov"))

_STANDARD_NAME_TEXT: Final = (
    "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
)
_FIFO_NAME_TEXT: Final = (
    "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, "
    "must end with .fifo suffix and be 1 to 80 in length"
)


def resolve(queue_url: str | None) -> tuple[str | None, str]:
    """The account and name that a `QueueUrl` member means; a bare name means the caller's account.

    Both parts come out well formed, so that no client text reaches a key encoder unchecked.
    """
    match = _URL_MATCH(queue_url or "")
    if match is None or len(match[2]) > _NAME_LENGTH_MAX:
        raise queue_does_not_exist()
    return match[1], match[2]


def is_queue_name(name: str) -> bool:
    return _ANY_MATCH(name) is not None


def is_fifo_name(name: str) -> bool:
    return name.endswith(_FIFO_SUFFIX)


def is_account(account: str) -> bool:
    return _ACCOUNT_MATCH(account) is not None


def required_name(name: str | None) -> str:
    """The `QueueName` member, which must be there; its form is another question."""
    if name is None:
        reason = "Must specify a queue name."
        raise invalid_parameter(f"Value for parameter QueueName is invalid. Reason: {reason}")
    if not name:
        raise invalid_parameter("Queue name cannot be empty")
    return name


def check_new_name(name: str, *, is_fifo: bool) -> None:
    """A name that a queue of this type may be created with."""
    if not (_FIFO_MATCH if is_fifo else _STANDARD_MATCH)(name):
        raise invalid_parameter(_FIFO_NAME_TEXT if is_fifo else _STANDARD_NAME_TEXT)


def build_url(endpoint: str, account: str, name: str) -> str:
    """The URL that a node issues: on the endpoint where the client reached it."""
    return f"{endpoint}/{account}/{name}"


def build_arn(region: str, account: str, name: str) -> str:
    partition = next((p for prefix, p in _PARTITIONS if region.startswith(prefix)), "aws")
    return f"arn:{partition}:sqs:{region}:{account}:{name}"


def parse_arn(arn: str) -> tuple[str, str, str] | None:
    """Account, region and name of the queue that an ARN names; None if it names none."""
    match = _ARN_MATCH(arn)
    if match is None or not is_queue_name(match[3]):
        return None
    region, account, name = match.groups()
    return (account, region, name) if build_arn(region, account, name) == arn else None
