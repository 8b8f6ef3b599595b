"""Parts of calls as bytes, and what a node answers that is asked for one."""

from typing import Any

import msgspec
import pytest

from fastnode.cluster.call_codec import DONE, FAILED, REFUSED, decode_error, encode_error
from fastnode.cluster.part_calls import serve
from fastnode.errors import NotLed, PlanAgain
from fastnode.peers.calls import IncomingCall
from fastnode.queue import api, parts
from fastnode.queue.errors import SqsError
from fastnode.queue.message_attributes import MessageExtras
from fastnode.queue.outbox import Letter
from fastnode.queue.partitions import PartitionedQueue
from fastnode.queue.places import identity_of
from fastnode.queue.validate import ValidSend, receive_message
from tests.unit.cluster.cluster_world import ClusterWorld
from tests.world import ACCOUNT, REGION

URL = "p.fifo"
NAME = b"segment", 1 << 63


def valid_receive() -> Any:
    queue = front(spread(), 1)
    request = api.ReceiveMessageRequest(
        URL,
        attribute_names=["SentTimestamp"],
        message_attribute_names=["a.*", "b"],
        receive_request_attempt_id="x",
    )
    return receive_message(request, queue.settings)


def spread() -> ClusterWorld:
    world = ClusterWorld()
    world.create_partitioned(1, URL)
    return world


def front(world: ClusterWorld, node: int) -> PartitionedQueue:
    queue = world.nodes[node].service.find(ACCOUNT, REGION, URL)
    assert isinstance(queue, PartitionedQueue)
    return queue


SEND = ValidSend(b"\xff body", MessageExtras(group_id="g", deduplication_id="d"), (), 0, 6)
LETTER = Letter(b"t", 1 << 63, b"s", 7, b"\0" * 10, b"stored", b"", 1 << 63, 31)


@pytest.mark.parametrize(
    "part",
    [
        parts.Barrier(3),
        parts.Deliver(1, 2, [(b"\xff" * 10, LETTER)]),
        parts.Find(7, bytes(16)),
        parts.Send(*NAME, bytes(16), 1, 31, "AIDA", [(9, SEND)]),
        parts.Delete(*NAME, bytes(16), 0, 0, [(0, "h1"), (9, "h2")]),
        parts.Change(*NAME, bytes(16), 0, 0, [(3, "h", 43_200)]),
        parts.Count(*NAME),
        parts.Renew(*NAME, 5, True, 1 << 42),
        parts.Open(b"segment", 4, 7),
        parts.Follow(2, 1 << 62),
        parts.Claim(*NAME, valid_receive(), 20_000),
        parts.Take(*NAME, bytes(16), (1 << 64) - 1, 10, valid_receive()),
        parts.GiveBack((1 << 64) - 1),
        parts.Redeliver(*NAME, bytes(16), valid_receive()),
    ],
    ids=lambda part: type(part).__name__,
)
def test_a_part_arrives_as_it_was(part: parts.Part) -> None:
    decoded = msgspec.msgpack.decode(msgspec.msgpack.encode(part), type=parts.ANY_PART)
    assert decoded == part and type(decoded) is type(part)


def test_a_refusal_arrives_as_it_was() -> None:
    refusal = parts.Refusal("ReceiptHandleIsInvalid", "No.")
    answer = msgspec.msgpack.encode({"h": refusal})
    decoded = msgspec.msgpack.decode(answer, type=parts.ANSWERS[parts.Delete])
    error = decoded["h"].error
    assert isinstance(error, SqsError) and error.row.shape == "ReceiptHandleIsInvalid"
    assert error.message == "No."


class Asked:
    """A node that is asked for a part, and what it answers."""

    def __init__(self, world: ClusterWorld, node: int, part: parts.Part) -> None:
        self.answers: list[tuple[int, bytes]] = []
        self.call = IncomingCall(self, 1, 0.0)
        serve(world.nodes[node].worker, msgspec.msgpack.encode(part), self.call)
        world.settle()

    def answer(self, _call: IncomingCall, status: int, payload: bytes) -> bool:
        self.answers.append((status, payload))
        return True

    @property
    def error(self) -> Any:
        ((status, payload),) = self.answers
        assert status in (REFUSED, FAILED)
        return decode_error(status, payload)


def led_elsewhere(world: ClusterWorld, node: int) -> int:
    """A group that the node does not lead."""
    return next(at for at, leader in enumerate(world.leaders) if leader != node)


def test_whoever_does_not_lead_says_so_and_does_nothing() -> None:
    world = spread()
    group = led_elsewhere(world, 2)
    queue = front(world, 2)
    partition = next(at for at in range(4) if world.leaders[queue.record.partition_groups[at]] != 2)
    name = identity_of(queue)
    for part in (
        parts.Barrier(group),
        parts.Deliver(group, 0, []),
        parts.Find(group, bytes(16)),
        parts.Send(*name, bytes(16), 0, partition, "AIDA", [(0, SEND)]),
        parts.Delete(*name, bytes(16), 0, partition, []),
        parts.Change(*name, bytes(16), 0, partition, []),
        parts.Renew(*name, partition, False, 1 << 60),
        parts.Open(queue.keys.segment, partition, queue.record.partition_groups[partition]),
    ):
        assert type(Asked(world, 2, part).error) is NotLed
    assert world.counts(1, URL) == (0, 0, 0)


def test_a_barrier_is_the_index_that_holds_what_was_acknowledged() -> None:
    world = spread()
    group = world.leaders.index(2)
    ((status, payload),) = Asked(world, 2, parts.Barrier(group)).answers
    assert status == DONE
    assert msgspec.msgpack.decode(payload) == len(world.logs[group])


@pytest.mark.parametrize("is_of_commits", [False, True])
def test_a_barrier_of_commits_waits_for_what_a_leader_with_a_lease_has_not_applied(
    is_of_commits: bool,
) -> None:
    world = spread()
    group = world.leaders.index(2)
    Asked(world, 2, parts.Barrier(group))
    assert world.nodes[2].groups[group].is_readable
    world.logs[group].append((world.terms[group], None))
    ((status, payload),) = Asked(world, 2, parts.Barrier(group, is_of_commits)).answers
    assert status == DONE
    assert msgspec.msgpack.decode(payload) == len(world.logs[group]) - (not is_of_commits)


def test_members_of_different_versions_understand_each_other_s_barriers() -> None:
    class Barrier(parts.Part, frozen=True):
        """As it was."""

        group: int

    sent = msgspec.msgpack.encode(parts.Barrier(3, is_of_commits=True))
    assert msgspec.msgpack.decode(sent, type=Barrier) == Barrier(3)
    sent = msgspec.msgpack.encode(Barrier(3))
    assert msgspec.msgpack.decode(sent, type=parts.ANY_PART) == parts.Barrier(3)


def test_a_part_for_a_queue_that_is_gone_or_was_made_anew() -> None:
    world = spread()
    segment, incarnation = identity_of(front(world, 1))
    assert type(Asked(world, 2, parts.Count(segment, incarnation - 1)).error) is PlanAgain
    world.call(1, "DeleteQueue", api.DeleteQueueRequest(URL))
    error = Asked(world, 2, parts.Count(segment, incarnation)).error
    assert isinstance(error, SqsError) and error.row.shape == "QueueDoesNotExist"


def test_a_renewal_that_comes_late_is_refused() -> None:
    world = spread()
    world.send(1, URL, "m", "g")
    queue = front(world, 1)
    for partition, group in enumerate(queue.record.partition_groups):
        part = parts.Renew(*identity_of(queue), partition, True, world.now_ms - 1)
        error = Asked(world, world.leaders[group], part).error
        assert "too late" in str(error)
    assert world.counts(1, URL) == (1, 0, 0)


def test_a_caller_that_gives_up_ends_the_wait_of_its_part() -> None:
    world = spread()
    part = parts.Claim(*identity_of(front(world, 2)), valid_receive(), 20_000)
    asked = Asked(world, 2, part)
    assert asked.answers == []
    asked.call.cancel()
    world.settle()
    # It is answered to nobody: the link has forgotten the call.
    assert asked.call.is_answered and asked.answers == []


def test_bytes_that_are_no_part_are_refused_before_anything_is_done() -> None:
    world = spread()
    for payload in (b"", b"\x91\xa7Barrier", b"\x92\xa4None\x01", b"\xc1"):
        with pytest.raises(msgspec.DecodeError):
            serve(world.nodes[1].worker, payload, IncomingCall(Asked.__new__(Asked), 1, 0.0))


def test_a_failure_that_travels_keeps_its_kind() -> None:
    assert type(decode_error(*encode_error(PlanAgain("x")))) is PlanAgain
