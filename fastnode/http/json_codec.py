"""The AWS JSON 1.0 protocol: request bytes → Struct, Struct → response bytes, errors. Sans-IO.

Decoders are built once per operation. Members that are absent stay absent because response Structs
leave out their defaults; this file adds no rule about any member.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from fastnode.http.codec import Operation, Rendered, retry_after
from fastnode.http.http1 import Request
from fastnode.queue.errors import SqsError, serialization_error, unknown_action

CONTENT_TYPE: Final = b"application/x-amz-json-1.0"
_TARGET_PREFIX: Final = b"AmazonSQS."
_HEADERS: Final = b"Content-Type: " + CONTENT_TYPE + b"\r\nx-amzn-RequestId: %b\r\n"
_QUERY_ERROR: Final = b"x-amzn-query-error: %b;%b\r\n"
_MISMATCH: Final = re.compile(r"Expected `(?P<expected>[^`]+)`, got `(?P<got>[^`]+)`.*")
_FOUND_TEXTS: Final = {
    "object": "Start of structure or map found where not expected.",
    "array": "Start of list found where not expected",
}
_VALUE_NAMES: Final = {
    "str": "STRING_VALUE",
    "int": "NUMBER_VALUE",
    "float": "NUMBER_VALUE",
    "bool": "BOOLEAN_VALUE",
}
_TYPE_NAMES: Final = {"int": "an Integer", "str": "a String", "bool": "a Boolean"}


# Whole escapes, so that an escaped backslash is never taken for the beginning of another one.
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


def _without_half_characters(body: bytes) -> bytes:
    """Half a surrogate pair is no character, but it is no bad JSON either: it becomes one of the
    characters that no member may contain, so that the member's own rule refuses it.
    """
    return _ESCAPE.sub(lambda escape: rb"\uffff" if escape["half"] else escape[0], body)


class _ErrorBody(Struct, frozen=True):
    type_name: str = msgspec.field(name="__type")
    message: str


class JsonCodec:
    """One per node."""

    def __init__(self, operations: Mapping[str, Operation]) -> None:
        self._by_target = {
            _TARGET_PREFIX + name.encode(): operation for name, operation in operations.items()
        }
        self._decoders = {
            name: msgspec.json.Decoder(operation.request) for name, operation in operations.items()
        }
        self._encoder = msgspec.json.Encoder()

    def operation_of(self, request: Request) -> Operation:
        target = request.headers.get(b"x-amz-target", b"")
        operation = self._by_target.get(target)
        if operation is None:
            raise unknown_action(target.removeprefix(_TARGET_PREFIX).decode("latin-1"))
        return operation

    def decode(self, operation: Operation, request: Request) -> Struct:
        decode = self._decoders[operation.name].decode
        try:
            try:
                return decode(request.body)
            except msgspec.DecodeError:
                whole = _without_half_characters(request.body)
                if whole == request.body:
                    raise
                return decode(whole)
        except msgspec.DecodeError as error:
            raise serialization_error(_mismatch_text(str(error))) from error
        except (UnicodeDecodeError, RecursionError) as error:
            raise serialization_error("The request body is not valid JSON.") from error

    def encode(self, operation: Operation, response: Struct | None, request_id: str) -> Rendered:
        assert (response is None) is (operation.response is None), operation.name
        headers = _HEADERS % request_id.encode()
        return 200, headers, b"" if response is None else self._encoder.encode(response)

    def encode_error(
        self, error: SqsError, request_id: str, retry_after_seconds: int | None = None
    ) -> Rendered:
        row = error.row
        fault = b"Sender" if row.is_sender_fault else b"Receiver"
        headers = (
            _HEADERS % request_id.encode()
            + _QUERY_ERROR % (row.query_code.encode(), fault)
            + retry_after(retry_after_seconds)
        )
        body = self._encoder.encode(_ErrorBody(error.type_name, error.message))
        return row.status, headers, body


def is_json(request: Request) -> bool:
    """Content types are compared without case and without what follows a `;`."""
    content_type = request.headers.get(b"content-type", b"")
    if content_type != CONTENT_TYPE:
        content_type = content_type.partition(b";")[0].strip().lower()
    return content_type == CONTENT_TYPE and request.method == b"POST"


def _mismatch_text(text: str) -> str:
    """The contract's words for a value of the wrong JSON type; for anything else, what the decoder
    found.
    """
    match = _MISMATCH.fullmatch(text)
    if match is None:
        return text
    expected, got = match["expected"].removesuffix(" | null"), match["got"]
    if got in _FOUND_TEXTS:
        return _FOUND_TEXTS[got]
    if got in _VALUE_NAMES and expected in _TYPE_NAMES:
        return f"{_VALUE_NAMES[got]} can not be converted to {_TYPE_NAMES[expected]}"
    return text
