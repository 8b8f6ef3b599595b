"""A minute of benchmarks that a change must pass: no ratio may be twice as bad as the baseline's.

    python -m bench.gate

Made for a machine that is busy with other things: CPU time against CPU time of echo, medians of
turns, compiled code against its twin by the best of many slices; and a row that fails is measured
again before it counts. It finds a lost fast path, not a few percent: for those there is `make
bench`. Exit codes: 0 passed, 1 a ratio is twice as bad, 2 it could not run.
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench import baseline, full_rates, load, node_load, program, ratios, rig, twins
from bench.full_rates import of_deleted, of_requests
from bench.node_load import Lane
from bench.queue_load import QueueLoad
from bench.ratios import Change, Ratio
from bench.report import Line, batch_lines, send_lines
from bench.rig import Rig

FACTOR_MAX = 2.0
TRIES = 3
PLAN = rig.Plan(turns=5, slice_seconds=0.5, warmup_seconds=0.1)
DRAINED = 4_000


def measure(directory: Path, plan: rig.Plan = PLAN) -> dict[str, Ratio]:
    """All rows of the gate; the full run measures them too, so that they have a baseline."""
    with tempfile.TemporaryDirectory(prefix="gate-", dir=directory) as name:
        lines = measure_node(rig.rig_in(Path(name), plan, lambda _: None))
        found = ratios.of_lines(lines)
        quick, _ = twins.measure(Path(name) / "twins.json", *twins.QUICK_OPTIONS, *twins.QUICK)
    return {f"gate: {row}": ratio for row, ratio in (found | quick).items()}


def measure_node(of: Rig) -> list[Line]:
    """CPU time of sends, batches and a drain against echo's."""
    sends, drains = [], []
    plan = node_load.Plan(1, of.plan.slice_seconds, of.plan.warmup_seconds)
    with of.echo() as echo, of.node("gate") as node:
        queue = QueueLoad(of, node)
        lanes = {
            "echo": Lane(echo.server, rig.ECHO_CONNECTIONS, echo.file),
            "send": Lane(node, rig.ECHO_CONNECTIONS, queue.singles()),
            "batch": Lane(node, rig.ECHO_CONNECTIONS, queue.batches()),
        }
        for _ in of.turns("gate"):
            sends.append(node_load.take_turns(lanes, plan, of.load_core))
            queue.call("PurgeQueue")
            queue.fill(of.count(DRAINED))
            drained = of_deleted(queue.empty())
            drains.append((drained, of_requests(echo.measure())))
    echoes, singles, batches = ([turn[name][0] for turn in sends] for name in lanes)
    lines = [
        *send_lines("SendMessage", singles, echoes, at_least=0.0),
        *batch_lines("SendMessageBatch(10)", batches, echoes, at_least=0.0),
        *full_rates.echo_lines("drain", "message", drains, at_least=0.0),
    ]
    return [line for line in lines if "CPU" in line.name]


def judge(directory: Path, was: dict[str, Ratio], plan: rig.Plan = PLAN) -> list[Change]:
    """Changes after as many tries as it takes for all rows to pass, or as there are."""
    was = {name: ratio for name, ratio in was.items() if name.startswith("gate: ")}
    now: dict[str, Ratio] = {}
    for number in range(TRIES):
        now = ratios.better_of(now, measure(directory, plan))
        changes = ratios.compare(was, now)
        failed = ratios.worse(changes, factor=FACTOR_MAX)
        if not failed:
            break
        names = ", ".join(change.name for change in failed)
        print(f"try {number + 1} of {TRIES}: twice as bad: {names}", flush=True)
    return changes


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = program.options("gate", "a minute of benchmarks").parse_args(arguments)
    try:
        directory = program.data_directory(chosen)
        load.build()
        changes = judge(directory, baseline.read(baseline.BASELINE).rows)
    except program.PROBLEMS as problem:
        return program.refuse(str(problem))
    failed = ratios.worse(changes, factor=FACTOR_MAX)
    print(ratios.render(failed or changes))
    print(f"{len(failed)} of {len(changes)} ratios are more than {FACTOR_MAX:g} times as bad")
    return program.MISSED if failed else 0


if __name__ == "__main__":
    sys.exit(main())
