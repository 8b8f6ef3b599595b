"""Reports the cases that wait for a timer; what they do is in the `timed_*` modules."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.conformance import timed, timed_dead_letters, timed_fifo, timed_receiving
from tests.conformance.contract import PROTOCOLS, covers
from tests.conformance.timed import CASES, Key, TimedCase
from tests.nodes import Node

MODULES = (timed_receiving, timed_dead_letters, timed_fifo)


@pytest.fixture(scope="session")
def runs(node: Node) -> Iterator[dict[Key, Future[None]]]:
    with ThreadPoolExecutor(max_workers=len(CASES) * len(PROTOCOLS)) as pool:
        yield timed.start_all(pool, node.sqs_url)


@pytest.mark.parametrize(
    ("protocol", "case"),
    [
        pytest.param(protocol, case, id=f"{case.name}-{protocol}", marks=covers(*case.rows))
        for case in CASES
        for protocol in PROTOCOLS
    ],
)
def test_timed(protocol: str, case: TimedCase, runs: dict[Key, Future[None]]) -> None:
    runs[case.name, protocol].result(timeout=240)


def test_every_module_has_cases() -> None:
    assert {case.steps.__module__ for case in CASES} == {module.__name__ for module in MODULES}
