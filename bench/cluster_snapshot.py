"""Sends while a node joins that needs the whole state: does the snapshot disturb them?

The load goes to the leader that ships the snapshot, over few connections: a machine that is
saturated before has no room for a snapshot, and nothing could be said about its cost.
"""

import os
import re
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from threading import Event

import msgspec

from bench import load
from bench.cluster_nodes import Nodes, queue_url, signer, write_sends
from bench.load import Load, LoadError
from bench.report import Line
from bench.storage import IDENTITY
from tests.cluster.harness import Cluster, Member, eventually, run_command

P99_RATIO_MAX = 2.0
CONNECTIONS = 4
JOINING = 4
BATCH = 10
BODY_BYTES = 25_000
BATCHES_PER_FILE = 8
FILL_CONNECTIONS = 4
FILL_SECONDS_MAX = 900.0
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 60.0
JOIN_SECONDS_MAX = 300.0
SETTLE_SECONDS = 10.0
# Below this a stop keeps entries of the log, and a node that joins is given those.
LOG_KEPT_MB = 128
SHIPPED = re.compile(rf'"a snapshot was sent and installed".* peer={JOINING} .*total_bytes=(\d+)')


class Beside(msgspec.Struct, frozen=True):
    """How much is measured; of `megabytes` 0 the node that joins is given the log instead."""

    megabytes: int
    slice_seconds: float
    slices: int


def measure_snapshot(nodes: Nodes, plan: Beside) -> list[Line]:
    """Leaves the cluster as it was."""
    queue, leader, _ = nodes.leader_and_follower()
    if plan.megabytes:
        fill(nodes.directory, leader, queue, plan.megabytes)
        restart(nodes.cluster)
        nodes.balance()
        settle()
    shipper = nodes.leaders()[queue]
    sends = Load(
        target=shipper.place.listen,
        seconds=plan.slice_seconds,
        cycles=[(CONNECTIONS, write_sends(nodes.directory / "beside.http", leader, [queue]))],
    )
    before = [p99_ms(sends) for _ in range(plan.slices)]
    during = slices_while_joining(nodes, nodes.queues.index(queue), shipper, sends)
    shipped = shipped_bytes(nodes.cluster)
    remove(nodes.cluster)
    if plan.megabytes > LOG_KEPT_MB and shipped < plan.megabytes * 500_000:
        raise LoadError(f"only {shipped:,} bytes of snapshots were shipped")
    after = [p99_ms(sends) for _ in range(plan.slices)]
    return [snapshot_line(shipped, during, before, after)]


def snapshot_line(
    shipped: int, during: list[float], before: list[float], after: list[float]
) -> Line:
    """If before and after differ much, the machine had other work, and the ratio says nothing."""
    without = median(before + after)
    detail = (
        f"p99 {median(during):.2f} ms in {len(during)} slices, worst {max(during):.2f}; before "
        f"{median(before):.2f}, after {median(after):.2f}; {CONNECTIONS} connections"
    )
    name = f"p99 of sends beside a snapshot of {shipped / 1e6:,.0f} MB / without"
    return Line(name, median(during) / without, detail, at_most=P99_RATIO_MAX)


def p99_ms(sends: Load) -> float:
    outcome = load.run(sends)
    outcome.check()
    return outcome.step.p99_us / 1e3


def fill(directory: Path, leader: str, queue: str, megabytes: int) -> None:
    """Bodies that cannot be compressed, so that the state is as large as what was sent."""
    url = queue_url(leader, queue)
    requests = (
        signer(leader).request(
            "SendMessageBatch",
            {
                "QueueUrl": url,
                "Entries": [
                    {"Id": str(n), "MessageBody": secrets.token_hex(BODY_BYTES // 2)}
                    for n in range(BATCH)
                ],
            },
        )
        for _ in range(BATCHES_PER_FILE)
    )
    file = directory / "fill.http"
    file.write_bytes(IDENTITY.sub(b"", b"".join(requests)))
    count = max(1, megabytes * 1_000_000 // (BATCH * BODY_BYTES))
    cycles = [(FILL_CONNECTIONS, file)]
    load.run(Load(leader, FILL_SECONDS_MAX, cycles, count=count)).check()
    file.unlink()


def restart(cluster: Cluster) -> None:
    """A stop flushes the engines, and the log is cut behind what is flushed."""
    cluster.await_same_applied()
    stopped = [member.process for member in cluster.running]
    for process in stopped:
        process.terminate()
    for process in stopped:
        process.wait(STOP_SECONDS_MAX)
    cluster.make_whole()
    # Whoever stopped a moment earlier than the others is brought up to date first.
    cluster.await_same_applied()


def settle() -> None:
    """What was filled is written back and compacted first: both slow every fsync down."""
    os.sync()
    time.sleep(SETTLE_SECONDS)


def slices_while_joining(nodes: Nodes, group: int, shipper: Member, sends: Load) -> list[float]:
    """From the moment at which the new node runs until it votes in the queue's group."""
    cluster = nodes.cluster
    member = cluster.add(JOINING, "--join", cluster.network.place(1).raft)
    is_started = Event()

    def join() -> None:
        try:
            member.start()
        finally:
            is_started.set()
        what = f"node {JOINING} votes in group {group}"
        eventually(what, lambda: JOINING in shipper.voters()[group][0], JOIN_SECONDS_MAX)

    with ThreadPoolExecutor(1) as pool:
        joining = pool.submit(join)
        is_started.wait(START_SECONDS_MAX)
        found = [p99_ms(sends)]
        while not joining.done():
            found.append(p99_ms(sends))
        joining.result()
    return found


def remove(cluster: Cluster) -> None:
    admin = cluster.network.place(1).admin
    ended = run_command("cluster", "remove", str(JOINING), "--admin", admin)
    if ended.returncode != 0:
        raise LoadError(f"the node that joined cannot be removed: {ended.stderr}")
    cluster.members.pop(JOINING).kill()
    cluster.await_voters(cluster.members)


def shipped_bytes(cluster: Cluster) -> int:
    """To the node that joined, of all groups, as the logs of the leaders tell."""
    found = (SHIPPED.findall(member.stderr()) for member in cluster.members.values())
    return sum(int(size) for sizes in found for size in sizes)
