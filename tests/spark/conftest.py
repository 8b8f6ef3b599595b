"""One Spark session for all tests that need one: it takes longer to start than they do to run.

Without Java they say how to get it and are skipped; the rules and checks need none.
"""

import argparse
import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from spark_load import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A deadline per example, or for making examples, would only find busy machines.
BUSY = [HealthCheck.too_slow]
settings.register_profile("spark", max_examples=50, deadline=None, suppress_health_check=BUSY)
settings.load_profile("spark")


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "how many rows a history has that faults are planted in"
    parser.addoption("--rows", type=int, default=30_000, help=text)


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java: install a JRE 17 or newer, or set JAVA_HOME")
    parser = argparse.ArgumentParser()
    session.add_arguments(parser)
    small = ["--conf", "spark.sql.shuffle.partitions=2", "--conf", "spark.driver.memory=1g"]
    with session.session(parser.parse_args(["--master", "local[2]", *small])) as started:
        yield started
