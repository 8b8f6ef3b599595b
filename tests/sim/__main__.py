"""`python -m tests.sim --seed 7`: one run, or many with `--seeds`; the last line tells what it was.

A run that fails prints what is wrong, and the command that does it again.
"""

import argparse
import multiprocessing
import os
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor

from tests.sim.run import Report, outcome_of, simulate


def main() -> int:
    if os.environ.get("PYTHONHASHSEED") != "0":
        # Sets of texts travel between nodes, in an order that Python otherwise draws by lot.
        command = [sys.executable, "-m", "tests.sim", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, "PYTHONHASHSEED": "0"})
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed (1)")
    parser.add_argument("--seeds", type=int, default=1, help="how many from there on (1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (all cores)")
    parser.add_argument("--plain", action="store_true", help="as the kept seeds of test_sim.py run")
    parser.add_argument("--story", action="store_true", help="print everything that happens")
    options = parser.parse_args()
    if options.seeds == 1:
        return run_one(options.seed, is_told=options.story, is_plain=options.plain)
    return run_many(range(options.seed, options.seed + options.seeds), options.jobs)


def run_one(seed: int, *, is_told: bool, is_plain: bool) -> int:
    try:
        report = simulate(seed, print if is_told else None, is_plain=is_plain)
    except Exception:
        traceback.print_exc()
        print(f"replay: python -m tests.sim --seed {seed} --story")
        return 1
    print(report)
    return 0


def run_many(seeds: range, jobs: int) -> int:
    """On all cores; the seeds that fail are named as they do, the sums come last."""
    began, reports, failed = time.monotonic(), list[Report](), 0
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("fork")) as pool:
        for seed, outcome in zip(seeds, pool.map(outcome_of, seeds, chunksize=4), strict=True):
            if isinstance(outcome, Report):
                reports.append(outcome)
            else:
                failed += 1
                print(f"{outcome}replay: python -m tests.sim --seed {seed} --story", flush=True)
    took, virtual = time.monotonic() - began, sum(report.virtual_seconds for report in reports)
    print(
        f"seeds {seeds.start} to {seeds.stop - 1}: {len(reports)} good, {failed} bad, "
        f"{sum(report.operations for report in reports)} operations, "
        f"{sum(report.faults for report in reports)} faults, "
        f"{virtual:.0f} s in {took:.1f} s ({virtual / took:.0f} times as fast)"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
