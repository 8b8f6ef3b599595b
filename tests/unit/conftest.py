"""Shared by all unit tests: the `impl` fixture, and how long property tests search.

`impl` runs a test on the readable twins and on the compiled modules. In pure mode there may be no
compiled modules, so only the twins run.
"""

from importlib import import_module
from types import ModuleType
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings

from fastnode import native

# All unit tests together have ten seconds. A deadline per example, or for making examples, would
# only find busy machines.
BUSY = [HealthCheck.too_slow]
settings.register_profile("unit", max_examples=30, deadline=None, suppress_health_check=BUSY)
settings.load_profile("unit")


class Impl(NamedTuple):
    """One implementation of the native modules that encode, plan and write."""

    keys: ModuleType
    core: ModuleType
    entry: ModuleType
    landed: ModuleType
    plan: ModuleType
    plain: ModuleType
    send: ModuleType
    deliver: ModuleType
    reads: ModuleType


def implementation(suffix: str) -> Impl:
    return Impl(*(import_module(f"fastnode._{name}{suffix}") for name in Impl._fields))


SUFFIXES = {"twin": "_ref"} | ({"compiled": ""} if native.COMPILED else {})


@pytest.fixture(scope="session", params=list(SUFFIXES))
def impl(request: pytest.FixtureRequest) -> Impl:
    return implementation(SUFFIXES[request.param])
