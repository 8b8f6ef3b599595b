"""The cluster of `raft_cluster.py` with everything that a node really runs: driver, group, engine
and handlers that wait. What must hold at every moment is checked in the same way.
"""

from typing import Any, Final

from fastnode import config
from fastnode.clock import GroupClock
from fastnode.errors import OperationError, Unavailable
from fastnode.flow import start
from fastnode.raft.driver import Driver
from fastnode.raft.groups import LEADER, Groups
from fastnode.store.group import Group
from fastnode.store.memory_engine import MemoryEngine
from tests.unit.raft.raft_cluster import Cluster, Node, Read

WALL_NS: Final = 1_700_000_000_000_000_000


class NodeClock:
    def __init__(self, node: Node) -> None:
        self._node = node

    def boottime_ns(self) -> int:
        return self._node.clock_ns

    def wall_ns(self) -> int:
        return WALL_NS + self._node.clock_ns


class CountingGroups(Groups):
    round_count = 0

    def read_index(self, group: int, context: bytes) -> None:
        self.round_count += 1
        super().read_index(group, context)


class DrivenNode(Node):
    """A number is written as a row, and a read looks for the rows of all acknowledged ones."""

    election_ticks = config.ELECTION_TICKS
    tick_ns = round(config.TICK_SECONDS * 1_000_000_000)

    def start(self) -> None:
        super().start()
        self.engine = MemoryEngine()
        self.group = Group(0, self.engine, GroupClock(NodeClock(self)), is_sole_voter=False)
        self.group.on_read_waiting = self.note_reading
        self.reads = self.group.reads
        self.consensus = CountingGroups(self.raft)
        self.driver = Driver(self.consensus, [self.group])

    def note_reading(self, group: int) -> None:
        self.driver.reading[group] = None

    def has(self, number: int) -> bool:
        return self.group.get(b"%d" % number) is not None

    def tick(self) -> None:
        self.driver.tick(self.clock_ns)
        super().tick()

    def write(self, number: int) -> None:
        try:
            txn = self.group.begin(number.to_bytes(16, "big"))
        except Unavailable:
            return
        txn.put(b"%d" % number, b"")
        outcome = self.group.submit(txn)

        async def acknowledge() -> None:
            await outcome
            self.cluster.acknowledged.append(number)

        start(acknowledge(), ignore_refusal)
        self.turn()

    def read(self) -> Read:
        read = self.begin_read()
        self.turn()
        return read

    def begin_read(self) -> Read:
        """As a handler; it goes on in the turns to come."""
        read = Read(self)

        async def look() -> None:
            if not self.group.is_readable:
                await self.group.readable()
            read.resume()

        def done(_result: None, error: BaseException | None) -> None:
            ignore_refusal(_result, error)
            if isinstance(error, OperationError):
                read.fail(error)

        start(look(), done)
        return read

    def turn(self) -> None:
        """As the runtime, until nothing is left to do."""
        for _ in range(100):
            if self.driver.reading:
                self.driver.ask(self.clock_ns)
            self.driver.propose([0])
            for to, packet in self.driver.turn().sends:
                self.cluster.send(self.number, to, packet)
            self._look_up_role()
            is_idle = not self.raft.persist_step() and not self.driver.is_persisting
            if is_idle and not self.driver.is_round_due(self.clock_ns):
                return
        raise AssertionError("the node does not settle")

    def _look_up_role(self) -> None:
        status = self.raft.status()["groups"][0]
        self.leads, self.term = status["role"] == LEADER, status["term"]


def ignore_refusal(_result: Any, error: BaseException | None) -> None:
    if error is not None and not isinstance(error, OperationError):
        raise error


def driven_cluster(**chosen: Any) -> Cluster:
    return Cluster(make_node=DrivenNode, **chosen)


def driven(node: Node) -> DrivenNode:
    assert isinstance(node, DrivenNode)
    return node
