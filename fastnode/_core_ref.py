"""The plain version of ids, receipts, records and transactions; home of their constants and types.

Every format begins with a version byte and every decoder is strict: it accepts exactly what the
encoder writes and raises ValueError on anything else. `_core.pyx` does the same in C and imports
constants and types from here. Key layouts are not here: see `_keys_ref.py`.
"""

import base64
import hmac
from collections.abc import Sequence
from typing import Final, NamedTuple

RECORD_VERSION: Final = 1
ENTRY_VERSION: Final = 1
RECEIPT_VERSION: Final = 1
RECEIPT_VERSION_PARTITIONED: Final = 2

RECEIPT_CHARS: Final = 55
RECEIPT_CHARS_PARTITIONED: Final = 60
BASE64_DIGITS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

MESSAGE_DELAYED: Final = 1
MESSAGE_MOVED: Final = 2
MESSAGE_FILED: Final = 4

PUT: Final = 1
DELETE: Final = 2
DROP: Final = 3
ADD: Final = 4
MAX: Final = 5
FRESH_PUT: Final = 6
FRESH_DELETE: Final = 7
TOUCH: Final = 8

UNPARTITIONED: Final = -1
ENTRIES_MAX: Final = 16

_MASK64: Final = (1 << 64) - 1
_REQUEST_BITS: Final = 54
_VERSION_7: Final = 7
_VARIANT: Final = 0b10


class Receipt(NamedTuple):
    """A decoded receipt handle, not yet checked against a secret; version 1 has partition -1."""

    partition: int
    generation: int
    message_id: bytes
    nonce: int
    tag: int


class MessageRecord(NamedTuple):
    """What a send stores, once, and nobody changes."""

    flags: int
    message_id: bytes
    sent_ms: int
    body_md5: bytes
    sender: str
    extras: bytes
    body: bytes


class MessageState(NamedTuple):
    """What a receive changes. A nonce of 0 is a delayed message that nobody has received."""

    nonce: int
    receive_count: int
    visible_at: int
    first_receive_ms: int


class Transaction(NamedTuple):
    """One transaction as every replica applies it; a write is (kind, key, value)."""

    request: bytes
    start_ts: int
    commit_ts: int
    retention: int
    mask: int
    reads: list[bytes]
    writes: list[tuple[int, bytes, bytes]]


def siphash24(key: bytes, message: bytes) -> int:
    """SipHash-2-4 (Aumasson and Bernstein, 2012) with a 64-bit result."""
    _check_size(key, 16, "a hash key")
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    state = [
        k0 ^ 0x736F6D6570736575,
        k1 ^ 0x646F72616E646F6D,
        k0 ^ 0x6C7967656E657261,
        k1 ^ 0x7465646279746573,
    ]
    whole = len(message) & ~7
    last = (len(message) & 0xFF) << 56 | int.from_bytes(message[whole:], "little")
    words = [int.from_bytes(message[at : at + 8], "little") for at in range(0, whole, 8)]
    for word in [*words, last]:
        state[3] ^= word
        _sip_rounds(state, 2)
        state[0] ^= word
    state[2] ^= 0xFF
    _sip_rounds(state, 4)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def message_id(commit_ts: int, entry: int, request: bytes) -> bytes:
    """A UUID in version 7 layout that says where its record is, so that an id needs no index."""
    _check_size(request, 16, "a request")
    if not 0 <= entry < ENTRIES_MAX:
        raise ValueError("a transaction creates at most 16 messages")
    _u64(commit_ts)
    folded = int.from_bytes(request[:8], "big") ^ int.from_bytes(request[8:], "big")
    high = (commit_ts >> 16) << 16 | _VERSION_7 << 12 | (commit_ts >> 4) & 0xFFF
    low = _VARIANT << 62 | (commit_ts & 0xF) << 58 | entry << 54
    return _u64(high) + _u64(low | folded & ((1 << _REQUEST_BITS) - 1))


def message_id_text(message_id: bytes) -> str:
    _check_size(message_id, 16, "a message id")
    digits = message_id.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def sequence_number(position: int, partition: int) -> str:
    """Of a message in a FIFO queue: it rises with the log, is unique in the queue and needs no
    counter.
    """
    number = (position >> 16) * 512 + max(partition, 0) * 16 + (position & 0xFFFF)
    return f"{number:020d}"


def message_id_position(message_id: bytes) -> tuple[int, int]:
    """The commit timestamp and the entry that the id was made from."""
    _check_size(message_id, 16, "a message id")
    high, low = int.from_bytes(message_id[:8], "big"), int.from_bytes(message_id[8:], "big")
    if high >> 12 & 0xF != _VERSION_7 or low >> 62 != _VARIANT:
        raise ValueError("the message id is not one of ours")
    commit_ts = (high >> 16) << 16 | (high & 0xFFF) << 4 | low >> 58 & 0xF
    return commit_ts, low >> 54 & 0xF


def receipt_tag(secret: bytes, generation: int, message_id: bytes, nonce: int) -> int:
    _check_size(message_id, 16, "a message id")
    return siphash24(secret, _u64(generation) + message_id + _u64(nonce))


def encode_receipt(
    secret: bytes, generation: int, message_id: bytes, nonce: int, partition: int = UNPARTITIONED
) -> str:
    tag = receipt_tag(secret, generation, message_id, nonce)
    if partition == UNPARTITIONED:
        head = bytes([RECEIPT_VERSION])
    else:
        head = bytes([RECEIPT_VERSION_PARTITIONED]) + partition.to_bytes(4, "big")
    raw = head + _u64(generation) + message_id + _u64(nonce) + _u64(tag)
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decode_receipt(handle: str) -> Receipt:
    raw = _decode_base64(handle)
    expected = {
        RECEIPT_CHARS: RECEIPT_VERSION,
        RECEIPT_CHARS_PARTITIONED: RECEIPT_VERSION_PARTITIONED,
    }
    if raw[0] != expected[len(handle)]:
        raise ValueError("the receipt handle has another version's length")
    partition = UNPARTITIONED
    rest = raw[1:]
    if raw[0] == RECEIPT_VERSION_PARTITIONED:
        partition, rest = int.from_bytes(rest[:4], "big"), rest[4:]
    return Receipt(
        partition,
        int.from_bytes(rest[:8], "big"),
        rest[8:24],
        int.from_bytes(rest[24:32], "big"),
        int.from_bytes(rest[32:], "big"),
    )


def receipt_is_genuine(secret: bytes, receipt: Receipt) -> bool:
    """Whether a queue with this secret made the receipt; every wrong tag takes the same time."""
    expected = receipt_tag(secret, receipt.generation, receipt.message_id, receipt.nonce)
    return hmac.compare_digest(_u64(expected), _u64(receipt.tag))


def encode_message(
    flags: int,
    message_id: bytes,
    sent_ms: int,
    body_md5: bytes,
    sender: str,
    extras: bytes,
    body: bytes,
) -> bytes:
    _check_size(message_id, 16, "a message id")
    _check_size(body_md5, 16, "an MD5 digest")
    name = sender.encode()
    sizes = len(name).to_bytes(2, "big") + _u32(len(extras)) + _u32(len(body))
    head = bytes([RECORD_VERSION]) + flags.to_bytes(1, "big") + message_id + _u64(sent_ms)
    return head + body_md5 + sizes + name + extras + body


def decode_message(record: bytes) -> MessageRecord:
    reader = Reader(record, RECORD_VERSION)
    flags, message_id, sent_ms, body_md5 = (
        reader.number(1),
        reader.take(16),
        reader.number(8),
        reader.take(16),
    )
    sizes = reader.number(2), reader.number(4), reader.number(4)
    sender, extras, body = (reader.take(size) for size in sizes)
    reader.finish()
    return MessageRecord(flags, message_id, sent_ms, body_md5, sender.decode(), extras, body)


def encode_state(nonce: int, receive_count: int, visible_at: int, first_receive_ms: int) -> bytes:
    times = _u64(visible_at) + _u64(first_receive_ms)
    return bytes([RECORD_VERSION]) + _u64(nonce) + _u32(receive_count) + times


def decode_state(record: bytes) -> MessageState:
    reader = Reader(record, RECORD_VERSION)
    state = MessageState(reader.number(8), reader.number(4), reader.number(8), reader.number(8))
    reader.finish()
    return state


def encode_transaction(
    request: bytes,
    start_ts: int,
    commit_ts: int,
    retention: int,
    mask: int,
    reads: Sequence[bytes],
    writes: Sequence[tuple[int, bytes, bytes]],
) -> bytes:
    """One transaction as it stands inside an entry; the entry's version byte covers it."""
    _check_size(request, 16, "a request")
    parts = [request, _u64(start_ts), _u64(commit_ts), retention.to_bytes(1, "big")]
    parts += [mask.to_bytes(2, "big"), _u32(len(reads)), _u32(len(writes))]
    for key in reads:
        parts += [_u32(len(key)), key]
    for kind, key, value in writes:
        check_write(kind, key, value)
        parts += [kind.to_bytes(1, "big"), _u32(len(key)), key, _u32(len(value)), value]
    return b"".join(parts)


def encode_entry(transactions: Sequence[bytes]) -> bytes:
    parts = [bytes([ENTRY_VERSION]), _u32(len(transactions))]
    for transaction in transactions:
        parts += [_u32(len(transaction)), transaction]
    return b"".join(parts)


def check_write(kind: int, key: bytes, value: bytes) -> None:
    """What apply may rely on, because a poisoned entry would stop every replica."""
    if not PUT <= kind <= TOUCH:
        raise ValueError("unknown kind of write")
    if kind in (DELETE, FRESH_DELETE, TOUCH) and value:
        raise ValueError("a delete or a touch has no value")
    if kind == DROP and key > value:
        raise ValueError("a dropped range ends before it starts")
    if kind == ADD and len(value) != 8:
        raise ValueError("a delta has 8 bytes")


class Reader:
    """Consumes bytes from the left; running out of them is a ValueError."""

    def __init__(self, source: bytes, version: int | None = None) -> None:
        self._source = source
        self._at = 0
        if version is not None and self.number(1) != version:
            raise ValueError("unknown version")

    def take(self, size: int) -> bytes:
        taken = self._source[self._at : self._at + size]
        if len(taken) != size:
            raise ValueError("truncated")
        self._at += size
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def finish(self) -> None:
        if self._at != len(self._source):
            raise ValueError("more bytes than the format has")


def _decode_base64(handle: str) -> bytes:
    """Only the one spelling that the encoder writes, though base64 would allow others."""
    if len(handle) not in (RECEIPT_CHARS, RECEIPT_CHARS_PARTITIONED):
        raise ValueError("a receipt handle has 55 or 60 characters")
    if not set(handle) <= set(BASE64_DIGITS):
        raise ValueError("the receipt handle is not base64url")
    raw = base64.urlsafe_b64decode(handle + "=" * (-len(handle) % 4))
    if base64.urlsafe_b64encode(raw).rstrip(b"=").decode() != handle:
        raise ValueError("the receipt handle has stray bits")
    return raw


def _sip_rounds(state: list[int], count: int) -> None:
    v0, v1, v2, v3 = state
    for _ in range(count):
        v0 = (v0 + v1) & _MASK64
        v1 = _rotate(v1, 13) ^ v0
        v0 = _rotate(v0, 32)
        v2 = (v2 + v3) & _MASK64
        v3 = _rotate(v3, 16) ^ v2
        v0 = (v0 + v3) & _MASK64
        v3 = _rotate(v3, 21) ^ v0
        v2 = (v2 + v1) & _MASK64
        v1 = _rotate(v1, 17) ^ v2
        v2 = _rotate(v2, 32)
    state[:] = v0, v1, v2, v3


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> (64 - bits)) & _MASK64


def _check_size(value: bytes, size: int, what: str) -> None:
    if len(value) != size:
        raise ValueError(f"{what} has {size} bytes")


def _u32(value: int) -> bytes:
    return value.to_bytes(4, "big")


def _u64(value: int) -> bytes:
    return value.to_bytes(8, "big")
