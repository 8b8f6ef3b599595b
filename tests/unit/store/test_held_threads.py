"""An engine that holds rows back over RocksDB, and beside other threads."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fastnode import config
from fastnode.native import FAMILY_DATA, FAMILY_STATE
from fastnode.store.engine import Batch, WriteStalled
from fastnode.store.held_engine import HeldEngine
from tests.unit.store.held_rows import APPLIED, Rows, Stored, all_rows, small_rocks, write_rows


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


class FlushedMeanwhile(Stored):
    """Somebody flushes the engine above, before each read or after it."""

    def __init__(self, *, is_before: bool) -> None:
        super().__init__()
        self.is_before = is_before
        self.flush_above: Callable[[], None] = lambda: None

    def scan(self, start: bytes, end: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        if self.is_before:
            self.flush_above()
        rows = super().scan(start, end, limit)
        if not self.is_before:
            self.flush_above()
        return rows


@pytest.mark.parametrize("is_before", [True, False])
def test_rows_that_are_written_out_during_a_scan_are_found(is_before: bool) -> None:
    stored = FlushedMeanwhile(is_before=is_before)
    engine = HeldEngine(stored)
    write_rows(engine, [(b"a", b"1"), (b"b", b"1"), (b"d", b"1")])
    engine.flush()
    write_rows(engine, [(b"a", None), (b"b", b"2"), (b"c", b"2")])
    stored.flush_above = engine.flush
    assert engine.scan(b"", b"z", 2) == [(b"b", b"2"), (b"c", b"2")]
    assert stored.rows() == {b"b": b"2", b"c": b"2", b"d": b"1"}


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
