"""Texts of refusals that several sections quote, as the contract spells them."""

from typing import Any, Final

CHARACTERS_TEXT: Final = (
    "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | "
    "#xE000 to #xFFFD | #x10000 to #x10FFFF"
)
GARBAGE_TEXT: Final = 'The input receipt handle "garbage" is not a valid receipt handle.'
# Grammar as recorded; a single send ends it with a full stop, a batch entry does not.
NOT_FOR_TYPE: Final = "The request include parameter that is not valid for this queue type"
MAX_RESULTS_TEXT: Final = (
    "Value for parameter MaxResults is invalid. "
    "Reason: MaxResults must be an integer between 1 and 1000."
)
TOKEN_TEXT: Final = "Invalid or expired next token."


def value_text(value: object, parameter: str, reason: str) -> str:
    return f"Value {value} for parameter {parameter} is invalid. Reason: {reason}"


def missing_text(name: str) -> str:
    return f"The request must contain the parameter {name}."


def deleted_text(message: dict[str, Any]) -> str:
    reason = "Message does not exist or is not available for visibility timeout change."
    return value_text(message["ReceiptHandle"], "ReceiptHandle", reason)


def no_resource_text(member: str) -> str:
    return f"The resource that you specified for the {member} parameter doesn't exist."
