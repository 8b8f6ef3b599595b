"""`python -m tests.sim.mutation`: how many seeds it takes until the simulator finds each mutant.

One that survives all its seeds is a hole in the proof.
"""

import argparse
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial

from tests.sim.mutants import MUTANTS, mutated
from tests.sim.run import outcome_of


def seeds_until_found(name: str, seeds: range) -> tuple[int, str]:
    """How many seeds it took, 0 if it was not found, and what the simulator said."""
    one = next(one for one in MUTANTS if one.name == name)
    for count, seed in enumerate(seeds, start=1):
        with mutated(one.swaps()):
            outcome = outcome_of(seed)
        if isinstance(outcome, str):
            return count, outcome.strip()
    return 0, "not found"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.mutation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed (1)")
    parser.add_argument("--seeds", type=int, default=100, help="how many at most (100)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (all cores)")
    parser.add_argument("only", nargs="*", help="names of mutants; all without any")
    options = parser.parse_args()
    chosen = [one.name for one in MUTANTS if not options.only or one.name in options.only]
    find = partial(seeds_until_found, seeds=range(options.seed, options.seed + options.seeds))
    survivors = 0
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("fork")) as pool:
        finding = {pool.submit(find, name): name for name in chosen}
        for found in as_completed(finding):
            name, (count, words) = finding[found], found.result()
            survivors += not count
            bug = next(one.bug for one in MUTANTS if one.name == name)
            print(f"{name:24} {count or '-':>4}  {bug}: {words[:160]}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} found")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
