"""Any node answers any call as a single node would, wherever the queue is led."""

import itertools
import json
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from fastnode.cluster.courier import FORWARDED
from fastnode.errors import Overloaded, Unavailable
from fastnode.queue import api
from fastnode.queue.caller import Call, Caller
from fastnode.queue.errors import SqsError
from fastnode.queue.operations import OPERATIONS
from tests.unit.cluster.cluster_world import ClusterWorld, answer_of, receive_request
from tests.world import ACCOUNT, ENDPOINT, REGION, World

Do = Callable[[str, Any], Any]
# Ids, handles, numbers of sequence, tokens and times: they differ from run to run.
_VARYING = re.compile(
    r'"(MessageId|ReceiptHandle|SequenceNumber|TaskHandle|StartedTimestamp|SentTimestamp'
    r'|ApproximateFirstReceiveTimestamp)":("[^"]*"|\d+)'
)


def arn(name: str) -> str:
    return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"


def shown(answer: Any) -> str:
    text = "null" if answer is None else msgspec.json.encode(answer).decode()
    return _VARYING.sub(r'"\1":"…"', text)


def script(do: Do) -> list[str]:
    """Every action at least once, and some refusals."""
    answers: list[str] = []

    def say(action: str, request: Any) -> Any:
        try:
            answer = do(action, request)
        except SqsError as error:
            answers.append(f"{action}: {error} {error.retry_after_seconds}")
            return None
        answers.append(f"{action}: {shown(answer)}")
        return answer

    redrive = json.dumps({"deadLetterTargetArn": arn("dead"), "maxReceiveCount": 1})
    say("CreateQueue", api.CreateQueueRequest("dead"))
    say("CreateQueue", api.CreateQueueRequest("q", {"DelaySeconds": "0"}, {"team": "a"}))
    say("CreateQueue", api.CreateQueueRequest("q", {"DelaySeconds": "9"}))
    say("CreateQueue", api.CreateQueueRequest("no good"))
    say("SetQueueAttributes", api.SetQueueAttributesRequest("q", {"RedrivePolicy": redrive}))
    say("SetQueueAttributes", api.SetQueueAttributesRequest("q", {"DelaySeconds": "x"}))
    say("GetQueueUrl", api.GetQueueUrlRequest("q"))
    say("GetQueueUrl", api.GetQueueUrlRequest("absent"))
    say("ListQueues", api.ListQueuesRequest())
    say("ListQueues", api.ListQueuesRequest(max_results=1))
    say("TagQueue", api.TagQueueRequest("q", {"b": "2"}))
    say("UntagQueue", api.UntagQueueRequest("q", ["team"]))
    say("ListQueueTags", api.ListQueueTagsRequest("q"))
    say("AddPermission", api.AddPermissionRequest("q", "l", ["123456789012"], ["SendMessage"]))
    say("RemovePermission", api.RemovePermissionRequest("q", "l"))
    say("RemovePermission", api.RemovePermissionRequest("q", "l"))
    say("ListDeadLetterSourceQueues", api.ListDeadLetterSourceQueuesRequest("dead"))
    say("SendMessage", api.SendMessageRequest("q", "one"))
    say("SendMessage", api.SendMessageRequest("absent", "one"))
    say("SendMessage", api.SendMessageRequest("q", ""))
    entries = [api.SendMessageBatchRequestEntry(f"e{n}", f"b{n}") for n in range(3)]
    say("SendMessageBatch", api.SendMessageBatchRequest("q", entries))
    got = say("ReceiveMessage", receive_request("q", timeout=30)).messages
    handles = [message.receipt_handle for message in got]
    change = api.ChangeMessageVisibilityRequest("q", handles[0], 60)
    say("ChangeMessageVisibility", change)
    changes = [
        api.ChangeMessageVisibilityBatchRequestEntry("a", handles[1], 0),
        api.ChangeMessageVisibilityBatchRequestEntry("b", "forged", 0),
    ]
    say(
        "ChangeMessageVisibilityBatch",
        api.ChangeMessageVisibilityBatchRequest("q", changes),
    )
    say("DeleteMessage", api.DeleteMessageRequest("q", handles[2]))
    say("DeleteMessage", api.DeleteMessageRequest("q", "forged"))
    deletes = [
        api.DeleteMessageBatchRequestEntry("a", handles[3]),
        api.DeleteMessageBatchRequestEntry("b", "forged"),
    ]
    say("DeleteMessageBatch", api.DeleteMessageBatchRequest("q", deletes))
    # Received once, so it is a dead letter now.
    say("ReceiveMessage", receive_request("q"))
    say("GetQueueAttributes", api.GetQueueAttributesRequest("dead", ["All"]))
    task = say("StartMessageMoveTask", api.StartMessageMoveTaskRequest(arn("dead")))
    say("ListMessageMoveTasks", api.ListMessageMoveTasksRequest(arn("dead")))
    handle = task.task_handle if task is not None else ""
    say("CancelMessageMoveTask", api.CancelMessageMoveTaskRequest(handle))
    say("CancelMessageMoveTask", api.CancelMessageMoveTaskRequest("nonsense"))
    say("GetQueueAttributes", api.GetQueueAttributesRequest("q", ["All"]))
    say("PurgeQueue", api.PurgeQueueRequest("q"))
    say("ReceiveMessage", receive_request("q"))
    say("DeleteQueue", api.DeleteQueueRequest("q"))
    say("DeleteQueue", api.DeleteQueueRequest("q"))
    return answers


SINGLE = script(World(groups=4).call)


def test_the_script_has_every_action() -> None:
    assert {line.partition(":")[0] for line in SINGLE} == set(OPERATIONS)


@pytest.mark.parametrize("node", [1, 2, 3])
def test_every_node_answers_like_a_single_one(node: int) -> None:
    world = ClusterWorld()
    answers = script(lambda action, request: world.call(node, action, request))
    assert answers == SINGLE


def test_calls_that_enter_at_a_different_node_each_answer_like_a_single_one() -> None:
    world, nodes = ClusterWorld(), itertools.cycle([1, 2, 3])
    answers = script(lambda action, request: world.call(next(nodes), action, request))
    assert answers == SINGLE


def test_the_script_goes_on_when_leads_change_between_any_two_calls() -> None:
    world, moves = ClusterWorld(), itertools.count()

    def do(action: str, request: Any) -> Any:
        number = next(moves)
        world.lead(number % 4, number % 3 + 1)
        return world.call(1, action, request)

    assert script(do) == SINGLE


@pytest.mark.parametrize(
    ("action", "request_"),
    [
        ("SendMessage", api.SendMessageRequest("q", "m")),
        ("GetQueueAttributes", api.GetQueueAttributesRequest("q", ["All"])),
    ],
)
def test_a_call_is_forwarded_once_and_never_passed_on(action: str, request_: Any) -> None:
    """Whoever gets a forwarded call for a group that it does not lead says so."""
    world = ClusterWorld(groups=1)
    world.create(1, "q")
    # Node 2 believes that node 3 leads, which knows that it does not.
    world.nodes[2].groups[0].change_role("follower", 9, 3)
    pending = world.begin(2, action, request_)
    world.settle()
    assert not pending.is_done
    assert world.link(2, 3).arrived == [FORWARDED]
    assert world.link(3, 1).arrived == world.link(2, 1).arrived == []
    world.nodes[2].groups[0].change_role("follower", 10, 1)
    world.settle()
    assert answer_of(pending)
    assert world.counts(1, "q") == (int(action == "SendMessage"), 0, 0)


@pytest.mark.parametrize("node", [1, 2])
def test_shape_text_and_retry_after_of_an_error_travel(node: int) -> None:
    world = ClusterWorld(groups=1)
    world.create(1, "q", ThrottleSendCapacity="10", ThrottleSendRefillPerSecond="0.2")
    for _ in range(10):
        world.send(1, "q", "m")
    with pytest.raises(SqsError) as caught:
        world.send(node, "q", "m")
    assert caught.value.row.shape == "RequestThrottled"
    assert caught.value.retry_after_seconds == 5


def test_a_leader_without_room_turns_away_what_others_send_and_deletes_last() -> None:
    world = ClusterWorld(groups=1)
    world.create(1, "q")
    world.send(2, "q", "m")
    pending = world.begin(2, "ReceiveMessage", receive_request("q"))
    world.settle()
    (message,) = answer_of(pending).messages
    backlog = world.nodes[1].groups[0].backlog
    backlog.room = 0
    refused = world.begin(2, "SendMessage", api.SendMessageRequest("q", "m"))
    deleted = world.begin(2, "DeleteMessage", api.DeleteMessageRequest("q", message.receipt_handle))
    world.settle()
    assert isinstance(refused.error, Overloaded)
    assert deleted.is_done and deleted.error is None
    assert world.counts(1, "q") == (0, 0, 0)
    backlog.room = -backlog.limit
    deleted = world.begin(2, "DeleteMessage", api.DeleteMessageRequest("q", message.receipt_handle))
    world.settle()
    assert isinstance(deleted.error, Overloaded)


class Asking(Call):
    """A call with everything that a transport may know."""

    wants_explanation = True
    source_ip = "10.1.2.3"
    trace_header = "Root=1-5759e988-bd862e3fe1be46a994272793"


def asking(action: str) -> Asking:
    return Asking(Caller(ACCOUNT, REGION, ENDPOINT, "AIDA"), action, "request")


@pytest.mark.parametrize("node", [1, 2])
def test_explanation_and_trace_header_travel(node: int) -> None:
    world = ClusterWorld(groups=1)
    world.create(1, "q")
    world.begin(node, "SendMessage", api.SendMessageRequest("q", "m"), call=asking("SendMessage"))
    world.settle()
    call = asking("ReceiveMessage")
    pending = world.begin(node, "ReceiveMessage", receive_request("q"), call=call)
    world.settle()
    (message,) = answer_of(pending).messages
    assert message.attributes["AWSTraceHeader"] == Asking.trace_header
    assert call.explanation is not None
    assert re.fullmatch(r"partitions=1;rows=\d+;us=0;remote=0", call.explanation)


@pytest.mark.parametrize("node", [1, 2])
def test_where_a_call_came_from_travels_to_the_policy(node: int) -> None:
    world = ClusterWorld(groups=1)
    statement = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": "sqs:SendMessage",
        "Resource": arn("q"),
        "Condition": {"IpAddress": {"aws:SourceIp": "10.1.2.0/24"}},
    }
    world.create(1, "q", Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    stranger = Caller("111111111111", REGION, ENDPOINT, "AIDB")
    request = api.SendMessageRequest(f"{ENDPOINT}/{ACCOUNT}/q", "m")
    admitted = Asking(stranger, "SendMessage", "r")
    pending = world.begin(node, "SendMessage", request, call=admitted)
    world.settle()
    assert answer_of(pending).message_id
    pending = world.begin(node, "SendMessage", request, call=Call(stranger, "SendMessage", "r"))
    world.settle()
    with pytest.raises(SqsError, match="AccessDenied"):
        answer_of(pending)


def test_queues_of_others_keep_their_owner() -> None:
    world = ClusterWorld(groups=4)
    for number in range(8):
        world.create(1, f"q{number}")
    listed = world.call(3, "ListQueues", api.ListQueuesRequest()).queue_urls
    assert [url.rpartition("/")[2] for url in listed] == [f"q{n}" for n in range(8)]
    assert world.call(3, "ListQueues", api.ListQueuesRequest(), "111111111111").queue_urls == []


@pytest.mark.parametrize(
    ("action", "request_"),
    [
        ("GetQueueUrl", api.GetQueueUrlRequest("q", "x" * 300)),
        ("GetQueueUrl", api.GetQueueUrlRequest("q", "\0\uffff")),
        ("GetQueueUrl", api.GetQueueUrlRequest("")),
        ("SendMessage", api.SendMessageRequest(None, "m")),
        ("SendMessage", api.SendMessageRequest("http://h/\uffff/q", "m")),
        ("SendMessage", api.SendMessageRequest("q", "\uffff")),
        ("SendMessage", api.SendMessageRequest(f"{ENDPOINT}/{'9' * 300}/q", "m")),
        ("CreateQueue", api.CreateQueueRequest("q", {"Policy": "\uffff"})),
        ("TagQueue", api.TagQueueRequest("q", {"\uffff": "\ufffe"})),
        ("ListMessageMoveTasks", api.ListMessageMoveTasksRequest("arn:aws:sqs:a\uffff:b:q")),
        ("ListMessageMoveTasks", api.ListMessageMoveTasksRequest("arn:aws:sqs:a\0:b:" + "q" * 99)),
        ("ListMessageMoveTasks", api.ListMessageMoveTasksRequest("arn:aws:sqs:::")),
        ("StartMessageMoveTask", api.StartMessageMoveTaskRequest("arn:aws:sqs::\0:q")),
        ("CancelMessageMoveTask", api.CancelMessageMoveTaskRequest("e30=")),
    ],
)
@pytest.mark.parametrize("node", [1, 2])
def test_odd_requests_get_the_answer_of_a_single_node(
    node: int, action: str, request_: Any
) -> None:
    world, single = ClusterWorld(groups=1), World()
    world.create(1, "q")
    single.create("q")
    alone, far = single.begin(action, request_), world.begin(node, action, request_)
    single.commit()
    world.settle()
    assert far.is_done and alone.is_done
    assert str(far.error) == str(alone.error)
    assert type(far.error) is type(alone.error)


# --- a queue that another node has just made or changed ------------------------------------------


def test_a_queue_is_usable_at_once_at_a_node_that_lags() -> None:
    world = ClusterWorld()
    world.lagging.add(3)
    world.create(1, "q")
    world.create_partitioned(1, "p.fifo")
    world.send(3, "q", "m")
    assert world.counts(3, "q") == (1, 0, 0)
    for group in "abcdefgh":
        sending = world.begin(
            3, "SendMessage", api.SendMessageRequest("p.fifo", "m", message_group_id=group)
        )
        world.settle()
        if not sending.is_done:
            # It leads the partition, and has yet to learn of the queue.
            world.lagging.clear()
            world.settle()
            world.lagging.add(3)
        assert answer_of(sending).message_id
    listing = world.begin(3, "ListQueues", api.ListQueuesRequest())
    world.settle()
    assert not listing.is_done, "a list that lacks what exists would be wrong"
    world.lagging.clear()
    world.settle()
    assert len(answer_of(listing).queue_urls) == 2


def test_a_source_is_made_at_once_after_its_dead_letter_queue() -> None:
    for number in range(8):
        world = ClusterWorld()
        world.lagging |= {1, 2, 3}
        dead, source = f"d{number}", f"s{number}"
        world.create(1, dead)
        redrive = json.dumps({"deadLetterTargetArn": arn(dead), "maxReceiveCount": 1})
        creating = world.begin(
            2, "CreateQueue", api.CreateQueueRequest(source, {"RedrivePolicy": redrive})
        )
        world.settle()
        if not creating.is_done:
            world.lagging.clear()
            world.settle()
        assert answer_of(creating).queue_url


def test_without_a_leader_the_call_is_unavailable() -> None:
    world = ClusterWorld(groups=1)
    world.create(1, "q")
    world.depose(0)
    pending = world.begin(2, "SendMessage", api.SendMessageRequest("q", "m"))
    world.advance(6_000)
    with pytest.raises(Unavailable):
        answer_of(pending)
