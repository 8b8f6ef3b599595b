"""Entries → batch: sums, marks, drops, stale ones; the same state however entries arrive."""

from hypothesis import given
from hypothesis import strategies as st

from fastnode import native
from fastnode.native import ADD, DELETE, DROP, FRESH_DELETE, FRESH_PUT, MAX, PUT
from fastnode.store.apply import APPLIED, STALE, Position, apply_entries, load_position
from fastnode.store.memory_engine import MemoryEngine
from fastnode.store.sums import decode_counter

REQUEST = bytes(16)
Write = tuple[int, bytes, bytes]


def entry(*transactions: tuple[int, list[Write]]) -> bytes:
    encoded = [
        native.encode_transaction(REQUEST, 0, commit_ts, 0, 0, [], writes)
        for commit_ts, writes in transactions
    ]
    return native.encode_entry(encoded)


def delta(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


def run(engine: MemoryEngine, entries: list[bytes]) -> list[int]:
    batch = engine.batch()
    before = load_position(engine)
    index = before.applied_index + len(entries)
    _, outcomes = apply_entries(engine, batch, before, index=index, term=1, entries=entries)
    engine.write(batch)
    return [status for _, status in outcomes]


def rows(engine: MemoryEngine) -> list[tuple[bytes, bytes]]:
    return engine.scan(b"", b"\xff", 10_000)


def test_position_is_written_with_what_it_stands_for() -> None:
    engine = MemoryEngine()
    run(engine, [entry((7, [(PUT, b"k", b"v")]))])
    assert load_position(engine) == Position(1, 1, 7)


def test_a_stale_transaction_writes_nothing() -> None:
    engine = MemoryEngine()
    statuses = run(engine, [entry((7, [(PUT, b"a", b"1")]), (7, [(PUT, b"a", b"2")]))])
    assert statuses == [APPLIED, STALE]
    assert engine.get(b"a") == b"1"


def test_sums_cross_transactions_entries_and_batches() -> None:
    engine = MemoryEngine()
    run(engine, [entry((1, [(ADD, b"c", delta(5))]), (2, [(ADD, b"c", delta(-2))]))])
    run(engine, [entry((3, [(ADD, b"c", delta(1))])), entry((4, [(ADD, b"c", delta(1))]))])
    assert decode_counter(engine.get(b"c")) == 5


def test_a_mark_only_rises() -> None:
    engine = MemoryEngine()
    for commit_ts, mark in enumerate((b"\x05", b"\x03", b"\x07", b"\x06"), start=1):
        run(engine, [entry((commit_ts, [(MAX, b"m", mark)]))])
    assert engine.get(b"m") == b"\x07"


def test_a_drop_takes_sums_of_its_range_along_and_spares_the_rest() -> None:
    engine = MemoryEngine()
    run(engine, [entry((1, [(PUT, b"g1|a", b"x"), (ADD, b"g1|c", delta(3)), (PUT, b"g2", b"y")]))])
    writes: list[Write] = [
        (ADD, b"g1|c", delta(1)),
        (DROP, b"g1|", b"g1}"),
        (ADD, b"g1|c", delta(10)),
    ]
    run(engine, [entry((2, writes))])
    assert engine.get(b"g1|a") is None
    assert engine.get(b"g2") == b"y"
    assert decode_counter(engine.get(b"g1|c")) == 10


KEYS = [b"a", b"b", b"c|1", b"c|2"]
WRITES = st.one_of(
    st.tuples(st.sampled_from([PUT, FRESH_PUT]), st.sampled_from(KEYS), st.binary(max_size=3)),
    st.tuples(st.sampled_from([DELETE, FRESH_DELETE]), st.sampled_from(KEYS), st.just(b"")),
    st.tuples(st.just(ADD), st.just(b"sum"), st.integers(-9, 9).map(delta)),
    st.tuples(st.just(MAX), st.just(b"mark"), st.binary(min_size=1, max_size=2)),
    st.just((DROP, b"c|", b"c}")),
)


@given(st.lists(st.lists(WRITES, max_size=4), max_size=12), st.data())
def test_batch_size_does_not_change_the_state(
    transactions: list[list[Write]], data: st.DataObject
) -> None:
    entries = [entry((n, writes)) for n, writes in enumerate(transactions, start=1)]
    one_by_one, in_groups = MemoryEngine(), MemoryEngine()
    for each in entries:
        run(one_by_one, [each])
    while entries:
        size = data.draw(st.integers(1, len(entries)))
        run(in_groups, entries[:size])
        entries = entries[size:]
    assert rows(one_by_one) == rows(in_groups)
