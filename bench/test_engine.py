"""The engine's hot calls, with the state of a busy queue under them.

Gates are ratios measured in one run: what a queue pays must not grow with what it has consumed.
"""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fastnode.store.engine import Engine, RocksEngine
from fastnode.store.engine_options import EngineShared

ROWS = 20_000
BODY = os.urandom(200)
KEYS = [b"queue/message/%012d" % number for number in range(ROWS)]
END = b"queue/message/:"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    built = RocksEngine(tmp_path_factory.mktemp("engine") / "g", EngineShared())
    for start in range(0, ROWS, 64):
        write_rows(built, KEYS[start : start + 64])
    built.flush()
    yield built
    built.close()


def write_rows(engine: Engine, keys: list[bytes]) -> None:
    batch = engine.batch()
    for key in keys:
        batch.put(key, BODY)
    engine.write(batch)


def best_us(call: Callable[[], object], rounds: int = 201) -> float:
    """Of the quickest call: a busy machine only makes others longer."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - start)
    return min(times) / 1_000


def measure(benchmark: BenchmarkFixture, call: Callable[[], None], rounds: int) -> None:
    # pytest-benchmark annotates its fixture's call but not this method.
    benchmark.pedantic(call, rounds=rounds, warmup_rounds=1)  # type: ignore[no-untyped-call]


def test_get(benchmark: BenchmarkFixture, engine: Engine) -> None:
    assert benchmark(engine.get, KEYS[777]) == BODY


def test_get_of_an_absent_key(benchmark: BenchmarkFixture, engine: Engine) -> None:
    assert benchmark(engine.get, KEYS[777] + b"x") is None


def test_get_many_10(benchmark: BenchmarkFixture, engine: Engine) -> None:
    assert benchmark(engine.get_many, KEYS[500:510]) == [BODY] * 10


def test_scan_10(benchmark: BenchmarkFixture, engine: Engine) -> None:
    assert len(benchmark(engine.scan, KEYS[500], END, 10)) == 10


def test_scan_1(benchmark: BenchmarkFixture, engine: Engine) -> None:
    assert len(benchmark(engine.scan, KEYS[500], END, 1)) == 1


def test_write_of_64_puts(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    engine = RocksEngine(tmp_path / "g", EngineShared())
    # A fixed number of rounds stays below one memtable, so that no flush is measured.
    measure(benchmark, lambda: write_rows(engine, KEYS[:64]), rounds=200)
    assert engine.get(KEYS[63]) == BODY
    engine.close()


def test_open_of_8_groups(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    numbers = iter(range(1_000_000))

    def open_8() -> None:
        shared, root = EngineShared(), tmp_path / str(next(numbers))
        for engine in [RocksEngine(root / str(group), shared) for group in range(8)]:
            engine.close()

    measure(benchmark, open_8, rounds=3)


def test_scan_after_the_cursor_costs_the_same_however_much_was_consumed(tmp_path: Path) -> None:
    """A scan that starts behind the consumed part must not walk over its tombstones."""
    engine = RocksEngine(tmp_path / "g", EngineShared())
    write_rows(engine, KEYS)
    fresh_us = best_us(lambda: engine.scan(KEYS[-20], END, 10))
    batch = engine.batch()
    for key in KEYS[:-20]:
        batch.delete(key)
    engine.write(batch)
    consumed_us = best_us(lambda: engine.scan(KEYS[-20], END, 10))
    from_the_start_us = best_us(lambda: engine.scan(KEYS[0], END, 10), rounds=11)
    print(
        f"scan(10): {fresh_us:.1f} us fresh, {consumed_us:.1f} us behind 20,000 consumed messages"
    )
    assert consumed_us < 3 * fresh_us
    assert from_the_start_us > 3 * consumed_us, "the tombstones that the cursor saves us are gone"
    engine.close()


def test_range_drop_costs_less_than_deleting_key_by_key(tmp_path: Path) -> None:
    engine = RocksEngine(tmp_path / "g", EngineShared())

    def drop() -> None:
        batch = engine.batch()
        batch.delete_range(KEYS[0], END)
        engine.write(batch)
        assert engine.scan_keys(KEYS[0], END, 10) == []

    def delete() -> None:
        batch = engine.batch()
        for key in KEYS:
            batch.delete(key)
        engine.write(batch)
        assert engine.scan_keys(KEYS[0], END, 10) == []

    taken: dict[str, list[float]] = {"drop": [], "delete": []}
    for name, empty in 3 * [("drop", drop), ("delete", delete)]:
        write_rows(engine, KEYS)
        taken[name].append(best_us(empty, rounds=1))
    assert min(taken["drop"]) < min(taken["delete"])
    engine.close()
