"""Three nodes of the real consensus in one process and in virtual time, for tests of leases.

Each node has a clock of its own rate, a disk and a set of numbers as its state. The test decides
how long packets travel, who is cut off, and when time passes. After every event the cluster checks
what must hold at every moment; see `check`.
"""

import heapq
from collections.abc import Callable, Iterator
from typing import Final

from fastnode._raftlog import NotLeader, RaftGroups, SimDisk
from fastnode.errors import OperationError
from fastnode.raft.lease import Reads, lease_ns

TICK_NS: Final = 100_000_000
ELECTION_TICKS: Final = 5
# Far more than real clocks have, so that forgetting it shows.
DRIFT_PPM: Final = 100_000
LEASE_NS: Final = lease_ns(election_ticks=ELECTION_TICKS, tick_seconds=0.1, drift_ppm=DRIFT_PPM)
READS_MAX: Final = 1_000
NODES: Final = (1, 2, 3)

# The kind of message that orders an election, as raft-rs numbers it.
TIMEOUT_NOW: Final = 14
HEADER_BYTES: Final = 17

MakeReads = Callable[[], Reads]


def make_reads() -> Reads:
    return Reads(LEASE_NS, READS_MAX)


def kinds_in(packet: bytes) -> Iterator[int]:
    """The kinds of the messages in a packet."""
    offset = HEADER_BYTES
    while offset < len(packet):
        end = offset + 8 + int.from_bytes(packet[offset + 4 : offset + 8], "little")
        yield kind_of(packet[offset + 8 : end])
        offset = end


def kind_of(encoded: bytes) -> int:
    """Field 1 of a message; it comes first where it is not zero."""
    tag, offset = read_varint(encoded, 0)
    return read_varint(encoded, offset)[0] if tag >> 3 == 1 else 0


def read_varint(encoded: bytes, offset: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = encoded[offset]
        value |= (byte & 127) << shift
        offset, shift = offset + 1, shift + 7
        if byte < 128:
            return value, offset


class Read:
    """A read and what it must not miss: all that was acknowledged before it began."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._required_count = len(node.cluster.acknowledged)
        self.is_served = False
        self.error: OperationError | None = None

    def resume(self) -> None:
        missed = self._node.first_missed(self._required_count)
        assert missed is None, f"a read on node {self._node.number} missed {missed}"
        self.is_served = True

    def fail(self, error: OperationError) -> None:
        self.error = error


class Node:
    election_ticks = ELECTION_TICKS
    tick_ns = TICK_NS

    def __init__(self, cluster: "Cluster", number: int, *, rate_ppm: int, offset_ns: int) -> None:
        self.cluster = cluster
        self.number = number
        self._rate_ppm = rate_ppm
        self.next_tick_ns = offset_ns
        self.disk = SimDisk(number)
        self.start()

    def start(self) -> None:
        self.raft = RaftGroups(
            *(self.number, "", 1),
            voters=list(NODES),
            applied=[0],
            election_ticks=self.election_ticks,
            heartbeat_ticks=1,
            segment_bytes=1 << 16,
            manual=True,
            disk=self.disk,
        )
        self.reads = self.cluster.make_reads()
        self.state: set[int] = set()
        self._found_count = 0
        self.proposed: set[int] = set()
        self.applied_index = 0
        self.round_count = 0
        self.leads = False
        self.term = 0

    def restart(self) -> None:
        self.reads.fail_all(OperationError("stopped"))
        self.disk.crash()
        self.start()

    @property
    def clock_ns(self) -> int:
        return self.cluster.now_ns * (1_000_000 + self._rate_ppm) // 1_000_000

    @property
    def has_lease(self) -> bool:
        return self.reads.lease.is_valid(self.clock_ns)

    def tick(self) -> None:
        self.next_tick_ns += self.tick_ns * 1_000_000 // (1_000_000 + self._rate_ppm) + 1
        self.raft.tick()
        self.turn()

    def step(self, packet: bytes) -> None:
        self.raft.step(packet)
        self.turn()

    def write(self, number: int) -> None:
        try:
            self.raft.propose(0, b"%d" % number)
        except NotLeader:
            return
        self.proposed.add(number)
        self.turn()

    def read(self) -> Read:
        read = Read(self)
        if self.reads.admit(self.clock_ns, self.applied_index):
            read.resume()
            return read
        try:
            self.reads.wait(read)
        except OperationError as error:
            read.fail(error)
        self.turn()
        return read

    def first_missed(self, count: int) -> int | None:
        """The first of so many acknowledged numbers that is not here. A state only grows, so what
        was found once is not looked for again.
        """
        while self._found_count < count:
            number = self.cluster.acknowledged[self._found_count]
            if not self.has(number):
                return number
            self._found_count += 1
        return None

    def has(self, number: int) -> bool:
        return number in self.state

    def transfer(self, to: int) -> None:
        if self.leads:
            self.reads.begin_transfer()
            self.raft.transfer_leader(0, to)
            self.turn()

    def turn(self) -> None:
        """As the driver: ask for a round; roles, rounds, entries; send last."""
        for _ in range(100):
            context = self.reads.take_round(self.clock_ns)
            if context is not None and self._is_leader_now():
                self.raft.read_index(0, context)
                self.round_count += 1
            sends, committed, reads, roles, is_persisting, *_ = self.raft.ready()
            for _group, role, term, _leader in roles:
                self._change_role(role, term)
            for _group, context, index in reads:
                self.reads.confirm(context, index)
            for _group, index, _term, entries in committed:
                self._apply(index, entries)
            self.reads.release(self.applied_index)
            for to, packet in sends:
                self.cluster.send(self.number, to, packet)
            if not self.raft.persist_step() and not is_persisting:
                return
        raise AssertionError("the node does not settle")

    def _is_leader_now(self) -> bool:
        return self.raft.status()["groups"][0]["role"] == "leader"

    def _change_role(self, role: str, term: int) -> None:
        self.reads.change_role(role, term)
        self.leads, self.term = role == "leader", term
        if not self.leads:
            self.proposed.clear()

    def _apply(self, index: int, entries: list[bytes]) -> None:
        for number in map(int, entries):
            self.state.add(number)
            if number in self.proposed:
                self.cluster.acknowledged.append(number)
        self.applied_index = index
        self.raft.applied([(0, index)])


class Cluster:
    def __init__(
        self,
        *,
        rates_ppm: tuple[int, int, int] = (0, 0, 0),
        offsets_ns: tuple[int, int, int] = (0, 33_000_000, 66_000_000),
        make_reads: MakeReads = make_reads,
        make_node: type[Node] = Node,
    ) -> None:
        self.now_ns = 1
        self.make_reads = make_reads
        self.acknowledged: list[int] = []
        # How long packets of a link travel; a link that is not here is cut.
        self.delays_ns = {(a, b): 1_000_000 for a in NODES for b in NODES if a != b}
        # Packets on their way stay there while their kind is held.
        self.held: list[tuple[int, bytes]] = []
        self.held_kind = -1
        self._travelling: list[tuple[int, int, int, int, bytes]] = []
        self._sent_count = 0
        self.nodes = {
            number: make_node(self, number, rate_ppm=rate, offset_ns=offset)
            for number, rate, offset in zip(NODES, rates_ppm, offsets_ns, strict=True)
        }

    def send(self, sender: int, to: int, packet: bytes) -> None:
        if self.held_kind >= 0 and self._is_held(packet):
            self.held.append((to, packet))
            return
        delay_ns = self.delays_ns.get((sender, to))
        if delay_ns is not None:
            self._sent_count += 1
            due_ns = self.now_ns + delay_ns
            heapq.heappush(self._travelling, (due_ns, self._sent_count, sender, to, packet))

    def _is_held(self, packet: bytes) -> bool:
        return self.held_kind in kinds_in(packet)

    def cut(self, *numbers: int) -> None:
        """Nothing goes in or out; packets on their way to and from them are lost."""
        for link in list(self.delays_ns):
            if not set(link).isdisjoint(numbers):
                self.cut_link(*link)

    def cut_link(self, sender: int, to: int) -> None:
        self.delays_ns.pop((sender, to), None)

    def heal(self, delay_ns: int = 1_000_000) -> None:
        self.delays_ns = {(a, b): delay_ns for a in NODES for b in NODES if a != b}

    def release_held(self) -> None:
        self.held_kind = -1
        for to, packet in self.held:
            self.nodes[to].step(packet)
            self.check()
        self.held.clear()

    def run(self, duration_ns: int) -> None:
        end_ns = self.now_ns + duration_ns
        while (due_ns := self._next_due_ns()) <= end_ns:
            self.now_ns = due_ns
            self._run_one()
            self.check()
        self.now_ns = end_ns

    def run_until(self, condition: Callable[[], bool], *, ticks_max: int = 100) -> None:
        for _ in range(ticks_max * 20):
            if condition():
                return
            self.run(TICK_NS // 20)
        raise AssertionError("what was waited for did not happen")

    def elect(self) -> Node:
        """The node that leads and answers reads, at some time from now on."""
        leader: list[Node] = []
        reads: dict[int, Read] = {}

        def is_answering(node: Node) -> bool:
            """A read of a moment ago, since without a lease an answer takes a round."""
            last, reads[node.number] = reads.get(node.number), node.read()
            return last is not None and last.is_served

        def has_leader() -> bool:
            leader[:] = [node for node in self.nodes.values() if node.leads and is_answering(node)]
            return bool(leader)

        self.run_until(has_leader)
        return leader[-1]

    def check(self) -> None:
        """A lease excludes every other lease, and every later leader."""
        holders = [node for node in self.nodes.values() if node.has_lease]
        for holder in holders:
            assert holder.leads, "a lease without leadership"
            for other in self.nodes.values():
                is_later = other.leads and other.term > holder.term
                text = f"{other.number} leads while {holder.number} holds a lease"
                assert not is_later, text
        assert len(holders) <= 1, "two leases at a time"

    def _next_due_ns(self) -> int:
        ticks = min(node.next_tick_ns for node in self.nodes.values())
        return min(ticks, self._travelling[0][0]) if self._travelling else ticks

    def _run_one(self) -> None:
        if self._travelling and self._travelling[0][0] <= self.now_ns:
            _, _, sender, to, packet = heapq.heappop(self._travelling)
            if (sender, to) in self.delays_ns:
                self.nodes[to].step(packet)
            return
        min(self.nodes.values(), key=lambda node: node.next_tick_ns).tick()
