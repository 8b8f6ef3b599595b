"""What is written down of a member, while those who ask for it come and go."""

import asyncio
import logging
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from fastnode.cluster import membership as membership_module
from fastnode.cluster.control_api import Addresses, Joined
from fastnode.cluster.courier import MEMBERS
from fastnode.cluster.leads import Leads
from fastnode.cluster.member import Member
from fastnode.cluster.member_records import MemberRecord, encode_record, load_records
from fastnode.cluster.membership import Membership
from fastnode.datadir import open_data_dir
from fastnode.errors import PlanAgain
from fastnode.peers.calls import IncomingCall
from fastnode.peers.handshake import Identity
from fastnode.settings import Settings
from tests.unit.cluster.cluster_world import ClusterWorld

T = TypeVar("T")
JOINER = 4
AT = Addresses("h:4")
FIRST, SECOND = b"1" * 16, b"2" * 16


class Cluster:
    """Three nodes, the first of which leads; each can be asked. Changes of members take effect at
    once, everywhere.
    """

    def __init__(self, path: Path) -> None:
        self.world = ClusterWorld(nodes=3, groups=1)
        self.members: list[Member] = []
        self.asked = {number: self._membership(path, number) for number in self.world.nodes}

    def _membership(self, path: Path, number: int) -> Membership:
        node = self.world.nodes[number]
        settings = Settings(data_dir=str(path / str(number)), node_id=number, groups=1)
        data = open_data_dir(settings)
        member = Member(data, {}, self, lambda _: [], lambda: 0, logging.getLogger("t"))
        member.change_members(0, [1, 2, 3], [])
        self.members.append(member)
        leads = Leads(number, node.groups, self, member)
        new_request = node.service.new_request
        made = Membership(data, node.groups, self, member, leads, node.courier, new_request)

        def serve(_peer: Identity, payload: bytes, incoming: IncomingCall) -> None:
            made.serve(payload, incoming)

        node.services[MEMBERS] = serve
        return made

    def propose_members(self, group: int, change: str, node: int) -> None:
        learners = [node] if change == "add-learner" else []
        for member in self.members:
            member.change_members(group, [1, 2, 3], learners)

    def status(self) -> Any:
        raise AssertionError("nobody asks")

    def report_unreachable(self, peer: int) -> None:
        raise AssertionError("there are no links")

    def transfer_leader(self, group: int, to: int) -> None:
        raise AssertionError("nobody asks")

    def record(self) -> MemberRecord:
        return load_records(self.world.nodes[1].groups[0])[JOINER]

    async def join(self, via: int, incarnation: bytes) -> Joined:
        return await self.end(self.asked[via].join(JOINER, incarnation, AT))

    async def end(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(work)
        while not task.done():
            self.world.settle()
            await asyncio.sleep(0)
        return task.result()

    async def left_join(self, via: int, incarnation: bytes) -> None:
        """Whoever asked is gone, and what it asked for does not reach the leader yet."""
        self.world.link(via, 1).is_held = True
        task = asyncio.ensure_future(self.asked[via].join(JOINER, incarnation, AT))
        await asyncio.sleep(0)
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
    monkeypatch.setattr(membership_module, "_RETRY_SECONDS", 0)
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
        cluster.world.lagging.add(2)
        await cluster.join(3, FIRST)
        with pytest.raises(PlanAgain, match="the record of node 4 has changed meanwhile"):
            await cluster.join(2, SECOND)
        cluster.world.lagging.clear()
        cluster.world.settle()
        await cluster.join(2, SECOND)

    asyncio.run(run())
    assert cluster.record().incarnation == SECOND


def test_a_step_of_an_older_version_says_nothing_of_what_was_known(cluster: Cluster) -> None:
    record = MemberRecord(JOINER, AT.raft, FIRST)
    step = msgspec.msgpack.encode(["record", 0, JOINER, encode_record(record)])
    cluster.world.link(2, 1).call(MEMBERS, step, 1.0, lambda *_: None)
    cluster.world.settle()
    assert cluster.record() == record
