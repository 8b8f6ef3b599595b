"""Several nodes in one process, without sockets, disk or time: real handlers, couriers, codecs and
stores; a list for the log of each group, and queued frames for links.

The test says who leads what, which nodes lag, which links are cut. `settle` lets everything happen
that can happen without time passing; `advance` lets time pass.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from fastnode import config
from fastnode.clock import GroupClock
from fastnode.cluster import part_calls
from fastnode.cluster.courier import FORWARDED, PARTS, Courier
from fastnode.cluster.dispatch import Dispatcher
from fastnode.errors import NotLed, PlanAgain
from fastnode.flow import start
from fastnode.peers.calls import IncomingCall
from fastnode.peers.handshake import Identity
from fastnode.queue import api
from fastnode.queue.caller import Call, Caller
from fastnode.queue.operations import OPERATIONS
from fastnode.queue.part_handlers import PartWorker
from fastnode.queue.service import Service
from fastnode.raft.groups import LEADER
from fastnode.store.group import Group
from fastnode.store.memory_engine import MemoryEngine
from tests.unit.cluster.world_links import WorldLink
from tests.world import ACCOUNT, ENDPOINT, REGION, FakeClock, Pending

FOLLOWER = "follower"
_TICK_MS = round(config.TICK_SECONDS * 1000)


class Alarm:
    """Rings so many milliseconds after it was set, whatever clock that was said in."""

    def __init__(self, world: "ClusterWorld") -> None:
        self._world = world

    def set(self, at_ms: int, now_ms: int, ring: Callable[[], None]) -> None:
        self._world.alarms[self] = self._world.now_ms + max(at_ms - now_ms, 0), ring

    def clear(self) -> None:
        self._world.alarms.pop(self, None)


class NodeIds:
    """Identities that differ between nodes and calls, without chance."""

    def __init__(self, node: int) -> None:
        self._next = node << 40

    def take(self, count: int) -> bytes:
        self._next += 1
        return self._next.to_bytes(count, "big")


class WorldNode:
    """One node. `links` are its calls to others, by their numbers."""

    def __init__(self, world: "ClusterWorld", number: int, groups: int) -> None:
        self.number = number
        self.links: dict[int, WorldLink] = {}
        self.engines = [MemoryEngine() for _ in range(groups)]
        self.groups = [
            Group(at, engine, GroupClock(world.clock), is_sole_voter=False)
            for at, engine in enumerate(self.engines)
        ]
        ids = NodeIds(number)
        self.service = Service(self.groups, ids, partial(Alarm, world), is_strict=False)
        now = world.clock.boottime_ns
        self.courier = Courier(number, self, lambda: now() / 1e9, Alarm(world))
        self.service.ask = partial(part_calls.ask, self.courier)
        self.dispatcher = Dispatcher(self.service, self.courier)
        self.dispatcher.is_alone = False
        self.worker = PartWorker(self.service)
        self.services = {FORWARDED: self._serve_call, PARTS: self._serve_part}
        for group in self.groups:
            group.on_leader = self.courier.look_again

    def _serve_call(self, _peer: Identity, payload: bytes, incoming: IncomingCall) -> None:
        call = self.dispatcher.execute(payload, incoming)
        if not incoming.is_answered:
            incoming.on_cancel = call.leave

    def _serve_part(self, _peer: Identity, payload: bytes, incoming: IncomingCall) -> None:
        part_calls.serve(self.worker, payload, incoming)

    def link_to(self, node: int) -> WorldLink | None:
        link = self.links.get(node)
        return None if link is None or link.is_lost else link


class ClusterWorld:
    """Nodes 1, 2, …; at first group g is led by node g % nodes + 1."""

    def __init__(self, nodes: int = 3, groups: int = 4) -> None:
        self.clock = FakeClock()
        self.alarms: dict[Alarm, tuple[int, Callable[[], None]]] = {}
        self.nodes = {number: WorldNode(self, number, groups) for number in range(1, nodes + 1)}
        # Committed entries with their terms; None is the entry with which a leader begins.
        self.logs: list[list[tuple[int, bytes | None]]] = [[] for _ in range(groups)]
        # Taken by a leader and not committed.
        self.taken: list[list[tuple[int, bytes]]] = [[] for _ in range(groups)]
        self.terms = [0] * groups
        self.leaders = [0] * groups
        # Nodes that apply nothing that others lead, groups that commit nothing, nodes that hear
        # nothing of Raft.
        self.lagging: set[int] = set()
        self.stuck: set[int] = set()
        self.deaf: set[int] = set()
        # Groups that take no proposal, because their leader hands them on.
        self.leaving: set[int] = set()
        for one in self.nodes:
            for other in self.nodes:
                self._connect(one, other)
        for group in range(groups):
            self.lead(group, group % nodes + 1)

    # --- who leads ---------------------------------------------------------------------------

    def lead(self, group: int, node: int, *, survives: bool = True) -> None:
        """The node leads the group from now on. What the last leader had taken is in the log, or
        never will be.
        """
        if survives:
            self.logs[group] += self.taken[group]
        self.taken[group] = []
        self.terms[group] += 1
        self.leaders[group] = node
        self.leaving.discard(group)
        self.logs[group].append((self.terms[group], None))
        # Whoever led learns it first, or both would believe to lead.
        for number in sorted(self.nodes, key=lambda one: one == node):
            self._tell(group, number)
        self.settle()

    def lead_all(self, node: int) -> None:
        for group in range(len(self.logs)):
            if self.leaders[group] != node:
                self.lead(group, node)

    def depose(self, group: int, *, survives: bool = True) -> None:
        """Nobody leads the group."""
        if survives:
            self.logs[group] += self.taken[group]
        self.taken[group] = []
        self.terms[group] += 1
        self.leaders[group] = 0
        for number in self.nodes:
            self._tell(group, number)
        self.settle()

    def _tell(self, group: int, number: int) -> None:
        if number in self.deaf:
            return
        leader = self.leaders[group]
        role = LEADER if number == leader else FOLLOWER
        self.nodes[number].groups[group].change_role(role, self.terms[group], leader)

    def hear_again(self, number: int) -> None:
        """A node that was deaf learns what has happened."""
        self.deaf.discard(number)
        for group in range(len(self.logs)):
            self._tell(group, number)
        self.settle()

    # --- links -------------------------------------------------------------------------------

    def _connect(self, one: int, other: int) -> None:
        if one != other:
            peer = Identity(node_id=one, incarnation=bytes([one]) * 16)
            services = self.nodes[other].services
            self.nodes[one].links[other] = WorldLink(
                peer, services.__getitem__, partial(Alarm, self)
            )

    def link(self, one: int, other: int) -> WorldLink:
        """The calls of `one` to `other`."""
        return self.nodes[one].links[other]

    def cut(self, one: int, other: int, *, is_written: bool = True) -> None:
        self.link(one, other).lose(is_written=is_written)
        self.link(other, one).lose(is_written=is_written)
        self.settle()

    def mend(self, one: int, other: int) -> None:
        self._connect(one, other)
        self._connect(other, one)
        self.nodes[one].courier.look_again()
        self.nodes[other].courier.look_again()
        self.settle()

    def isolate(self, node: int) -> None:
        """It hears nobody and nobody hears it."""
        self.deaf.add(node)
        for other in self.nodes:
            if other != node:
                self.cut(node, other)

    # --- what happens ------------------------------------------------------------------------

    def settle(self) -> None:
        while self.step():
            pass

    def step(self) -> bool:
        """One turn of all nodes and one delivery of every link; False when nothing was left."""
        moved = [self._turn(node, group) for node in self.nodes for group in range(len(self.logs))]
        moved += [
            self._apply(node, group) for group in range(len(self.logs)) for node in self.nodes
        ]
        moved += [self._read(node, group) for node in self.nodes for group in range(len(self.logs))]
        links = [link for node in self.nodes.values() for link in list(node.links.values())]
        moved += [link.deliver() for link in links]
        return any(moved)

    def _turn(self, number: int, at: int) -> bool:
        """The leader takes what it gathered; a leader that nobody knows any more takes in vain."""
        group, is_moved = self.nodes[number].groups[at], False
        while (entry := group.take_entry()) is not None:
            if at in self.leaving:
                group.refuse_entry(NotLed("the lead is being handed on"))
            elif self.leaders[at] == number and number not in self.deaf:
                self.taken[at].append((self.terms[at], entry))
            is_moved = True
        if self.taken[at] and at not in self.stuck and self.leaders[at] == number:
            self.logs[at] += self.taken[at]
            self.taken[at] = []
            is_moved = True
        return is_moved

    def _apply(self, number: int, at: int) -> bool:
        group, log = self.nodes[number].groups[at], self.logs[at]
        is_late = number in self.lagging and self.leaders[at] != number
        if number in self.deaf or is_late or group.applied_index >= len(log):
            return False
        first = group.applied_index
        for index, (term, entry) in enumerate(log[first:], first + 1):
            group.commit(index, term, [] if entry is None else [entry])
        assert group.apply()
        return True

    def _read(self, number: int, at: int) -> bool:
        """A round of the true leader is confirmed at once; others wait in vain."""
        group = self.nodes[number].groups[at]
        context = group.reads.take_round(self.clock.ns) if group.is_ready else None
        if context is not None and self.leaders[at] == number and number not in self.deaf:
            group.reads.confirm(context, len(self.logs[at]))
        group.reads.release(group.applied_index)
        return context is not None

    @property
    def now_ms(self) -> int:
        return self.clock.ns // 1_000_000

    def advance(self, milliseconds: int) -> None:
        """Time passes; alarms ring in order, at their time."""
        self.settle()
        end = self.now_ms + milliseconds
        while due := [(at, ring, alarm) for alarm, (at, ring) in self.alarms.items() if at <= end]:
            at, ring, alarm = min(due, key=lambda item: item[0])
            self._pass_until(at)
            del self.alarms[alarm]
            ring()
            self.settle()
        self._pass_until(end)
        self.settle()

    def _pass_until(self, at_ms: int) -> None:
        ticks = at_ms // _TICK_MS - self.now_ms // _TICK_MS
        self.clock.ns = max(self.clock.ns, at_ms * 1_000_000)
        for _ in range(min(ticks, 1_000)):
            for node in self.nodes.values():
                for group in node.groups:
                    group.tick()

    # --- calls -------------------------------------------------------------------------------

    def begin(
        self, node: int, action: str, request: Any, account: str = ACCOUNT, call: Call | None = None
    ) -> Pending:
        """A call that enters at the node; planned anew as the edge does it."""
        call = call or Call(Caller(account, REGION, ENDPOINT, "AIDA"), action, "request")
        pending, dispatcher = Pending(call), self.nodes[node].dispatcher
        plans_left = config.PLANS_MAX

        def plan() -> None:
            nonlocal plans_left
            plans_left -= 1
            start(dispatcher.handle(OPERATIONS[action], call, request), finish)

        def finish(result: Any, error: BaseException | None) -> None:
            if isinstance(error, PlanAgain) and plans_left:
                plan()
            else:
                pending.finish(result, error)

        plan()
        return pending

    def call(self, node: int, action: str, request: Any, account: str = ACCOUNT) -> Any:
        """A call that is answered without time passing."""
        pending = self.begin(node, action, request, account)
        self.settle()
        return answer_of(pending)

    # --- the usual requests ------------------------------------------------------------------

    def create(self, node: int, name: str, **attributes: str) -> None:
        self.call(node, "CreateQueue", api.CreateQueueRequest(name, attributes))

    def create_partitioned(self, node: int, name: str, count: int = 4, **attributes: str) -> None:
        wanted = {
            "FifoQueue": "true",
            "FifoThroughputLimit": "perMessageGroupId",
            "DeduplicationScope": "messageGroup",
            "ContentBasedDeduplication": "true",
            "PartitionCount": str(count),
        }
        self.create(node, name, **wanted, **attributes)

    def send(self, node: int, url: str, body: str, group: str | None = None) -> str:
        request = api.SendMessageRequest(url, body, message_group_id=group)
        message_id: str = self.call(node, "SendMessage", request).message_id
        return message_id

    def receive(
        self, node: int, url: str, limit: int = 10, timeout: int | None = None
    ) -> list[api.Message]:
        messages: list[api.Message] = self.call(
            node, "ReceiveMessage", receive_request(url, limit, timeout)
        ).messages
        return messages

    def poll(self, node: int, url: str, seconds: int = 20, limit: int = 10) -> Pending:
        pending = self.begin(node, "ReceiveMessage", receive_request(url, limit, None, seconds))
        self.settle()
        return pending

    def delete(self, node: int, url: str, handle: str) -> None:
        self.call(node, "DeleteMessage", api.DeleteMessageRequest(url, handle))

    def drain(self, node: int, url: str, looks: int = 50) -> list[str]:
        """Everything that can be received, deleted as it comes."""
        bodies: list[str] = []
        for _ in range(looks):
            messages = self.receive(node, url, timeout=3_600)
            for message in messages:
                bodies.append(message.body)
                self.delete(node, url, message.receipt_handle)
            if not messages:
                return bodies
        raise AssertionError("it never ends")

    def counts(self, node: int, url: str) -> tuple[int, int, int]:
        """(visible, in flight, delayed)"""
        asked = [f"ApproximateNumberOfMessages{name}" for name in ("", "NotVisible", "Delayed")]
        request = api.GetQueueAttributesRequest(url, asked)
        shown = self.call(node, "GetQueueAttributes", request).attributes
        visible, in_flight, delayed = (int(shown[name]) for name in asked)
        return visible, in_flight, delayed


def receive_request(
    url: str, limit: int = 10, timeout: int | None = None, seconds: int | None = None
) -> api.ReceiveMessageRequest:
    return api.ReceiveMessageRequest(
        url,
        attribute_names=["All"],
        max_number_of_messages=limit,
        visibility_timeout=timeout,
        wait_time_seconds=seconds,
    )


def answer_of(pending: Pending) -> Any:
    assert pending.is_done, f"{pending.call.action} still waits"
    if pending.error is not None:
        raise pending.error
    return pending.result
