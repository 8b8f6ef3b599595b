"""Receives of a queue whose partitions are led by several nodes."""

import json
from collections import Counter

import pytest

from fastnode import config
from fastnode.errors import Unavailable
from fastnode.queue import api
from fastnode.queue.caller import Call, Caller
from fastnode.queue.errors import SqsError
from fastnode.queue.partitions import PartitionedQueue
from tests.unit.cluster.cluster_world import ClusterWorld, answer_of, receive_request
from tests.world import ACCOUNT, ENDPOINT, REGION, Pending

URL = "p.fifo"


def spread(count: int = 4, **attributes: str) -> ClusterWorld:
    """Partitions 0 to 3 in groups led by nodes 1, 2, 3 and 1, in some order."""
    world = ClusterWorld()
    world.create_partitioned(1, URL, count, **attributes)
    return world


def front(world: ClusterWorld, node: int) -> PartitionedQueue:
    queue = world.nodes[node].service.find(ACCOUNT, REGION, URL)
    assert isinstance(queue, PartitionedQueue)
    return queue


def leader_of(world: ClusterWorld, group_id: str) -> int:
    """The node that leads the partition of a message group."""
    queue = front(world, 1)
    return world.leaders[queue.group_at(queue.partition_for(group_id)).number]


def group_led_by(world: ClusterWorld, node: int) -> str:
    return next(name for name in map(str, range(1_000)) if leader_of(world, name) == node)


def bodies(pending: Pending) -> list[str]:
    return [message.body for message in answer_of(pending).messages]


# --- looking ------------------------------------------------------------------------------------


@pytest.mark.parametrize("node", [1, 2, 3])
def test_every_node_gives_the_messages_of_all(node: int) -> None:
    world = spread()
    sent = [f"{group}-{number}" for number in range(3) for group in "abcdefgh"]
    for body in sent:
        world.send(node, URL, body, body[0])
    assert world.counts(node, URL) == (24, 0, 0)
    got = world.drain(node, URL)
    assert sorted(got) == sorted(sent)
    for group in "abcdefgh":
        assert [body for body in got if body[0] == group] == [f"{group}-{n}" for n in range(3)]
    assert world.counts(node, URL) == (0, 0, 0)


@pytest.mark.parametrize("node", [1, 2, 3])
def test_no_place_starves_while_another_has_more_than_is_asked_for(node: int) -> None:
    world = spread()
    names = {leader: group_led_by(world, leader) for leader in (1, 2, 3)}
    for group in names.values():
        for number in range(30):
            world.send(1, URL, f"{group}:{number}", group)
    seen: Counter[str] = Counter()
    for _ in range(12):
        (message,) = world.receive(node, URL, limit=1)
        seen[message.attributes["MessageGroupId"]] += 1
        world.delete(node, URL, message.receipt_handle)
    assert set(seen) == set(names.values())
    assert min(seen.values()) >= 3


def test_one_answer_takes_from_several_places_and_no_more_than_fits() -> None:
    world = spread()
    names = [group_led_by(world, leader) for leader in (2, 3)]
    for group in names:
        world.send(1, URL, f"{group}-0", group)
    # Node 1 leads none of them, and whoever comes first may have only one.
    seen: list[str] = []
    for _ in range(3):
        seen += [message.body for message in world.receive(1, URL, limit=10)]
    assert sorted(seen) == sorted(f"{group}-0" for group in names)
    assert world.counts(2, URL) == (0, 2, 0)


def test_a_partition_without_a_leader_keeps_nobody_from_the_others() -> None:
    world = spread()
    names = {leader: group_led_by(world, leader) for leader in (1, 2, 3)}
    for group in names.values():
        world.send(1, URL, group, group)
    for number in [at for at, leader in enumerate(world.leaders) if leader == 3]:
        if number != front(world, 1).group.number:
            world.depose(number)
    got: list[str] = []
    for _ in range(4):
        got += [message.body for message in world.receive(2, URL)]
    assert {names[1], names[2]} <= set(got)


def test_a_place_that_does_not_answer_costs_a_moment_and_not_the_others() -> None:
    world = spread()
    names = {leader: group_led_by(world, leader) for leader in (2, 3)}
    for group in names.values():
        world.send(1, URL, group, group)
    world.link(1, 3).is_held = True
    pending = [world.begin(1, "ReceiveMessage", receive_request(URL)) for _ in range(3)]
    world.advance(1_200)
    assert [body for one in pending for body in bodies(one)] == [names[2]]


def test_when_no_partition_can_be_reached_the_queue_is_not_called_empty() -> None:
    world = spread()
    world.receive(3, URL)
    for number in range(4):
        world.lead(number, 1)
    world.receive(3, URL)
    world.cut(3, 1)
    received = world.begin(3, "ReceiveMessage", receive_request(URL))
    world.advance(10_000)
    with pytest.raises(Unavailable):
        answer_of(received)


def test_a_queue_that_is_gone_is_gone_at_every_node() -> None:
    world = spread()
    polls = [world.poll(node, URL) for node in (1, 2, 3)]
    world.call(2, "DeleteQueue", api.DeleteQueueRequest(URL))
    for node in (1, 2, 3):
        for action, request in [
            ("ReceiveMessage", receive_request(URL)),
            ("SendMessage", api.SendMessageRequest(URL, "m", message_group_id="g")),
        ]:
            with pytest.raises(SqsError, match="QueueDoesNotExist"):
                world.call(node, action, request)
    world.advance(20_000)
    for poll in polls:
        assert poll.is_done
        assert isinstance(poll.error, SqsError) or bodies(poll) == []


class Asking(Call):
    wants_explanation = True


def test_a_receive_explains_how_many_nodes_it_asked() -> None:
    world = spread()
    world.send(1, URL, "m", group_led_by(world, 2))
    seen = []
    for _ in range(3):
        call = Asking(Caller(ACCOUNT, REGION, ENDPOINT, "AIDA"), "ReceiveMessage", "r")
        world.begin(1, "ReceiveMessage", receive_request(URL, timeout=0), call=call)
        world.settle()
        assert call.explanation is not None
        seen.append(call.explanation)
    assert world.nodes[1].service.fanout.metrics()["fastnode_receive_looks_total"] == 3
    # Begun at node 2, at node 3, and here: from there on until something was found.
    assert sorted(text.rpartition(";")[2] for text in seen) == ["remote=1", "remote=2", "remote=2"]
    assert all(text.startswith("partitions=1;rows=1;") for text in seen)


# --- waiting ------------------------------------------------------------------------------------


@pytest.mark.parametrize("node", [1, 2, 3])
@pytest.mark.parametrize("leader", [1, 2, 3])
def test_a_poll_is_woken_by_a_message_of_any_partition(node: int, leader: int) -> None:
    world = spread()
    poll = world.poll(node, URL)
    world.advance(3_000)
    assert not poll.is_done
    world.send(2, URL, "m", group_led_by(world, leader))
    assert bodies(poll) == ["m"]
    world.advance(2_000)
    assert world.counts(1, URL) == (0, 1, 0)


@pytest.mark.parametrize("node", [1, 2, 3])
def test_a_poll_ends_empty_at_its_time_and_leaves_nothing_set_aside(node: int) -> None:
    world = spread()
    poll = world.poll(node, URL, seconds=2)
    world.advance(1_999)
    assert not poll.is_done
    world.advance(1)
    assert bodies(poll) == []
    for leader in (1, 2, 3):
        world.send(1, URL, f"{leader}", group_led_by(world, leader))
    assert sorted(world.drain(2, URL)) == ["1", "2", "3"]


@pytest.mark.parametrize("leader", [1, 2, 3])
def test_a_poll_whose_client_has_gone_takes_nothing(leader: int) -> None:
    world = spread()
    poll = world.poll(1, URL)
    poll.call.leave()
    world.settle()
    world.send(2, URL, "m", group_led_by(world, leader))
    assert world.counts(3, URL) == (1, 0, 0)
    for _ in range(3):
        for message in world.receive(3, URL):
            assert message.attributes["ApproximateReceiveCount"] == "1"
            return
    raise AssertionError("it is gone")


@pytest.mark.parametrize("leader", [1, 2, 3])
def test_what_was_taken_for_a_client_that_goes_is_given_back(leader: int) -> None:
    world = spread()
    group = group_led_by(world, leader)
    world.send(2, URL, "m", group)
    queue = front(world, 1)
    number = queue.group_at(queue.partition_for(group)).number
    world.stuck.add(number)
    pending = world.begin(1, "ReceiveMessage", receive_request(URL))
    world.settle()
    assert not pending.is_done
    pending.call.leave()
    world.stuck.clear()
    world.settle()
    assert bodies(pending) == []
    world.advance(2_000)
    assert world.counts(3, URL) == (1, 0, 0)
    (message,) = [one for _ in range(3) for one in world.receive(3, URL)]
    assert message.attributes["ApproximateReceiveCount"] == "1"


@pytest.mark.parametrize("node", [1, 2, 3])
@pytest.mark.parametrize("leader", [1, 2, 3])
def test_a_poll_finds_messages_where_a_lead_has_gone(node: int, leader: int) -> None:
    world = spread()
    poll = world.poll(node, URL)
    queue = front(world, 1)
    group = group_led_by(world, leader)
    world.lead(queue.group_at(queue.partition_for(group)).number, leader % 3 + 1)
    world.advance(1_000)
    world.send(2, URL, "m", group)
    world.advance(1_000)
    assert bodies(poll) == ["m"]


def test_a_poll_at_a_node_that_led_everything_finds_what_has_gone_elsewhere() -> None:
    world = spread()
    world.lead_all(1)
    poll = world.poll(1, URL)
    world.lead(2, 3)
    group = group_led_by(world, 3)
    world.send(2, URL, "m", group)
    world.advance(1_000)
    assert bodies(poll) == ["m"]


def test_a_poll_waits_on_while_a_place_fails_and_does_not_hurry() -> None:
    world = spread()
    poll = world.poll(1, URL)
    world.cut(1, 3)
    before = len(world.link(1, 2).arrived)
    world.advance(10_000)
    assert not poll.is_done
    assert len(world.link(1, 2).arrived) - before < 100
    world.mend(1, 3)
    world.send(2, URL, "m", group_led_by(world, 3))
    world.advance(3_500)
    assert bodies(poll) == ["m"]


def test_a_poll_is_told_by_another_node_that_its_queue_is_gone() -> None:
    world = spread()
    world.lead(front(world, 1).group.number, 3)
    world.receive(1, URL)
    link = world.link(1, 2)
    before = len(link.arrived)
    poll = world.begin(1, "ReceiveMessage", receive_request(URL, seconds=20))
    while len(link.arrived) == before:
        world.step()
    # It has looked there; to wait there it asks again, and that comes late.
    link.is_held = True
    world.call(3, "DeleteQueue", api.DeleteQueueRequest(URL))
    link.is_held = False
    world.settle()
    with pytest.raises(SqsError, match="QueueDoesNotExist"):
        answer_of(poll)


def test_a_poll_does_not_end_because_a_leader_is_not_asked_for_the_moment() -> None:
    world = spread()
    group = group_led_by(world, 3)
    world.send(1, URL, "first", group)
    world.link(1, 3).is_held = True
    request = api.SendMessageRequest(URL, "lost", message_group_id=group)
    for _ in range(3):
        world.begin(1, "SendMessage", request)
    world.advance(round(config.FORWARD_SECONDS * 1000))
    poll = world.poll(1, URL)
    assert not poll.is_done, "the breaker is open, and every other place is empty"
    world.link(1, 3).is_held = False
    world.advance(4_000)
    assert bodies(poll)[0] == "first"


def test_a_node_that_stops_ends_its_polls() -> None:
    world = spread()
    poll = world.poll(1, URL)
    world.nodes[1].service.end_polls()
    world.settle()
    assert bodies(poll) == []


def test_the_message_of_a_poll_that_left_wakes_the_next() -> None:
    world = spread()
    group = group_led_by(world, 2)
    first, second = world.poll(1, URL), world.poll(3, URL)
    first.call.leave()
    world.settle()
    world.send(1, URL, "m", group)
    world.advance(1_500)
    assert bodies(second) == ["m"]


# --- attempts and dead letters ------------------------------------------------------------------


def test_a_receive_that_is_repeated_by_its_attempt_id_gives_the_same_at_another_node() -> None:
    world = spread()
    for leader in (1, 2, 3):
        world.send(1, URL, f"{leader}", group_led_by(world, leader))
    request = api.ReceiveMessageRequest(
        URL, max_number_of_messages=10, visibility_timeout=30, receive_request_attempt_id="a"
    )
    first = world.call(2, "ReceiveMessage", request).messages
    again = world.call(3, "ReceiveMessage", request).messages
    assert first
    assert {one.receipt_handle for one in again} == {one.receipt_handle for one in first}


@pytest.mark.parametrize("node", [1, 2, 3])
def test_dead_letters_leave_whoever_receives(node: int) -> None:
    world = ClusterWorld()
    world.create(1, "dead.fifo", FifoQueue="true")
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:dead.fifo"
    redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 2})
    world.create_partitioned(1, URL, RedrivePolicy=redrive, VisibilityTimeout="1")
    names = [group_led_by(world, leader) for leader in (1, 2, 3)]
    for group in names:
        world.send(1, URL, group, group)
    counts: Counter[str] = Counter()
    for _ in range(20):
        for message in world.receive(node, URL):
            counts[message.body] += 1
        world.advance(1_100)
    assert counts == dict.fromkeys(names, 2)
    assert sorted(world.drain(2, "dead.fifo")) == sorted(names)


def test_dead_letters_reach_a_queue_with_partitions() -> None:
    world = ClusterWorld()
    world.create_partitioned(1, "dead.fifo")
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:dead.fifo"
    redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    world.create_partitioned(1, URL, RedrivePolicy=redrive, VisibilityTimeout="1")
    names = sorted("abcdefgh")
    for group in names:
        world.send(1, URL, group, group)
    for _ in range(12):
        world.receive(1, URL)
        world.advance(1_100)
    world.advance(5_000)
    assert sorted(world.drain(2, "dead.fifo")) == names
