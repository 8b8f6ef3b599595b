"""What a receive took is given back when nobody reads its answer, unless a later attempt has it."""

from typing import Final

import pytest

from fastnode.flow import start
from fastnode.queue import api, validate
from fastnode.queue.live import LiveQueue
from fastnode.queue.receive_again import give_back_taken, landed_here
from tests.unit.queue.test_dead_letters import policy
from tests.unit.queue.test_reads import confirm
from tests.world import ACCOUNT, REGION, Pending, World

REQUEST: Final = api.ReceiveMessageRequest("q", visibility_timeout=30)


def received_one() -> tuple[World, LiveQueue, Pending]:
    """A message that a first attempt of `REQUEST` has taken."""
    world = World()
    world.send(world.create("q"), "a")
    first = world.begin("ReceiveMessage", REQUEST)
    world.commit()
    queue = world.service.find(ACCOUNT, REGION, "q")
    assert queue is not None and len(first.result.messages) == 1
    return world, queue, first


@pytest.mark.parametrize("is_repeated", [True, False])
def test_what_a_later_attempt_has_is_not_given_back(is_repeated: bool) -> None:
    world, queue, first = received_one()
    identity = first.call.request
    if is_repeated:
        again = Pending(first.call)
        valid = validate.receive_message(REQUEST, queue.settings)
        start(landed_here(world.service, queue, identity, valid), again.finish)
        assert [one.receipt_handle for one in again.result] == [
            one.receipt_handle for one in first.result.messages
        ]
    left = Pending(first.call)
    start(give_back_taken(world.service, queue, identity, REQUEST, queue.group.term), left.finish)
    world.commit()
    assert left.is_done and left.error is None
    assert len(world.receive("q")) == (0 if is_repeated else 1)


def test_a_later_attempt_waits_for_what_is_given_back_while_it_proves_its_lead() -> None:
    """The news that the first attempt was left comes in between."""
    world, queue, first = received_one()
    identity = first.call.request
    world.group.is_sole_voter = False
    again, left = Pending(first.call), Pending(first.call)
    valid = validate.receive_message(REQUEST, queue.settings)
    start(landed_here(world.service, queue, identity, valid), again.finish)
    start(give_back_taken(world.service, queue, identity, REQUEST, queue.group.term), left.finish)
    world.group.is_sole_voter = True
    confirm(world)
    assert not again.is_done, "a new receive would find nothing"
    world.commit()
    assert left.is_done and left.error is None
    assert again.is_done and again.result == [], "it is not as it was"
    assert len(world.receive("q")) == 1


def test_what_is_about_to_be_answered_is_not_given_back() -> None:
    """A later attempt met dead letters, and waits for them. The news that the first one was left
    comes in between.
    """
    world = World()
    world.create("d")
    world.create("q", RedrivePolicy=policy("d"))
    world.send("q", "dead")
    world.receive("q", timeout=0)
    world.send("q", "a")
    world.advance(2)
    request = api.ReceiveMessageRequest("q", max_number_of_messages=10, visibility_timeout=30)
    later = world.begin("ReceiveMessage", request)
    world.step()
    assert not later.is_done, "it has landed, and waits"
    queue, identity = world.service.find(ACCOUNT, REGION, "q"), later.call.request
    assert queue is not None
    left = Pending(later.call)
    start(give_back_taken(world.service, queue, identity, request, queue.group.term), left.finish)
    world.commit()
    assert left.is_done and left.error is None
    assert [message.body for message in later.result.messages] == ["a"]
    assert world.receive("q") == []
    assert not world.service.answering
