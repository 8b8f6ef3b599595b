"""Many queues whose consumers stay away share one bound of what they keep in memory."""

import pytest

from fastnode import config
from fastnode.queue import api
from fastnode.queue.read_ahead import ReadAhead
from fastnode.queue.waiting import Waiting
from tests.unit.queue.fifo_world import FifoWorld
from tests.world import World

ALL_BYTES = 20_000
ONE_BYTES = 4_000
QUEUES = 12
MESSAGES = 20
BODY = "x" * 200


@pytest.fixture(autouse=True)
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "READ_AHEAD_ALL_BYTES", ALL_BYTES)
    monkeypatch.setattr(config, "READ_AHEAD_BYTES", ONE_BYTES)


def kept_bytes(world: World) -> int:
    queues = world.service.live_queues()
    return sum(keeper.kept_bytes for queue in queues for keeper in queue.keepers)


def deserted(world: World) -> list[str]:
    """Queues whose consumers have seen their end once, and then went away."""
    urls = [world.create(f"q{number}") for number in range(QUEUES)]
    for url in urls:
        assert world.receive(url) == []
    return urls


def fill(world: World, urls: list[str]) -> int:
    """The most that was kept at any time."""
    most = 0
    for number in range(MESSAGES):
        for url in urls:
            world.send(url, f"{number} {BODY}")
            most = max(most, kept_bytes(world))
    return most


def bodies(world: World, url: str) -> list[str]:
    return [message.body.partition(" ")[0] for message in world.receive(url, timeout=600)]


def test_together_they_keep_no_more_than_there_is_room() -> None:
    world = World()
    urls = deserted(world)
    most = fill(world, urls)
    assert ALL_BYTES // 4 < most <= ALL_BYTES + ONE_BYTES
    for url in urls:
        assert bodies(world, url) == [str(number) for number in range(10)]
        assert kept_bytes(world) <= ALL_BYTES + ONE_BYTES
    for url in urls:
        assert bodies(world, url) == [str(number) for number in range(10, MESSAGES)]
        assert bodies(world, url) == []


def test_fifo_queues_keep_no_more_either() -> None:
    world, most = FifoWorld(), 0
    urls = [f"q{number}.fifo" for number in range(QUEUES)]
    for url in urls:
        world.create_fifo(url)
    for number in range(MESSAGES):
        for url in urls:
            world.put("g", f"{number} {BODY}", url=url)
            most = max(most, kept_bytes(world))
    assert ALL_BYTES // 4 < most <= ALL_BYTES + ONE_BYTES
    for url in urls:
        seen = [body.partition(" ")[0] for body in world.got(timeout=600, url=url)]
        assert seen == [str(number) for number in range(10)]
        assert kept_bytes(world) <= ALL_BYTES + ONE_BYTES


def test_a_receive_under_way_finds_its_queue_as_it_was() -> None:
    world = World()
    busy = world.create("busy")
    for number in range(MESSAGES):
        world.send(busy, f"{number} {BODY}")
    request = api.ReceiveMessageRequest(busy, max_number_of_messages=5, visibility_timeout=600)
    failing = world.begin("ReceiveMessage", request)
    world.let_go()
    world.refuse()
    assert failing.error is not None
    fill(world, deserted(world))
    seen: list[str] = []
    while more := bodies(world, busy):
        seen += more
    assert seen == [str(number) for number in range(MESSAGES)]


def test_what_nobody_can_let_go_of_is_not_asked_for_with_every_message() -> None:
    looks: list[int] = []
    held: list[Waiting] = []

    def keepers() -> list[Waiting]:
        looks.append(len(held))
        return held

    read_ahead = ReadAhead(keepers)
    for _ in range(QUEUES):
        waiting = Waiting(0, read_ahead)
        waiting.load([], [], is_last=True)
        waiting.claim(0)
        held.append(waiting)
        for position in range(1, 4 * MESSAGES):
            waiting.append(position, BODY.encode())
    kept = sum(waiting.kept_bytes for waiting in held)
    assert kept > ALL_BYTES
    assert len(looks) <= 3 * kept // ONE_BYTES
