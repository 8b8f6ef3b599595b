"""The client errors of the queue API: one table, one exception, and the texts of the contract.

A row is what a client sees of an error besides its text: the shape in `__type`, the query code in
the header and in XML, and the HTTP status. Codecs render; nothing here knows a wire format. Errors
that are not the client's live in `fastnode.errors`.
"""

from typing import Final

from msgspec import Struct

from fastnode.errors import FastnodeError

SQS: Final = "com.amazonaws.sqs#"
CORAL: Final = "com.amazon.coral.service#"
_QUERY_PREFIX: Final = "AWS.SimpleQueueService."


class ErrorRow(Struct, frozen=True):
    """One row of the error catalogue."""

    shape: str
    namespace: str
    query_code: str
    status: int

    @property
    def type_name(self) -> str:
        return self.namespace + self.shape

    @property
    def is_sender_fault(self) -> bool:
        return self.status < 500

    @property
    def batch_code(self) -> str:
        """The code of a failed batch entry: the query code without its prefix."""
        code = self.query_code if self.is_sender_fault else "InternalError"
        return code.removeprefix(_QUERY_PREFIX)


def _prefixed(shape: str, status: int = 400) -> ErrorRow:
    return ErrorRow(shape, SQS, _QUERY_PREFIX + shape, status)


def _plain(shape: str, status: int = 400) -> ErrorRow:
    return ErrorRow(shape, SQS, shape, status)


_ROWS: Final = (
    ErrorRow("QueueDoesNotExist", SQS, "AWS.SimpleQueueService.NonExistentQueue", 400),
    ErrorRow("QueueNameExists", SQS, "QueueAlreadyExists", 400),
    _prefixed("QueueDeletedRecently"),
    _plain("InvalidAttributeName"),
    _plain("InvalidAttributeValue"),
    _plain("InvalidMessageContents"),
    _plain("ReceiptHandleIsInvalid", 404),
    _prefixed("MessageNotInflight"),
    _plain("InvalidIdFormat"),
    _prefixed("PurgeQueueInProgress", 403),
    _plain("OverLimit", 403),
    _prefixed("EmptyBatchRequest"),
    _prefixed("TooManyEntriesInBatchRequest"),
    _prefixed("BatchEntryIdsNotDistinct"),
    _prefixed("InvalidBatchEntryId"),
    _prefixed("BatchRequestTooLong"),
    _prefixed("UnsupportedOperation"),
    _plain("ResourceNotFoundException", 404),
    _plain("InvalidAddress", 404),
    _plain("InvalidSecurity", 403),
    _plain("RequestThrottled", 403),
    ErrorRow("KmsAccessDenied", SQS, "KMS.AccessDeniedException", 400),
    ErrorRow("KmsDisabled", SQS, "KMS.DisabledException", 400),
    ErrorRow("KmsInvalidKeyUsage", SQS, "KMS.InvalidKeyUsageException", 400),
    ErrorRow("KmsInvalidState", SQS, "KMS.InvalidStateException", 400),
    ErrorRow("KmsNotFound", SQS, "KMS.NotFoundException", 400),
    ErrorRow("KmsThrottled", SQS, "KMS.ThrottlingException", 400),
    ErrorRow("KmsOptInRequired", SQS, "KMS.OptInRequired", 403),
    ErrorRow("InvalidParameterValueException", CORAL, "InvalidParameterValue", 400),
    ErrorRow("MissingRequiredParameterException", CORAL, "MissingParameter", 400),
    ErrorRow("UnknownOperationException", CORAL, "InvalidAction", 400),
    ErrorRow("SerializationException", CORAL, "MalformedInput", 400),
    ErrorRow("AccessDeniedException", CORAL, "AccessDenied", 403),
    ErrorRow("UnrecognizedClientException", CORAL, "InvalidClientTokenId", 403),
    ErrorRow("InvalidSignatureException", CORAL, "SignatureDoesNotMatch", 403),
    ErrorRow("IncompleteSignatureException", CORAL, "IncompleteSignature", 400),
    ErrorRow("ExpiredTokenException", CORAL, "ExpiredToken", 403),
    ErrorRow("InternalFailure", CORAL, "InternalFailure", 500),
    ErrorRow("ServiceUnavailableException", CORAL, "ServiceUnavailable", 503),
)


def table_of(rows: tuple[ErrorRow, ...]) -> dict[str, ErrorRow]:
    """Index rows by shape; two rows that share a shape or a query code would hide one another."""
    table = {row.shape: row for row in rows}
    query_codes = {row.query_code for row in rows}
    assert len(table) == len(query_codes) == len(rows), "duplicate row in the error table"
    return table


ERRORS: Final = table_of(_ROWS)

# The one text that differs by protocol; the Query codec replaces the key by the value.
QUERY_TEXTS: Final = {
    "The specified queue does not exist.": (
        "The specified queue does not exist for this wsdl version."
    ),
}


class SqsError(FastnodeError):
    """A request that the contract refuses; some may be repeated, after `retry_after_seconds`."""

    retry_after_seconds: int | None = None

    def __init__(self, row: ErrorRow, message: str) -> None:
        super().__init__(row, message)
        self.row = row
        self.message = message

    @property
    def type_name(self) -> str:
        return self.row.type_name

    @property
    def query_message(self) -> str:
        return QUERY_TEXTS.get(self.message, self.message)

    def __str__(self) -> str:
        return f"{self.type_name}: {self.message}"


def sqs_error(shape: str, message: str) -> SqsError:
    """Any error of the table; a shape outside it is a bug of the caller."""
    return SqsError(ERRORS[shape], message)


# --- Queues -------------------------------------------------------------------------------------


def queue_does_not_exist() -> SqsError:
    return sqs_error("QueueDoesNotExist", "The specified queue does not exist.")


def queue_not_accessible() -> SqsError:
    text = "The specified queue does not exist or you do not have access to it."
    return sqs_error("QueueDoesNotExist", text)


def queue_name_exists(attribute: str) -> SqsError:
    text = "A queue already exists with the same name and a different value for attribute "
    return sqs_error("QueueNameExists", text + attribute)


def queue_deleted_recently() -> SqsError:
    return sqs_error(
        "QueueDeletedRecently",
        "You must wait 60 seconds after deleting a queue before you can create another "
        "with the same name.",
    )


def purge_queue_in_progress(queue_name: str) -> SqsError:
    text = f"Only one PurgeQueue operation on {queue_name} is allowed every 60 seconds."
    return sqs_error("PurgeQueueInProgress", text)


def unknown_attribute(name: str) -> SqsError:
    return sqs_error("InvalidAttributeName", f"Unknown Attribute {name}.")


def invalid_attribute_value(name: str, reason: str | None = None) -> SqsError:
    text = f"Invalid value for the parameter {name}."
    explained = text if reason is None else f"{text} Reason: {reason}"
    return sqs_error("InvalidAttributeValue", explained)


# --- Parameters ---------------------------------------------------------------------------------


def missing_parameter(name: str) -> SqsError:
    text = f"The request must contain the parameter {name}."
    return sqs_error("MissingRequiredParameterException", text)


def invalid_parameter(text: str) -> SqsError:
    return sqs_error("InvalidParameterValueException", text)


def invalid_value(value: object, parameter: str, reason: str) -> SqsError:
    """The commonest sentence; `reason` brings its own full stop, because some texts have none."""
    subject = f"Value {value} for parameter {parameter}"
    return invalid_parameter(f"{subject} is invalid. Reason: {reason}")


def unsupported_operation(text: str) -> SqsError:
    return sqs_error("UnsupportedOperation", text)


def serialization_error(text: str) -> SqsError:
    return sqs_error("SerializationException", text)


def unknown_action(action: str) -> SqsError:
    text = f"The action {action} is not valid for this endpoint."
    return sqs_error("UnknownOperationException", text)


# --- Messages -----------------------------------------------------------------------------------

INVALID_CHARACTERS: Final = (
    "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | "
    "#xE000 to #xFFFD | #x10000 to #x10FFFF"
)


def invalid_message_contents() -> SqsError:
    return sqs_error("InvalidMessageContents", INVALID_CHARACTERS)


def receipt_handle_is_invalid(receipt_handle: str) -> SqsError:
    text = f'The input receipt handle "{receipt_handle}" is not a valid receipt handle.'
    return sqs_error("ReceiptHandleIsInvalid", text)


def message_not_changeable(receipt_handle: str) -> SqsError:
    """ChangeMessageVisibility on a message that is deleted, expired or purged."""
    reason = "Message does not exist or is not available for visibility timeout change."
    return invalid_value(receipt_handle, "ReceiptHandle", reason)


def receipt_handle_expired(receipt_handle: str) -> SqsError:
    """On a FIFO queue a handle is good for as long as its message is invisible."""
    return invalid_value(receipt_handle, "ReceiptHandle", "The receipt handle has expired.")


def visibility_beyond_limit(visibility_timeout: int) -> SqsError:
    """The twelve hours that one receive may hold a message are used up; no full stop."""
    reason = "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]"
    return invalid_value(visibility_timeout, "VisibilityTimeout", reason)


def request_throttled(retry_after_seconds: int) -> SqsError:
    error = sqs_error("RequestThrottled", "The request was denied due to request throttling.")
    error.retry_after_seconds = retry_after_seconds
    return error


def too_many_in_flight() -> SqsError:
    return sqs_error("OverLimit", "The maximum number of in flight messages is reached.")


def over_limit(text: str) -> SqsError:
    return sqs_error("OverLimit", text)


def resource_not_found(text: str) -> SqsError:
    return sqs_error("ResourceNotFoundException", text)


# --- Signatures ---------------------------------------------------------------------------------


def incomplete_signature(text: str) -> SqsError:
    return sqs_error("IncompleteSignatureException", text)


def invalid_signature(text: str) -> SqsError:
    return sqs_error("InvalidSignatureException", text)


def signature_does_not_match() -> SqsError:
    return invalid_signature(
        "The request signature we calculated does not match the signature you provided. Check "
        "your AWS Secret Access Key and signing method. Consult the service documentation for "
        "details."
    )


def unrecognized_client() -> SqsError:
    text = "The security token included in the request is invalid."
    return sqs_error("UnrecognizedClientException", text)


def invalid_security(text: str) -> SqsError:
    return sqs_error("InvalidSecurity", text)


# --- The node -----------------------------------------------------------------------------------


def access_denied(text: str) -> SqsError:
    return sqs_error("AccessDeniedException", text)


def internal_failure() -> SqsError:
    return sqs_error("InternalFailure", "The request failed because of an internal failure.")


def service_unavailable(text: str) -> SqsError:
    return sqs_error("ServiceUnavailableException", text)
