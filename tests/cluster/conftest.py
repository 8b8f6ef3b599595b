"""A failed test of a cluster shows the ends of its nodes' logs."""

from collections.abc import Generator
from typing import Any

import pytest

from tests.cluster.harness import Cluster

TAIL_CHARACTERS = 3_000


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for member in members_of(getattr(item, "funcargs", {})):
            tail = member.stderr()[-TAIL_CHARACTERS:]
            report.sections.append((f"end of the log of node {member.number}", tail))
    return report


def members_of(fixtures: dict[str, Any]) -> list[Any]:
    """Fixtures that build on each other hold the same cluster."""
    clusters = {id(value): value for value in fixtures.values() if isinstance(value, Cluster)}
    return [member for cluster in clusters.values() for member in cluster.members.values()]
