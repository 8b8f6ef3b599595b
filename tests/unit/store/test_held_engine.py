"""An engine that holds rows back: when it writes them out, and what it refuses.

Not here: random histories, see `test_held_history.py`; which rows are forgotten, see
`tests/unit/native/test_native_held.py`; other threads, see `test_held_threads.py`.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from fastnode import config
from fastnode.errors import DiskFull
from fastnode.native import FAMILY_COUNTER, FAMILY_DATA, FAMILY_STATE, FAMILY_TIMER
from fastnode.store.engine import WriteStalled
from fastnode.store.held_engine import HeldEngine
from tests.unit.store.held_rows import Rows, Stored, all_rows, write_rows

# --- when it is written ------------------------------------------------------------------------


@pytest.mark.parametrize(("rows_max", "bytes_max"), [(3, 1 << 20), (1_000, 300)])
def test_at_its_bound_it_writes_out_first_and_holds_what_is_new(
    rows_max: int, bytes_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "HELD_ROWS_MAX", rows_max)
    monkeypatch.setattr(config, "HELD_BYTES_MAX", bytes_max)
    stored = Stored()
    engine = HeldEngine(stored)
    three: Rows = [(b"a", b"1" * 50), (b"b", b"2" * 50), (b"c", b"3" * 50)]
    write_rows(engine, three)
    assert (stored.writes, stored.rows()) == (0, {})
    write_rows(engine, [(b"a", None), (b"d", b"4")])
    assert (stored.writes, stored.rows()) == (1, dict(three))
    assert engine.scan_keys(b"", b"z", 9) == [b"b", b"c", b"d"]


def test_where_most_rows_stay_some_batches_are_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "HELD_ROWS_MAX", 4)
    monkeypatch.setattr(config, "HELD_PAUSE_BATCHES", 2)
    monkeypatch.setattr(config, "HELD_PASSING_ROWS_MIN", 2)
    stored = Stored()
    engine = HeldEngine(stored)
    writes = []
    for number in range(12):
        write_rows(engine, [(b"%02d" % (2 * number + more), b"") for more in (0, 1)])
        writes.append(stored.writes)
    # The third batch writes two out and is held, the next two go out, and so on.
    assert writes == [0, 0, 1, 2, 3, 3, 3, 4, 5, 6, 6, 6]
    write_rows(engine, [(b"24", b"")])
    # Whoever takes rows away ends it.
    write_rows(engine, [(b"00", None)])
    assert stored.writes == 7 and len(all_rows(engine)) == 24


def test_where_most_rows_stay_small_batches_are_written_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(config, "HELD_ROWS_MAX", 4)
    monkeypatch.setattr(config, "HELD_PASSING_ROWS_MIN", 5)
    stored = Stored()
    engine = HeldEngine(stored)
    for number in range(4):
        write_rows(engine, [(b"%d%d" % (number, more), b"") for more in range(2)])
    # The third wrote two out, and from there on rows may pass by: these are too few.
    assert (stored.writes, len(stored.rows())) == (1, 4)
    write_rows(engine, [(b"40", b"")])
    assert (stored.writes, len(stored.rows())) == (2, 9)


def test_where_most_rows_go_every_batch_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "HELD_ROWS_MAX", 4)
    stored = Stored()
    engine = HeldEngine(stored)
    for number in range(12):
        name = FAMILY_DATA + b"%d" % number
        write_rows(engine, [(name, b""), (b"%d" % (number % 5), b"")])
        write_rows(engine, [(name, None)])
    # Of 24 batches, when it was full; once let through they would all have been written.
    assert stored.writes == 5
    assert all_rows(engine) == {b"%d" % number: b"" for number in range(5)}


def test_what_comes_and_goes_is_never_written() -> None:
    stored = Stored()
    engine = HeldEngine(stored)
    names = FAMILY_DATA + b"1", FAMILY_STATE + b"1", FAMILY_TIMER + b"1"
    write_rows(engine, [(name, b"x") for name in names])
    write_rows(engine, [(FAMILY_COUNTER, b"1"), *((name, None) for name in names)])
    engine.flush()
    assert stored.rows() == {FAMILY_COUNTER: b"1"}


def test_a_scan_finds_as_many_as_it_is_asked_for_behind_what_is_deleted() -> None:
    engine = HeldEngine(Stored())
    write_rows(engine, [(b"%d" % number, b"") for number in range(10)])
    engine.flush()
    write_rows(engine, [(b"%d" % number, None) for number in (0, 1, 2, 7, 8, 9)])
    write_rows(engine, [(b"11", b"new"), (b"77", b"new")])
    assert engine.scan(b"", b"z", 2) == [(b"11", b"new"), (b"3", b"")]
    assert engine.scan_keys(b"", b"z", 3) == [b"11", b"3", b"4"]
    assert engine.scan_keys(b"3", b"z", 9) == [b"3", b"4", b"5", b"6", b"77"]


def test_what_is_held_behind_a_page_makes_nobody_read_more() -> None:
    """Such as messages that just came, for a consumer at the other end of a backlog."""
    stored = Stored()
    engine = HeldEngine(stored)
    write_rows(engine, [(b"%03d" % number, b"old") for number in range(100)])
    engine.flush()
    write_rows(engine, [(b"%03d" % number, None) for number in range(10)])
    write_rows(engine, [(b"%03d" % number, b"new") for number in range(100, 200)])
    stored.rows_read = 0
    assert engine.scan(b"010", b"z", 20) == [(b"%03d" % at, b"old") for at in range(10, 30)]
    assert engine.scan_keys(b"010", b"z", 20) == [b"%03d" % at for at in range(10, 30)]
    assert stored.rows_read == 40


def test_rows_that_are_deleted_in_front_are_passed_in_few_reads() -> None:
    stored = Stored()
    engine = HeldEngine(stored)
    write_rows(engine, [(b"%04d" % number, b"") for number in range(2_000)])
    engine.flush()
    write_rows(engine, [(b"%04d" % number, None) for number in range(1_000)])
    stored.rows_read = stored.reads = 0
    assert engine.scan_keys(b"", b"z", 1) == [b"1000"]
    assert stored.reads < 10 and stored.rows_read < 3_000


def test_a_range_takes_what_is_held_and_what_is_not() -> None:
    stored = Stored()
    engine = HeldEngine(stored)
    write_rows(engine, [(b"a", b"1"), (b"b", b"1"), (b"d", b"1")])
    engine.flush()
    write_rows(engine, [(b"a", b"2"), (b"c", b"2"), (b"d", b"2")])
    batch = engine.batch()
    batch.put(b"b1", b"3")
    batch.delete_range(b"b", b"d")
    batch.put(b"c1", b"3")
    engine.write(batch)
    expected = {b"a": b"2", b"c1": b"3", b"d": b"2"}
    assert stored.rows() == all_rows(engine) == expected
    engine.close()
    assert stored.writes == 2


def test_a_state_that_replaces_this_one_leaves_nothing_of_what_was_held() -> None:
    stored = Stored()
    engine = HeldEngine(stored)
    write_rows(engine, [(b"a", b"1"), (b"b", b"1")])
    engine.replace(lambda: stored.load({b"b": b"2"}))
    assert all_rows(engine) == {b"b": b"2"}
    engine.flush()
    assert stored.rows() == {b"b": b"2"}


def test_a_checkpoint_has_what_was_held(tmp_path: Path) -> None:
    stored = Stored()
    engine = HeldEngine(stored)
    write_rows(engine, [(b"a", b"1")])
    engine.checkpoint(tmp_path)
    assert stored.copied == {b"a": b"1"}


# --- engines that refuse -----------------------------------------------------------------------


@pytest.mark.parametrize("has_range", [False, True], ids=["rows", "range"])
@pytest.mark.parametrize("error", [WriteStalled, DiskFull])
def test_a_refused_write_changes_nothing_and_can_be_repeated(
    error: type[Exception], has_range: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "HELD_ROWS_MAX", 2)
    stored = Stored()
    engine = HeldEngine(stored)
    write_rows(engine, [(b"a", b"1"), (b"b", b"1")])

    def write() -> None:
        batch = engine.batch()
        batch.delete(b"a")
        batch.put(b"c", b"2")
        if has_range:
            batch.delete_range(b"b", b"c")
        engine.write(batch)

    stored.stalled, stored.is_full = error is WriteStalled, error is DiskFull
    for _ in range(2):
        with pytest.raises(error):
            write()
        assert all_rows(engine) == {b"a": b"1", b"b": b"1"} and stored.rows() == {}
    stored.stalled = stored.is_full = False
    write()
    expected = {b"c": b"2"} if has_range else {b"b": b"1", b"c": b"2"}
    assert all_rows(engine) == expected
    engine.flush()
    assert stored.rows() == expected


def test_below_its_bound_it_takes_rows_while_the_engine_stalls() -> None:
    stored = Stored()
    engine = HeldEngine(stored)
    stored.stalled = True
    write_rows(engine, [(b"a", b"1")])
    assert engine.get(b"a") == b"1" and engine.is_stalled()


@pytest.mark.parametrize("work", ["flush", "checkpoint"])
def test_whoever_makes_it_durable_waits_for_an_engine_that_stalls(
    work: str, tmp_path: Path
) -> None:
    stored = Stored()
    engine = HeldEngine(stored)
    write_rows(engine, [(b"a", b"1")])
    stored.stalled, stored.stalled_flushes = True, 3
    settle: dict[str, Callable[[], None]] = {
        "flush": engine.flush,
        "checkpoint": lambda: engine.checkpoint(tmp_path),
    }
    settle[work]()
    assert not stored.stalled and stored.rows() == {b"a": b"1"}


def test_it_waits_no_longer_than_its_time_and_still_holds_everything(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(config, "HELD_WAIT_SECONDS", 0.02)
    stored = Stored()
    engine = HeldEngine(stored)
    write_rows(engine, [(b"a", b"1")])
    stored.stalled = True
    with pytest.raises(WriteStalled):
        engine.flush()
    with pytest.raises(WriteStalled):
        engine.checkpoint(tmp_path)
    assert all_rows(engine) == {b"a": b"1"} and stored.copied == {}
    stored.stalled = False
    engine.flush()
    assert stored.rows() == {b"a": b"1"}


def test_after_a_flush_that_failed_a_write_is_refused_at_once() -> None:
    stored = Stored()
    engine = HeldEngine(stored)
    write_rows(engine, [(b"a", b"1")])
    stored.is_full = True
    with pytest.raises(DiskFull):
        engine.flush()
    with pytest.raises(DiskFull):
        write_rows(engine, [(b"b", b"2")])
    assert all_rows(engine) == {b"a": b"1"}
    stored.is_full = False
    write_rows(engine, [(b"b", b"2")])
    assert stored.rows() == {b"a": b"1", b"b": b"2"}


def test_nothing_to_write_needs_no_waiting() -> None:
    stored = Stored()
    stored.stalled = True
    HeldEngine(stored).flush()


@pytest.mark.parametrize("trouble", ["stalled", "is_full"])
def test_an_engine_that_refuses_to_the_end_is_closed_without_what_the_log_has(
    trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "HELD_WAIT_SECONDS", 0.0)
    stored = Stored()
    engine = HeldEngine(stored)
    write_rows(engine, [(b"a", b"1")])
    engine.flush()
    write_rows(engine, [(b"a", b"2")])
    setattr(stored, trouble, True)
    engine.close()
    stored.crash()
    assert stored.rows() == {b"a": b"1"}
