"""The answers of sends that an earlier attempt of the call has made: see `repeats.py`."""

from collections.abc import Sequence

from fastnode import native
from fastnode.queue import fifo_send, repeats, validate
from fastnode.queue.api import (
    BatchResultErrorEntry,
    SendMessageBatchRequest,
    SendMessageBatchRequestEntry,
    SendMessageBatchResponse,
    SendMessageBatchResultEntry,
    SendMessageRequest,
    SendMessageResponse,
)
from fastnode.queue.caller import Call
from fastnode.queue.digest import attributes_md5, body_md5
from fastnode.queue.errors import SqsError
from fastnode.queue.fifo_live import FifoQueue
from fastnode.queue.landed_parts import landed_entries
from fastnode.queue.message_attributes import parse_attributes, parse_system_attributes
from fastnode.queue.parts import Sent
from fastnode.queue.queue_url import is_fifo_name
from fastnode.queue.repeats import Landed
from fastnode.queue.service import Service

_Entry = SendMessageRequest | SendMessageBatchRequestEntry


async def sent_before(
    service: Service, _call: Call, request: SendMessageRequest, landed: Landed
) -> SendMessageResponse:
    return response_of(request, _landed_send(service, request.queue_url, request, landed, 0))


async def batch_sent_before(
    service: Service, call: Call, request: SendMessageBatchRequest, landed: Landed
) -> SendMessageBatchResponse:
    successful: list[SendMessageBatchResultEntry] = []
    failed: list[BatchResultErrorEntry] = []
    for number, entry in enumerate(request.entries or ()):
        sent = (
            _landed_send(service, request.queue_url, entry, landed, number)
            if landed.has(number)
            else _original(service, call, request.queue_url, entry)
        )
        if sent is None:
            failed.append(repeats.failed(entry.id))
        else:
            successful.append(result_of(entry, sent))
    return SendMessageBatchResponse(successful, failed)


def _landed_send(
    service: Service, queue_url: str | None, entry: _Entry, landed: Landed, number: int
) -> Sent:
    """From a queue without partitions, which need not exist any more."""
    sequence: str | None = None
    if is_fifo_name(service.resolve(queue_url)[1]):
        sequence = native.sequence_number(landed.position(number), native.UNPARTITIONED)
    return Sent(landed.message_id(number), body_md5(_body(entry)), sequence)


async def sent_to_partitions(
    service: Service, call: Call, queue_url: str | None, entries: Sequence[_Entry]
) -> dict[int, Sent]:
    """The entries of a repeated call that were sent to partitions before, by their numbers."""
    landed = await landed_entries(service, call, queue_url)
    return {
        number: fifo_send.sent_before(*landed[number], number, _body(entry))
        for number, entry in enumerate(entries)
        if number in landed
    }


def _original(
    service: Service, call: Call, queue_url: str | None, entry: SendMessageBatchRequestEntry
) -> Sent | None:
    """The message that an entry of a FIFO queue is a duplicate of, as it may have been before."""
    account, name = service.resolve(queue_url)
    queue = service.find(account or call.caller.account, call.caller.region, name)
    if not isinstance(queue, FifoQueue):
        return None
    try:
        valid = validate.send_message(entry, queue.settings)
    except SqsError:
        return None
    return fifo_send.original_of(queue, valid)


def response_of(request: SendMessageRequest, sent: Sent) -> SendMessageResponse:
    return SendMessageResponse(
        sent.message_id, sent.body_md5, *_attribute_digests(request), sent.sequence_number
    )


def result_of(entry: SendMessageBatchRequestEntry, sent: Sent) -> SendMessageBatchResultEntry:
    return SendMessageBatchResultEntry(
        entry.id or "",
        sent.message_id,
        sent.body_md5,
        *_attribute_digests(entry),
        sent.sequence_number,
    )


def _body(entry: _Entry) -> bytes:
    return (entry.message_body or "").encode()


def _attribute_digests(entry: _Entry) -> tuple[str | None, str | None]:
    return (
        attributes_md5(parse_attributes(entry.message_attributes)),
        attributes_md5(parse_system_attributes(entry.message_system_attributes)),
    )
