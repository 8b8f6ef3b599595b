"""`python -m tests.chaos --minutes 20 --seed 7`: real nodes, real faults by seed, real load. Then
the history is written as Parquet and judged by the checks of `spark_load verify`.

Nodes are in network namespaces where root can make them, and behind proxies elsewhere. What cannot
be done on this machine is left out, and said.
"""

import argparse
import contextlib
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from spark_load import small
from spark_load.verdict import summary
from spark_load.verify import verify
from tests.chaos.hurt import Hurt, clock_variables
from tests.chaos.plan import LIAR, Fault, plan
from tests.chaos.recorded import HISTORY, TRACE, Recording
from tests.chaos.timeline import draw, gaps, rates
from tests.cluster.harness import Cluster, eventually, static_cluster
from tests.cluster.network import Namespaces, Network, Proxied, namespaces_problem
from tests.cluster.replicas import verify_replicas
from tests.cluster.workload import Workload
from tests.small_disk import small_disk

DISK_BYTES = 1 << 30
READY_SECONDS = 120.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the faults")
    parser.add_argument("--nodes", type=int, default=3, choices=(3, 4, 5))
    parser.add_argument("--proxies", action="store_true", help="no namespaces, even for root")
    parser.add_argument("--out", type=Path, default=Path("build/chaos"), help="is emptied first")
    options = parser.parse_args()
    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)
    print(f"seed {options.seed}, {options.nodes} nodes, {options.minutes:g} minutes", flush=True)
    campaign = Campaign(options.seed, options.minutes * 60, options.nodes, options.out.resolve())
    return campaign.run("as was asked, proxies" if options.proxies else namespaces_problem())


class Campaign:
    def __init__(self, seed: int, seconds: float, nodes: int, out: Path) -> None:
        self._seed = seed
        self._seconds = seconds
        self._nodes = nodes
        self._out = out
        self._done: list[tuple[float, Fault]] = []
        # When the load ended, if it did: what is taken out afterwards is not in the picture.
        self._ended: float | None = None

    def run(self, problem: str | None) -> int:
        """`problem` is why there are no namespaces, if there are none."""
        network = (
            Proxied(self._nodes, self._seed) if problem else Namespaces(self._nodes, self._seed)
        )
        print(f"links: {problem or 'network namespaces'}", flush=True)
        with self._disk() as disk:
            without = [] if disk else ["full disk"]
            if self._variables(LIAR) is None:
                without.append("clock")
            if without:
                print(f"left out on this machine: {', '.join(without)}", flush=True)
            faults = plan(self._seed, self._seconds, self._nodes, without)
            with self._cluster(network, disk) as cluster:
                return self._judge(*self._hurt(cluster, faults, disk))

    @contextlib.contextmanager
    def _disk(self) -> Iterator[Path | None]:
        """A file system that can be filled; only root can have one."""
        if os.geteuid() != 0:
            yield None
            return
        with small_disk(self._out / "small", DISK_BYTES) as path:
            try:
                yield path
            finally:
                # It goes with the disk, and whoever looks for a cause wants it.
                for log in path.glob("*.stderr"):
                    shutil.copy(log, self._out / f"node{self._nodes}.stderr")

    def _variables(self, node: int) -> dict[str, str] | None:
        return clock_variables(self._out / f"clock{node}")

    @contextlib.contextmanager
    def _cluster(self, network: Network, disk: Path | None) -> Iterator[Cluster]:
        directories = {self._nodes: disk / "node"} if disk else {}
        with static_cluster(
            self._out, network, count=self._nodes, directories=directories
        ) as cluster:
            # From its next start on it reads its wall clock from a file.
            member = cluster.members[LIAR]
            member.more_environment = self._variables(LIAR) or {}
            assert member.stop() == 0
            member.launch()
            eventually("a node is ready on a busy machine", member.is_ready, READY_SECONDS)
            yield cluster

    # --- load and faults ------------------------------------------------------------------------

    def _hurt(
        self, cluster: Cluster, faults: Sequence[Fault], disk: Path | None
    ) -> tuple[Workload, float]:
        """The workload, and for how many seconds it ran."""
        workload = Workload(cluster.endpoints, f"chaos{self._seed}")
        hurt = Hurt(cluster, self._out, disk)
        workload.create_queues()
        began = time.monotonic()
        workload.start()
        try:
            self._follow(began, faults, hurt, workload)
            hurt.mend()
            workload.await_progress(seconds=60.0)
            workload.end()
            self._ended = time.monotonic()
            print("everything is mended: take out what is left", flush=True)
            workload.verify()
            verify_replicas(cluster)
            return workload, self._ended - began
        finally:
            workload.abandon()
            self._write(workload, began)

    def _follow(
        self, began: float, faults: Sequence[Fault], hurt: Hurt, workload: Workload
    ) -> None:
        """Begin and end faults when it is time; an end comes before a beginning of that time."""
        ends: list[tuple[float, Callable[[], None]]] = []
        waiting = list(faults)
        while waiting or ends:
            ends.sort(key=lambda end: end[0])
            is_end = bool(ends) and (not waiting or ends[0][0] <= waiting[0].begins)
            at = ends[0][0] if is_end else waiting[0].begins
            time.sleep(max(0.0, began + at - time.monotonic()))
            workload.raise_failure()
            if is_end:
                ends.pop(0)[1]()
                continue
            fault = waiting.pop(0)
            print(fault, flush=True)
            self._done.append((time.monotonic(), fault))
            ends.append((fault.ends, hurt.begin(fault)))

    # --- the end --------------------------------------------------------------------------------

    def _write(self, workload: Workload, began: float) -> None:
        """Whatever happened: a failure is looked at in what was recorded."""
        if not workload.history:
            return
        epoch = time.time() - time.monotonic()
        marks = [(at, str(fault)) for at, fault in self._done]
        Recording(self._seed, list(workload.history), epoch).write(self._out, marks)
        seconds = (self._ended or time.monotonic()) - began
        faults = [fault for _, fault in self._done]
        title = f"What clients got done during {len(faults)} faults of {self._nodes} nodes"
        title += f" (seed {self._seed})"
        history = list(workload.history)
        series, standstill = rates(history, began, seconds), gaps(history, began, seconds)
        picture = draw(title, series, standstill, faults, seconds)
        (self._out / "timeline.svg").write_text(picture)

    def _judge(self, workload: Workload, seconds: float) -> int:
        kinds = Counter(fault.kind for _, fault in self._done)
        with small.open_small(self._out / TRACE, self._out / HISTORY) as source:
            verdict = verify(source, self._out / HISTORY, self._out / "verdict")
        sys.stdout.write(summary(verdict))
        told = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
        print(f"faults: {told}")
        print(
            f"seed {self._seed}: {seconds / 60:.1f} minutes, {sum(kinds.values())} faults, "
            f"{len(workload.history)} operations checked, {workload.acknowledged} sends "
            f"acknowledged, {len(workload.unknown)} without an answer, "
            f"{'no violation' if verdict.exit_code == 0 else 'VIOLATIONS'}"
        )
        return verdict.exit_code


if __name__ == "__main__":
    sys.exit(main())
