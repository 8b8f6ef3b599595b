"""Answers that only look: a node that does not lead must not give them from memory."""

import pytest

from fastnode.errors import Unavailable
from fastnode.queue import api
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
