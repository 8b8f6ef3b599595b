"""The plain version of planning a send (text, ids, digests, records, transaction) and of writing.

`_plan.pyx` does the same in C. Delayed messages are not planned here: they have state and a timer
from the start, and `queue/send.py` plans them write by write.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from fastnode._core_ref import (
    ADD,
    FRESH_PUT,
    PUT,
    Transaction,
    encode_message,
    encode_transaction,
    message_id,
    message_id_text,
)
from fastnode._keys_ref import message_key
from fastnode._occ_ref import APPLIED

_CONTROLS: Final = bytes(set(range(0x20)) - {0x09, 0x0A, 0x0D})
_NONCHARACTERS: Final = ("\ufffe".encode(), "\uffff".encode())


def encode_text(text: str) -> bytes | None:
    """The UTF-8 form of text, or None when it has a character that the API forbids: a control
    character but tab, line feed and carriage return, a surrogate, U+FFFE or U+FFFF.
    """
    try:
        encoded = text.encode()
    except UnicodeEncodeError:  # A lone surrogate.
        return None
    if len(encoded.translate(None, _CONTROLS)) != len(encoded):
        return None
    # In UTF-8 these three bytes in a row are always that one character.
    if not text.isascii() and any(one in encoded for one in _NONCHARACTERS):
        return None
    return encoded


def write_landed(
    transactions: Sequence[Transaction],
    outcomes: Sequence[tuple[int, int, int]],
    put: Callable[[bytes, bytes], object],
    other: Callable[[int, bytes, bytes], object],
) -> None:
    """Hand the writes of the transactions that landed on, in order: puts to `put`, the rest with
    their kind to `other`.
    """
    for transaction, outcome in zip(transactions, outcomes, strict=True):
        if outcome[0] == APPLIED:
            for kind, key, value in transaction.writes:
                if kind == PUT or kind == FRESH_PUT:
                    put(key, value)
                else:
                    other(kind, key, value)


class PlannedSend(NamedTuple):
    """A message of a planned transaction; `position` is commit timestamp << 16 | entry."""

    message_id: str
    body_md5: str
    position: int
    record: bytes


def plan_sends(
    request: bytes,
    start_ts: int,
    commit_ts: int,
    generation_key: bytes,
    total_key: bytes,
    data_prefix: bytes,
    sender: str,
    messages: Sequence[tuple[bytes, bytes]],
) -> tuple[bytes, list[PlannedSend]]:
    """The encoded transaction that stores `messages`, each (extras, body), and what it stores."""
    planned: list[PlannedSend] = []
    writes: list[tuple[int, bytes, bytes]] = []
    for entry, (extras, body) in enumerate(messages):
        identity = message_id(commit_ts, entry, request)
        digest = hashlib.md5(body, usedforsecurity=False).digest()
        record = encode_message(0, identity, commit_ts >> 16, digest, sender, extras, body)
        writes.append((FRESH_PUT, message_key(data_prefix, commit_ts, entry), record))
        position = commit_ts << 16 | entry
        planned.append(PlannedSend(message_id_text(identity), digest.hex(), position, record))
    writes.append((ADD, total_key, len(planned).to_bytes(8, "big", signed=True)))
    mask = (1 << len(planned)) - 1
    reads = (generation_key,)
    return encode_transaction(request, start_ts, commit_ts, 0, mask, reads, writes), planned
