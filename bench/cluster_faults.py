"""How long sends fail when a node goes: killed, and stopped in good order.

A prober per queue sends to the nodes that stay, one message after the other, from before the signal
until the node has ended and every queue has been sent to again.
"""

import signal
import statistics
import threading
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import msgspec

from bench.cluster_nodes import Nodes
from bench.report import Line
from bench.server_process import ServerError
from tests.cluster.client import Client, Unknown
from tests.cluster.harness import Member

KILLED_SECONDS_MAX = 2.5
STOPPED_SECONDS_MAX = 0.3
RECOVER_SECONDS_MAX = 20.0
# Between two sends of a prober: the machine is not to be busy with them.
PAUSE_SECONDS = 0.005
RETRY_SECONDS = 0.02
LEAD_IN_SECONDS = 0.2


class Outage(msgspec.Struct, frozen=True):
    """Seconds, of one queue: until the first success of a send that began after the signal, and
    the longest time without a success.
    """

    first: float
    longest: float


class Prober:
    """Sends to one queue until it is told to end and has succeeded after the signal."""

    def __init__(self, urls: Sequence[str], queue: str) -> None:
        self._urls = urls
        self._queue = queue
        self._signalled_at: float | None = None
        self._is_ending = threading.Event()

    def signalled(self, at: float) -> None:
        self._signalled_at = at

    def end(self) -> None:
        self._is_ending.set()

    def run(self) -> Outage:
        client = Client(lambda: self._urls)
        first, last, longest = 0.0, 0.0, 0.0
        deadline = time.monotonic() + 2 * RECOVER_SECONDS_MAX
        try:
            while not (first and self._is_ending.is_set()):
                began = time.monotonic()
                if began > deadline:
                    raise ServerError(f"no send to {self._queue} succeeded after the signal")
                if not self._has_sent(client):
                    time.sleep(RETRY_SECONDS)
                    continue
                now, signalled_at = time.monotonic(), self._signalled_at
                if signalled_at is not None and began >= signalled_at:
                    first = first or now - signalled_at
                    longest = max(longest, now - max(last, signalled_at))
                last = now
                time.sleep(PAUSE_SECONDS)
        finally:
            client.close()
        return Outage(first, longest)

    def _has_sent(self, client: Client) -> bool:
        with suppress(Unknown):
            url = f"http://localhost/000000000000/{self._queue}"
            client.call("SendMessage", QueueUrl=url, MessageBody="probe")
            return True
        return False


def measure_failover(nodes: Nodes, kills: int, stops: int) -> list[Line]:
    """The last node that is killed stays dead."""
    stopped = [take_down(nodes, signal.SIGTERM) for _ in range(stops)]
    killed = [take_down(nodes, signal.SIGKILL) for _ in range(kills)]
    return [
        outage_line("kill -9: seconds to a send", killed, KILLED_SECONDS_MAX),
        outage_line("SIGTERM: seconds to a send", stopped, STOPPED_SECONDS_MAX),
    ]


def outage_line(name: str, rounds: Sequence[Sequence[Outage]], at_most: float) -> Line:
    """The median over all queues that had to change their leader."""
    outages = [outage for queues in rounds for outage in queues]
    if not outages:
        raise ServerError("whoever was taken down had just given its leads away: run it again")
    first = [outage.first for outage in outages]
    longest = statistics.median(outage.longest for outage in outages)
    detail = (
        f"{len(rounds)} times, {len(outages)} queues, {min(first):.3f} to {max(first):.3f}; "
        f"longest time without a success {longest:.3f}"
    )
    return Line(name, statistics.median(first), detail, at_most=at_most)


def take_down(nodes: Nodes, number: signal.Signals) -> list[Outage]:
    """Of each queue that the victim led. The cluster is whole before."""
    cluster = nodes.cluster
    cluster.make_whole()
    cluster.await_same_applied()
    leaders = nodes.leaders()
    victim = statistics.mode(leaders.values())
    urls = [member.sqs_url for member in cluster.running if member is not victim]
    probers = {name: Prober(urls, name) for name, at in leaders.items() if at is victim}
    with ThreadPoolExecutor(len(probers)) as pool:
        running = {name: pool.submit(prober.run) for name, prober in probers.items()}
        try:
            time.sleep(LEAD_IN_SECONDS)
            # Leads are balanced all the time: what counts are those that it has to the last.
            led = [name for name, leader in nodes.leaders().items() if leader is victim]
            end(victim, number, probers.values())
        finally:
            for prober in probers.values():
                prober.end()
        return [running[name].result() for name in led if name in running]


def end(victim: Member, number: signal.Signals, probers: Collection[Prober]) -> None:
    at = time.monotonic()
    for prober in probers:
        prober.signalled(at)
    victim.process.send_signal(number)
    victim.process.wait(RECOVER_SECONDS_MAX)
