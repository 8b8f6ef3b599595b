"""The pace of bulk: never above the rate for longer than the burst, and none of it lost."""

from hypothesis import given
from hypothesis import strategies as st

from fastnode.cluster.rate_limit import RateLimit


def test_a_burst_goes_at_once_and_then_the_rate_holds() -> None:
    limit = RateLimit(100, burst_bytes=50)
    assert limit.reserve(50, now=0.0) == 0.0
    assert limit.reserve(100, now=0.0) == 1.0
    assert limit.reserve(100, now=0.0) == 2.0


def test_idle_time_is_saved_up_to_the_burst_only() -> None:
    limit = RateLimit(100, burst_bytes=50)
    limit.reserve(50, now=0.0)
    assert limit.reserve(50, now=1_000.0) == 0.0
    assert limit.reserve(100, now=1_000.0) == 1.0


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 30)), min_size=1))
def test_what_went_in_any_time_is_at_most_burst_and_rate(steps: list[tuple[int, int]]) -> None:
    limit, now, gone = RateLimit(100, burst_bytes=50), 0.0, 0
    for count, pause in steps:
        now += pause / 10
        now += limit.reserve(count, now)
        gone += count
        assert gone <= 50 + 100 * now + 1e-6
