"""Three nodes under measurement: a queue in every group, who leads it, loads on several nodes.

The processes are those of `tests/cluster`. Nothing is pinned: the load generator, all nodes of the
cluster and the single node they are compared with share the cores of the machine.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import msgspec

from bench import load, server_process, sqs_requests
from bench.load import Load, Outcome
from bench.storage import IDENTITY
from fastnode import native
from fastnode.cluster.leads import preferred_leader
from tests.cluster.harness import Cluster, Member, eventually, static_cluster
from tests.cluster.network import Loopback, Network

ACCOUNT, REGION = "000000000000", "us-east-1"
REQUESTS_PER_FILE = 96


class Nodes(msgspec.Struct, frozen=True):
    """A cluster that serves, with one queue per group."""

    cluster: Cluster
    directory: Path
    queues: list[str]

    def pids(self) -> list[int]:
        return [member.process.pid for member in self.cluster.running]

    def addresses(self) -> list[str]:
        return [member.place.listen for member in self.cluster.running]

    def leaders(self) -> dict[str, Member]:
        """Who leads each queue now."""
        numbers = self.cluster.await_leaders()
        members = self.cluster.members
        return {name: members[leader] for name, leader in zip(self.queues, numbers, strict=True)}

    def leader_and_follower(self) -> tuple[str, str, str]:
        """A queue, the address of its leader, and the address of another node."""
        name, leader = next(iter(self.leaders().items()))
        others = [member for member in self.cluster.running if member is not leader]
        return name, leader.place.listen, others[0].place.listen

    def balance(self) -> None:
        """Bring every lead to where the nodes would bring it, so that none moves meanwhile."""
        voters = sorted(self.cluster.members)
        wanted = [preferred_leader(group, voters) for group in range(len(self.queues))]
        for group, leader in enumerate(self.cluster.await_leaders()):
            if leader != wanted[group]:
                transfer(self.cluster.members[leader].place.admin, group, wanted[group])
        eventually(
            "each group is led by the node that should lead it",
            lambda: self.cluster.leaders() == wanted,
        )


@contextmanager
def three_nodes(directory: Path, groups: int, network: Network | None = None) -> Iterator[Nodes]:
    """Started, with leads that stay where they are."""
    directory.mkdir(parents=True)
    flags = ("--groups", str(groups))
    with static_cluster(directory, network or Loopback(), *flags) as cluster:
        nodes = Nodes(cluster, directory, queue_names(groups))
        nodes.balance()
        create_queues(nodes.addresses()[0], nodes.queues)
        yield nodes


def queue_names(groups: int) -> list[str]:
    """A queue at home in each group, in the order of the groups."""
    found: dict[int, str] = {}
    for serial in count():
        name = f"bench-{serial}"
        group = native.home_group(native.queue_segment(ACCOUNT, REGION, name), groups)
        found.setdefault(group, name)
        if len(found) == groups:
            return [found[group] for group in range(groups)]
    raise AssertionError("serials do not end")


def transfer(admin: str, group: int, to: int) -> None:
    body = msgspec.json.encode({"group": group, "to": to})
    head = f"POST /api/v1/cluster/transfer HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n"
    kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    server_process.exchange(admin, (head + kind).encode() + body)


def create_queues(address: str, names: Sequence[str]) -> None:
    for name in names:
        server_process.exchange(
            address, signer(address).request("CreateQueue", {"QueueName": name})
        )


def signer(address: str) -> sqs_requests.Signer:
    return sqs_requests.Signer(host=address, signed_at=datetime.now(UTC))


def queue_url(address: str, name: str) -> str:
    return f"http://{address}/{ACCOUNT}/{name}"


def write_sends(file: Path, address: str, names: Sequence[str]) -> Path:
    """Sends to each queue in turn, as a client of that node writes them."""
    requests = (
        signer(address).request(
            "SendMessage",
            {
                "QueueUrl": queue_url(address, names[serial % len(names)]),
                "MessageBody": sqs_requests.message_body(serial),
            },
            serial,
        )
        for serial in range(REQUESTS_PER_FILE)
    )
    file.write_bytes(IDENTITY.sub(b"", b"".join(requests)))
    return file


def run_together(loads: Sequence[Load]) -> list[Outcome]:
    """Several targets at the same time, each with a load generator of its own."""
    with ThreadPoolExecutor(len(loads)) as pool:
        outcomes = list(pool.map(load.run, loads))
    for outcome in outcomes:
        outcome.check()
    return outcomes
