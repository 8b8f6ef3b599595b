"""The records that are read rarely: a queue's metadata and its generation. Message records are in
`native`.

Each begins with a version byte; a decoder refuses every other version and everything that the
encoder would not write.
"""

from typing import Final, NamedTuple

import msgspec

QUEUE_VERSION: Final = 1
GENERATION_VERSION: Final = 1
_GENERATION_BYTES: Final = 17


class QueueRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a queue is. Partition count, collapse, hash seed and the scope of deduplication
    never change after creation.
    """

    incarnation: int
    created_ms: int
    modified_ms: int
    purged_ms: int
    secret: bytes
    hash_seed: int
    partition_count: int
    attributes: dict[str, str]
    tags: dict[str, str]
    dedup_per_group: bool = False
    # The group of each partition; none for a queue that has no partitions.
    partition_groups: tuple[int, ...] = ()


class Generation(NamedTuple):
    """Counts the lives of a queue's name; survives its deletion. `deleted_ms` is 0 while the queue
    exists.
    """

    number: int
    deleted_ms: int


NO_GENERATION: Final = Generation(0, 0)

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(QueueRecord)


def encode_queue(record: QueueRecord) -> bytes:
    return bytes((QUEUE_VERSION,)) + _encoder.encode(record)


def decode_queue(stored: bytes) -> QueueRecord:
    if not stored or stored[0] != QUEUE_VERSION:
        raise ValueError("a queue record of an unknown version")
    try:
        return _decoder.decode(memoryview(stored)[1:])
    except msgspec.MsgspecError as error:
        raise ValueError(f"a damaged queue record: {error}") from error


def encode_generation(generation: Generation) -> bytes:
    head = bytes((GENERATION_VERSION,))
    return head + generation.number.to_bytes(8, "big") + generation.deleted_ms.to_bytes(8, "big")


def decode_generation(stored: bytes) -> Generation:
    if len(stored) != _GENERATION_BYTES or stored[0] != GENERATION_VERSION:
        raise ValueError("a damaged generation record or one of an unknown version")
    return Generation(int.from_bytes(stored[1:9], "big"), int.from_bytes(stored[9:], "big"))
