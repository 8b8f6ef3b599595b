"""Calls that come while a lead is being handed on: they wait for whoever leads next, and nobody is
told that the service is unavailable.
"""

from typing import Any

import pytest

from fastnode import config
from fastnode.queue import api
from tests.unit.cluster.cluster_world import ClusterWorld, answer_of, receive_request

GIVEN_UP_MS = round((config.ELECTION_TICKS + 1) * config.TICK_SECONDS * 1000) + 100
WAIT_MS = round(config.ELECTION_WAIT_SECONDS * 1000) + 100


def send_request(url: str, group: str | None = None) -> Any:
    return api.SendMessageRequest(url, "m", message_group_id=group)


@pytest.mark.parametrize("node", [1, 2, 3])
@pytest.mark.parametrize("action", ["SendMessage", "ReceiveMessage"])
def test_a_call_waits_for_the_next_leader(node: int, action: str) -> None:
    world = ClusterWorld(groups=1)
    world.create(1, "q")
    world.send(1, "q", "first")
    world.leaving.add(0)
    request = send_request("q") if action == "SendMessage" else receive_request("q")
    pending = world.begin(node, action, request)
    world.settle()
    world.advance(200)
    assert not pending.is_done, "nothing can be proposed yet"
    world.lead(0, 2)
    world.advance(100)
    assert answer_of(pending)
    sent = action == "SendMessage"
    assert world.counts(2, "q") == ((2, 0, 0) if sent else (0, 1, 0))


def test_a_lead_that_stays_takes_calls_again() -> None:
    world = ClusterWorld(groups=1)
    world.create(1, "q")
    world.leaving.add(0)
    first, second = (world.begin(node, "SendMessage", send_request("q")) for node in (1, 2))
    world.settle()
    world.leaving.clear()
    world.advance(GIVEN_UP_MS)
    assert answer_of(first) and answer_of(second)
    assert world.counts(1, "q") == (2, 0, 0)


def test_a_hand_over_without_an_end_is_not_waited_for_without_one() -> None:
    world = ClusterWorld(groups=1)
    world.create(1, "q")
    world.leaving.add(0)
    pending = world.begin(1, "SendMessage", send_request("q"))
    world.advance(config.PLANS_MAX * WAIT_MS)
    assert pending.is_done and pending.error is not None
    world.leaving.clear()
    world.lead(0, 1)
    assert world.counts(1, "q") == (0, 0, 0)


def test_a_send_waits_for_the_next_leader_of_its_partition() -> None:
    world = ClusterWorld()
    world.create_partitioned(1, "p.fifo")
    world.leaving |= {0, 1, 2, 3}
    # Node 1 leads the first and the last group, so some of these go to a partition of its own.
    groups = "abcdefgh"
    sent = [world.begin(1, "SendMessage", send_request("p.fifo", group)) for group in groups]
    world.advance(200)
    assert not any(pending.is_done for pending in sent)
    for number in range(4):
        world.lead(number, 2)
    world.advance(100)
    assert all(answer_of(pending).message_id for pending in sent)
