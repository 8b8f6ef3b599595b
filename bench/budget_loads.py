"""The workloads whose budget is taken: each starts real nodes and says what one unit of work is.

A load is made anew for every run, because a FIFO send that is repeated is a duplicate and a drain
needs a full queue.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import msgspec

from bench import fifo, machine, node_load, server_process
from bench.cluster_nodes import three_nodes, write_sends
from bench.load import Load, Outcome
from bench.sqs_requests import Signer

ACCOUNT = "000000000000"
GROUPS = 8
CONSUMERS = 16
DRAIN_SECONDS_MAX = 120.0
# A drain of ten messages per receive takes about as long as sending one for each.
DRAINED_PER_SECOND = 10_000
# More than one connection can send in a second.
FIFO_SENDS_PER_SECOND = 400


class Plan(msgspec.Struct, frozen=True):
    """What is asked for; `tree` is the checkout whose node runs."""

    connections: int
    seconds: float
    tree: Path
    directory: Path


class Running(msgspec.Struct, frozen=True):
    """Nodes that serve: their processes, the next load, and units of work in what it did."""

    pids: list[int]
    connections: int
    next_load: Callable[[], Load]
    units: Callable[[Outcome], float]


class Workload(msgspec.Struct, frozen=True):
    """A kind of load; `unit` is what a figure is per."""

    unit: str
    run: Callable[[Plan], AbstractContextManager[Running]]


def answers(outcome: Outcome) -> float:
    """Each request is a unit."""
    return float(outcome.answered)


def pairs(outcome: Outcome) -> float:
    """A receive of ten and the delete of its messages; what found nothing counts for nobody."""
    return max(1.0, sum(group.messages_deleted for group in outcome.groups) / 10)


@contextmanager
def sending(plan: Plan, *, is_batch: bool) -> Iterator[Running]:
    """Signed sends to one queue of a node that verifies them."""
    server_core, load_core = machine.choose_cores()
    command = node_command(plan.tree, credentials=write_credentials(plan.directory))
    with server_process.node(plan.directory / "data", server_core, command) as node:
        single, batch = node_load.write_requests(node, plan.directory)
        load = Load(
            node.address,
            plan.seconds,
            [(plan.connections, batch if is_batch else single)],
            core=load_core,
        )
        yield Running(node.process_ids(), plan.connections, lambda: load, answers)


@contextmanager
def send(plan: Plan) -> Iterator[Running]:
    """SendMessage."""
    with sending(plan, is_batch=False) as running:
        yield running


@contextmanager
def batch(plan: Plan) -> Iterator[Running]:
    """SendMessageBatch of ten."""
    with sending(plan, is_batch=True) as running:
        yield running


@contextmanager
def receive(plan: Plan) -> Iterator[Running]:
    """Receive and delete by tens until the queue is empty. Entries of a delete are known only when
    they are sent, so nothing can be signed beforehand and the node verifies nothing.
    """
    server_core, load_core = machine.choose_cores()
    command = node_command(plan.tree)
    with server_process.node(plan.directory / "data", server_core, command) as node:
        lane = fifo.Lane(node, plan.directory, fifo.Plan(), is_fifo=False)

        def next_load() -> Load:
            lane.fill(load_core, messages=max(1_000, int(DRAINED_PER_SECOND * plan.seconds)))
            return Load(
                node.address,
                DRAIN_SECONDS_MAX,
                consumers=[(CONSUMERS, lane.consumer)],
                core=load_core,
                stop_empty=3,
            )

        yield Running(node.process_ids(), CONSUMERS, next_load, pairs)


@contextmanager
def fifo_send(plan: Plan) -> Iterator[Running]:
    """SendMessage to 1,000 message groups of one FIFO queue. Every send has an id of its own, which
    is filled into a signed request, so the node verifies nothing.
    """
    server_core, load_core = machine.choose_cores()
    command = node_command(plan.tree)
    with server_process.node(plan.directory / "data", server_core, command) as node:
        sends = max(10, int(FIFO_SENDS_PER_SECOND * plan.seconds))
        sized = fifo.Plan(connections=plan.connections, sends_per_connection=sends)
        lane = fifo.Lane(node, plan.directory, sized, is_fifo=True)

        def next_load() -> Load:
            count = sends * plan.connections
            cycles = [(1, file) for file in lane.send_files()]
            return Load(node.address, plan.seconds, cycles, core=load_core, count=count)

        yield Running(node.process_ids(), plan.connections, next_load, answers)


@contextmanager
def forward(plan: Plan) -> Iterator[Running]:
    """SendMessage to a node that does not lead the queue; figures are of all three nodes."""
    with three_nodes(plan.directory / "nodes", GROUPS) as nodes:
        queue, _, follower = nodes.leader_and_follower()
        file = write_sends(plan.directory / "sends", follower, [queue])
        load = Load(follower, plan.seconds, [(plan.connections, file)])
        yield Running(nodes.pids(), plan.connections, lambda: load, answers)


WORKLOADS: Mapping[str, Workload] = {
    "send": Workload("SendMessage", send),
    "batch": Workload("SendMessageBatch of ten", batch),
    "receive": Workload("ReceiveMessage of ten + DeleteMessageBatch of ten", receive),
    "fifo": Workload("SendMessage to a FIFO queue", fifo_send),
    "forward": Workload("SendMessage to a node that does not lead, three nodes", forward),
}


def node_command(tree: Path, *, credentials: Path | None = None) -> tuple[str, ...]:
    """What stands before `run`: a node of that checkout, whose extensions are built."""
    variables = [] if credentials is None else [f"FASTNODE_CREDENTIALS={credentials}"]
    return ("env", "-C", str(tree), *variables, sys.executable, "-m", "fastnode")


def write_credentials(directory: Path) -> Path:
    """The key that signs the requests of all benches."""
    file = directory / "credentials.json"
    key = {
        "access_key_id": Signer.access_key,
        "secret_access_key": Signer.secret_key,
        "account": ACCOUNT,
    }
    file.write_bytes(msgspec.json.encode({"credentials": [key]}))
    file.chmod(0o600)
    return file
