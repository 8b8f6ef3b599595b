"""`make bench`: the ratios that have a baseline, measured in one run and compared with it.

    python -m bench.suite [--short]

Compiled code against its twins, a node against echo, a receive over many partitions, repeated
calls, and the rows of the gate. Writes `build/bench.json`. Exit codes: 0 nothing is worse than the
baseline beyond its noise, 1 something is, 2 something could not run. Whether targets are met is
said by `bench.full`.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench import baseline, fanout, full, gate, load, machine, program, ratios, retries, rig, twins
from bench.baseline import Run
from bench.ratios import Ratio
from bench.report import Line, ratio_line
from bench.server_process import ServerError

SECTIONS = ("send", "drain", "steady", "fifo", "lone", "poll")
Part = Callable[[], dict[str, Ratio]]


def parts(parent: Path, *, is_short: bool) -> dict[str, Part]:
    """What is measured, by name."""
    plan = rig.SHORT if is_short else rig.FULL
    quick = twins.QUICK_OPTIONS if is_short else ()
    files = twins.QUICK[1:] if is_short else ("bench",)

    def section(name: str) -> Part:
        return lambda: ratios.of_lines(section_lines(name, parent, plan))

    return {
        "twins": lambda: twins.measure(parent / "twins.json", *quick, *files),
        **{name: section(name) for name in SECTIONS},
        "fanout": lambda: ratios.of_lines(
            fanout_lines(fanout.measure(parent, fanout.SHORT if is_short else fanout.Plan()))
        ),
        "retries": lambda: ratios.of_lines(
            retries.measure(parent, retries.SHORT if is_short else retries.FULL).lines
        ),
        "gate": lambda: gate.measure(parent, plan if is_short else gate.PLAN),
    }


def section_lines(name: str, parent: Path, plan: rig.Plan) -> list[Line]:
    found = full.measure_section(name, parent, plan)
    if found.problem is not None:
        raise ServerError(found.problem)
    return found.lines


def fanout_lines(results: fanout.Results) -> list[Line]:
    """A receive over the most partitions against one over a single one."""
    first, *_, last = results.figures
    name = f"receive over {last.partitions} partitions / over {first.partitions}: call CPU"
    return [ratio_line(name, [last.call_cpu_us / first.call_cpu_us], is_cost=True)]


def measure(parent: Path, *, is_short: bool) -> Run:
    load.build()
    rows: dict[str, Ratio] = {}
    problems: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="bench-", dir=parent) as name:
        for part, run in parts(Path(name), is_short=is_short).items():
            began = time.monotonic()
            try:
                rows |= run()
            except program.PROBLEMS as problem:
                problems[part] = str(problem)
            print(f"{part}: {time.monotonic() - began:.0f} s {problems.get(part, '')}", flush=True)
        conditions = machine.describe(Path(name))
    return Run(datetime.now(UTC), conditions, rows, problems)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = program.options("suite", "ratios against the baseline", json=baseline.LAST_RUN.name)
    chosen = parser.parse_args(arguments)
    try:
        run = measure(program.data_directory(chosen), is_short=chosen.short)
    except program.PROBLEMS as problem:
        return program.refuse(str(problem))
    program.write(chosen.json, run)
    print(*run.machine.lines(), sep="\n")
    if not baseline.BASELINE.exists():
        return program.refuse("there is no baseline yet: python -m bench.baseline renew")
    code = baseline.compare(chosen.json, baseline.BASELINE)
    return 0 if chosen.short and code == program.MISSED else code


if __name__ == "__main__":
    sys.exit(main())
