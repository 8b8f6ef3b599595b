"""Dead letters: when a message leaves its queue, what it takes along, and what stops it."""

import json
import uuid

import pytest

from fastnode import native
from fastnode.queue import api
from fastnode.queue.errors import SqsError
from tests.world import ACCOUNT, REGION, World

ALL = ["All"]


def arn(name: str) -> str:
    return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"


def policy(target: str, count: int = 1) -> str:
    return json.dumps({"deadLetterTargetArn": arn(target), "maxReceiveCount": count})


def queues_in_different_groups(world: World, count: int = 2) -> list[str]:
    """Names whose queues live in as many groups."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < count:
        name = f"q{number}"
        number += 1
        world.create(name)
        queue = world.service.find(ACCOUNT, REGION, name)
        assert queue is not None
        found.setdefault(queue.group.number, name)
    return list(found.values())


@pytest.fixture(params=[1, 4], ids=["one group", "four groups"])
def pair(request: pytest.FixtureRequest) -> tuple[World, str, str]:
    """A source that gives up after one receive, and its dead-letter queue."""
    world = World(groups=request.param)
    if request.param == 1:
        source, target = "source", "target"
        world.create(target)
        world.create(source)
    else:
        source, target = queues_in_different_groups(world)
    set_policy(world, source, policy(target))
    return world, source, target


def set_policy(world: World, name: str, text: str) -> None:
    request = api.SetQueueAttributesRequest(name, {"RedrivePolicy": text})
    world.call("SetQueueAttributes", request)


def receive_all(world: World, name: str, timeout: int | None = None) -> list[api.Message]:
    request = api.ReceiveMessageRequest(
        name,
        attribute_names=ALL,
        message_attribute_names=ALL,
        max_number_of_messages=10,
        visibility_timeout=timeout,
    )
    messages: list[api.Message] = world.call("ReceiveMessage", request).messages
    return messages


def position(message_id: str) -> tuple[int, int]:
    return native.message_id_position(uuid.UUID(message_id).bytes)


def rows(world: World, name: str) -> dict[str, list[bytes]]:
    """Keys that only messages from other queues have, by kind."""
    queue = world.service.find(ACCOUNT, REGION, name)
    assert queue is not None
    keys = queue.messages
    return {
        kind: queue.group.scan_keys(prefix, native.prefix_end(prefix), 100)
        for kind, prefix in (("ids", keys.ids), ("age", keys.age))
    }


def bodies(messages: list[api.Message]) -> list[str]:
    return [message.body for message in messages]


def test_a_message_moves_at_the_receive_after_the_last_allowed_one(
    pair: tuple[World, str, str],
) -> None:
    world, source, target = pair
    message_id = world.send(source, "a")
    (first,) = receive_all(world, source, timeout=0)
    assert receive_all(world, target) == [], "a receive that is allowed moves nothing"
    assert receive_all(world, source, timeout=0) == []
    assert (world.counts(source), world.counts(target)) == ((0, 0, 0), (1, 0, 0))
    (dead,) = receive_all(world, target)
    assert (dead.message_id, dead.body, dead.md5_of_body) == (message_id, "a", first.md5_of_body)
    assert dead.attributes["ApproximateReceiveCount"] == "2"
    assert dead.attributes["DeadLetterQueueSourceArn"] == arn(source)
    for kept in ("SentTimestamp", "ApproximateFirstReceiveTimestamp", "SenderId"):
        assert dead.attributes[kept] == first.attributes[kept]
    assert "DeadLetterQueueSourceArn" not in first.attributes


def test_the_receive_goes_on_behind_a_dead_letter(pair: tuple[World, str, str]) -> None:
    world, source, target = pair
    world.send(source, "dead")
    receive_all(world, source, timeout=0)
    world.send(source, "alive")
    assert bodies(receive_all(world, source)) == ["alive"]
    assert bodies(receive_all(world, target)) == ["dead"]


def test_attributes_and_trace_header_come_along(pair: tuple[World, str, str]) -> None:
    world, source, target = pair
    request = api.SendMessageRequest(
        source,
        "a",
        message_attributes={"k": api.MessageAttributeValue("String", "x")},
        message_system_attributes={"AWSTraceHeader": api.MessageAttributeValue("String", "Root=1")},
        message_group_id="tenant",
    )
    world.call("SendMessage", request)
    (first,) = receive_all(world, source, timeout=0)
    receive_all(world, source)
    (dead,) = receive_all(world, target)
    assert dead.message_attributes == first.message_attributes != {}
    assert dead.md5_of_message_attributes == first.md5_of_message_attributes
    for name in ("AWSTraceHeader", "MessageGroupId"):
        assert dead.attributes[name] == first.attributes[name]


def test_a_dead_letter_is_deleted_and_hidden_by_its_handle(pair: tuple[World, str, str]) -> None:
    world, source, target = pair
    for body in ("a", "b"):
        world.send(source, body)
    receive_all(world, source, timeout=0)
    receive_all(world, source)
    first, second = receive_all(world, target, timeout=30)
    world.delete(target, first.receipt_handle)
    world.change(target, second.receipt_handle, 0)
    assert bodies(receive_all(world, target, timeout=0)) == ["b"]
    world.delete(target, first.receipt_handle)
    assert world.counts(target) == (1, 0, 0)
    assert {kind: len(keys) for kind, keys in rows(world, target).items()} == {"ids": 1, "age": 1}
    world.delete(target, second.receipt_handle)
    assert world.counts(target) == (0, 0, 0)
    assert rows(world, target) == {"ids": [], "age": []}
    with pytest.raises(SqsError, match="does not exist or is not available"):
        world.change(target, second.receipt_handle, 10)


def test_a_handle_of_a_gone_dead_letter_touches_no_other_message() -> None:
    """Both groups can give out the same timestamp, so the id alone does not say whose it is."""
    world = World(groups=4)
    source, target = queues_in_different_groups(world)
    set_policy(world, source, policy(target))
    world.advance(1)
    sent, twin = world.send(source, "moves"), world.send(target, "stays")
    assert position(sent) == position(twin), "the test wants the same place in both queues"
    (twin_message,) = receive_all(world, target, timeout=0)
    receive_all(world, source, timeout=0)
    receive_all(world, source)
    moved = next(m for m in receive_all(world, target, timeout=0) if m.body == "moves")
    world.delete(target, moved.receipt_handle)
    world.delete(target, moved.receipt_handle)
    world.crash()
    world.delete(target, moved.receipt_handle)
    assert bodies(receive_all(world, target, timeout=0)) == ["stays"]
    world.delete(target, twin_message.receipt_handle)
    assert world.counts(target) == (0, 0, 0)


def test_a_long_poll_on_the_dead_letter_queue_wakes(pair: tuple[World, str, str]) -> None:
    world, source, target = pair
    world.send(source, "a")
    receive_all(world, source, timeout=0)
    poll = world.begin("ReceiveMessage", api.ReceiveMessageRequest(target, wait_time_seconds=20))
    world.commit()
    assert not poll.is_done
    receive_all(world, source)
    assert poll.is_done and bodies(poll.result.messages) == ["a"]


def test_without_its_dead_letter_queue_the_source_delivers_as_usual(
    pair: tuple[World, str, str],
) -> None:
    world, source, target = pair
    world.send(source, "a")
    receive_all(world, source, timeout=0)
    world.call("DeleteQueue", api.DeleteQueueRequest(target))
    assert bodies(receive_all(world, source, timeout=0)) == ["a"]
    world.create(target)
    receive_all(world, source, timeout=0)
    assert bodies(receive_all(world, target)) == ["a"]


def test_a_target_that_forbids_the_source_gets_nothing(pair: tuple[World, str, str]) -> None:
    world, source, target = pair
    world.send(source, "a")
    receive_all(world, source, timeout=0)
    refusal = {"RedriveAllowPolicy": json.dumps({"redrivePermission": "denyAll"})}
    world.call("SetQueueAttributes", api.SetQueueAttributesRequest(target, refusal))
    assert bodies(receive_all(world, source, timeout=0)) == ["a"]
    assert receive_all(world, target) == []


@pytest.mark.parametrize("crash_after", [None, 1, 2, 3])
def test_a_letter_whose_queue_vanishes_on_the_way_comes_back(crash_after: int | None) -> None:
    world, source, target = on_the_way_to_a_deleted_queue()
    if crash_after is not None:
        for _ in range(crash_after):
            world.step()
        world.crash()
    world.commit()
    assert world.counts(source) == (1, 0, 0)
    (again,) = receive_all(world, source, timeout=0)
    assert (again.body, again.attributes["ApproximateReceiveCount"]) == ("a", "2")
    world.create(target)
    receive_all(world, source, timeout=0)
    assert bodies(receive_all(world, target)) == ["a"]
    refusals = [
        key for engine in world.engines for key, _ in engine.scan(b"!sqs|refused|", b"!sqs|s", 10)
    ]
    assert refusals == [], "the source knows, so the target forgets"


def on_the_way_to_a_deleted_queue() -> tuple[World, str, str]:
    """The letter and the deletion of its target are planned; neither is committed."""
    world = World(groups=4)
    source, target = queues_in_different_groups(world)
    set_policy(world, source, policy(target))
    world.send(source, "a")
    receive_all(world, source, timeout=0)
    receive = api.ReceiveMessageRequest(source)
    # The deletion holds no latch yet when the receive looks, and is committed beside it.
    world.begin("ReceiveMessage", receive)
    world.begin("DeleteQueue", api.DeleteQueueRequest(target))
    return world, source, target


def test_a_queue_that_was_made_anew_is_not_the_one_that_was_meant() -> None:
    world = World(groups=4)
    source, target = queues_in_different_groups(world)
    set_policy(world, source, policy(target))
    world.send(source, "a")
    receive_all(world, source, timeout=0)
    world.begin("ReceiveMessage", api.ReceiveMessageRequest(source))
    world.step()
    world.refuse()
    world.call("DeleteQueue", api.DeleteQueueRequest(target))
    world.create(target)
    world.advance(1_000)
    assert (world.counts(source), world.counts(target)) == ((1, 0, 0), (0, 0, 0))


def test_a_letter_that_comes_back_to_a_purged_queue_is_purged() -> None:
    world, source, _ = on_the_way_to_a_deleted_queue()
    world.begin("PurgeQueue", api.PurgeQueueRequest(source))
    world.commit()
    assert world.counts(source) == (0, 0, 0)
    assert receive_all(world, source) == []


def test_a_queue_can_be_its_own_dead_letter_queue() -> None:
    world = World()
    world.create("self")
    set_policy(world, "self", policy("self"))
    world.send("self", "a")
    receive_all(world, "self", timeout=0)
    assert receive_all(world, "self", timeout=0) == []
    (again,) = receive_all(world, "self", timeout=0)
    assert again.attributes["ApproximateReceiveCount"] == "2"
    assert world.counts("self") == (1, 0, 0)


def test_letters_pass_along_a_chain_one_receive_at_a_time() -> None:
    world = World(groups=4)
    first, second, third = queues_in_different_groups(world, 3)
    set_policy(world, first, policy(second))
    set_policy(world, second, policy(third, 2))
    world.send(first, "a")
    for queue in (first, first, second, second, second):
        receive_all(world, queue, timeout=0)
    (dead,) = receive_all(world, third)
    assert dead.attributes["ApproximateReceiveCount"] == "4"
    assert dead.attributes["DeadLetterQueueSourceArn"] == arn(second)


def test_a_purge_of_the_target_takes_its_dead_letters(pair: tuple[World, str, str]) -> None:
    world, source, target = pair
    world.send(source, "a")
    receive_all(world, source, timeout=0)
    receive_all(world, source)
    (dead,) = receive_all(world, target, timeout=0)
    world.call("PurgeQueue", api.PurgeQueueRequest(target))
    assert world.counts(target) == (0, 0, 0)
    world.delete(target, dead.receipt_handle)
    assert world.counts(target) == (0, 0, 0)


def test_more_dead_letters_than_one_transaction_takes(pair: tuple[World, str, str]) -> None:
    world, source, target = pair
    sent = [world.send(source, str(number)) for number in range(50)]
    for _ in range(5):
        receive_all(world, source, timeout=30)
    world.advance(30_001)
    assert receive_all(world, source) == [], "a short poll that only makes room finds nothing"
    while world.counts(source)[0]:
        receive_all(world, source)
    received: list[str] = []
    while messages := receive_all(world, target, timeout=30):
        received += [message.message_id for message in messages]
    assert received == sent


@pytest.mark.parametrize("steps", range(6))
def test_a_crash_at_any_step_neither_loses_nor_doubles(steps: int) -> None:
    world = World(groups=4)
    source, target = queues_in_different_groups(world)
    set_policy(world, source, policy(target))
    for body in ("a", "b", "c"):
        world.send(source, body)
    receive_all(world, source, timeout=0)
    world.begin("ReceiveMessage", api.ReceiveMessageRequest(source, max_number_of_messages=10))
    for _ in range(steps):
        world.step()
    world.crash()
    world.commit()
    receive_all(world, source, timeout=0)
    assert bodies(receive_all(world, target)) == ["a", "b", "c"]
    assert (world.counts(source), world.counts(target)) == ((0, 0, 0), (0, 3, 0))


def test_a_full_log_leaves_the_letter_for_later() -> None:
    world = World(groups=4)
    source, target = queues_in_different_groups(world)
    set_policy(world, source, policy(target))
    world.send(source, "a")
    receive_all(world, source, timeout=0)
    receive = world.begin("ReceiveMessage", api.ReceiveMessageRequest(source))
    world.step()
    world.refuse()
    assert receive.is_done and receive.result.messages == [], "nobody waits for a full disk"
    assert world.counts(target) == (0, 0, 0)
    world.advance(1_000)
    world.commit()
    assert world.counts(target) == (1, 0, 0)
