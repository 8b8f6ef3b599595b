"""The plain version of handing messages out and removing them, many in one call: what a receive and
a delete write, and what the client is told.

`_deliver.pyx` does the same in C. Which messages these are, and what else a transaction holds, is
for `queue` to say.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from fastnode._core_ref import (
    DELETE,
    FRESH_DELETE,
    FRESH_PUT,
    PUT,
    MessageRecord,
    MessageState,
    Receipt,
    decode_receipt,
    encode_receipt,
    encode_state,
    message_id_text,
    receipt_is_genuine,
)
from fastnode._keys_ref import message_key, timer_key

# What a timer is for.
TIMER_DELAYED: Final = b"\x00"
TIMER_RECEIVED: Final = b"\x01"

Write = tuple[int, bytes, bytes]


class PlaceKeys(NamedTuple):
    """How the keys begin that end with the position of a message."""

    data: bytes
    state: bytes
    timer: bytes


def plan_deliveries(
    keys: PlaceKeys,
    commit_ts: int,
    visible_at: int,
    messages: Sequence[tuple[int, MessageState | None]],
) -> tuple[list[Write], list[MessageState]]:
    """What a receive writes for the messages that it hands out, and the new state of each.

    A message is its position and its state; None if it is new. A state that is visible since the
    beginning of time has no timer: the message brought its counts from another queue.
    """
    writes: list[Write] = []
    states: list[MessageState] = []
    for position, old in messages:
        _, count, was_visible_at, first_ms = old or (0, 0, 0, 0)
        if was_visible_at:
            writes.append((FRESH_DELETE, _timer_key(keys, was_visible_at, position), b""))
        new = MessageState(commit_ts, count + 1, visible_at, first_ms or commit_ts >> 16)
        states.append(new)
        writes.append((PUT, _key(keys.state, position), encode_state(*new)))
        writes.append((FRESH_PUT, _timer_key(keys, visible_at, position), TIMER_RECEIVED))
    return writes, states


def plan_removals(keys: PlaceKeys, messages: Mapping[int, int]) -> list[Write]:
    """What removes messages that have a state, with the state, which guards the rest, and the
    timer. A message is its position and the time of its timer.
    """
    writes: list[Write] = []
    for position, visible_at in messages.items():
        writes.append((DELETE, _key(keys.state, position), b""))
        writes.append((FRESH_DELETE, _key(keys.data, position), b""))
        writes.append((FRESH_DELETE, _timer_key(keys, visible_at, position), b""))
    return writes


def show_deliveries(
    secret: bytes,
    generation: int,
    partition: int,
    records: Sequence[MessageRecord],
    states: Sequence[MessageState],
) -> list[tuple[str, str, str, str]]:
    """Id, receipt handle, digest and text of each message that is handed out."""
    return [
        (
            message_id_text(record.message_id),
            encode_receipt(secret, generation, record.message_id, state.nonce, partition),
            record.body_md5.hex(),
            record.body.decode(),
        )
        for record, state in zip(records, states, strict=True)
    ]


def open_receipts(secret: bytes, partition: int, handles: Iterable[str]) -> list[Receipt | None]:
    """What the handles of a queue, or of one partition, say; None for one that it never issued."""
    return [_opened(secret, partition, handle) for handle in handles]


def _opened(secret: bytes, partition: int, handle: str) -> Receipt | None:
    try:
        receipt = decode_receipt(handle)
    except ValueError:
        return None
    is_own = receipt.partition == partition and receipt_is_genuine(secret, receipt)
    return receipt if is_own else None


def state_keys(prefix: bytes, positions: Iterable[int]) -> list[bytes]:
    """Where the states of messages are."""
    return [_key(prefix, position) for position in positions]


def _key(prefix: bytes, position: int) -> bytes:
    return message_key(prefix, position >> 16, position & 0xFFFF)


def _timer_key(keys: PlaceKeys, at: int, position: int) -> bytes:
    return timer_key(keys.timer, at, position >> 16, position & 0xFFFF)
