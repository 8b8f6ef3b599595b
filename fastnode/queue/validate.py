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
from fastnode.native import encode_text, is_token
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
from fastnode.queue.characters import utf8_size
from fastnode.queue.digest import Attribute, content_deduplication_id
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
_NO_DEDUPLICATION: Final = (
    "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId "
    "provided explicitly"
)


# --- SendMessage --------------------------------------------------------------------------------


class ValidSend(Struct, frozen=True, gc=False):
    """A message as it will be stored, and what its digests are computed from.

    `system_attributes` is what the request carried: a trace header that came with the HTTP request
    is in `extras` too, but not in the digest. For a FIFO queue `extras` has a group id and a
    deduplication id, and `delay_seconds` is 0: its delay is the queue's, at the time of receiving.
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
    if body and trace_header is None and is_plain(request) and not settings.is_fifo:
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
    size_bytes = len(body) + attributes_size(request.message_attributes)
    _check_size(size_bytes, settings, wording)
    delay_seconds = _checked_delay(request.delay_seconds, settings)
    deduplication_id = _checked_ids(request, settings, wording, body)
    attributes = parse_attributes(request.message_attributes)
    system_attributes = parse_system_attributes(request.message_system_attributes)
    if system_attributes:
        trace_header = system_attributes[0][2].decode()
    extras = _extras(request.message_group_id, trace_header, attributes, deduplication_id)
    return ValidSend(body, extras, system_attributes, delay_seconds, size_bytes)


def message_size(request: SendMessageRequest | SendMessageBatchRequestEntry) -> int:
    """Bytes of body and attributes, whether or not they are valid."""
    return utf8_size(request.message_body or "") + attributes_size(request.message_attributes)


def check_fifo_ids(
    request: SendMessageRequest | SendMessageBatchRequestEntry, settings: QueueSettings
) -> None:
    """What a FIFO queue must know of every message; an empty id counts as given."""
    if request.message_group_id is None:
        raise missing_parameter("MessageGroupId")
    if request.message_deduplication_id is None and not settings.has_content_based_deduplication:
        raise invalid_parameter(_NO_DEDUPLICATION)


def check_fifo_entry(entry: SendMessageBatchRequestEntry, settings: QueueSettings) -> None:
    """What fails a whole batch on a FIFO queue, as it would fail a single send."""
    if not entry.message_body:
        raise missing_parameter(SINGLE_SEND.body_member)
    _check_size(message_size(entry), settings, SINGLE_SEND)
    _checked_delay(entry.delay_seconds, settings)


def _checked_body(
    request: SendMessageRequest | SendMessageBatchRequestEntry, wording: SendWording
) -> bytes:
    if not request.message_body:
        raise missing_parameter(wording.body_member)
    body = encode_text(request.message_body)
    if body is None:
        raise invalid_message_contents()
    return body


def _check_size(size_bytes: int, settings: QueueSettings, wording: SendWording) -> None:
    limit = settings.maximum_message_size
    if size_bytes > limit:
        reason = f"Message must be shorter than {limit} bytes."
        raise invalid_parameter(f"{wording.size_subject} Reason: {reason}")


def _checked_delay(seconds: int | None, settings: QueueSettings) -> int:
    delay_seconds = _bounded(seconds, _DELAY, settings.delay_seconds)
    if not settings.is_fifo:
        return delay_seconds
    if seconds:
        raise invalid_value(seconds, "DelaySeconds", f"{_NOT_FOR_THIS_TYPE}.")
    return 0


def _checked_ids(
    request: SendMessageRequest | SendMessageBatchRequestEntry,
    settings: QueueSettings,
    wording: SendWording,
    body: bytes,
) -> str | None:
    """The deduplication id, on a FIFO queue. On a standard queue a group names a tenant."""
    if settings.is_fifo:
        check_fifo_ids(request, settings)
    if request.message_group_id is not None:
        _check_token("MessageGroupId", request.message_group_id)
    value = request.message_deduplication_id
    if value is None:
        return content_deduplication_id(body) if settings.is_fifo else None
    _check_token("MessageDeduplicationId", value)
    if not settings.is_fifo:
        raise invalid_parameter(wording.deduplication_id_text.format(value=value))
    return value


def _check_token(parameter: str, value: str) -> None:
    if not is_token(value):
        reason = "can only include alphanumeric and punctuation characters. 1 to 128 in length."
        raise invalid_value(value, parameter, f"{parameter} {reason}")


def _extras(
    group_id: str | None,
    trace_header: str | None,
    attributes: tuple[Attribute, ...],
    deduplication_id: str | None,
) -> MessageExtras:
    if group_id is None and trace_header is None and not attributes:
        return NO_EXTRAS
    return MessageExtras(group_id, trace_header, attributes, deduplication_id=deduplication_id)


# --- ReceiveMessage -----------------------------------------------------------------------------


class ValidReceive(Struct, frozen=True, gc=False):
    """A receive with the queue's defaults filled in."""

    messages_max: int
    visibility_timeout_ms: int
    wait_seconds: int
    system_names: frozenset[str]
    selector: AttributeSelector
    attempt_id: str | None = None


def receive_message(request: ReceiveMessageRequest, settings: QueueSettings) -> ValidReceive:
    messages_max = _bounded(request.max_number_of_messages, _MESSAGES, 1)
    wait_seconds = _bounded(request.wait_time_seconds, _WAIT, settings.wait_seconds)
    visibility_seconds = _bounded(request.visibility_timeout, _VISIBILITY, None)
    attempt_id = request.receive_request_attempt_id
    if attempt_id is not None:
        _check_attempt_id(attempt_id, settings)
    return ValidReceive(
        messages_max,
        settings.visibility_timeout_ms if visibility_seconds is None else visibility_seconds * 1000,
        wait_seconds,
        system_names(request.message_system_attribute_names, request.attribute_names),
        attribute_selector(request.message_attribute_names),
        attempt_id,
    )


def _check_attempt_id(attempt_id: str, settings: QueueSettings) -> None:
    if not settings.is_fifo:
        raise invalid_value(attempt_id, "ReceiveRequestAttemptId", _NOT_FOR_THIS_TYPE)
    _check_token("ReceiveRequestAttemptId", attempt_id)


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
