"""Answers that only look: a node that does not lead must not give them from memory."""

import pytest

from fastnode.errors import PlanAgain, Unavailable
from fastnode.queue import api
from fastnode.queue.errors import SqsError
from tests.unit.queue.fifo_world import URL, FifoWorld
from tests.world import ACCOUNT, REGION, World

ARN = f"arn:aws:sqs:{REGION}:{ACCOUNT}:q"
LOOKS = [
    ("GetQueueAttributes", api.GetQueueAttributesRequest("q", ["All"])),
    ("GetQueueUrl", api.GetQueueUrlRequest("q")),
    ("ListQueues", api.ListQueuesRequest()),
    ("ListQueueTags", api.ListQueueTagsRequest("q")),
    ("ListDeadLetterSourceQueues", api.ListDeadLetterSourceQueuesRequest("q")),
    ("ListMessageMoveTasks", api.ListMessageMoveTasksRequest(ARN)),
]


@pytest.mark.parametrize(("action", "request_"), LOOKS, ids=[action for action, _ in LOOKS])
def test_a_node_that_lost_the_lead_does_not_answer(action: str, request_: object) -> None:
    world = World(groups=2)
    world.create("q")
    world.call(action, request_)
    for group in world.groups:
        group.change_role("follower", 2)
    pending = world.begin(action, request_)
    assert pending.is_done and isinstance(pending.error, Unavailable)


def confirm(world: World) -> None:
    """A round of the group is answered by more than half of its voters."""
    reads, index = world.group.reads, world.group.applied_index
    context = reads.take_round(world.clock.boottime_ns())
    assert context is not None, "somebody waits for it"
    reads.confirm(context, index)
    reads.release(index)


def gone_handle(world: World) -> str:
    """Of a message that was deleted."""
    world.send(world.create("q"), "a")
    (message,) = world.receive("q")
    world.delete("q", message.receipt_handle)
    return message.receipt_handle


def test_a_delete_that_finds_nothing_is_answered_when_the_lead_is_certain() -> None:
    world = World()
    request = api.DeleteMessageRequest("q", gone_handle(world))
    world.group.is_sole_voter = False
    pending = world.begin("DeleteMessage", request)
    assert not pending.is_done, "others may lead, and have handed it out"
    confirm(world)
    assert pending.is_done and pending.error is None


def test_a_delete_that_finds_nothing_is_not_answered_by_who_lost_the_lead() -> None:
    world = World()
    request = api.DeleteMessageRequest("q", gone_handle(world))
    world.group.is_sole_voter = False
    pending = world.begin("DeleteMessage", request)
    world.group.change_role("follower", 2)
    assert pending.is_done and isinstance(pending.error, Unavailable)


UNCHANGED = [
    ("CreateQueue", api.CreateQueueRequest("q", tags={"of": "another"})),
    ("TagQueue", api.TagQueueRequest("q", {"a": "b"})),
    ("UntagQueue", api.UntagQueueRequest("q", ["other"])),
    ("AddPermission", api.AddPermissionRequest("q", "all", [ACCOUNT], ["SendMessage"])),
]


@pytest.mark.parametrize("is_confirmed", [True, False])
@pytest.mark.parametrize(("action", "request_"), UNCHANGED, ids=[action for action, _ in UNCHANGED])
def test_who_would_change_nothing_is_answered_when_the_lead_is_certain(
    action: str, request_: object, is_confirmed: bool
) -> None:
    """Others may have deleted the queue, or changed it, and then there is something to change."""
    world = World()
    world.create("q")
    for before, same in UNCHANGED[1:]:
        world.call(before, same)
    world.group.is_sole_voter = False
    pending = world.begin(action, request_)
    assert not pending.is_done
    if is_confirmed:
        confirm(world)
        assert pending.is_done and pending.error is None
    else:
        world.group.change_role("follower", 2)
        assert pending.is_done and isinstance(pending.error, Unavailable)


@pytest.mark.parametrize("is_confirmed", [True, False])
@pytest.mark.parametrize(
    ("action", "request_"),
    [
        ("SendMessage", api.SendMessageRequest("q", "a")),
        ("ReceiveMessage", api.ReceiveMessageRequest("q")),
        ("TagQueue", api.TagQueueRequest("q", {"a": "b"})),
        LOOKS[0],
        LOOKS[3],
    ],
)
def test_that_there_is_no_such_queue_is_told_when_the_lead_is_certain(
    action: str, request_: object, is_confirmed: bool
) -> None:
    """Others may have made it."""
    world = World()
    world.group.is_sole_voter = False
    pending = world.begin(action, request_)
    assert not pending.is_done
    if is_confirmed:
        confirm(world)
        assert isinstance(pending.error, SqsError)
        assert pending.error.type_name.endswith("QueueDoesNotExist")
    else:
        world.group.change_role("follower", 2)
        assert isinstance(pending.error, Unavailable)


@pytest.mark.parametrize("is_confirmed", [True, False])
def test_a_duplicate_is_answered_when_the_lead_is_certain(is_confirmed: bool) -> None:
    """Others may have purged the queue, and then it is none."""
    world = FifoWorld()
    first = world.put_one("g", "a", "same")
    world.group.is_sole_voter = False
    request = api.SendMessageRequest(
        URL, "a", message_group_id="g", message_deduplication_id="same"
    )
    pending = world.begin("SendMessage", request)
    assert not pending.is_done
    if is_confirmed:
        confirm(world)
        assert pending.result.message_id == first.message_id
    else:
        world.group.change_role("follower", 2)
        assert isinstance(pending.error, Unavailable)


def test_messages_of_a_queue_that_was_deleted_meanwhile_are_not_counted() -> None:
    world = World()
    world.send(world.create("q"), "a")
    world.receive("q")
    world.group.is_sole_voter = False
    pending = world.begin("GetQueueAttributes", api.GetQueueAttributesRequest("q", ["All"]))
    world.group.is_sole_voter = True
    world.call("DeleteQueue", api.DeleteQueueRequest("q"))
    assert not pending.is_done
    confirm(world)
    assert pending.is_done and isinstance(pending.error, PlanAgain)


def test_tags_are_those_of_the_queue_that_there_is_after_the_wait() -> None:
    world = World()
    world.call("CreateQueue", api.CreateQueueRequest("q", tags={"of": "the first"}))
    world.group.is_sole_voter = False
    pending = world.begin("ListQueueTags", api.ListQueueTagsRequest("q"))
    world.group.is_sole_voter = True
    world.call("DeleteQueue", api.DeleteQueueRequest("q"))
    world.call("CreateQueue", api.CreateQueueRequest("q", tags={"of": "the second"}))
    assert not pending.is_done
    confirm(world)
    assert pending.result.tags == {"of": "the second"}
