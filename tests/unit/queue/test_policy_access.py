"""Who may do what to a queue, through real handlers: owners, strangers, the anonymous."""

from typing import Any

import pytest

from fastnode.flow import start
from fastnode.queue import api
from fastnode.queue.caller import Call, Caller
from fastnode.queue.errors import SqsError
from fastnode.queue.move_record import encode_handle
from fastnode.queue.operations import OPERATIONS
from fastnode.queue.policy import OWNER_ACTIONS
from tests.unit.queue.policy_texts import FRIEND, OWNER, STRANGER, Members, policy, statement
from tests.world import ENDPOINT, REGION, Pending, World

URL = f"{ENDPOINT}/{OWNER}/q"
ARN = f"arn:aws:sqs:{REGION}:{OWNER}:q"
DENIAL = ("AccessDeniedException", f"Access to the resource {URL} is denied.")
HIDDEN = (
    "QueueDoesNotExist",
    "The specified queue does not exist or you do not have access to it.",
)
ENTRY = api.SendMessageBatchRequestEntry("a", "body")
# One well-formed request of every action about a queue.
REQUESTS: dict[str, Any] = {
    "AddPermission": api.AddPermissionRequest(URL, "label", [FRIEND], ["SendMessage"]),
    "CancelMessageMoveTask": api.CancelMessageMoveTaskRequest(encode_handle("task", ARN)),
    "ChangeMessageVisibility": api.ChangeMessageVisibilityRequest(URL, "handle", 1),
    "ChangeMessageVisibilityBatch": api.ChangeMessageVisibilityBatchRequest(URL, []),
    "DeleteMessage": api.DeleteMessageRequest(URL, "handle"),
    "DeleteMessageBatch": api.DeleteMessageBatchRequest(URL, []),
    "DeleteQueue": api.DeleteQueueRequest(URL),
    "GetQueueAttributes": api.GetQueueAttributesRequest(URL, ["All"]),
    "ListDeadLetterSourceQueues": api.ListDeadLetterSourceQueuesRequest(URL),
    "ListMessageMoveTasks": api.ListMessageMoveTasksRequest(ARN),
    "ListQueueTags": api.ListQueueTagsRequest(URL),
    "PurgeQueue": api.PurgeQueueRequest(URL),
    "ReceiveMessage": api.ReceiveMessageRequest(URL),
    "RemovePermission": api.RemovePermissionRequest(URL, "label"),
    "SendMessage": api.SendMessageRequest(URL, "body"),
    "SendMessageBatch": api.SendMessageBatchRequest(URL, [ENTRY]),
    "SetQueueAttributes": api.SetQueueAttributesRequest(URL, {"DelaySeconds": "0"}),
    "StartMessageMoveTask": api.StartMessageMoveTaskRequest(ARN),
    "TagQueue": api.TagQueueRequest(URL, {"a": "b"}),
    "UntagQueue": api.UntagQueueRequest(URL, ["a"]),
}
# These are about names, not about a queue that is there.
ELSEWHERE = {"CreateQueue", "GetQueueUrl", "ListQueues"}
ACTIONS = sorted(OPERATIONS.keys() - ELSEWHERE)


@pytest.fixture
def world() -> World:
    created = World()
    created.create("q")
    return created


def set_policy(world: World, *statements: Members) -> None:
    text = policy(*statements) if statements else ""
    world.call("SetQueueAttributes", api.SetQueueAttributesRequest(URL, {"Policy": text}))


def refusal(world: World, action: str, request: Any, account: str) -> tuple[str, str] | None:
    try:
        world.call(action, request, account)
    except SqsError as error:
        return error.row.shape, error.message
    return None


def is_denied(world: World, action: str, account: str = FRIEND) -> bool:
    return refusal(world, action, REQUESTS[action], account) == DENIAL


# --- strangers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ACTIONS)
def test_a_stranger_may_do_nothing_without_a_policy(world: World, action: str) -> None:
    assert is_denied(world, action)


@pytest.mark.parametrize("action", ACTIONS)
def test_a_policy_opens_everything_but_what_is_the_owners(world: World, action: str) -> None:
    set_policy(world, statement(Principal={"AWS": FRIEND}))
    assert is_denied(world, action) == (action in OWNER_ACTIONS)


@pytest.mark.parametrize("action", ACTIONS)
def test_a_policy_opens_only_what_it_names(world: World, action: str) -> None:
    set_policy(world, statement(Principal={"AWS": FRIEND}, Action="sqs:SendMessage"))
    assert is_denied(world, action) == (action not in ("SendMessage", "SendMessageBatch"))
    assert is_denied(world, action, STRANGER)


def test_a_policy_ends_with_its_removal_and_outlives_a_restart(world: World) -> None:
    set_policy(world, statement())
    world.crash()
    assert not is_denied(world, "SendMessage")
    set_policy(world)
    assert is_denied(world, "SendMessage")


def test_a_queue_name_alone_is_the_callers_own_queue(world: World) -> None:
    set_policy(world, statement())
    request = api.SendMessageRequest("q", "body")
    missing = ("QueueDoesNotExist", "The specified queue does not exist.")
    assert refusal(world, "SendMessage", request, FRIEND) == missing


# --- owners -------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ACTIONS)
def test_a_denial_binds_the_owner_too_but_for_mending_the_policy(world: World, action: str) -> None:
    set_policy(world, statement(Effect="Deny"))
    expected = action not in ("RemovePermission", "SetQueueAttributes")
    assert is_denied(world, action, OWNER) == expected


def test_a_policy_for_others_takes_nothing_from_the_owner(world: World) -> None:
    set_policy(world, statement(Principal={"AWS": FRIEND}, Action="sqs:ReceiveMessage"))
    assert world.send(URL, "body")


def test_a_denial_ends_when_it_is_removed(world: World) -> None:
    set_policy(world, statement(Effect="Deny"))
    set_policy(world)
    assert world.send(URL, "body")


# --- the short way of a send --------------------------------------------------------------------


def test_the_short_way_leaves_every_question_to_the_general_one(world: World) -> None:
    owner = Caller(OWNER, REGION, ENDPOINT, "AIDA")
    stranger = Caller(FRIEND, REGION, ENDPOINT, "AIDA")
    world.send(URL, "body")
    assert world.service.live_queue(owner, URL) is not None
    assert world.service.live_queue(stranger, URL) is None
    set_policy(world, statement())
    assert world.service.live_queue(owner, URL) is None


# --- GetQueueUrl --------------------------------------------------------------------------------


def test_the_url_of_a_foreign_queue_is_hidden_like_one_that_does_not_exist(world: World) -> None:
    for name in ("q", "absent"):
        request = api.GetQueueUrlRequest(name, OWNER)
        assert refusal(world, "GetQueueUrl", request, FRIEND) == HIDDEN


def test_the_url_of_a_foreign_queue_is_shown_to_whom_the_policy_allows(world: World) -> None:
    set_policy(world, statement(Principal={"AWS": FRIEND}, Action="sqs:GetQueueUrl"))
    request = api.GetQueueUrlRequest("q", OWNER)
    assert world.call("GetQueueUrl", request, FRIEND).queue_url == URL
    assert refusal(world, "GetQueueUrl", request, STRANGER) == HIDDEN


# --- what a policy asks about the call ----------------------------------------------------------


class FakeCall(Call):
    """A call of whom and from where a test likes."""

    __slots__ = ("_is_secure", "_source_ip")

    def __init__(self, caller: Caller, source_ip: str, *, is_secure: bool) -> None:
        super().__init__(caller, "SendMessage", "request")
        self._source_ip = source_ip
        self._is_secure = is_secure

    @property
    def source_ip(self) -> str:
        return self._source_ip

    @property
    def is_secure(self) -> bool:
        return self._is_secure


NOBODY = Caller("", REGION, ENDPOINT, "anonymous", is_anonymous=True)
SOMEBODY = Caller(FRIEND, REGION, ENDPOINT, "AKIDFRIEND")


def may_send(
    world: World, caller: Caller, source_ip: str = "10.0.0.1", is_secure: bool = False
) -> bool:
    call = FakeCall(caller, source_ip, is_secure=is_secure)
    pending = Pending(call)
    request = REQUESTS["SendMessage"]
    start(OPERATIONS["SendMessage"].handler(world.service, call, request), pending.finish)
    world.commit()
    assert pending.is_done
    return pending.error is None


def test_only_a_policy_for_everybody_admits_the_anonymous(world: World) -> None:
    assert not may_send(world, NOBODY)
    set_policy(world, statement(Principal={"AWS": [OWNER, FRIEND]}))
    assert not may_send(world, NOBODY)
    set_policy(world, statement(Principal="*"))
    assert may_send(world, NOBODY)


def test_an_anonymous_caller_is_never_the_owner(world: World) -> None:
    pretender = Caller(OWNER, REGION, ENDPOINT, "anonymous", is_anonymous=True)
    set_policy(world, statement(Principal={"AWS": OWNER}))
    assert not may_send(world, pretender)


def test_users_are_named_by_their_access_keys(world: World) -> None:
    name = f"arn:aws:iam::{FRIEND}:user/AKIDFRIEND"
    set_policy(world, statement(Principal={"AWS": name}))
    assert may_send(world, SOMEBODY)
    assert not may_send(world, Caller(FRIEND, REGION, ENDPOINT, "AKIDOTHER"))


CONDITIONS = [
    ({"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}, True),
    ({"IpAddress": {"aws:SourceIp": "192.168.0.0/16"}}, False),
    ({"Bool": {"aws:SecureTransport": "true"}}, False),
    ({"Bool": {"aws:SecureTransport": False}}, True),
    ({"ArnLike": {"aws:SourceArn": "arn:aws:sns:*:*:*"}}, False),
    ({"StringEquals": {"aws:PrincipalAccount": FRIEND}}, True),
    ({"DateLessThan": {"aws:CurrentTime": "2023-11-14T22:13:19Z"}}, False),
    ({"DateLessThan": {"aws:CurrentTime": "2023-11-15T00:00:00Z"}}, True),
]


@pytest.mark.parametrize(("condition", "expected"), CONDITIONS)
def test_conditions_see_the_call(world: World, condition: Members, expected: bool) -> None:
    set_policy(world, statement(Condition=condition))
    assert may_send(world, SOMEBODY) is expected


def test_tls_is_seen(world: World) -> None:
    set_policy(world, statement(Condition={"Bool": {"aws:SecureTransport": "true"}}))
    assert may_send(world, SOMEBODY, is_secure=True)
