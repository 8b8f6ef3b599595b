"""Dead letters and move tasks between groups that several nodes lead, while leads change: nothing
is lost and nothing is doubled.
"""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastnode.errors import OperationError
from fastnode.queue import api
from tests.unit.cluster.cluster_world import ClusterWorld, receive_request
from tests.world import ACCOUNT, REGION, Pending

NODE = st.integers(1, 3)
GROUP = st.integers(0, 3)
DISTURBANCE = st.one_of(
    st.tuples(st.just("lead"), GROUP, NODE, st.booleans()),
    st.tuples(st.just("lead"), GROUP, NODE, st.booleans()),
    st.tuples(st.just("depose"), GROUP),
    st.tuples(st.just("stick"), GROUP),
    st.tuples(st.just("step"), st.integers(1, 5)),
    st.tuples(st.just("step"), st.integers(1, 5)),
    st.tuples(st.just("receive"), NODE, st.integers(0, 2)),
    st.tuples(st.just("receive"), NODE, st.integers(0, 2)),
    st.tuples(st.just("advance"), st.sampled_from([60, 1_100, 3_000])),
)
COUNT = 3


def arn(name: str) -> str:
    return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"


class Letters:
    """Three queues whose messages are dead letters after one receive."""

    def __init__(self, *, has_partitions: bool) -> None:
        self.world = ClusterWorld()
        self.has_partitions = has_partitions
        suffix = ".fifo" if has_partitions else ""
        self.dead = f"dead{suffix}"
        self.names = [f"q{number}{suffix}" for number in range(COUNT)]
        redrive = json.dumps({"deadLetterTargetArn": arn(self.dead), "maxReceiveCount": 1})
        self.create(self.dead)
        for name in self.names:
            self.create(name, RedrivePolicy=redrive, VisibilityTimeout="1")
        self.bodies = [f"{name} {number}" for name in self.names for number in range(4)]
        for body in self.bodies:
            name, number = body.split()
            self.world.send(1, name, body, number if has_partitions else None)
        self._open: list[Pending] = []

    def create(self, name: str, **attributes: str) -> None:
        if self.has_partitions:
            self.world.create_partitioned(1, name, 4, **attributes)
        else:
            self.world.create(1, name, **attributes)

    def lead(self, group: int, node: int, survives: bool) -> None:
        self.world.lead(group, node, survives=survives)

    def depose(self, group: int) -> None:
        self.world.depose(group)

    def stick(self, group: int) -> None:
        self.world.stuck ^= {group}

    def step(self, count: int) -> None:
        for _ in range(count):
            self.world.step()

    def advance(self, milliseconds: int) -> None:
        self.world.advance(milliseconds)

    def receive(self, node: int, which: int) -> None:
        request = receive_request(self.names[which])
        self._open.append(self.world.begin(node, "ReceiveMessage", request))

    def play(self, events: list[tuple[Any, ...]]) -> None:
        for name, *arguments in events:
            getattr(self, name)(*arguments)

    def heal(self) -> None:
        self.world.stuck.clear()
        for group in range(4):
            self.world.lead(group, group % 3 + 1)
        self.world.advance(8_000)
        for pending in self._open:
            assert pending.is_done
            assert pending.error is None or isinstance(pending.error, OperationError)
        self._open.clear()

    def bury(self) -> None:
        """Until every message is a dead letter."""
        for _ in range(30):
            for name in self.names:
                self.world.receive(2, name)
            self.world.advance(1_100)
            if all(self.world.counts(3, name) == (0, 0, 0) for name in self.names):
                return
        raise AssertionError("some never die")


@pytest.mark.parametrize("has_partitions", [False, True])
@settings(max_examples=8)
@given(events=st.lists(DISTURBANCE, max_size=25))
def test_every_dead_letter_arrives_once(
    has_partitions: bool, events: list[tuple[Any, ...]]
) -> None:
    letters = Letters(has_partitions=has_partitions)
    letters.play(events)
    letters.heal()
    letters.bury()
    assert sorted(letters.world.drain(3, letters.dead)) == letters.bodies


@pytest.mark.parametrize("has_partitions", [False, True])
@settings(max_examples=8)
@given(events=st.lists(DISTURBANCE, max_size=20), mover=NODE)
def test_a_move_task_brings_every_message_back_once(
    has_partitions: bool, events: list[tuple[Any, ...]], mover: int
) -> None:
    letters = Letters(has_partitions=has_partitions)
    world = letters.world
    letters.bury()
    assert world.counts(1, letters.dead) == (len(letters.bodies), 0, 0)
    request = api.StartMessageMoveTaskRequest(
        arn(letters.dead), max_number_of_messages_per_second=4
    )
    starting = world.begin(mover, "StartMessageMoveTask", request)
    # Whatever else happens, nobody receives: a message would be a dead letter again.
    letters.play([event for event in events if event[0] != "receive"])
    letters.heal()
    assert starting.is_done
    if starting.error is not None:
        assert isinstance(starting.error, OperationError)
        listed = world.call(
            1, "ListMessageMoveTasks", api.ListMessageMoveTasksRequest(arn(letters.dead))
        )
        if not listed.results:
            return  # it never began
    for _ in range(10):
        world.advance(3_000)
        (task,) = world.call(
            2, "ListMessageMoveTasks", api.ListMessageMoveTasksRequest(arn(letters.dead))
        ).results
        if task.status != "RUNNING":
            break
    assert (task.status, task.approximate_number_of_messages_moved) == ("COMPLETED", 12)
    assert world.drain(1, letters.dead) == []
    assert sorted(body for name in letters.names for body in world.drain(3, name)) == letters.bodies


def test_a_letter_that_is_refused_is_a_message_again_whoever_leads_its_partition_by_then() -> None:
    """That node may know the queue only as a follower of its home group does."""
    world = ClusterWorld()
    world.create(1, "dead.fifo", FifoQueue="true")
    redrive = json.dumps({"deadLetterTargetArn": arn("dead.fifo"), "maxReceiveCount": 1})
    world.create_partitioned(1, "p.fifo", RedrivePolicy=redrive, VisibilityTimeout="1")
    find = world.nodes[1].service.find
    queue, target = find(ACCOUNT, REGION, "p.fifo"), find(ACCOUNT, REGION, "dead.fifo")
    assert queue is not None and target is not None
    homes = {queue.group.number, target.group.number}
    groups = {name: queue.group_at(queue.partition_for(name)).number for name in "abcdefgh"}
    name = next(one for one in groups if groups[one] not in homes)
    for number in range(4):
        world.lead(number, 1)
    world.send(1, "p.fifo", "m", name)
    assert len(world.receive(1, "p.fifo")) == 1
    world.advance(1_100)
    # The letter is written and cannot be delivered; then node 3 has it.
    world.depose(target.group.number)
    world.begin(1, "ReceiveMessage", receive_request("p.fifo"))
    world.settle()
    world.lead(groups[name], 3)
    # Whoever led before carries it too, for a moment.
    world.link(1, 2).is_held = world.link(3, 2).is_held = True
    world.lead(target.group.number, 2)
    world.call(2, "DeleteQueue", api.DeleteQueueRequest("dead.fifo"))
    world.link(1, 2).is_held = world.link(3, 2).is_held = False
    world.advance(5_000)
    assert [message.body for _ in range(3) for message in world.receive(2, "p.fifo")] == ["m"]
