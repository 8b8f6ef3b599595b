"""Calls with parts in several groups, led by several nodes: a repeated one finds the parts that
landed and makes the others, at whatever node it arrives.
"""

from typing import Any

import pytest

from fastnode.errors import OperationError, Unsettled
from fastnode.queue import api
from fastnode.queue.caller import CLIENT_RETRIES, Call, Caller
from fastnode.queue.errors import SqsError
from fastnode.queue.partitions import PartitionedQueue
from tests.unit.cluster.cluster_world import ClusterWorld, answer_of
from tests.world import ACCOUNT, ENDPOINT, REGION, Pending

URL = "p.fifo"
ENTRIES = 8
EVERY_NODE = pytest.mark.parametrize("node", [1, 2, 3])
SURVIVES = pytest.mark.parametrize("survives", [True, False], ids=["lands late", "never lands"])


@pytest.fixture
def world() -> ClusterWorld:
    world = ClusterWorld()
    world.create_partitioned(1, URL)
    return world


def begin(world: ClusterWorld, node: int, request: Any, attempt: int, name: str = "c") -> Pending:
    """An attempt of a client's call that arrives at the node."""
    action = type(request).__name__.removesuffix("Request")
    call = Call(Caller(ACCOUNT, REGION, ENDPOINT, "AIDA"), action, "request")
    call.request = name.encode().ljust(16, b".")
    call.retention, call.is_repeated = CLIENT_RETRIES, attempt > 1
    pending = world.begin(node, action, request, call=call)
    world.settle()
    return pending


def ask(world: ClusterWorld, node: int, request: Any, attempt: int, name: str = "c") -> Any:
    return answer_of(begin(world, node, request, attempt, name))


def batch(size: int = 10) -> api.SendMessageBatchRequest:
    return api.SendMessageBatchRequest(
        URL,
        [
            api.SendMessageBatchRequestEntry(
                f"e{n}", f"{n}" * size, message_group_id=f"g{n}", message_deduplication_id=f"d{n}"
            )
            for n in range(ENTRIES)
        ],
    )


def queue_at(world: ClusterWorld, node: int = 1) -> PartitionedQueue:
    queue = world.nodes[node].service.find(ACCOUNT, REGION, URL)
    assert isinstance(queue, PartitionedQueue)
    return queue


def entries_in(world: ClusterWorld, group: int) -> set[str]:
    """The ids of the batch's entries that belong there."""
    queue = queue_at(world)
    return {
        f"e{n}"
        for n in range(ENTRIES)
        if queue.group_at(queue.partition_for(f"g{n}")).number == group
    }


def other_group(world: ClusterWorld, node: int) -> int:
    """One that the node does not lead, with entries of the batch."""
    return next(
        group
        for group, leader in enumerate(world.leaders)
        if leader != node and entries_in(world, group)
    )


def next_leader(world: ClusterWorld, group: int) -> int:
    return world.leaders[group] % len(world.nodes) + 1


def cut_short(
    world: ClusterWorld, node: int, request: Any, group: int, *, survives: bool
) -> Pending:
    """A first attempt whose part in that group is taken by a leader that is lost at once."""
    world.stuck.add(group)
    pending = begin(world, node, request, 1)
    assert not pending.is_done
    world.stuck.discard(group)
    world.lead(group, next_leader(world, group), survives=survives)
    assert isinstance(pending.error, Unsettled), "nobody knows"
    return pending


def stored(world: ClusterWorld) -> dict[str, str]:
    """Body → id of everything that can be received."""
    found: dict[str, str] = {}
    while messages := world.receive(1, URL, timeout=3_600):
        for message in messages:
            assert message.body not in found, "stored twice"
            found[message.body] = message.message_id
    return found


def ids_of(answer: api.SendMessageBatchResponse) -> dict[str, str]:
    return {entry.id: entry.message_id for entry in answer.successful}


@EVERY_NODE
@SURVIVES
def test_a_batch_of_which_one_part_landed_is_made_whole(
    world: ClusterWorld, node: int, survives: bool
) -> None:
    group = other_group(world, node)
    cut_short(world, node, batch(), group, survives=survives)
    landed = ENTRIES if survives else ENTRIES - len(entries_in(world, group))
    assert world.counts(1, URL) == (landed, 0, 0)
    for again, attempt in ((node, 2), (node % 3 + 1, 3)):
        answer = ask(world, again, batch(), attempt)
        assert [entry.id for entry in answer.successful] == [f"e{n}" for n in range(ENTRIES)]
        assert world.counts(1, URL) == (ENTRIES, 0, 0)
    assert stored(world) == {id_[1] * 10: message for id_, message in ids_of(answer).items()}


def test_every_attempt_gets_the_same_answer_at_every_node(world: ClusterWorld) -> None:
    first = ask(world, 1, batch(), 1)
    lengths = [len(log) for log in world.logs]
    for attempt, node in ((2, 1), (3, 2), (4, 3)):
        assert ask(world, node, batch(), attempt) == first
    assert [len(log) for log in world.logs] == lengths


def test_a_part_that_was_consumed_is_not_sent_again(world: ClusterWorld) -> None:
    group = other_group(world, 1)
    cut_short(world, 1, batch(), group, survives=False)
    landed = world.drain(1, URL)
    answer = ask(world, 1, batch(), 2)
    assert len(answer.successful) == ENTRIES
    missing = {id_[1] * 10 for id_ in entries_in(world, group)}
    assert set(world.drain(1, URL)) == missing
    assert not missing & set(landed)


def test_limits_that_were_tightened_hold_for_the_part_that_did_not_land(
    world: ClusterWorld,
) -> None:
    """What is stored is answered as it was, and only that."""
    group = other_group(world, 1)
    cut_short(world, 1, batch(2_000), group, survives=False)
    attributes = {"MaximumMessageSize": "1024"}
    world.call(1, "SetQueueAttributes", api.SetQueueAttributesRequest(URL, attributes))
    answer = ask(world, 2, batch(2_000), 2)
    assert {entry.id for entry in answer.failed} == entries_in(world, group)
    assert len(answer.successful) == ENTRIES - len(answer.failed)
    assert stored(world) == {id_[1] * 2_000: message for id_, message in ids_of(answer).items()}


def test_limits_that_were_tightened_refuse_a_batch_that_never_landed(world: ClusterWorld) -> None:
    attributes = {"MaximumMessageSize": "1024"}
    world.call(1, "SetQueueAttributes", api.SetQueueAttributesRequest(URL, attributes))
    with pytest.raises(SqsError):
        ask(world, 1, batch(2_000), 2)
    assert world.counts(1, URL) == (0, 0, 0)


# --- deletes and changes -------------------------------------------------------------------------


def received(world: ClusterWorld) -> list[api.Message]:
    world.call(1, "SendMessageBatch", batch())
    messages: list[api.Message] = []
    while more := world.receive(1, URL, timeout=30):
        messages += more
    assert len(messages) == ENTRIES
    return messages


def delete_all(messages: list[api.Message]) -> api.DeleteMessageBatchRequest:
    return api.DeleteMessageBatchRequest(
        URL,
        [
            api.DeleteMessageBatchRequestEntry(f"e{message.body[0]}", message.receipt_handle)
            for message in messages
        ],
    )


def change_all(messages: list[api.Message]) -> api.ChangeMessageVisibilityBatchRequest:
    return api.ChangeMessageVisibilityBatchRequest(
        URL,
        [
            api.ChangeMessageVisibilityBatchRequestEntry(
                f"e{message.body[0]}", message.receipt_handle, 0
            )
            for message in messages
        ],
    )


@EVERY_NODE
@SURVIVES
def test_a_delete_of_which_one_part_landed_is_made_whole(
    world: ClusterWorld, node: int, survives: bool
) -> None:
    messages = received(world)
    group = other_group(world, node)
    cut_short(world, node, delete_all(messages), group, survives=survives)
    answer = ask(world, node % 3 + 1, delete_all(messages), 2)
    assert len(answer.successful) == ENTRIES
    assert world.counts(1, URL) == (0, 0, 0)


@SURVIVES
def test_a_change_that_landed_leaves_the_next_owner_alone(
    world: ClusterWorld, survives: bool
) -> None:
    messages = received(world)
    group = other_group(world, 1)
    cut_short(world, 1, change_all(messages), group, survives=survives)
    world.advance(5)
    taken: list[api.Message] = []
    while more := world.receive(1, URL, timeout=600):
        taken += more
    answer = ask(world, 2, change_all(messages), 2)
    world.advance(5)
    free = {message.body for message in world.receive(1, URL)}
    assert not free & {message.body for message in taken}
    failed = {entry.id for entry in answer.failed}
    assert len(answer.successful) == ENTRIES - len(failed)
    # What did not land can be changed now, or is visible and the handle has ended.
    assert failed <= (set() if survives else entries_in(world, group))


# --- receives ------------------------------------------------------------------------------------


RECEIVE = api.ReceiveMessageRequest(URL, max_number_of_messages=10)


def handles(answer: api.ReceiveMessageResponse) -> set[str]:
    return {message.receipt_handle for message in answer.messages}


@EVERY_NODE
def test_a_receive_is_known_at_every_node(world: ClusterWorld, node: int) -> None:
    world.call(1, "SendMessageBatch", batch())
    first = ask(world, 1, RECEIVE, 1)
    assert first.messages
    assert handles(ask(world, node, RECEIVE, 2)) == handles(first)


def test_a_receive_is_known_to_new_leaders(world: ClusterWorld) -> None:
    world.call(1, "SendMessageBatch", batch())
    first = ask(world, 1, RECEIVE, 1)
    world.lead_all(3)
    assert handles(ask(world, 2, RECEIVE, 2)) == handles(first)


def test_a_repeated_receive_takes_nothing_while_a_partition_cannot_say(
    world: ClusterWorld,
) -> None:
    """The earlier attempt may have taken messages there."""
    world.call(1, "SendMessageBatch", batch())
    group = other_group(world, 1)
    world.depose(group)
    pending = begin(world, 1, RECEIVE, 2)
    world.advance(10_000)
    assert isinstance(pending.error, OperationError)
    world.lead(group, 2)
    assert world.counts(1, URL) == (ENTRIES, 0, 0)


# --- one group, led elsewhere --------------------------------------------------------------------


@pytest.mark.parametrize("extras", [{}, {"delay_seconds": 1}], ids=["short", "general"])
def test_a_forwarded_send_is_known_at_every_node(
    world: ClusterWorld, extras: dict[str, Any]
) -> None:
    world.create(1, "plain")
    request = api.SendMessageRequest("plain", "m", **extras)
    first = ask(world, 1, request, 1)
    for attempt, node in ((2, 1), (3, 2), (4, 3)):
        assert ask(world, node, request, attempt) == first
    assert sum(world.counts(1, "plain")) == 1
    world.lead_all(2)
    assert ask(world, 3, request, 5) == first
    assert sum(world.counts(1, "plain")) == 1


def test_replicas_remember_alike(world: ClusterWorld) -> None:
    ask(world, 1, batch(), 1)
    ask(world, 2, batch(), 2)
    world.settle()
    for group in range(len(world.logs)):
        rows = [node.engines[group].scan(b"", b"\xff", 10_000) for node in world.nodes.values()]
        assert rows[0] == rows[1] == rows[2]
