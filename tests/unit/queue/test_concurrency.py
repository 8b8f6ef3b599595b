"""Calls that overlap in every way: begun at any time, committed together or one by one.

Whatever the interleaving, counters equal a recount of what is stored, no message is in two hands,
deleted messages stay away, and nothing sent and not deleted is lost.
"""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fastnode import native
from fastnode.queue import api
from tests.world import ACCOUNT, REGION, Pending, World

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.sampled_from([None, None, 1])),
        st.tuples(st.just("receive"), st.integers(0, 2)),
        st.tuples(st.just("delete"), st.integers(0, 50)),
        st.tuples(st.just("change"), st.integers(0, 50)),
        st.tuples(st.just("poll"), st.just(0)),
        st.tuples(st.just("purge"), st.just(0)),
        st.tuples(st.just("let_go"), st.just(0)),
        st.tuples(st.just("commit"), st.just(0)),
        st.tuples(st.just("refuse"), st.just(0)),
        st.tuples(st.just("wait"), st.sampled_from([1, 700, 1_500])),
        st.tuples(st.just("crash"), st.just(0)),
    ),
    max_size=60,
)


class Clients:
    """Begins calls without waiting for any; knows what they were told."""

    def __init__(self) -> None:
        self.world = World()
        self.url = self.world.create()
        self.calls: list[tuple[str, Any, Pending]] = []
        self.sent = 0

    def begin(self, action: str, request: Any) -> None:
        self.calls.append((action, request, self.world.begin(action, request)))

    def handles(self) -> list[str]:
        return [message.receipt_handle for _, _, message in self.deliveries()]

    def deliveries(self) -> list[tuple[Any, Pending, api.Message]]:
        return [
            (request, call, message)
            for action, request, call in self.calls
            if action == "ReceiveMessage" and call.result is not None
            for message in call.result.messages
        ]

    def step(self, kind: str, number: int | None) -> None:
        getattr(self, f"do_{kind}")(number)

    def do_send(self, delay: int | None) -> None:
        self.sent += 1
        self.begin("SendMessage", api.SendMessageRequest(self.url, f"m{self.sent}", delay))

    def do_receive(self, timeout: int) -> None:
        request = api.ReceiveMessageRequest(
            self.url, max_number_of_messages=3, visibility_timeout=timeout
        )
        self.begin("ReceiveMessage", request)

    def do_poll(self, _number: int) -> None:
        request = api.ReceiveMessageRequest(self.url, visibility_timeout=1, wait_time_seconds=2)
        self.begin("ReceiveMessage", request)

    def do_delete(self, number: int) -> None:
        if handles := self.handles():
            handle = handles[number % len(handles)]
            self.begin("DeleteMessage", api.DeleteMessageRequest(self.url, handle))

    def do_change(self, number: int) -> None:
        if handles := self.handles():
            request = api.ChangeMessageVisibilityRequest(
                self.url, handles[number % len(handles)], number % 3
            )
            self.begin("ChangeMessageVisibility", request)

    def do_purge(self, _number: int) -> None:
        self.begin("PurgeQueue", api.PurgeQueueRequest(self.url))

    def do_let_go(self, _number: int) -> None:
        self.world.let_go()

    def do_commit(self, _number: int) -> None:
        self.world.commit()

    def do_refuse(self, _number: int) -> None:
        """The log is full: everything that was gathered fails."""
        self.world.refuse()

    def do_wait(self, milliseconds: int) -> None:
        self.world.advance(milliseconds)

    def do_crash(self, _number: int) -> None:
        """Who waits for a message when the node dies never hears of it again."""
        self.world.commit()
        self.calls = [each for each in self.calls if each[2].is_done]
        self.world.crash()


def recount(world: World) -> tuple[int, int, int]:
    """(messages, with a receive count, delayed), from the records themselves."""
    queue = world.service.find(ACCOUNT, REGION, "q")
    assert queue is not None
    keys = queue.messages
    rows = world.engine.scan(keys.state, native.prefix_end(keys.state), 10_000)
    states = [native.decode_state(value) for _, value in rows]
    received = sum(1 for state in states if state.receive_count)
    total = len(world.engine.scan_keys(keys.data, native.prefix_end(keys.data), 10_000))
    timers = len(world.engine.scan_keys(keys.timer, native.prefix_end(keys.timer), 10_000))
    assert timers == len(states), "every state has exactly one timer"
    return total, received, len(states) - received


@given(STEPS)
def test_overlapping_calls_leave_a_consistent_queue(steps: list[tuple[str, int | None]]) -> None:
    clients = Clients()
    world = clients.world
    for kind, number in steps:
        clients.step(kind, number)
    world.commit()
    world.advance(25_000)
    assert all(call.is_done for _, _, call in clients.calls)
    queue = world.service.find(ACCOUNT, REGION, "q")
    assert queue is not None
    stored = tuple(
        world.group.counter(key)
        for key in (queue.messages.total, queue.messages.in_flight, queue.messages.delayed)
    )
    assert stored == recount(world)
    # By now every timeout and delay has run out: all that is stored can be received, once.
    drained: list[str] = []
    while messages := world.receive(clients.url, timeout=3_600):
        drained += [message.body for message in messages]
    assert len(drained) == stored[0]
    assert not [body for body, times in Counter(drained).items() if times > 1]
    deleted = {
        message.body
        for _, request, call in clients.calls
        if isinstance(request, api.DeleteMessageRequest) and call.is_done and call.error is None
        for _, _, message in clients.deliveries()
        if message.receipt_handle == request.receipt_handle
    }
    assert deleted.isdisjoint(drained)
    if not any(kind == "purge" for kind, _ in steps):
        acknowledged = {
            request.message_body
            for _, request, call in clients.calls
            if isinstance(request, api.SendMessageRequest) and call.result is not None
        }
        assert acknowledged - deleted <= set(drained)
