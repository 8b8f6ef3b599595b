"""The apply rules against their twin: how many times faster, and microseconds per transaction.

A resolver changes with every entry, so a slice is a whole history, judged by a fresh resolver that
is made outside of the measured time. Its bounds are small enough that most of the history runs with
full tables, where every transaction that lands pushes another one out. The slices of both sides
alternate, and the ratio of the best ones is held above a floor. With timing off each case runs
once, to see that it still works.
"""

from collections.abc import Callable
from time import thread_time
from typing import Any, NamedTuple

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fastnode import _entry_ref, _occ_ref, native
from fastnode.native import Resolved, Transaction

if not native.COMPILED:
    pytest.skip("pure mode has nothing to compare", allow_module_level=True)

SLICES = 9
BATCH = 64
START = 1_790_000_000_000 << 16
SEGMENT = native.queue_segment("123456789012", "eu-west-1", "orders")
GENERATION = native.queue_key(native.FAMILY_GENERATION, SEGMENT)
STATES = native.scope_prefix(native.FAMILY_STATE, SEGMENT, 3)
MESSAGES = native.scope_prefix(native.FAMILY_DATA, SEGMENT, 3)
TOTAL = native.counter_key(native.scope_prefix(native.FAMILY_COUNTER, SEGMENT, 3), 1)


class Case(NamedTuple):
    """Transactions per entry, of which kind, and the least that compiled code must be faster."""

    floor: float
    batch: int
    entries: int
    plain: bool


CASES = {
    "ten keys, one transaction": Case(8.0, 1, 2_000, plain=False),
    "ten keys, 64 transactions": Case(12.0, BATCH, 60, plain=False),
    "plain sends, one transaction": Case(8.0, 1, 4_000, plain=True),
    "plain sends, 64 transactions": Case(15.0, BATCH, 120, plain=True),
}


def ten_keys(number: int, start_ts: int, commit_ts: int) -> Transaction:
    """A delete of ten messages, as the table sees it: nine state keys and the generation."""
    states = [native.message_key(STATES, START + 9 * number + at, 0) for at in range(9)]
    writes = [(native.DELETE, key, b"") for key in states]
    return made(number, start_ts, commit_ts, writes)


def plain_send(number: int, start_ts: int, commit_ts: int) -> Transaction:
    message = native.message_key(MESSAGES, commit_ts, 0)
    writes = [(native.FRESH_PUT, message, b"x" * 200), (native.ADD, TOTAL, b"\x00" * 7 + b"\x01")]
    return made(number, start_ts, commit_ts, writes)


def made(
    number: int, start_ts: int, commit_ts: int, writes: list[tuple[int, bytes, bytes]]
) -> Transaction:
    # Requests are random or hashes; an odd factor spreads the numbers over all bits.
    request = (number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128).to_bytes(16, "big")
    return Transaction(request, start_ts, commit_ts, 0, 1, [GENERATION], writes)


def history(case: Case) -> list[bytes]:
    kind = plain_send if case.plain else ten_keys
    entries = []
    for entry in range(case.entries):
        before = START + entry * case.batch
        numbers = range(entry * case.batch, (entry + 1) * case.batch)
        rows = [kind(number, before, START + number + 1) for number in numbers]
        encoded = [native.encode_transaction(*row) for row in rows]
        entries.append(native.encode_entry(encoded))
    return entries


class Side(NamedTuple):
    """One implementation: how it reads entries, and a resolver."""

    read: Callable[[bytes], Any]
    resolver: Any


def resolve_all(side: Side, entries: list[bytes]) -> list[Resolved]:
    return [side.resolver.resolve(side.read(entry)) for entry in entries]


def slice_seconds(side: Side, entries: list[bytes]) -> float:
    """From the entry's bytes on."""
    start = thread_time()
    resolve_all(side, entries)
    return thread_time() - start


def compiled() -> Side:
    return Side(native.Entry, native.Resolver(keys_max=4_096, classes=((60_000, 1_024),) * 4))


def twin() -> Side:
    resolver = _occ_ref.Resolver(keys_max=4_096, classes=((60_000, 1_024),) * 4)
    return Side(_entry_ref.Entry, resolver)


@pytest.mark.parametrize("name", CASES)
def test_compiled_rules_beat_their_twin(
    name: str, benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASES[name]
    entries = history(case)
    results = benchmark(lambda: resolve_all(compiled(), entries))
    assert results == resolve_all(twin(), entries)
    assert {status for row in results for status, _, _ in row.outcomes} == {native.APPLIED}
    if benchmark.disabled:
        return
    slices = [
        (slice_seconds(compiled(), entries), slice_seconds(twin(), entries)) for _ in range(SLICES)
    ]
    ours, theirs = (min(column) for column in zip(*slices, strict=True))
    ratio = theirs / ours
    count = case.batch * case.entries / 1e6
    benchmark.extra_info["times_faster_than_twin"] = round(ratio, 2)
    benchmark.extra_info["microseconds_per_transaction"] = round(ours / count, 3)
    with capsys.disabled():
        print(f"\n{name:30}{ours / count:8.3f} µs{theirs / count:9.3f} µs {ratio:6.1f}x", end="")
    assert ratio >= case.floor, f"{name}: {ratio:.1f} times faster, {case.floor} wanted"
