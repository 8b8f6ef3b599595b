"""What a FIFO queue remembers of messages that were handed out once."""

import pytest

from fastnode import config
from fastnode.queue.fifo_handed import Handed


def test_groups_are_told_to_whoever_knows_the_nonces() -> None:
    handed = Handed()
    handed.add([1, 2], ["a", "b"], 7)
    assert handed.groups_of([(2, 7), (1, 7), (2, 7)]) == {2: "b", 1: "a"}
    assert handed.groups_of([(1, 7), (2, 8)]) is None
    assert handed.groups_of([(1, 7), (3, 7)]) is None


def test_what_was_changed_is_forgotten() -> None:
    handed = Handed()
    handed.add([1, 2], ["a", "b"], 7)
    handed.forget([1, 5])
    assert handed.groups_of([(1, 7)]) is None
    assert handed.groups_of([(2, 7)]) == {2: "b"}


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "HELD_MESSAGES_MAX", 2)
    handed = Handed()
    handed.add([1, 2], ["a", "b"], 7)
    handed.add([3], ["c"], 8)
    assert handed.groups_of([(1, 7)]) is None
    assert handed.groups_of([(3, 8)]) == {3: "c"}
