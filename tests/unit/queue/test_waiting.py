"""The read-ahead buffer and its low-water mark."""

import pytest

from fastnode import config
from fastnode.queue import api
from fastnode.queue.read_ahead import ReadAhead
from fastnode.queue.waiting import Waiting
from fastnode.store.keyspace import encode_position
from tests.world import World

EVERYTHING = 1_000_000


def rows(*positions: int) -> list[tuple[bytes, bytes]]:
    """A stored page."""
    return [(b"prefix" + encode_position(position), b"r") for position in positions]


def drained(waiting: Waiting) -> list[int]:
    return [position for position, _ in waiting.take(EVERYTHING)]


def at_end() -> Waiting:
    waiting = Waiting(0, ReadAhead(tuple))
    waiting.load([], [], is_last=True)
    return waiting


def test_sends_are_served_from_memory_once_the_end_is_reached() -> None:
    waiting = at_end()
    for position in (5, 7, 9):
        waiting.append(position, b"r")
    assert drained(waiting) == [5, 7, 9]
    assert not waiting.needs_page


def test_before_the_end_is_reached_sends_stay_in_the_engine() -> None:
    waiting = Waiting(0, ReadAhead(tuple))
    waiting.append(5, b"r")
    assert waiting.needs_page and drained(waiting) == []


def test_a_record_that_a_page_brought_is_not_appended_again() -> None:
    waiting = Waiting(0, ReadAhead(tuple))
    waiting.load(rows(5, 7), [], is_last=True)
    waiting.append(7, b"r")
    waiting.append(9, b"r")
    assert drained(waiting) == [5, 7, 9]


def test_records_with_state_are_passed_over() -> None:
    waiting = Waiting(0, ReadAhead(tuple))
    waiting.load(rows(5, 6, 7), [6], is_last=False)
    assert drained(waiting) == [5, 7]
    assert waiting.next_position == 8 and waiting.needs_page


def test_a_full_buffer_leaves_the_rest_to_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "READ_AHEAD_MESSAGES", 2)
    waiting = at_end()
    for position in (5, 7, 9, 11):
        waiting.append(position, b"r")
    assert drained(waiting) == [5, 7]
    assert waiting.needs_page and waiting.next_position == 8


def test_bytes_bound_the_buffer_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "READ_AHEAD_BYTES", 100)
    waiting = at_end()
    for position in (5, 7, 9):
        waiting.append(position, b"r" * 60)
    assert drained(waiting) == [5, 7]


@pytest.mark.parametrize(("position", "size"), [(5, 10), (8, 10), (9, 10), (9, 30), (9, 40)])
@pytest.mark.parametrize("messages_max", [3, 5, 6])
def test_messages_in_a_row_are_buffered_as_one_by_one(
    position: int, size: int, messages_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "READ_AHEAD_MESSAGES", messages_max)
    monkeypatch.setattr(config, "READ_AHEAD_BYTES", 100)
    results: list[tuple[list[int], int, bool]] = []
    for at_once in (True, False):
        waiting = at_end()
        waiting.append(6, b"r" * 10)
        waiting.append(7, b"r" * 10)
        records = [b"r" * size] * 3
        if at_once:
            waiting.extend(position, records)
        else:
            for number, record in enumerate(records):
                waiting.append(position + number, record)
        results.append((drained(waiting), waiting.next_position, waiting.needs_page))
    assert results[0] == results[1]


def test_before_the_end_is_reached_messages_in_a_row_stay_in_the_engine() -> None:
    waiting = Waiting(0, ReadAhead(tuple))
    waiting.extend(5, [b"r"])
    assert waiting.needs_page and drained(waiting) == []


def test_what_is_let_go_is_read_again_from_its_first_message_on() -> None:
    waiting = at_end()
    for position in (5, 7, 9):
        waiting.append(position, b"r")
    waiting.take(1)
    waiting.let_go()
    assert waiting.kept_bytes == 0 and waiting.needs_page and waiting.next_position == 7
    waiting.append(11, b"r")
    assert drained(waiting) == [], "whoever reads the page finds it"


def test_nothing_is_let_go_that_a_receive_or_a_removal_works_with() -> None:
    waiting = loaded(5, 6, 7)
    waiting.take(1)
    waiting.claim(5)
    waiting.let_go()
    assert buffered(waiting) == [6, 7]
    waiting.settle(5)
    waiting.withdraw([6], 0)
    waiting.let_go()
    assert buffered(waiting) == [7]
    waiting.withdrawn([6], [])
    waiting.let_go()
    assert buffered(waiting) == []


def test_what_is_put_back_comes_first_again() -> None:
    waiting = at_end()
    for position in (5, 7, 9):
        waiting.append(position, b"r")
    waiting.put_back(waiting.take(2))
    assert drained(waiting) == [5, 7, 9]


def test_the_mark_never_passes_a_claim_that_may_still_fail() -> None:
    waiting = at_end()
    for position in (5, 7, 9):
        waiting.append(position, b"r")
    waiting.take(1)
    assert waiting.claim(5) == 7
    waiting.take(1)
    assert waiting.claim(7) == 5
    waiting.settle(5)
    waiting.take(1)
    assert waiting.claim(9) == 7
    waiting.settle(7)
    waiting.settle(9)
    assert not waiting.has_claims


def buffered(waiting: Waiting) -> list[int]:
    taken = waiting.take(EVERYTHING)
    waiting.put_back(taken)
    return [position for position, _ in taken]


def loaded(*positions: int) -> Waiting:
    waiting = Waiting(0, ReadAhead(tuple))
    waiting.load(rows(*positions), [], is_last=False)
    return waiting


def test_no_receive_takes_what_is_withdrawn() -> None:
    waiting = loaded(5, 6, 7)
    waiting.withdraw([6, 9], 0)
    assert buffered(waiting) == [5, 7]
    waiting.load(rows(8, 9, 10), [], is_last=True)
    assert buffered(waiting) == [5, 7, 8, 10]


def test_the_cursor_passes_what_is_withdrawn_from_the_front() -> None:
    waiting = loaded(5, 6)
    waiting.withdraw([5, 6, 8, 9], 10)
    assert waiting.claim(5) == 10 and waiting.next_position == 10 and waiting.needs_page


def test_what_could_not_be_removed_is_back_in_its_place() -> None:
    waiting = loaded(5, 6, 7)
    waiting.withdraw([6, 9], 0)
    waiting.withdrawn([6, 9], [(6, b"r"), (9, b"r")])
    assert buffered(waiting) == [5, 6, 7], "9 is ahead of the cursor: its page brings it"
    waiting.load(rows(8, 9), [], is_last=True)
    assert buffered(waiting) == [5, 6, 7, 8, 9]


def test_receives_that_failed_in_any_order_leave_the_queue_in_order() -> None:
    waiting = loaded(5, 6, 7)
    first, second = waiting.take(1), waiting.take(1)
    assert first and second
    waiting.put_back(first)
    waiting.put_back(second)
    assert buffered(waiting) == [5, 6, 7]


def test_the_mark_stays_before_what_came_back() -> None:
    waiting = loaded(5, 6, 7, 8)
    first = waiting.take(2)
    assert waiting.claim(5) == 7
    waiting.take(1)
    assert waiting.claim(7) == 5
    waiting.put_back(first)
    waiting.settle(5)
    waiting.take(1)
    assert waiting.claim(5) == 6


def test_messages_survive_two_receives_that_failed_and_a_crash() -> None:
    world = World()
    url = world.create()
    for number in range(6):
        world.send(url, f"m{number}")
    request = api.ReceiveMessageRequest(url, max_number_of_messages=3)
    failed = [world.begin("ReceiveMessage", request) for _ in range(2)]
    world.refuse()
    assert all(call.error is not None for call in failed)
    assert [message.body for message in world.receive(url, 1, 3_600)] == ["m0"]
    world.crash()
    assert [message.body for message in world.receive(url)] == ["m1", "m2", "m3", "m4", "m5"]
