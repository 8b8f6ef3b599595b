"""Compiled functions against their twins, as ratios: what the tests of this directory measured."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench.ratios import Ratio
from bench.server_process import ROOT, ServerError

# The best of many short slices still differs from run to run by so much.
NOISE = 0.30
FACTOR = "times_faster_than_twin"
PYTEST_SECONDS_MAX = 900.0
# Those that have a twin and are measured in a moment.
QUICK = ("bench/test_native.py", "bench/test_http.py")
# What pytest-benchmark itself measures is only shown: the ratios come from slices of their own.
OPTIONS = ("--benchmark-max-time=0.3",)
QUICK_OPTIONS = ("--benchmark-max-time=0.01", "--benchmark-min-rounds=2", "--benchmark-warmup=off")


def measure(report: Path, *arguments: str) -> tuple[dict[str, Ratio], list[str]]:
    """Runs pytest with the timings on: the ratios, and the tests whose own floors were missed."""
    command = [sys.executable, "-m", "pytest", "-q", "--benchmark-only", "-p", "no:cacheprovider"]
    command += [f"--benchmark-json={report}", "--benchmark-columns=median,iqr,rounds", *arguments]
    limit = PYTEST_SECONDS_MAX
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=limit, check=False
    )
    if done.returncode not in (0, 1) or not report.exists():
        raise ServerError(f"pytest ended with {done.returncode}: {done.stdout[-500:]}")
    missed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    return of_report(msgspec.json.decode(report.read_bytes())["benchmarks"]), missed


def of_report(benchmarks: Sequence[dict[str, Any]]) -> dict[str, Ratio]:
    """Those that say how many times faster than a twin they are."""
    return {
        f"{found['name'].removeprefix('test_')}": Ratio(found["extra_info"][FACTOR], NOISE)
        for found in benchmarks
        if FACTOR in found["extra_info"]
    }
