"""Keys: order, separation of queues, strict decoding, on the twin and on compiled code."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode import native
from fastnode._keys_ref import SHAPES
from tests.unit.conftest import Impl
from tests.unit.native import strategies as own

SEGMENT = native.queue_segment("123456789012", "eu-west-1", "orders")
TIMESTAMP = 2**63 + 12345

TAILS: dict[str, tuple[st.SearchStrategy[tuple[Any, ...]], Callable[..., bytes]]] = {
    "message": (
        st.tuples(own.u64, own.u16),
        lambda keys, prefix, tail: keys.message_key(prefix, *tail),
    ),
    "timer": (
        st.tuples(own.u64, own.u64, own.u16),
        lambda keys, prefix, tail: keys.timer_key(prefix, *tail),
    ),
    "dedup": (
        st.tuples(own.texts, own.texts),
        lambda keys, prefix, tail: keys.dedup_key(prefix, *tail),
    ),
    "group": (
        st.tuples(own.texts, own.u64, own.u16),
        lambda keys, prefix, tail: keys.group_key(prefix, *tail),
    ),
    "id": (st.tuples(own.id16), lambda keys, prefix, tail: keys.id_key(prefix, *tail)),
    "kind": (st.tuples(own.u8), lambda keys, prefix, tail: keys.counter_key(prefix, *tail)),
    "mark": (
        st.one_of(st.just(()), st.tuples(own.u8)),
        lambda keys, prefix, tail: keys.counter_key(prefix, *tail) if tail else prefix,
    ),
}


def build(impl: Impl, parts: native.ParsedKey) -> bytes:
    """The key of these parts, through the function that production code would call."""
    keys = impl.keys
    segment = keys.queue_segment(parts.account, parts.region, parts.name)
    shape = SHAPES[parts.family]
    if shape == "queue":
        key = keys.queue_key(parts.family, segment)
    elif shape == "tombstone":
        key = keys.tombstone_key(segment, parts.generation)
    else:
        prefix = keys.scope_prefix(parts.family, segment, parts.generation, parts.partition)
        key = TAILS[shape][1](keys, prefix, parts.tail)
    assert isinstance(key, bytes)
    return key


@st.composite
def parsed_keys(draw: st.DrawFn, family: bytes | None = None) -> native.ParsedKey:
    family = draw(st.sampled_from(list(SHAPES))) if family is None else family
    shape = SHAPES[family]
    scoped = shape in TAILS
    return native.ParsedKey(
        family,
        *draw(own.queues),
        draw(own.partitions) if scoped else native.UNPARTITIONED,
        None if shape == "queue" else draw(own.u64),
        draw(TAILS[shape][0]) if scoped else (),
    )


@given(parts=parsed_keys())
def test_every_key_parses_back_to_its_parts(impl: Impl, parts: native.ParsedKey) -> None:
    assert impl.keys.parse_key(build(impl, parts)) == parts


@given(parts=parsed_keys())
def test_every_truncated_or_extended_key_is_refused(impl: Impl, parts: native.ParsedKey) -> None:
    key = build(impl, parts)
    # A mark may carry a kind byte, so there one byte less or more can be a key again.
    for wrong in [key[:size] for size in range(len(key))] + [key + b"\x00", key + b"\xff"]:
        if SHAPES[parts.family] == "mark" and abs(len(wrong) - len(key)) == 1:
            continue
        with pytest.raises(ValueError):
            impl.keys.parse_key(wrong)


@pytest.mark.parametrize("shape", TAILS)
@given(data=st.data())
def test_byte_order_within_a_scope_is_the_order_of_the_tails(
    impl: Impl, shape: str, data: st.DataObject
) -> None:
    tails, make = TAILS[shape]
    first, second = data.draw(tails), data.draw(tails)
    by_bytes = make(impl.keys, b"scope", first) < make(impl.keys, b"scope", second)
    assert by_bytes == (first < second)


@given(data=st.data())
def test_byte_order_of_a_family_is_the_order_of_the_parts(impl: Impl, data: st.DataObject) -> None:
    family = data.draw(st.sampled_from(list(SHAPES)))
    first, second = data.draw(parsed_keys(family)), data.draw(parsed_keys(family))
    if data.draw(st.booleans()):
        second = first._replace(generation=second.generation, tail=second.tail)

    def rank(parts: native.ParsedKey) -> tuple[Any, ...]:
        # Accounts are digits, which sort before the "p|" of partitioned keys.
        scope = (parts.partition != native.UNPARTITIONED, *parts[1:5])
        return (*scope, parts.generation or 0, parts.tail)

    by_bytes = build(impl, first) < build(impl, second)
    assert by_bytes == (rank(first) < rank(second))


@given(own.queues, own.queues, own.u64, own.u64, own.partitions, own.partitions)
def test_no_scope_begins_with_another(
    impl: Impl,
    one: tuple[str, str, str],
    two: tuple[str, str, str],
    generation: int,
    other_generation: int,
    partition: int,
    other_partition: int,
) -> None:
    keys = impl.keys
    scopes = {(one, generation, partition), (two, other_generation, other_partition)}
    prefixes = [
        keys.scope_prefix(native.FAMILY_DATA, keys.queue_segment(*queue), number, place)
        for queue, number, place in scopes
    ]
    if len(prefixes) == 2:
        assert not prefixes[0].startswith(prefixes[1])
        assert not prefixes[1].startswith(prefixes[0])


@given(own.queues, own.queues)
def test_no_queue_segment_begins_with_another(
    impl: Impl, one: tuple[str, str, str], two: tuple[str, str, str]
) -> None:
    first, second = impl.keys.queue_segment(*one), impl.keys.queue_segment(*two)
    assert first.startswith(second) == (one == two)


def test_families_cannot_be_confused() -> None:
    names = {value for name, value in vars(native).items() if name.startswith("FAMILY_")}
    assert not any(one.startswith(two) for one in names for two in names if one != two)
    # Keys of that one are built elsewhere, and never parsed.
    assert names == {*SHAPES, native.FAMILY_READY}


@given(own.queues)
def test_segment_splits_back_and_refuses_every_other_length(
    impl: Impl, queue: tuple[str, str, str]
) -> None:
    segment = impl.keys.queue_segment(*queue)
    assert impl.keys.split_queue_segment(segment) == queue
    for wrong in [segment[:size] for size in range(len(segment))] + [segment + b"\x00"]:
        with pytest.raises(ValueError):
            impl.keys.split_queue_segment(wrong)


@pytest.mark.parametrize(
    "raw", [b"\x00\x02", b"\x00\x00\x01", b"\xff\x00\x01", b"\xc0\x80\x00\x01"]
)
def test_text_with_a_foreign_escape_or_broken_utf8_is_refused(impl: Impl, raw: bytes) -> None:
    with pytest.raises(ValueError):
        impl.keys.split_queue_segment(b"123456789012" + raw + b"a\x00\x01")


@pytest.mark.parametrize(
    "account",
    [
        "",
        "12345678901",
        "1234567890123",
        "12345678901a",
        "1234567890\uff11\uff12",
        "12345678901\ud800",
    ],
)
def test_account_that_is_not_twelve_ascii_digits_is_refused(impl: Impl, account: str) -> None:
    with pytest.raises(ValueError):
        impl.keys.queue_segment(account, "eu-west-1", "orders")


def test_layouts_are_the_documented_bytes(impl: Impl) -> None:
    keys = impl.keys
    assert keys.text("a\x00b") == b"a\x00\xffb\x00\x01"
    assert SEGMENT == b"123456789012eu-west-1\x00\x01orders\x00\x01"
    plain = keys.scope_prefix(native.FAMILY_DATA, SEGMENT, 7)
    assert plain == b"!sqs|msg|data|" + SEGMENT + bytes(7) + b"\x07"
    parted = keys.scope_prefix(native.FAMILY_TIMER, SEGMENT, 7, 3)
    assert parted == b"!sqs|msg|vis|p|" + SEGMENT + b"\x00\x00\x00\x03" + bytes(7) + b"\x07"
    assert (
        keys.message_key(b"@", TIMESTAMP, 258) == b"@" + TIMESTAMP.to_bytes(8, "big") + b"\x01\x02"
    )
    assert keys.timer_key(b"@", 1, 2, 3) == b"@" + bytes(7) + b"\x01" + bytes(7) + b"\x02\x00\x03"
    assert keys.counter_key(b"@", 9) == b"@\x09"


@given(st.binary(max_size=8), own.u64, own.u64, own.u16)
def test_tails_split_back_behind_their_prefix(
    impl: Impl, prefix: bytes, at: int, commit_ts: int, entry: int
) -> None:
    keys = impl.keys
    message = keys.message_key(prefix, commit_ts, entry)
    timer = keys.timer_key(prefix, at, commit_ts, entry)
    assert keys.split_message_key(len(prefix), message) == (commit_ts, entry)
    assert keys.split_timer_key(len(prefix), timer) == (at, commit_ts, entry)
    for wrong in (-1, len(prefix) + 1, len(message) + 1, len(timer) + 1, 2**62):
        with pytest.raises(ValueError):
            keys.split_message_key(wrong, message)
        with pytest.raises(ValueError):
            keys.split_timer_key(wrong, timer)


@given(st.binary(min_size=1, max_size=6), st.binary(max_size=4), st.binary(max_size=8))
def test_prefix_end_is_above_the_prefix_and_below_everything_else(
    impl: Impl, prefix: bytes, tail: bytes, other: bytes
) -> None:
    if not prefix.strip(b"\xff"):
        with pytest.raises(ValueError):
            impl.keys.prefix_end(prefix)
        return
    end = impl.keys.prefix_end(prefix)
    assert prefix + tail < end
    assert (prefix <= other < end) == other.startswith(prefix)


def test_prefix_without_an_upper_bound_is_refused(impl: Impl) -> None:
    for prefix in (b"", b"\xff", b"\xff\xff\xff"):
        with pytest.raises(ValueError):
            impl.keys.prefix_end(prefix)
    assert impl.keys.prefix_end(b"a\xff\xff") == b"b"


@given(
    st.one_of(
        st.binary(max_size=60), st.builds(bytes.__add__, st.sampled_from(list(SHAPES)), st.binary())
    )
)
def test_parsing_random_bytes_refuses_or_returns_what_encodes_to_them(
    impl: Impl, key: bytes
) -> None:
    try:
        parts = impl.keys.parse_key(key)
    except ValueError:
        return
    assert build(impl, parts) == key


def test_numbers_that_do_not_fit_are_refused(impl: Impl) -> None:
    keys = impl.keys
    for wrong in (-1, 2**64):
        with pytest.raises(OverflowError):
            keys.message_key(b"", wrong, 0)
        with pytest.raises(OverflowError):
            keys.scope_prefix(b"", b"", wrong)
    for wrong in (-2, 2**32):
        with pytest.raises(OverflowError):
            keys.scope_prefix(b"", b"", 1, wrong)
    with pytest.raises(OverflowError):
        keys.message_key(b"", 1, 2**16)
    with pytest.raises(OverflowError):
        keys.counter_key(b"", 256)
    with pytest.raises(ValueError):
        keys.id_key(b"", bytes(15))


def test_waiting_order_is_commit_order_then_entry_order(impl: Impl) -> None:
    positions = [(ts, entry) for ts in (0, 1, 255, 256, 2**32, 2**64 - 1) for entry in (0, 1, 256)]
    keys = [impl.keys.message_key(b"q", *position) for position in positions]
    assert all(one < two for one, two in pairwise(keys))
