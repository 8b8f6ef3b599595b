"""How long a call waits for a leader: by how long there has been none, not by old troubles."""

from fastnode import config
from fastnode.queue import api
from tests.unit.cluster.cluster_world import ClusterWorld
from tests.world import Pending

SHORT_MS = round(config.NO_LEADER_WAIT_SECONDS * 1000) + 50
LONG_MS = round(config.ELECTION_WAIT_SECONDS * 1000) + 50


def sending(world: ClusterWorld) -> Pending:
    pending = world.begin(2, "SendMessage", api.SendMessageRequest("q", "m"))
    world.settle()
    return pending


def lonely_world() -> ClusterWorld:
    """Node 2 has been without the leader of `q` for as long as an election takes."""
    world = ClusterWorld(groups=1)
    world.create(1, "q")
    world.cut(2, 1)
    assert not sending(world).is_done
    world.advance(LONG_MS)
    return world


def test_a_leader_that_was_reached_again_is_worth_an_elections_wait_when_it_is_lost_again() -> None:
    world = lonely_world()
    world.mend(2, 1)
    assert sending(world).is_done
    world.cut(2, 1)
    sent = sending(world)
    world.advance(SHORT_MS)
    assert not sent.is_done
    world.advance(LONG_MS - SHORT_MS)
    assert sent.is_done


def test_a_leader_that_stays_lost_is_not() -> None:
    world = lonely_world()
    sent = sending(world)
    world.advance(SHORT_MS)
    assert sent.is_done


def test_a_new_term_begins_a_new_wait() -> None:
    world = lonely_world()
    world.depose(0)
    sent = sending(world)
    world.advance(SHORT_MS)
    assert not sent.is_done
