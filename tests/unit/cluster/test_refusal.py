"""A node without the capability hands on the groups that need it: real groups and their callbacks,
a transfer that does what the test says, and three nodes of the real consensus.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from operator import contains
from typing import Any

import pytest

from fastnode.cluster.refusal import LeadershipRefusal, Verdict, judge
from fastnode.errors import Busy, OperationError, Unavailable
from fastnode.raft.groups import LEADER
from fastnode.store.group import Group
from tests.unit.raft.driven_cluster import driven, driven_cluster
from tests.world import World

LOG = logging.getLogger("fastnode.test")
FOLLOWER = "follower"


@pytest.mark.parametrize(
    ("error", "leads", "verdict"),
    [
        (None, False, Verdict.GONE),
        (Busy(), False, Verdict.GONE),
        (Unavailable(), False, Verdict.GONE),
        (None, True, Verdict.AGAIN),
        (Busy(), True, Verdict.AGAIN),
        (Unavailable(), True, Verdict.STUCK),
        (OperationError(), True, Verdict.STUCK),
    ],
)
def test_verdict(error: OperationError | None, leads: bool, verdict: Verdict) -> None:
    assert judge(error, leads=leads) is verdict


class Setup:
    """Groups that this node leads in term 1, and what the hook did to them."""

    def __init__(self, *, groups: int = 1, holding: frozenset[int] = frozenset({0})) -> None:
        self.world = World(groups=groups)
        self.transfers: list[int] = []
        self.pauses = 0
        # What the next attempts raise; when none is left a transfer succeeds.
        self.errors: list[OperationError | None] = []
        self.on_pause: Callable[[], None] = lambda: None
        self.refusal = LeadershipRefusal(
            self.world.groups, holding.__contains__, self._transfer, LOG, pause=self._pause
        )

    @property
    def group(self) -> Group:
        return self.world.group

    async def _transfer(self, group: int) -> None:
        self.transfers.append(group)
        if self.errors:
            error = self.errors.pop(0)
            if error is not None:
                raise error
        else:
            self.follow(self.world.groups[group])

    async def _pause(self) -> None:
        self.pauses += 1
        assert self.pauses < 1_000, "the hook does not come to an end"
        self.on_pause()
        await asyncio.sleep(0)

    def follow(self, group: Group, term: int = 2) -> None:
        group.change_role(FOLLOWER, term)

    def lead(self, group: Group, term: int) -> None:
        """Take the lead, and apply the first entry of the term."""
        group.change_role(LEADER, term)
        group.commit(group.applied_index + 1, term, [])
        assert group.apply()

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)


def test_a_lead_from_before_is_handed_on() -> None:
    async def scenario() -> None:
        setup = Setup()
        setup.refusal.install()
        assert setup.transfers == [], "in the background"
        await setup.settle()
        assert (setup.transfers, setup.group.leads) == ([0], False)

    asyncio.run(scenario())


def test_a_follower_waits_until_it_leads() -> None:
    async def scenario() -> None:
        setup = Setup()
        setup.follow(setup.group)
        setup.refusal.install()
        await setup.settle()
        assert setup.transfers == []
        setup.lead(setup.group, 3)
        await setup.settle()
        assert (setup.transfers, setup.group.leads) == ([0], False)
        setup.lead(setup.group, 4)
        await setup.settle()
        assert setup.transfers == [0, 0]

    asyncio.run(scenario())


def test_a_lead_that_is_taken_while_the_hook_registers_is_handed_on() -> None:
    async def scenario() -> None:
        setup = Setup()
        setup.follow(setup.group)
        observe = setup.group.observe_leading

        def observe_late(observer: Callable[[], None]) -> Callable[[], None]:
            """It takes the lead when it is too late for those who look first, and too early for
            those who are told.
            """
            setup.group.change_role(LEADER, 3)
            return observe(observer)

        vars(setup.group)["observe_leading"] = observe_late
        setup.refusal.install()
        setup.group.commit(setup.group.applied_index + 1, 3, [])
        setup.group.apply()
        await setup.settle()
        assert setup.transfers == [0]

    asyncio.run(scenario())


def test_groups_without_partitions_are_led_on() -> None:
    async def scenario() -> None:
        setup = Setup(groups=3, holding=frozenset({1}))
        setup.refusal.install()
        await setup.settle()
        assert setup.transfers == [1]
        assert [group.leads for group in setup.world.groups] == [True, False, True]

    asyncio.run(scenario())


def test_what_a_group_holds_is_looked_up_when_its_state_is_complete() -> None:
    async def scenario() -> None:
        setup = Setup()
        setup.follow(setup.group)
        setup.refusal.install()
        setup.group.change_role(LEADER, 3)
        await setup.settle()
        assert setup.transfers == []
        assert setup.pauses > 0
        setup.group.commit(setup.group.applied_index + 1, 3, [])
        setup.group.apply()
        await setup.settle()
        assert setup.transfers == [0]

    asyncio.run(scenario())


def test_what_passes_is_tried_again() -> None:
    async def scenario() -> None:
        setup = Setup()
        setup.errors = [Busy(), None, Busy()]
        setup.refusal.install()
        await setup.settle()
        assert (setup.transfers, setup.pauses, setup.group.leads) == ([0] * 4, 3, False)

    asyncio.run(scenario())


def test_it_is_tried_until_the_lead_is_lost_in_whatever_way() -> None:
    async def scenario() -> None:
        setup = Setup()
        setup.errors = [Busy()] * 500

        def lose() -> None:
            if setup.pauses == 100:
                setup.follow(setup.group)

        setup.on_pause = lose
        setup.refusal.install()
        for _ in range(10):
            await setup.settle()
        assert (len(setup.transfers), setup.pauses) == (101, 100)

    asyncio.run(scenario())


def test_a_lead_nobody_else_can_take_is_kept_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        setup = Setup()
        setup.errors = [Unavailable("this node is the only voter")]
        setup.refusal.install()
        await setup.settle()
        assert (setup.transfers, setup.pauses, setup.group.leads) == ([0], 0, True)

    asyncio.run(scenario())
    (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert record.getMessage() == "leading a group with partitions without htfifo"
    assert vars(record)["group"] == 0
    assert vars(record)["reason"] == "this node is the only voter"


def test_a_second_lead_during_an_attempt_does_not_start_another() -> None:
    async def scenario() -> None:
        setup = Setup()
        setup.errors = [Busy()] * 5

        def blink() -> None:
            if setup.pauses == 2:
                setup.follow(setup.group)
                setup.lead(setup.group, 3)

        setup.on_pause = blink
        setup.refusal.install()
        await setup.settle()
        assert (setup.transfers, setup.group.leads) == ([0] * 6, False)

    asyncio.run(scenario())


def test_a_removed_hook_does_nothing_more() -> None:
    async def scenario() -> None:
        setup = Setup(groups=2, holding=frozenset({0, 1}))
        setup.errors = [Busy()] * 500
        setup.refusal.install()
        await asyncio.sleep(0)
        setup.refusal.remove()
        tried = len(setup.transfers)
        await setup.settle()
        for group in setup.world.groups:
            setup.follow(group)
            setup.lead(group, 3)
        await setup.settle()
        assert len(setup.transfers) == tried == 2

    asyncio.run(scenario())


def test_a_real_leader_is_followed_by_another_and_the_groups_writes_go_on() -> None:
    """Three nodes of the real consensus; the one without the capability leads again and again."""
    cluster = driven_cluster()
    incapable = driven(cluster.elect())
    others = [number for number in cluster.nodes if number != incapable.number]

    async def transfer(_group: int) -> None:
        incapable.reads.begin_transfer()
        incapable.raft.transfer_leader(0, others[0])
        incapable.turn()

    async def pause() -> None:
        cluster.run(50_000_000)

    async def scenario() -> None:
        refusal = LeadershipRefusal(
            [incapable.group], lambda _group: True, transfer, LOG, pause=pause
        )
        refusal.install()
        for number in range(3):
            await until(lambda: not incapable.leads)
            leader = cluster.elect()
            assert leader.number != incapable.number
            leader.write(number)
            cluster.run_until(partial(contains, cluster.acknowledged, number))
            leader.transfer(incapable.number)
            cluster.run_until(lambda: incapable.leads)
        await until(lambda: not incapable.leads)
        refusal.remove()

    async def until(condition: Callable[[], Any]) -> None:
        for _ in range(1_000):
            if condition():
                return
            cluster.run(10_000_000)
            await asyncio.sleep(0)
        raise AssertionError("what was waited for did not happen")

    asyncio.run(scenario())
    assert cluster.acknowledged == [0, 1, 2]
