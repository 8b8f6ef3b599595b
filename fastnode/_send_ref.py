"""The plain version of a send, from its stamps to its answer: ids, digests, records, transaction.

`_send.pyx` does the same in C. Delayed messages are not planned here: they have state and a timer
from the start, and `queue/send.py` plans them write by write.
"""

from collections.abc import Sequence
from typing import NamedTuple

from fastnode._core_ref import (
    ADD,
    ENTRIES_MAX,
    FRESH_PUT,
    PUT,
    TOUCH,
    decode_message,
    encode_message,
    encode_transaction,
    message_id,
    message_id_text,
)
from fastnode._keys_ref import message_key, text
from fastnode._md5_ref import md5_of
from fastnode._plan_ref import FifoDraft


class SendKeys(NamedTuple):
    """Where a queue keeps what a send writes: two keys, and how the keys of messages begin."""

    generation: bytes
    total: bytes
    data: bytes


class FifoKeys(NamedTuple):
    """The same of a FIFO queue, or a partition of one, which has more families."""

    generation: bytes
    total: bytes
    data: bytes
    group: bytes
    head: bytes


class PlannedSend(NamedTuple):
    """A message of a planned transaction; `position` is commit timestamp << 16 | entry."""

    message_id: str
    body_md5: str
    position: int
    record: bytes


def plan_send(
    request: bytes,
    start_ts: int,
    commit_ts: int,
    retention: int,
    keys: SendKeys,
    sender: str,
    body: bytes,
) -> tuple[bytes, bytes]:
    """As `plan_sends` for one message that is nothing but a body: the encoded transaction and the
    record, which says everything else.
    """
    encoded, planned = plan_sends(
        request, start_ts, commit_ts, retention, keys, sender, ((0, b"", body),)
    )
    return encoded, planned[0].record


def plan_sends(
    request: bytes,
    start_ts: int,
    commit_ts: int,
    retention: int,
    keys: SendKeys,
    sender: str,
    messages: Sequence[tuple[int, bytes, bytes]],
) -> tuple[bytes, list[PlannedSend]]:
    """The encoded transaction that stores `messages`, each with the number that it has in its call
    (number, extras, body), and what it stores.
    """
    planned: list[PlannedSend] = []
    writes: list[tuple[int, bytes, bytes]] = []
    mask = 0
    for entry, extras, body in messages:
        identity = message_id(commit_ts, entry, request)
        digest = md5_of(body)
        record = encode_message(0, identity, commit_ts >> 16, digest, sender, extras, body)
        writes.append((FRESH_PUT, message_key(keys.data, commit_ts, entry), record))
        position = commit_ts << 16 | entry
        planned.append(PlannedSend(message_id_text(identity), digest.hex(), position, record))
        mask |= 1 << entry
    writes.append((ADD, keys.total, _delta(planned)))
    reads = (keys.generation,)
    return encode_transaction(request, start_ts, commit_ts, retention, mask, reads, writes), planned


def plan_bodies(
    request: bytes,
    start_ts: int,
    commit_ts: int,
    retention: int,
    keys: SendKeys,
    sender: str,
    bodies: Sequence[bytes],
) -> tuple[bytes, list[bytes]]:
    """As `plan_send` for all messages of a call: the encoded transaction and the records."""
    messages = [(number, b"", body) for number, body in enumerate(bodies)]
    encoded, planned = plan_sends(request, start_ts, commit_ts, retention, keys, sender, messages)
    return encoded, [message.record for message in planned]


def _delta(planned: Sequence[object]) -> bytes:
    if len(planned) > ENTRIES_MAX:
        raise ValueError("a transaction creates at most 16 messages")
    return len(planned).to_bytes(8, "big", signed=True)


def plan_fifo_sends(
    request: bytes,
    start_ts: int,
    commit_ts: int,
    retention: int,
    keys: FifoKeys,
    sender: str,
    messages: Sequence[FifoDraft],
) -> tuple[bytes, list[bytes]]:
    """As `plan_bodies`, for messages that nobody has sent before: each is filed under its group,
    touches it, and leaves a deduplication row.
    """
    records: list[bytes] = []
    writes: list[tuple[int, bytes, bytes]] = []
    mask = 0
    for entry, group_id, dedup_row, extras, body in messages:
        identity = message_id(commit_ts, entry, request)
        digest = md5_of(body)
        record = encode_message(0, identity, commit_ts >> 16, digest, sender, extras, body)
        place, group = message_key(b"", commit_ts, entry), text(group_id)
        writes.append((FRESH_PUT, keys.data + place, record))
        writes.append((FRESH_PUT, keys.group + group + place, b""))
        writes.append((TOUCH, keys.head + group, b""))
        writes.append((PUT, dedup_row, identity + place))
        records.append(record)
        mask |= 1 << entry
    writes.append((ADD, keys.total, _delta(records)))
    reads = (keys.generation,)
    return encode_transaction(request, start_ts, commit_ts, retention, mask, reads, writes), records


def fill_answer(
    pieces: tuple[bytes, ...], request_id: str, record: bytes, number: str = ""
) -> bytes:
    """The answer to a send: between five pieces the id of the request, the id and the digest of the
    message, and its sequence number.
    """
    before, after_request, after_id, after_digest, end = pieces
    message = decode_message(record)
    identity, digest = message_id_text(message.message_id), message.body_md5.hex()
    return b"".join(
        (
            *(before, request_id.encode(), after_request, identity.encode()),
            *(after_id, digest.encode(), after_digest, number.encode(), end),
        )
    )


def fill_batch_answer(
    pieces: tuple[bytes, bytes],
    request_id: str,
    ids: Sequence[bytes],
    records: Sequence[bytes],
    numbers: Sequence[str],
) -> bytes:
    """The answer to a batch of which every entry is stored: after two pieces, with the id of the
    request between them, the length of the rest and the results. `numbers` is empty, or has the
    sequence number of each message.
    """
    before, after_request = pieces
    if len(numbers) not in (0, len(ids)):
        raise ValueError("an entry has a sequence number, or none has")
    results = b",".join(
        _result(entry_id, record, number)
        for entry_id, record, number in zip(ids, records, numbers or [""] * len(ids), strict=True)
    )
    body = b'{"Successful":[%b]}' % results
    return b"%b%b%b%d\r\n\r\n%b" % (before, request_id.encode(), after_request, len(body), body)


def _result(entry_id: bytes, record: bytes, number: str) -> bytes:
    message = decode_message(record)
    return b'{"Id":"%b","MessageId":"%b","MD5OfMessageBody":"%b"%b}' % (
        entry_id,
        message_id_text(message.message_id).encode(),
        message.body_md5.hex().encode(),
        b',"SequenceNumber":"%b"' % number.encode() if number else b"",
    )
