"""The checks of the actions on queues: create, find, list. As `validate.py` does for messages.

Pure. A request Struct goes in, a small value that may be trusted comes out.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from fastnode.config import LIST_PAGE_MAX
from fastnode.queue.api import (
    CreateQueueRequest,
    GetQueueUrlRequest,
    ListDeadLetterSourceQueuesRequest,
    ListQueuesRequest,
)
from fastnode.queue.attributes import parse_create
from fastnode.queue.errors import invalid_parameter, queue_does_not_exist
from fastnode.queue.queue_url import is_account, is_queue_name, required_name

TAGS_MAX: Final = 50
TAG_KEY_LENGTH_MAX: Final = 128
TAG_VALUE_LENGTH_MAX: Final = 256


# --- CreateQueue --------------------------------------------------------------------------------


class ValidCreate(Struct, frozen=True):
    name: str
    attributes: dict[str, str]
    supplied: Mapping[str, str]
    tags: Mapping[str, str]


def create_queue(request: CreateQueueRequest) -> ValidCreate:
    """`attributes` is what a new queue stores, `supplied` what an existing one is compared with."""
    name = required_name(request.queue_name)
    supplied = request.attributes or {}
    attributes = parse_create(supplied, name)
    tags = request.tags or request.tags_capitalised or {}
    check_tags(name, tags)
    return ValidCreate(name, attributes, supplied, tags)


def check_tags(queue_name: str, tags: Mapping[str, str]) -> None:
    if len(tags) > TAGS_MAX:
        raise invalid_parameter(f"Too many tags added for queue {queue_name}.")
    for key, value in tags.items():
        check_tag_key(key)
        if len(value) > TAG_VALUE_LENGTH_MAX:
            raise invalid_parameter("Tag values must be between 0 and 256 characters in length.")
        if key.lower().startswith("aws:"):
            raise invalid_parameter("Tag keys that start with aws: are reserved for system use.")


def check_tag_key(key: str) -> None:
    if not 1 <= len(key) <= TAG_KEY_LENGTH_MAX:
        raise invalid_parameter("Tag keys must be between 1 and 128 characters in length.")


# --- GetQueueUrl --------------------------------------------------------------------------------


def get_queue_url(request: GetQueueUrlRequest) -> tuple[str | None, str]:
    """The owner (None is the caller) and the name; what cannot name a queue does not exist."""
    name = required_name(request.queue_name)
    owner = request.queue_owner_aws_account_id or None
    if not is_queue_name(name) or (owner is not None and not is_account(owner)):
        raise queue_does_not_exist()
    return owner, name


# --- ListQueues and ListDeadLetterSourceQueues --------------------------------------------------


class ValidList(Struct, frozen=True):
    """A page: at most `limit` names that start with `prefix` (any text) and sort after `after`."""

    prefix: str
    after: str
    limit: int
    gives_token: bool


# The first byte is the version of the token's form.
_TOKEN_VERSION: Final = b"\x01"


def list_queues(request: ListQueuesRequest) -> ValidList:
    return _page(request.queue_name_prefix or "", request.max_results, request.next_token)


def list_dead_letter_source_queues(request: ListDeadLetterSourceQueuesRequest) -> ValidList:
    return _page("", request.max_results, request.next_token)


def _page(prefix: str, limit: int | None, token: str | None) -> ValidList:
    """Without `MaxResults` there is one page and never a token."""
    if limit is not None and not 1 <= limit <= LIST_PAGE_MAX:
        reason = f"MaxResults must be an integer between 1 and {LIST_PAGE_MAX}."
        raise invalid_parameter(f"Value for parameter MaxResults is invalid. Reason: {reason}")
    after = decode_next_token(token) if token else ""
    return ValidList(prefix, after, limit or LIST_PAGE_MAX, limit is not None)


def encode_next_token(last_name: str) -> str:
    """A token is the last name shown: it survives the creation and deletion of other queues."""
    return base64.urlsafe_b64encode(_TOKEN_VERSION + last_name.encode()).decode()


def decode_next_token(token: str) -> str:
    try:
        opened = base64.b64decode(token.encode(), altchars=b"-_", validate=True)
        name = opened.removeprefix(_TOKEN_VERSION).decode("ascii")
    except (binascii.Error, UnicodeError):
        raise invalid_parameter("Invalid or expired next token.") from None
    if not is_queue_name(name) or encode_next_token(name) != token:
        raise invalid_parameter("Invalid or expired next token.")
    return name
