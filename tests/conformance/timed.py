"""Cases that must wait for a timer, run side by side so that the suite waits only once.

`@timed` registers a case instead of running it; `test_timed.py` starts them all at once, each with
a client of its own, and reports them one by one.

Some look at what is so only until a timer of a second fires. They say so by `while_it_lasts`: on a
machine that stood still meanwhile the look shows nothing, and the case begins anew.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from tests.conformance.client import Client
from tests.conformance.contract import PROTOCOLS

T = TypeVar("T")
Steps = Callable[[Client], None]
Key = tuple[str, str]
TRIES: Final = 10
# A node counts in milliseconds.
MARGIN_SECONDS: Final = 0.05


class TooLate(Exception):
    """The look was no earlier than the timer."""


@dataclass(frozen=True)
class TimedCase:
    rows: tuple[str, ...]
    steps: Steps

    @property
    def name(self) -> str:
        return self.steps.__name__


CASES: Final[list[TimedCase]] = []


def timed(*rows: str) -> Callable[[Steps], Steps]:
    def register(steps: Steps) -> Steps:
        CASES.append(TimedCase(rows, steps))
        return steps

    return register


def while_it_lasts(begun: float, seconds: float, look: Callable[[], T]) -> T:
    """What is seen before a timer fires that was set to so many seconds after `begun`."""
    try:
        return look()
    finally:
        if time.monotonic() - begun > seconds - MARGIN_SECONDS:
            raise TooLate


def start_all(pool: ThreadPoolExecutor, url: str) -> dict[Key, Future[None]]:
    return {
        (case.name, protocol): pool.submit(_run, case.steps, url, protocol)
        for case in CASES
        for protocol in PROTOCOLS
    }


def _run(steps: Steps, url: str, protocol: str) -> None:
    client = Client(url, protocol)
    try:
        for _ in range(TRIES):
            with suppress(TooLate):
                return steps(client)
        raise AssertionError(f"too late {TRIES} times: the machine is too slow for this case")
    finally:
        client.close()
