"""Errors in the XML envelope of the Query protocol, and the answer to requests in that protocol.
Sans-IO.

This version speaks JSON only. A Query client is told so in the form that it can read.
"""

from typing import Final
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

from fastnode.http.codec import Rendered, retry_after
from fastnode.http.http1 import Request
from fastnode.queue.errors import SqsError, unsupported_operation

_HEADERS: Final = b"Content-Type: text/xml\r\nx-amzn-RequestId: %b\r\n"
_ENVELOPE: Final = (
    '<?xml version="1.0"?><ErrorResponse xmlns="http://queue.amazonaws.com/doc/2012-11-05/">'
    "<Error><Type>{type}</Type><Code>{code}</Code><Message>{message}</Message><Detail/></Error>"
    "<RequestId>{request_id}</RequestId></ErrorResponse>"
)
_NO_OPERATION: Final = b'<?xml version="1.0"?><UnknownOperationException/>'
_ESCAPES: Final = {'"': "&quot;", "\r": "&#xD;"}
_NOT_AVAILABLE: Final = (
    "The Query protocol is not available in this version. Send POST requests with Content-Type "
    "application/x-amz-json-1.0 and X-Amz-Target AmazonSQS.<Action>, as current SDKs do."
)


def encode_xml_error(
    error: SqsError, request_id: str, retry_after_seconds: int | None = None
) -> Rendered:
    body = _ENVELOPE.format(
        type="Sender" if error.row.is_sender_fault else "Receiver",
        code=error.row.query_code,
        message=escape(error.query_message, _ESCAPES),
        request_id=request_id,
    )
    headers = _HEADERS % request_id.encode() + retry_after(retry_after_seconds)
    return error.row.status, headers, body.encode()


def refuse_query(request: Request, request_id: str) -> Rendered:
    """Any request that is not in the JSON protocol."""
    if request.method in (b"GET", b"HEAD") and b"Action" not in parse_qs(request.query):
        return 404, _HEADERS % request_id.encode(), _NO_OPERATION
    return encode_xml_error(unsupported_operation(_NOT_AVAILABLE), request_id)
