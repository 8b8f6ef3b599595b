"""One node from its data directory to its queues and its members; not its listeners.

With `serve.py` the composition root: the only files that know every layer. Nothing here decides
what a request means.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from fastnode import __version__
from fastnode.alarm import LoopAlarm
from fastnode.clock import NS_PER_MS, Clock, GroupClock, SystemRng
from fastnode.cluster import part_calls
from fastnode.cluster.backups import Backups
from fastnode.cluster.capabilities import DEDUP, HTFIFO, advertised
from fastnode.cluster.control_api import ClusterStatus
from fastnode.cluster.courier import Courier
from fastnode.cluster.dispatch import Dispatcher
from fastnode.cluster.group_states import GroupStates
from fastnode.cluster.leads import Leads
from fastnode.cluster.link_services import services_of
from fastnode.cluster.member import Member
from fastnode.cluster.member_proof import MemberProof
from fastnode.cluster.member_records import load_records
from fastnode.cluster.member_steps import Steps
from fastnode.cluster.membership import Membership
from fastnode.cluster.partition_map import parse_partition_map
from fastnode.cluster.refusal import LeadershipRefusal
from fastnode.cluster.replication import Replication, restored_of
from fastnode.cluster.retry_gate import RetryGate
from fastnode.cluster.traffic import Traffic
from fastnode.datadir import DataDir
from fastnode.errors import StartError
from fastnode.machine import Machine
from fastnode.node_metrics import NodeMeter
from fastnode.option_values import Address
from fastnode.peers.handshake import Identity
from fastnode.peers.peers import Peers, Rules
from fastnode.queue.history import History
from fastnode.queue.part_handlers import PartWorker
from fastnode.queue.partition_groups import groups_with_partitions
from fastnode.queue.service import Service
from fastnode.raft.driver import Driver
from fastnode.raft.groups import Ready
from fastnode.raft.runtime import Runtime
from fastnode.settings import Settings
from fastnode.store.backlog import Backlog
from fastnode.store.group import Group
from fastnode.upkeep import Upkeep, reserve_bytes

if TYPE_CHECKING:
    from fastnode.cluster.control_plane import ControlPlane
    from fastnode.store.snapshot import Snapshot

log: Final = logging.getLogger("fastnode")


class Node:
    def __init__(
        self, settings: Settings, data: DataDir, proof: MemberProof, machine: Machine
    ) -> None:
        loop = asyncio.get_running_loop()
        self._settings, self._data = settings, data
        told = {node: str(address) for node, address in settings.peer_addresses.items()}
        self.placement = parse_partition_map(settings.partition_map, data.groups)
        self.capabilities = advertised(settings.without_capability)
        self._machine = machine
        self.clock, self.ids = machine.clock, machine.ids
        self.proof = proof
        self.engines = machine.open_engines(data)
        self.groups = [
            Group(number, engine, GroupClock(self.clock, self._now_ns), is_sole_voter=False)
            for number, engine in enumerate(self.engines)
        ]
        self.raft = machine.open_log(
            data,
            applied=[group.applied_index for group in self.groups],
            restored=[restored_of(data, group.number) for group in self.groups],
            is_synced=settings.fsync == "always",
        )
        self._runtime = Runtime(loop, self.raft, self.clock.boottime_ns)
        self._runtime.on_news = self._hear_news
        self.backlog = shared_backlog(
            self.groups, self._runtime, self.clock, lambda places: self.on_freed(places)
        )
        # Told at every tick how much work was done since the last one.
        self.on_freed: Callable[[int], None] = lambda _places: None
        self.member = Member(
            data,
            data.members | told,
            self.raft,
            self._runtime.received,
            self.clock.wall_ns,
            log,
        )
        self._runtime.send = self.member.send
        self.member.follow_records(load_records(self.groups[0]))
        self.service = Service(
            self.groups, self.ids, lambda: LoopAlarm(loop), is_strict=settings.strict
        )
        self.service.placement = self.placement.groups_of
        self.member.on_others = self._retry_gate().look
        courier = Courier(data.node_id, self.member, loop.time, LoopAlarm(loop))
        self.service.ask = partial(part_calls.ask, courier)
        self.dispatcher = Dispatcher(self.service, courier)
        self.dispatcher.is_alone = False
        self.member.on_up = courier.look_again
        self.member.on_down = self._forget_address
        self.member.on_members = self._count_voters
        for group in self.groups:
            group.on_gathered = self._runtime.gathered
            group.on_read_waiting = self._runtime.read_waiting
            group.on_leader = partial(self._leader_changed, group, courier)
            group.observe_leading(partial(self._log_lead, group))
        for number, row in enumerate(self.raft.status()["groups"]):
            self.member.change_members(number, row["voters"], row["learners"])
        self.leads = Leads(data.node_id, self.groups, self.raft, self.member)
        self._control: ControlPlane | None = None
        self._states = self._replication()
        self.membership = self._membership(courier)
        self.traffic = Traffic(History(self.service), self.member.links)
        self._backup_states = self._group_states(courier)
        self.backups = Backups(data, self._backup_states, self.clock, self.ids)
        self.upkeep = Upkeep(self.groups, self.raft, data.path, machine.disk_space)
        self._meter = self._new_meter(data)
        self._refusal = LeadershipRefusal(
            self.groups, self._holds_partitions, self.leads.give_away, log
        )

    def _replication(self) -> Replication:
        states = Replication(
            self._data,
            self.groups,
            self.engines,
            self.raft,
            self._machine.take_snapshot,
            self._runtime.turn,
            log,
        )
        states.ship = self._ship
        return states

    def _group_states(self, courier: Courier) -> GroupStates:
        engines = dict(enumerate(self.engines))
        return GroupStates(self._data, self.service, engines, courier.carry, self.member.links)

    def _new_meter(self, data: DataDir) -> NodeMeter:
        raft = self._runtime.meter
        return NodeMeter(self.service, self.groups, self.backlog, raft, data.path)

    def _membership(self, courier: Courier) -> Membership:
        steps = Steps(
            self._data.node_id,
            self.groups,
            self.raft,
            self.member,
            self.leads,
            courier,
            self.service.new_request,
        )
        membership = Membership(self._data, self.groups, self.raft, self.member, steps)
        membership.take = self._states.measure
        membership.hear = self._hear
        return membership

    def _retry_gate(self) -> RetryGate:
        settings, is_capable = self._settings, DEDUP in self.capabilities
        return RetryGate(
            self.service.gates,
            self.member.advertised,
            self._data,
            log,
            repeats_calls=is_capable and settings.dedup_batch_send,
            recognises_retries=is_capable and settings.dedup_sdk_retries,
        )

    # --- start and stop ----------------------------------------------------------------------

    async def start(self) -> None:
        """Replay the log; a node that is alone takes the lead of every group."""
        if HTFIFO not in self.capabilities:
            self._refusal.install()
        self._runtime.start(Driver(self.raft, self.groups))
        if self.is_alone:
            await self._runtime.until(lambda: self.leads_all)
        self._data.mark_started()

    async def meet(self, sqs_url: str, admin_url: str) -> None:
        """Listen for the other members and look for them."""
        settings, data = self._settings, self._data
        identity = Identity(
            node_id=data.node_id,
            incarnation=data.incarnation,
            cluster_id=data.cluster_id,
            version=__version__,
            sqs_url=settings.url_for_others(sqs_url),
            admin_url=settings.url_for_others(admin_url),
            capabilities=self.capabilities,
        )
        peers = Peers(
            identity,
            self.proof.secret,
            Rules(self.member.refusal_of, self.member.remember),
            on_raft=self.member.on_raft,
            services=services_of(
                self.dispatcher, PartWorker(self.service), self.membership, self._open_control
            )
            | self.traffic.services
            | self._backup_states.services,
            clock=self.clock,
            ids=self.ids,
            rng=SystemRng(self.ids),
            on_up=self.member.link_is_up,
            on_down=self.member.link_is_down,
            tls=self.proof.tls and self.proof.tls.contexts,
        )
        try:
            host, port = await peers.start(settings.raft.host, settings.raft.port)
        except OSError as error:
            reason = f"--raft {settings.raft}: {error.strerror}"
            if not self.is_alone or "raft" in settings.explicit:
                raise StartError(f"{reason}; stop what uses it or choose another") from error
            log.warning("nobody can join this node", extra={"why": reason})
            return
        self.member.connect(peers, Address(settings.advertise or host, port))

    async def stop(self) -> None:
        self._refusal.remove()
        await self._states.close()
        await self.backups.close()
        await self._backup_states.close()
        if self._control is not None:
            await self._control.close()
        await self.upkeep.flush_all()
        await self.member.leave()
        self._runtime.stop()
        self.raft.close()
        for engine in self.engines:
            engine.close()

    # --- what it is --------------------------------------------------------------------------

    @property
    def is_alone(self) -> bool:
        return self.dispatcher.is_alone

    @property
    def is_ready(self) -> bool:
        """Whether every group can be answered for, here or by a leader that can be reached."""
        return all(map(self._is_served, self.groups))

    @property
    def leads_all(self) -> bool:
        return all(group.is_ready for group in self.groups)

    def metrics(self) -> Mapping[str, float]:
        return self._meter.metrics(self.raft.status())

    def _is_served(self, group: Group) -> bool:
        if group.leads:
            return group.is_ready
        return group.leader != 0 and self.member.link_to(group.leader) is not None

    def _holds_partitions(self, group: int) -> bool:
        return group in self.placement.named_groups | groups_with_partitions(self.groups)

    # --- what happens to it ------------------------------------------------------------------

    def _hear_news(self, ready: Ready) -> None:
        for group, _, voters, learners in ready.members:
            self.member.change_members(group, voters, learners)
        self._states.on_news(ready)

    def _leader_changed(self, group: Group, courier: Courier) -> None:
        courier.look_again()
        if self._control is not None and not group.leads:
            self._control.end_shipments(group.number)

    def _log_lead(self, group: Group) -> None:
        """With how far the group's time is ahead of this node's clock, which is the first thing to
        know when timeouts seem to be wrong. A node that is alone leads everything.
        """
        if self.is_alone:
            return
        ahead_ms = (group.now() >> 16) - self.clock.wall_ns() // 1_000_000
        fields = {"group": group.number, "term": group.term, "ahead_ms": ahead_ms}
        log.info("leading a group", extra=fields)

    def _count_voters(self, number: int) -> None:
        """Nobody can take the lead from a sole voter, and whoever is one everywhere is alone."""
        own = [self._data.node_id]
        voters, _ = self.member.members[number]
        self.groups[number].is_sole_voter = list(voters) == own
        self.dispatcher.is_alone = len(self.member.members) == len(self.groups) and all(
            list(voters) == own for voters, _ in self.member.members.values()
        )

    def _now_ns(self, reached_ns: int = 0) -> int:
        """The time that the voters agree on."""
        if not hasattr(self, "member"):
            return self.clock.wall_ns()
        return self.member.median_wall_ns(reached_ns)

    # --- the control plane -------------------------------------------------------------------

    def _controlled(self) -> "ControlPlane":
        if self._control is None:
            # Here and not on top: whoever controls nobody needs no gRPC.
            from fastnode.cluster.control_plane import Surroundings

            around = Surroundings(
                self._data,
                self.proof,
                self._settings.raft.host,
                lambda: self._now_ns() // 1_000_000,
                self._room,
                self.ids,
            )
            self._control = self._machine.control_plane(
                around, self.member, self.membership, self._states
            )
        return self._control

    def _forget_address(self, node: int) -> None:
        if self._control is not None:
            self._control.forget(node)

    def _open_control(self, on_port: Callable[[int], object]) -> None:
        self._controlled().open(on_port)

    async def _hear(self, node: int) -> ClusterStatus:
        return await self._controlled().hear(node)

    async def _ship(self, group: int, peer: int, snapshot: "Snapshot", packet: bytes) -> bool:
        return await self._controlled().ship(group, peer, snapshot, packet)

    def _room(self) -> int:
        free, total = self._machine.disk_space(self._data.path)
        return free - reserve_bytes(total)


def shared_backlog(
    groups: Sequence[Group], runtime: Runtime, clock: Clock, on_freed: Callable[[int], None]
) -> Backlog:
    """One for all groups, which follows what they do; `on_freed` is told of it at every tick."""
    backlog, looked_ns = Backlog(), clock.boottime_ns()
    for group in groups:
        group.backlog = backlog

    def look(now_ns: int) -> None:
        nonlocal looked_ns
        elapsed_ms, looked_ns = (now_ns - looked_ns) // NS_PER_MS, now_ns
        on_freed(backlog.look(elapsed_ms, [each.take_burden() for each in groups]))

    runtime.on_tick = look
    return backlog
