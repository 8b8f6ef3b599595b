"""The walk over deduplication rows: what is older than the window goes, what is younger stays, and
nobody looks at a row twice.
"""

from collections import Counter

import pytest

from fastnode import config, native
from fastnode.errors import Overloaded
from fastnode.flow import start
from fastnode.queue import api
from fastnode.queue.fifo_live import FifoQueue
from fastnode.queue.fifo_sweep import sweep_stale_rows
from fastnode.queue.retention import Sweeper
from fastnode.store.txn import Txn
from tests.unit.queue.fifo_world import URL, FifoWorld
from tests.world import ACCOUNT, REGION, FakeAlarm, Pending

WINDOW_MS = config.DEDUPLICATION_MS
ROUND_MS = config.SWEEP_INTERVAL_MS
ROWS = 16


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> FifoWorld:
    """Pages of few rows and transactions of fewer, so that a walk takes many of both."""
    monkeypatch.setattr(config, "SWEEP_ROWS", ROWS)
    monkeypatch.setattr(config, "SWEEP_MESSAGES", 4)
    return FifoWorld()


def put(world: FifoWorld, name: str, count: int) -> set[str]:
    """Ids in no order that has to do with their age."""
    ids = {f"{number * 7919 % 1000:03}-{name}" for number in range(count)}
    for one in ids:
        world.put_one("g", "m", one)
    return ids


def live(world: FifoWorld) -> FifoQueue:
    queue = world.service.find(ACCOUNT, REGION, URL)
    assert isinstance(queue, FifoQueue)
    return queue


def remembered(world: FifoWorld) -> set[str]:
    keys = live(world).messages
    rows = world.group.scan_keys(keys.dedup, native.prefix_end(keys.dedup), 10_000)
    return {row[len(keys.dedup_key("", "")) - 2 : -2].decode() for row in rows}


def start_sweeper(world: FifoWorld) -> Sweeper:
    sweeper = Sweeper(world.service, FakeAlarm(world))
    sweeper.start()
    return sweeper


def begin_sweep(world: FifoWorld) -> Pending:
    pending = Pending(None)  # type: ignore[arg-type]  # a sweep has no caller
    start(sweep_stale_rows(world.service, live(world)), pending.finish)
    return pending


class Watched:
    """Deduplication rows that the group was asked for, and how often it was asked."""

    def __init__(self, world: FifoWorld, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: Counter[bytes] = Counter()
        self.scans: list[int] = []
        self._prefix = live(world).messages.dedup
        self._scan, self._scan_keys = world.group.scan, world.group.scan_keys
        monkeypatch.setattr(world.group, "scan", self.scan)
        monkeypatch.setattr(world.group, "scan_keys", self.scan_keys)

    def scan(self, begin: bytes, end: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        rows = self._scan(begin, end, limit)
        if begin.startswith(self._prefix) and limit > 1:
            self.seen.update(key for key, _ in rows)
            self.scans.append(limit)
        return rows

    def scan_keys(self, begin: bytes, end: bytes, limit: int) -> list[bytes]:
        if begin.startswith(self._prefix):
            self.scans.append(limit)
        return self._scan_keys(begin, end, limit)


def test_old_rows_go_within_a_round_and_young_ones_stay(world: FifoWorld) -> None:
    put(world, "old", 150)
    world.advance(WINDOW_MS // 2)
    young = put(world, "young", 75)
    world.advance(WINDOW_MS // 2 + 1)
    start_sweeper(world)
    world.advance(2 * ROUND_MS)
    assert remembered(world) == young
    world.advance(WINDOW_MS // 2 + config.SWEEP_WALK_MS + 2 * ROUND_MS)
    assert remembered(world) == set()


def test_a_row_goes_when_it_is_older_than_the_window_and_not_before(world: FifoWorld) -> None:
    ids = put(world, "old", 1)
    world.advance(WINDOW_MS)
    begin_sweep(world)
    world.commit()
    assert remembered(world) == ids
    live(world).restart(live(world).generation)
    world.advance(1)
    begin_sweep(world)
    world.commit()
    assert remembered(world) == set()


def test_a_restart_begins_the_walk_anew(world: FifoWorld) -> None:
    put(world, "old", 100)
    world.advance(WINDOW_MS - 1_000)
    young = put(world, "young", 50)
    world.advance(1_001)
    for _ in range(3):
        assert begin_sweep(world).is_done is False
        world.commit()
    left = remembered(world)
    assert young < left and len(left) < 150, "in the middle of a walk"
    world.engine.flush()
    world.crash()
    live(world)
    start_sweeper(world)
    world.advance(3 * ROUND_MS)
    assert remembered(world) == young


def test_a_queue_that_nobody_uses_is_swept_after_a_restart(world: FifoWorld) -> None:
    put(world, "old", 40)
    keys = live(world).messages
    world.engine.flush()
    world.crash()
    start_sweeper(world)
    world.advance(WINDOW_MS - 10 * ROUND_MS)
    assert world.service.live_queues() == [], "no row is old enough to read the queue for it"
    world.advance(20 * ROUND_MS)
    assert not world.group.scan_keys(keys.dedup, native.prefix_end(keys.dedup), 1)


def test_sends_go_on_during_a_walk(world: FifoWorld) -> None:
    put(world, "old", 100)
    world.advance(WINDOW_MS + 1)
    young: set[str] = set()
    has_more = True
    while has_more:
        pending = begin_sweep(world)
        # Before and behind what the walk has reached, and one that the page has just removed.
        for one in (f"{len(young):03}-before", f"999-{len(young)}", "000-old"):
            request = api.SendMessageRequest(URL, "m", None, None, None, one, "g")
            world.begin("SendMessage", request)
            young.add(one)
        world.commit()
        has_more = pending.result
    assert remembered(world) == young
    assert sum(world.counts(URL)) == 100 + len(young)


def test_an_id_that_is_being_used_again_is_left_alone(world: FifoWorld) -> None:
    first = world.put_one("g", "m", "same")
    world.advance(WINDOW_MS + 1)
    request = api.SendMessageRequest(URL, "m", None, None, None, "same", "g")
    again = world.begin("SendMessage", request)
    swept = begin_sweep(world)
    world.commit()
    assert swept.error is None and swept.result is False
    assert again.result.message_id != first.message_id
    assert world.put_one("g", "m", "same").message_id == again.result.message_id


def test_no_row_is_looked_at_twice_in_a_walk(
    world: FifoWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(world, "old", 100)
    world.advance(WINDOW_MS + 1)
    put(world, "young", 100)
    watched = Watched(world, monkeypatch)
    start_sweeper(world)
    world.advance(config.SWEEP_WALK_MS - ROUND_MS)
    assert len(watched.seen) == 200 and set(watched.seen.values()) == {1}
    world.advance(3 * ROUND_MS)
    assert Counter(watched.seen.values()) == {1: 100, 2: 100}, "the next walk meets the young"


def test_a_queue_that_remembers_nothing_costs_a_look_at_one_key(
    world: FifoWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(world, "old", 40)
    start_sweeper(world)
    world.advance(2 * WINDOW_MS + config.SWEEP_WALK_MS)
    watched = Watched(world, monkeypatch)
    world.advance(WINDOW_MS)
    assert set(watched.scans) == {1} and len(watched.scans) <= WINDOW_MS // ROUND_MS


def test_a_walk_makes_way_between_pages(world: FifoWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    put(world, "young", 10 * ROWS)
    watched = Watched(world, monkeypatch)
    start_sweeper(world)
    world.advance(ROUND_MS)
    assert len(watched.seen) == ROWS
    world.advance(3 * config.SWEEP_PAUSE_MS)
    assert len(watched.seen) == 4 * ROWS


def test_a_page_that_could_not_be_removed_is_looked_at_again(
    world: FifoWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(world, "old", 2 * ROWS)
    world.advance(WINDOW_MS + 1)
    begin, refusals = world.group.begin, iter([False, True])

    def refusing(request: bytes) -> Txn:
        if next(refusals, False):
            raise Overloaded("too many transactions wait to be applied")
        return begin(request)

    monkeypatch.setitem(vars(world.group), "begin", refusing)
    start_sweeper(world)
    world.advance(ROUND_MS)
    assert len(remembered(world)) == 2 * ROWS - 4, "one transaction of the first page landed"
    world.advance(2 * ROUND_MS)
    assert remembered(world) == set()


def test_a_purge_during_a_walk_ends_it(world: FifoWorld) -> None:
    put(world, "old", 2 * ROWS)
    world.advance(WINDOW_MS + 1)
    begin_sweep(world)
    purged = world.begin("PurgeQueue", api.PurgeQueueRequest(URL))
    world.commit()
    assert purged.error is None and remembered(world) == set()
    young = put(world, "young", ROWS + 1)
    start_sweeper(world)
    world.advance(config.SWEEP_WALK_MS)
    assert remembered(world) == young
