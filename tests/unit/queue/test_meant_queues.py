"""The queue that a URL means is found again at once, and never one that is gone or another's."""

import pytest

from fastnode import config
from fastnode.queue import api
from fastnode.queue.caller import Caller
from fastnode.queue.live import LiveQueue
from tests.world import ACCOUNT, ENDPOINT, REGION, World

OTHER = "111122223333"


def caller(account: str = ACCOUNT, region: str = REGION) -> Caller:
    return Caller(account, region, ENDPOINT, "AIDA")


def found(world: World, url: str, by: Caller | None = None) -> LiveQueue | None:
    """Twice, since the second look may take a shorter way."""
    who = by or caller()
    first = world.service.live_queue(who, url)
    assert world.service.live_queue(who, url) is first
    assert world.service.live_queue(caller(who.account, who.region), url) is first
    return first


def test_a_queue_that_is_created_again_is_another() -> None:
    world = World()
    url = world.create("q")
    world.send(url, "A")
    old = found(world, url)
    assert old is not None
    world.call("DeleteQueue", api.DeleteQueueRequest(url))
    assert found(world, url) is None
    assert world.create("q") == url
    world.send(url, "B")
    new = found(world, url)
    assert new is not None and new is not old


def test_a_name_without_an_account_means_each_callers_own() -> None:
    world = World()
    for account in (ACCOUNT, OTHER):
        world.call("CreateQueue", api.CreateQueueRequest("q"), account)
        world.call("SendMessage", api.SendMessageRequest("q", account), account)
    for account in (ACCOUNT, OTHER, ACCOUNT):
        queue = found(world, "q", caller(account))
        assert queue is not None and queue.account == account
    assert found(world, "q", caller(region="eu-west-1")) is None


def test_a_queue_of_another_account_is_left_to_the_long_way() -> None:
    world = World()
    url = world.create("q")
    world.send(url, "A")
    assert found(world, url) is not None
    assert found(world, url, caller(OTHER)) is None


def test_queues_whose_group_is_led_elsewhere_are_not_found() -> None:
    world = World()
    url = world.create("q")
    world.send(url, "A")
    assert found(world, url) is not None
    world.group.change_role("follower", 2)
    assert found(world, url) is None


def test_a_queue_that_left_memory_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "LIVE_QUEUES_MAX", 2)
    world = World()
    urls = [world.create(f"q{number}") for number in range(3)]
    for url in urls:
        world.send(url, "A")
        assert found(world, url) is not None
    assert found(world, urls[0]) is None


def test_urls_are_remembered_up_to_a_number_and_a_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "RESOLVED_URLS_MAX", 3)
    world = World()
    for number in range(9):
        url = world.create(f"q{number}")
        world.send(url, "A")
        assert found(world, url) is not None
        assert len(world.service._meant) <= len(world.service._resolved) <= 3
    long = f"http://{'x' * config.RESOLVED_URL_LENGTH_MAX}/{ACCOUNT}/q1"
    world.send(long, "B")
    assert long not in world.service._resolved
