"""What goes wrong in a simulation, and when: chosen by seed, one thing after another, several at a
time. Each fault begins, lasts, and ends; when the time for faults is over everything is mended.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from fastnode.clock import NS_PER_MS
from fastnode.errors import OperationError
from tests.sim.clockwork import Clockwork, SimLoop
from tests.sim.cluster import SimCluster, SimNode
from tests.sim.machine import SimMachine
from tests.sim.members import Members

# Where clocks are set, it is by no more than this, so that the model knows how far off they are.
STEP_MS_MAX: Final = 300


class Packets:
    """One in `each` of a node's Raft packets gets lost, comes late, or twice."""

    def __init__(self, work: Clockwork, send: Callable[[int, bytes], None], loop: SimLoop) -> None:
        self._random = work.random(f"packets {loop.host} {work.now_ns}")
        self._send = send
        self._loop = loop
        self.each = 0

    def send(self, peer: int, packet: bytes) -> None:
        if not self.each or self._random.randrange(self.each):
            self._send(peer, packet)
            return
        kind = self._random.randrange(3)
        if kind == 1:
            self._send(peer, packet)
        if kind:
            late_ns = self._random.randrange(1_000) * NS_PER_MS
            self._loop.after_ns(late_ns, self._send, peer, packet)


class Mix(NamedTuple):
    """How often what happens, in relation to each other; how much more time there is in between,
    since whoever takes a lead has to get something done; and whether somebody has to look.
    """

    kinds: Mapping[str, float]
    pace: float = 1.0
    is_watched: bool = False


class Faults:
    """A kind of fault is a method of its name; one that answers False could not be done."""

    def __init__(self, cluster: SimCluster, loop: SimLoop, clients: list[str], mix: Mix) -> None:
        self._cluster = cluster
        self._network = cluster.network
        self._loop = loop
        self._clients = clients
        self._random = cluster.work.random("faults")
        self.count = 0
        self.is_over = False
        self.members = Members(cluster, loop, self._random)
        self._packets: dict[SimLoop, Packets] = {}
        self._mends: list[Callable[[], None]] = []
        self._kinds = dict(mix.kinds)
        self._pace = mix.pace
        cluster.on_refusal = lambda one: self._later(partial(self._start, one), 50, 2_000)

    def leave_out(self, kind: str) -> None:
        self._kinds.pop(kind, None)

    async def run(self, until_ns: int, pause_ms: float) -> None:
        work = self._cluster.work
        while work.now_ns < until_ns:
            pause_ns = round(self._random.expovariate(1.0) * pause_ms * self._pace * NS_PER_MS)
            await asyncio.sleep(min(pause_ns, until_ns - work.now_ns) / 1e9)
            (name,) = self._random.choices(list(self._kinds), list(self._kinds.values()))
            fault: Callable[[], Any] = getattr(self, name)
            if work.now_ns < until_ns and fault() is not False:
                self.count += 1
                work.note(f"fault {name}")
        self.is_over = True
        self._mend_all()

    def _mend_all(self) -> None:
        mends, self._mends = self._mends, []
        for mend in mends:
            mend()
        self._network.unblock_all()

    def _later(self, mend: Callable[[], None], low_ms: int, high_ms: int) -> None:
        """Mend it after a while, or when all is mended; twice does no harm."""
        self._mends.append(mend)
        delay_ms = self._random.randrange(low_ms, high_ms)
        self._loop.after_ns(delay_ms * NS_PER_MS, mend)

    def _any(self) -> SimNode:
        return self._random.choice(list(self._cluster.nodes.values()))

    # --- processes ------------------------------------------------------------------------------

    def kill(self) -> bool | None:
        one = self._any()
        if not one.is_up:
            return False
        self._cluster.kill(one, with_power=self._random.randrange(3) > 0)
        self._later(partial(self._start, one), 50, 5_000)
        return None

    def kill_all(self) -> None:
        for one in list(self._cluster.nodes.values()):
            self._cluster.kill(one)
            self._later(partial(self._start, one), 50, 2_000)

    def stop(self) -> bool | None:
        one = self._any()
        if not one.is_ready:
            return False
        self._cluster.stop(one)
        self._later(partial(self._start, one), 3_000, 9_000)
        return None

    def pause(self) -> None:
        one = self._any()
        self._cluster.pause(one)
        self._later(partial(self._cluster.resume, one), 20, 6_000)

    def pause_leader(self) -> bool | None:
        """So long that others lead when it goes on, and it does not know."""
        one = self._any_leader()
        if one is None:
            return False
        self._cluster.pause(one)
        self._later(partial(self._cluster.resume, one), 3_000, 7_000)
        return None

    def kill_leader(self) -> bool | None:
        """While others often do not hear what it has committed and answered."""
        one = self._any_leader()
        if one is None or not self._lose_packets(one, 2):
            return False

        def kill() -> None:
            if not self.is_over:
                self._cluster.kill(one)
                self._later(partial(self._start, one), 50, 5_000)

        self._loop.after_ns(self._random.randrange(10, 1_500) * NS_PER_MS, kill)
        return None

    def _any_leader(self) -> SimNode | None:
        nodes = [one for one in self._cluster.nodes.values() if one.node is not None]
        leaders = [one for one in nodes if one.node and any(g.is_ready for g in one.node.groups)]
        return self._random.choice(leaders) if leaders else None

    def _start(self, one: SimNode) -> None:
        if not one.is_up and not one.is_lost:
            self._cluster.start(one)

    # --- the network ----------------------------------------------------------------------------

    def block(self) -> None:
        """One way, both ways, or everything to and from a node."""
        hosts = [one.host for one in self._cluster.nodes.values()]
        one, kind = self._any().host, self._random.randrange(4)
        others = [host for host in hosts if host != one]
        if kind == 0 or not others:
            others = [self._random.choice(self._clients)]
        elif kind == 1:
            others = [self._random.choice(others)]
        pairs = [(one, other) for other in others]
        pairs += [(other, one) for other in others] if kind != 3 else []
        self._block(pairs)

    def _block(
        self, pairs: Sequence[tuple[str, str]], low_ms: int = 100, high_ms: int = 9_000
    ) -> None:
        for start, end in pairs:
            self._network.block(start, end)

        def open_again() -> None:
            for start, end in pairs:
                self._network.unblock(start, end)

        self._later(open_again, low_ms, high_ms)

    def replace_leader(self) -> bool | None:
        """Isolated until others lead, and not much longer, so that it can be done again."""
        return self.isolate_leader(3_000)

    def isolate_leader(self, high_ms: int = 9_000) -> bool | None:
        """Clients reach it, members do not: for a while it does not know that others lead."""
        one = self._any_leader()
        if one is None or len(self._cluster.nodes) == 1:
            return False
        others = [other.host for other in self._cluster.nodes.values() if other is not one]
        pairs = [(one.host, other) for other in others]
        self._block([*pairs, *((other, one.host) for other in others)], 2_000, high_ms)
        return None

    def reset(self) -> bool:
        return self._network.reset(self._random.getrandbits(30))

    def slow_network(self) -> None:
        usual = (NS_PER_MS // 10, 2 * NS_PER_MS)
        self._network.delay_ns = (NS_PER_MS, self._random.choice((20, 100, 400)) * NS_PER_MS)
        self._later(partial(setattr, self._network, "delay_ns", usual), 500, 4_000)

    def packets(self) -> bool | None:
        """Of one node, while its process lives."""
        one = self._any()
        if not one.is_up or one.node is None:
            return False
        return self._lose_packets(one, self._random.choice((2, 4, 10)))

    def _lose_packets(self, one: SimNode, each: int) -> bool:
        if one.node is None or one.process is None:
            return False
        packets = self._packets.get(one.process)
        if packets is None:
            runtime = one.node._runtime
            packets = self._packets[one.process] = Packets(
                self._cluster.work, runtime.send, one.process
            )
            runtime.send = packets.send
        packets.each = each
        self._later(partial(setattr, packets, "each", 0), 500, 6_000)
        return True

    # --- disks and clocks -----------------------------------------------------------------------

    def slow_disks(self) -> None:
        for one in self._cluster.nodes.values():
            self._slow_disk(one.machine)

    def slow_disk(self) -> None:
        self._slow_disk(self._any().machine)

    def _slow_disk(self, machine: SimMachine) -> None:
        machine.sync_ms = (1.0, float(self._random.choice((50, 300, 1_500))))
        self._later(partial(setattr, machine, "sync_ms", (0.1, 2.0)), 500, 6_000)

    def full_disk(self) -> None:
        machine = self._any().machine
        machine.fill_disk(True)
        self._later(partial(machine.fill_disk, False), 500, 6_000)

    def failing_sync(self) -> bool | None:
        one = self._any()
        if not one.is_up:
            return False
        one.machine.disk.fail_next_sync()
        one.is_disk_failing = True
        self._later(partial(self._revive, one), 500, 4_000)
        return None

    def _revive(self, one: SimNode) -> None:
        """It may have had nothing to sync; then it still is to come."""
        if one.is_up:
            self._cluster.kill(one)
        self._start(one)

    def stall(self) -> None:
        for engine in self._any().machine.engines:
            engine.stored.stalled = True
            self._later(partial(setattr, engine.stored, "stalled", False), 50, 1_500)

    def rot(self) -> bool | None:
        """One node at most, of three or more: it refuses to start and stays away."""
        one = self._any()
        members, nodes = self.members, self._cluster.nodes
        if members.is_someone_lost or members.have_changed or len(nodes) < 3:
            return False
        if not one.machine.rot():
            return False
        members.is_someone_lost = one.is_lost = True
        self._cluster.kill(one)
        self._cluster.start(one)
        return None

    def set_clock(self) -> None:
        step_ms = self._random.randrange(-STEP_MS_MAX, STEP_MS_MAX + 1)
        self._any().machine.clock.set_off(step_ms * NS_PER_MS)

    # --- what operators do ----------------------------------------------------------------------

    def transfer(self) -> bool | None:
        return self._transfer(self._any(), self._any())

    def transfer_lead(self) -> bool | None:
        """Of somebody who has one."""
        one = self._any_leader()
        return False if one is None else self._transfer(one, self._any())

    def _transfer(self, one: SimNode, target: SimNode) -> bool | None:
        if one.node is None or one.process is None or not one.is_ready or target is one:
            return False
        group = self._random.choice(one.node.groups)
        try:
            one.node.leads.transfer(group, target.number)
        except OperationError:
            return False
        return None

    def change_members(self) -> bool | None:
        return self.members.change()

    def expect_member(self) -> bool | None:
        return self.members.expect()


_WEIGHTS: Final = {
    "kill": 10,
    "kill_all": 1,
    "stop": 2,
    "pause": 4,
    "pause_leader": 4,
    "block": 10,
    "reset": 4,
    "slow_network": 3,
    "packets": 5,
    "slow_disk": 3,
    "full_disk": 1,
    "failing_sync": 1,
    "stall": 2,
    "rot": 0.5,
    "set_clock": 3,
    "transfer": 5,
    "change_members": 2,
}
# Leads that are lost in bad moments, and clocks that differ when they are.
_LEADS: Final = {
    "kill_leader": 8,
    "isolate_leader": 10,
    "pause_leader": 5,
    "transfer_lead": 16,
    "kill": 2,
    "block": 2,
    "packets": 3,
    "slow_network": 2,
    "slow_disk": 2,
    "set_clock": 8,
}
# Everything takes its time, so that calls, their repetitions and bad news cross each other.
_SLOWNESS: Final = {
    "slow_network": 10,
    "slow_disk": 8,
    "slow_disks": 6,
    "packets": 4,
    "pause": 3,
    "block": 3,
    "stall": 2,
    "reset": 2,
    "transfer": 1,
    "set_clock": 1,
}
# Leads that are lost while somebody stays with whoever has lost them.
REPLACEMENTS: Final = Mix(
    {"replace_leader": 20, "pause_leader": 3, "transfer_lead": 3, "packets": 2}, 2.0
)
# Changes of members between the entries of all logs, where nothing else goes wrong.
EXPECTATIONS: Final = Mix({"expect_member": 20, "slow_network": 1, "transfer_lead": 1})
# Each run has its own, so that what has to come together does so in some of them.
_MIXES: Final = (Mix(_WEIGHTS), Mix(_LEADS, 2.5, is_watched=True), Mix(_SLOWNESS, 1.5))


def draw_mix(work: Clockwork) -> Mix:
    return _MIXES[0] if work.is_plain else work.random("mix").choice(_MIXES)
