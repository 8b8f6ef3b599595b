"""A mirror holds, after a barrier, all that its leader had acknowledged before."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fastnode import native
from fastnode.clock import GroupClock
from fastnode.cluster.call_codec import DONE, encode_error
from fastnode.errors import NotLed, OperationError, Unavailable
from fastnode.flow import Suspension, start
from fastnode.queue.move_record import COMPLETED, RUNNING, MoveTask, encode_task
from fastnode.queue.move_runner import MoveTasks
from fastnode.store.apply import Position
from fastnode.store.group import Group
from fastnode.store.keyspace import task_key
from fastnode.store.memory_engine import MemoryEngine
from fastnode.workers import changes
from fastnode.workers.changes import MIRRORED, ROWS_MAX
from fastnode.workers.mirror import Follower, MirrorGroup, OwnGroup
from tests.world import FakeClock


class Alarm:
    """Rings when the test says so."""

    def set(self, at_ms: int, now_ms: int, ring: Callable[[], None]) -> None:
        self.ring = ring

    def clear(self) -> None: ...


class Site:
    """A worker's own group, a sibling's mirror of it, and the way between them: what is asked is
    answered when the test says so.
    """

    def __init__(self) -> None:
        self.own = OwnGroup(3, MemoryEngine(), GroupClock(FakeClock()))
        self.own.change_role("leader", 1, 1)
        self.own.commit(1, 1, [])
        self.own.apply()
        self.mirror = MirrorGroup(3, 2, GroupClock(FakeClock()))
        self.asked: list[tuple[bytes, Suspension]] = []
        self._requests = 0
        self.alarm = Alarm()
        self.follower = Follower(self.mirror, self, self.alarm)

    async def carry(self, group: Group, service: int, payload: bytes) -> tuple[int, bytes]:
        answered = Suspension()
        self.asked.append((payload, answered))
        answer: tuple[int, bytes] = await answered
        return answer

    def answer(self) -> None:
        payload, answered = self.asked.pop(0)
        try:
            told = self.own.tell(changes.decode_asked(payload))
            answered.resume((DONE, changes.encode(told)))
        except OperationError as error:
            answered.resume(encode_error(error))

    def answer_all(self) -> None:
        while self.asked:
            self.answer()

    def put(self, key: bytes, value: bytes) -> None:
        self._requests += 1
        txn = self.own.begin(self._requests.to_bytes(16, "big"))
        txn.put(key, value)
        start(_submitted(self.own.submit(txn)), _raise)
        entry = self.own.take_entry()
        assert entry is not None
        self.own.commit(self.own.applied_index + 1, 1, [entry])
        self.own.apply()

    def refreshed(self) -> list[object]:
        """How a refresh that begins now will have ended."""
        ended: list[object] = []
        start(self.follower.refresh(), lambda index, error: ended.append(error or index))
        return ended

    @property
    def rows(self) -> tuple[list[Any], list[Any]]:
        every = b"!sqs|", b"!sqs}", 10 * ROWS_MAX
        return self.own.scan(*every), self.mirror.scan(*every)


async def _submitted(outcome: Suspension) -> None:
    await outcome


def _raise(_result: Any, error: BaseException | None) -> None:
    if error is not None:
        raise error


@pytest.fixture
def site() -> Site:
    return Site()


def row(number: int) -> bytes:
    return MIRRORED[0] + number.to_bytes(4, "big")


def test_a_refresh_brings_what_was_written_before_it(site: Site) -> None:
    site.put(row(1), b"one")
    ended = site.refreshed()
    site.answer_all()
    assert ended == [site.own.applied_index] == [site.mirror.applied_index]
    assert site.mirror.get(row(1)) == b"one"
    assert site.mirror.term == site.own.term


def test_whoever_comes_while_an_answer_is_on_its_way_waits_for_the_next(site: Site) -> None:
    first = site.refreshed()
    payload, answered = site.asked[0]
    told = site.own.tell(changes.decode_asked(payload))
    site.put(row(1), b"one")
    second = site.refreshed()
    site.asked.pop(0)
    answered.resume((DONE, changes.encode(told)))
    site.answer()
    assert len(first) == 1 and not second
    site.answer_all()
    assert second == [site.own.applied_index]
    assert site.mirror.get(row(1)) == b"one"


def test_what_changes_while_a_copy_is_made_is_not_missed(site: Site) -> None:
    for number in range(2 * ROWS_MAX):
        site.put(row(number), b"old")
    site.own._changes = changes.Changes()
    ended = site.refreshed()
    site.answer()
    site.put(row(0), b"new")
    site.put(row(5 * ROWS_MAX), b"new")
    site.answer_all()
    assert ended == [site.own.applied_index]
    own, mirrored = site.rows
    assert own == mirrored


def test_a_refresh_that_fails_says_so_and_the_next_one_works(site: Site) -> None:
    ended = site.refreshed()
    site.asked.pop(0)[1].fail(Unavailable("gone"))
    assert isinstance(ended[0], Unavailable)
    again = site.refreshed()
    site.answer_all()
    assert again == [site.own.applied_index]


def test_a_mirror_that_could_not_follow_tries_again(site: Site) -> None:
    site.follower.follow()
    site.asked.pop(0)[1].fail(Unavailable("gone"))
    site.alarm.ring()
    site.answer_all()
    assert site.mirror.applied_index == site.own.applied_index


def test_a_group_that_is_not_ready_tells_nothing(site: Site) -> None:
    site.own.change_role("follower", 2, 0)
    ended = site.refreshed()
    site.answer_all()
    assert isinstance(ended[0], NotLed)


def test_whoever_waits_for_an_index_makes_the_mirror_follow(site: Site) -> None:
    waiting = site.mirror.reached(site.own.applied_index)
    assert not waiting.is_done
    site.answer_all()
    assert waiting.is_done


def test_a_mirror_that_is_there_already_asks_nobody(site: Site) -> None:
    site.mirror.reach(Position(9, 1, 0))
    assert site.mirror.reached(9).is_done
    assert not site.asked


def test_siblings_are_told_of_metadata_and_of_nothing_else(site: Site) -> None:
    told: list[int] = []
    site.own.on_changed = told.append
    site.put(b"!sqs|msg|state|q", b"x")
    assert told == []
    site.put(row(1), b"x")
    assert told == [3]


def test_move_tasks_of_queues_that_others_lead_count_for_their_account(site: Site) -> None:
    def store(account: str, name: str, status: str) -> bytes:
        segment = native.queue_segment(account, "us-east-1", name)
        key = task_key(segment, 1)
        task = MoveTask(1, "task", None, None, status, 0, 0)
        site.mirror.replace([(key, key + b"\x00", [(key, encode_task(task))])])
        return segment

    own, other = "111111111111", "222222222222"
    active = store(own, "active", RUNNING)
    store(own, "over", COMPLETED)
    store(other, "active", RUNNING)
    queues = SimpleNamespace(groups=[site.own, site.mirror])
    tasks = MoveTasks(cast(Any, queues), cast(Any, None))
    assert tasks.active_count(own) == 1
    tasks.reserve(active)
    assert tasks.active_count(own) == 1
    tasks.reserve(native.queue_segment(own, "us-east-1", "here"))
    assert tasks.active_count(own) == 2
