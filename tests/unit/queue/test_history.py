"""Histories: what came, was delivered and left in each slot, for a bounded number of queues."""

import json

import pytest

from fastnode import config
from fastnode.cluster.traffic import Everything, Report, added_up, merged
from fastnode.queue.api import DeleteQueueRequest, SendMessageRequest
from fastnode.queue.history import History, Ring, Row
from tests.world import ACCOUNT, REGION, World


def sample(history: History, slot: int) -> None:
    for _ in history.sample(slot):
        pass


def name_of(queue: str) -> tuple[str, str, str]:
    return ACCOUNT, REGION, queue


def rows_of(history: History, queue: str) -> list[Row]:
    tracked = history.of_queue(name_of(queue))
    assert tracked is not None
    return tracked.ring.rows()


# --- rings -------------------------------------------------------------------------------------


def test_a_ring_keeps_an_hour() -> None:
    ring = Ring()
    for slot in range(7, 7 + 2 * config.HISTORY_SLOTS):
        ring.put(slot, Row(sent=slot))
    sent = [row.sent for row in ring.rows()]
    assert sent == list(range(7 + config.HISTORY_SLOTS, 7 + 2 * config.HISTORY_SLOTS))


def test_slots_that_were_missed_are_empty() -> None:
    ring = Ring()
    ring.put(10, Row(sent=1))
    ring.put(13, Row(sent=4))
    assert [row.sent for row in ring.rows()] == [1, 0, 0, 4]
    ring.put(13 + 10 * config.HISTORY_SLOTS, Row(sent=5))
    assert [row.sent for row in ring.rows()] == [0] * (config.HISTORY_SLOTS - 1) + [5]


def test_a_clock_that_was_set_back_begins_anew() -> None:
    ring = Ring()
    ring.put(100, Row(sent=1))
    ring.put(50, Row(sent=2))
    ring.put(51, Row(sent=3))
    assert (ring.newest, [row.sent for row in ring.rows()]) == (51, [2, 3])


# --- what is counted ---------------------------------------------------------------------------


@pytest.mark.parametrize("is_fifo", [False, True])
def test_what_goes_through_a_queue_is_counted(is_fifo: bool) -> None:
    world = World()
    history = History(world.service)
    queue = "q.fifo" if is_fifo else "q"
    more = {"FifoQueue": "true", "ContentBasedDeduplication": "true"} if is_fifo else {}
    url = world.create(queue, **more)
    for number in range(5):
        group = f"g{number}" if is_fifo else None
        world.call("SendMessage", SendMessageRequest(url, f"m{number}", message_group_id=group))
    sample(history, 1)
    received = world.receive(url, 3)
    assert len(received) == 3
    world.delete(url, received[0].receipt_handle)
    sample(history, 2)
    sample(history, 3)
    assert rows_of(history, queue) == [
        Row(5, 0, 0, 5, 0, 0),
        Row(0, 3, 1, 2, 2, 0),
        Row(0, 0, 0, 2, 2, 0),
    ]
    assert history.passed(name_of(queue)) == history.passed_all() == (5, 3, 1)
    assert [row.visible for row in history.all.ring.rows()] == [5, 4, 4], "what is stored"


def test_what_passed_counts_at_once() -> None:
    world = World()
    history = History(world.service)
    url = world.create()
    world.send(url, "m")
    sample(history, 1)
    world.send(url, "m")
    assert history.passed(name_of("q")) == history.passed_all() == (2, 0, 0)


def test_dead_letters_leave_one_queue_and_come_to_another() -> None:
    world = World()
    history = History(world.service)
    world.create("dead")
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:dead"
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    url = world.create("q", RedrivePolicy=policy)
    world.send(url, "m")
    world.receive(url, timeout=0)
    assert world.receive(url) == []
    world.commit()
    sample(history, 1)
    assert rows_of(history, "q") == [Row(1, 1, 1, 0, 0, 0)]
    assert rows_of(history, "dead") == [Row(1, 0, 0, 1, 0, 0)]


def test_only_the_busiest_have_rings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "HISTORY_QUEUES_MAX", 2)
    world = World()
    history = History(world.service)
    urls = {name: world.create(name) for name in ("a", "b", "c")}
    for name, count in (("a", 1), ("b", 3), ("c", 2)):
        for _ in range(count):
            world.send(urls[name], "m")
    sample(history, 1)
    assert set(history.latest()) == {name_of("b"), name_of("c")}
    assert history.passed_all() == (6, 0, 0), "all count"


def test_a_deleted_queue_is_forgotten_and_a_quiet_one_is_followed_when_asked_for() -> None:
    world = World()
    history = History(world.service)
    url = world.create()
    assert history.of_queue(name_of("none")) is None
    assert rows_of(history, "q") == []
    sample(history, 5)
    assert rows_of(history, "q") == [Row()]
    world.call("DeleteQueue", DeleteQueueRequest(url))
    sample(history, 6)
    assert history.of_queue(name_of("q")) is None


# --- the census --------------------------------------------------------------------------------


def test_the_census_counts_queues_that_nobody_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "CENSUS_DEEPEST", 2)
    monkeypatch.setattr(config, "HISTORY_STEP", 3)
    world = World(groups=3)
    for name, count in (("a", 1), ("b", 3), ("c", 2)):
        url = world.create(name)
        for _ in range(count):
            world.send(url, "m")
    world.crash()
    history = History(world.service)
    sample(history, 1)
    assert history.census.stored == 6
    assert history.census.deepest == {name_of("b"): 3, name_of("c"): 2}


def test_a_long_census_takes_several_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "HISTORY_STEP", 2)
    monkeypatch.setattr(config, "CENSUS_ROWS_MAX", 4)
    world = World()
    for number in range(6):
        world.send(world.create(f"q{number}"), "m")
    history = History(world.service)
    found = []
    for slot in range(1, 5):
        sample(history, slot)
        found.append(history.census.stored)
    assert found[0] == 0 and found[-1] == 6 and set(found) == {0, 6}


# --- several nodes -----------------------------------------------------------------------------


def test_reports_are_added_slot_by_slot() -> None:
    one = Report(10, [Row(sent=1), Row(sent=2)], (3, 0, 0))
    other = Report(11, [Row(sent=10), Row(sent=20), Row(sent=40)], (70, 1, 2))
    total = added_up([one, other, Report()])
    assert (total.newest, [row.sent for row in total.rows]) == (11, [11, 22, 40])
    assert total.passed == (73, 1, 2)
    assert added_up([Report()]) == Report()


def test_a_queue_that_changed_its_leader_has_one_history() -> None:
    queue = name_of("q")
    one = Everything(Report(1, [Row(sent=1)]), 2, {queue: Row(sent=1)}, {queue: 2})
    other = Everything(Report(1, [Row(sent=4)]), 5, {queue: Row(sent=4)}, {queue: 5})
    total = merged([one, other])
    assert total.stored == 7 and total.deepest == {queue: 7}
    assert total.latest == {queue: Row(sent=5)}
