"""The workloads whose budget is taken: each starts real nodes and says what one unit of work is.

A load is made anew for every run, because a FIFO send that is repeated is a duplicate and a drain
needs a full queue.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bench import load, machine, node_load, server_process, sqs_requests
from bench.cluster_nodes import three_nodes, write_sends
from bench.load import Load, Outcome
from bench.server_process import Server
from bench.sqs_requests import Signer

ACCOUNT = "000000000000"
RAFT_GROUPS = 8
MESSAGE_GROUPS = 1_000
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
def one_node(plan: Plan) -> Iterator[Server]:
    """A node of that checkout, whose extensions are built; it verifies every request."""
    command = ("env", "-C", str(plan.tree), *server_process.NODE_COMMAND)
    core, _ = machine.choose_cores()
    with server_process.verifying_node(plan.directory / "data", core, command) as node:
        yield node


@contextmanager
def sending(plan: Plan, *, is_batch: bool) -> Iterator[Running]:
    """Sends to one queue."""
    with one_node(plan) as node:
        single, batch = node_load.write_requests(node, plan.directory)
        cycles = [(plan.connections, batch if is_batch else single)]
        bounds = Load(node.address, plan.seconds, cycles, core=machine.choose_cores()[1])
        yield Running(node.process_ids(), plan.connections, lambda: bounds, answers)


def send(plan: Plan) -> AbstractContextManager[Running]:
    """SendMessage."""
    return sending(plan, is_batch=False)


def batch(plan: Plan) -> AbstractContextManager[Running]:
    """SendMessageBatch of ten."""
    return sending(plan, is_batch=True)


@contextmanager
def receive(plan: Plan) -> Iterator[Running]:
    """Receive and delete by tens until the queue is empty."""
    with one_node(plan) as node:
        _, batches = node_load.write_requests(node, plan.directory)
        script = plan.directory / "consumer.http"
        url = f"http://{node.address}/{ACCOUNT}/bench"
        script.write_bytes(sqs_requests.consumer_script(signer_of(node), url))

        def next_load() -> Load:
            count = max(100, int(DRAINED_PER_SECOND * plan.seconds / 10))
            load.run(Load(node.address, DRAIN_SECONDS_MAX, [(64, batches)], count=count)).check()
            return Load(
                node.address,
                DRAIN_SECONDS_MAX,
                consumers=[(CONSUMERS, script)],
                core=machine.choose_cores()[1],
                stop_empty=3,
            )

        yield Running(node.process_ids(), CONSUMERS, next_load, pairs)


@contextmanager
def fifo_send(plan: Plan) -> Iterator[Running]:
    """SendMessage to 1,000 message groups of one FIFO queue."""
    with one_node(plan) as node:
        signer, serials = signer_of(node), itertools.count()
        attributes = {"QueueName": "bench.fifo", "Attributes": {"FifoQueue": "true"}}
        server_process.exchange(node.address, signer.request("CreateQueue", attributes))
        each = max(10, int(FIFO_SENDS_PER_SECOND * plan.seconds))

        def next_load() -> Load:
            files = [plan.directory / f"fifo-{number}.http" for number in range(plan.connections)]
            for file in files:
                file.write_bytes(fifo_sends(signer, itertools.islice(serials, each)))
            cycles, count = [(1, file) for file in files], each * plan.connections
            core = machine.choose_cores()[1]
            return Load(node.address, plan.seconds, cycles, core=core, count=count)

        yield Running(node.process_ids(), plan.connections, next_load, answers)


def fifo_sends(signer: Signer, serials: Iterable[int]) -> bytes:
    """A request for each serial, which is its deduplication id."""
    url = f"http://{signer.host}/{ACCOUNT}/bench.fifo"
    return b"".join(
        signer.request(
            "SendMessage",
            {
                "QueueUrl": url,
                "MessageBody": sqs_requests.message_body(serial),
                "MessageGroupId": f"group-{serial % MESSAGE_GROUPS}",
                "MessageDeduplicationId": f"id-{serial}",
            },
        )
        for serial in serials
    )


def signer_of(node: Server) -> Signer:
    """Signs for this node, now."""
    return Signer(host=node.address, signed_at=datetime.now(UTC))


@contextmanager
def forward(plan: Plan) -> Iterator[Running]:
    """SendMessage to a node that does not lead the queue. Figures are of all three nodes, which
    verify nothing.
    """
    with three_nodes(plan.directory / "nodes", RAFT_GROUPS) as nodes:
        queue, _, follower = nodes.leader_and_follower()
        file = write_sends(plan.directory / "sends", follower, [queue])
        bounds = Load(follower, plan.seconds, [(plan.connections, file)])
        yield Running(nodes.pids(), plan.connections, lambda: bounds, answers)


WORKLOADS: Mapping[str, Workload] = {
    "send": Workload("SendMessage", send),
    "batch": Workload("SendMessageBatch of ten", batch),
    "receive": Workload("ReceiveMessage of ten + DeleteMessageBatch of ten", receive),
    "fifo": Workload("SendMessage to a FIFO queue", fifo_send),
    "forward": Workload("SendMessage to a node that does not lead, three nodes", forward),
}
