"""Retention: what is expired goes, wherever it is, once; what is not expired stays.

The rounds of the sweeper run by the alarm, as in a node. `test_retention_overlap.py` lets sweeps
meet everything else.
"""

import pytest

from fastnode import config, native
from fastnode.errors import DiskFull
from fastnode.queue import api
from fastnode.queue.errors import SqsError
from fastnode.queue.plans import plan_return
from fastnode.queue.retention import find_expired, oldest_of
from tests.unit.queue.retention_world import (
    MINUTE,
    arrive,
    begin_sweep,
    counters,
    create,
    live,
    positions,
    rows,
    set_retention,
    start_sweeper,
)
from tests.world import ACCOUNT, World


@pytest.fixture
def world() -> World:
    world = World()
    start_sweeper(world)
    return world


def test_waiting_delayed_and_in_flight_messages_expire_alike(world: World) -> None:
    url = create(world)
    world.send(url, "in flight")
    assert len(world.receive(url, timeout=3_600)) == 1
    world.send(url, "waiting")
    world.send(url, "delayed", 900)
    assert world.counts(url) == (1, 1, 1)
    world.advance(MINUTE - 1_500)
    assert world.counts(url) == (1, 1, 1)
    world.advance(3_000)
    assert world.counts(url) == (0, 0, 0)
    assert rows(world, live(world)) == 0 and live(world).is_idle
    world.advance(3_600_000)
    assert world.receive(url) == []


def test_younger_messages_stay(world: World) -> None:
    url = create(world)
    for number in range(10):
        world.send(url, f"m{number}")
        world.advance(10_000)
    world.advance(1)
    assert world.counts(url) == (5, 0, 0)
    assert [message.body for message in world.receive(url)] == ["m5", "m6", "m7", "m8", "m9"]


def test_deleting_an_expired_message_is_fine_and_changing_it_is_not(world: World) -> None:
    """The contract, section 5.4: message expired by retention."""
    url = create(world)
    world.send(url, "m")
    (message,) = world.receive(url, timeout=3_600)
    world.advance(MINUTE + 2_000)
    world.delete(url, message.receipt_handle)
    with pytest.raises(SqsError, match="not available for visibility timeout change"):
        world.change(url, message.receipt_handle, 10)
    assert world.counts(url) == (0, 0, 0)


def test_an_expired_message_counts_as_gone_before_it_is_removed() -> None:
    world = World()
    url = create(world)
    world.send(url, "m")
    (message,) = world.receive(url, timeout=3_600)
    world.advance(MINUTE - 1)
    world.change(url, message.receipt_handle, 3_600)
    world.advance(1)
    with pytest.raises(SqsError, match="not available for visibility timeout change"):
        world.change(url, message.receipt_handle, 10)
    world.delete(url, message.receipt_handle)
    assert rows(world, live(world)) == 0


def test_nothing_goes_before_its_last_millisecond_is_over() -> None:
    world = World()
    world.send(create(world), "m")
    world.advance(MINUTE - 1)
    assert begin_sweep(world).is_done and rows(world, live(world)) == 1
    world.advance(1)
    begin_sweep(world)
    world.commit()
    assert rows(world, live(world)) == 0


def test_a_shorter_retention_applies_to_what_is_stored(world: World) -> None:
    url = create(world, retention_seconds=600)
    world.send(url, "m")
    world.advance(2 * MINUTE)
    assert world.counts(url) == (1, 0, 0)
    set_retention(world, url, 60)
    world.advance(2_000)
    assert world.counts(url) == (0, 0, 0)


def test_a_longer_retention_keeps_what_is_stored(world: World) -> None:
    url = create(world)
    world.send(url, "m")
    set_retention(world, url, 600)
    world.advance(2 * MINUTE)
    assert [message.body for message in world.receive(url)] == ["m"]


def test_a_backlog_goes_in_bounded_transactions(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "SWEEP_MESSAGES", 4)
    monkeypatch.setattr(config, "SWEEP_STEPS", 2)
    url = create(world)
    for number in range(20):
        world.send(url, f"m{number}")
    world.advance(MINUTE - 500)
    removed = [world.counts(url)[0]]
    for _ in range(3):
        world.advance(config.SWEEP_INTERVAL_MS)
        removed.append(world.counts(url)[0])
    assert removed == [20, 12, 4, 0]


def test_queues_take_turns(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "SWEEP_MESSAGES", 2)
    monkeypatch.setattr(config, "SWEEP_STEPS", 4)
    urls = [create(world, name) for name in ("a", "b")]
    for url in urls:
        for number in range(6):
            world.send(url, f"m{number}")
    world.advance(MINUTE)
    assert [world.counts(url)[0] for url in urls] == [2, 2]


def test_queues_that_nobody_uses_are_swept_after_a_restart(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "SWEEP_STORED_QUEUES", 2)
    for name in ("a", "b", "c", "d", "e"):
        world.send(create(world, name), "m")
    idle = create(world, "idle", retention_seconds=6_000)
    world.send(idle, "m")
    world.engine.flush()
    world.crash()
    start_sweeper(world)
    world.advance(MINUTE)
    assert not world.service.live_queues()
    world.advance(4_000)
    assert {queue.name for queue in world.service.live_queues()} == {"a", "b", "c", "d", "e"}
    assert world.counts(idle) == (1, 0, 0)
    for name in ("a", "b", "c", "d", "e"):
        assert rows(world, live(world, name)) == 0


def test_groups_are_visited_in_turn() -> None:
    world = World(groups=3)
    names = [f"q{number}" for number in range(12)]
    for name in names:
        world.send(create(world, name), "m")
    assert len({live(world, name).group.number for name in names}) == 3
    world.crash()
    start_sweeper(world)
    world.advance(MINUTE + 1_000)
    assert [world.counts(f"http://localhost:9324/{ACCOUNT}/{name}") for name in names] == (
        [(0, 0, 0)] * 12
    )


def test_a_full_log_delays_the_removal_and_loses_nothing() -> None:
    world = World()
    url = create(world)
    for number in range(5):
        world.send(url, f"m{number}")
    received = world.receive(url, limit=1, timeout=3_600)
    world.advance(MINUTE)
    pending = begin_sweep(world)
    meanwhile = world.begin("ReceiveMessage", api.ReceiveMessageRequest(url))
    assert meanwhile.result.messages == []
    world.refuse()
    assert isinstance(pending.error, DiskFull)
    assert world.counts(url) == (4, 1, 0)
    set_retention(world, url, 6_000)
    bodies = [message.body for message in world.receive(url)]
    assert bodies == ["m1", "m2", "m3", "m4"]
    assert [message.body for message in received] == ["m0"]


def test_what_a_receive_is_taking_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "SWEEP_MESSAGES", 64)
    world = World()
    url = create(world)
    for number in range(3):
        world.send(url, f"m{number}")
    world.advance(MINUTE - 1)
    request = api.ReceiveMessageRequest(url, max_number_of_messages=1, visibility_timeout=3_600)
    receive = world.begin("ReceiveMessage", request)
    world.clock.ns += 1_000_000
    pending = begin_sweep(world)
    world.commit()
    assert [message.body for message in receive.result.messages] == ["m0"]
    assert pending.error is None and world.counts(url) == (0, 1, 0)
    again = begin_sweep(world)
    world.commit()
    assert again.error is None and world.counts(url) == (0, 0, 0)
    assert rows(world, live(world)) == 0


def test_a_message_that_comes_back_behind_the_walk_expires_too(world: World) -> None:
    url = create(world)
    world.send(url, "old")
    queue = live(world)
    (position,) = positions(world)
    stored = world.group.get(queue.messages.data_key(position))
    assert stored is not None
    world.advance(MINUTE + 2_000)
    assert queue.swept_to == position + 1 and rows(world, queue) == 0
    txn = world.group.begin(world.service.new_request())
    timer = plan_return(queue, txn, position, stored, None)
    world.group.submit(txn)
    world.commit()
    queue.scheduled((timer,))
    assert rows(world, queue) == 3
    world.advance(2_000)
    assert rows(world, queue) == 0 and world.counts(url) == (0, 0, 0)


def test_a_message_that_comes_back_before_the_oldest_expires_in_its_time(world: World) -> None:
    url = create(world)
    queue = live(world)
    world.send(url, "left")
    (position,) = positions(world)
    stored = world.group.get(queue.messages.data_key(position))
    assert stored is not None
    world.advance(30_000)
    world.send(url, "stayed")
    (left,) = world.receive(url, limit=1)
    assert left.receipt_handle is not None
    world.delete(url, left.receipt_handle)
    assert oldest_of(queue) > position
    txn = world.group.begin(world.service.new_request())
    timer = plan_return(queue, txn, position, stored, None)
    world.group.submit(txn)
    world.commit()
    queue.scheduled((timer,))
    world.advance(MINUTE - 30_000 + 2_000)
    assert world.counts(url) == (1, 0, 0)
    world.advance(30_000)
    assert rows(world, queue) == 0


def test_queues_in_memory_whose_messages_have_time_left_are_not_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = [create(world, name) for name in ("a", "b", "empty")]
    for url in urls[:2]:
        world.send(url, "m")
    world.advance(2 * config.SWEEP_INTERVAL_MS)
    scans: list[bytes] = []
    scan_keys = world.engine.below.scan_keys

    def counted(start: bytes, end: bytes, limit: int) -> list[bytes]:
        scans.append(start)
        return scan_keys(start, end, limit)

    monkeypatch.setattr(world.engine.below, "scan_keys", counted)
    world.advance(10 * config.SWEEP_INTERVAL_MS)
    assert [start for start in scans if start.startswith(native.FAMILY_DATA)] == []
    world.advance(MINUTE)
    assert [world.counts(url) for url in urls] == [(0, 0, 0)] * 3 and scans


def test_a_message_from_another_queue_expires_by_its_first_sending(world: World) -> None:
    url = create(world)
    world.send(url, "own")
    first_ms = world.now_ms - MINUTE + 5_000
    arrive(world, first_ms, "older")
    assert world.counts(url) == (2, 0, 0)
    world.advance(7_000)
    assert world.counts(url) == (1, 0, 0)
    assert [message.body for message in world.receive(url)] == ["own"]
    queue = live(world)
    age = queue.messages.age
    assert not world.group.scan_keys(age, native.prefix_end(age), 1)


def test_a_message_from_another_queue_may_lie_ahead_of_the_buffer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "READ_AHEAD_MESSAGES", 2)
    url = create(world)
    for number in range(20):
        world.send(url, f"m{number}")
    arrive(world, world.now_ms - MINUTE + 5_000, "older")
    assert [message.body for message in world.receive(url, limit=1)] == ["m0"]
    world.advance(7_000)
    assert world.counts(url) == (19, 1, 0)
    bodies: list[str] = []
    while messages := world.receive(url):
        bodies += [message.body for message in messages]
    assert bodies == [f"m{number}" for number in range(1, 20)]


def test_keys_tell_what_is_expired_without_a_body(world: World) -> None:
    url = create(world, retention_seconds=6_000)
    for number in range(3):
        world.send(url, f"m{number}")
        world.advance(10)
    queue, now_ms = live(world), world.now_ms
    for cut_ms, count in ((now_ms - 30, 0), (now_ms - 29, 1), (now_ms - 10, 2), (now_ms, 3)):
        found = find_expired(world.group, queue.messages, 0, cut_ms, 10)
        assert len(found.positions) == count, cut_ms - now_ms


def test_nothing_is_removed_while_the_queue_is_being_purged() -> None:
    world = World()
    url = create(world)
    world.send(url, "m")
    world.advance(MINUTE)
    purge = world.begin("PurgeQueue", api.PurgeQueueRequest(url))
    assert begin_sweep(world).result is False
    world.commit()
    assert purge.error is None and counters(world) == (0, 0, 0)
