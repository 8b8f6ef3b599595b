"""Head rows kept from batch to batch: they are what the engine has, whatever became of a batch."""

import pytest

from fastnode import config, native
from fastnode.store.apply import (
    Position,
    decide,
    fill_rows,
    load_position,
    load_resolver,
    put_position,
)
from fastnode.store.engine import Batch
from fastnode.store.heads import HeadRows
from fastnode.store.txn import Txn
from tests.unit.store.test_heads import (
    KEYS,
    START,
    CountingEngine,
    Plan,
    delete,
    expected,
    head,
    head_rows,
    position,
    purge,
    send,
    transaction,
)


def fill(engine: CountingEngine, rows: HeadRows, *transactions: bytes) -> Batch:
    """A batch that nobody has written yet."""
    before = load_position(engine)
    resolver = load_resolver(engine, before)
    decided = decide(resolver, [native.encode_entry([each]) for each in transactions])
    after = Position(before.applied_index + 1, 1, resolver.last_commit_ts)
    batch = engine.batch()
    fill_rows(engine, batch, decided, rows)
    put_position(batch, after)
    return batch


def remove(group: str, where: int) -> Plan:
    def plan(txn: Txn) -> None:
        txn.delete_fresh(KEYS.group_key(group, where))
        txn.touch(KEYS.head_key(group))

    return plan


def test_a_head_that_was_read_or_written_is_not_read_again() -> None:
    engine = CountingEngine()
    rows = HeadRows(engine)
    engine.write(fill(engine, rows, transaction(1, send("a", 1))))
    rows.written()
    engine.looked_at = []
    engine.write(fill(engine, rows, transaction(2, delete("a", 1))))
    rows.written()
    engine.write(fill(engine, rows, transaction(3, send("a", 3))))
    rows.written()
    assert KEYS.head_key("a") not in engine.looked_at
    assert head_rows(engine) == head("a", 3)


def test_a_batch_that_was_not_written_changes_no_row_that_is_kept() -> None:
    engine = CountingEngine()
    rows = HeadRows(engine)
    engine.write(fill(engine, rows, transaction(1, send("a", 1))))
    rows.written()
    fill(engine, rows, transaction(2, delete("a", 1)))
    engine.write(fill(engine, rows, transaction(2, delete("a", 1))))
    rows.written()
    assert head_rows(engine) == {}


def test_a_purge_is_noticed_by_the_rows_that_are_kept_also_if_nothing_is_touched() -> None:
    engine = CountingEngine()
    rows = HeadRows(engine)
    engine.write(fill(engine, rows, transaction(1, send("a", 1))))
    rows.written()
    engine.write(fill(engine, rows, transaction(2, purge())))
    rows.written()
    engine.write(fill(engine, rows, transaction(3, send("a", 3))))
    assert head_rows(engine) == head("a", 3)


def test_a_message_before_the_head_that_is_known_becomes_the_head() -> None:
    engine = CountingEngine()
    rows = HeadRows(engine)
    engine.write(fill(engine, rows, transaction(5, send("a", 5), send("b", 5, 1))))
    rows.written()
    engine.write(fill(engine, rows, transaction(6, send("a", 3), send("b", 6))))
    assert head_rows(engine) == head("a", 3) | expected(KEYS, "b", position(5, 1), START + 5)


def test_a_send_and_the_end_of_the_head_before_it_meet_in_one_batch() -> None:
    engine = CountingEngine()
    rows = HeadRows(engine)
    engine.write(fill(engine, rows, transaction(1, send("a", 1), send("b", 1, 1))))
    rows.written()
    steps = [(2, send("a", 2)), (3, delete("a", 1)), (4, send("a", 4)), (5, send("b", 5))]
    engine.write(fill(engine, rows, *(transaction(*step) for step in steps)))
    assert head_rows(engine) == head("a", 2) | expected(KEYS, "b", position(1, 1), START + 1)


def test_a_successor_that_is_known_is_not_looked_for() -> None:
    engine = CountingEngine()
    rows = HeadRows(engine)
    engine.write(fill(engine, rows, transaction(1, *(send("a", 1, entry) for entry in range(9)))))
    rows.written()
    engine.write(fill(engine, rows, transaction(2, send("a", 2))))
    rows.written()
    engine.scans = 0
    assert rows.positions(KEYS.head_key("a"), position(1), 3) == [position(1, n) for n in range(3)]
    gone = [remove("a", position(1, entry)) for entry in range(9)]
    engine.write(fill(engine, rows, transaction(3, *gone)))
    rows.written()
    assert head_rows(engine) == head("a", 2)
    assert rows.positions(KEYS.head_key("a"), position(2), 3) == [position(2)]
    assert engine.scans == 0


def test_a_group_that_was_there_before_is_read_a_page_at_a_time() -> None:
    engine = CountingEngine()
    for number in range(1, 100):
        engine.write(fill(engine, HeadRows(engine), transaction(number, send("a", number))))
    rows = HeadRows(engine)
    engine.scans = 0
    for number in range(1, 100):
        found = rows.positions(KEYS.head_key("a"), position(number), 2)
        assert found == [position(number + more) for more in range(2) if number + more < 100]
        engine.write(fill(engine, rows, transaction(100 + number, delete("a", number))))
        rows.written()
    assert head_rows(engine) == {}
    assert 1 < engine.scans < 10


def test_positions_begin_where_they_are_asked_to() -> None:
    engine = CountingEngine()
    rows = HeadRows(engine)
    engine.write(fill(engine, rows, transaction(1, *(send("a", 1, entry) for entry in range(3)))))
    rows.written()
    assert rows.positions(KEYS.head_key("a"), position(1, 1), 9) == [position(1, 1), position(1, 2)]
    assert rows.positions(KEYS.head_key("b"), position(1), 9) == []


def test_what_is_read_while_a_purge_waits_to_be_written_goes_with_it() -> None:
    engine = CountingEngine()
    engine.write(fill(engine, HeadRows(engine), transaction(1, send("a", 1))))
    rows, key = HeadRows(engine), KEYS.head_key("a")
    batch = fill(engine, rows, transaction(2, purge()))
    assert rows.positions(key, position(1), 9) == [position(1)]
    engine.write(batch)
    rows.written()
    assert rows.positions(key, position(1), 9) == []


def test_rows_are_kept_of_so_many_groups_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "HEADS_REMEMBERED_MAX", 3)
    engine = CountingEngine()
    rows = HeadRows(engine)
    for number in range(1, 20):
        engine.write(fill(engine, rows, transaction(number, send(f"g{number % 5}", number))))
        rows.written()
        assert len(rows._rows) <= 3
    assert len(head_rows(engine)) == 2 * 5
