"""The checks of each action: a request Struct goes in, a small value that may be trusted comes out.

Pure. One function per action, its checks in the order of the contract; the handler has looked the
queue up before, because an unknown queue beats every other mistake. Attribute rules are in
`attributes.py` and `message_attributes.py`, the rules of whole batches in `batch.py`.
"""

from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from fastnode.config import (
    BATCH_ENTRIES_MAX,
    DELAY_SECONDS_MAX,
    RECEIVE_MESSAGES_MAX,
    VISIBILITY_SECONDS_MAX,
    WAIT_SECONDS_MAX,
)
from fastnode.native import encode_text
from fastnode.queue.api import (
    ChangeMessageVisibilityBatchRequestEntry,
    ChangeMessageVisibilityRequest,
    DeleteMessageBatchRequestEntry,
    DeleteMessageRequest,
    ReceiveMessageRequest,
    SendMessageBatchRequestEntry,
    SendMessageRequest,
)
from fastnode.queue.attributes import QueueSettings
from fastnode.queue.characters import is_token, utf8_size
from fastnode.queue.digest import Attribute
from fastnode.queue.errors import (
    invalid_message_contents,
    invalid_parameter,
    invalid_value,
    missing_parameter,
)
from fastnode.queue.message_attributes import (
    NO_EXTRAS,
    AttributeSelector,
    MessageExtras,
    attribute_selector,
    attributes_size,
    parse_attributes,
    parse_system_attributes,
    system_names,
)

D = TypeVar("D")


# Grammar and full stop as recorded; the batch entry has the sentence without its stop.
_NOT_FOR_THIS_TYPE: Final = "The request include parameter that is not valid for this queue type"


# --- SendMessage --------------------------------------------------------------------------------


class ValidSend(Struct, frozen=True, gc=False):
    """A message as it will be stored, and what its digests are computed from.

    `system_attributes` is what the request carried: a trace header that came with the HTTP request
    is in `extras` too, but not in the digest.
    """

    body: bytes
    extras: MessageExtras
    system_attributes: tuple[Attribute, ...]
    delay_seconds: int
    size_bytes: int


class SendWording(Struct, frozen=True):
    """Where the texts of a single send and of a batch entry differ."""

    body_member: str
    size_subject: str
    deduplication_id_text: str


SINGLE_SEND: Final = SendWording(
    body_member="MessageBody",
    size_subject="One or more parameters are invalid.",
    deduplication_id_text=(
        "Value {value} for parameter MessageDeduplicationId is invalid. Reason: "
        + _NOT_FOR_THIS_TYPE
        + "."
    ),
)


# By index of the entry; in the text, positions count from 1.
SEND_ENTRIES: Final = tuple(
    SendWording(
        body_member=f"SendMessageBatchRequestEntry.{index + 1}.MessageBody",
        size_subject="One or more parameters cannot be validated.",
        deduplication_id_text=_NOT_FOR_THIS_TYPE,
    )
    for index in range(BATCH_ENTRIES_MAX)
)


def send_message(
    request: SendMessageRequest | SendMessageBatchRequestEntry,
    settings: QueueSettings,
    trace_header: str | None = None,
    wording: SendWording = SINGLE_SEND,
) -> ValidSend:
    """`trace_header` is that of the HTTP request; one in the system attributes beats it."""
    body = encode_text(request.message_body or "")
    if body and trace_header is None and is_plain(request):
        size_bytes = len(body)
        if size_bytes <= settings.maximum_message_size:
            return ValidSend(body, NO_EXTRAS, (), settings.delay_seconds, size_bytes)
    return _send_with_extras(request, settings, trace_header, wording)


def is_plain(request: SendMessageRequest | SendMessageBatchRequestEntry) -> bool:
    """Nothing but a body, as most messages are: nothing else is left to check."""
    return (
        request.message_attributes is None
        and request.delay_seconds is None
        and request.message_group_id is None
        and request.message_system_attributes is None
        and request.message_deduplication_id is None
    )


def _send_with_extras(
    request: SendMessageRequest | SendMessageBatchRequestEntry,
    settings: QueueSettings,
    trace_header: str | None,
    wording: SendWording,
) -> ValidSend:
    body = _checked_body(request, wording)
    size_bytes = len(body)
    if request.message_attributes:
        size_bytes += attributes_size(request.message_attributes)
    if size_bytes > settings.maximum_message_size:
        limit = settings.maximum_message_size
        reason = f"Message must be shorter than {limit} bytes."
        raise invalid_parameter(f"{wording.size_subject} Reason: {reason}")
    delay_seconds = settings.delay_seconds
    if request.delay_seconds is not None:
        delay_seconds = _bounded(request.delay_seconds, _DELAY, delay_seconds)
    _check_ids(request, wording)
    attributes = parse_attributes(request.message_attributes)
    system_attributes = parse_system_attributes(request.message_system_attributes)
    if system_attributes:
        trace_header = system_attributes[0][2].decode()
    extras = _extras(request.message_group_id, trace_header, attributes)
    return ValidSend(body, extras, system_attributes, delay_seconds, size_bytes)


def message_size(request: SendMessageRequest | SendMessageBatchRequestEntry) -> int:
    """Bytes of body and attributes, whether or not they are valid."""
    size = utf8_size(request.message_body or "")
    return (
        size + attributes_size(request.message_attributes) if request.message_attributes else size
    )


def _checked_body(
    request: SendMessageRequest | SendMessageBatchRequestEntry, wording: SendWording
) -> bytes:
    if not request.message_body:
        raise missing_parameter(wording.body_member)
    body = encode_text(request.message_body)
    if body is None:
        raise invalid_message_contents()
    return body


def _check_ids(
    request: SendMessageRequest | SendMessageBatchRequestEntry, wording: SendWording
) -> None:
    """An empty id counts as given. A group names a tenant on a standard queue."""
    if request.message_group_id is not None:
        _check_token("MessageGroupId", request.message_group_id)
    value = request.message_deduplication_id
    if value is not None:
        _check_token("MessageDeduplicationId", value)
        raise invalid_parameter(wording.deduplication_id_text.format(value=value))


def _check_token(parameter: str, value: str) -> None:
    if not is_token(value):
        reason = "can only include alphanumeric and punctuation characters. 1 to 128 in length."
        raise invalid_value(value, parameter, f"{parameter} {reason}")


def _extras(
    group_id: str | None, trace_header: str | None, attributes: tuple[Attribute, ...]
) -> MessageExtras:
    if group_id is None and trace_header is None and not attributes:
        return NO_EXTRAS
    return MessageExtras(group_id, trace_header, attributes)


# --- ReceiveMessage -----------------------------------------------------------------------------


class ValidReceive(Struct, frozen=True, gc=False):
    """A receive with the queue's defaults filled in."""

    messages_max: int
    visibility_timeout_ms: int
    wait_seconds: int
    system_names: frozenset[str]
    selector: AttributeSelector


def receive_message(request: ReceiveMessageRequest, settings: QueueSettings) -> ValidReceive:
    messages_max = _bounded(request.max_number_of_messages, _MESSAGES, 1)
    wait_seconds = _bounded(request.wait_time_seconds, _WAIT, settings.wait_seconds)
    visibility_seconds = _bounded(request.visibility_timeout, _VISIBILITY, None)
    attempt_id = request.receive_request_attempt_id
    if attempt_id is not None:
        raise invalid_value(attempt_id, "ReceiveRequestAttemptId", _NOT_FOR_THIS_TYPE)
    return ValidReceive(
        messages_max,
        settings.visibility_timeout_ms if visibility_seconds is None else visibility_seconds * 1000,
        wait_seconds,
        system_names(request.message_system_attribute_names, request.attribute_names),
        attribute_selector(request.message_attribute_names),
    )


class Bounds(Struct, frozen=True):
    """The values that a number may take, and the sentence about others."""

    parameter: str
    allowed: range
    reason: str


_MESSAGES: Final = Bounds(
    "MaxNumberOfMessages",
    range(1, RECEIVE_MESSAGES_MAX + 1),
    f"Must be between 1 and {RECEIVE_MESSAGES_MAX}, if provided.",
)
_WAIT: Final = Bounds(
    "WaitTimeSeconds",
    range(WAIT_SECONDS_MAX + 1),
    f"Must be >= 0 and <= {WAIT_SECONDS_MAX}, if provided.",
)
_VISIBILITY: Final = Bounds(
    "VisibilityTimeout",
    range(VISIBILITY_SECONDS_MAX + 1),
    f"Must be >= 0 and <= {VISIBILITY_SECONDS_MAX}, if provided.",
)
_DELAY: Final = Bounds(
    "DelaySeconds",
    range(DELAY_SECONDS_MAX + 1),
    f"DelaySeconds must be >= 0 and <= {DELAY_SECONDS_MAX}.",
)


def _bounded(value: int | None, bounds: Bounds, default: D) -> int | D:
    if value is None:
        return default
    if value not in bounds.allowed:
        raise invalid_value(value, bounds.parameter, bounds.reason)
    return value


# --- DeleteMessage and ChangeMessageVisibility --------------------------------------------------


class ValidChange(Struct, frozen=True, gc=False):
    receipt_handle: str
    visibility_timeout_seconds: int


class ChangeWording(Struct, frozen=True):
    """Where the texts of a single change and of a batch entry differ."""

    timeout_member: str
    bounds: Bounds


SINGLE_CHANGE: Final = ChangeWording(
    "VisibilityTimeout",
    replace(_VISIBILITY, reason=f"Must be between 0 and {VISIBILITY_SECONDS_MAX}."),
)
_ENTRY_VISIBILITY: Final = replace(
    _VISIBILITY,
    reason=f"VisibilityTimeout must be an integer between 0 and {VISIBILITY_SECONDS_MAX}.",
)
# By index of the entry; in the text, positions count from 1.
CHANGE_ENTRIES: Final = tuple(
    ChangeWording(
        f"ChangeMessageVisibilityBatchRequestEntry.{index + 1}.VisibilityTimeout",
        _ENTRY_VISIBILITY,
    )
    for index in range(BATCH_ENTRIES_MAX)
)


def delete_message(request: DeleteMessageRequest | DeleteMessageBatchRequestEntry) -> str:
    """The receipt handle, as text; whether it is one is for the receipt codec to say."""
    return _required_handle(request.receipt_handle)


def change_message_visibility(
    request: ChangeMessageVisibilityRequest | ChangeMessageVisibilityBatchRequestEntry,
    wording: ChangeWording = SINGLE_CHANGE,
) -> ValidChange:
    handle = _required_handle(request.receipt_handle)
    seconds = _bounded(request.visibility_timeout, wording.bounds, None)
    if seconds is None:
        raise missing_parameter(wording.timeout_member)
    return ValidChange(handle, seconds)


def _required_handle(receipt_handle: str | None) -> str:
    if not receipt_handle:
        raise missing_parameter("ReceiptHandle")
    return receipt_handle
