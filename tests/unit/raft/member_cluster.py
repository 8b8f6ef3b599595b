"""Nodes that join and leave one group, in one process: packets, snapshots and crashes by hand.

A node's state is the list of entries that it applied. A snapshot is a copy of such a list, kept
under the name that travels. Random histories are tested in Rust, next to the log.
"""

from typing import Final

from fastnode._raftlog import RaftGroups, SimDisk

Members = tuple[list[int], list[int]]
Install = tuple[int, int, int, list[int], list[int], bytes]

ELECTION_TICKS: Final = 5


class Node:
    def __init__(self, cluster: "Cluster", number: int, voters: list[int]) -> None:
        self.cluster = cluster
        self.number = number
        self.voters = voters
        self.disk = SimDisk(number)
        self.state: list[bytes] = []
        self.applied_index = 0
        self.restored: tuple[int, int, list[int], list[int]] | None = None
        self.members: Members = ([], [])
        self.wanted_count = 0
        self.installs: list[Install] = []
        self.is_installing_held = False
        self.is_up = True
        self.start()

    def start(self) -> None:
        self.raft = RaftGroups(
            *(self.number, "", 1),
            voters=self.voters,
            applied=[self.applied_index],
            restored=[self.restored],
            election_ticks=ELECTION_TICKS,
            heartbeat_ticks=1,
            segment_bytes=1 << 16,
            manual=True,
            disk=self.disk,
        )

    def restart(self) -> None:
        """The state is durable, as far as it was applied; the log as far as it was synced."""
        self.disk.crash()
        self.installs.clear()
        self.is_installing_held = False
        self.is_up = True
        self.start()

    @property
    def leads(self) -> bool:
        return self.raft.status()["groups"][0]["role"] == "leader"

    def turn(self) -> None:
        for _ in range(100):
            ready = self.raft.ready()
            sends, committed, _, _, is_persisting, members, wanted, offers, installs = ready
            for _, _, voters, learners in members:
                self.members = (voters, learners)
            for _, index, _, entries in committed:
                self.state += entries
                self.applied_index = index
                self.raft.applied([(0, index)])
            self.cluster.packets += [(self.number, to, packet) for to, packet in sends]
            self.cluster.offers += [(self.number, to, packet) for _, to, packet in offers]
            self.installs += installs
            if wanted:
                self.offer_state()
            if not self.is_installing_held:
                self.install()
            if not self.raft.persist_step() and not is_persisting:
                return
        raise AssertionError("the node does not settle")

    def offer_state(self) -> None:
        self.wanted_count += 1
        name = b"%d at %d" % (self.number, self.applied_index)
        self.cluster.saved[name] = list(self.state)
        self.raft.snapshot_ready(0, self.applied_index, name)

    def install(self) -> None:
        while self.installs:
            index = self.replace_state()
            self.raft.installed(0, index)

    def replace_state(self) -> int:
        """The first half of installing: after it a crash finds the state ahead of the log."""
        _, index, term, voters, learners, name = self.installs.pop(0)
        self.state = list(self.cluster.saved[name])
        self.applied_index = index
        self.restored = (index, term, voters, learners)
        return index

    def compact(self) -> None:
        self.raft.compact(0, self.applied_index)


class Cluster:
    def __init__(self, *joining: int) -> None:
        """Node 1 alone, and others that wait to be added."""
        self.packets: list[tuple[int, int, bytes]] = []
        self.offers: list[tuple[int, int, bytes]] = []
        self.saved: dict[bytes, list[bytes]] = {}
        self.refused: list[str] = []
        self.nodes = {1: Node(self, 1, [1])}
        for number in joining:
            self.nodes[number] = Node(self, number, [])
        self.run(2)

    def run(self, ticks: int) -> None:
        for _ in range(ticks):
            for node in self.up():
                node.raft.tick()
            for _ in range(6):
                for node in self.up():
                    node.turn()
                self.deliver()

    def up(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.is_up]

    def deliver(self) -> None:
        packets, self.packets = self.packets, []
        for _, to, packet in packets:
            if self.nodes[to].is_up:
                self.refused += self.nodes[to].raft.step(packet)
        offers, self.offers = self.offers, []
        for sender, to, packet in offers:
            is_taken = self.nodes[to].is_up and not self.nodes[to].raft.step(packet)
            self.nodes[sender].raft.report_snapshot(0, to, is_taken)

    @property
    def leader(self) -> Node:
        (leader,) = [node for node in self.up() if node.leads]
        return leader

    def write(self, *entries: bytes) -> None:
        for entry in entries:
            self.leader.raft.propose(0, entry)
            # Followers learn with the next heartbeat what is committed.
            self.run(2)

    def change(self, kind: str, number: int, ticks: int = 10) -> None:
        self.leader.raft.propose_members(0, kind, number)
        self.run(ticks)

    def add(self, *numbers: int) -> None:
        for number in numbers:
            self.change("add-learner", number)
            self.change("add-voter", number)
