"""Received messages as the client sees them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from fastnode import native
from fastnode.native import MessageState
from fastnode.queue.api import Message
from fastnode.queue.choice import Taken
from fastnode.queue.digest import attributes_md5
from fastnode.queue.live import LiveQueue
from fastnode.queue.message_attributes import (
    TRACE_HEADER,
    MessageExtras,
    decode_extras,
    wire_values,
)
from fastnode.queue.receive_one import Received
from fastnode.queue.validate import ValidReceive


def answers(received: Sequence[Received], valid: ValidReceive) -> list[Message]:
    return [message for part in received for message in _shown(part, valid)]


def each_once(messages: Iterable[Message]) -> list[Message]:
    """A node that takes a lead while others are asked for what they lead is asked by two names."""
    return list({message.receipt_handle: message for message in messages}.values())


def _shown(part: Received, valid: ValidReceive) -> list[Message]:
    queue, taken, states = part.queue, part.messages, part.states
    records = [one.record for one in taken]
    shown = native.show_deliveries(
        queue.receipt_secret, queue.generation, queue.partition, records, states
    )
    if not valid.system_names and not any(record.extras for record in records):
        return [Message(*one) for one in shown]
    return [_answer(queue, valid, *one) for one in zip(shown, taken, states, strict=True)]


def _answer(
    queue: LiveQueue,
    valid: ValidReceive,
    shown: tuple[str, str, str, str],
    taken: Taken,
    state: MessageState,
) -> Message:
    extras = decode_extras(taken.record.extras)
    selected = valid.selector.select(extras.attributes)
    return Message(
        *shown,
        attributes=_system_attributes(queue, valid.system_names, taken, state, extras),
        md5_of_message_attributes=attributes_md5(selected),
        message_attributes=wire_values(selected),
    )


_SEQUENCE_NUMBER: Final = "SequenceNumber"


def _source_arn(extras: MessageExtras) -> str | None:
    return extras.moved.source_arn if extras.moved else None


_SystemValue = Callable[[Taken, MessageState, MessageExtras], str | None]
_SYSTEM_VALUES: Final[dict[str, _SystemValue]] = {
    "SenderId": lambda taken, _state, _extras: taken.record.sender,
    "SentTimestamp": lambda taken, _state, _extras: str(taken.record.sent_ms),
    "ApproximateReceiveCount": lambda _taken, state, _extras: str(state.receive_count),
    "ApproximateFirstReceiveTimestamp": lambda _taken, state, _extras: str(state.first_receive_ms),
    "MessageGroupId": lambda _taken, _state, extras: extras.group_id,
    "MessageDeduplicationId": lambda _taken, _state, extras: extras.deduplication_id,
    "DeadLetterQueueSourceArn": lambda _taken, _state, extras: _source_arn(extras),
    TRACE_HEADER: lambda _taken, _state, extras: extras.trace_header,
}


def _system_attributes(
    queue: LiveQueue,
    names: frozenset[str],
    taken: Taken,
    state: MessageState,
    extras: MessageExtras,
) -> dict[str, str]:
    if not names:
        return {}
    values = ((n, of(taken, state, extras)) for n, of in _SYSTEM_VALUES.items() if n in names)
    shown = {name: value for name, value in values if value is not None}
    if queue.settings.is_fifo and _SEQUENCE_NUMBER in names:
        shown[_SEQUENCE_NUMBER] = native.sequence_number(taken.position, queue.partition)
    return shown
