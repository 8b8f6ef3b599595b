"""Every request is counted once, whichever way it goes."""

import logging

import pytest

from fastnode.http.request_meter import RequestMeter
from fastnode.native import now_ns
from tests.unit.http.handout_front import Front
from tests.unit.http.lanes import FIRST, URL, message, post
from tests.unit.http.lanes import Front as SendFront
from tests.unit.http.test_plan_again import send_overtaken


def counts(meter: RequestMeter) -> dict[str, tuple[int, int]]:
    """Action → how many were answered, and how many of these were refused."""
    found = {action: meter.of(action) for action in list(meter._by_action)}
    answered = {action: sum(one.times.seen()[0]) for action, one in found.items()}
    return {
        action: (count, found[action].failed.total()) for action, count in answered.items() if count
    }


@pytest.mark.parametrize("uses_lane", [True, False])
def test_receives_and_deletes_are_counted_by_both_ways(*, uses_lane: bool) -> None:
    front = Front(uses_lane=uses_lane)
    front.send(*"abcdef")
    first, second, *rest = front.receive()
    front.ask("DeleteMessage", ReceiptHandle=first)
    front.ask("DeleteMessage", ReceiptHandle=second)
    front.ask("DeleteMessage", ReceiptHandle="bad")
    entries = [{"Id": str(n), "ReceiptHandle": handle} for n, handle in enumerate(rest)]
    front.ask("DeleteMessageBatch", Entries=entries)
    front.ask("ReceiveMessage")
    assert front.lane_uses == (4 if uses_lane else 0)
    assert counts(front.router.meter) == {
        "ListQueues": (1, 0),
        "ReceiveMessage": (2, 0),
        "DeleteMessage": (3, 1),
        "DeleteMessageBatch": (1, 0),
    }


@pytest.mark.parametrize("uses_lane", [True, False])
def test_sends_are_counted_by_both_ways(*, uses_lane: bool) -> None:
    front = SendFront(uses_lane=uses_lane)
    front.send(post(message(MessageBody="known from now on")))
    front.send(post(message(MessageBody="plain")))
    front.send(post(message(MessageBody="")))
    batch = b'{"QueueUrl":"%b","Entries":[{"Id":"a","MessageBody":"x"}]}' % URL.encode()
    front.send(post(batch, target=b"SendMessageBatch"))
    assert front.lane_uses == (2 if uses_lane else 0)
    assert counts(front.router.meter) == {"SendMessage": (3, 1), "SendMessageBatch": (1, 0)}


def test_what_the_short_way_could_not_finish_is_counted_once() -> None:
    front = SendFront(uses_lane=True)
    front.send(FIRST)
    send_overtaken(front, post(message(MessageBody="a")), 1)
    assert front.lane_uses == 1
    assert counts(front.router.meter) == {"SendMessage": (2, 0)}


def test_a_slow_request_of_the_short_way_is_told(caplog: pytest.LogCaptureFixture) -> None:
    front = Front(uses_lane=True)
    lane = front.router._lanes[b"AmazonSQS.DeleteMessage"]
    lane._took = lambda began_ns: 0 < began_ns <= now_ns()
    front.send("a")
    (handle,) = front.receive()
    with caplog.at_level(logging.WARNING, logger="fastnode.slow"):
        front.ask("DeleteMessage", ReceiptHandle=handle)
    assert [record.__dict__["action"] for record in caplog.records] == ["DeleteMessage"]
