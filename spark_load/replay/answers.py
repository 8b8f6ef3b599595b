"""What an answer says about the messages of its call. Pure.

An answer that is not what SQS would say is an unknown outcome with a reason: a replay goes on, and
the verifier sees what happened.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from spark_load.replay.http1 import Answer
from spark_load.replay.named import maker
from spark_load.replay.requests import Held
from spark_load.schema import Outcome

_DECODER: Final = json.JSONDecoder()
_KEY: Final = re.compile(r"([0-9a-f]{8}-\d+-\d+)(?: |$)")
_EXPLAINED: Final = re.compile(r"partitions=(\d+);rows=(\d+);us=(\d+);remote=(\d+)")


class MessageRow(NamedTuple):
    """A message within a row of the history; the fields are the columns of `schema.py`."""

    key: str | None
    message_id: str | None
    receipt: str | None
    sequence: str | None
    group: str | None
    receives: int | None
    outcome: Outcome


message_row: Final = maker(MessageRow)
# A message of which nothing is known yet.
BLANK: Final = MessageRow(None, None, None, None, None, None, "unknown")


class Cost(NamedTuple):
    """What a receive cost, by its X-Fastnode-Receive header."""

    partitions: int | None
    rows: int | None
    choose_us: int | None
    remote: int | None


NO_COST: Final = Cost(None, None, None, None)


def parse(body: bytes) -> Any:
    """JSON, without the guesses at its encoding that make `json.loads` slow on short texts."""
    return _DECODER.raw_decode(body.decode())[0]


def error_name(answer: Answer) -> str:
    """The error's name without its namespace; the status if the body has none."""
    try:
        name = parse(answer.body)["__type"]
    except (ValueError, LookupError, TypeError):
        return f"HTTP {answer.status}"
    return str(name).rpartition("#")[2]


def cost_of(answer: Answer) -> Cost:
    text = answer.header("X-Fastnode-Receive")
    found = None if text is None else _EXPLAINED.search(text)
    return NO_COST if found is None else Cost(*map(int, found.groups()))


def settle(messages: Sequence[MessageRow], outcome: Outcome) -> list[MessageRow]:
    """All messages of a call whose outcome they share."""
    # What was never sent has, as far as a message goes, been refused.
    shared: Outcome = "refused" if outcome == "unsent" else outcome
    return [message._replace(outcome=shared) for message in messages]


def settle_send(messages: Sequence[MessageRow], body: bytes) -> list[MessageRow]:
    """The one message of a SendMessage that was answered with 200."""
    return [_sent(messages[0], parse(body))]


def settle_send_batch(messages: Sequence[MessageRow], body: bytes) -> list[MessageRow]:
    return _settle_entries(messages, body, _sent)


def settle_plain(messages: Sequence[MessageRow], body: bytes) -> list[MessageRow]:
    return [message._replace(outcome="ok") for message in messages]


def settle_batch(messages: Sequence[MessageRow], body: bytes) -> list[MessageRow]:
    return _settle_entries(messages, body, lambda message, entry: message._replace(outcome="ok"))


def _sent(message: MessageRow, entry: Mapping[str, Any]) -> MessageRow:
    sequence = entry.get("SequenceNumber")
    return message_row((message.key, entry["MessageId"], None, sequence, message.group, None, "ok"))


def _settle_entries(messages: Sequence[MessageRow], body: bytes, succeed: Any) -> list[MessageRow]:
    """An entry that the answer does not name has an unknown outcome."""
    answer = parse(body)
    rows = settle(messages, "unknown")
    for entry in answer.get("Successful", ()):
        index = int(entry["Id"])
        rows[index] = succeed(messages[index], entry)
    for entry in answer.get("Failed", ()):
        # Only the sender's fault is certain to have left nothing behind.
        outcome: Outcome = "refused" if entry.get("SenderFault", True) else "unknown"
        index = int(entry["Id"])
        rows[index] = messages[index]._replace(outcome=outcome)
    return rows


def received(body: bytes) -> list[Held]:
    """The messages of a receive."""
    return [_held(message) for message in parse(body).get("Messages", ())]


def _held(message: Mapping[str, Any]) -> Held:
    attributes = message.get("Attributes", {})
    found = _KEY.match(message["Body"])
    count = attributes.get("ApproximateReceiveCount")
    return Held(
        key=None if found is None else found[1],
        message_id=message["MessageId"],
        handle=message["ReceiptHandle"],
        receipt=receipt_hash(message["ReceiptHandle"]),
        sequence=attributes.get("SequenceNumber"),
        group=attributes.get("MessageGroupId"),
        receives=None if count is None else int(count),
    )


def receipt_hash(handle: str) -> str:
    return hashlib.blake2b(handle.encode(), digest_size=8).hexdigest()


def held_row(held: Held, outcome: Outcome) -> MessageRow:
    return MessageRow(
        held.key,
        held.message_id,
        held.receipt,
        held.sequence,
        held.group,
        held.receives,
        outcome,
    )
