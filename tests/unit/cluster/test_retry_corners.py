"""Retries in corners that the product of all interleavings does not reach: more than two attempts,
two at once, other calls with the same timestamp, answers that nobody can give, gates that are off.
"""

from typing import Any

import pytest

from fastnode import config
from fastnode.queue import api
from tests.unit.cluster.cluster_world import receive_request
from tests.unit.cluster.retry_world import Client, RetryWorld, posted
from tests.world import ACCOUNT, ENDPOINT

URL = f"{ENDPOINT}/{ACCOUNT}/q"
LEADER, OTHER, NEXT = 1, 2, 3


@pytest.fixture
def world() -> RetryWorld:
    world = RetryWorld(1)
    world.lead_as([LEADER])
    world.create(LEADER, "q", MaximumMessageSize="4096")
    return world


def sending(body: str = "m", invocation: str = "", attempt: int = 1) -> bytes:
    members = {"QueueUrl": URL, "MessageBody": body}
    return posted("SendMessage", members, invocation, attempt)


def stored(world: RetryWorld) -> dict[str, list[str]]:
    """The ids of the messages that are there, by body. They are in flight then."""
    found: dict[str, list[str]] = {}
    while messages := world.receive(world.leaders[0], URL, 10, 600):
        for message in messages:
            found.setdefault(message.body, []).append(message.message_id)
    return found


def told(client: Client) -> str:
    assert client.status == 200, client.answer
    message_id: str = client.answer["MessageId"]
    return message_id


# --- timestamps --------------------------------------------------------------------------------


def test_two_leaders_that_issue_the_same_timestamp_are_not_confused(world: RetryWorld) -> None:
    """One stamps a call that does not land, the next another call that does, both alike."""
    world.hold_back()
    world.cut_off(LEADER)
    first = world.ask(LEADER, sending("first"))
    lost = world.nodes[LEADER].groups[0]._stamped
    held = world.take_away()
    world.lead(0, NEXT)
    other = world.ask(NEXT, sending("other"))
    assert world.nodes[NEXT].groups[0]._stamped == lost
    assert not first.is_answered
    world.reconnect(LEADER)
    world.deliver_late(held)
    assert stored(world) == {"first": [told(first)], "other": [told(other)]}
    assert told(first) != told(other)
    assert world.are_replicas_equal()


def test_a_late_first_attempt_with_a_later_timestamp_is_known(world: RetryWorld) -> None:
    world.hurry(LEADER, 5_000)
    world.hold_back()
    world.ask(LEADER, sending("m", "call")).close()
    held = world.take_away()
    world.lead(0, NEXT)
    second = world.ask(OTHER, sending("m", "call", 2))
    world.deliver_late(held)
    assert stored(world) == {"m": [told(second)]}
    assert world.are_replicas_equal()


# --- more attempts -----------------------------------------------------------------------------


@pytest.mark.parametrize("lands", [False, True])
def test_two_rounds_of_reuse_end_with_one_message(world: RetryWorld, lands: bool) -> None:
    """The first attempt does not land, the second one does or does not; nobody is told."""
    world.hold_back()
    sent = world.ask(LEADER, sending())
    world.lead(0, NEXT, survives=False)
    assert any(world.taken), "the second attempt is on its way"
    world.lead(0, OTHER, survives=lands)
    assert sent.is_answered == lands
    world.commit()
    assert world.nodes[LEADER].service.gates.repeated == 2
    assert stored(world) == {"m": [told(sent)]}
    assert world.are_replicas_equal()


def test_every_attempt_of_a_client_is_told_the_same(world: RetryWorld) -> None:
    answers = []
    for attempt, node in enumerate((LEADER, OTHER, NEXT, LEADER), start=1):
        answers.append(told(world.ask(node, sending("m", "call", attempt))))
        world.lead(0, attempt % 3 + 1)
    assert len(set(answers)) == 1
    assert stored(world) == {"m": [answers[0]]}


def test_another_body_is_another_call(world: RetryWorld) -> None:
    first = told(world.ask(LEADER, sending("m", "call")))
    second = told(world.ask(LEADER, sending("n", "call", 2)))
    assert stored(world) == {"m": [first], "n": [second]}


def test_what_was_consumed_is_told_and_not_stored_again(world: RetryWorld) -> None:
    first = told(world.ask(LEADER, sending("m", "call")))
    assert world.drain(LEADER, URL) == ["m"]
    assert told(world.ask(OTHER, sending("m", "call", 2))) == first
    assert stored(world) == {}


# --- two at once -------------------------------------------------------------------------------


@pytest.mark.parametrize("node", [LEADER, OTHER])
def test_of_two_attempts_at_once_the_second_waits_for_the_first(
    world: RetryWorld, node: int
) -> None:
    world.hold_back()
    first = world.ask(LEADER, sending("m", "call"))
    second = world.ask(node, sending("m", "call", 2))
    assert not first.is_answered and not second.is_answered
    assert sum(map(len, world.taken)) == 1, "only one of them is in the log"
    world.commit()
    assert stored(world) == {"m": [told(first)]}
    assert told(second) == told(first)


# --- nobody can say ----------------------------------------------------------------------------


def test_an_attempt_that_waits_too_long_for_another_says_503(world: RetryWorld) -> None:
    """Whether the first lands nobody knows yet: no success, no failure."""
    world.hold_back()
    first = world.ask(LEADER, sending("m", "call"))
    second = world.ask(LEADER, sending("m", "call", 2))
    world.advance(round(config.LATCH_SECONDS * 1000) + 1_000)
    assert second.status == 503
    assert sum(map(len, world.taken)) == 1
    world.commit()
    third = world.ask(OTHER, sending("m", "call", 3))
    assert stored(world) == {"m": [told(first)]}
    assert told(third) == told(first)


def test_without_a_leader_a_repeated_call_is_told_503_and_that_it_may_have_landed(
    world: RetryWorld,
) -> None:
    world.hold_back()
    sent = world.ask(LEADER, sending())
    world.stuck.clear()
    world.depose(0)
    assert not sent.is_answered
    world.advance(60_000)
    assert sent.status == 503
    assert "may have taken effect" in str(sent.answer)
    world.lead(0, NEXT)
    assert len(stored(world)["m"]) == 1


def test_without_a_leader_a_first_attempt_is_told_503_and_writes_nothing(
    world: RetryWorld,
) -> None:
    world.depose(0)
    sent = world.ask(OTHER, sending())
    world.advance(60_000)
    assert sent.status == 503
    world.lead(0, NEXT)
    assert stored(world) == {}


def test_a_leader_that_cannot_be_reached_gives_no_false_answer(world: RetryWorld) -> None:
    """The call was delivered; what became of it cannot be asked any more."""
    world.hold_answers(OTHER)
    sent = world.ask(OTHER, sending())
    world.cut_off(OTHER)
    world.advance(60_000)
    assert sent.status == 503
    assert len(stored(world)["m"]) == 1


# --- who repeats -------------------------------------------------------------------------------


def test_a_node_that_carries_out_a_call_never_repeats_it(world: RetryWorld) -> None:
    """The owner does, once it can."""
    world.hold_back()
    sent = world.ask(OTHER, sending())
    world.mute(OTHER)
    world.cut_off(OTHER)
    world.lead(0, NEXT, survives=False)
    world.stuck.clear()
    world.settle()
    assert world.counts(NEXT, URL) == (0, 0, 0)
    assert world.nodes[LEADER].service.gates.repeated == 0
    world.unmute(OTHER)
    world.reconnect(OTHER)
    assert stored(world) == {"m": [told(sent)]}


def test_a_call_whose_frame_is_lost_is_sent_again(world: RetryWorld) -> None:
    """Nobody knows whether it was read: that is for the identity to tell."""
    world.link(OTHER, LEADER).is_held = True
    sent = world.ask(OTHER, sending())
    world.cut_off(OTHER)
    assert not sent.is_answered
    world.reconnect(OTHER)
    assert stored(world) == {"m": [told(sent)]}


# --- gates -------------------------------------------------------------------------------------


def close_gates(world: RetryWorld) -> None:
    for node in world.nodes.values():
        node.service.gates.repeats_calls = False
        node.service.gates.recognises_retries = False


def test_with_the_gates_off_a_client_that_repeats_stores_twice(world: RetryWorld) -> None:
    close_gates(world)
    answers = [told(world.ask(LEADER, sending("m", "call", attempt))) for attempt in (1, 2)]
    assert sorted(stored(world)["m"]) == sorted(answers)
    assert len(set(answers)) == 2


@pytest.mark.parametrize("survives", [True, False])
def test_with_the_gates_off_an_unknown_end_is_told_and_not_repeated(
    world: RetryWorld, survives: bool
) -> None:
    close_gates(world)
    world.hold_back()
    sent = world.ask(LEADER, sending())
    world.lead(0, NEXT, survives=survives)
    world.commit()
    assert sent.status == 503
    assert "may have taken effect" in str(sent.answer)
    assert len(stored(world).get("m", [])) == survives


# --- replicas ----------------------------------------------------------------------------------


def test_a_replica_that_comes_late_decides_as_the_others_did(world: RetryWorld) -> None:
    world.lagging.add(OTHER)
    world.hold_back()
    world.ask(LEADER, sending("m", "call")).close()
    held = world.take_away()
    world.lead(0, NEXT)
    told(world.ask(LEADER, sending("m", "call", 2)))
    world.deliver_late(held)
    assert not world.are_replicas_equal()
    world.lagging.clear()
    world.settle()
    assert world.are_replicas_equal()
    world.lead(0, OTHER)
    again = world.ask(LEADER, sending("m", "call", 3))
    assert stored(world) == {"m": [told(again)]}


# --- batches and receives ----------------------------------------------------------------------


def test_a_refused_entry_stays_refused_when_limits_are_raised(world: RetryWorld) -> None:
    """A batch lands once. What it has refused then, a new call may send."""
    bodies = {"a": "x", "b": "y" * 5_000, "c": "z"}
    entries = [{"Id": each, "MessageBody": body} for each, body in bodies.items()]
    members = {"QueueUrl": URL, "Entries": entries}
    first = world.ask(LEADER, posted("SendMessageBatch", members, "call"))
    world.call(LEADER, "SetQueueAttributes", _attributes(MaximumMessageSize="8192"))
    second = world.ask(OTHER, posted("SendMessageBatch", members, "call", 2))
    results = [_results(client) for client in (first, second)]
    assert results[0] == results[1]
    assert sorted(results[0][0]) == ["a", "c"] and results[0][1] == ["b"]
    assert sorted(stored(world)) == ["x", "z"]


def test_a_receive_that_is_repeated_when_its_messages_are_visible_again_is_a_new_one(
    world: RetryWorld,
) -> None:
    world.send(LEADER, URL, "m")
    members = {"QueueUrl": URL, "VisibilityTimeout": 10, "AttributeNames": ["All"]}
    first = world.ask(LEADER, posted("ReceiveMessage", members, "call"))
    world.advance(11_000)
    second = world.ask(OTHER, posted("ReceiveMessage", members, "call", 2))
    third = world.ask(NEXT, posted("ReceiveMessage", members, "call", 3))
    handles = [each.answer["Messages"][0]["ReceiptHandle"] for each in (first, second, third)]
    assert handles[0] != handles[1] == handles[2]
    count = third.answer["Messages"][0]["Attributes"]["ApproximateReceiveCount"]
    assert count == "2"


def test_a_receive_of_nothing_may_find_something_when_it_is_repeated(world: RetryWorld) -> None:
    members = {"QueueUrl": URL}
    first = world.ask(LEADER, posted("ReceiveMessage", members, "call"))
    assert not first.answer.get("Messages")
    world.send(LEADER, URL, "m")
    second = world.ask(LEADER, posted("ReceiveMessage", members, "call", 2))
    assert [each["Body"] for each in second.answer["Messages"]] == ["m"]
    assert world.call(LEADER, "ReceiveMessage", receive_request(URL)).messages == []


def _attributes(**attributes: str) -> Any:
    return api.SetQueueAttributesRequest(URL, attributes)


def _results(client: Client) -> tuple[dict[str, str], list[str]]:
    answer = client.answer
    successful = {entry["Id"]: entry["MessageId"] for entry in answer["Successful"]}
    return successful, [entry["Id"] for entry in answer["Failed"]]
