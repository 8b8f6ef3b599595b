"""A purge or deletion that takes long is about the queue that it found, not about one that was made
under its name meanwhile.
"""

import pytest

from fastnode.queue import api
from fastnode.queue.errors import SqsError
from tests.unit.cluster.cluster_world import ClusterWorld, answer_of
from tests.world import Pending

URL = "p.fifo"
REQUESTS = {
    "DeleteQueue": api.DeleteQueueRequest(URL),
    "PurgeQueue": api.PurgeQueueRequest(URL),
}


def filled() -> tuple[ClusterWorld, int]:
    """Four partitions in four groups, two of them led by node 1; the queue's own group, too."""
    world = ClusterWorld()
    world.create_partitioned(1, URL)
    for group in "abcdefgh":
        world.send(1, URL, f"of {group}", group)
    queue = world.nodes[1].service.live_queues()[0]
    world.lead(queue.group.number, 1)
    assert world.counts(1, URL) == (8, 0, 0)
    return world, queue.group.number


def make_anew(world: ClusterWorld, node: int) -> None:
    world.call(node, "DeleteQueue", REQUESTS["DeleteQueue"])
    world.create_partitioned(node, URL)
    for group in "abcdefgh":
        world.send(node, URL, f"new of {group}", group)


def assert_gone(pending: Pending) -> None:
    with pytest.raises(SqsError, match="The specified queue does not exist"):
        answer_of(pending)


@pytest.mark.parametrize("action", REQUESTS)
@pytest.mark.parametrize("is_lead_lost", [False, True])
@pytest.mark.parametrize("held", ["is_held", "are_answers_held"])
def test_what_is_sent_to_the_new_queue_stays(held: str, action: str, *, is_lead_lost: bool) -> None:
    """Node 2 leads nothing when the requests arrive; or it has done its part and answers late."""
    world, home = filled()
    link = world.link(1, 2)
    setattr(link, held, True)
    pending = world.begin(1, action, REQUESTS[action])
    world.settle()
    for group, leader in enumerate(world.leaders):
        if leader == 2 or (is_lead_lost and group == home):
            world.lead(group, 3)
    make_anew(world, world.leaders[home])
    setattr(link, held, False)
    world.advance(200)
    assert_gone(pending)
    assert world.counts(1, URL) == (8, 0, 0)


@pytest.mark.parametrize("action", REQUESTS)
def test_a_leader_that_stood_still_means_the_queue_that_there_is(action: str) -> None:
    world, home = filled()
    world.deaf.add(1)
    # Its lease is over before others are elected.
    world.advance(5_000)
    for group, leader in enumerate(world.leaders):
        if leader == 1:
            world.lead(group, 3)
    make_anew(world, world.leaders[home])
    pending = world.begin(1, action, REQUESTS[action])
    world.settle()
    assert not pending.is_done
    world.hear_again(1)
    world.advance(200)
    answer_of(pending)
    if action == "PurgeQueue":
        assert world.counts(1, URL) == (0, 0, 0)
    else:
        assert_gone(world.begin(3, "PurgeQueue", REQUESTS["PurgeQueue"]))
