"""Handles from before their message left the queue and came back."""

from fastnode.queue import api
from tests.unit.queue.test_dead_letters import (
    arn,
    bodies,
    policy,
    queues_in_different_groups,
    receive_all,
    set_policy,
)
from tests.world import ACCOUNT, REGION, World


def test_an_old_handle_removes_what_has_come_back_and_nobody_has_received_since() -> None:
    """The handle is from before the message died. It died in the dead-letter queue too, whose
    letters go home, so it has its old id there; then it left with a move task, and came back: it
    is stored as delayed, though nobody delayed it.
    """
    world = World(groups=4)
    home, dead, other = queues_in_different_groups(world, 3)
    set_policy(world, home, policy(dead))
    set_policy(world, dead, policy(home))
    world.send(home, "a")
    (first,) = receive_all(world, home, timeout=0)
    receive_all(world, home)
    assert bodies(receive_all(world, dead, timeout=0)) == ["a"]
    receive_all(world, dead)
    assert world.counts(home) == (1, 0, 0)
    world.begin("StartMessageMoveTask", api.StartMessageMoveTaskRequest(arn(home), arn(other)))
    world.step()
    world.begin("DeleteQueue", api.DeleteQueueRequest(other))
    world.commit()
    world.delete(home, first.receipt_handle)
    queue = world.service.find(ACCOUNT, REGION, home)
    assert queue is not None
    keys, counter = queue.messages, queue.group.counter
    assert [counter(key) for key in (keys.total, keys.in_flight, keys.delayed)] == [0, 0, 0]
    assert world.counts(home) == (0, 0, 0)
