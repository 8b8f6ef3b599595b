"""One worker from its log to its queues and its siblings; not its listeners. What `node.py` is for
a node of one process.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final

from fastnode import config
from fastnode.alarm import LoopAlarm
from fastnode.clock import GroupClock, SystemClock, SystemIdSource
from fastnode.cluster import part_calls
from fastnode.cluster.backups import Backups
from fastnode.cluster.bridge import as_future
from fastnode.cluster.call_codec import DONE, encode_error
from fastnode.cluster.capabilities import DEDUP, advertised
from fastnode.cluster.courier import FORWARDED, PARTS, Courier
from fastnode.cluster.dispatch import Dispatcher
from fastnode.cluster.group_states import GroupStates
from fastnode.cluster.partition_map import parse_partition_map
from fastnode.cluster.replication import restored_of
from fastnode.cluster.traffic import Traffic
from fastnode.datadir import DataDir
from fastnode.errors import OperationError
from fastnode.flow import Suspension
from fastnode.machine import open_engines
from fastnode.node import shared_backlog
from fastnode.node_metrics import NodeMeter
from fastnode.peers.calls import Asked, Handler, IncomingCall
from fastnode.peers.handshake import Identity
from fastnode.peers.link import Link
from fastnode.queue import parts
from fastnode.queue.caller import Call
from fastnode.queue.history import History
from fastnode.queue.part_handlers import PartWorker
from fastnode.queue.parts import Part
from fastnode.queue.service import Service
from fastnode.raft.driver import Driver
from fastnode.raft.groups import open_groups
from fastnode.raft.runtime import Runtime
from fastnode.settings import Settings
from fastnode.store.engine_options import EngineShared
from fastnode.store.group import Group
from fastnode.upkeep import Upkeep
from fastnode.workers import changes
from fastnode.workers.assignment import groups_of, owner_of, place_of, sibling_id
from fastnode.workers.mirror import MIRROR, Follower, MirrorGroup, OwnGroup
from fastnode.workers.own_log import OwnLog
from fastnode.workers.siblings import Siblings, SocketPaths

# Service of a link: metadata of a group have changed.
CHANGED: Final = 17
# How long a worker that starts waits for its siblings before it serves without them.
MEET_SECONDS: Final = 10.0
# How long it waits for figures of its siblings.
ASK_SECONDS: Final = 2.0
log: Final = logging.getLogger("fastnode")


class WorkerNode:
    def __init__(
        self, settings: Settings, data: DataDir, worker: int, services: Mapping[int, Handler]
    ) -> None:
        """`services` are what it does for siblings besides what is done here."""
        loop = asyncio.get_running_loop()
        self.worker = worker
        self.workers = data.workers
        self.placement = parse_partition_map(settings.partition_map, data.groups)
        self.capabilities = advertised(settings.without_capability)
        self._clock, ids = SystemClock(), SystemIdSource()
        own = groups_of(worker, data.workers, data.groups)
        self._engines = open_engines(data, own, _shared_memory(data.workers))
        engines = iter(self._engines)
        self.own = [OwnGroup(number, next(engines), GroupClock(self._clock)) for number in own]
        self.groups = self._all_groups(data)
        self.raft = OwnLog(
            own,
            open_groups(
                data.node_id,
                data.worker_log_path(worker),
                applied=[group.applied_index for group in self.own],
                restored=[restored_of(data, number) for number in own],
                is_synced=settings.fsync == "always",
            ),
        )
        self._runtime = Runtime(loop, self.raft.log, self._clock.boottime_ns)
        # Told at every tick how much work was finished since the last one.
        self.on_freed: Callable[[int], None] = lambda _places: None
        self.backlog = shared_backlog(
            self.groups, self._runtime, self._clock, lambda places: self.on_freed(places)
        )
        self.service = Service(self.groups, ids, lambda: LoopAlarm(loop), is_strict=settings.strict)
        self.service.placement = self.placement.groups_of
        self._open_gates(settings)
        self.traffic = Traffic(History(self.service), self._links)
        self._backup_states = self._group_states(data)
        self.backups = Backups(data, self._backup_states, self._clock, ids)
        paths = self.paths = SocketPaths(data.path)
        self.siblings = Siblings(
            worker,
            data.workers,
            paths,
            {**self._services(), **services},
            self._clock,
            on_up=self._sibling_is_up,
            on_down=self._sibling_is_down,
        )
        self.courier = Courier(sibling_id(worker), self.siblings, loop.time, LoopAlarm(loop))
        self._followers = {
            group.number: Follower(group, self.courier, LoopAlarm(loop))
            for group in self.groups
            if isinstance(group, MirrorGroup)
        }
        self.service.ask = self._ask
        self.dispatcher = Dispatcher(self.service, self.courier)
        self.dispatcher.is_alone = False
        self.part_worker = PartWorker(self.service)
        # Told of a sibling that can be reached again, or not any more.
        self.on_sibling_up: Callable[[int], None] = lambda _worker: None
        self.on_sibling_down: Callable[[int], None] = lambda _worker: None
        self.more_metrics: Callable[[], Mapping[str, float]] = dict
        self._changed: dict[int, None] = {}
        self._executed = 0
        self._all_linked = asyncio.Event()
        if data.workers == 1:
            self._all_linked.set()
        self._listen_to_groups()
        memtables = config.MEMTABLES_BYTES // data.workers
        self.upkeep = Upkeep(self.own, self.raft, data.path, memtables_bytes=memtables)
        self._meter = self._new_meter(data)

    def _group_states(self, data: DataDir) -> GroupStates:
        engines = {
            group.number: engine for group, engine in zip(self.own, self._engines, strict=True)
        }
        # The courier comes later, when the siblings are known.
        return GroupStates(
            data, self.service, engines, lambda *asked: self.courier.carry(*asked), self._links
        )

    def _listen_to_groups(self) -> None:
        for group in self.own:
            place = place_of(group.number, self.workers)
            group.on_gathered = partial(_ignoring_number, self._runtime.gathered, place)
            group.on_leader = self.courier.look_again
            group.on_changed = self._note_change

    def _new_meter(self, data: DataDir) -> NodeMeter:
        raft = self._runtime.meter
        return NodeMeter(self.service, self.own, self.backlog, raft, data.path)

    def _all_groups(self, data: DataDir) -> list[Group]:
        own = {group.number: group for group in self.own}
        return [
            own.get(number)
            or MirrorGroup(
                number, sibling_id(owner_of(number, data.workers)), GroupClock(self._clock)
            )
            for number in range(data.groups)
        ]

    def _open_gates(self, settings: Settings) -> None:
        """All workers are of one version, so nobody has to be asked what it knows."""
        gates, is_capable = self.service.gates, DEDUP in self.capabilities
        gates.repeats_calls = is_capable and settings.dedup_batch_send
        gates.recognises_retries = is_capable and settings.dedup_sdk_retries

    # --- start and stop ----------------------------------------------------------------------

    async def start(self) -> None:
        """Replay the log and take the lead of the own groups."""
        self._runtime.start(Driver(self.raft.log, self.own))
        await self._runtime.until(lambda: all(group.is_ready for group in self.own))

    async def meet(self) -> None:
        """Link to the siblings and learn what queues they have; a sibling that is away keeps
        nobody from serving.
        """
        await self.siblings.start()
        try:
            async with asyncio.timeout(MEET_SECONDS):
                await self._all_linked.wait()
                copies = [as_future(follower.refresh()) for follower in self._followers.values()]
                await asyncio.gather(*copies, return_exceptions=True)
        except TimeoutError:
            log.warning("not all workers can be reached; serving without them")

    async def stop(self) -> None:
        await self.backups.close()
        await self._backup_states.close()
        await self.upkeep.flush_all()
        await self.siblings.close()
        self._runtime.stop()
        self.raft.log.close()
        for engine in self._engines:
            engine.close()
        self.paths.close()

    # --- what it is --------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """Whether every group can be answered for. A sibling is linked when its own groups are."""
        return all(group.is_ready for group in self.own) and self.siblings.are_all_linked

    def metrics(self) -> dict[str, float]:
        return {
            **self._meter.metrics(self.raft.log.status()),
            "fastnode_calls_for_siblings_total": self._executed,
            **self.more_metrics(),
        }

    # --- siblings ------------------------------------------------------------------------------

    def asked_siblings(self, service: int) -> list[Coroutine[Suspension, Any, tuple[int, bytes]]]:
        """The question to each of those that can be reached."""

        async def ask(link: Link) -> tuple[int, bytes]:
            answer: tuple[int, bytes] = await Asked(link, service, b"", ASK_SECONDS)
            return answer

        return [ask(link) for link in self._links()]

    def _links(self) -> list[Link]:
        links = [self.siblings.link_to(sibling_id(worker)) for worker in self.siblings.others]
        return [link for link in links if link is not None]

    def _services(self) -> dict[int, Handler]:
        def forwarded(_peer: Identity, payload: bytes, incoming: IncomingCall) -> None:
            self._executed += 1
            call = self.dispatcher.execute(payload, incoming)
            if not incoming.is_answered:
                incoming.on_cancel = call.leave

        def part(_peer: Identity, payload: bytes, incoming: IncomingCall) -> None:
            part_calls.serve(self.part_worker, payload, incoming)

        own = {FORWARDED: forwarded, PARTS: part, MIRROR: self._tell, CHANGED: self._hear}
        return own | self.traffic.services | self._backup_states.services

    def _tell(self, _peer: Identity, payload: bytes, incoming: IncomingCall) -> None:
        asked = changes.decode_asked(payload)
        group = self.groups[asked.group]
        assert isinstance(group, OwnGroup), "siblings know whose a group is"
        try:
            incoming.answer(DONE, changes.encode(group.tell(asked)))
        except OperationError as error:
            incoming.answer(*encode_error(error))

    def _hear(self, _peer: Identity, payload: bytes, incoming: IncomingCall) -> None:
        incoming.answer(0)
        for number in payload:
            self._followers[number].follow()

    def _sibling_is_up(self, worker: int) -> None:
        """What changed while it could not be reached, nobody has told."""
        for follower in self._followers.values():
            if follower.group.leader == sibling_id(worker):
                follower.follow()
        if self.siblings.are_all_linked:
            self._all_linked.set()
        self.on_sibling_up(worker)
        self.courier.look_again()

    def _sibling_is_down(self, worker: int) -> None:
        self.on_sibling_down(worker)

    def _note_change(self, group: int) -> None:
        """Siblings learn of all changes of a turn together."""
        if not self._changed:
            asyncio.get_running_loop().call_soon(self._tell_changed)
        self._changed[group] = None

    def _tell_changed(self) -> None:
        payload = bytes(self._changed)
        self._changed.clear()
        for worker in self.siblings.others:
            link = self.siblings.link_to(sibling_id(worker))
            if link is not None:
                link.call(CHANGED, payload, config.FORWARD_SECONDS, lambda *_ended: None)

    async def _ask(self, group: Group, part: Part, call: Call | None = None) -> Any:
        """A barrier of a mirror brings what it has to reach along."""
        follower = self._followers.get(group.number)
        if isinstance(part, parts.Barrier) and follower is not None:
            return await follower.refresh()
        return await part_calls.ask(self.courier, group, part, call)


def _ignoring_number(gathered: Callable[[int], None], place: int, _number: int) -> None:
    """Groups name themselves as the node does, the log names them by their place in it."""
    gathered(place)


def _shared_memory(workers: int) -> EngineShared:
    """The node's budget, shared by its workers."""
    return EngineShared(
        cache_bytes=config.BLOCK_CACHE_BYTES // workers,
        write_buffer_bytes=config.MEMTABLES_BYTES_MAX // workers,
    )
