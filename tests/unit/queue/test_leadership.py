"""Calls while leads change: what waits, what is lost, what a client may be told."""

import json

import pytest

from fastnode import config
from fastnode.errors import OperationError, Unavailable
from fastnode.queue import api
from fastnode.queue.caller import Caller
from tests.unit.cluster.cluster_world import ClusterWorld, answer_of, receive_request
from tests.world import ACCOUNT, ENDPOINT, REGION, Pending

ELECTION_MS = round(config.ELECTION_WAIT_SECONDS * 1000)
NO_LEADER_MS = round(config.NO_LEADER_WAIT_SECONDS * 1000)


def one_group() -> ClusterWorld:
    """A queue `q`, led by node 1."""
    world = ClusterWorld(groups=1)
    world.create(1, "q")
    return world


def bodies(pending: Pending) -> list[str]:
    return [message.body for message in answer_of(pending).messages]


def sending(world: ClusterWorld, node: int, body: str = "m") -> Pending:
    return world.begin(node, "SendMessage", api.SendMessageRequest("q", body))


# --- long polls ---------------------------------------------------------------------------------


@pytest.mark.parametrize("node", [1, 2, 3])
def test_a_poll_is_woken_by_a_message_that_enters_elsewhere(node: int) -> None:
    world = one_group()
    poll = world.poll(node, "q")
    world.advance(5_000)
    assert not poll.is_done
    world.send(3, "q", "m")
    assert bodies(poll) == ["m"]


@pytest.mark.parametrize("node", [1, 2])
def test_a_poll_ends_empty_at_its_time(node: int) -> None:
    world = one_group()
    poll = world.poll(node, "q", seconds=3)
    world.advance(2_999)
    assert not poll.is_done
    world.advance(1)
    assert bodies(poll) == []


def test_a_poll_whose_client_has_gone_takes_nothing() -> None:
    world = one_group()
    poll = world.poll(2, "q")
    poll.call.leave()
    world.settle()
    world.send(1, "q", "m")
    assert world.counts(1, "q") == (1, 0, 0)
    (message,) = world.receive(3, "q")
    assert message.attributes["ApproximateReceiveCount"] == "1"


def test_what_a_poll_took_for_a_client_that_goes_is_given_back() -> None:
    world = one_group()
    poll = world.poll(2, "q")
    world.stuck.add(0)
    sent = sending(world, 1)
    world.settle()
    # The message is stored, the delivery is on its way; then the client goes.
    world.stuck.clear()
    world.step()
    world.stuck.add(0)
    world.settle()
    assert sent.is_done and not poll.is_done
    poll.call.leave()
    world.settle()
    world.stuck.clear()
    world.settle()
    assert world.counts(1, "q") == (1, 0, 0)
    (message,) = world.receive(3, "q")
    assert message.attributes["ApproximateReceiveCount"] == "1"


def test_a_poll_whose_link_is_cut_takes_nothing_any_more() -> None:
    world = one_group()
    poll = world.poll(2, "q")
    world.cut(2, 1)
    with pytest.raises(Unavailable):
        answer_of(poll)
    world.send(3, "q", "m")
    assert world.counts(1, "q") == (1, 0, 0)


@pytest.mark.parametrize("new_leader", [2, 3])
@pytest.mark.parametrize("node", [1, 2, 3])
def test_a_poll_survives_a_change_of_leaders(node: int, new_leader: int) -> None:
    world = one_group()
    poll = world.poll(node, "q")
    world.lead(0, new_leader)
    world.send(1, "q", "m")
    world.advance(20_000)
    # Empty or with the message, never an error; and it is there for the next one.
    assert bodies(poll) + [message.body for message in world.receive(1, "q")] == ["m"]


# --- elections ----------------------------------------------------------------------------------


@pytest.mark.parametrize("node", [1, 2, 3])
def test_a_call_waits_for_the_next_leader_and_is_done_once(node: int) -> None:
    world = one_group()
    world.depose(0)
    sent = sending(world, node)
    world.advance(1_500)
    assert not sent.is_done
    world.lead(0, 3)
    assert answer_of(sent).message_id
    assert world.counts(2, "q") == (1, 0, 0)


def test_without_a_leader_a_call_fails_after_the_bound_and_not_before() -> None:
    world = one_group()
    world.depose(0)
    first = sending(world, 2)
    world.advance(ELECTION_MS - 100)
    assert not first.is_done
    world.advance(200)
    with pytest.raises(Unavailable):
        answer_of(first)
    later = sending(world, 2)
    world.advance(NO_LEADER_MS - 100)
    assert not later.is_done
    world.advance(200)
    with pytest.raises(Unavailable):
        answer_of(later)


def test_after_a_leader_was_there_the_next_election_is_waited_for_again() -> None:
    world = one_group()
    world.depose(0)
    first = sending(world, 2)
    world.advance(6_000)
    assert first.is_done
    world.lead(0, 1)
    world.advance(60_000)
    world.depose(0)
    second = sending(world, 2)
    world.advance(ELECTION_MS - 100)
    assert not second.is_done
    world.lead(0, 3)
    assert answer_of(second).message_id


@pytest.mark.parametrize("survives", [True, False])
def test_what_a_leader_had_taken_when_it_lost_the_lead_is_unknown(survives: bool) -> None:
    world = one_group()
    world.stuck.add(0)
    sent = sending(world, 2)
    world.settle()
    world.stuck.clear()
    world.lead(0, 3, survives=survives)
    with pytest.raises(Unavailable):
        answer_of(sent)
    assert world.counts(1, "q") == (int(survives), 0, 0)


def test_what_a_leader_had_not_taken_goes_to_the_next_one() -> None:
    world = one_group()
    sent = sending(world, 1)
    world.lead(0, 3)
    assert answer_of(sent).message_id
    assert world.counts(2, "q") == (1, 0, 0)


@pytest.mark.parametrize("node", [1, 2])
def test_a_look_that_waits_when_the_lead_goes_is_answered_by_the_next_leader(node: int) -> None:
    world = one_group()
    world.send(1, "q", "m")
    # The lease is over, and no round is confirmed any more.
    world.advance(5_000)
    world.deaf.add(1)
    asked = api.GetQueueAttributesRequest("q", ["ApproximateNumberOfMessages"])
    looking = world.begin(node, "GetQueueAttributes", asked)
    world.settle()
    assert not looking.is_done
    world.lead(0, 3)
    world.hear_again(1)
    assert answer_of(looking).attributes == {"ApproximateNumberOfMessages": "1"}


def test_a_leader_that_nobody_follows_any_more_answers_nothing() -> None:
    world = one_group()
    world.send(1, "q", "old")
    world.isolate(1)
    world.lead(0, 2)
    world.send(3, "q", "new")
    world.advance(5_000)
    asked = api.GetQueueAttributesRequest("q", ["ApproximateNumberOfMessages"])
    looking = world.begin(1, "GetQueueAttributes", asked)
    sent, received = sending(world, 1), world.begin(1, "ReceiveMessage", receive_request("q"))
    world.settle()
    assert not looking.is_done and not sent.is_done and not received.is_done
    world.hear_again(1)
    for other in (2, 3):
        world.mend(1, other)
    assert answer_of(looking).attributes == {"ApproximateNumberOfMessages": "2"}
    for unknown in (sent, received):
        with pytest.raises(OperationError):
            answer_of(unknown)
    assert [message.body for message in world.receive(1, "q")] == ["old", "new"]


# --- what a node remembers ----------------------------------------------------------------------


def test_a_new_leader_knows_the_attributes_that_others_have_set() -> None:
    world = ClusterWorld()
    world.create_partitioned(1, "p.fifo")
    home = home_number(world, "p.fifo")
    for node in (1, 2, 3):
        world.send(node, "p.fifo", f"m{node}", "g")
    world.lead(home, 1)
    change = api.SetQueueAttributesRequest("p.fifo", {"VisibilityTimeout": "77"})
    world.call(1, "SetQueueAttributes", change)
    world.lead(home, 3)
    asked = api.GetQueueAttributesRequest("p.fifo", ["VisibilityTimeout"])
    shown = world.call(3, "GetQueueAttributes", asked).attributes
    assert shown == {"VisibilityTimeout": "77"}


def test_a_new_leader_knows_that_others_have_made_the_queue_anew() -> None:
    world = ClusterWorld()
    world.create_partitioned(1, "p.fifo")
    home = home_number(world, "p.fifo")
    for node in (1, 2, 3):
        world.send(node, "p.fifo", f"m{node}", "g")
    world.lead(home, 1)
    world.call(1, "DeleteQueue", api.DeleteQueueRequest("p.fifo"))
    world.create_partitioned(1, "p.fifo", count=2)
    world.lead(home, 3)
    assert world.counts(3, "p.fifo") == (0, 0, 0)
    world.send(3, "p.fifo", "new", "g")
    assert world.drain(2, "p.fifo") == ["new"]
    asked = api.GetQueueAttributesRequest("p.fifo", ["PartitionCount"])
    assert world.call(3, "GetQueueAttributes", asked).attributes == {"PartitionCount": "2"}


def test_the_short_way_is_only_for_queues_that_nobody_else_can_change() -> None:
    """What a follower remembers of attributes may be old, and the short way does not look."""
    world = ClusterWorld()
    world.create_partitioned(1, "p.fifo")
    home = home_number(world, "p.fifo")
    world.lead(home, 1)
    caller = Caller(ACCOUNT, REGION, ENDPOINT, "AIDA")
    for node in (1, 2, 3):
        world.send(node, "p.fifo", f"m{node}", "g")
        queue = world.nodes[node].service.live_queue(caller, "p.fifo")
        assert (queue is not None) == (node == 1)


def home_number(world: ClusterWorld, name: str) -> int:
    queue = world.nodes[1].service.find(ACCOUNT, REGION, name)
    assert queue is not None
    return queue.group.number


# --- letters between groups ---------------------------------------------------------------------


def dead_letter_world(count: int) -> tuple[ClusterWorld, list[str]]:
    """Queues whose messages are dead letters after one receive, in groups of their own."""
    world = ClusterWorld()
    world.create(1, "dead")
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:dead"
    redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    names = [f"q{number}" for number in range(count)]
    for name in names:
        world.create(2, name, RedrivePolicy=redrive, VisibilityTimeout="1")
    return world, names


@pytest.mark.parametrize("survives", [True, False])
def test_dead_letters_cross_groups_while_leads_change(survives: bool) -> None:
    world, names = dead_letter_world(6)
    for name in names:
        world.send(3, name, name)
        assert len(world.receive(1, name)) == 1
    world.advance(2_000)
    for number, name in enumerate(names):
        received = world.begin(number % 3 + 1, "ReceiveMessage", receive_request(name))
        for step in range(number):
            world.step()
            world.lead((number + step) % 4, step % 3 + 1, survives=survives)
        world.settle()
        world.advance(8_000)
        assert received.is_done
    for name in names:
        # Whoever was told of a change of leaders tries again.
        world.receive(2, name)
        world.advance(3_000)
        assert world.receive(2, name) == []
    assert sorted(world.drain(1, "dead")) == names


@pytest.mark.parametrize("mover", [1, 2, 3])
def test_a_move_task_goes_on_with_whoever_leads(mover: int) -> None:
    world, names = dead_letter_world(4)
    for name in names:
        world.send(3, name, name)
        world.receive(1, name)
    world.advance(2_000)
    for name in names:
        world.receive(2, name)
    assert world.counts(1, "dead") == (4, 0, 0)
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:dead"
    starting = world.begin(
        mover,
        "StartMessageMoveTask",
        api.StartMessageMoveTaskRequest(arn, max_number_of_messages_per_second=1),
    )
    for number in range(8):
        world.step()
        world.lead(number % 4, (number + mover) % 3 + 1)
        world.advance(700)
    world.advance(10_000)
    assert answer_of(starting).task_handle
    (task,) = world.call(2, "ListMessageMoveTasks", api.ListMessageMoveTasksRequest(arn)).results
    assert (task.status, task.approximate_number_of_messages_moved) == ("COMPLETED", 4)
    assert sorted(body for name in names for body in world.drain(1, name)) == names
    assert world.drain(1, "dead") == []
