"""The Query protocol: parameters → Struct, Struct → XML or JSON, errors. Sans-IO.

What parameters and elements are called follows from the Structs (`query_plans.py`); this file adds
no rule about any member except the queue's URL, which may also be the path of the request.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from fastnode.http.codec import Operation, Rendered, retry_after
from fastnode.http.http1 import Request
from fastnode.http.query_json import json_answer, json_error_answer
from fastnode.http.query_plans import read_plan
from fastnode.http.xml_answer import XmlAnswer, xml_error_answer
from fastnode.native import FormError, FormReader, find_parameter
from fastnode.queue.errors import (
    ERRORS,
    SqsError,
    missing_parameter,
    serialization_error,
    unknown_action,
)

METHODS: Final = (b"POST", b"GET", b"HEAD")
_XML_HEADERS: Final = b"Content-Type: text/xml\r\nx-amzn-RequestId: %b\r\n"
_JSON_HEADERS: Final = b"Content-Type: application/json\r\nx-amzn-RequestId: %b\r\n"
_QUEUE_PATH_MATCH: Final = re.compile(rb"(?:/queue/[^/]+)?/[0-9]{12}/[^/]+/*").fullmatch
_NOT_FOR_A_QUEUE: Final = frozenset({"CreateQueue", "ListQueues"})
_NO_OPERATION: Final = b"<UnknownOperationException/>\n"


class NoOperation(SqsError):
    """A request to look at something, as a browser sends it; there is nothing to see."""

    def __init__(self) -> None:
        super().__init__(ERRORS["UnknownOperationException"], "The request names no action.")


class QueryCodec:
    """Answers in XML. One per node."""

    def __init__(self, operations: Mapping[str, Operation]) -> None:
        self._operations = operations
        self._readers = {name: _reader(row.request) for name, row in operations.items()}
        self._answers = {name: XmlAnswer(name, row.response) for name, row in operations.items()}

    def operation_of(self, request: Request) -> Operation:
        form = request.body if request.target == b"/" else _form_of(request)
        try:
            action = find_parameter(form, b"Action")
        except FormError as error:
            raise _refusal(error) from error
        operation = self._operations.get(action or "")
        if operation is None or (action in _NOT_FOR_A_QUEUE and _queue_path(request)):
            raise _no_such_action(action, request)
        return operation

    def decode(self, operation: Operation, request: Request) -> Struct:
        form = request.body if request.target == b"/" else _form_of(request)
        read_members, takes_queue = self._readers[operation.name]
        try:
            members = read_members(form)
            if takes_queue and "QueueUrl" not in members:
                members["QueueUrl"] = _queue_url(request)
            return msgspec.convert(members, operation.request)
        except FormError as error:
            raise _refusal(error) from error
        except msgspec.ValidationError as error:
            raise serialization_error(str(error)) from error

    def encode(self, operation: Operation, response: Struct | None, request_id: str) -> Rendered:
        answer = self._answers[operation.name].render(response, request_id)
        return 200, _XML_HEADERS % request_id.encode(), answer

    def encode_error(
        self, error: SqsError, request_id: str, retry_after_seconds: int | None = None
    ) -> Rendered:
        headers = _XML_HEADERS % request_id.encode() + retry_after(retry_after_seconds)
        if isinstance(error, NoOperation):
            return 404, headers, _NO_OPERATION
        return error.row.status, headers, xml_error_answer(error, request_id)


class QueryJsonCodec(QueryCodec):
    """The same requests, answered in JSON; except to whoever names no action."""

    def encode(self, operation: Operation, response: Struct | None, request_id: str) -> Rendered:
        answer = json_answer(operation.name, response, request_id)
        return 200, _JSON_HEADERS % request_id.encode(), answer

    def encode_error(
        self, error: SqsError, request_id: str, retry_after_seconds: int | None = None
    ) -> Rendered:
        if isinstance(error, NoOperation):
            return super().encode_error(error, request_id)
        headers = _JSON_HEADERS % request_id.encode() + retry_after(retry_after_seconds)
        return error.row.status, headers, json_error_answer(error, request_id)


def prefers_json(request: Request) -> bool:
    """Whoever names JSON among what it accepts gets it."""
    accepted = request.headers.get(b"accept")
    return accepted is not None and b"application/json" in accepted.lower()


def _reader(request: type[Struct]) -> tuple[Callable[[bytes], dict[str, Any]], bool]:
    """What reads the members of a request, and whether there must be a queue's URL among them."""
    plan = read_plan(request)
    return FormReader(plan).read, any(field.member == "QueueUrl" for field in plan)


def _form_of(request: Request) -> bytes:
    """The first of two values counts: what a signed link says cannot be overruled by a body that is
    added to it.
    """
    return request.query + b"&" + request.body


def _queue_path(request: Request) -> bytes:
    """The path, if a queue's URL leads there."""
    path = request.path
    return path if _QUEUE_PATH_MATCH(path) else b""


def _queue_url(request: Request) -> str:
    """Which queue a path names is found out as for any URL; no queue's name needs an escape."""
    path = _queue_path(request)
    if not path:
        raise missing_parameter("QueueUrl")
    return path.decode("latin-1")


def _no_such_action(action: str | None, request: Request) -> SqsError:
    if action is not None:
        return unknown_action(action)
    return missing_parameter("Action") if request.method == b"POST" else NoOperation()


def _refusal(error: FormError) -> SqsError:
    return missing_parameter(error.missing) if error.missing else serialization_error(error.reason)
