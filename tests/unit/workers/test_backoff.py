"""A worker that ends again and again is started ever more slowly, and always again."""

import signal

from fastnode.workers.backoff import (
    SECONDS_MAX,
    SECONDS_MIN,
    STEADY_SECONDS,
    BackOff,
    end_text,
)


def test_the_wait_doubles_up_to_a_bound() -> None:
    back_off = BackOff()
    waits = [back_off.after(0.0) for _ in range(20)]
    assert waits[:3] == [SECONDS_MIN, 2 * SECONDS_MIN, 4 * SECONDS_MIN]
    assert waits[-1] == SECONDS_MAX == max(waits)


def test_a_worker_that_served_for_long_is_started_at_once_again() -> None:
    back_off = BackOff()
    for _ in range(5):
        back_off.after(STEADY_SECONDS - 1)
    assert back_off.after(STEADY_SECONDS) == SECONDS_MIN


def test_an_end_is_told_by_signal_or_code() -> None:
    assert end_text(-signal.SIGKILL) == "signal SIGKILL"
    assert end_text(-200) == "signal 200"
    assert end_text(3) == "exit code 3"
