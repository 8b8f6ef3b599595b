"""A run is a pure function of its seed; a few seeds, and that deliberate bugs are found.

`make sim SEEDS=…` runs as many seeds as there is time for.
"""

import os
import subprocess
import sys

import pytest

from tests.sim.mutation import seeds_until_found
from tests.sim.run import simulate

SEED = 36  # Three nodes; one joins and one is removed, so that snapshots are sent too.


def hash_in_new_process(**environment: str) -> str:
    command = [sys.executable, "-m", "tests.sim", "--seed", str(SEED)]
    ran = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout.split()[-1]


def test_a_run_depends_on_its_seed_alone() -> None:
    first = simulate(SEED)
    assert first.operations > 20 and first.faults > 0
    assert simulate(SEED) == first
    assert simulate(SEED + 1).trace_hash != first.trace_hash
    assert hash_in_new_process() == hash_in_new_process(FASTNODE_PURE="1")


@pytest.mark.parametrize("name", ["skip_flush", "counters_only_grow", "short_window"])
def test_a_deliberate_bug_is_found(name: str) -> None:
    seeds, words = seeds_until_found(name, range(1, 11))
    assert seeds, words
