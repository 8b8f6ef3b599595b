"""Messages set aside for receives that other nodes answer."""

from typing import Any

import pytest

from fastnode import config
from fastnode.errors import OperationError, Unavailable
from fastnode.flow import start
from fastnode.queue import api, parts
from fastnode.queue.caller import Call, Caller
from fastnode.queue.partitions import PartitionedQueue
from fastnode.queue.places import identity_of
from fastnode.queue.validate import ValidReceive, receive_message
from tests.unit.cluster.cluster_world import ClusterWorld, answer_of
from tests.world import ACCOUNT, REGION, Pending

URL = "p.fifo"


class Claiming:
    """A queue of two partitions in groups of node 1, and what other nodes ask of it."""

    def __init__(self, **attributes: str) -> None:
        self.world = ClusterWorld(groups=2)
        self.world.lead_all(1)
        self.world.create_partitioned(1, URL, 2, **attributes)

    def queue(self, node: int = 1) -> PartitionedQueue:
        queue = self.world.nodes[node].service.find(ACCOUNT, REGION, URL)
        assert isinstance(queue, PartitionedQueue)
        return queue

    def valid(self, limit: int = 10, timeout: int = 30) -> ValidReceive:
        request = api.ReceiveMessageRequest(
            URL, max_number_of_messages=limit, visibility_timeout=timeout
        )
        return receive_message(request, self.queue().settings)

    def begin(self, part: parts.Part, node: int = 1) -> Pending:
        pending = Pending(Call(Caller("", "", "", ""), "", ""))
        worker = self.world.nodes[node].worker
        start(worker.perform(part, pending.call), pending.finish)
        self.world.settle()
        return pending

    def claim(self, limit: int = 10, node: int = 1, wait_ms: int = 0) -> parts.Claimed:
        part = parts.Claim(*identity_of(self.queue(node)), self.valid(limit), wait_ms)
        claimed: parts.Claimed = answer_of(self.begin(part, node))
        return claimed

    def take(self, claimed: parts.Claimed, count: int = 10, node: int = 1) -> list[str]:
        part = parts.Take(
            *identity_of(self.queue(node)), bytes(16), claimed.claim, count, self.valid()
        )
        messages: list[api.Message] = answer_of(self.begin(part, node))
        return [message.body for message in messages]

    def got(self, node: int = 1) -> list[str]:
        return [message.body for message in self.world.receive(node, URL)]


@pytest.fixture
def held() -> Claiming:
    """Three messages in one partition, of one group, and one in the other."""
    claiming = Claiming()
    queue = claiming.queue()
    for body in ("a0", "a1", "a2", "b0"):
        partition = "ab".index(body[0])
        group = next(one for one in map(str, range(99)) if queue.partition_for(one) == partition)
        claiming.world.send(1, URL, body, group)
    return claiming


def test_what_is_claimed_belongs_to_nobody_else(held: Claiming) -> None:
    claimed = held.claim()
    assert (claimed.count, claimed.partitions) == (4, 2)
    assert held.got() == [] and held.claim().claim == 0
    assert sorted(held.take(claimed)) == ["a0", "a1", "a2", "b0"]
    assert held.world.counts(1, URL) == (0, 4, 0)


def test_a_claim_is_taken_once(held: Claiming) -> None:
    claimed = held.claim()
    assert len(held.take(claimed)) == 4
    assert held.take(claimed) == []


def test_what_is_not_wanted_is_available_at_once_and_in_order(held: Claiming) -> None:
    claimed = held.claim()
    first = held.take(claimed, count=1)
    assert len(first) == 1
    rest = held.got()
    # Behind a message that is in flight its group gives nothing.
    blocked = {body for body in ("a0", "a1", "a2", "b0") if body[0] == first[0][0]}
    assert sorted(rest) == sorted({"a0", "a1", "a2", "b0"} - blocked)
    assert held.world.counts(1, URL)[1] == 1 + len(rest)


def test_a_claim_that_nobody_takes_is_over_after_its_time(held: Claiming) -> None:
    claimed = held.claim()
    held.world.advance(config.CLAIM_MS - 1)
    assert held.got() == []
    held.world.advance(1)
    assert held.take(claimed) == []
    assert sorted(held.got()) == ["a0", "a1", "a2", "b0"]


def test_claims_that_are_over_give_the_receive_count_back(held: Claiming) -> None:
    held.claim()
    held.world.advance(config.CLAIM_MS)
    messages = held.world.receive(2, URL)
    assert {one.attributes["ApproximateReceiveCount"] for one in messages} == {"1"}


def test_what_was_delivered_can_be_given_back(held: Claiming) -> None:
    claimed = held.claim()
    assert len(held.take(claimed)) == 4
    answer_of(held.begin(parts.GiveBack(claimed.claim)))
    messages = held.world.receive(1, URL)
    assert sorted(one.body for one in messages) == ["a0", "a1", "a2", "b0"]
    assert {one.attributes["ApproximateReceiveCount"] for one in messages} == {"1"}
    answer_of(held.begin(parts.GiveBack(claimed.claim)))
    assert held.world.counts(1, URL) == (0, 4, 0)


def test_numbers_of_claims_differ_between_nodes(held: Claiming) -> None:
    """Whoever asks the wrong node for its claim must not get somebody else's."""
    numbers = {held.claim(limit=1).claim for _ in range(2)}
    world = held.world
    for number in range(2):
        world.lead(number, 2)
    numbers |= {held.claim(limit=1, node=2).claim for _ in range(2)}
    assert len(numbers) == 4 and 0 not in numbers


def test_a_claim_does_not_outlive_the_lead(held: Claiming) -> None:
    world, claimed = held.world, held.claim()
    for number in range(2):
        world.lead(number, 2)
    assert held.take(claimed) == []
    assert sorted(held.got(2)) == ["a0", "a1", "a2", "b0"]


def test_a_claim_is_worthless_when_the_lead_was_elsewhere_meanwhile(held: Claiming) -> None:
    """The other leader may have delivered, deleted or changed what was set aside."""
    world, claimed = held.world, held.claim()
    for number in range(2):
        world.lead(number, 2)
    messages = world.receive(2, URL)
    assert len(messages) == 4
    world.delete(2, URL, messages[0].receipt_handle)
    for number in range(2):
        world.lead(number, 1)
    assert held.take(claimed) == []
    assert world.counts(3, URL) == (0, 3, 0)
    world.advance(2_000)
    assert held.got() == []


def test_a_purge_ends_a_claim_and_frees_who_waits_for_its_messages(held: Claiming) -> None:
    world = held.world
    handle = world.receive(1, URL, timeout=0)[0].receipt_handle
    claimed = held.claim()
    assert claimed.count == 4
    # A handle from before waits until the claim is decided.
    late = world.begin(1, "ChangeMessageVisibility", _change(handle))
    world.settle()
    assert not late.is_done
    world.call(2, "PurgeQueue", api.PurgeQueueRequest(URL))
    assert held.take(claimed) == []
    world.settle()
    assert late.is_done
    for queue in (held.queue(), *held.queue().shards):
        assert len(queue.group.latches) == 0
    world.send(1, URL, "new", "a")
    assert held.got() == ["new"]


def _change(handle: str) -> api.ChangeMessageVisibilityRequest:
    return api.ChangeMessageVisibilityRequest(URL, handle, 10)


def test_a_purge_while_a_claim_runs_out_leaves_no_latch(held: Claiming) -> None:
    held.claim()
    held.world.call(1, "PurgeQueue", api.PurgeQueueRequest(URL))
    held.world.advance(config.CLAIM_MS)
    assert [len(shard.group.latches) for shard in held.queue().shards] == [0, 0]


def test_a_delete_of_a_claimed_message_waits_for_the_claim(held: Claiming) -> None:
    world = held.world
    messages = {one.body: one.receipt_handle for one in world.receive(1, URL, timeout=0)}
    held.claim()
    deleting = world.begin(2, "DeleteMessage", api.DeleteMessageRequest(URL, messages["b0"]))
    world.settle()
    assert not deleting.is_done
    world.advance(config.CLAIM_MS)
    assert deleting.is_done


def test_a_claim_waits_for_the_first_message() -> None:
    claiming = Claiming()
    part = parts.Claim(*identity_of(claiming.queue()), claiming.valid(), 5_000)
    waiting, late = claiming.begin(part), claiming.begin(part)
    claiming.world.advance(2_000)
    assert not waiting.is_done
    claiming.world.send(1, URL, "m", "g")
    assert claiming.take(answer_of(waiting)) == ["m"]
    claiming.world.advance(3_000)
    assert answer_of(late).claim == 0


def test_a_claim_whose_caller_leaves_holds_nothing_and_passes_the_message_on() -> None:
    claiming = Claiming()
    part = parts.Claim(*identity_of(claiming.queue()), claiming.valid(), 5_000)
    first, second = claiming.begin(part), claiming.begin(part)
    first.call.leave()
    assert answer_of(first).claim == 0
    claiming.world.send(1, URL, "m", "g")
    assert claiming.take(answer_of(second)) == ["m"]


def test_a_claim_that_waits_ends_when_a_partition_is_led_elsewhere() -> None:
    """Whoever asked would wait for messages in the wrong place."""
    claiming = Claiming()
    part = parts.Claim(*identity_of(claiming.queue()), claiming.valid(), 5_000)
    waiting = claiming.begin(part)
    claiming.world.lead(0, 2)
    with pytest.raises(Unavailable):
        answer_of(waiting)


def test_a_partition_that_fails_costs_nothing_of_what_others_give(held: Claiming) -> None:
    claimed = held.claim()
    shards = held.queue().shards
    full: Any = shards[0].group
    full._is_disk_full = True
    given = held.take(claimed)
    assert given in (["a0", "a1", "a2"], ["b0"])
    full._is_disk_full = False
    assert len(held.got()) == 4 - len(given)


def test_when_all_partitions_fail_the_reason_is_told(held: Claiming) -> None:
    claimed = held.claim()
    for shard in held.queue().shards:
        shard.group._is_disk_full = True
    with pytest.raises(OperationError):
        held.take(claimed)
    for shard in held.queue().shards:
        shard.group._is_disk_full = False
    assert len(held.got()) == 4


@pytest.mark.parametrize("limit", [1, 3, 10])
def test_two_nodes_that_receive_at_once_never_get_the_same_message(limit: int) -> None:
    world = ClusterWorld()
    world.create_partitioned(1, URL)
    sent = [f"{group}{number}" for group in "abcdef" for number in range(4)]
    for body in sent:
        world.send(1, URL, body, body[0])
    got: list[str] = []
    for _ in range(40):
        request = api.ReceiveMessageRequest(
            URL, max_number_of_messages=limit, visibility_timeout=3_600
        )
        pending = [world.begin(node, "ReceiveMessage", request) for node in (2, 3)]
        world.settle()
        for one in pending:
            for message in answer_of(one).messages:
                got.append(message.body)
                world.delete(1, URL, message.receipt_handle)
        world.advance(config.CLAIM_MS)
    assert sorted(got) == sorted(sent)
