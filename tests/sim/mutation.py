"""`python -m tests.sim.mutation`: how many seeds it takes until the simulator finds each mutant.

One that survives all its seeds is a hole in the proof. With `--write` the table goes into a file,
between the marks that are there for it.
"""

import argparse
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Final

from tests.sim import mutants, mutants_of_queues
from tests.sim.mutants import mutated
from tests.sim.run import outcome_of

MUTANTS: Final = (*mutants.MUTANTS, *mutants_of_queues.MUTANTS)
BEGIN: Final = "<!-- mutants: written by make sim-mutants -->"
END: Final = "<!-- end of mutants -->"
WORDS_MAX: Final = 90

Found = tuple[int, str]


def seeds_until_found(name: str, seeds: range) -> Found:
    """How many seeds it took, 0 if it was not found, and what the simulator said."""
    one = next(one for one in MUTANTS if one.name == name)
    for count, seed in enumerate(seeds, start=1):
        with mutated(one.swaps()):
            outcome = outcome_of(seed)
        if isinstance(outcome, str):
            return count, outcome.strip()
    return 0, "not found"


def table(found: dict[str, Found]) -> str:
    """By how hard they are to find."""
    bugs = {one.name: one.bug for one in MUTANTS}
    order = sorted(found, key=lambda name: (found[name][0] == 0, found[name][0], name))
    rows = [
        f"| {bugs[name]} (`{name}`) | {found[name][0] or 'not found'} | {_words(found[name][1])} |"
        for name in order
    ]
    return "\n".join(["| bug | seeds | found by |", "|---|---|---|", *rows])


def _words(text: str) -> str:
    """What was wrong, without the seed; in a cell of a table."""
    words = text.partition(": ")[2].replace("|", "/")
    return words if len(words) <= WORDS_MAX else words[:WORDS_MAX] + "…"


def write_between(path: Path, content: str) -> None:
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin and end, f"{path} has no place for the table"
    path.write_text(f"{before}{BEGIN}\n{content}\n{END}{after}", encoding="utf-8")


def main() -> int:
    # What is compiled cannot be replaced, and does the same.
    wanted = {"PYTHONHASHSEED": "0", "FASTNODE_PURE": "1"}
    if not wanted.items() <= os.environ.items():
        command = [sys.executable, "-m", "tests.sim.mutation", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, **wanted})
    parser = argparse.ArgumentParser(prog="python -m tests.sim.mutation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed (1)")
    parser.add_argument("--seeds", type=int, default=60, help="how many at most (60)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (all cores)")
    parser.add_argument("--write", type=Path, help="the file that has a place for the table")
    parser.add_argument("only", nargs="*", help="names of mutants; all without any")
    options = parser.parse_args()
    chosen = [one.name for one in MUTANTS if not options.only or one.name in options.only]
    seeds, began = range(options.seed, options.seed + options.seeds), time.monotonic()
    found = find_all(chosen, seeds, options.jobs)
    survivors = [name for name in chosen if not found[name][0]]
    told = f"{len(chosen) - len(survivors)} of {len(chosen)} found"
    if options.write is not None:
        write_between(
            options.write, f"{told}, with at most {len(seeds)} seeds each.\n\n{table(found)}"
        )
    print(f"{told} in {time.monotonic() - began:.0f} s")
    return 1 if survivors else 0


def find_all(names: list[str], seeds: range, jobs: int) -> dict[str, Found]:
    found: dict[str, Found] = {}
    find = partial(seeds_until_found, seeds=seeds)
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("fork")) as pool:
        finding = {pool.submit(find, name): name for name in names}
        for done in as_completed(finding):
            name = finding[done]
            found[name] = done.result()
            print(f"{name:24} {found[name][0] or '-':>4}  {found[name][1][:160]}", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
