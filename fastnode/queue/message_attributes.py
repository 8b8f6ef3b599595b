"""Message attributes: what a sender may attach, what a receiver selects, and how they are stored.

Pure. Digests are in `digest.py`; the size limit is applied in `validate.py`, to body and attributes
together. System attributes that the node itself keeps (sent time, counts) are not stored here.
"""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Final

import msgspec
from msgspec import Struct

from fastnode.native import encode_text
from fastnode.queue.api import MessageAttributeValue
from fastnode.queue.characters import utf8_size
from fastnode.queue.digest import Attribute
from fastnode.queue.errors import (
    INVALID_CHARACTERS,
    SqsError,
    invalid_parameter,
    unsupported_operation,
)

ATTRIBUTES_MAX: Final = 10
NAME_LENGTH_MAX: Final = 256
TYPE_LENGTH_MAX: Final = 255
# System attributes do not count in the message size, so the only one has a bound of its own.
TRACE_HEADER_BYTES_MAX: Final = 2_048
TRACE_HEADER: Final = "AWSTraceHeader"

SYSTEM_ATTRIBUTE_NAMES: Final = frozenset(
    {
        "SenderId",
        "SentTimestamp",
        "ApproximateReceiveCount",
        "ApproximateFirstReceiveTimestamp",
        "MessageGroupId",
        "MessageDeduplicationId",
        "SequenceNumber",
        TRACE_HEADER,
        "DeadLetterQueueSourceArn",
    }
)

Values = Mapping[str, MessageAttributeValue]


# --- Storage ------------------------------------------------------------------------------------


class Moved(Struct, frozen=True, array_like=True, gc=False):
    """What a dead letter brings from the queue that it came from."""

    source_arn: str
    receive_count: int
    first_receive_ms: int


class MessageExtras(Struct, frozen=True, array_like=True, gc=False):
    """What a message has besides its body; new members go at the end, with a default."""

    group_id: str | None = None
    trace_header: str | None = None
    attributes: tuple[Attribute, ...] = ()
    moved: Moved | None = None
    deduplication_id: str | None = None


NO_EXTRAS: Final = MessageExtras()
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(MessageExtras)


def encode_extras(extras: MessageExtras) -> bytes:
    """The stored form; most messages have nothing besides their body and take no space."""
    return b"" if extras is NO_EXTRAS or extras == NO_EXTRAS else _ENCODER.encode(extras)


def decode_extras(stored: bytes) -> MessageExtras:
    return _DECODER.decode(stored) if stored else NO_EXTRAS


# --- Sending ------------------------------------------------------------------------------------

_NAME_MATCH: Final = re.compile(r"[\w.-]+").fullmatch
_TYPE_MATCH: Final = re.compile(r"(String|Number|Binary)(?:\..+)?", re.DOTALL).fullmatch
_RESERVED_MATCH: Final = re.compile(r"(?:aws|amazon)\.", re.IGNORECASE).match
_NUMBER_MATCH: Final = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?"
).fullmatch
# Longer than any writing of a legal number without idle zeros; bounds the work of the parse.
_NUMBER_LENGTH_MAX: Final = 512
_NUMBER_DIGITS_MAX: Final = 38
_NUMBER_EXPONENTS: Final = range(-128, 127)


def attributes_size(values: Values | None) -> int:
    """Bytes that attributes add to a message; total, because sizes are checked before content."""
    return sum(_attribute_size(name, value) for name, value in values.items()) if values else 0


def parse_attributes(values: Values | None) -> tuple[Attribute, ...]:
    """The attributes of a send, checked, in the order given."""
    if not values:
        return ()
    if len(values) > ATTRIBUTES_MAX:
        count, limit = len(values), ATTRIBUTES_MAX
        text = f"Number of message attributes [{count}] exceeds the allowed maximum [{limit}]."
        raise invalid_parameter(text)
    return tuple(_parse_attribute(name, value) for name, value in values.items())


def parse_system_attributes(values: Values | None) -> tuple[Attribute, ...]:
    """The system attributes of a send: at most the trace header, as a plain string."""
    if not values:
        return ()
    for name in values:
        if name != TRACE_HEADER:
            raise invalid_parameter(f"Message system attribute name '{name}' is invalid.")
    attribute = _parse_value(TRACE_HEADER, values[TRACE_HEADER])
    if attribute[1] != "String":
        raise _invalid_type(TRACE_HEADER)
    if len(attribute[2]) > TRACE_HEADER_BYTES_MAX:
        limit = TRACE_HEADER_BYTES_MAX
        raise invalid_parameter(f"{TRACE_HEADER} must not be longer than {limit} bytes.")
    return (attribute,)


def _attribute_size(name: str, value: MessageAttributeValue) -> int:
    text = utf8_size(name) + utf8_size(value.data_type or "")
    if value.data_type is not None and value.data_type.startswith("Binary"):
        return text + len(value.binary_value or b"")
    return text + utf8_size(value.string_value or "")


def _parse_attribute(name: str, value: MessageAttributeValue) -> Attribute:
    _check_name(name)
    return _parse_value(name, value)


def _check_name(name: str) -> None:
    if not name:
        text = "The request must contain non-empty message (user) attribute names."
        raise invalid_parameter(text)
    if len(name) > NAME_LENGTH_MAX:
        raise invalid_parameter("Message (user) attribute name must be shorter than 256 bytes.")
    if not _NAME_MATCH(name) or name.startswith(".") or name.endswith("."):
        raise invalid_parameter(
            f"The message attribute name '{name}' is invalid. Attribute name can contain letters, "
            "digits, underscore (_), hyphen (-), and period (.), and must not start or end with a "
            "period."
        )
    if _RESERVED_MATCH(name):
        raise invalid_parameter(
            "You can't use message attribute names beginning with 'AWS.' or 'Amazon.'. "
            "These strings are reserved for internal use."
        )


def _parse_value(name: str, value: MessageAttributeValue) -> Attribute:
    data_type = value.data_type or ""
    match = _TYPE_MATCH(data_type)
    if match is None or len(data_type) > TYPE_LENGTH_MAX or encode_text(data_type) is None:
        raise _invalid_type(name)
    if value.string_list_values or value.binary_list_values:
        text = "Message attribute list values in SendMessage operation are not supported."
        raise unsupported_operation(text)
    return name, data_type, _PARSERS[match[1]](name, value)


def _parse_string(name: str, value: MessageAttributeValue) -> bytes:
    if not value.string_value:
        raise _empty_value(name, "String")
    encoded = encode_text(value.string_value)
    if encoded is None:
        raise invalid_parameter(INVALID_CHARACTERS)
    return encoded


def _parse_number(name: str, value: MessageAttributeValue) -> bytes:
    """The text is kept as sent: `1.0` and `1` are equal numbers with different digests."""
    text = value.string_value
    if not text:
        raise _empty_value(name, "Number")
    if len(text) > _NUMBER_LENGTH_MAX or not _NUMBER_MATCH(text) or not _fits(Decimal(text)):
        raise invalid_parameter(
            f"Can't cast the value of message (user) attribute '{name}' to a number."
        )
    return text.encode()


def _fits(number: Decimal) -> bool:
    significant = "".join(map(str, number.as_tuple().digits)).strip("0")
    is_in_range = not significant or number.adjusted() in _NUMBER_EXPONENTS
    return is_in_range and len(significant) <= _NUMBER_DIGITS_MAX


def _parse_binary(name: str, value: MessageAttributeValue) -> bytes:
    if not value.binary_value:
        raise _empty_value(name, "Binary")
    return value.binary_value


_PARSERS: Final = {"String": _parse_string, "Number": _parse_number, "Binary": _parse_binary}


def _empty_value(name: str, kind: str) -> SqsError:
    text = f"Message (user) attribute '{name}' must contain a non-empty value of type '{kind}'."
    return invalid_parameter(text)


def _invalid_type(name: str) -> SqsError:
    return invalid_parameter(
        f"The type of message (user) attribute '{name}' is invalid. You must use only the "
        "following supported type prefixes: Binary, Number, String."
    )


# --- Receiving ----------------------------------------------------------------------------------


class AttributeSelector(Struct, frozen=True):
    """Which message attributes a receive returns."""

    takes_all: bool = False
    exact: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()

    def select(self, attributes: tuple[Attribute, ...]) -> tuple[Attribute, ...]:
        if self.takes_all or not attributes:
            return attributes
        return tuple(one for one in attributes if self._takes(one[0]))

    def _takes(self, name: str) -> bool:
        return name in self.exact or name.startswith(self.prefixes)


SELECT_NONE: Final = AttributeSelector()
SELECT_ALL: Final = AttributeSelector(takes_all=True)
_ALL_NAMES: Final = frozenset({"All", ".*", "*"})


def attribute_selector(names: Iterable[str] | None) -> AttributeSelector:
    """`prefix.*` takes names that start with the prefix; the dot is not part of it."""
    if not names:
        return SELECT_NONE
    asked = frozenset(names)
    if asked & _ALL_NAMES:
        return SELECT_ALL
    prefixes = tuple(sorted(name[:-2] for name in asked if name.endswith(".*")))
    return AttributeSelector(exact=asked, prefixes=prefixes)


def system_names(
    names: Iterable[str] | None, deprecated_names: Iterable[str] | None
) -> frozenset[str]:
    """The system attributes that a receive asks for, by either member; unknown ones are ignored."""
    if not names and not deprecated_names:
        return frozenset()
    asked = frozenset(names or ()) | frozenset(deprecated_names or ())
    return SYSTEM_ATTRIBUTE_NAMES if "All" in asked else asked & SYSTEM_ATTRIBUTE_NAMES


def wire_values(attributes: Iterable[Attribute]) -> dict[str, MessageAttributeValue]:
    """Stored attributes as a receive shows them."""
    return {name: _wire_value(data_type, value) for name, data_type, value in attributes}


def _wire_value(data_type: str, value: bytes) -> MessageAttributeValue:
    if data_type.startswith("Binary"):
        return MessageAttributeValue(data_type=data_type, binary_value=value)
    return MessageAttributeValue(data_type=data_type, string_value=value.decode())
