"""What `fastnode cluster dev` decides and shows: ports, command lines, orders, texts. Pure.

Processes, files and the terminal are in `cluster_dev.py`.
"""

import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from fastnode import native
from fastnode.cli.cluster_table import Status
from fastnode.config import GROUPS_DEFAULT, GROUPS_MAX
from fastnode.errors import UsageError
from fastnode.option_values import Address

HOST: Final = "127.0.0.1"
NODES_DEFAULT: Final = 3
NODES_MAX: Final = 9
PORT_DEFAULT: Final = 9324
_PORTS_BETWEEN_NODES: Final = 10
_PORT_MAX: Final = 65_535
# Of queues that a client creates with the example's credentials.
_ACCOUNT: Final = "000000000000"
_REGION: Final = "us-east-1"
_COLOURS: Final = ("36", "33", "35", "32", "34")


class Plan(msgspec.Struct, frozen=True):
    """Kept in the cluster's directory: members remember each other's addresses."""

    nodes: int = NODES_DEFAULT
    port: int = PORT_DEFAULT
    groups: int = GROUPS_DEFAULT


class Place(NamedTuple):
    """Where a node listens."""

    node: int
    sqs: Address
    admin: Address
    raft: Address


class Order(NamedTuple):
    """A line that somebody typed: one of `ORDERS`, and what it is about."""

    verb: str
    subject: str = ""


ORDERS: Final = {
    "kill N": "end node N as kill -9 does",
    "start N": "start node N again",
    "leader NAME": "which node leads the queue NAME",
    "status": "the table of nodes and groups",
    "help": "this list",
}
_SUBJECTS: Final = {name.split()[0]: name.partition(" ")[2] for name in ORDERS}


def check_plan(plan: Plan) -> None:
    last = plan.port + _PORTS_BETWEEN_NODES * (plan.nodes - 1) + 2
    for flag, value, least, most in (
        ("--nodes", plan.nodes, 1, NODES_MAX),
        ("--groups", plan.groups, 1, GROUPS_MAX),
        ("--port", plan.port, 1, _PORT_MAX - (last - plan.port)),
    ):
        if not least <= value <= most:
            raise UsageError(f"{flag} must be {least} to {most}, not {value}")


def places(plan: Plan) -> list[Place]:
    """Three ports in a row for each node: SQS, admin, raft."""
    firsts = (plan.port + _PORTS_BETWEEN_NODES * index for index in range(plan.nodes))
    return [
        Place(node, *(Address(HOST, first + offset) for offset in range(3)))
        for node, first in enumerate(firsts, start=1)
    ]


def run_arguments(plan: Plan, place: Place, data_dir: str, secret: str) -> list[str]:
    peers = ",".join(f"{one.node}={one.raft}" for one in places(plan))
    flags = {
        "--data-dir": data_dir,
        "--node-id": place.node,
        "--listen": place.sqs,
        "--admin": place.admin,
        "--raft": place.raft,
        "--peers": peers,
        "--groups": plan.groups,
        "--cluster-secret": secret,
    }
    return ["run", *(str(word) for pair in flags.items() for word in pair)]


def parse_order(line: str, plan: Plan) -> Order | None:
    """None for an empty line; `UsageError` says what can be typed."""
    words = line.split()
    if not words:
        return None
    verb, *rest = words
    if verb not in _SUBJECTS or len(rest) != bool(_SUBJECTS[verb]):
        raise UsageError(f"type one of: {', '.join(ORDERS)}")
    order = Order(verb, *rest)
    if _SUBJECTS[verb] == "N" and order.subject not in map(str, range(1, plan.nodes + 1)):
        raise UsageError(f"the nodes are 1 to {plan.nodes}")
    return order


# --- what is shown ------------------------------------------------------------------------------


def prefix(node: int, *, is_coloured: bool) -> str:
    """Of a node's line in the combined log; node 0 is the command itself."""
    text = f"node {node} | " if node else "cluster | "
    if not is_coloured:
        return text
    colour = _COLOURS[(node - 1) % len(_COLOURS)] if node else "1"
    return f"\x1b[{colour}m{text}\x1b[0m"


def describe_guide(plan: Plan, pids: Mapping[int, int], status: Status, program: str) -> str:
    """What can be typed, once the cluster is ready."""
    leads = Counter(group.leader for group in status.groups)
    rows = [
        f"  node {one.node}  http://{one.sqs}  leads {leads[one.node]} of {plan.groups}"
        f" groups  kill -9 {pids[one.node]}"
        for one in places(plan)
        if one.node in pids
    ]
    chosen = places(plan)[min(1, plan.nodes - 1)]
    lines = [
        "",
        f"{plan.nodes} nodes are ready, and each of them answers for all queues (leads are spread"
        " evenly in the next seconds):",
        *rows,
        "",
        "In another terminal, with any of these endpoints:",
        "  AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x aws sqs list-queues"
        f" --region {_REGION} --endpoint-url http://{chosen.sqs}",
        f'  boto3.client("sqs", endpoint_url="http://{chosen.sqs}", region_name="{_REGION}",'
        ' aws_access_key_id="x", aws_secret_access_key="x")',
        f"  {program} cluster status --admin {chosen.admin}",
        "",
        f"Here: {', '.join(ORDERS)}. Ctrl-C stops all nodes.",
        "",
    ]
    return "\n".join(lines) + "\n"


def describe_orders() -> str:
    return "".join(f"  {name:<13}{meaning}\n" for name, meaning in ORDERS.items())


def describe_end(node: int, code: int, restart_after: float | None) -> str:
    """A node has ended, and nobody here asked it to."""
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    if restart_after is None:
        return f"node {node} has ended {how}; to start it again, type here: start {node}"
    return f"node {node} has ended {how} and is started again in {restart_after:g} s"


def describe_leader(queue: str, plan: Plan, status: Status, pids: Mapping[int, int]) -> str:
    """Of a queue that has no partitions, whether it exists or not."""
    group = native.home_group(native.queue_segment(_ACCOUNT, _REGION, queue), plan.groups)
    leader = next((one.leader for one in status.groups if one.group == group), None)
    if not leader:
        return f"{queue} belongs to group {group}, which has no leader at the moment"
    kill = f": kill -9 {pids[leader]}" if leader in pids else ""
    return f"{queue} belongs to group {group}, which node {leader} leads{kill}"


def describe_taken(plan: Plan, taken: Sequence[Address]) -> str:
    return (
        f"{taken[0]} is in use: stop what uses it, or choose other ports with --port"
        f" ({plan.nodes} nodes use --port to --port +"
        f" {_PORTS_BETWEEN_NODES * (plan.nodes - 1) + 2})"
    )
