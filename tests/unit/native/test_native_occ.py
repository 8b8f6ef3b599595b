"""The apply rules: who lands, who conflicts, what is remembered and for how long."""

import pytest

from fastnode import _occ_ref, native
from fastnode._occ_ref import FORGOTTEN_MAX
from fastnode.native import APPLIED, CONFLICT, DUPLICATE, STALE, TOO_OLD
from tests.unit.conftest import SUFFIXES
from tests.unit.native.occ_transactions import (
    MS,
    START,
    TIGHT,
    Make,
    implementation,
    key,
    request,
    resolve,
    statuses,
    transaction,
    view,
)
from tests.unit.native.strategies import fitting


@pytest.fixture(scope="session", params=list(SUFFIXES))
def make(request: pytest.FixtureRequest) -> Make:
    return implementation(SUFFIXES[request.param])


def test_a_landed_transaction_reports_its_own_timestamp_and_mask(make: Make) -> None:
    resolved = resolve(make(), [transaction(7, START, puts=(key(1),))])
    assert resolved.outcomes == [(APPLIED, START, 7)]
    assert resolved.row_id == START
    assert resolved.expired == []


def test_a_repeated_request_gives_back_the_first_outcome(make: Make) -> None:
    resolver = make()
    resolve(resolver, [transaction(7, START)])
    again = transaction(7, START + 5)._replace(mask=99)
    assert resolve(resolver, [again]) == ([(DUPLICATE, START, 7)], 0, b"", [])
    assert resolver.find(request(7)) == (START, 7)
    assert resolver.find(request(8)) is None
    assert resolver.last_commit_ts == START


def test_a_repeated_request_is_found_before_its_timestamp_is_judged(make: Make) -> None:
    resolver = make()
    resolve(resolver, [transaction(1, START), transaction(2, START + 1)])
    assert statuses(resolve(resolver, [transaction(1, START - 1)])) == [DUPLICATE]


def test_a_request_repeated_within_one_entry_lands_once(make: Make) -> None:
    resolved = resolve(make(), [transaction(1, START), transaction(1, START + 1)])
    assert resolved.outcomes == [(APPLIED, START, 1), (DUPLICATE, START, 1)]


def test_a_timestamp_not_above_the_last_one_is_stale(make: Make) -> None:
    resolver = make()
    resolved = resolve(resolver, [transaction(1, START), transaction(2, START)])
    assert resolved.outcomes == [(APPLIED, START, 1), (STALE, START, 0)]
    assert resolver.find(request(2)) is None


@pytest.mark.parametrize("kind", [native.PUT, native.DELETE])
def test_a_checked_write_conflicts_with_later_readers_and_writers(make: Make, kind: int) -> None:
    resolver = make()
    first = transaction(1, START)._replace(writes=[(kind, key(1), b"")])
    reader = transaction(2, START + 1, start_ts=START - 1, reads=(key(1),))
    writer = transaction(3, START + 2, start_ts=START - 1, puts=(key(2), key(1)))
    resolved = resolve(resolver, [first, reader, writer])
    assert statuses(resolved) == [APPLIED, CONFLICT, CONFLICT]
    # A conflict leaves nothing behind: neither a request nor a key nor a timestamp.
    assert view(resolver) == (0, START, 1, 1)


def test_who_has_seen_the_last_commit_does_not_conflict(make: Make) -> None:
    resolver = make()
    resolve(resolver, [transaction(1, START, puts=(key(1),))])
    seen = transaction(2, START + 9, start_ts=START, reads=(key(1),), puts=(key(1),))
    assert statuses(resolve(resolver, [seen])) == [APPLIED]


@pytest.mark.parametrize(
    "kind",
    [native.DROP, native.ADD, native.MAX, native.FRESH_PUT, native.FRESH_DELETE, native.TOUCH],
)
def test_other_writes_are_neither_checked_nor_remembered(make: Make, kind: int) -> None:
    resolver = make()
    resolve(resolver, [transaction(1, START, puts=(key(1),))])
    unchecked = transaction(2, START + 1, start_ts=0)._replace(
        writes=[fitting(kind, key(1), b""), fitting(kind, key(2), b"")]
    )
    assert statuses(resolve(resolver, [unchecked])) == [APPLIED]
    assert resolver.key_count == 1


def test_who_started_below_the_floor_is_too_old_even_without_keys(make: Make) -> None:
    resolver = make(window_ms=10)
    resolve(resolver, [transaction(1, START, puts=(key(1),))])
    resolve(resolver, [transaction(2, START + 11 * MS)])
    assert view(resolver) == (START, START + 11 * MS, 0, 2)
    late = transaction(3, START + 12 * MS, start_ts=START - 1)
    on_time = transaction(4, START + 12 * MS, start_ts=START)
    assert statuses(resolve(resolver, [late, on_time])) == [TOO_OLD, APPLIED]


def test_a_key_is_remembered_for_exactly_the_window(make: Make) -> None:
    resolver = make(window_ms=10)
    resolve(resolver, [transaction(1, START, puts=(key(1),))])
    resolve(resolver, [transaction(2, START + 10 * MS)])
    assert resolver.key_count == 1
    resolve(resolver, [transaction(3, START + 11 * MS)])
    assert resolver.key_count == 0


def test_the_oldest_keys_leave_first_and_raise_the_floor(make: Make) -> None:
    resolver = make(keys_max=3)
    resolve(resolver, [transaction(1, START, puts=(key(1), key(2)))])
    resolve(resolver, [transaction(2, START + 1, puts=(key(3),))])
    resolve(resolver, [transaction(3, START + 2, puts=(key(1),))])
    resolve(resolver, [transaction(4, START + 3, puts=(key(4),))])
    # Written again, key 1 is young; key 2 is the one that went.
    assert view(resolver)[:3] == (START, START + 3, 3)
    resolve(resolver, [transaction(5, START + 4, puts=(key(5),))])
    assert resolver.floor == START + 1


def test_more_keys_than_the_table_holds_raise_the_floor_to_their_own_commit(make: Make) -> None:
    resolver = make(keys_max=3)
    resolve(resolver, [transaction(1, START, puts=tuple(map(key, range(9))))])
    assert view(resolver) == (START, START, 0, 1)
    resolve(resolver, [transaction(2, START + 1, start_ts=START, puts=(key(1),))])
    assert resolver.key_count == 1


@pytest.mark.parametrize("retention", range(4))
def test_a_request_is_remembered_as_long_as_its_class_says(make: Make, retention: int) -> None:
    resolver = make()
    retention_ms, _ = _occ_ref.CLASSES[retention]
    resolve(resolver, [transaction(1, START, retention=retention)])
    resolve(resolver, [transaction(2, START + retention_ms * MS)])
    assert resolver.find(request(1)) == (START, 1)
    resolve(resolver, [transaction(3, START + (retention_ms + 1) * MS)])
    assert resolver.find(request(1)) is None


def test_the_oldest_request_of_a_full_class_leaves_first(make: Make) -> None:
    resolver = make(**TIGHT)
    resolve(resolver, [transaction(9, START, retention=1)])
    resolve(resolver, [transaction(number, START + number) for number in range(1, 5)])
    assert [resolver.find(request(number)) is None for number in (1, 2, 3, 4, 9)] == [
        *(True, False, False, False, False)
    ]


def test_each_class_knows_the_last_commit_that_it_forgot(make: Make) -> None:
    resolver = make(**TIGHT)
    assert resolver.class_floors == [0, 0, 0, 0]
    resolve(resolver, [transaction(number, START + number, retention=1) for number in range(1, 5)])
    resolve(resolver, [transaction(5, START + 5 * MS, retention=2)])
    # Two of four had to make room, and the others are as young as their class allows.
    assert resolver.class_floors == [0, START + 2, 0, 0]
    resolve(resolver, [transaction(6, START + 9 * MS, retention=3)])
    assert resolver.class_floors == [0, START + 2, START + 5 * MS, 0]


def test_an_entry_after_a_long_silence_forgets_a_bounded_number(make: Make) -> None:
    resolver = make()
    count = 2 * FORGOTTEN_MAX
    for number in range(count):
        resolve(resolver, [transaction(number, START + number, puts=(key(number),))])
    later = START + 1_000_000 * MS
    first = resolve(resolver, [transaction(count, later)])
    assert resolver.key_count == resolver.request_count - 1 == FORGOTTEN_MAX - 1
    assert first.expired == [START + number for number in range(FORGOTTEN_MAX + 1)]
    resolve(resolver, [transaction(count + 1, later + 1)])
    assert (resolver.key_count, resolver.request_count) == (0, 2)


def test_a_row_expires_when_nothing_of_it_is_remembered(make: Make) -> None:
    resolver = make(**TIGHT)
    resolve(resolver, [transaction(1, START, puts=(key(1),), retention=2)])
    pinned = resolve(resolver, [transaction(2, START + 1, puts=(key(1),), retention=1)])
    replaced = resolve(resolver, [transaction(3, START + 2, retention=2)])
    assert (pinned.expired, replaced.expired) == ([], [START])


def test_an_entry_in_which_nothing_lands_leaves_no_row(make: Make) -> None:
    resolver = make()
    assert resolve(resolver, []) == ([], 0, b"", [])
    resolve(resolver, [transaction(1, START)])
    assert resolve(resolver, [transaction(2, START)])[1:] == (0, b"", [])


def test_a_call_takes_26_bytes_of_its_row_and_a_key_24(make: Make) -> None:
    resolver = make()
    one = resolve(resolver, [transaction(1, START)])
    two = resolve(resolver, [transaction(2, START + 1), transaction(3, START + 2)])
    keyed = resolve(resolver, [transaction(4, START + 3, puts=(key(1),))])
    assert [len(made.row) - len(one.row) for made in (two, keyed)] == [26, 24]


@pytest.mark.parametrize("retention", [4, 255])
def test_a_refused_entry_changes_nothing(make: Make, retention: int) -> None:
    resolver = make()
    wrong = transaction(2, START + 1, retention=retention)
    with pytest.raises(ValueError, match="retention"):
        resolve(resolver, [transaction(1, START, puts=(key(1),)), wrong])
    assert view(resolver) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    "bounds",
    [
        {"keys_max": 0},
        {"keys_max": _occ_ref.TABLE_ROWS_MAX + 1},
        {"window_ms": -1},
        {"window_ms": 2**48},
        {"classes": ((1, 1),) * 3},
        {"classes": ((1, 0),) * 4},
        {"classes": ((1, _occ_ref.TABLE_ROWS_MAX // 2),) * 4},
    ],
    ids=str,
)
def test_impossible_bounds_are_refused(make: Make, bounds: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"classes|time|table"):
        make(**bounds)
