"""Nodes, clients and queues for the cases; and the count of what the cases cover.

One open node serves nearly everything. A node with credentials serves the cases about signatures,
a strict one the 60-second rules. `--whole-contract` makes an uncovered row a failure.
"""

from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conformance import contract
from tests.conformance.client import Client
from tests.conformance.contract import PROTOCOLS, Citation
from tests.conformance.kit import new_queue
from tests.conformance.signing import OWNER, credentials_file, signed
from tests.nodes import Node

_CITATIONS: Final = pytest.StashKey[dict[str, Citation]]()


# --- counting -----------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("contract")
    group.addoption("--whole-contract", action="store_true", help="fail on rows without a case")
    group.addoption("--contract-rows", default=str(contract.ROWS_FOLDER), help="where rows are")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "contract(*rows, only): rows of the contract that it proves")
    config.stash[_CITATIONS] = {}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A case runs by both protocols unless it says which one it is about."""
    tables = metafunc.definition.iter_markers("parametrize")
    if "protocol" in metafunc.fixturenames and not any("protocol" in one.args[0] for one in tables):
        only = {mark.kwargs["only"] for mark in metafunc.definition.iter_markers("contract")}
        metafunc.parametrize("protocol", sorted(only - {""}) or PROTOCOLS)


def pytest_collection_finish(session: pytest.Session) -> None:
    citations = session.config.stash[_CITATIONS]
    for item in session.items:
        rows = tuple(row for mark in item.iter_markers("contract") for row in mark.args)
        if rows and isinstance(item, pytest.Function):
            protocol = str(item.callspec.params["protocol"])
            citations[item.nodeid] = Citation(item.nodeid, protocol, rows)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    citations = item.config.stash[_CITATIONS]
    if item.nodeid in citations and (report.failed or report.when == "call"):
        old = citations[item.nodeid]
        has_passed = report.passed and old.has_passed is not False
        citations[item.nodeid] = Citation(old.case, old.protocol, old.rows, has_passed)
    return report


def _rows(config: pytest.Config) -> dict[str, contract.Row]:
    return contract.load_rows(Path(config.getoption("--contract-rows", contract.ROWS_FOLDER)))


def _is_whole(config: pytest.Config) -> bool:
    """The option is unknown when a folder further up was named: then nothing is demanded."""
    return bool(config.getoption("--whole-contract", default=False))


def _complaints(config: pytest.Config) -> list[str]:
    rows = _rows(config)
    citations = list(config.stash[_CITATIONS].values())
    complaints = contract.unknown_rows(rows, citations)
    if _is_whole(config):
        complaints += [f"no case covers {row}" for row in contract.uncovered_rows(rows, citations)]
        complaints += contract.missing_tests(rows)
    return complaints


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _complaints(session.config) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    rows = _rows(config)
    citations = list(config.stash[_CITATIONS].values())
    if _is_whole(config):
        terminalreporter.section("the contract, by section and protocol")
        terminalreporter.write_line("\n".join(contract.table(rows, citations)))
        for status in ("elsewhere", "later"):
            terminalreporter.section(f"rows with status {status}")
            for row in (row for row in rows.values() if row.status == status):
                terminalreporter.write_line(f"{row.id}: {row.statement} ({row.reason or row.test})")
    complaints = _complaints(config)
    if complaints:
        terminalreporter.section("the contract is not covered")
        terminalreporter.write_line("\n".join(complaints))


# --- nodes and clients --------------------------------------------------------------------------


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("open") / "data", "--fsync", "never") as running:
        yield running
        assert running.stop() == 0, running.stderr_tail()


@pytest.fixture(scope="session")
def closed_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    path = tmp_path_factory.mktemp("closed")
    options = ("--credentials", str(credentials_file(path)), "--fsync", "never")
    with Node(path / "data", *options) as running:
        yield running
        assert running.stop() == 0, running.stderr_tail()


@pytest.fixture(scope="session")
def strict_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    path = tmp_path_factory.mktemp("strict")
    options = ("--credentials", str(credentials_file(path)), "--fsync", "never", "--strict")
    with Node(path / "data", *options) as running:
        yield running
        assert running.stop() == 0, running.stderr_tail()


@pytest.fixture
def sqs(node: Node, protocol: str) -> Iterator[Client]:
    with closing(Client(node.sqs_url, protocol)) as client:
        yield client


@pytest.fixture
def closed_sqs(closed_node: Node, protocol: str) -> Iterator[Client]:
    with closing(Client(closed_node.sqs_url, protocol, signed(OWNER))) as client:
        yield client


@pytest.fixture
def strict_sqs(strict_node: Node, protocol: str) -> Iterator[Client]:
    with closing(Client(strict_node.sqs_url, protocol, signed(OWNER))) as client:
        yield client


@pytest.fixture
def queue(sqs: Client) -> str:
    return new_queue(sqs)


@pytest.fixture
def closed_queue(closed_sqs: Client) -> str:
    return new_queue(closed_sqs)
