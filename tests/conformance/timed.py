"""Cases that must wait for a timer, run side by side so that the suite waits only once.

`@timed` registers a case instead of running it; `test_timed.py` starts them all at once, each with
a client of its own, and reports them one by one.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from tests.conformance.client import Client
from tests.conformance.contract import PROTOCOLS

Steps = Callable[[Client], None]
Key = tuple[str, str]


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


def start_all(pool: ThreadPoolExecutor, url: str) -> dict[Key, Future[None]]:
    return {
        (case.name, protocol): pool.submit(_run, case.steps, url, protocol)
        for case in CASES
        for protocol in PROTOCOLS
    }


def _run(steps: Steps, url: str, protocol: str) -> None:
    client = Client(url, protocol)
    try:
        steps(client)
    finally:
        client.close()
