"""The circuit breaker: three failures open it, one probe decides, a new leader starts afresh."""

import pytest

from fastnode.cluster.breaker import (
    FAILURES_MAX,
    OPEN_SECONDS_MAX,
    OPEN_SECONDS_MIN,
    Breaker,
)

LEADER = 2, 7


def fail(breaker: Breaker, now: float, times: int = 1) -> None:
    for _ in range(times):
        era = breaker.admit(LEADER, now)
        assert era is not None
        breaker.settle(era, now, is_failure=True)


@pytest.fixture
def opened() -> Breaker:
    breaker = Breaker()
    fail(breaker, 0.0, FAILURES_MAX)
    return breaker


def test_three_failures_in_a_row_open_it() -> None:
    breaker = Breaker()
    fail(breaker, 0.0, FAILURES_MAX - 1)
    assert breaker.admit(LEADER, 0.0) is not None
    fail(breaker, 0.0)
    assert breaker.admit(LEADER, 0.0) is None
    assert breaker.admit(LEADER, OPEN_SECONDS_MIN - 0.001) is None


def test_an_answer_between_failures_starts_the_count_again() -> None:
    breaker = Breaker()
    for _ in range(3):
        fail(breaker, 0.0, FAILURES_MAX - 1)
        era = breaker.admit(LEADER, 0.0)
        assert era is not None
        breaker.settle(era, 0.0, is_failure=False)
    assert breaker.admit(LEADER, 0.0) is not None


def test_after_its_time_one_probe_is_let_through(opened: Breaker) -> None:
    assert opened.admit(LEADER, OPEN_SECONDS_MIN) is not None
    assert opened.admit(LEADER, OPEN_SECONDS_MIN) is None


def test_a_probe_that_is_answered_closes_it(opened: Breaker) -> None:
    era = opened.admit(LEADER, 1.0)
    assert era is not None
    opened.settle(era, 1.0, is_failure=False)
    fail(opened, 1.0, FAILURES_MAX - 1)
    assert opened.admit(LEADER, 1.0) is not None


def test_each_failed_probe_doubles_the_time_up_to_a_bound(opened: Breaker) -> None:
    now, wait, waits = 0.0, OPEN_SECONDS_MIN, []
    for _ in range(8):
        assert opened.admit(LEADER, now + wait - 0.001) is None
        now += wait
        waits.append(wait)
        fail(opened, now)
        wait = min(2 * wait, OPEN_SECONDS_MAX)
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0])


def test_a_probe_whose_caller_has_gone_says_nothing(opened: Breaker) -> None:
    era = opened.admit(LEADER, 0.1)
    assert era is not None
    opened.withdraw(era)
    again = opened.admit(LEADER, 0.1)
    assert again is not None
    opened.settle(again, 0.1, is_failure=True)
    assert opened.admit(LEADER, 0.29) is None
    assert opened.admit(LEADER, 0.31) is not None


def test_calls_from_before_it_opened_do_not_count() -> None:
    """A leader that dies fails all that was on its way to it at once."""
    breaker = Breaker()
    eras = [breaker.admit(LEADER, 0.0) for _ in range(100)]
    for era in eras:
        assert era is not None
        breaker.settle(era, 0.0, is_failure=True)
    probe = breaker.admit(LEADER, OPEN_SECONDS_MIN)
    assert probe is not None, "open no longer than after three"
    for era in eras:
        assert era is not None
        breaker.withdraw(era)
        breaker.settle(era, OPEN_SECONDS_MIN, is_failure=False)
    assert breaker.admit(LEADER, OPEN_SECONDS_MIN) is None, "the probe alone decides"


@pytest.mark.parametrize("other", [(3, 7), (2, 8)])
def test_another_leader_or_term_begins_with_a_clean_slate(
    opened: Breaker, other: tuple[int, int]
) -> None:
    assert opened.admit(other, 0.0) is not None
    for _ in range(FAILURES_MAX - 1):
        era = opened.admit(other, 0.0)
        assert era is not None
        opened.settle(era, 0.0, is_failure=True)
    assert opened.admit(other, 0.0) is not None


def test_what_a_call_to_the_last_leader_comes_to_does_not_count(opened: Breaker) -> None:
    late = opened.admit(LEADER, 0.1)
    era = opened.admit((3, 8), 0.1)
    assert late is not None and era is not None
    for _ in range(FAILURES_MAX):
        opened.settle(late, 0.1, is_failure=True)
    assert opened.admit((3, 8), 0.1) is not None
