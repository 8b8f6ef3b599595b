"""Queue metadata and generation records: round trip, and refusal of everything else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.store.records import (
    Generation,
    QueueRecord,
    decode_generation,
    decode_queue,
    encode_generation,
    encode_queue,
)

U63 = st.integers(0, (1 << 63) - 1)
TEXTS = st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=4)
RECORDS = st.builds(
    QueueRecord,
    incarnation=U63,
    created_ms=U63,
    modified_ms=U63,
    purged_ms=U63,
    secret=st.binary(min_size=16, max_size=16),
    hash_seed=st.integers(0, (1 << 64) - 1),
    partition_count=st.integers(1, 32),
    attributes=TEXTS,
    tags=TEXTS,
)
GENERATIONS = st.builds(Generation, U63, U63)


@given(RECORDS)
def test_queue_records_come_back_and_tolerate_no_loss(record: QueueRecord) -> None:
    stored = encode_queue(record)
    assert decode_queue(stored) == record
    for size in range(len(stored)):
        with pytest.raises(ValueError, match="queue record"):
            decode_queue(stored[:size])
    with pytest.raises(ValueError, match="queue record"):
        decode_queue(stored + b"\x00")


@given(RECORDS, st.integers(0, 255))
def test_a_queue_record_of_another_version_is_refused(record: QueueRecord, version: int) -> None:
    stored = encode_queue(record)
    if version != stored[0]:
        with pytest.raises(ValueError, match="unknown version"):
            decode_queue(bytes((version,)) + stored[1:])


@given(st.binary(max_size=64))
def test_random_bytes_never_crash_a_decoder(stored: bytes) -> None:
    for decode in (decode_queue, decode_generation):
        try:
            decode(stored)
        except ValueError:
            continue


@given(GENERATIONS, st.integers(0, 255))
def test_generations_come_back_and_tolerate_no_loss(generation: Generation, version: int) -> None:
    stored = encode_generation(generation)
    assert decode_generation(stored) == generation
    for damaged in [stored[:size] for size in range(len(stored))] + [stored + b"\x00"]:
        with pytest.raises(ValueError, match="generation"):
            decode_generation(damaged)
    if version != stored[0]:
        with pytest.raises(ValueError, match="generation"):
            decode_generation(bytes((version,)) + stored[1:])
