"""An engine that holds rows back: when it writes them out, what it refuses, and other threads.

Not here: random histories, see `test_held_history.py`; which rows are forgotten, see
`tests/unit/native/test_native_held.py`.
"""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fastnode import config
from fastnode.errors import DiskFull
from fastnode.native import FAMILY_COUNTER, FAMILY_DATA, FAMILY_STATE, FAMILY_TIMER
from fastnode.store.engine import Batch, Engine, RocksEngine, WriteStalled
from fastnode.store.engine_options import EngineShared
from fastnode.store.held_engine import HeldEngine
from tests.stored import StoredRows

APPLIED = b"!raft|applied"
Rows = list[tuple[bytes, bytes | None]]


class Stored(StoredRows):
    """A stall may be over after some flushes, as RocksDB's is."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0
        self.stalled_flushes = 0

    def write(self, batch: Batch) -> None:
        super().write(batch)
        self.writes += 1

    def flush(self) -> None:
        super().flush()
        if self.stalled_flushes:
            self.stalled_flushes -= 1
            self.stalled = self.stalled_flushes > 0


def write_rows(engine: Engine, rows: Rows) -> None:
    batch = engine.batch()
    for key, value in rows:
        if value is None:
            batch.delete(key)
        else:
            batch.put(key, value)
    engine.write(batch)


def all_rows(engine: Engine) -> dict[bytes, bytes]:
    return dict(engine.scan(b"", b"\xff", 1_000_000))


def small_rocks(path: Path) -> RocksEngine:
    return RocksEngine(path, EngineShared(cache_bytes=1 << 20, write_buffer_bytes=8 << 20))


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
    assert engine.scan_reverse(b"", b"z", 2) == [(b"77", b"new"), (b"6", b"")]


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


# --- RocksDB -----------------------------------------------------------------------------------


def test_a_closed_engine_has_everything_when_it_is_opened_again(tmp_path: Path) -> None:
    rows: Rows = [(b"%04d" % number, b"x" * number) for number in range(300)]
    engine = HeldEngine(small_rocks(tmp_path / "g"))
    write_rows(engine, rows)
    engine.close()
    engine = HeldEngine(small_rocks(tmp_path / "g"))
    assert all_rows(engine) == dict(rows)
    engine.close()


def step(number: int) -> Rows:
    """A message comes, one that came a while ago is received, and an older one goes."""
    rows: Rows = [(APPLIED, b"%d" % number), (FAMILY_DATA + b"%06d" % number, b"body")]
    if number >= 5:
        rows.append((FAMILY_STATE + b"%06d" % (number - 5), b"received"))
    if number >= 40:
        name = b"%06d" % (number - 40)
        rows += [(FAMILY_DATA + name, None), (FAMILY_STATE + name, None)]
    return rows


def after(number: int) -> dict[bytes, bytes]:
    names = [b"%06d" % one for one in range(max(0, number - 39), number + 1)]
    return {
        APPLIED: b"%d" % number,
        **{FAMILY_DATA + name: b"body" for name in names},
        **{FAMILY_STATE + name: b"received" for name in names[:-5]},
    }


class Settling(threading.Thread):
    """Does its work again and again; `error` is what ended it."""

    def __init__(self, work: Callable[[int], None], is_over: threading.Event) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._is_over = is_over
        self.error: BaseException | None = None

    def run(self) -> None:
        number = 0
        try:
            while number == 0 or not self._is_over.is_set():
                self._work(number)
                number += 1
        except BaseException as error:  # told by the test's own thread
            self.error = error


class SlowlyStored(Stored):
    """A write is under way until it may end."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.may_end = threading.Event(), threading.Event()

    def write(self, batch: Batch) -> None:
        self.begun.set()
        assert self.may_end.wait(60)
        super().write(batch)


def test_rows_that_come_while_others_are_written_are_kept() -> None:
    stored = SlowlyStored()
    engine = HeldEngine(stored)
    write_rows(engine, [(b"a", b"1")])
    flushing = threading.Thread(target=engine.flush, daemon=True)
    flushing.start()
    assert stored.begun.wait(60)
    assert engine.get(b"a") == b"1" and engine.scan_keys(b"", b"z", 9) == [b"a"]
    writing = threading.Thread(target=write_rows, args=(engine, [(b"b", b"2")]), daemon=True)
    writing.start()
    writing.join(0.05)
    stored.may_end.set()
    for thread in (flushing, writing):
        thread.join(60)
    assert all_rows(engine) == {b"a": b"1", b"b": b"2"}


def write_patiently(engine: HeldEngine, rows: Rows) -> None:
    for _ in range(1_000):
        try:
            return write_rows(engine, rows)
        except WriteStalled:
            engine.flush()
    raise AssertionError("still stalled")


def test_other_threads_flush_and_copy_while_rows_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "HELD_ROWS_MAX", 64)
    engine = HeldEngine(small_rocks(tmp_path / "g"))
    is_over = threading.Event()
    threads = [
        Settling(lambda _: engine.flush(), is_over),
        Settling(lambda number: engine.checkpoint(tmp_path / f"copy {number}"), is_over),
    ]
    for thread in threads:
        thread.start()
    for number in range(2_000):
        write_patiently(engine, step(number))
        if number % 7 == 0:
            assert all_rows(engine) == after(number)
    is_over.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive() and thread.error is None
    assert all_rows(engine) == after(1_999)
    engine.close()
    for path in [tmp_path / "g", *tmp_path.glob("copy *")]:
        copy = small_rocks(path)
        found = all_rows(copy)
        assert found == (after(int(found[APPLIED])) if found else {})
        copy.close()
