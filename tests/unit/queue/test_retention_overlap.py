"""Sweeps that overlap with every other call, crashes and a full log: what is expired goes once, and
nothing else goes.
"""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode import config
from fastnode.errors import OperationError
from fastnode.queue import api
from fastnode.queue.errors import SqsError
from tests.unit.queue.retention_world import (
    MINUTE,
    arrive,
    begin_sweep,
    counters,
    create,
    live,
    positions,
    recount,
    set_retention,
    start_sweeper,
)
from tests.world import Pending, World

# Each often enough that a history of this length has expired messages in every state, and seldom
# enough that crashes, purges and waits leave something to sweep.
STEP = st.one_of(
    st.tuples(st.just("send"), st.sampled_from([0, 0, 900])),
    st.tuples(st.just("send_batch"), st.integers(1, 10)),
    st.tuples(st.just("send_batch"), st.integers(1, 10)),
    st.tuples(st.just("arrive"), st.integers(0, 59)),
    st.tuples(st.just("receive"), st.sampled_from([0, 30, 3_600])),
    st.tuples(st.just("receive_one"), st.just(3_600)),
    st.tuples(st.just("delete"), st.integers(0, 50)),
    st.tuples(st.just("change"), st.integers(0, 50)),
    st.tuples(st.just("sweep"), st.just(0)),
    st.tuples(st.just("sweep"), st.just(0)),
    st.tuples(st.just("sweep"), st.just(0)),
    st.tuples(st.just("commit"), st.just(0)),
    st.tuples(st.just("commit"), st.just(0)),
    st.tuples(st.just("refuse"), st.just(0)),
    st.tuples(st.just("wait"), st.sampled_from([1, 1_000, 29_000, 31_000])),
    st.tuples(st.just("wait"), st.sampled_from([1, 1_000, 29_000, 31_000])),
    st.tuples(st.just("rarely"), st.integers(0, 8)),
)


class Clients:
    """Begins calls and sweeps without waiting for any; knows which messages must still be there."""

    def __init__(self) -> None:
        self.world = World()
        self.url = create(self.world)
        self.calls: list[tuple[str, Any, Pending]] = []
        self.sent_ms: dict[str, int] = {}
        self.may_be_gone: set[str] = set()
        self.retention_ms = MINUTE

    def begin(self, action: str, request: Any) -> Pending:
        pending = self.world.begin(action, request)
        self.calls.append((action, request, pending))
        return pending

    def messages(self) -> list[api.Message]:
        return [
            message
            for action, _, call in self.calls
            if action == "ReceiveMessage" and call.result is not None
            for message in call.result.messages
        ]

    def next_body(self) -> str:
        body = f"m{len(self.sent_ms)}"
        self.sent_ms[body] = self.world.now_ms
        return body

    def notice_expiry(self) -> None:
        now_ms = self.world.now_ms
        self.may_be_gone |= {
            body for body, sent in self.sent_ms.items() if sent + self.retention_ms <= now_ms
        }

    def do_send(self, delay: int) -> None:
        self.begin("SendMessage", api.SendMessageRequest(self.url, self.next_body(), delay))

    def do_send_batch(self, count: int) -> None:
        entries = [api.SendMessageBatchRequestEntry(str(n), self.next_body()) for n in range(count)]
        self.begin("SendMessageBatch", api.SendMessageBatchRequest(self.url, entries))

    def do_receive(self, timeout: int, limit: int = 5) -> None:
        request = api.ReceiveMessageRequest(
            self.url, max_number_of_messages=limit, visibility_timeout=timeout
        )
        self.begin("ReceiveMessage", request)

    def do_receive_one(self, timeout: int) -> None:
        self.do_receive(timeout, 1)

    def do_delete(self, number: int) -> None:
        if messages := self.messages():
            message = messages[number % len(messages)]
            self.may_be_gone.add(message.body or "")
            request = api.DeleteMessageRequest(self.url, message.receipt_handle)
            self.begin("DeleteMessage", request)

    def do_change(self, number: int) -> None:
        if messages := self.messages():
            handle = messages[number % len(messages)].receipt_handle
            request = api.ChangeMessageVisibilityRequest(self.url, handle, number % 3 * 40)
            self.begin("ChangeMessageVisibility", request)

    def do_sweep(self, _number: int) -> None:
        self.calls.append(("sweep", None, begin_sweep(self.world)))

    def do_arrive(self, age_seconds: int) -> None:
        self.world.commit()
        arrive(self.world, self.world.now_ms - age_seconds * 1_000, self.next_body())
        self.may_be_gone.add(f"m{len(self.sent_ms) - 1}")

    def do_rarely(self, number: int) -> None:
        kinds = {0: self.do_purge, 1: self.do_crash, 2: self.do_retention, 3: self.do_retention}
        kinds.get(number, self.do_commit)(60 * (number - 1))

    def do_retention(self, seconds: int) -> None:
        self.world.commit()
        set_retention(self.world, self.url, seconds)
        self.retention_ms = seconds * 1_000
        self.notice_expiry()

    def do_purge(self, _number: int) -> None:
        self.may_be_gone |= set(self.sent_ms)
        self.begin("PurgeQueue", api.PurgeQueueRequest(self.url))

    def do_commit(self, _number: int) -> None:
        self.world.commit()

    def do_refuse(self, _number: int) -> None:
        self.world.refuse()

    def do_wait(self, milliseconds: int) -> None:
        self.world.advance(milliseconds)
        self.notice_expiry()

    def do_crash(self, _number: int) -> None:
        self.world.commit()
        self.calls = [each for each in self.calls if each[2].is_done]
        self.world.crash()

    def acknowledged(self) -> set[str]:
        bodies: set[str] = set()
        for _, request, call in self.calls:
            if call.result is None:
                continue
            if isinstance(request, api.SendMessageRequest):
                bodies.add(request.message_body or "")
            if isinstance(request, api.SendMessageBatchRequest):
                bodies |= {entry.message_body or "" for entry in request.entries or []}
        return bodies


@given(st.lists(STEP, min_size=10, max_size=80))
def test_sweeps_overlap_with_everything(steps: list[tuple[str, int]]) -> None:
    # A page and a transaction of a few messages: the walks begin and end everywhere.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "SWEEP_MESSAGES", 3)
        patch.setattr(config, "READ_AHEAD_MESSAGES", 4)
        clients = Clients()
        for kind, number in steps:
            getattr(clients, f"do_{kind}")(number)
        check_outcome(clients)


def check_outcome(clients: Clients) -> None:
    world = clients.world
    world.commit()
    for _, _, call in clients.calls:
        assert call.is_done
        assert call.error is None or isinstance(call.error, OperationError | SqsError)
    assert counters(world) == recount(world)
    sweeper = start_sweeper(world)
    clients.do_wait(3_000)
    sweeper.stop()
    assert live(world).is_idle
    assert counters(world) == recount(world)
    oldest_ms = min((position >> 32 for position in positions(world)), default=world.now_ms)
    assert oldest_ms + clients.retention_ms + 2 * config.SWEEP_INTERVAL_MS > world.now_ms
    # By then every timeout and delay has run out: all that is stored can be received, once.
    set_retention(world, clients.url, 1_209_600)
    world.advance(13 * 3_600_000)
    drained: list[str] = []
    while messages := world.receive(clients.url, timeout=43_200):
        drained += [message.body or "" for message in messages]
    assert not [body for body, times in Counter(drained).items() if times > 1]
    assert len(drained) == recount(world)[0]
    assert clients.acknowledged() - clients.may_be_gone <= set(drained)
