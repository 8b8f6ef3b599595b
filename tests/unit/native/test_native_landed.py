"""What has landed: rows by their kind and in their order, counters, marks, ranges that are dropped.

Each test runs on the twin and on the compiled module.
"""

from typing import Any

import pytest
from hypothesis import given

from fastnode import native
from tests.unit.conftest import Impl
from tests.unit.native.landed_writes import Taker, Write, encoded, histories, outcomes


def written(impl: Impl, lands: list[bool], *transactions: list[Write]) -> tuple[Taker, bool]:
    taker = Taker()
    entry = impl.entry.Entry(encoded(*transactions))
    return taker, impl.landed.write_landed(entry, outcomes(lands), taker, taker)


@given(histories)
def test_writes_that_landed_are_handed_on_by_their_kind(
    impl: Impl, drawn: list[tuple[bool, list[Write]]]
) -> None:
    taker, changes_heads = written(
        impl, [lands for lands, _ in drawn], *(writes for _, writes in drawn)
    )
    landed = [write for lands, writes in drawn if lands for write in writes]
    unguarded = {native.FRESH_PUT: native.PUT, native.FRESH_DELETE: native.DELETE}
    plain = [
        (unguarded.get(kind, kind), key, value)
        for kind, key, value in landed
        if kind not in (native.TOUCH, native.ADD, native.MAX)
    ]
    assert sorted(taker.taken) == sorted(plain)
    # In the log's order: what is dropped, and everything of one key.
    assert _around_barriers(taker.taken) == _around_barriers(plain)
    assert changes_heads is any(kind in (native.TOUCH, native.DROP) for kind, _, _ in landed)
    sums = _summed(landed)
    assert list(taker.added.items()) == list(sums.added.items())
    assert list(taker.raised.items()) == list(sums.raised.items())


def _around_barriers(writes: list[Write]) -> list[Any]:
    """The ranges that are dropped, and for each key what is done to it between them."""
    found: list[Any] = [{}]
    for kind, key, value in writes:
        if kind in (native.PUT, native.DELETE):
            found[-1].setdefault(key, []).append((kind, value))
        else:
            found += [(kind, key, value), {}]
    return found


def _summed(landed: list[Write]) -> Taker:
    """Counters and marks in the order of the first change of each."""
    sums = Taker()
    for kind, key, value in landed:
        if kind == native.ADD:
            sums.added[key] = sums.added.get(key, 0) + int.from_bytes(value, "big", signed=True)
        elif kind == native.MAX:
            sums.raised[key] = max(sums.raised.get(key, b""), value)
        elif kind == native.DROP:
            sums.delete_range(key, value)
            sums.drop(key, value)
    return sums


def handed_on(impl: Impl, *transactions: list[Write]) -> list[bytes]:
    """The keys of what is put, deleted and dropped, in order."""
    taker, _ = written(impl, [True] * len(transactions), *transactions)
    return [key for _, key, _ in taker.taken]


@pytest.mark.parametrize("kind", [native.FRESH_PUT, native.DELETE])
def test_rows_of_one_index_are_handed_on_together(impl: Impl, kind: int) -> None:
    order = (native.FAMILY_DATA, native.FAMILY_STATE, native.FAMILY_TIMER, native.FAMILY_DEDUP)
    one, two = ([(kind, family + name, b"") for family in order] for name in (b"1", b"2"))
    keys = handed_on(impl, [*one, (native.ADD, b"total", bytes(8))], two)
    assert keys == [family + name for family in order for name in (b"1", b"2")]


def test_nothing_passes_a_dropped_range(impl: Impl) -> None:
    rows = [(native.PUT, b"a", b""), (native.PUT, b"b", b""), (native.DELETE, b"a", b"")]
    drop = (native.DROP, b"x", b"y")
    assert handed_on(impl, [*rows, drop, *rows]) == [b"a", b"a", b"b", b"x", b"a", b"a", b"b"]


def test_more_indexes_than_can_be_held_back_are_handed_on_in_turn(impl: Impl) -> None:
    many = [(native.PUT, bytes([name]), b"") for name in range(16)]
    late = [(native.PUT, b"late", b""), (native.DELETE, b"\x00", b"")]
    keys = handed_on(impl, [*many, many[0], *late, late[0]])
    assert keys == [b"\x00", b"\x00", *(key for _, key, _ in many[1:]), b"late", b"late", b"\x00"]


def test_a_key_that_is_cut_short_is_no_other_one_with_zeros(impl: Impl) -> None:
    keys = [b"", b"\x00", b"\x00" * 10, b"\x00" * 11, b"\x00" * 12]
    rows = [(native.PUT, key, b"") for key in keys]
    # The last two begin alike as far as it matters.
    assert handed_on(impl, [*rows, *rows]) == [
        *(key for key in keys[:3] for _ in range(2)),
        *(keys[3:] * 2),
    ]


def test_a_sum_may_leave_64_bits(impl: Impl) -> None:
    most = (2**63 - 1).to_bytes(8, "big")
    taker, _ = written(
        impl, [True, True], [(native.ADD, b"c", most)] * 3, [(native.ADD, b"c", most)]
    )
    assert taker.added == {b"c": 4 * (2**63 - 1)}


def test_more_counters_than_are_summed_up_at_once_keep_their_order(impl: Impl) -> None:
    keys = [b"c%d" % number for number in range(40)]
    writes = [(native.ADD, key, (1).to_bytes(8, "big")) for key in (*keys, *reversed(keys))]
    taker, _ = written(impl, [True], writes)
    assert list(taker.added.items()) == [(key, 2) for key in keys]


def test_a_refused_row_is_told(impl: Impl) -> None:
    class Full(Taker):
        def put(self, key: bytes, value: bytes) -> None:
            raise OSError("full")

    entry = impl.entry.Entry(encoded([(native.PUT, b"a", b"")]))
    taker = Full()
    with pytest.raises(OSError, match="full"):
        impl.landed.write_landed(entry, outcomes([True]), taker, taker)


@pytest.mark.parametrize("count", [0, 2])
def test_each_transaction_has_an_outcome(impl: Impl, count: int) -> None:
    with pytest.raises(ValueError):
        written(impl, [True] * count, [(native.PUT, b"a", b"")])
    entry = impl.entry.Entry(encoded([(native.PUT, b"a", b"")]))
    with pytest.raises(ValueError):
        impl.landed.head_changes([(entry, outcomes([True] * count))], {})
