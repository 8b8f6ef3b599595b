"""What a FIFO queue remembers: compiled as in the twins, and within bounds."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode import _fifo_ref, native
from fastnode.native import Head
from tests.unit.queue.test_fifo_ready import row_of

COMPILED = pytest.mark.skipif(not native.COMPILED, reason="pure mode has nothing to compare")
HANDED: list[Any] = [_fifo_ref.Handed, *([native.Handed] if native.COMPILED else [])]
FRESH: list[Any] = [_fifo_ref.Fresh, *([native.Fresh] if native.COMPILED else [])]

SECRET = b"s" * 16
RECEIPTS = SECRET, native.UNPARTITIONED, 1
PREFIXES = b"state", b"group", b"head"
FEW = st.integers(0, 5)
GROUPS = st.sampled_from("ab")


def position_of(number: int) -> int:
    return 1_000 + number << 16 | number % 16


def handle(number: int, nonce: int, generation: int = 1) -> bytes:
    position = position_of(number)
    message_id = native.message_id(position >> 16, position & 15, bytes(16))
    text = native.encode_receipt(SECRET, generation, message_id, nonce, native.UNPARTITIONED)
    return text.encode()


def hidden(handed: Any, handles: list[bytes], until: dict[int, int], held: Any = ()) -> Any:
    scheduled = {position_of(number): at for number, at in until.items()}
    latched = set(native.state_keys(PREFIXES[0], [position_of(number) for number in held]))
    return handed.hidden(RECEIPTS, handles, scheduled, 10, PREFIXES, latched)


# --- messages that were handed out ---------------------------------------------------------------


def given_out(implementation: Any, count_max: int = 100) -> Any:
    """Two messages of one group and one of another, received at 7."""
    handed = implementation(count_max)
    handed.add([position_of(number) for number in (1, 2, 3)], ["a", "b", "a"], 7)
    return handed


@pytest.mark.parametrize("implementation", HANDED)
def test_what_handles_name_is_told_with_what_removes_it(implementation: Any) -> None:
    handles = [handle(3, 7), handle(2, 7), handle(1, 7), handle(2, 7)]
    found = hidden(given_out(implementation), handles, {1: 11, 2: 12, 3: 13})
    times, keys, heads, writes = found
    assert list(times.items()) == [(position_of(number), 10 + number) for number in (3, 2, 1)]
    assert keys == tuple(native.state_keys(b"state", times))
    assert heads == {group: b"head" + native.text(group) for group in "ab"}
    rows = [
        native.group_key(b"group", group, at >> 16, at & 0xFFFF)
        for group, at in zip("aba", times, strict=True)
    ]
    assert writes == [
        *((native.FRESH_DELETE, row, b"") for row in rows),
        *((native.TOUCH, b"head" + native.text(group), b"") for group in "ab"),
    ]


@pytest.mark.parametrize("implementation", HANDED)
def test_one_handle_that_is_not_good_spoils_all(implementation: Any) -> None:
    handed, until = given_out(implementation), {1: 11, 2: 11, 3: 11}
    good = handle(1, 7)
    assert hidden(handed, [good], until) is not None
    assert hidden(handed, [good, handle(2, 8)], until) is None, "received again since"
    assert hidden(handed, [good, handle(4, 7)], until | {4: 11}) is None, "never received"
    assert hidden(handed, [good, handle(2, 7, generation=2)], until) is None
    assert hidden(handed, [good, b"x"], until) is None
    assert hidden(handed, [good, handle(2, 7)], {1: 11, 2: 10}) is None, "visible again"
    assert hidden(handed, [good, handle(2, 7)], {1: 11}) is None
    assert hidden(handed, [good, handle(2, 7)], until, held=[2]) is None
    handed.forget([position_of(2), position_of(5)])
    assert hidden(handed, [handle(2, 7)], until) is None
    assert hidden(handed, [good], until) is not None


@pytest.mark.parametrize("implementation", HANDED)
def test_what_was_handed_out_is_remembered_within_a_bound(implementation: Any) -> None:
    handed = given_out(implementation, count_max=3)
    handed.add([position_of(4)], ["c"], 8)
    until = {1: 11, 4: 11}
    assert hidden(handed, [handle(1, 7)], until) is None
    assert hidden(handed, [handle(4, 8)], until) is not None


HANDED_STEPS = st.one_of(
    st.tuples(st.just("add"), st.lists(st.tuples(FEW, GROUPS), max_size=4), FEW),
    st.tuples(st.just("forget"), st.lists(FEW, max_size=2)),
)


@COMPILED
@given(
    st.lists(HANDED_STEPS, max_size=8),
    st.lists(st.tuples(FEW, FEW), max_size=3),
    st.dictionaries(FEW, st.integers(8, 20)),
    st.sets(FEW, max_size=1),
)
def test_compiled_and_plain_hand_out_the_same(
    steps: list[tuple[Any, ...]],
    named: list[tuple[int, int]],
    until: dict[int, int],
    held: set[int],
) -> None:
    both = [implementation(6) for implementation in HANDED]
    for kind, what, *nonce in steps:
        for handed in both:
            if kind == "add":
                positions = tuple(position_of(number) for number, _ in what)
                handed.add(positions, [group for _, group in what], *nonce)
            else:
                handed.forget([position_of(number) for number in what])
        plain, compiled = (
            hidden(handed, [handle(*one) for one in named], until, held) for handed in both
        )
        assert plain == compiled


# --- records that were sent lately ---------------------------------------------------------------


def read(keys: list[bytes]) -> list[bytes | None]:
    """Every message is stored."""
    return [b"read " + key for key in keys]


def taken(fresh: Any, *positions: int) -> list[bytes]:
    items = fresh.take(positions, b"data", read)
    assert [position for position, _ in items] == list(positions)
    return [b"read" if record.startswith(b"read data") else record for _, record in items]


def page(first: int, count: int) -> list[tuple[bytes, bytes]]:
    """Rows of messages of four bytes."""
    positions = range(first, first + count)
    return [(key, b"four") for key in native.state_keys(b"data", positions)]


@pytest.mark.parametrize("implementation", FRESH)
def test_a_record_is_there_once(implementation: Any) -> None:
    fresh = implementation(100, 100, 9, is_empty=True)
    fresh.add(1, b"one")
    fresh.add(3, b"three")
    assert taken(fresh, 1, 2, 3) == [b"one", b"read", b"three"]
    assert taken(fresh, 3) == [b"read"]
    assert fresh.take([5], b"data", read) == [(5, b"read " + native.state_keys(b"data", [5])[0])]


@pytest.mark.parametrize("implementation", FRESH)
def test_what_finds_no_room_is_read_in_a_page_when_there_is_some(implementation: Any) -> None:
    fresh = implementation(10, 100, 9, is_empty=True)
    for position in range(4):
        fresh.add(position, b"four")
    assert fresh.page_begin([0, 1]) is None, "all of them are here"
    assert fresh.page_begin([0, 3]) is None, "there is no room"
    assert taken(fresh, 0, 1) == [b"four", b"four"]
    fresh.add(4, b"four")
    assert fresh.page_begin([1, 3]) == 2
    fresh.load(page(2, 3), {3}, b"state", set(native.state_keys(b"state", [4])))
    fresh.add(4, b"four")
    fresh.add(5, b"four")
    assert taken(fresh, *range(2, 6)) == [b"four", b"read", b"read", b"four"]


@pytest.mark.parametrize("implementation", FRESH)
def test_messages_from_before_are_read_from_the_first_that_is_wanted(implementation: Any) -> None:
    fresh = implementation(1_000, 100, 9, is_empty=False)
    fresh.add(9, b"four")
    assert fresh.page_begin([]) is None
    assert fresh.page_begin([7, 9]) == 7 and fresh.page_rows == 16
    fresh.load(page(7, 16), (), b"state", set())
    assert fresh.page_rows == 64, "pages grow"
    assert fresh.page_begin([7, 9]) is None
    assert fresh.page_begin([23, 8]) == 23 and fresh.page_begin([40, 30]) == 30
    assert taken(fresh, 7, 22, 23) == [b"four", b"four", b"read"]


@pytest.mark.parametrize("implementation", FRESH)
def test_a_page_that_does_not_fit_goes_on_later(implementation: Any) -> None:
    fresh = implementation(10, 100, 9, is_empty=False)
    fresh.load(page(0, 5), (), b"state", set())
    assert fresh.page_rows == 1
    assert taken(fresh, 0, 1, 2) == [b"four", b"four", b"read"]
    assert fresh.page_begin([4]) == 4 and fresh.page_begin([1, 2]) == 2


@pytest.mark.parametrize("implementation", FRESH)
def test_those_that_nobody_asks_for_make_room_at_last(implementation: Any) -> None:
    fresh = implementation(10, 3, 9, is_empty=True)
    for position in range(6):
        fresh.add(position, b"four")
    assert taken(fresh, 3, 4) == [b"read", b"read"] and fresh.page_begin([5]) is None
    assert taken(fresh, 5) == [b"read"]
    assert fresh.page_begin([6]) == 6
    assert taken(fresh, 0, 1) == [b"read", b"read"]


@pytest.mark.parametrize("implementation", FRESH)
def test_all_is_let_go_and_read_again(implementation: Any) -> None:
    fresh = implementation(100, 3, 9, is_empty=True)
    assert fresh.add(1, b"one") and fresh.add(2, b"two")
    assert fresh.kept_bytes == 2 * (3 + 9)
    fresh.let_go()
    assert fresh.kept_bytes == 0 and not fresh.add(3, b"three")
    assert fresh.page_begin([1, 3]) == 1
    fresh.load(page(1, 3), (), b"state", set())
    assert fresh.add(4, b"new")
    assert taken(fresh, 1, 2, 3, 4) == [b"four", b"four", b"four", b"new"]


@pytest.mark.parametrize("implementation", FRESH)
def test_a_message_that_is_not_stored_is_no_message(implementation: Any) -> None:
    with pytest.raises(AssertionError, match="without its message"):
        implementation(10, 3, 9, is_empty=True).take([1, 2], b"data", lambda keys: [b"x", None])


FRESH_STEPS = st.one_of(
    *[st.tuples(st.just("add"), FEW, st.binary(max_size=4))] * 2,
    *[st.tuples(st.just("take"), st.lists(st.integers(0, 30), unique=True, max_size=3))] * 2,
    st.tuples(st.just("let_go"), FEW),
    st.tuples(st.just("load"), FEW, st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30))),
)


@COMPILED
@given(st.lists(FRESH_STEPS, max_size=20), st.sampled_from([8, 80]), st.booleans())
def test_compiled_and_plain_keep_the_same_records(
    steps: list[tuple[Any, ...]], bytes_max: int, is_empty: bool
) -> None:
    both = [implementation(bytes_max, 4, 9, is_empty=is_empty) for implementation in FRESH]
    last = 0
    for kind, what, *rest in steps:
        wanted = what if kind == "take" else [last + what]
        begins = [fresh.page_begin(wanted) for fresh in both]
        assert begins[0] == begins[1] and both[0].page_rows == both[1].page_rows
        assert both[0].kept_bytes == both[1].kept_bytes
        if kind == "take":
            assert taken(both[0], *wanted) == taken(both[1], *wanted)
            continue
        rows = page(begins[0] or 0, min(both[0].page_rows, 31))
        for fresh in both:
            if kind == "let_go":
                fresh.let_go()
            elif kind == "add":
                kept = fresh.kept_bytes
                assert fresh.add(last + what, *rest) == (fresh.kept_bytes > kept)
            elif begins[0] is not None:
                fresh.load(rows, rest[0], b"state", set(native.state_keys(b"state", rest[1])))
        last += what


@COMPILED
def test_what_is_no_key_of_a_record_is_refused() -> None:
    fresh = native.Fresh(10, 3, 9, is_empty=False)
    with pytest.raises(ValueError, match="position"):
        fresh.load([(b"short", b"")], (), b"state", set())


# --- groups that can deliver ---------------------------------------------------------------------


def stored(sent: int, until: int | None) -> bytes:
    position = sent << 16
    return position.to_bytes(10, "big") + (sent if until is None else until).to_bytes(8, "big")


MANY = st.sampled_from("abcdefghijkl")
TIMES = st.integers(0, 40)
READY_STEPS = st.one_of(
    *[st.tuples(st.just("renew"), MANY, TIMES, st.none() | TIMES)] * 3,
    st.tuples(st.just("empty"), MANY),
    st.tuples(st.just("sent"), MANY, TIMES),
    *[st.tuples(st.just("take"), TIMES)] * 2,
    st.tuples(st.just("take_many"), TIMES, st.integers(1, 5)),
    st.tuples(st.just("renew_all"), st.lists(MANY, max_size=3)),
    st.tuples(st.just("claim"), MANY),
    st.tuples(st.just("give_back"), st.lists(MANY, max_size=2)),
)


def run(ready: Any, rows: dict[str, bytes], delay: int, kind: str, *what: Any) -> object:
    """`rows` are what the engine has."""
    if kind == "renew" or kind == "empty":
        return ready.renew(what[0], rows.get(what[0]))
    if kind == "renew_all":
        return renew_all(ready, rows, what[0])
    if kind == "take_many":
        return take_many(ready, rows, *what)
    if kind != "take":
        rest = [what[1] << 16] if kind == "sent" else []
        return getattr(ready, kind)(what[0], *rest)
    while ready.needs_page(what[0], delay):
        load_page(ready, rows)
    return ready.take(what[0], delay)


def load_page(ready: Any, rows: dict[str, bytes]) -> None:
    heads = sorted(Head.stored(group, row) for group, row in rows.items())
    page = [head for head in heads if head >= ready.horizon][:2]
    ready.load([row_of(head) for head in page], is_last=len(page) < 2)


def renew_all(ready: Any, rows: dict[str, bytes], groups: list[str]) -> list[str]:
    """Of the first group it is known what is stored; the others are read."""
    known = {group.encode(): rows.get(group) for group in groups[:1]}
    read: list[str] = []

    def get(key: bytes) -> bytes | None:
        read.append(key.decode())
        return rows.get(key.decode())

    ready.renew_all({group: group.encode() for group in groups}, known, get)
    return read


def take_many(ready: Any, rows: dict[str, bytes], now: int, limit: int) -> object:
    """Every group has two messages."""
    positions: list[int] = []
    groups: list[str] = []
    heads: dict[str, bytes] = {}

    def find(_key: bytes, first: int, wanted: int) -> list[int]:
        return [first, first + 1][:wanted]

    while ready.take_many(now, limit, b"head", find, positions, groups, heads):
        load_page(ready, rows)
    assert heads == {group: b"head" + native.text(group) for group in groups}
    return positions, groups


@COMPILED
@given(st.lists(READY_STEPS, max_size=40), st.sampled_from([0, 0, 7]))
def test_compiled_and_plain_take_the_same_groups(steps: list[tuple[Any, ...]], delay: int) -> None:
    plain, compiled = _fifo_ref.Ready(2), native.Ready(2)
    rows: dict[str, bytes] = {}
    for kind, *what in steps:
        if kind == "renew":
            rows[what[0]] = stored(*what[1:])
        elif kind == "empty":
            rows.pop(what[0], None)
        seen = [
            (
                run(ready, rows, delay, kind, *what),
                *(ready.horizon, ready.has_taken, ready.next_at(delay), ready.has_due(20, delay)),
            )
            for ready in (plain, compiled)
        ]
        assert seen[0] == seen[1]


@COMPILED
def test_what_is_no_head_is_refused() -> None:
    with pytest.raises(ValueError, match="position and a time"):
        native.Ready(2).renew("g", b"short")
    with pytest.raises(ValueError, match="time and a position"):
        native.Ready(2).load([(b"short", b"g")], is_last=True)
    with pytest.raises(IndexError, match="last page"):
        native.Ready(2).load([], is_last=False)
