"""A request leaves nothing behind that only the garbage collector would find. A node lets it look
once in many thousand requests, and until then each would keep its body and its answer in memory.
"""

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.unit.http.handout_front import Front, entries, post
from tests.unit.http.http_fakes import bodies


@contextmanager
def left_behind() -> Iterator["Counter[str]"]:
    """What was garbage at the end, by type; filled when the block is left."""
    found: Counter[str] = Counter()
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        found.update(type(one).__qualname__ for one in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def poll(front: Front) -> bytes:
    """A receive that has waited for its message."""
    connection, transport = front.node.connect()
    members = {"QueueUrl": front.url, "WaitTimeSeconds": 20}
    connection.data_received(post("ReceiveMessage", **members))
    front.world.commit()
    assert not transport.written
    front.send("awaited")
    connection.connection_lost(None)
    return transport.written


@pytest.mark.parametrize("suffix", ["", ".fifo"])
@pytest.mark.parametrize("uses_lane", [True, False])
def test_requests_leave_no_cycles(uses_lane: bool, suffix: str) -> None:
    front = Front(uses_lane=uses_lane, suffix=suffix)
    front.send("warm")
    front.ask("DeleteMessageBatch", Entries=entries(front.receive()))
    with left_behind() as found:
        for number in range(3):
            ids = {"MessageGroupId": "g", "MessageDeduplicationId": f"own-{number}"}
            answer = front.ask("SendMessage", MessageBody="m", **(ids if front.is_fifo else {}))
            assert answer.startswith(b"HTTP/1.1 200 ")
            handles = front.receive()
            assert len(handles) == 1
            front.ask("ChangeMessageVisibility", ReceiptHandle=handles[0], VisibilityTimeout=9)
            front.ask("DeleteMessageBatch", Entries=entries(handles))
            assert b"MessageId" in poll(front)
    assert not found, found


def test_refused_requests_and_clients_that_leave_do_not_either() -> None:
    front = Front(uses_lane=True)
    with left_behind() as found:
        assert front.ask("SendMessage", MessageBody="").startswith(b"HTTP/1.1 400 ")
        connection, transport = front.node.connect()
        members = {"QueueUrl": front.url, "WaitTimeSeconds": 20}
        connection.data_received(post("ReceiveMessage", **members))
        connection.connection_lost(None)
        front.world.commit()
        assert not bodies(transport.written)
    assert not found, found
