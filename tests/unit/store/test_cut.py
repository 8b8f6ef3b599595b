"""States of groups that fit together, and those that would lose or double a message."""

from fastnode.store.apply import Position
from fastnode.store.cut import Marks, marks_of, misfit
from fastnode.store.keyspace import encode_position, inbox_key, sent_key
from fastnode.store.memory_engine import MemoryEngine

TS = 1_000
LETTER = TS << 16 | 3


def marks(
    *,
    commit_ts: int = TS,
    sent: dict[int, int] | None = None,
    decided: dict[int, int] | None = None,
) -> Marks:
    nothing = {0: 0, 1: 0}
    return Marks(Position(1, 1, commit_ts), nothing | (sent or {}), nothing | (decided or {}))


def test_groups_that_never_wrote_to_each_other_fit() -> None:
    assert misfit([marks(), marks()]) == ""


def test_a_letter_at_each_step_of_its_way_fits() -> None:
    for source, target in (
        (marks(), marks()),  # under way, or not written yet
        (marks(), marks(decided={0: LETTER})),  # taken in
        (marks(sent={1: LETTER}), marks(decided={0: LETTER})),  # through
    ):
        assert misfit([source, target]) == ""


def test_a_letter_that_is_through_and_not_taken_in_would_be_lost() -> None:
    source, target = marks(sent={1: LETTER}), marks(decided={0: LETTER - 1})
    assert misfit([source, target]) == "a message from group 0 has not arrived in group 1"
    # The other way round, too.
    assert misfit([marks(), marks(sent={0: LETTER})]).startswith("a message from group 1 has not")


def test_a_letter_that_is_taken_in_and_not_written_would_be_doubled() -> None:
    source, target = marks(commit_ts=TS - 1), marks(decided={0: LETTER})
    assert misfit([source, target]) == "a message from group 0 is in group 1 already"


def test_marks_are_read_from_a_state() -> None:
    engine = MemoryEngine()
    batch = engine.batch()
    batch.put(sent_key(1), encode_position(LETTER))
    batch.put(inbox_key(0), encode_position(LETTER - 1))
    engine.write(batch)
    found = marks_of(engine, 2)
    assert (found.sent, found.decided) == ({0: 0, 1: LETTER}, {0: LETTER - 1, 1: 0})
