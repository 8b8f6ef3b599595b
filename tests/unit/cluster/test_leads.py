"""Leads are spread over the members, one at a time, and given away before a stop."""

import asyncio
from typing import Any

import pytest

from fastnode import config
from fastnode.clock import GroupClock
from fastnode.cluster import leads as leads_module
from fastnode.cluster.leads import Leads, preferred_leader
from fastnode.errors import Unavailable
from fastnode.raft.groups import LEADER
from fastnode.store.group import Group
from fastnode.store.memory_engine import MemoryEngine
from tests.world import FakeClock


class Cluster:
    """What node 1 sees: it leads everything, and hears of transfers."""

    def __init__(self, groups: int = 6) -> None:
        self.voters = [1, 2, 3]
        self.reachable = {2, 3}
        self.match = {2: 100, 3: 100}
        self.transfers: list[tuple[int, int]] = []
        self.does_transfer = True
        self.groups = [
            Group(at, MemoryEngine(), GroupClock(FakeClock()), is_sole_voter=False)
            for at in range(groups)
        ]
        for group in self.groups:
            group.change_role(LEADER, 1, 1)
            group.commit(1, 1, [])
            assert group.apply()
        self.leads = Leads(1, self.groups, self, self)

    def link_to(self, node: int) -> object | None:
        return self if node in self.reachable else None

    def transfer_leader(self, group: int, to: int) -> None:
        self.transfers.append((group, to))
        if self.does_transfer:
            self.groups[group].change_role("follower", 2, to)

    def status(self) -> Any:
        peers = {node: {"match": match} for node, match in self.match.items()}
        return {"groups": [{"last": 100, "peers": peers} for _ in self.groups]}

    def balance(self, looks: int) -> None:
        async def run() -> None:
            balancing = asyncio.ensure_future(self.leads.balance())
            for _ in range(looks + 1):
                await asyncio.sleep(0)
            balancing.cancel()

        asyncio.run(run())


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(config, "BALANCE_SECONDS", 0)
    monkeypatch.setattr(leads_module, "_CHECK_SECONDS", 0)
    return Cluster()


def test_every_member_prefers_the_same_leader_and_each_has_its_share() -> None:
    preferred = [preferred_leader(group, [3, 1, 7]) for group in range(9)]
    assert preferred == [preferred_leader(group, [7, 3, 1]) for group in range(9)]
    assert sorted(preferred) == [1] * 3 + [3] * 3 + [7] * 3


def test_leads_come_to_rest_where_they_should_be(cluster: Cluster) -> None:
    cluster.balance(30)
    assert sorted(cluster.transfers) == [
        (number, preferred_leader(number, [1, 2, 3]))
        for number in range(6)
        if preferred_leader(number, [1, 2, 3]) != 1
    ]
    count = len(cluster.transfers)
    cluster.balance(10)
    assert len(cluster.transfers) == count


def test_a_member_gets_leads_after_it_was_there_for_a_while(cluster: Cluster) -> None:
    cluster.balance(config.BALANCE_STEADY_LOOKS - 1)
    assert cluster.transfers == []
    cluster.reachable.clear()
    cluster.balance(1)
    cluster.reachable |= {2, 3}
    cluster.balance(config.BALANCE_STEADY_LOOKS - 1)
    assert cluster.transfers == []
    cluster.balance(1)
    assert len(cluster.transfers) == 1, "one at a time"


def test_a_member_that_lacks_much_of_the_log_gets_no_lead(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "TRANSFER_ENTRIES_BEHIND_MAX", 10)
    cluster.match = {2: 89, 3: 90}
    cluster.balance(30)
    assert {to for _, to in cluster.transfers} == {3}


def held(cluster: Cluster, number: int) -> None:
    async def hold() -> None:
        cluster.leads.hold(cluster.groups[number])

    asyncio.run(hold())


def test_a_lead_that_an_operator_has_put_here_stays_while_others_are_balanced(
    cluster: Cluster,
) -> None:
    held(cluster, 1)
    cluster.balance(30)
    assert sorted(number for number, _ in cluster.transfers) == [2, 4, 5]


def test_a_lead_is_held_for_a_time_only(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "TRANSFER_HOLD_SECONDS", 0.0)
    held(cluster, 1)
    cluster.balance(30)
    assert 1 in [number for number, _ in cluster.transfers]


def test_a_lead_that_is_put_elsewhere_is_held_here_no_more(cluster: Cluster) -> None:
    held(cluster, 1)
    cluster.does_transfer = False
    cluster.leads.transfer(cluster.groups[1], 3)
    cluster.transfers.clear()
    cluster.balance(config.BALANCE_STEADY_LOOKS)
    assert cluster.transfers == [(1, 2)]


def test_a_node_that_stops_holds_nothing(cluster: Cluster) -> None:
    held(cluster, 1)
    asyncio.run(cluster.leads.give_all_away(5.0))
    assert 1 in [number for number, _ in cluster.transfers]


def test_a_lead_is_given_to_whoever_has_most_of_the_log(cluster: Cluster) -> None:
    cluster.match = {2: 98, 3: 99}
    asyncio.run(cluster.leads.give_away(4))
    assert cluster.transfers == [(4, 3)]
    cluster.reachable = {2}
    asyncio.run(cluster.leads.give_away(5))
    assert cluster.transfers[1:] == [(5, 2)]


def test_a_lead_that_nobody_can_take_stays(cluster: Cluster) -> None:
    cluster.reachable.clear()
    with pytest.raises(Unavailable):
        asyncio.run(cluster.leads.give_away(0))
    cluster.reachable = {2}
    cluster.match = {3: 100}
    with pytest.raises(Unavailable):
        asyncio.run(cluster.leads.give_away(0))
    assert cluster.transfers == []


def test_a_leader_has_no_lease_from_the_moment_it_asks_for_a_transfer(cluster: Cluster) -> None:
    group = cluster.groups[0]
    context = group.reads.lease.begin_round(0)
    group.reads.confirm(context, 1)
    assert group.is_readable or group.reads.lease.is_valid(1)
    cluster.does_transfer = False
    asyncio.run(cluster.leads.give_away(0))
    assert not group.reads.lease.is_valid(1)


def test_a_node_that_stops_gives_everything_away_and_takes_no_part_in_balancing(
    cluster: Cluster,
) -> None:
    asyncio.run(cluster.leads.give_all_away(5.0))
    assert sorted(number for number, _ in cluster.transfers) == list(range(6))
    for group in cluster.groups:
        group.change_role(LEADER, 3, 1)
        group.commit(2, 3, [])
        assert group.apply()
    cluster.transfers.clear()
    cluster.balance(10)
    assert cluster.transfers == []


def test_a_node_that_nobody_can_relieve_stops_at_once(cluster: Cluster) -> None:
    cluster.reachable.clear()
    asyncio.run(cluster.leads.give_all_away(5.0))
    assert cluster.transfers == []


def test_a_stop_waits_no_longer_than_it_may_and_does_not_ask_without_end(cluster: Cluster) -> None:
    cluster.does_transfer = False
    asyncio.run(cluster.leads.give_all_away(0.02))
    assert len(cluster.transfers) == 6
