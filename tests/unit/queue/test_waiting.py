"""The read-ahead buffer and its low-water mark."""

import pytest

from fastnode import config
from fastnode.queue.waiting import Waiting


def drained(waiting: Waiting) -> list[int]:
    positions = []
    while (item := waiting.take()) is not None:
        positions.append(item[0])
    return positions


def at_end() -> Waiting:
    waiting = Waiting(0)
    waiting.load([], [], is_last=True)
    return waiting


def test_sends_are_served_from_memory_once_the_end_is_reached() -> None:
    waiting = at_end()
    for position in (5, 7, 9):
        waiting.append(position, b"r")
    assert drained(waiting) == [5, 7, 9]
    assert not waiting.needs_page


def test_before_the_end_is_reached_sends_stay_in_the_engine() -> None:
    waiting = Waiting(0)
    waiting.append(5, b"r")
    assert waiting.needs_page and drained(waiting) == []


def test_a_record_that_a_page_brought_is_not_appended_again() -> None:
    waiting = Waiting(0)
    waiting.load([(5, b"r"), (7, b"r")], [], is_last=True)
    waiting.append(7, b"r")
    waiting.append(9, b"r")
    assert drained(waiting) == [5, 7, 9]


def test_records_with_state_are_passed_over() -> None:
    waiting = Waiting(0)
    waiting.load([(5, b"r"), (6, b"r"), (7, b"r")], [6], is_last=False)
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


def test_what_is_put_back_comes_first_again() -> None:
    waiting = at_end()
    for position in (5, 7, 9):
        waiting.append(position, b"r")
    items = [item for item in (waiting.take(), waiting.take()) if item]
    waiting.put_back(items)
    assert drained(waiting) == [5, 7, 9]


def test_the_mark_never_passes_a_claim_that_may_still_fail() -> None:
    waiting = at_end()
    for position in (5, 7, 9):
        waiting.append(position, b"r")
    waiting.take()
    assert waiting.claim(5) == 7
    waiting.take()
    assert waiting.claim(7) == 5
    waiting.settle(5)
    waiting.take()
    assert waiting.claim(9) == 7
    waiting.settle(7)
    waiting.settle(9)
    assert not waiting.has_claims
