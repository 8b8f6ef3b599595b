"""The kinds of refusal, written down from the contract and not taken from the code under test.

A kind is everything a client sees of an error besides its text. Texts stand in the cases.
"""

from dataclasses import dataclass
from typing import Final

SQS: Final = "com.amazonaws.sqs#"
CORAL: Final = "com.amazon.coral.service#"
PREFIX: Final = "AWS.SimpleQueueService."


@dataclass(frozen=True)
class Kind:
    """`type` is what JSON carries in `__type`; `code` is in the header and in XML."""

    type: str
    code: str
    status: int

    @property
    def batch_code(self) -> str:
        return self.code.removeprefix(PREFIX)


def _plain(shape: str, status: int = 400) -> Kind:
    return Kind(SQS + shape, shape, status)


def _prefixed(shape: str, status: int = 400) -> Kind:
    return Kind(SQS + shape, PREFIX + shape, status)


def _generic(shape: str, code: str, status: int) -> Kind:
    return Kind(CORAL + shape, code, status)


NO_QUEUE: Final = Kind(SQS + "QueueDoesNotExist", PREFIX + "NonExistentQueue", 400)
NAME_EXISTS: Final = Kind(SQS + "QueueNameExists", "QueueAlreadyExists", 400)
DELETED_RECENTLY: Final = _prefixed("QueueDeletedRecently")
ATTRIBUTE_NAME: Final = _plain("InvalidAttributeName")
ATTRIBUTE_VALUE: Final = _plain("InvalidAttributeValue")
CONTENTS: Final = _plain("InvalidMessageContents")
HANDLE: Final = _plain("ReceiptHandleIsInvalid", 404)
PURGING: Final = _prefixed("PurgeQueueInProgress", 403)
OVER_LIMIT: Final = _plain("OverLimit", 403)
EMPTY_BATCH: Final = _prefixed("EmptyBatchRequest")
TOO_MANY_ENTRIES: Final = _prefixed("TooManyEntriesInBatchRequest")
IDS_NOT_DISTINCT: Final = _prefixed("BatchEntryIdsNotDistinct")
ENTRY_ID: Final = _prefixed("InvalidBatchEntryId")
BATCH_TOO_LONG: Final = _prefixed("BatchRequestTooLong")
UNSUPPORTED: Final = _prefixed("UnsupportedOperation")
THROTTLED: Final = _plain("RequestThrottled", 403)
NOT_FOUND: Final = _plain("ResourceNotFoundException", 404)
INVALID_PARAMETER: Final = _generic("InvalidParameterValueException", "InvalidParameterValue", 400)
MISSING_PARAMETER: Final = _generic("MissingRequiredParameterException", "MissingParameter", 400)
UNKNOWN_ACTION: Final = _generic("UnknownOperationException", "InvalidAction", 400)
MALFORMED: Final = _generic("SerializationException", "MalformedInput", 400)
DENIED: Final = _generic("AccessDeniedException", "AccessDenied", 403)
UNKNOWN_KEY: Final = _generic("UnrecognizedClientException", "InvalidClientTokenId", 403)
BAD_SIGNATURE: Final = _generic("InvalidSignatureException", "SignatureDoesNotMatch", 403)
INCOMPLETE: Final = _generic("IncompleteSignatureException", "IncompleteSignature", 400)
