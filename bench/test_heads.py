"""What a touch costs: batches of 64 sends with message groups, with and without touching them.

Both kinds of batch are filled on the same engine in turns and the best of each is taken, so the
difference is the price of working out the heads. It must not grow with what a group has consumed.
With timing off each case runs once, to see that it still works.
"""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from time import perf_counter

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fastnode import native
from fastnode.native import Transaction
from fastnode.store.apply import Decided, Position, decide, fill_rows, put_position
from fastnode.store.engine import Engine, RocksEngine
from fastnode.store.engine_options import EngineShared
from fastnode.store.keyspace import MessageKeys
from fastnode.store.txn import Txn

BATCH = 64
ROUNDS = 60
CONSUMED = 20_000
START = 1_790_000_000_000 << 16
KEYS = MessageKeys(native.queue_segment("123456789012", "eu-west-1", "orders.fifo"), 3)

GROUPS: dict[str, Callable[[int], str]] = {
    "sends to 1,000 groups": lambda number: f"group-{number % 1_000}",
    "sends to one group": lambda _: "group",
    "sends to new groups": lambda number: f"group-{number}",
}


class Store:
    """An engine, and the log that it applies."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.numbers = count(1)
        self.resolver = native.Resolver()

    def begin(self) -> Txn:
        number = next(self.numbers)
        return Txn(number.to_bytes(16, "big"), START + number - 1, START + number)

    def decided(self, transactions: list[Txn]) -> list[Decided]:
        return decide(self.resolver, [native.encode_entry([txn.encode() for txn in transactions])])

    def fill_seconds(self, decided: list[Decided]) -> float:
        batch = self.engine.batch()
        start = perf_counter()
        fill_rows(self.engine, batch, decided)
        put_position(batch, Position(1, 1, self.resolver.last_commit_ts))
        seconds = perf_counter() - start
        self.engine.write(batch)
        return seconds


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    engine = RocksEngine(tmp_path / "g", EngineShared())
    yield Store(engine)
    engine.close()


def send(txn: Txn, group: str) -> int:
    position = txn.commit_ts << 16
    txn.put_fresh(KEYS.data_key(position), b"x" * 200)
    txn.put_fresh(KEYS.group_key(group, position), b"")
    txn.add(KEYS.total, 1)
    txn.touch(KEYS.head_key(group))
    return position


def delete(txn: Txn, group: str, position: int) -> None:
    txn.delete(KEYS.state_key(position))
    txn.delete_fresh(KEYS.data_key(position))
    txn.delete_fresh(KEYS.group_key(group, position))
    txn.touch(KEYS.head_key(group))


def sends(store: Store, group_of: Callable[[int], str]) -> list[Decided]:
    transactions = [store.begin() for _ in range(BATCH)]
    for txn in transactions:
        send(txn, group_of(txn.commit_ts - START))
    return store.decided(transactions)


def untouched(decided: list[Decided]) -> list[Decided]:
    def without(transaction: Transaction) -> bytes:
        writes = [write for write in transaction.writes if write[0] != native.TOUCH]
        return native.encode_transaction(*transaction._replace(writes=writes))

    def entry(row: Decided) -> native.Entry:
        return native.Entry(native.encode_entry(list(map(without, row.entry.transactions()))))

    return [Decided(entry(row), row.resolved) for row in decided]


@pytest.mark.parametrize("name", GROUPS)
def test_touches_of_sends(
    name: str, store: Store, benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    def fill() -> tuple[float, float]:
        decided = sends(store, GROUPS[name])
        # Written first without its heads, so that both are filled from the same state.
        return store.fill_seconds(untouched(decided)), store.fill_seconds(decided)

    plain, touched = fill()
    assert store.engine.scan_keys(KEYS.head, native.prefix_end(KEYS.head), 1)
    benchmark(fill)
    if benchmark.disabled:
        return
    plain, touched = (min(column) for column in zip(*(fill() for _ in range(ROUNDS)), strict=True))
    per_touch = (touched - plain) / BATCH * 1e6
    benchmark.extra_info["microseconds_per_touch"] = round(per_touch, 3)
    with capsys.disabled():
        print(f"\n{name:30}{per_touch:8.3f} µs a touch", end="")


def test_the_next_head_is_found_as_fast_in_a_group_that_has_consumed_much(
    store: Store, benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(BATCH):
        fresh_group(store, f"fresh-{number}")
    consume(store, "busy", CONSUMED if not benchmark.disabled else BATCH)
    groups = ("busy", *(f"fresh-{number}" for number in range(BATCH)))
    waiting = {group: refill(store, group) for group in groups}

    def cycle(group: str) -> float:
        """A message goes, the next one is the head, and another one comes."""
        leave, come = store.begin(), store.begin()
        delete(leave, group, waiting[group].pop(0))
        waiting[group].append(send(come, group))
        seconds = store.fill_seconds(store.decided([leave]))
        store.fill_seconds(store.decided([come]))
        return seconds

    benchmark(cycle, "busy")
    if benchmark.disabled:
        return
    rounds = [(cycle("busy"), cycle(f"fresh-{at % BATCH}")) for at in range(10 * BATCH)]
    busy, fresh = (min(column) * 1e6 for column in zip(*rounds, strict=True))
    benchmark.extra_info["microseconds"] = {"busy": round(busy, 3), "fresh": round(fresh, 3)}
    with capsys.disabled():
        print(f"\nnext head: busy group {busy:.3f} µs, fresh group {fresh:.3f} µs", end="")
    assert busy <= 2 * fresh, f"{busy:.1f} µs in a busy group, {fresh:.1f} µs in a fresh one"


def fresh_group(store: Store, group: str) -> None:
    consume(store, group, 1)


def refill(store: Store, group: str) -> list[int]:
    transactions = [store.begin() for _ in range(3)]
    positions = [send(txn, group) for txn in transactions]
    store.fill_seconds(store.decided(transactions))
    return positions


def consume(store: Store, group: str, messages: int) -> None:
    for _ in range(0, messages, BATCH):
        coming = [store.begin() for _ in range(min(BATCH, messages))]
        positions = [send(txn, group) for txn in coming]
        store.fill_seconds(store.decided(coming))
        going = store.begin()
        for position in positions:
            delete(going, group, position)
        store.fill_seconds(store.decided([going]))
