"""Structs and errors → the XML documents of the Query protocol: their envelopes. Sans-IO. What is
inside follows from the Structs (`query_plans.py`).
"""

from typing import Final

from msgspec import Struct

from fastnode.http.query_plans import write_plan
from fastnode.native import XmlWriter, escape_xml
from fastnode.queue.errors import SqsError

_DECLARATION: Final = '<?xml version="1.0"?>'
_NAMESPACE: Final = 'xmlns="http://queue.amazonaws.com/doc/2012-11-05/"'
_METADATA: Final = "<ResponseMetadata><RequestId>%b</RequestId></ResponseMetadata>"
_ERROR: Final = (
    f"{_DECLARATION}<ErrorResponse {_NAMESPACE}><Error><Type>%b</Type><Code>%b</Code>"
    "<Message>%b</Message><Detail/></Error><RequestId>%b</RequestId></ErrorResponse>"
).encode()


class XmlAnswer:
    """The answers of one operation. `response` is None for an action without output."""

    def __init__(self, action: str, response: type[Struct] | None) -> None:
        def document(result: str) -> bytes:
            opening = f"{_DECLARATION}<{action}Response {_NAMESPACE}>"
            return f"{opening}{result}{_METADATA}</{action}Response>".encode()

        self._write = None if response is None else XmlWriter(write_plan(response)).write
        self._full = document(f"<{action}Result>%b</{action}Result>")
        self._empty = document("" if response is None else f"<{action}Result/>")

    def render(self, response: Struct | None, request_id: str) -> bytes:
        if response is None:
            assert self._write is None
            return self._empty % request_id.encode()
        assert self._write is not None
        inside = self._write(response)
        if not inside:
            return self._empty % request_id.encode()
        return self._full % (inside, request_id.encode())


def xml_error_answer(error: SqsError, request_id: str) -> bytes:
    return _ERROR % (
        b"Sender" if error.row.is_sender_fault else b"Receiver",
        error.row.query_code.encode(),
        escape_xml(error.query_message),
        request_id.encode(),
    )
