"""A receive that is planned while a purge is on its way fails, and leaves nothing of the purged
messages in the memory of the new generation.
"""

from typing import Any

import pytest

from fastnode.errors import PlanAgain
from fastnode.flow import start
from fastnode.queue import api, receive_one, validate
from fastnode.queue.caller import Call, Caller
from fastnode.queue.handout import submit_receive
from fastnode.queue.live import LiveQueue
from fastnode.queue.standard_live import StandardQueue
from tests.world import ACCOUNT, ENDPOINT, REGION, Pending, World


def purged_meanwhile() -> tuple[World, str, LiveQueue]:
    """A queue with three messages and a purge that is submitted and not applied."""
    world = World()
    url = world.create()
    for number in range(3):
        world.send(url, f"purged {number}")
    queue = world.service.find(ACCOUNT, REGION, "q")
    assert queue is not None
    world.begin("PurgeQueue", api.PurgeQueueRequest(url))
    return world, url, queue


def only_what_is_sent_later(world: World, url: str) -> None:
    assert world.counts(url) == (0, 0, 0)
    assert world.receive(url) == []
    world.send(url, "later")
    assert [message.body for message in world.receive(url)] == ["later"]


@pytest.mark.parametrize("limit", [1, 3])
def test_the_long_way(limit: int) -> None:
    world, url, queue = purged_meanwhile()
    request = api.ReceiveMessageRequest(url, max_number_of_messages=limit)
    valid = validate.receive_message(request, queue.settings)
    txn = queue.group.begin(world.service.new_request())
    choice = queue.choose(limit, txn.commit_ts)
    pending = Pending(Call(Caller(ACCOUNT, REGION, ENDPOINT, "AIDA"), "ReceiveMessage", "request"))
    start(receive_one.commit(world.service, queue, txn, choice, valid), pending.finish)
    world.commit()
    assert isinstance(pending.error, PlanAgain)
    only_what_is_sent_later(world, url)


class Waiting:
    def __init__(self) -> None:
        self.outcomes: list[Any] = []

    def prepare(self) -> None:
        raise AssertionError("nobody expects it to go on")

    resume = fail = lambda self, outcome: self.outcomes.append(outcome)


@pytest.mark.parametrize("limit", [1, 3])
def test_the_short_way(limit: int) -> None:
    world, url, queue = purged_meanwhile()
    assert isinstance(queue, StandardQueue)
    waiting = Waiting()
    work = submit_receive(world.service, queue, b"", limit, 30_000, waiting)
    assert work is not None
    world.commit()
    (error,) = waiting.outcomes
    assert isinstance(error, PlanAgain)
    work.failed()
    only_what_is_sent_later(world, url)
