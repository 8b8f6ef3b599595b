"""The short way of a forwarded send: it answers as the handler does, or leaves the call alone."""

from typing import Any

import pytest

from fastnode.cluster.plain_send import begin_plain_send
from fastnode.errors import DiskFull
from fastnode.queue import api
from fastnode.queue.api import SendMessageRequest
from fastnode.queue.caller import Call, Caller
from tests.world import ACCOUNT, ENDPOINT, REGION, Pending, World


class Traced(Call):
    trace_header = "Root=1"


def fifo_send(url: str) -> SendMessageRequest:
    return SendMessageRequest(url, "x", message_group_id="g", message_deduplication_id="1")


class Short:
    """A world with one queue of each kind, and how a send by the short way ended."""

    def __init__(self) -> None:
        self.world = World()
        self.url = self.world.create(MaximumMessageSize="1024")
        self.late = self.world.create("late", DelaySeconds="5")
        self.ordered = self.world.create("o.fifo", FifoQueue="true")
        self.world.send(self.url, "first")
        # In memory, as those are that somebody uses.
        self.world.send(self.late, "first")
        self.world.call("SendMessage", fifo_send(self.ordered))
        self.plans = 0

    def begin(self, request: Any, account: str = ACCOUNT, kind: type[Call] = Call) -> Pending:
        call = kind(Caller(account, REGION, ENDPOINT, "AIDA"), "SendMessage", "request")
        pending = Pending(call)
        taken = begin_plain_send(self.world.service, call, request, pending.finish, self._plan)
        pending.is_done = not taken
        return pending

    def _plan(self) -> None:
        self.plans += 1


def test_it_answers_and_stores_as_the_handler_does() -> None:
    short, plain = Short(), Short()
    pending = short.begin(SendMessageRequest(short.url, "häh"))
    assert not pending.is_done, "an answer before the message is durable"
    short.world.commit()
    expected = plain.world.call("SendMessage", SendMessageRequest(plain.url, "häh"))
    assert pending.is_done and pending.error is None
    assert pending.result == expected
    assert short.world.engine.scan(b"", b"\xff" * 9, 99) == plain.world.engine.scan(
        b"", b"\xff" * 9, 99
    )


def test_the_memory_of_the_queue_learns_of_the_message() -> None:
    short = Short()
    short.world.receive(short.url)
    waiting = short.world.begin(
        "ReceiveMessage", api.ReceiveMessageRequest(short.url, wait_time_seconds=20)
    )
    short.begin(SendMessageRequest(short.url, "second"))
    short.world.commit()
    assert waiting.is_done and waiting.result.messages[0].body == "second"


def test_what_it_cannot_take_is_left_alone() -> None:
    short = Short()
    url = short.url
    text = api.MessageAttributeValue(data_type="String", string_value="x")
    left = [
        short.begin(SendMessageRequest(url, "")),
        short.begin(SendMessageRequest(url, None)),
        short.begin(SendMessageRequest(url, "x" * 1025)),
        short.begin(SendMessageRequest(url, "bad \x00")),
        short.begin(SendMessageRequest(url, "x", delay_seconds=1)),
        short.begin(SendMessageRequest(url, "x", message_attributes={"a": text})),
        short.begin(SendMessageRequest(url, "x", message_group_id="tenant")),
        short.begin(SendMessageRequest(url + "absent", "x")),
        short.begin(SendMessageRequest(None, "x")),
        short.begin(SendMessageRequest(short.late, "x")),
        short.begin(fifo_send(short.ordered)),
        short.begin(SendMessageRequest(short.ordered, "x")),
        short.begin(SendMessageRequest(url, "x"), account="123456789012"),
        short.begin(SendMessageRequest(url, "x"), kind=Traced),
        short.begin(api.DeleteMessageRequest(url, "x")),
    ]
    assert [pending.is_done for pending in left] == [True] * len(left)
    assert short.world.group.gathered_count == 0


@pytest.mark.parametrize("why", ["room", "purge"])
def test_it_waits_for_nothing(why: str) -> None:
    short = Short()
    if why == "room":
        short.world.group.accepts_messages = False
    else:
        short.world.begin("PurgeQueue", api.PurgeQueueRequest(short.url))
    gathered = short.world.group.gathered_count
    assert short.begin(SendMessageRequest(short.url, "x")).is_done
    assert short.world.group.gathered_count == gathered


def test_a_failure_is_told() -> None:
    short = Short()
    pending = short.begin(SendMessageRequest(short.url, "x"))
    short.world.refuse()
    assert isinstance(pending.error, DiskFull) and not short.plans


def test_a_plan_that_was_overtaken_is_left_to_the_handler() -> None:
    short = Short()
    world = short.world
    pending = short.begin(SendMessageRequest(short.url, "x"))
    entry = world.group.take_entry()
    assert entry is not None
    world.call("PurgeQueue", api.PurgeQueueRequest(short.url))
    world.logs[0].append(entry)
    world.group.commit(1 + len(world.logs[0]), 1, [entry])
    assert world.group.apply()
    assert short.plans == 1 and not pending.is_done
