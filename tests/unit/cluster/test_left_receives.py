"""A client that goes while the answer of its forwarded receive is on its way takes no message with
it; unless the same call was answered once more, for somebody who may have read that.
"""

import pytest

from fastnode.peers.calls import CallCancelled
from fastnode.queue import api
from fastnode.queue.caller import Call, Caller
from tests.unit.cluster.cluster_world import ClusterWorld, answer_of, receive_request
from tests.world import ACCOUNT, ENDPOINT, REGION, Pending

IDENTITY = b"i" * 16
NAMES = ["q", "q.fifo"]


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def world(name: str) -> ClusterWorld:
    """Node 1 leads the queue, and the clients are at other nodes."""
    world = ClusterWorld()
    world.lead_all(1)
    fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    world.create(1, name, **(fifo if name.endswith(".fifo") else {}))
    return world


def send(world: ClusterWorld, name: str, *bodies: str) -> None:
    for body in bodies:
        world.send(1, name, body, "group" if name.endswith(".fifo") else None)


def receiving(
    world: ClusterWorld, node: int, name: str, seconds: int = 0, *, is_repeated: bool = False
) -> Pending:
    call = Call(Caller(ACCOUNT, REGION, ENDPOINT, "AIDA"), "ReceiveMessage", "request")
    call.request = IDENTITY
    call.is_repeated = is_repeated
    request = receive_request(name, seconds=seconds)
    return world.begin(node, "ReceiveMessage", request, call=call)


def answer_crosses(world: ClusterWorld, name: str) -> None:
    """The leader has answered, and the client is gone before that arrives."""
    link = world.link(2, 1)
    link.are_answers_held = True
    pending = receiving(world, 2, name)
    world.settle()
    assert world.counts(1, name)[1] > 0 and not pending.is_done
    pending.call.leave()
    assert isinstance(pending.error, CallCancelled)
    link.are_answers_held = False


def received(world: ClusterWorld, name: str, timeout: int | None = None) -> list[tuple[str, str]]:
    return [
        (message.body, message.attributes["ApproximateReceiveCount"])
        for message in world.receive(3, name, timeout=timeout)
    ]


def test_what_was_taken_is_available_at_once_and_uncounted(world: ClusterWorld, name: str) -> None:
    send(world, name, "a", "b")
    answer_crosses(world, name)
    world.settle()
    assert world.counts(1, name) == (2, 0, 0)
    world.advance(5)
    (first, *rest) = world.receive(3, name)
    assert first.attributes["ApproximateFirstReceiveTimestamp"] == str(world.now_ms)
    shown = [(one.body, one.attributes["ApproximateReceiveCount"]) for one in (first, *rest)]
    assert shown == [("a", "1"), ("b", "1")]


def test_earlier_receives_still_count(world: ClusterWorld, name: str) -> None:
    send(world, name, "a")
    for count in ("1", "2"):
        assert received(world, name, timeout=0) == [("a", count)]
    answer_crosses(world, name)
    world.settle()
    assert received(world, name) == [("a", "3")]


def test_whoever_waits_gets_it(world: ClusterWorld, name: str) -> None:
    send(world, name, "a")
    answer_crosses(world, name)
    waiting = world.poll(3, name)
    assert [message.body for message in answer_of(waiting).messages] == ["a"]


def test_what_was_answered_once_more_is_not_taken_from_whom_has_it(
    world: ClusterWorld, name: str
) -> None:
    """The client's SDK has repeated the call at another node, before the news of its going came."""
    send(world, name, "a")
    world.link(2, 1).are_answers_held = True
    gone = receiving(world, 2, name)
    world.settle()
    world.link(2, 1).is_held = True
    gone.call.leave()
    repeated = receiving(world, 3, name)
    world.settle()
    (message,) = answer_of(repeated).messages
    world.link(2, 1).is_held = world.link(2, 1).are_answers_held = False
    world.settle()
    assert world.counts(1, name) == (0, 1, 0)
    world.delete(3, name, message.receipt_handle)
    assert world.counts(1, name) == (0, 0, 0)


def test_what_the_repeated_call_took_is_not_given_back_for_the_one_before_it(
    world: ClusterWorld, name: str
) -> None:
    """The first attempt waited and got nothing; the news of its going comes when the second one,
    at another node, has been answered.
    """
    gone = receiving(world, 2, name, seconds=20)
    world.settle()
    world.link(2, 1).is_held = True
    gone.call.leave()
    repeated = receiving(world, 3, name, seconds=20, is_repeated=True)
    world.settle()
    send(world, name, "a")
    (message,) = answer_of(repeated).messages
    world.link(2, 1).is_held = False
    world.settle()
    assert world.counts(1, name) == (0, 1, 0)
    world.delete(3, name, message.receipt_handle)
    assert world.counts(1, name) == (0, 0, 0)


def test_a_call_that_is_repeated_after_the_news_is_a_receive_like_any_other(
    world: ClusterWorld, name: str
) -> None:
    send(world, name, "a")
    answer_crosses(world, name)
    world.settle()
    repeated = receiving(world, 3, name)
    world.settle()
    (message,) = answer_of(repeated).messages
    assert message.attributes["ApproximateReceiveCount"] == "1"
    assert world.counts(1, name) == (0, 1, 0)


def test_nothing_is_given_back_once_another_has_led(world: ClusterWorld, name: str) -> None:
    """That one may have answered the call once more, and nobody knows it here."""
    send(world, name, "a")
    world.link(2, 1).are_answers_held = True
    gone = receiving(world, 2, name)
    world.settle()
    world.link(2, 1).is_held = True
    gone.call.leave()
    world.lead_all(3)
    world.lead_all(1)
    world.link(2, 1).is_held = False
    world.settle()
    assert world.counts(1, name) == (0, 1, 0)


def test_a_lost_leader_is_not_asked(world: ClusterWorld, name: str) -> None:
    send(world, name, "a")
    world.link(2, 1).are_answers_held = True
    gone = receiving(world, 2, name)
    world.settle()
    gone.call.leave()
    world.cut(2, 1)
    world.advance(31_000)
    assert received(world, name) == [("a", "2")]


def test_whoever_waits_for_messages_and_goes_takes_none(world: ClusterWorld, name: str) -> None:
    waiting = receiving(world, 2, name, seconds=20)
    world.settle()
    waiting.call.leave()
    world.settle()
    send(world, name, "a")
    assert world.counts(1, name) == (1, 0, 0)


def test_other_calls_that_were_left_ask_for_nothing_back(world: ClusterWorld, name: str) -> None:
    world.link(2, 1).are_answers_held = True
    before = len(world.link(2, 1).arrived)
    asked = world.begin(2, "GetQueueUrl", api.GetQueueUrlRequest(name))
    world.settle()
    asked.call.leave()
    world.settle()
    assert len(world.link(2, 1).arrived) == before + 1
