"""Steady mixed load on a real node for half an hour: is it as good in the end as at the beginning?

    python -m bench.soak [--minutes M] [--rate MESSAGES] [--nodes 1|3] [--data-under DIRECTORY]
                         [--json FILE] [--svg FILE]

Producers and consumers (`soak_load`) use standard, FIFO and partitioned queues at a steady rate.
Their history is judged while it grows (`soak_judge`); memory, files, disk, CPU, latencies and
backlog are sampled (`soak_watch`). Ctrl-C ends early and judges what was done. Exit codes: 0 no
complaint and everything flat, 1 otherwise, 2 it could not run.
"""

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from bench import machine, node_load, report, server_process, soak_judge, soak_watch
from bench.report import Line
from bench.server_process import NODE_COMMAND, ROOT, ServerError
from bench.soak_judge import Verdict
from bench.soak_load import Clients, clients
from bench.soak_watch import Histogram, Sample, Usage, Watched
from tests.cluster.client import Unknown
from tests.cluster.harness import static_cluster
from tests.cluster.history import Deleted, Event, Sent
from tests.cluster.network import Loopback, Place

# Often, so that what is pickled at a time holds the clients up for no more than a moment.
PUMP_SECONDS = 0.1
SWITCH_SECONDS = 0.0005
SAMPLE_SECONDS, SAMPLES_MIN = 5.0, 8
PROGRESS_SECONDS = 10.0
VERDICT_SECONDS_MAX = 120.0
# In a session of its own: Ctrl-C is for us, and the nodes are still needed to be judged.
APART = ("setsid",)
SHOWN_MAX, UNKNOWN_KEPT = 10, 100
# While a group of a cluster changes its leader, some calls are answered with 503.
UNKNOWN_SHARE_MAX = 0.01


class Nodes(msgspec.Struct, frozen=True):
    """What is soaked."""

    endpoints: Callable[[], Sequence[str]]
    pids: Callable[[], list[int]]
    admins: Callable[[], list[str]]
    directories: list[Path]

    def look(self) -> Usage:
        return soak_watch.look(self.pids(), self.admins(), self.directories)


class Results(msgspec.Struct, frozen=True):
    """What is written as JSON."""

    measured_at: datetime
    machine: machine.Machine
    nodes: int
    rate: float
    lines: list[Line]
    complaints: list[str]
    wrong: list[str]
    unknown: list[str]
    judge: Verdict
    samples: list[Sample]


# --- nodes ---------------------------------------------------------------------------------------


class Apart(Loopback):
    """Nodes in sessions of their own."""

    def place(self, node: int) -> Place:
        return super().place(node)._replace(prefix=APART)


@contextmanager
def started(directory: Path, count: int) -> Iterator[Nodes]:
    """One node, or a cluster of several."""
    if count == 1:
        command = (*APART, *NODE_COMMAND)
        with server_process.node(directory / "data", None, command) as node:
            url, admin = f"http://{node.address}", node.admin or ""
            yield Nodes(lambda: [url], node.process_ids, lambda: [admin], [directory / "data"])
        return
    with static_cluster(directory, Apart(), count=count) as cluster:
        directories = [member.data_dir for member in cluster.members.values()]

        def pids() -> list[int]:
            return [member.process.pid for member in cluster.running]

        def admins() -> list[str]:
            return [member.admin_url.removeprefix("http://") for member in cluster.running]

        yield Nodes(cluster.endpoints, pids, admins, directories)


# --- the run -------------------------------------------------------------------------------------


class Soak:
    """Carries events to the judge and calls into samples, and says how it goes."""

    def __init__(self, nodes: Nodes, clients: Clients, judge: Connection) -> None:
        self.nodes, self.clients, self.judge = nodes, clients, judge
        self.watched = Watched()
        self.verdict = Verdict([], 0, 0, 0.0)
        self._histograms: dict[str, Histogram] = {}
        self._sent = self._deleted = 0
        self._begun = self._sampled = time.monotonic()
        self._usage = nodes.look()

    def run(self, seconds: float) -> None:
        """Until the time is over, somebody has failed, or Ctrl-C."""
        interval = min(SAMPLE_SECONDS, seconds / SAMPLES_MIN)
        due_sample, due_line = self._begun + interval, self._begun + PROGRESS_SECONDS
        try:
            while (now := time.monotonic()) < self._begun + seconds and not self.clients.wrong:
                time.sleep(PUMP_SECONDS)
                self.pump()
                if now >= due_sample:
                    self.sample()
                    due_sample += interval
                if now >= due_line:
                    print(self.progress(), flush=True)
                    due_line += PROGRESS_SECONDS
        except KeyboardInterrupt:
            print("ended early; judging what was done", flush=True)

    def pump(self) -> None:
        """What the clients did since the last time."""
        now, events = time.monotonic(), list[Event]()
        while not self.clients.events.empty():
            events.append(self.clients.events.get())
        self._sent += sum(isinstance(one, Sent) and bool(one.message_id) for one in events)
        self._deleted += sum(isinstance(one, Deleted) and one.is_acknowledged for one in events)
        self.judge.send((now, events))
        while not self.clients.calls.empty():
            call = self.clients.calls.get()
            self._histograms.setdefault(call.action, Histogram()).add(call.seconds)
        while self.judge.poll():
            self.verdict = self.judge.recv()

    def sample(self) -> None:
        """One look at everything."""
        try:
            visible, in_flight, delayed = self.clients.counters()
        except Unknown as error:
            self.clients.unknown.append(f"counters: {error}")
            return
        usage, now = self.nodes.look(), time.monotonic()
        seconds = now - self._sampled
        self.watched.samples.append(
            Sample(
                at_seconds=now - self._begun,
                usage=usage,
                cores=(usage.cpu_seconds - self._usage.cpu_seconds) / seconds,
                sent_per_second=self._sent / seconds,
                deleted_per_second=self._deleted / seconds,
                visible=visible,
                in_flight=in_flight,
                delayed=delayed,
                latencies=soak_watch.latencies_of(self._histograms),
            )
        )
        self.watched.histograms.append(self._histograms)
        self._usage, self._sampled, self._histograms = usage, now, {}
        self._sent = self._deleted = 0

    def progress(self) -> str:
        """The last sample in one line."""
        if not self.watched.samples:
            return "no sample yet"
        one = self.watched.samples[-1]
        minutes, seconds = divmod(int(one.at_seconds), 60)
        send = one.latencies.get("SendMessage")
        return (
            f"{minutes:3}:{seconds:02}  {one.sent_per_second:6,.0f} sent/s "
            f"{one.deleted_per_second:6,.0f} deleted/s  {one.visible:6,} visible "
            f"{one.in_flight:5,} in flight  {one.usage.resident_mb:5.0f} MB resident "
            f"({one.usage.cache_mb:2.0f} cache) {one.usage.disk_mb:6.0f} MB disk  "
            f"{one.usage.open_files:4} files  {one.cores:4.2f} cores  "
            f"send p99 {send.p99_ms if send else 0.0:6.1f} ms  "
            f"{len(self.verdict.complaints)} complaints"
        )

    def lines(self, nodes: int) -> list[Line]:
        """What the clients and the judge say."""
        judge, clients = self.verdict, self.clients
        judged = f"{judge.sent:,} sends judged, {judge.peak_mb:.0f} MB of the judge"
        unknown = len(clients.unknown)
        share = unknown / max(1, unknown + clients.answered)
        return [
            Line("complaints of the history", len(judge.complaints), judged, at_most=0),
            Line("answers that nothing explains", len(clients.wrong), at_most=0),
            Line(
                "calls without a known outcome, share",
                share,
                f"{unknown:,} of {unknown + clients.answered:,}",
                at_most=0 if nodes == 1 else UNKNOWN_SHARE_MAX,
            ),
        ]

    def finish(self) -> None:
        """Takes everything out of the queues and waits for the last word of the judge."""
        begun = time.monotonic()
        self.clients.stop()
        if not self.clients.wrong:
            self.clients.drain()
            print(f"everything was taken out in {time.monotonic() - begun:.0f} s", flush=True)
        self.pump()
        self.judge.send(None)
        deadline = time.monotonic() + VERDICT_SECONDS_MAX
        while self.judge.poll(max(0.0, deadline - time.monotonic())):
            try:
                self.verdict = self.judge.recv()
            except EOFError:
                return
        raise ServerError("the judge did not finish")


@contextmanager
def judging() -> Iterator[Connection]:
    """The judge in a process of its own."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=soak_judge.run, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours
    finally:
        ours.close()
        process.join(VERDICT_SECONDS_MAX)
        process.terminate()


def soak(chosen: argparse.Namespace, directory: Path) -> Results:
    """Everything, with data in a directory that is removed in the end."""
    sys.setswitchinterval(SWITCH_SECONDS)
    with (
        started(directory, chosen.nodes) as nodes,
        judging() as judge,
        clients(nodes.endpoints, chosen.rate, "soak-") as everybody,
    ):
        everybody.create_queues()
        run = Soak(nodes, everybody, judge)
        everybody.start()
        run.run(chosen.minutes * 60)
        run.finish()
    lines = [*run.lines(chosen.nodes), *soak_watch.verdicts(run.watched, chosen.rate, chosen.nodes)]
    return Results(
        measured_at=datetime.now(UTC),
        machine=machine.describe(directory),
        nodes=chosen.nodes,
        rate=chosen.rate,
        lines=lines,
        complaints=run.verdict.complaints,
        wrong=everybody.wrong,
        unknown=everybody.unknown[:UNKNOWN_KEPT],
        judge=run.verdict,
        samples=run.watched.samples,
    )


# --- the command ---------------------------------------------------------------------------------


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.soak", description="steady load, judged")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rate", type=float, help="messages/s; default 1000, of a cluster 300")
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=1)
    parser.add_argument("--data-under", type=Path, default=ROOT / "build", metavar="DIRECTORY")
    parser.add_argument("--json", type=Path, default=ROOT / "build/soak.json", metavar="FILE")
    parser.add_argument("--svg", type=Path, default=ROOT / "build/soak.svg", metavar="FILE")
    chosen = parser.parse_args(arguments)
    chosen.rate = chosen.rate or (1_000.0 if chosen.nodes == 1 else 300.0)
    return chosen


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs, prints, writes; the exit code is the verdict."""
    chosen = parse_arguments(arguments)
    for directory in (chosen.data_under, chosen.json.parent, chosen.svg.parent):
        directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="soak-", dir=chosen.data_under.resolve()) as name:
        try:
            results = soak(chosen, Path(name))
        except (ServerError, AssertionError, TimeoutError, Unknown) as problem:
            return node_load.refuse(str(problem))
    chosen.json.write_bytes(msgspec.json.format(msgspec.json.encode(results)))
    if results.samples:
        chosen.svg.write_text(soak_watch.draw(results.samples))
    show(results)
    return int(not all(line.is_met for line in results.lines))


def show(results: Results) -> None:
    """Conditions, verdicts, and the first of what is wrong."""
    print(*results.machine.lines(), sep="\n")
    minutes = results.samples[-1].at_seconds / 60 if results.samples else 0.0
    print(f"{minutes:.1f} minutes, {results.nodes} node(s), {results.rate:,.0f} messages/s")
    print(report.render(results.lines))
    print(*(results.complaints + results.wrong + results.unknown)[:SHOWN_MAX], sep="\n")


if __name__ == "__main__":
    sys.exit(main())
