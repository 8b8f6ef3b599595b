"""`make bench`: the ratios that have a baseline, measured in one run and compared with it.

    python -m bench.suite [--only send,gate,...] [--turns N] [--short]

Compiled code against its twins, a node against echo, a receive over many partitions, repeated
calls, and the rows of the gate. Writes `build/bench.json`. Exit codes: 0 nothing is worse than the
baseline beyond its noise, 1 something is, 2 something could not run. Whether targets are met is
said by `bench.full`.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bench import baseline, fanout, full, gate, load, machine, program, ratios, retries, rig, twins
from bench.baseline import Run
from bench.ratios import Ratio
from bench.report import Line, ratio_line
from bench.server_process import ServerError

SECTIONS = ("send", "drain", "steady", "fifo", "lone", "poll")
NAMES = ("twins", *SECTIONS, "fanout", "retries", "gate")


class Suite(msgspec.Struct, frozen=True):
    """Measures one part after the other, in one directory."""

    directory: Path
    plan: rig.Plan
    is_short: bool
    # Tests whose floors were missed.
    missed: list[str]

    def measure(self, name: str) -> dict[str, Ratio]:
        if name == "twins":
            return self.twins()
        if name == "gate":
            return gate.measure(self.directory, self.plan if self.is_short else gate.PLAN)
        return ratios.of_lines(self.lines(name))

    def twins(self) -> dict[str, Ratio]:
        options = (*twins.QUICK_OPTIONS, twins.QUICK[1]) if self.is_short else twins.OPTIONS
        files = () if self.is_short else ("bench",)
        found, missed = twins.measure(self.directory / "twins.json", *options, *files)
        self.missed.extend(missed)
        return found

    def lines(self, name: str) -> list[Line]:
        if name == "fanout":
            plan = fanout.SHORT if self.is_short else fanout.Plan()
            return fanout_lines(fanout.measure(self.directory, plan))
        if name == "retries":
            amount = retries.SHORT if self.is_short else retries.FULL
            return retries.measure(self.directory, amount).lines
        section = full.measure_section(name, self.directory, self.plan)
        if section.problem is not None:
            raise ServerError(section.problem)
        return section.lines


def fanout_lines(results: fanout.Results) -> list[Line]:
    """A receive over the most partitions against one over a single one."""
    first, *_, last = results.figures
    name = f"receive over {last.partitions} partitions / over {first.partitions}: call CPU"
    return [ratio_line(name, [last.call_cpu_us / first.call_cpu_us], is_cost=True)]


def measure(suite: Suite, names: Sequence[str]) -> Run:
    rows: dict[str, Ratio] = {}
    problems: dict[str, str] = {}
    for name in names:
        began = time.monotonic()
        try:
            rows |= suite.measure(name)
        except program.PROBLEMS as problem:
            problems[name] = str(problem)
        print(f"{name}: {time.monotonic() - began:.0f} s {problems.get(name, '')}", flush=True)
    return Run(datetime.now(UTC), machine.describe(suite.directory), rows, problems)


def merged(before: Run, now: Run) -> Run:
    """A run of some parts on top of an earlier one."""
    return msgspec.structs.replace(now, rows=before.rows | now.rows)


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    json = baseline.LAST_RUN.name
    parser = program.options("suite", "ratios against the baseline", json=json)
    parser.add_argument("--turns", type=int, default=None, help="of the sections; 6")
    parser.add_argument(
        "--only",
        type=lambda text: text.split(","),
        metavar="NAME,...",
        help=f"measure these again, on top of the last run: {', '.join(NAMES)}",
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = parse_arguments(arguments)
    plan = rig.SHORT if chosen.short else rig.FULL
    if chosen.turns is not None:
        plan = msgspec.structs.replace(plan, turns=chosen.turns)
    try:
        parent = program.data_directory(chosen)
        load.build()
        with tempfile.TemporaryDirectory(prefix="bench-", dir=parent) as name:
            suite = Suite(Path(name), plan, chosen.short, [])
            run = measure(suite, chosen.only or NAMES)
    except program.PROBLEMS as problem:
        return program.refuse(str(problem))
    if chosen.only and chosen.json.exists():
        run = merged(baseline.read(chosen.json), run)
    program.write(chosen.json, run)
    return judge(chosen.json, run, suite.missed, is_short=chosen.short)


def judge(file: Path, run: Run, missed: Sequence[str], *, is_short: bool) -> int:
    """Prints the comparison; floors of the tests count as targets."""
    print(*run.machine.lines(), sep="\n")
    if not baseline.BASELINE.exists():
        return program.refuse("there is no baseline yet: python -m bench.baseline renew")
    code = baseline.compare(file, baseline.BASELINE)
    for name in missed:
        print(f"MISSED the floor of {name}")
    code = code or program.MISSED * bool(missed)
    return 0 if is_short and code == program.MISSED else code


if __name__ == "__main__":
    sys.exit(main())
