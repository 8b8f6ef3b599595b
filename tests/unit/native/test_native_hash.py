"""Where queues and message groups go: our XXH3 against the xxhash package, and its rules."""

import random

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from fastnode import native
from tests.unit.conftest import Impl
from tests.unit.native import strategies as own

WIDE = 2**62
SEEDS = [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1]


@pytest.mark.parametrize("size", [*range(141), 240, 241, 1000])
def test_hash_is_xxh3_for_every_length_and_seed(impl: Impl, size: int) -> None:
    source = random.Random(size)
    for seed in [*SEEDS, *(source.getrandbits(64) for _ in range(20))]:
        group_id = "".join(chr(source.randrange(1, 128)) for _ in range(size))
        expected = xxhash.xxh3_64_intdigest(group_id.encode(), seed) % WIDE if size else 0
        assert impl.keys.partition_for(group_id, seed, WIDE, False) == expected
        segment = source.randbytes(size)
        assert impl.keys.home_group(segment, WIDE) == xxhash.xxh3_64_intdigest(segment) % WIDE


@given(st.text(min_size=1, max_size=140), own.u64, st.integers(1, 8))
def test_group_goes_to_the_masked_hash_of_its_utf8(
    impl: Impl, group_id: str, seed: int, bits: int
) -> None:
    place = impl.keys.partition_for(group_id, seed, 2**bits, False)
    assert place == xxhash.xxh3_64_intdigest(group_id.encode(), seed) & (2**bits - 1)


@given(own.texts, own.u64)
def test_group_stays_in_partition_zero_where_there_is_nothing_to_choose(
    impl: Impl, group_id: str, seed: int
) -> None:
    for count in (-1, 0, 1):
        assert impl.keys.partition_for(group_id, seed, count, False) == 0
    assert impl.keys.partition_for(group_id, seed, 32, True) == 0
    assert impl.keys.partition_for("", seed, 32, False) == 0


@pytest.mark.parametrize("count", [3, 5, 6, 7, 12, 31, 33, 2**40 - 1])
def test_partition_count_that_is_no_power_of_two_is_refused(impl: Impl, count: int) -> None:
    for per_queue in (False, True):
        with pytest.raises(ValueError):
            impl.keys.partition_for("group", 1, count, per_queue)


def test_seed_moves_groups(impl: Impl) -> None:
    places = {impl.keys.partition_for("group", seed, 32, False) for seed in range(100)}
    assert len(places) > 16


@pytest.mark.parametrize("groups", [1, 2, 3, 8, 256])
def test_home_groups_are_in_range_and_all_used(impl: Impl, groups: int) -> None:
    segments = [
        impl.keys.queue_segment("123456789012", "eu-west-1", f"queue-{number}")
        for number in range(groups * 12)
    ]
    places = [impl.keys.home_group(segment, groups) for segment in segments]
    assert set(places) == {place for place in places if 0 <= place < groups}
    assert len(set(places)) > groups * 0.9


def test_home_group_of_nothing_is_refused(impl: Impl) -> None:
    for groups in (0, -1):
        with pytest.raises(ValueError):
            impl.keys.home_group(b"segment", groups)


def test_published_places_never_move() -> None:
    """Stored queues depend on these: a change here needs a migration, not a new expectation."""
    segment = native.queue_segment("123456789012", "eu-west-1", "orders")
    assert native.home_group(segment, 8) == 5
    assert native.partition_for("customer-17", 0x1234_5678_9ABC_DEF0, 32, False) == 14
