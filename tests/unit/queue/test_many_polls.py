"""Polls by the hundred: each is woken once, in its turn, and none within another."""

from fastnode.flow import start
from fastnode.queue import api
from fastnode.queue.long_poll import Waiters
from tests.world import World

POLLS = 600


def test_polls_that_become_servable_at_once_are_all_served() -> None:
    world = World()
    url = world.create()
    for number in range(POLLS):
        world.send(url, f"m{number}", 5)
    request = api.ReceiveMessageRequest(url, max_number_of_messages=1, wait_time_seconds=20)
    polls = [world.begin("ReceiveMessage", request) for _ in range(POLLS)]
    world.advance(6_000)
    assert all(poll.is_done and poll.error is None for poll in polls)
    received = [message.body for poll in polls for message in poll.result.messages]
    assert received == [f"m{number}" for number in range(POLLS)]


def test_who_is_woken_while_another_wakes_comes_after_it() -> None:
    waiters = Waiters()
    log: list[str] = []

    async def poll(number: int) -> None:
        await waiters.join(number)
        log.append(f"{number} begins")
        waiters.wake_one()
        log.append(f"{number} ends")

    for number in range(3):
        start(poll(number), lambda _result, _error: None)
    waiters.wake_one()
    assert log == [f"{number} {what}" for number in range(3) for what in ("begins", "ends")]
    assert not waiters
