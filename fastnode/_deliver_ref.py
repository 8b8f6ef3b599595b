"""The plain version of handing messages out and removing them, many in one call: what a receive and
a delete write, and what the client is told.

`_deliver.pyx` does the same in C. Which messages these are, and what else a transaction holds, is
for `queue` to say.
"""

from collections import deque
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from fastnode._core_ref import (
    ADD,
    DELETE,
    ENTRIES_MAX,
    FRESH_DELETE,
    FRESH_PUT,
    MAX,
    PUT,
    TOUCH,
    MessageRecord,
    MessageState,
    Receipt,
    decode_message,
    decode_receipt,
    encode_receipt,
    encode_state,
    encode_transaction,
    message_id_position,
    message_id_text,
    receipt_is_genuine,
)
from fastnode._keys_ref import message_key, timer_key

# What a timer is for.
TIMER_DELAYED: Final = b"\x00"
TIMER_RECEIVED: Final = b"\x01"

_POSITION_BYTES: Final = 10

Write = tuple[int, bytes, bytes]
# (position, record): a position is commit timestamp << 16 | entry.
Item = tuple[int, bytes]


class PlaceKeys(NamedTuple):
    """How the keys begin that end with the position of a message."""

    data: bytes
    state: bytes
    timer: bytes


class HandoutKeys(NamedTuple):
    """What a receive or a delete reads and writes besides its messages."""

    generation: bytes
    places: PlaceKeys
    total: bytes
    in_flight: bytes
    mark: bytes


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


# --- whole calls ---------------------------------------------------------------------------------


def page_items(rows: Iterable[tuple[bytes, bytes]], skipped: Container[int]) -> list[Item]:
    """Stored records by their positions, without those at `skipped`."""
    items = [(int.from_bytes(key[-_POSITION_BYTES:], "big"), record) for key, record in rows]
    return [item for item in items if item[0] not in skipped]


def are_plain(items: Iterable[Item], expired_ms: int) -> bool:
    """Whether these messages need nothing but to be handed out: they were sent here, after that
    time, and have no rows of their own.
    """
    records = [decode_message(record) for _, record in items]
    return all(not record.flags and record.sent_ms > expired_ms for record in records)


def place_plain(
    items: Sequence[Item], expired_ms: int, state_prefix: bytes, held: set[bytes]
) -> tuple[tuple[int, ...], tuple[bytes, ...]] | None:
    """The positions of these messages and the keys of their states; None unless all are plain and
    no state is held.
    """
    positions = tuple(position for position, _ in items)
    keys = tuple(state_keys(state_prefix, positions))
    is_free = are_plain(items, expired_ms) and held.isdisjoint(keys)
    return (positions, keys) if is_free else None


def take_plain(
    buffer: deque[Item], limit: int, expired_ms: int, state_prefix: bytes, held: set[bytes]
) -> tuple[list[Item], tuple[int, ...], tuple[bytes, ...], int] | None:
    """Take the first messages of a buffer, at most `limit`: they, their positions, the keys of
    their states and the bytes of their records. None, and nothing is taken, unless all of them are
    plain and no state is held.
    """
    items = list(islice(buffer, limit))
    places = place_plain(items, expired_ms, state_prefix, held)
    if places is None:
        return None
    for _ in items:
        buffer.popleft()
    return items, *places, sum(len(record) for _, record in items)


def plan_receive(
    request: bytes,
    start_ts: int,
    commit_ts: int,
    retention: int,
    keys: HandoutKeys,
    visible_at: int,
    mark: int,
    items: Sequence[Item],
    heads: Iterable[bytes],
) -> bytes:
    """The transaction of a receive that hands out messages which have no state. `heads` are of the
    message groups that it touches.
    """
    writes, _ = plan_deliveries(
        keys.places, commit_ts, visible_at, [(position, None) for position, _ in items]
    )
    writes += [(TOUCH, head, b"") for head in heads]
    writes.append((ADD, keys.in_flight, _delta(len(items))))
    writes.append((MAX, keys.mark, mark.to_bytes(_POSITION_BYTES, "big")))
    mask = (1 << len(items)) - 1
    return encode_transaction(
        request, start_ts, commit_ts, retention, mask, [keys.generation], writes
    )


def plan_delete(
    request: bytes,
    start_ts: int,
    commit_ts: int,
    retention: int,
    keys: HandoutKeys,
    mask: int,
    times: Mapping[int, int],
    rest: Sequence[Write],
) -> bytes:
    """The transaction that removes received messages, each with the time of its timer. `rest` is
    what it writes besides.
    """
    writes = plan_removals(keys.places, times)
    writes += [(ADD, key, _delta(-len(times))) for key in (keys.total, keys.in_flight)]
    return encode_transaction(
        request, start_ts, commit_ts, retention, mask, [keys.generation], [*writes, *rest]
    )


def show_messages(
    secret: bytes, generation: int, partition: int, nonce: int, items: Sequence[Item]
) -> bytes:
    """The answer of a receive that was asked for no attributes."""
    if len(items) > ENTRIES_MAX:
        raise OverflowError("a receive takes at most 16 messages")
    messages = []
    for _, stored in items:
        record = decode_message(stored)
        messages.append(
            {
                "MessageId": message_id_text(record.message_id),
                "ReceiptHandle": encode_receipt(
                    secret, generation, record.message_id, nonce, partition
                ),
                "MD5OfBody": record.body_md5.hex(),
                "Body": record.body.decode(),
            }
        )
    return msgspec.json.encode({"Messages": messages})


def receipt_places(
    secret: bytes, partition: int, generation: int, handles: Iterable[bytes]
) -> list[tuple[int, int]] | None:
    """Position and nonce that each handle of a queue without arrivals names; None unless all are
    genuine and of that generation.
    """
    # Every byte becomes a letter; only ASCII is genuine.
    receipts = open_receipts(secret, partition, [one.decode("latin-1") for one in handles])
    opened = [one for one in receipts if one is not None and one.generation == generation]
    if len(opened) < len(receipts):
        return None
    try:
        return [(_position(receipt.message_id), receipt.nonce) for receipt in opened]
    except ValueError:
        return None


def hidden_messages(
    secret: bytes,
    partition: int,
    generation: int,
    handles: Iterable[bytes],
    scheduled: dict[int, int],
    state_prefix: bytes,
    held: set[bytes],
) -> tuple[dict[int, int], tuple[bytes, ...]] | None:
    """What the handles name: until when each message, by its position, is hidden, and the keys of
    their states. None unless all are genuine, all of these times are known and no state is held.
    """
    places = receipt_places(secret, partition, generation, handles)
    if places is None or any(position not in scheduled for position, _ in places):
        return None
    times = {position: scheduled[position] for position, _ in places}
    keys = tuple(state_keys(state_prefix, times))
    return (times, keys) if held.isdisjoint(keys) else None


def _position(message_id: bytes) -> int:
    commit_ts, entry = message_id_position(message_id)
    return commit_ts << 16 | entry


def _delta(delta: int) -> bytes:
    return delta.to_bytes(8, "big", signed=True)


def _key(prefix: bytes, position: int) -> bytes:
    return message_key(prefix, position >> 16, position & 0xFFFF)


def _timer_key(keys: PlaceKeys, at: int, position: int) -> bytes:
    return timer_key(keys.timer, at, position >> 16, position & 0xFFFF)
