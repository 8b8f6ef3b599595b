"""The node that took a call repeats it when its outcome is lost with a leader; nobody else does."""

import itertools
import json
import logging
from typing import Any

import pytest

from fastnode import config
from fastnode.cluster.courier import FORWARDED
from fastnode.http.identity import IdentitySettings
from fastnode.http.router import Router
from fastnode.queue.operations import OPERATIONS
from tests.unit.cluster.cluster_world import ClusterWorld
from tests.unit.http.http_fakes import Node
from tests.unit.queue.repeats_front import Asked, request_bytes, sdk, url_of
from tests.world import ENDPOINT

SURVIVES = pytest.mark.parametrize("survives", [True, False], ids=["lands late", "never lands"])
UNKNOWN = b"it may have taken effect"


class Owner:
    """A client at node 1. The queue's group is led by node 2, or by whom the test says."""

    def __init__(self, leader: int = 2) -> None:
        self.world = ClusterWorld(nodes=3, groups=1)
        self.world.lead(0, leader)
        self.world.create(1, "q")
        self.node = self.world.nodes[1]
        numbers = itertools.count(1)
        self.router = Router(
            *(OPERATIONS, self.node.service, IdentitySettings("us-east-1", ENDPOINT)),
            lambda: f"request-{next(numbers)}",
            logging.getLogger("fastnode.test"),
            handle=self.node.dispatcher.handle,
        )
        # Its client is known, and the queue live: what can take the short way does.
        self.begin("GetQueueAttributes", {})
        self.world.link(1, 2).arrived.clear()

    def begin(self, action: str, members: dict[str, Any], *headers: str) -> Asked:
        node = Node()
        node.server.respond = self.router.respond
        self.connection, transport = node.connect()
        body = json.dumps({"QueueUrl": url_of("q")} | members).encode()
        target = f"X-Amz-Target: AmazonSQS.{action}"
        content_type = "application/x-amz-json-1.0"
        self.connection.data_received(request_bytes(content_type, body, "AKID", target, *headers))
        self.world.settle()
        return Asked(transport)

    def begin_stuck(self, action: str, members: dict[str, Any], *headers: str) -> Asked:
        """Its leader has it in its log, and gets no further."""
        self.world.stuck.add(0)
        asked = self.begin(action, members, *headers)
        assert not asked.is_answered
        return asked

    def change_leader(self, node: int, *, survives: bool, is_stuck: bool = False) -> None:
        if not is_stuck:
            self.world.stuck.discard(0)
        self.world.lead(0, node, survives=survives)

    def forwarded(self, node: int) -> int:
        """How many calls have arrived there from node 1."""
        return self.world.link(1, node).arrived.count(FORWARDED)

    @property
    def repeated(self) -> list[int]:
        return [node.service.gates.repeated for node in self.world.nodes.values()]


SEND = "SendMessage", {"MessageBody": "m"}
BATCH = (
    "SendMessageBatch",
    {"Entries": [{"Id": f"e{n}", "MessageBody": f"m{n}"} for n in range(10)]},
)
SENDS = pytest.mark.parametrize("call", [SEND, BATCH], ids=["single", "batch"])
SDK = pytest.mark.parametrize("headers", [(), tuple(sdk("one", 1))], ids=["plain", "sdk"])
Call = tuple[str, dict[str, Any]]


@SENDS
@SDK
@SURVIVES
@pytest.mark.parametrize("leader", [1, 3])
def test_a_send_whose_leader_was_lost_is_stored_once(
    call: Call, headers: tuple[str, ...], survives: bool, leader: int
) -> None:
    owner = Owner()
    asked = owner.begin_stuck(*call, *headers)
    owner.change_leader(leader, survives=survives)
    answer = asked.answer
    assert answer.status == 200
    told = answer.json.get("Successful", [answer.json])
    stored = owner.world.receive(1, "q")
    assert {one["MessageId"] for one in told} == {message.message_id for message in stored}
    assert len(stored) == len(told)
    assert owner.repeated == [1, 0, 0]
    assert owner.forwarded(2) == 1


@SENDS
@SDK
@SURVIVES
@pytest.mark.parametrize("leader", [2, 3])
def test_an_owner_that_has_lost_the_lead_asks_the_next_leader(
    call: Call, headers: tuple[str, ...], survives: bool, leader: int
) -> None:
    owner = Owner(leader=1)
    asked = owner.begin_stuck(*call, *headers)
    owner.change_leader(leader, survives=survives)
    answer = asked.answer
    assert answer.status == 200
    told = answer.json.get("Successful", [answer.json])
    stored = owner.world.receive(1, "q")
    assert {one["MessageId"] for one in told} == {message.message_id for message in stored}
    assert len(stored) == len(told)
    assert owner.repeated == [1, 0, 0]


@SURVIVES
def test_a_second_leader_may_be_lost_too(survives: bool) -> None:
    owner = Owner()
    asked = owner.begin_stuck(*SEND)
    owner.change_leader(3, survives=False, is_stuck=True)
    assert not asked.is_answered
    owner.change_leader(2, survives=survives)
    assert asked.answer.status == 200
    assert owner.world.counts(1, "q") == (1, 0, 0)
    assert owner.repeated == [2, 0, 0]


def test_leaders_that_are_lost_again_and_again_are_not_asked_for_ever() -> None:
    owner = Owner()
    asked = owner.begin_stuck(*SEND)
    changes = 0
    while not asked.is_answered:
        owner.change_leader(3 - changes % 2, survives=False, is_stuck=True)
        changes += 1
    assert changes == config.PLANS_MAX
    assert asked.answer.status == 503 and UNKNOWN in asked.answer.body


@SURVIVES
def test_a_link_that_breaks_before_the_answer_costs_nothing(survives: bool) -> None:
    """The leader lives and may have stored it; the owner finds out when the link is back."""
    owner = Owner()
    link = owner.world.link(1, 2)
    if survives:
        link.are_answers_held = True
        asked = owner.begin(*SEND)
    else:
        link.is_held = True
        asked = owner.begin(*SEND)
    owner.world.cut(1, 2, is_written=True)
    assert not asked.is_answered
    owner.world.mend(1, 2)
    assert asked.answer.status == 200
    assert owner.world.counts(1, "q") == (1, 0, 0)


@SDK
def test_with_the_gate_closed_it_is_not_repeated(headers: tuple[str, ...]) -> None:
    owner = Owner()
    owner.node.service.gates.repeats_calls = False
    asked = owner.begin_stuck(*SEND, *headers)
    owner.change_leader(3, survives=True)
    assert asked.answer.status == 503 and UNKNOWN in asked.answer.body
    assert owner.repeated == [0, 0, 0]
    again = owner.begin(*SEND, *(sdk("one", 2) if headers else ()))
    assert again.answer.status == 200
    # A client that says so is known; of another nobody can tell that it is the same.
    assert owner.world.counts(1, "q") == (1 if headers else 2, 0, 0)


def test_nobody_leads_any_more_and_it_may_have_taken_effect() -> None:
    owner = Owner()
    asked = owner.begin_stuck(*SEND)
    owner.world.depose(0)
    owner.world.advance(10_000)
    assert asked.answer.status == 503 and UNKNOWN in asked.answer.body


@pytest.mark.parametrize("leader", [1, 2])
@pytest.mark.parametrize("members", [{}, {"DelaySeconds": 1}], ids=["short", "general"])
def test_nothing_is_repeated_for_a_client_that_has_gone(
    leader: int, members: dict[str, Any]
) -> None:
    owner = Owner(leader)
    owner.begin_stuck("SendMessage", {"MessageBody": "m"} | members)
    owner.connection.connection_lost(None)
    owner.change_leader(3, survives=False)
    assert owner.repeated == [0, 0, 0]
    assert owner.world.counts(1, "q") == (0, 0, 0)


@SURVIVES
def test_a_receive_whose_leader_was_lost_gives_what_it_took(survives: bool) -> None:
    owner = Owner()
    owner.world.send(1, "q", "m")
    asked = owner.begin_stuck("ReceiveMessage", {})
    owner.change_leader(3, survives=survives)
    assert [message["Body"] for message in asked.answer.json["Messages"]] == ["m"]
    assert owner.world.counts(1, "q") == (0, 1, 0)
    handle = asked.answer.json["Messages"][0]["ReceiptHandle"]
    owner.world.delete(1, "q", handle)
    assert owner.world.counts(1, "q") == (0, 0, 0)


def test_a_long_poll_whose_leader_cannot_be_reached_looks_once_at_the_next() -> None:
    owner = Owner()
    asked = owner.begin("ReceiveMessage", {"WaitTimeSeconds": 20})
    assert not asked.is_answered
    owner.world.cut(1, 2)
    assert not asked.is_answered
    owner.change_leader(3, survives=True)
    assert asked.answer.status == 200
    assert not asked.answer.json.get("Messages")


@SURVIVES
def test_a_delete_whose_leader_was_lost_is_done_once(survives: bool) -> None:
    owner = Owner()
    owner.world.send(1, "q", "m")
    (message,) = owner.world.receive(1, "q")
    asked = owner.begin_stuck("DeleteMessage", {"ReceiptHandle": message.receipt_handle})
    owner.change_leader(3, survives=survives)
    assert asked.answer.status == 200
    assert owner.world.counts(1, "q") == (0, 0, 0)
