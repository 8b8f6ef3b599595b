"""`spark_load replay`: its flags, and the run from a trace to a history.

The job runs in a thread of its own, so that this one can show progress and hear Ctrl-C. The first
Ctrl-C ends the run cleanly: lanes finish what is under way and close their files. The second one
gives it up.
"""

import argparse
import json
import os
import secrets
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_load import headers, session
from spark_load.errors import LoadError
from spark_load.replay import control, plan
from spark_load.replay.attempts import RetryPolicy
from spark_load.replay.job import SETTINGS, Job, clear, run_job
from spark_load.replay.lane import Summary
from spark_load.replay.progress import Board
from spark_load.replay.show import Watch, display
from spark_load.replay.signing import Credentials
from spark_load.schema import CALLS, FaultMark, HistoryHeader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXIT_OK: Final = 0
EXIT_INCOMPLETE: Final = 2
LOOK_SECONDS: Final = 0.25


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", type=Path, help="the directory of a trace")
    parser.add_argument("history", type=Path, help="the directory to write; executors share it")
    add = parser.add_argument
    add("--endpoint", action="append", default=[], metavar="URL", help="a node; may be repeated")
    add("--lanes", type=int, default=1, help="producer tasks (default: %(default)s)")
    add("--consumer-lanes", type=int, default=1, help="consumer tasks (default: %(default)s)")
    add("--connections", type=int, default=128, help="per task and endpoint (default: %(default)s)")
    add("--speed", type=float, default=1.0, help="times faster than the trace says")
    add("--closed-loop", action="store_true", help="count latency from when a call was sent")
    add("--attempts", type=int, default=5, help="of a call, all in all (default: %(default)s)")
    add("--timeout", type=float, default=30.0, help="of an attempt, s (default: %(default)s)")
    add("--drain", type=float, default=300.0, help="give up emptying the queues after so long, s")
    add("--prefix", default="", help="before the names of the queues")
    add("--region", default=os.environ.get("AWS_REGION", "us-east-1"))
    add("--ca-file", help="the certificates to trust, of https endpoints")
    add("--no-clock", action="store_true", help="take the hosts' clocks as they are")
    add("--faults", type=Path, help="lines of {at_us, label}, read at the end, for the report")
    add("--dry-run", action="store_true", help="say what would run, and do nothing")
    session.add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    planned = make_plan(options)
    if options.dry_run:
        sys.stdout.write("".join(f"{line}\n" for line in planned.describe()))
        return EXIT_OK
    demand_new(options.history)
    run_id = secrets.token_hex(4)
    targets = control.prepare(planned, run_id, options.prefix)
    job = Job(planned, run_id, str(options.history.absolute()), targets)
    options.conf = [*(f"{key}={value}" for key, value in SETTINGS.items()), *options.conf]
    with (
        scratch(options.history.absolute()) as board,
        session.session(options, master_of(options.master, planned)) as spark,
    ):
        summaries = _Run(spark, options.trace.absolute(), job, board).wait()
    counters = control.count(planned.settings, run_id, targets)
    header = make_header(planned, summaries, counters, read_faults(options.faults))
    headers.write_history_header(options.history, header)
    return finish(summaries, header)


def make_plan(options: argparse.Namespace) -> plan.Plan:
    settings = plan.Settings(
        endpoints=plan.endpoints_of(options.endpoint),
        credentials=credentials(options.region),
        lanes=options.lanes,
        consumer_lanes=options.consumer_lanes,
        connections=options.connections,
        speed=options.speed,
        is_open_loop=not options.closed_loop,
        retries=RetryPolicy(attempts=options.attempts),
        call_seconds=options.timeout,
        drain_seconds=options.drain,
        ca_file=options.ca_file,
        measures_clock=not options.no_clock,
    )
    plan.check(settings)
    trace = headers.read_trace_header(options.trace)
    if not trace.operations:
        raise LoadError(f"{options.trace} has no operations: there is nothing to replay")
    return plan.Plan(trace, settings)


def credentials(region: str) -> Credentials:
    """From the variables of the AWS SDKs; a cluster that does not look takes anything."""
    return Credentials(
        os.environ.get("AWS_ACCESS_KEY_ID", "test"),
        os.environ.get("AWS_SECRET_ACCESS_KEY", "test"),
        region,
        os.environ.get("AWS_SESSION_TOKEN"),
    )


def demand_new(history: Path) -> None:
    if any((history / CALLS).glob("*")):
        raise LoadError(f"{history} holds a history already: give another directory")


@contextmanager
def scratch(history: Path) -> Iterator[Board]:
    """The files that lanes and driver need while they are at work, gone in the end. A run that was
    killed may have left some.
    """
    board = Board(history)
    board.remove()
    clear(history)
    board.open()
    try:
        yield board
    finally:
        board.remove()
        clear(history)


def master_of(master: str, planned: plan.Plan) -> str:
    """On this machine a slot for every lane, since a barrier needs all of them at once."""
    return f"local[{planned.tasks}]" if session.is_local(master) else master


@dataclass
class _Run:
    """The job in its thread, watched from this one."""

    spark: "SparkSession"
    trace: Path
    job: Job
    board: Board
    summaries: list[Summary] = field(default_factory=list)
    error: BaseException | None = None

    def wait(self) -> list[Summary]:
        thread = threading.Thread(target=self._work, name="replay")
        thread.start()
        with self._stop_on_interrupt(), display() as shown:
            watch = Watch(self.job.plan)
            while thread.is_alive():
                thread.join(LOOK_SECONDS)
                shown.show(watch.look(self.board.read()))
        if self.error is not None:
            raise self.error
        return self.summaries

    def _work(self) -> None:
        try:
            self.summaries = run_job(self.spark, self.trace, self.job)
        except BaseException as error:
            self.error = error

    @contextmanager
    def _stop_on_interrupt(self) -> Iterator[None]:
        """Spark's own handler would kill the tasks, and with them their unfinished files."""
        requested = threading.Event()

        def stop(_number: int, _frame: object) -> None:
            if requested.is_set():
                self.spark.sparkContext.cancelAllJobs()
                raise KeyboardInterrupt
            requested.set()
            self.board.request_stop()

        before = signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def make_header(
    planned: plan.Plan,
    summaries: list[Summary],
    counters: dict[str, dict[str, int]],
    faults: tuple[FaultMark, ...],
) -> HistoryHeader:
    is_drained = all(summaries[lane].is_drained for lane in planned.consumer_lanes)
    return HistoryHeader(
        trace_id=planned.trace.trace_id,
        began_us=min(summary.start_us for summary in summaries),
        ended_us=max(summary.ended_us for summary in summaries),
        endpoints=tuple(endpoint.url for endpoint in planned.settings.endpoints),
        is_complete=is_drained and all(summary.is_complete for summary in summaries),
        speed=planned.settings.speed,
        counters=counters,
        clock_offsets_us={str(summary.lane): -summary.offset_us for summary in summaries},
        faults=faults,
    )


def read_faults(path: Path | None) -> tuple[FaultMark, ...]:
    """The marks that others made while the run went on; none if nobody made any."""
    if path is None or not path.exists():
        return ()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return tuple(FaultMark(**json.loads(line)) for line in lines if line.strip())
    except (ValueError, TypeError) as error:
        raise LoadError(f"{path} does not consist of lines of {{at_us, label}}: {error}") from None


def finish(summaries: list[Summary], header: HistoryHeader) -> int:
    """The last line, and what it means."""
    rows = sum(summary.rows for summary in summaries)
    seconds = (header.ended_us - header.began_us) / 1e6
    sys.stderr.write(f"replay: {rows} calls in {seconds:.1f} s\n")
    if header.is_complete:
        return EXIT_OK
    left = {name: sum(counters.values()) for name, counters in header.counters.items()}
    full = ", ".join(f"{count} in {name}" for name, count in left.items() if count)
    reason = (
        "stopped early"
        if not all(summary.is_complete for summary in summaries)
        else (f"not drained in time: {full or 'messages were left'}")
    )
    sys.stderr.write(f"replay: {reason}; the history is incomplete\n")
    return EXIT_INCOMPLETE
