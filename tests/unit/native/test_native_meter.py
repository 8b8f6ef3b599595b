"""Times of requests: the compiled version and its twin file every time alike."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode import _meter_ref, native


@given(st.lists(st.integers(min_value=-5, max_value=(1 << 62) - 1)))
def test_both_file_a_time_alike(times: list[int]) -> None:
    compiled, twin = native.Times(10), _meter_ref.Times(10)
    for elapsed_ns in times:
        compiled.add(elapsed_ns)
        twin.add(elapsed_ns)
    counts, total = twin.seen()
    assert compiled.seen() == (counts, total & (1 << 64) - 1)
    assert sum(counts) == len(times)


def test_what_took_longer_is_slow() -> None:
    for kind in (native.Times, _meter_ref.Times):
        times = kind(1_000_000_000)
        assert not times.took(native.now_ns())
        assert times.took(native.now_ns() - 2_000_000_000)
        # A clock that did not move is no time at all, and a future one neither.
        assert not times.took(native.now_ns() + 5_000_000_000)
        counts, total_ns = times.seen()
        assert sum(counts) == 3 and 2_000_000_000 < total_ns < 60_000_000_000


@pytest.mark.parametrize("clock", ["now_ns", "boottime_ns", "wall_seconds"])
def test_both_read_the_same_clock(clock: str) -> None:
    compiled, twin = getattr(native, clock), getattr(_meter_ref, clock)
    before = twin()
    assert before <= compiled() <= twin()
