"""The way to a leader: once, with patience, past a link or a leader that fails."""

from typing import Any

import pytest

from fastnode import config
from fastnode.cluster.courier import FORWARDED
from fastnode.errors import DeadlineExceeded, OperationError, PlanAgain, Unavailable
from fastnode.peers.calls import CallCancelled
from fastnode.queue import api
from tests.unit.cluster.cluster_world import ClusterWorld, answer_of
from tests.world import Pending


@pytest.fixture
def world() -> ClusterWorld:
    """A queue `q`, led by node 1."""
    world = ClusterWorld(groups=1)
    world.create(1, "q")
    return world


def sending(world: ClusterWorld, node: int = 2) -> Pending:
    pending = world.begin(node, "SendMessage", api.SendMessageRequest("q", "m"))
    world.settle()
    return pending


def test_a_call_that_was_not_written_is_sent_again_when_there_is_a_link(
    world: ClusterWorld,
) -> None:
    world.link(2, 1).is_held = True
    sent = sending(world)
    world.cut(2, 1, is_written=False)
    assert not sent.is_done
    world.advance(1_000)
    world.mend(2, 1)
    assert answer_of(sent).message_id
    assert world.counts(3, "q") == (1, 0, 0)


@pytest.mark.parametrize("has_arrived", [True, False])
def test_a_call_that_was_written_is_never_sent_again(
    world: ClusterWorld, has_arrived: bool
) -> None:
    link = world.link(2, 1)
    link.is_held, link.are_answers_held = not has_arrived, True
    sent = sending(world)
    world.cut(2, 1, is_written=True)
    with pytest.raises(Unavailable, match="the leader did not answer"):
        answer_of(sent)
    world.mend(2, 1)
    world.advance(5_000)
    assert world.counts(3, "q") == (int(has_arrived), 0, 0)


def test_a_leader_that_does_not_answer_in_time_is_given_up(world: ClusterWorld) -> None:
    world.link(2, 1).are_answers_held = True
    sent = sending(world)
    world.advance(round(config.FORWARD_SECONDS * 1000) - 1)
    assert not sent.is_done
    world.advance(1)
    with pytest.raises(Unavailable):
        answer_of(sent)


def test_three_calls_without_an_answer_open_the_breaker_and_one_closes_it(
    world: ClusterWorld,
) -> None:
    world.link(2, 1).is_held = True
    calls = [sending(world) for _ in range(3)]
    world.advance(round(config.FORWARD_SECONDS * 1000))
    assert all(isinstance(one.error, Unavailable) for one in calls)
    refused = sending(world)
    with pytest.raises(Unavailable, match="does not answer"):
        answer_of(refused)
    world.advance(100)
    probe, other = sending(world), sending(world)
    assert not probe.is_done
    with pytest.raises(Unavailable, match="does not answer"):
        answer_of(other)
    world.link(2, 1).is_held = False
    world.settle()
    assert answer_of(probe).message_id
    assert answer_of(sending(world)).message_id


def test_a_new_leader_is_asked_although_the_last_one_did_not_answer(world: ClusterWorld) -> None:
    world.link(2, 1).is_held = True
    for _ in range(3):
        sending(world)
    world.advance(round(config.FORWARD_SECONDS * 1000))
    assert sending(world).is_done
    world.lead(0, 3)
    assert answer_of(sending(world)).message_id


def test_a_client_that_goes_cancels_its_call(world: ClusterWorld) -> None:
    link = world.link(2, 1)
    link.is_held = True
    sent = sending(world)
    sent.call.leave()
    assert isinstance(sent.error, CallCancelled)


def test_a_client_that_goes_while_there_is_no_leader_is_not_carried_later(
    world: ClusterWorld,
) -> None:
    world.depose(0)
    sent = sending(world)
    sent.call.leave()
    assert isinstance(sent.error, CallCancelled)
    world.lead(0, 3)
    world.advance(1_000)
    assert world.counts(1, "q") == (0, 0, 0)
    assert world.link(2, 3).arrived == []


def test_a_client_that_has_gone_before_is_not_carried(world: ClusterWorld) -> None:
    pending = world.begin(1, "ListQueues", api.ListQueuesRequest())
    pending.call.leave()
    call = pending.call
    late = world.begin(2, "SendMessage", api.SendMessageRequest("q", "m"), call=call)
    assert isinstance(late.error, CallCancelled)


def test_a_probe_that_its_client_leaves_lets_another_through(world: ClusterWorld) -> None:
    world.link(2, 1).is_held = True
    for _ in range(3):
        sending(world)
    world.advance(round(config.FORWARD_SECONDS * 1000) + 100)
    probe = sending(world)
    assert not probe.is_done
    probe.call.leave()
    assert not sending(world).is_done


def test_a_leader_that_says_it_does_not_lead_is_left_for_the_next_at_once(
    world: ClusterWorld,
) -> None:
    world.link(2, 1).is_held = True
    sent = sending(world)
    world.lead(0, 3)
    world.link(2, 1).is_held = False
    world.settle()
    assert answer_of(sent).message_id
    assert world.link(2, 1).arrived == [FORWARDED]
    assert world.counts(2, "q") == (1, 0, 0)


def test_a_call_waits_while_the_only_link_is_down_and_no_longer_than_an_election(
    world: ClusterWorld,
) -> None:
    world.cut(2, 1)
    sent = sending(world)
    world.advance(round(config.ELECTION_WAIT_SECONDS * 1000) - 100)
    assert not sent.is_done
    world.advance(200)
    with pytest.raises(Unavailable, match="no leader"):
        answer_of(sent)
    # By now it is known to be down for long.
    sent = sending(world)
    world.advance(round(config.NO_LEADER_WAIT_SECONDS * 1000) + 50)
    assert sent.is_done


def test_a_node_that_becomes_the_leader_itself_goes_on_here(world: ClusterWorld) -> None:
    world.depose(0)
    sent = sending(world)
    world.lead(0, 2)
    assert answer_of(sent).message_id
    assert world.link(2, 1).arrived == world.link(2, 3).arrived == []


def test_too_many_that_wait_for_a_leader_are_refused(
    world: ClusterWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastnode.cluster.courier._WAITING_MAX", 3)
    world.depose(0)
    waiting = [sending(world) for _ in range(4)]
    assert [one.is_done for one in waiting] == [False, False, False, True]
    assert isinstance(waiting[3].error, OperationError)


@pytest.mark.parametrize("error", [DeadlineExceeded("late"), Unavailable("gone")])
def test_why_a_handler_failed_there_is_told_here(
    world: ClusterWorld, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> Any:
        raise error

    for group in world.nodes[1].groups:
        monkeypatch.setitem(vars(group), "require_room", fail)
    sent = sending(world)
    assert type(sent.error) is type(error) and str(sent.error) == str(error)


def test_a_plan_that_was_overtaken_is_made_anew_where_the_queue_is_led(
    world: ClusterWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = 0

    def overtaken_once() -> None:
        nonlocal plans
        plans += 1
        if plans == 1:
            raise PlanAgain("the state changed under the plan")

    for group in world.nodes[1].groups:
        monkeypatch.setitem(vars(group), "require_room", overtaken_once)
    assert answer_of(sending(world)).message_id
    assert plans == 2 and world.link(2, 1).arrived == [FORWARDED]
