"""A cluster in one process: nodes that are started, stopped, killed, paused and started again, each
with its machine. What runs in them is `fastnode.serve.live`.
"""

import asyncio
import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fastnode.cluster.control_api import Addresses, Joined
from fastnode.cluster.member_proof import MemberProof
from fastnode.datadir import DataDir, Founding, open_data_dir
from fastnode.errors import OperationError, StartError
from fastnode.node import Node
from fastnode.option_values import Address
from fastnode.reload import Reload
from fastnode.serve import identity_settings, live
from fastnode.settings import Settings
from tests.sim.clockwork import Bug, Clockwork, SimLoop, running
from tests.sim.machine import SimControl, SimMachine
from tests.sim.network import Network

SQS_PORT: Final = 9324
_SECRET: Final = b"a secret of all members"


class SimNode:
    """A machine and the process on it, if there is one."""

    def __init__(self, cluster: "SimCluster", number: int, *, joins: int = 0) -> None:
        self.number = number
        self.host = f"127.0.0.{number}"
        self.machine = SimMachine(cluster.work, number, cluster.planes)
        self.machine.on_disk_error = lambda: cluster.kill(self)
        self.process: SimLoop | None = None
        self.node: Node | None = None
        self.is_ready = False
        self.is_lost = False
        # Its disk will fail once: perhaps just when it starts.
        self.is_disk_failing = False
        self.joins = joins
        self.data: DataDir | None = None
        self.path = cluster.path / str(number)
        self.stopping: asyncio.Event | None = None

    @property
    def is_up(self) -> bool:
        return self.process is not None and not self.process.is_dead

    @property
    def listens_to_peers(self) -> bool:
        """Who asks to join asks on a link first."""
        return self.node is not None and self.node.member.known_of(self.number)[0] is not None


def is_of_disk(error: BaseException | None) -> bool:
    """A start that the disk ended, and that says so; or a stop, whose last block it did not take:
    the log's thread of a real node ends it with a line of its own.
    """
    if isinstance(error, StartError):
        return isinstance(error.__cause__, OSError)
    return isinstance(error, OSError) and error.errno == errno.EIO


class SimCluster:
    def __init__(self, work: Clockwork, network: Network, path: Path, nodes: int, groups: int):
        self.work = work
        self.network = network
        self.path = path
        self.groups = groups
        self.planes: dict[int, SimControl] = {}
        self.on_death: Callable[[SimNode], None] = lambda _node: None
        # Told of a node whose disk failed at its start; whoever watches over it starts it again.
        self.on_refusal: Callable[[SimNode], None] = lambda _node: None
        self._dead: list[SimLoop] = []
        # When nodes stood still and went on, and since when those do that have not gone on.
        self._still: list[tuple[int, int]] = []
        self._still_since: dict[SimLoop, int] = {}
        self._founders = list(range(1, nodes + 1))
        self.nodes = {number: SimNode(self, number) for number in self._founders}

    def add(self, via: int) -> SimNode:
        """A node that will join the others."""
        number = max(self.nodes) + 1
        self.nodes[number] = one = SimNode(self, number, joins=via)
        return one

    # --- processes ------------------------------------------------------------------------------

    def start(self, one: SimNode) -> None:
        assert not one.is_up
        loop = one.process = SimLoop(self.work, self.network, one.host, one.machine.clock)
        random = one.machine.random
        loop.thread_ns = lambda: one.machine.draw_sync_ns() * 4
        loop.is_thread_quick = lambda: random.random() < 0.5
        self.work.note(f"start {one.number}")
        with running(loop):
            living = loop.create_task(self._live(one, loop))
            living.add_done_callback(lambda task: self._ended(one, loop, task))

    async def _live(self, one: SimNode, loop: SimLoop) -> None:
        # Processes are not started at the same moment, so their ticks are apart too.
        await asyncio.sleep(one.machine.random.random() * 0.2)
        settings, founding = self._settings(one), await self._found(one)
        one.data = open_data_dir(settings, founding)
        one.node = Node(settings, one.data, MemberProof(_SECRET), one.machine)
        # The control plane has to be found by others before it is first used.
        one.node._controlled()
        one.stopping = asyncio.Event()

        def be_ready(_sqs_url: str, _admin_url: str) -> None:
            one.is_ready = True

        reload = Reload(settings)
        identity = identity_settings(settings, reload)
        await live(one.node, identity, reload, one.stopping, be_ready)

    def _ended(self, one: SimNode, loop: SimLoop, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, StartError) and one.is_lost:
            self.work.note(f"node {one.number} refuses to start: its log is damaged")
        elif (one.is_disk_failing or one.machine.is_full) and is_of_disk(error):
            self.work.note(f"node {one.number} was ended by its disk: {error}")
            one.is_disk_failing = False
            one.machine.crash()
            self.on_refusal(one)
        elif error is not None:
            bug = Bug(f"node {one.number} ended: {error!r}")
            bug.__cause__ = error
            self.work.fail(bug)
        else:
            self.work.note(f"stopped {one.number}")
        self._bury(one, loop)

    def stop(self, one: SimNode) -> None:
        """As SIGTERM does."""
        if one.stopping is not None:
            self.work.note(f"stop {one.number}")
            one.stopping.set()

    def kill(self, one: SimNode, *, with_power: bool = True) -> None:
        """As kill -9 does, or a power failure, which takes from the disk what was not synced."""
        if one.process is None or one.process.is_dead:
            return
        self.work.note(f"kill {one.number}{' and its power' if with_power else ''}")
        self._bury(one, one.process)
        one.machine.crash()

    def _bury(self, one: SimNode, loop: SimLoop) -> None:
        loop.kill()
        self._dead.append(loop)
        self.planes.pop(one.number, None)
        if one.data is not None:
            one.data.close()
        one.process = one.node = one.data = one.stopping = None
        one.is_ready = False
        self.on_death(one)

    def pause(self, one: SimNode) -> None:
        if one.process is not None:
            self.work.note(f"pause {one.number}")
            self._still_since.setdefault(one.process, self.work.now_ns)
            one.process.pause()

    def resume(self, one: SimNode) -> None:
        if one.process is not None and one.process.is_paused:
            self.work.note(f"resume {one.number}")
            self._still.append((self._still_since.pop(one.process), self.work.now_ns))
            one.process.resume()

    def leaderships(self) -> list[int]:
        """Of each group, the latest that a node has heard of."""
        nodes = [one.node for one in self.nodes.values() if one.node is not None]
        terms = zip(*([group.term for group in node.groups] for node in nodes), strict=True)
        return [max(of_group) for of_group in terms]

    def has_stood_still(self, began: int, ended: int) -> bool:
        """Whether a node did all of that time, and others may have taken its leads."""
        is_alone = len(self._founders) == 1
        return not is_alone and any(one[0] <= began and ended <= one[1] for one in self._still)

    def close(self) -> None:
        for one in self.nodes.values():
            if one.process is not None:
                self._bury(one, one.process)
        for loop in self._dead:
            loop.bury()
        shutil.rmtree(self.path, ignore_errors=True)

    # --- settings -------------------------------------------------------------------------------

    def _settings(self, one: SimNode) -> Settings:
        is_cluster = len(self._founders) > 1 and not one.joins
        peers = ",".join(f"{number}=127.0.0.{number}:9326" for number in self._founders)
        return Settings(
            data_dir=str(one.path),
            listen=Address(one.host, SQS_PORT),
            admin=Address(one.host, 9325),
            raft=Address(one.host, 9326),
            node_id=one.number,
            peers=peers if is_cluster else "",
            join=f"127.0.0.{one.joins}:9326" if one.joins else "",
            groups=self.groups,
            insecure=True,
        )

    async def _found(self, one: SimNode) -> Founding | None:
        """What a new directory belongs to; the incarnation is by seed."""
        if (one.path / "FORMAT").exists():
            return None
        incarnation = one.machine.ids.take(16)
        if not one.joins:
            cluster_id = self.work.random("cluster").randbytes(16).hex()
            return Founding(cluster_id, self.groups, incarnation)
        addresses = Addresses(f"{one.host}:9326")
        while (joined := await self._ask(one, incarnation, addresses)) is None:
            await asyncio.sleep(0.5)
        members = {member.node: member.addresses.raft for member in joined.members}
        return Founding(joined.cluster_id.hex(), joined.groups, incarnation, members)

    async def _ask(self, one: SimNode, incarnation: bytes, addresses: Addresses) -> Joined | None:
        """In the process of the member that is asked, whose answer is on its way for a while. The
        control plane ends a call whose caller is gone.
        """
        plane, asker = self.planes.get(one.joins), one.process
        if plane is None or asker is None or not self.nodes[one.joins].listens_to_peers:
            return None
        asked = plane.loop.create_task(plane.membership.join(one.number, incarnation, addresses))

        def look() -> None:
            if asker.is_dead:
                asked.cancel()
            elif not asked.done():
                plane.loop.call_later(0.05, look)

        with running(plane.loop):
            look()
        while not asked.done() and not plane.loop.is_dead:
            await asyncio.sleep(0.05)
        if not asked.done() or isinstance(asked.exception(), OperationError):
            return None
        joined: Joined = asked.result()
        return joined
