"""A client that goes away before its answer takes no message with it."""

from fastnode.queue import api
from tests.unit.queue.test_dead_letters import policy, queues_in_different_groups, set_policy
from tests.world import Pending, World

ALL = ["All"]


def begin_receive(world: World, limit: int = 10, wait: int = 0) -> Pending:
    request = api.ReceiveMessageRequest(
        "q", attribute_names=ALL, max_number_of_messages=limit, wait_time_seconds=wait
    )
    return world.begin("ReceiveMessage", request)


def counts_and_times(messages: list[api.Message]) -> list[tuple[str, str, str]]:
    names = ("ApproximateReceiveCount", "ApproximateFirstReceiveTimestamp")
    return [(m.body, m.attributes[names[0]], m.attributes[names[1]]) for m in messages]


def leave_while_receiving(world: World) -> None:
    pending = begin_receive(world)
    pending.call.leave()
    world.commit()
    assert pending.is_done and pending.result.messages == []


def test_messages_of_a_gone_client_are_available_at_once_and_uncounted() -> None:
    world = World()
    world.create()
    for body in ("a", "b"):
        world.send("q", body)
    leave_while_receiving(world)
    assert world.counts("q") == (2, 0, 0)
    world.advance(5)
    pending = begin_receive(world)
    world.commit()
    now = str(world.now_ms)
    assert counts_and_times(pending.result.messages) == [("a", "1", now), ("b", "1", now)]


def test_an_earlier_receive_still_counts() -> None:
    world = World()
    world.create()
    world.send("q", "a")
    (first,) = world.receive("q", timeout=0)
    started = str(world.now_ms)
    world.advance(5)
    leave_while_receiving(world)
    pending = begin_receive(world)
    world.commit()
    (again,) = pending.result.messages
    assert counts_and_times([again]) == [("a", "2", started)]
    assert again.receipt_handle != first.receipt_handle


def test_a_waiting_client_gets_what_the_gone_one_took() -> None:
    world = World()
    world.create()
    world.send("q", "a")
    gone = begin_receive(world)
    waiting = begin_receive(world, wait=20)
    gone.call.leave()
    world.commit()
    world.advance(1)
    assert waiting.is_done and [m.body for m in waiting.result.messages] == ["a"]


def test_what_was_deleted_meanwhile_stays_deleted() -> None:
    world = World()
    world.create()
    world.send("q", "a")
    (first,) = world.receive("q", timeout=0)
    gone = begin_receive(world)
    deletion = world.begin("DeleteMessage", api.DeleteMessageRequest("q", first.receipt_handle))
    gone.call.leave()
    world.commit()
    assert deletion.is_done and deletion.error is None
    assert world.counts("q") == (0, 0, 0)
    world.crash()
    assert world.counts("q") == (0, 0, 0)


def test_what_was_deleted_while_a_dead_letter_travelled_stays_deleted() -> None:
    """A receive that also moved a dead letter waits for it, and the world goes on."""
    world = World(groups=4)
    source, target = queues_in_different_groups(world)
    set_policy(world, source, policy(target, 2))
    for body in ("dead", "alive"):
        world.send(source, body)
    _, alive = world.receive(source, timeout=0)
    world.receive(source, limit=1, timeout=0)
    request = api.ReceiveMessageRequest(source, max_number_of_messages=10)
    gone = world.begin("ReceiveMessage", request)
    world.step()
    assert not gone.is_done
    world.begin("DeleteMessage", api.DeleteMessageRequest(source, alive.receipt_handle))
    gone.call.leave()
    world.commit()
    assert gone.is_done and gone.result.messages == []
    assert (world.counts(source), world.counts(target)) == ((0, 0, 0), (1, 0, 0))
    world.advance(60_000)
    assert world.receive(source) == []


def test_a_purge_meanwhile_leaves_nothing_behind() -> None:
    world = World()
    world.create()
    world.send("q", "a")
    gone = begin_receive(world)
    world.begin("PurgeQueue", api.PurgeQueueRequest("q"))
    gone.call.leave()
    world.commit()
    assert world.counts("q") == (0, 0, 0)
    assert world.receive("q") == []


def test_a_crash_before_the_messages_are_back_only_delays_them() -> None:
    world = World()
    world.create()
    world.send("q", "a")
    gone = begin_receive(world)
    gone.call.leave()
    world.step()
    world.crash()
    assert world.counts("q") == (0, 1, 0)
    world.advance(30_001)
    assert world.counts("q") == (1, 0, 0)


def test_a_client_that_is_gone_before_its_call_begins_takes_nothing() -> None:
    world = World()
    world.create()
    pending = begin_receive(world, wait=20)
    pending.call.leave()
    world.send("q", "a")
    assert pending.is_done and pending.result.messages == []
    assert world.counts("q") == (1, 0, 0)
