"""Entries → batch: sums, marks, drops, stale ones; the same state however entries arrive."""

from hypothesis import given
from hypothesis import strategies as st

from fastnode import native
from fastnode.native import (
    ADD,
    APPLIED,
    CONFLICT,
    DELETE,
    DROP,
    DUPLICATE,
    FRESH_DELETE,
    FRESH_PUT,
    MAX,
    PUT,
    STALE,
)
from fastnode.store.apply import (
    Position,
    decide,
    fill_rows,
    load_position,
    load_resolver,
    put_position,
)
from fastnode.store.memory_engine import MemoryEngine
from fastnode.store.sums import decode_counter

Write = tuple[int, bytes, bytes]


def transaction(
    commit_ts: int, writes: list[Write], *, request: int | None = None, start_ts: int | None = None
) -> bytes:
    """Planned on the state just before it, by a call of its own, unless said otherwise."""
    identity = (commit_ts if request is None else request).to_bytes(16, "big")
    start = commit_ts - 1 if start_ts is None else start_ts
    return native.encode_transaction(identity, start, commit_ts, 0, 5, [], writes)


def entry(*transactions: tuple[int, list[Write]]) -> bytes:
    return native.encode_entry([transaction(*each) for each in transactions])


def delta(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


def run(engine: MemoryEngine, entries: list[bytes]) -> list[int]:
    """Apply as after a restart: everything that is remembered comes from the engine."""
    before = load_position(engine)
    resolver = load_resolver(engine, before)
    decided = decide(resolver, entries)
    after = Position(before.applied_index + len(entries), 1, resolver.last_commit_ts)
    batch = engine.batch()
    fill_rows(engine, batch, decided)
    put_position(batch, after)
    engine.write(batch)
    return [outcome[0] for each in decided for outcome in each.resolved.outcomes]


def rows(engine: MemoryEngine) -> list[tuple[bytes, bytes]]:
    return engine.scan(b"", b"\xff", 10_000)


def test_position_is_written_with_what_it_stands_for() -> None:
    engine = MemoryEngine()
    run(engine, [entry((7, [(PUT, b"k", b"v")]))])
    assert load_position(engine) == Position(1, 1, 7)


def test_a_stale_transaction_writes_nothing() -> None:
    engine = MemoryEngine()
    first = transaction(7, [(PUT, b"a", b"1")])
    late = transaction(7, [(PUT, b"a", b"2")], request=99)
    assert run(engine, [native.encode_entry([first, late])]) == [APPLIED, STALE]
    assert engine.get(b"a") == b"1"


def test_a_repeated_request_writes_nothing_also_after_a_restart() -> None:
    engine = MemoryEngine()
    run(engine, [entry((7, [(ADD, b"c", delta(1))]))])
    again = transaction(9, [(ADD, b"c", delta(1))], request=7)
    assert run(engine, [native.encode_entry([again])]) == [DUPLICATE]
    assert decode_counter(engine.get(b"c")) == 1


def test_a_plan_on_changed_state_writes_nothing_also_after_a_restart() -> None:
    engine = MemoryEngine()
    run(engine, [entry((7, [(PUT, b"a", b"1")]))])
    blind = transaction(9, [(PUT, b"a", b"2")], start_ts=6)
    informed = transaction(10, [(PUT, b"a", b"3")], start_ts=7)
    assert run(engine, [native.encode_entry([blind, informed])]) == [CONFLICT, APPLIED]
    assert engine.get(b"a") == b"3"


def test_a_batch_can_be_filled_again_after_it_was_refused() -> None:
    engine = MemoryEngine()
    resolver = load_resolver(engine, load_position(engine))
    decided = decide(resolver, [entry((7, [(PUT, b"a", b"1"), (ADD, b"c", delta(1))]))])
    for _ in range(2):
        batch = engine.batch()
        fill_rows(engine, batch, decided)
        put_position(batch, Position(1, 1, 7))
    engine.write(batch)
    assert decode_counter(engine.get(b"c")) == 1


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
