"""What goes through a queue is counted for its history, whichever way it goes."""

import json

import pytest

from tests.unit.http.handout_front import Front
from tests.unit.http.lanes import URL, message, post
from tests.unit.http.lanes import Front as SendFront
from tests.world import ACCOUNT, REGION


def traffic(front: Front | SendFront, name: str) -> tuple[int, int, int]:
    queue = front.world.service.find(ACCOUNT, REGION, name)
    assert queue is not None
    return queue.traffic


@pytest.mark.parametrize("suffix", ["", ".fifo"])
@pytest.mark.parametrize("uses_lane", [True, False])
def test_receives_and_deletes_count(suffix: str, *, uses_lane: bool) -> None:
    front = Front(uses_lane=uses_lane, suffix=suffix)
    front.send(*"abcdef")
    first, *rest = front.receive()
    assert len(rest) == 5
    front.ask("DeleteMessage", ReceiptHandle=first)
    entries = [{"Id": str(n), "ReceiptHandle": handle} for n, handle in enumerate(rest[:3])]
    front.ask("DeleteMessageBatch", Entries=entries)
    assert front.lane_uses == (3 if uses_lane else 0)
    assert traffic(front, "q" + suffix) == (6, 6, 4)


@pytest.mark.parametrize("name", ["q", "ordered.fifo"])
@pytest.mark.parametrize("uses_lane", [True, False])
def test_sends_count(name: str, *, uses_lane: bool) -> None:
    front = SendFront(uses_lane=uses_lane)
    url = f"{URL.rpartition('/')[0]}/{name}"
    group = {"MessageGroupId": "g"} if name.endswith(".fifo") else {}
    # The first request makes client and queue known.
    for body in ("first", "second"):
        front.send(post(message(QueueUrl=url, MessageBody=body, **group)))
    entries = [{"Id": f"e{n}", "MessageBody": f"m{n}", **group} for n in range(3)]
    batch = json.dumps({"QueueUrl": url, "Entries": entries}).encode()
    front.send(post(batch, target=b"SendMessageBatch"))
    assert front.lane_uses == (2 if uses_lane else 0)
    assert traffic(front, name) == (5, 0, 0)
