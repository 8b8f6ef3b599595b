"""What is written down of a member and who belongs to a group, while those who ask for it come, go
and lag behind others.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from fastnode.cluster import member_steps
from fastnode.cluster.call_codec import DONE
from fastnode.cluster.control_api import Addresses, Joined, Refused
from fastnode.cluster.courier import MEMBERS, PARTS
from fastnode.cluster.leads import Leads
from fastnode.cluster.member import Member, Members
from fastnode.cluster.member_records import MemberRecord, encode_record, load_records
from fastnode.cluster.member_steps import Steps
from fastnode.cluster.membership import Membership
from fastnode.datadir import open_data_dir
from fastnode.errors import PlanAgain, Unavailable
from fastnode.peers.calls import IncomingCall
from fastnode.peers.handshake import Identity
from fastnode.settings import Settings
from tests.unit.cluster.cluster_world import ClusterWorld

T = TypeVar("T")
JOINER = 4
AT = Addresses("h:4")
FIRST, SECOND = b"1" * 16, b"2" * 16
Change = Callable[["Cluster", int], Coroutine[Any, Any, None]]


class Node:
    """A member that has applied some of the changes of members, as its consensus."""

    def __init__(self, cluster: "Cluster", path: Path, number: int) -> None:
        self._cluster = cluster
        self.node = node = cluster.world.nodes[number]
        settings = Settings(data_dir=str(path / str(number)), node_id=number, groups=1)
        data = open_data_dir(settings)
        self.member = Member(data, {}, self, lambda _: [], lambda: 0, logging.getLogger("t"))
        leads = Leads(number, node.groups, self, self.member)
        steps = Steps(
            number,
            node.groups,
            self,
            self.member,
            leads,
            node.courier,
            node.service.new_request,
        )
        self.asked = made = Membership(data, node.groups, self, self.member, steps)

        def serve(_peer: Identity, payload: bytes, incoming: IncomingCall) -> None:
            made.serve(payload, incoming)

        node.services[MEMBERS] = serve
        self.tell()

    @property
    def in_force(self) -> Members:
        applied = self.node.groups[0].applied_index
        return next(members for at, members in reversed(self._cluster.changes) if at <= applied)

    def tell(self) -> None:
        """The log holds what is in force."""
        if self.node.number not in self._cluster.writing:
            self.member.change_members(0, *self.in_force)

    def status(self) -> Any:
        voters, learners = self.in_force
        return {"groups": [{"voters": voters, "learners": learners}]}

    def propose_members(self, group: int, change: str, node: int) -> None:
        voters, learners = self._cluster.changes[-1][1]
        voters, learners = [one for one in voters if one != node], []
        if change == "add-learner":
            learners = [node]
        elif change == "add-voter":
            voters.append(node)
        log = self._cluster.world.logs[group]
        log.append((self._cluster.world.terms[group], None))
        self._cluster.changes.append((len(log), (voters, learners)))

    def report_unreachable(self, peer: int) -> None:
        raise AssertionError("there are no links")

    def transfer_leader(self, group: int, to: int) -> None:
        raise AssertionError("nobody asks")


class Cluster:
    """Three nodes, the first of which leads; each can be asked. A change of members takes effect
    where it is applied.
    """

    def __init__(self, path: Path) -> None:
        self.world = ClusterWorld(nodes=3, groups=1)
        # Index and members of each change; nodes whose log does not hold what is in force.
        self.changes: list[tuple[int, Members]] = [(0, ([1, 2, 3], []))]
        self.writing: set[int] = set()
        self.nodes = {number: Node(self, path, number) for number in self.world.nodes}
        self.asked = {number: node.asked for number, node in self.nodes.items()}

    @property
    def members(self) -> list[int]:
        """Voters and learners, as the log has them."""
        voters, learners = self.changes[-1][1]
        return [*voters, *learners]

    def record(self) -> MemberRecord:
        return load_records(self.world.nodes[1].groups[0])[JOINER]

    async def join(self, via: int, incarnation: bytes) -> Joined:
        return await self.end(self.asked[via].join(JOINER, incarnation, AT))

    async def turn(self) -> None:
        self.world.settle()
        for node in self.nodes.values():
            node.tell()
        await asyncio.sleep(0)

    async def turns(self) -> None:
        """Enough for whatever does not wait for somebody."""
        for _ in range(20):
            await self.turn()

    async def end(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(work)
        while not task.done():
            await self.turn()
        return task.result()

    async def held_join(self, via: int, incarnation: bytes) -> "asyncio.Task[Joined]":
        """What the node asks the leader to do does not reach it yet."""
        link = self.world.link(via, 1)
        link.arrived.clear()
        task = asyncio.ensure_future(self.asked[via].join(JOINER, incarnation, AT))
        while link.arrived[-1:] != [PARTS]:
            assert not task.done() and MEMBERS not in link.arrived, "it looks before it asks"
            await self.turn()
        link.is_held = True
        await self.turns()
        assert MEMBERS not in link.arrived
        return task

    async def left_join(self, via: int, incarnation: bytes) -> None:
        """As `held_join`, and whoever asked is gone."""
        task = await self.held_join(via, incarnation)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    def deliver(self, via: int) -> None:
        link = self.world.link(via, 1)
        link.is_held = False
        self.world.settle()
        assert MEMBERS in link.arrived


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(member_steps, "_RETRY_SECONDS", 0)
    return Cluster(tmp_path)


def test_a_join_that_was_left_does_not_take_the_place_of_a_later_one(cluster: Cluster) -> None:
    async def run() -> None:
        await cluster.left_join(2, FIRST)
        await cluster.join(3, SECOND)
        cluster.deliver(2)

    asyncio.run(run())
    assert cluster.record() == MemberRecord(JOINER, AT.raft, SECOND)


def test_a_join_that_was_left_does_not_bring_back_who_was_removed(cluster: Cluster) -> None:
    async def run() -> None:
        await cluster.join(3, FIRST)
        await cluster.left_join(2, SECOND)
        await cluster.end(cluster.asked[1].remove(JOINER))
        cluster.deliver(2)

    asyncio.run(run())
    assert cluster.record() == MemberRecord(JOINER, AT.raft, FIRST, is_removed=True)


@pytest.mark.parametrize("via", [1, 2])
def test_who_has_not_become_a_voter_may_join_anew(cluster: Cluster, via: int) -> None:
    async def run() -> Joined:
        await cluster.join(3, FIRST)
        return await cluster.join(via, SECOND)

    joined = asyncio.run(run())
    assert [(one.node, one.incarnation) for one in joined.members] == [(JOINER, SECOND)]


def test_a_node_that_knows_an_old_record_says_that_it_has_changed(cluster: Cluster) -> None:
    async def run() -> None:
        late = await cluster.held_join(2, SECOND)
        await cluster.join(3, FIRST)
        cluster.deliver(2)
        with pytest.raises(PlanAgain, match="the record of node 4 has changed meanwhile"):
            await late
        await cluster.join(2, SECOND)

    asyncio.run(run())
    assert cluster.record().incarnation == SECOND


async def added(cluster: Cluster, via: int) -> None:
    await cluster.end(cluster.asked[via].add(JOINER, AT.raft))


async def removed(cluster: Cluster, via: int) -> None:
    await cluster.end(cluster.asked[via].remove(JOINER))


@pytest.mark.parametrize(("first", "then"), [(added, removed), (removed, added)])
def test_a_node_that_lags_does_not_take_a_change_for_done_that_others_have_undone(
    cluster: Cluster, first: Change, then: Change
) -> None:
    async def run() -> None:
        await added(cluster, 1)
        if then is removed:
            await removed(cluster, 1)
        cluster.world.lagging.add(2)
        await first(cluster, 3)
        late = asyncio.ensure_future(then(cluster, 2))
        await cluster.turns()
        cluster.world.lagging.clear()
        await late

    asyncio.run(run())
    assert (JOINER in cluster.members) == (then is added)
    assert cluster.record().is_removed == (then is removed)


def test_a_node_whose_log_is_slow_does_not_take_a_change_for_done_that_others_have_undone(
    cluster: Cluster,
) -> None:
    async def run() -> None:
        cluster.writing.add(1)
        await added(cluster, 3)
        late = asyncio.ensure_future(removed(cluster, 1))
        await cluster.turns()
        cluster.writing.clear()
        await late

    asyncio.run(run())
    assert JOINER not in cluster.members and cluster.record().is_removed


def test_a_node_that_lags_lets_in_who_was_removed_and_is_expected_again(cluster: Cluster) -> None:
    async def run() -> None:
        await added(cluster, 1)
        await removed(cluster, 1)
        with pytest.raises(Refused, match="node 4 was removed"):
            await cluster.join(2, FIRST)
        cluster.world.lagging.add(2)
        await added(cluster, 3)
        late = asyncio.ensure_future(cluster.join(2, FIRST))
        await cluster.turns()
        cluster.world.lagging.clear()
        await late

    asyncio.run(run())
    assert cluster.record() == MemberRecord(JOINER, AT.raft, FIRST)


def test_a_node_that_does_not_catch_up_says_so_in_time(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        await added(cluster, 1)
        cluster.world.lagging.add(2)
        await removed(cluster, 1)
        monkeypatch.setattr(member_steps, "_CHANGE_SECONDS", 0)
        text = "group 0: not done in time .*: see `fastnode cluster status`, and ask again"
        with pytest.raises(Unavailable, match=text):
            await removed(cluster, 2)

    asyncio.run(run())


def test_whoever_leads_is_asked_for_a_change_too(cluster: Cluster) -> None:
    async def run() -> None:
        cluster.world.lead(0, 2)
        await added(cluster, 1)
        cluster.world.lead(0, 1)
        await removed(cluster, 1)

    asyncio.run(run())
    assert JOINER not in cluster.members and cluster.record().is_removed


@pytest.mark.parametrize(("kind", "node"), [("add-learner", 3), ("remove", JOINER)])
def test_a_step_that_is_asked_for_once_more_changes_nothing(
    cluster: Cluster, kind: str, node: int
) -> None:
    step = msgspec.msgpack.encode([kind, 0, node])
    answers: list[tuple[int, bytes | None]] = []
    cluster.world.link(2, 1).call(MEMBERS, step, 1.0, lambda *done: answers.append(done[:2]))
    cluster.world.settle()
    assert answers == [(DONE, b"")] and len(cluster.changes) == 1


def test_a_step_of_an_older_version_says_nothing_of_what_was_known(cluster: Cluster) -> None:
    record = MemberRecord(JOINER, AT.raft, FIRST)
    step = msgspec.msgpack.encode(["record", 0, JOINER, encode_record(record)])
    cluster.world.link(2, 1).call(MEMBERS, step, 1.0, lambda *_: None)
    cluster.world.settle()
    assert cluster.record() == record
