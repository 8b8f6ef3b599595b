"""The error table of section 1.6, its derived forms and the exact texts."""

import pytest

from fastnode.errors import FastnodeError
from fastnode.queue import errors
from fastnode.queue.errors import ERRORS, ErrorRow, SqsError

S = "com.amazonaws.sqs#"
C = "com.amazon.coral.service#"
A = "AWS.SimpleQueueService."

# Section 1.6, row by row: type name, query code, status.
CATALOGUE = [
    (S + "QueueDoesNotExist", A + "NonExistentQueue", 400),
    (S + "QueueNameExists", "QueueAlreadyExists", 400),
    (S + "QueueDeletedRecently", A + "QueueDeletedRecently", 400),
    (S + "InvalidAttributeName", "InvalidAttributeName", 400),
    (S + "InvalidAttributeValue", "InvalidAttributeValue", 400),
    (S + "InvalidMessageContents", "InvalidMessageContents", 400),
    (S + "ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid", 404),
    (S + "MessageNotInflight", A + "MessageNotInflight", 400),
    (S + "InvalidIdFormat", "InvalidIdFormat", 400),
    (S + "PurgeQueueInProgress", A + "PurgeQueueInProgress", 403),
    (S + "OverLimit", "OverLimit", 403),
    (S + "EmptyBatchRequest", A + "EmptyBatchRequest", 400),
    (S + "TooManyEntriesInBatchRequest", A + "TooManyEntriesInBatchRequest", 400),
    (S + "BatchEntryIdsNotDistinct", A + "BatchEntryIdsNotDistinct", 400),
    (S + "InvalidBatchEntryId", A + "InvalidBatchEntryId", 400),
    (S + "BatchRequestTooLong", A + "BatchRequestTooLong", 400),
    (S + "UnsupportedOperation", A + "UnsupportedOperation", 400),
    (S + "ResourceNotFoundException", "ResourceNotFoundException", 404),
    (S + "InvalidAddress", "InvalidAddress", 404),
    (S + "InvalidSecurity", "InvalidSecurity", 403),
    (S + "RequestThrottled", "RequestThrottled", 403),
    (S + "KmsAccessDenied", "KMS.AccessDeniedException", 400),
    (S + "KmsDisabled", "KMS.DisabledException", 400),
    (S + "KmsInvalidKeyUsage", "KMS.InvalidKeyUsageException", 400),
    (S + "KmsInvalidState", "KMS.InvalidStateException", 400),
    (S + "KmsNotFound", "KMS.NotFoundException", 400),
    (S + "KmsThrottled", "KMS.ThrottlingException", 400),
    (S + "KmsOptInRequired", "KMS.OptInRequired", 403),
    (C + "InvalidParameterValueException", "InvalidParameterValue", 400),
    (C + "MissingRequiredParameterException", "MissingParameter", 400),
    (C + "UnknownOperationException", "InvalidAction", 400),
    (C + "SerializationException", "MalformedInput", 400),
    (C + "AccessDeniedException", "AccessDenied", 403),
    (C + "UnrecognizedClientException", "InvalidClientTokenId", 403),
    (C + "InvalidSignatureException", "SignatureDoesNotMatch", 403),
    (C + "IncompleteSignatureException", "IncompleteSignature", 400),
    (C + "ExpiredTokenException", "ExpiredToken", 403),  # Section 10.2.
    (C + "InternalFailure", "InternalFailure", 500),
    (C + "ServiceUnavailableException", "ServiceUnavailable", 503),
]


def test_table_is_the_catalogue() -> None:
    rows = [(row.type_name, row.query_code, row.status) for row in ERRORS.values()]
    assert rows == CATALOGUE


@pytest.mark.parametrize(
    "twin", [ErrorRow("A", S, "Other", 400), ErrorRow("Other", S, "CodeOfA", 400)]
)
def test_table_refuses_a_second_row_for_a_shape_or_code(twin: ErrorRow) -> None:
    with pytest.raises(AssertionError):
        errors.table_of((ErrorRow("A", S, "CodeOfA", 400), twin))


# Section 7.2: the code of a failed entry has neither prefix nor suffix.
@pytest.mark.parametrize(
    ("shape", "code", "is_sender_fault"),
    [
        ("InvalidMessageContents", "InvalidMessageContents", True),
        ("InvalidParameterValueException", "InvalidParameterValue", True),
        ("MissingRequiredParameterException", "MissingParameter", True),
        ("ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid", True),
        ("UnsupportedOperation", "UnsupportedOperation", True),
        ("InternalFailure", "InternalError", False),
        ("ServiceUnavailableException", "InternalError", False),
    ],
)
def test_batch_code(shape: str, code: str, is_sender_fault: bool) -> None:
    row = ERRORS[shape]
    assert (row.batch_code, row.is_sender_fault) == (code, is_sender_fault)


IPV = C + "InvalidParameterValueException"
TEXTS = [
    ("1.4", errors.queue_does_not_exist(), S + "QueueDoesNotExist",
     "The specified queue does not exist."),
    ("2.1", errors.queue_not_accessible(), S + "QueueDoesNotExist",
     "The specified queue does not exist or you do not have access to it."),
    ("2.1", errors.queue_name_exists("DelaySeconds"), S + "QueueNameExists",
     "A queue already exists with the same name and a different value for attribute DelaySeconds"),
    ("2.1", errors.queue_deleted_recently(), S + "QueueDeletedRecently",
     "You must wait 60 seconds after deleting a queue before you can create another with the same "
     "name."),
    ("2.1", errors.purge_queue_in_progress("q"), S + "PurgeQueueInProgress",
     "Only one PurgeQueue operation on q is allowed every 60 seconds."),
    ("2.1", errors.unknown_attribute("X"), S + "InvalidAttributeName", "Unknown Attribute X."),
    ("2.1", errors.unknown_attribute(""), S + "InvalidAttributeName", "Unknown Attribute ."),
    ("3.3", errors.invalid_attribute_value("X"), S + "InvalidAttributeValue",
     "Invalid value for the parameter X."),
    ("2", errors.missing_parameter("X"), C + "MissingRequiredParameterException",
     "The request must contain the parameter X."),
    ("2", errors.invalid_parameter("text"), IPV, "text"),
    ("2.2", errors.invalid_value(7, "P", "Bad."), IPV,
     "Value 7 for parameter P is invalid. Reason: Bad."),
    ("1.2", errors.serialization_error("text"), C + "SerializationException", "text"),
    ("1.1", errors.unknown_action("Fly"), C + "UnknownOperationException",
     "The action Fly is not valid for this endpoint."),
    ("2.2", errors.invalid_message_contents(), S + "InvalidMessageContents",
     "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | "
     "#xE000 to #xFFFD | #x10000 to #x10FFFF"),
    ("2.2", errors.receipt_handle_is_invalid("h"), S + "ReceiptHandleIsInvalid",
     'The input receipt handle "h" is not a valid receipt handle.'),
    ("2.2", errors.message_not_changeable("h"), IPV,
     "Value h for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not "
     "available for visibility timeout change."),
    ("5.4", errors.receipt_handle_expired("h"), IPV,
     "Value h for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired."),
    ("2.2", errors.visibility_beyond_limit(43200), IPV,
     "Value 43200 for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for "
     "the message is beyond the limit [43200 seconds]"),
    ("5", errors.too_many_in_flight(), S + "OverLimit",
     "The maximum number of in flight messages is reached."),
    ("10.2", errors.access_denied("text"), C + "AccessDeniedException", "text"),
    ("1.6", errors.service_unavailable("text"), C + "ServiceUnavailableException", "text"),
    ("1.6", errors.internal_failure(), C + "InternalFailure",
     "The request failed because of an internal failure."),
]  # fmt: skip


@pytest.mark.parametrize(
    ("section", "error", "type_name", "text"), TEXTS, ids=[f"{t[0]}-{t[3][:30]}" for t in TEXTS]
)
def test_texts(section: str, error: SqsError, type_name: str, text: str) -> None:
    assert (error.type_name, error.message) == (type_name, text), section
    assert str(error) == f"{type_name}: {text}"
    assert isinstance(error, FastnodeError)


def test_only_the_missing_queue_reads_differently_in_query() -> None:
    # Section 1.4.
    missing = "The specified queue does not exist for this wsdl version."
    assert errors.queue_does_not_exist().query_message == missing
    others = [error for _, error, _, text in TEXTS if text != "The specified queue does not exist."]
    assert all(error.query_message == error.message for error in others)


def test_shape_outside_the_table_is_a_bug() -> None:
    with pytest.raises(KeyError):
        errors.sqs_error("NoSuchShape", "text")
