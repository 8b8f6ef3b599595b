"""The committed ratios that a run is compared with.

    python -m bench.baseline compare    the last run of `make bench` against the baseline
    python -m bench.baseline renew      the last run becomes the baseline

A baseline is renewed on purpose: after a change that made something faster, or one that was allowed
to make something slower, from a run on a quiet machine.
"""

import argparse
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from bench import program, ratios
from bench.machine import Machine
from bench.ratios import Ratio
from bench.server_process import ROOT

BASELINE = ROOT / "bench" / "baseline.json"
LAST_RUN = ROOT / "build" / "bench.json"


class Run(msgspec.Struct, frozen=True):
    """The ratios of one run, with its conditions."""

    measured_at: datetime
    machine: Machine
    rows: dict[str, Ratio]
    # What could not be measured, and why.
    problems: dict[str, str] = {}


def read(file: Path) -> Run:
    return msgspec.json.decode(file.read_bytes(), type=Run)


def compare(file: Path, baseline: Path) -> int:
    """Prints every row and the verdict."""
    now, was = read(file), read(baseline)
    changes = ratios.compare(was.rows, now.rows)
    print(f"baseline of {was.measured_at:%Y-%m-%d}, {was.machine.cpu}, {was.machine.cores} cores")
    print(ratios.render(changes))
    for name, problem in now.problems.items():
        print(f"{name} could not run: {problem}")
    failed = ratios.worse(changes)
    if failed:
        print(f"{len(failed)} worse than the baseline beyond their noise")
        return program.MISSED
    return program.NOT_RUN if now.problems else 0


def renew(file: Path, baseline: Path) -> int:
    """Rows that the last run lacks are dropped: they are measured no more."""
    run = read(file)
    if run.problems:
        return program.refuse(f"{', '.join(run.problems)} could not run: the baseline stays")
    program.write(baseline, run)
    print(f"{baseline.name}: {len(run.rows)} rows, noise {ratios.middle_noise(run.rows):.0%}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.baseline", description="the committed ratios")
    parser.add_argument("command", choices=["compare", "renew"])
    parser.add_argument("--json", type=Path, default=LAST_RUN, metavar="FILE")
    parser.add_argument("--baseline", type=Path, default=BASELINE, metavar="FILE")
    chosen = parser.parse_args(arguments)
    needed = [chosen.json] + [chosen.baseline] * (chosen.command == "compare")
    for file in needed:
        if not file.exists():
            return program.refuse(f"{file} does not exist: run `make bench` first")
    return {"compare": compare, "renew": renew}[chosen.command](chosen.json, chosen.baseline)


if __name__ == "__main__":
    sys.exit(main())
