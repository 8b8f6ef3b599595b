"""Counters of a queue with partitions tell every message once, also while leads move."""

import pytest

from fastnode.queue import api
from tests.unit.cluster.cluster_world import ClusterWorld, answer_of

URL = "p.fifo"
COUNTERS = ["ApproximateNumberOfMessages"]


def filled() -> ClusterWorld:
    """Four partitions in four groups; node 1 leads two of them, the others one each."""
    world = ClusterWorld()
    world.create_partitioned(1, URL)
    for group in "abcdefgh":
        world.send(1, URL, f"of {group}", group)
    assert world.counts(1, URL) == (8, 0, 0)
    return world


@pytest.mark.parametrize("group", range(4))
@pytest.mark.parametrize("to", [1, 2, 3])
@pytest.mark.parametrize("held", ["is_held", "are_answers_held"])
def test_a_lead_that_moves_while_others_are_asked(held: str, to: int, group: int) -> None:
    """The questions have not arrived yet, or the answers have not."""
    world = filled()
    links = [world.link(1, 2), world.link(1, 3)]
    for link in links:
        setattr(link, held, True)
    pending = world.begin(1, "GetQueueAttributes", api.GetQueueAttributesRequest(URL, COUNTERS))
    world.settle()
    world.lead(group, to)
    for link in links:
        setattr(link, held, False)
    world.advance(200)
    assert answer_of(pending).attributes == {COUNTERS[0]: "8"}


def test_a_partition_that_nobody_leads_is_not_left_out() -> None:
    world = filled()
    world.depose(world.leaders.index(2))
    pending = world.begin(1, "GetQueueAttributes", api.GetQueueAttributesRequest(URL, COUNTERS))
    world.advance(200)
    assert not pending.is_done
    world.lead(world.leaders.index(0), 3)
    world.advance(200)
    assert answer_of(pending).attributes == {COUNTERS[0]: "8"}
