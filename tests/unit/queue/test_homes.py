"""Which group's leader has to answer a call."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode import native
from fastnode.queue import api
from fastnode.queue.caller import Caller
from fastnode.queue.homes import home_of
from fastnode.queue.move_record import encode_handle
from fastnode.queue.operations import OPERATIONS
from fastnode.store.keyspace import QueueKeys
from tests.unit.cluster.cluster_world import ClusterWorld
from tests.world import ACCOUNT, ENDPOINT, REGION

CALLER = Caller(ACCOUNT, REGION, ENDPOINT, "AIDA")
ARN = f"arn:aws:sqs:{REGION}:{ACCOUNT}:q"
WORLD = ClusterWorld()
OTHER = "111111111111"


def number_of(account: str, region: str, name: str) -> int:
    return native.home_group(QueueKeys(account, region, name).segment, 4)


def home(action: str, request: object, caller: Caller = CALLER, node: int = 1) -> int | None:
    group = home_of(WORLD.nodes[node].service, caller, action, request)
    return None if group is None else group.number


def test_every_action_about_a_queue_goes_to_its_home() -> None:
    named = {
        "queue_url": f"{ENDPOINT}/{ACCOUNT}/q",
        "queue_name": "q",
        "source_arn": ARN,
        "task_handle": encode_handle("t", ARN),
    }
    homeless = set()
    for action, operation in OPERATIONS.items():
        fields = [name for name in named if name in operation.request.__struct_fields__]
        request = operation.request(**{name: named[name] for name in fields})
        found = home(action, request)
        if found is None:
            homeless.add(action)
        else:
            assert found == number_of(ACCOUNT, REGION, "q")
    assert homeless == {"ListQueues"}


def test_the_owner_and_the_region_are_part_of_the_name() -> None:
    wanted = [f"q{number}" for number in range(20)]
    for name in wanted:
        url = f"{ENDPOINT}/{OTHER}/{name}"
        assert home("SendMessage", api.SendMessageRequest(url)) == number_of(OTHER, REGION, name)
        request = api.GetQueueUrlRequest(name, OTHER)
        assert home("GetQueueUrl", request) == number_of(OTHER, REGION, name)
        arn = f"arn:aws:sqs:eu-west-1:{OTHER}:{name}"
        moves = api.ListMessageMoveTasksRequest(arn)
        assert home("ListMessageMoveTasks", moves) == number_of(OTHER, "eu-west-1", name)


@pytest.mark.parametrize(
    ("action", "request_"),
    [
        ("SendMessage", api.SendMessageRequest()),
        ("SendMessage", api.SendMessageRequest("no good!")),
        ("CreateQueue", api.CreateQueueRequest()),
        ("CreateQueue", api.CreateQueueRequest("no good")),
        ("GetQueueUrl", api.GetQueueUrlRequest("q", "somebody")),
        ("ListMessageMoveTasks", api.ListMessageMoveTasksRequest("arn:nothing")),
        ("CancelMessageMoveTask", api.CancelMessageMoveTaskRequest("%%%")),
        ("CancelMessageMoveTask", api.CancelMessageMoveTaskRequest()),
    ],
)
def test_what_is_refused_everywhere_has_no_home(action: str, request_: object) -> None:
    assert home(action, request_) is None


def test_the_anonymous_own_nothing() -> None:
    nobody = Caller("", REGION, ENDPOINT, "", True)
    assert home("SendMessage", api.SendMessageRequest("q"), nobody) is None
    url = f"{ENDPOINT}/{ACCOUNT}/q"
    assert home("SendMessage", api.SendMessageRequest(url), nobody) is not None


def test_messages_of_a_queue_with_partitions_are_for_whoever_took_the_call() -> None:
    WORLD.create_partitioned(1, "p.fifo")
    number = number_of(ACCOUNT, REGION, "p.fifo")
    for node in (1, 2, 3):
        leads = WORLD.leaders[number] == node
        found = home("SendMessage", api.SendMessageRequest("p.fifo"), node=node)
        assert found == (number if leads else None)
        for action, request in (
            ("GetQueueAttributes", api.GetQueueAttributesRequest("p.fifo")),
            ("DeleteQueue", api.DeleteQueueRequest("p.fifo")),
            ("PurgeQueue", api.PurgeQueueRequest("p.fifo")),
        ):
            assert home(action, request, node=node) == number


@given(st.text(max_size=80))
def test_any_text_has_a_home_or_none(text: str) -> None:
    for action, request in (
        ("SendMessage", api.SendMessageRequest(text)),
        ("CreateQueue", api.CreateQueueRequest(text)),
        ("GetQueueUrl", api.GetQueueUrlRequest("q", text)),
        ("ListMessageMoveTasks", api.ListMessageMoveTasksRequest(text)),
        ("ListMessageMoveTasks", api.ListMessageMoveTasksRequest(ARN.replace(REGION, text))),
        ("ListMessageMoveTasks", api.ListMessageMoveTasksRequest(ARN.replace(ACCOUNT, text))),
        ("CancelMessageMoveTask", api.CancelMessageMoveTaskRequest(text)),
        ("CancelMessageMoveTask", api.CancelMessageMoveTaskRequest(encode_handle("t", text))),
    ):
        home(action, request)
