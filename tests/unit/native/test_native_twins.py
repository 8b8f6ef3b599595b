"""Compiled functions and their twins give equal results, and refuse equally, on random input."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode import _core_ref, _keys_ref, native
from tests.unit.conftest import implementation
from tests.unit.native import handout_arguments, landed_writes
from tests.unit.native import json_bodies as bodies
from tests.unit.native import strategies as own

pytestmark = pytest.mark.skipif(not native.COMPILED, reason="pure mode has nothing to compare")

numbers = st.one_of(own.u8, own.u16, own.u32, own.u64, st.sampled_from([-2, -1, 2**64]))
sixteens = st.one_of(own.id16, st.binary(max_size=17))
texts = bodies.texts
segments = own.queues.map(lambda queue: native.queue_segment(*queue))
keys = st.builds(
    lambda prefix, tail: prefix + tail,
    st.sampled_from([b"", *_keys_ref.SHAPES]),
    st.one_of(st.binary(max_size=40), st.tuples(segments, st.binary(max_size=30)).map(b"".join)),
)
tokens = st.one_of(
    texts, st.text("!a~ \x7f\x00é", max_size=4), st.text("!~", min_size=1, max_size=130)
)
# Around the size from which on another implementation makes the digest.
long_bodies = st.integers(1000, 1100).map(lambda size: b"x" * size)
handles = st.one_of(
    texts,
    own.receipts.map(lambda made: native.encode_receipt(*made)),
    st.text(_core_ref.BASE64_DIGITS, min_size=55, max_size=60),
)
# As JSON has them.
strings = st.one_of(st.sampled_from(['"x"', '"http://localhost/q"']), bodies.ODD_STRINGS)
rows = st.tuples(st.integers(0, 9), own.blobs, own.blobs)
positions = st.one_of(st.integers(0, 2**80 - 1), st.sampled_from([-1, 2**80]))
place_keys = st.builds(native.PlaceKeys, own.blobs, own.blobs, own.blobs)
handout_keys = st.builds(native.HandoutKeys, own.blobs, place_keys, own.blobs, own.blobs, own.blobs)
stored_texts = st.one_of(
    own.printables, st.text(st.sampled_from('a"\\/\x00\x08\n\x0b\x1f\x7fé😀\xa0'))
)
stored_messages = st.builds(
    lambda record, flags, body: native.encode_message(
        *record._replace(flags=flags, body=body.encode())
    ),
    own.messages,
    st.sampled_from([0, 0, 0, 1]),
    stored_texts,
)
items = st.tuples(positions, stored_messages)
# Ids of version 7, and receipts that often share secret, generation and partition.
own_ids = st.builds(native.message_id, own.u64, st.integers(0, 15), own.id16)
few_receipts = st.builds(
    native.encode_receipt,
    st.just(b"s" * 16),
    st.sampled_from([1, 1, 1, 2]),
    own_ids | own.id16,
    own.u64,
    st.sampled_from([native.UNPARTITIONED] * 3 + [0]),
)
shown = st.lists(
    st.tuples(
        st.builds(
            lambda record, body: record._replace(body=body.encode()), own.messages, own.texts
        ),
        own.states,
    ),
    min_size=1,
    max_size=4,
)
# Writes that hit the same few groups and states again and again, and ranges around them.
group_keys = st.builds(
    lambda family, group, position: family + group + position,
    st.sampled_from([native.FAMILY_GROUP, native.FAMILY_STATE, b"!sqs|msg|head|", b""]),
    st.sampled_from([b"", b"a", b"b"]),
    st.sampled_from([b"", b"0123456789", b"0123456788"]),
)
head_keys = st.sampled_from([b"!sqs|msg|head|" + group for group in (b"", b"a", b"b")])
filed_keys = st.builds(
    lambda group, last: native.FAMILY_GROUP + group + b"012345678" + last,
    st.sampled_from([b"", b"a", b"b"]),
    st.sampled_from([b"7", b"8", b"9"]),
)
group_rows = st.one_of(
    st.tuples(st.just(native.TOUCH), head_keys, st.just(b"")),
    st.tuples(st.just(native.FRESH_PUT), filed_keys, st.just(b"")),
    st.builds(own.fitting, st.integers(native.PUT, native.TOUCH), group_keys, own.blobs),
    st.builds(
        own.fitting, st.just(native.DROP), group_keys, group_keys.map(lambda key: key + b"\xff")
    ),
)

ARGUMENTS: dict[str, st.SearchStrategy[tuple[Any, ...]]] = {
    "text": st.tuples(texts),
    "queue_segment": st.one_of(own.queues, st.tuples(texts, texts, texts)),
    "split_queue_segment": st.tuples(st.one_of(segments, st.binary())),
    "queue_key": st.tuples(own.blobs, own.blobs),
    "tombstone_key": st.tuples(own.blobs, numbers),
    "scope_prefix": st.tuples(own.blobs, own.blobs, numbers, numbers),
    "message_key": st.tuples(own.blobs, numbers, numbers),
    "split_message_key": st.tuples(st.integers(-1, 20), own.blobs),
    "timer_key": st.tuples(own.blobs, numbers, numbers, numbers),
    "split_timer_key": st.tuples(st.integers(-1, 20), own.blobs),
    "dedup_key": st.tuples(own.blobs, texts, texts),
    "group_key": st.tuples(own.blobs, texts, numbers, numbers),
    "id_key": st.tuples(own.blobs, sixteens),
    "counter_key": st.tuples(own.blobs, numbers),
    "prefix_end": st.tuples(st.one_of(own.blobs, st.sampled_from([b"\xff", b"a\xff", b"a"]))),
    "parse_key": st.tuples(keys),
    "home_group": st.tuples(st.binary(max_size=300), st.integers(-1, 300)),
    "partition_for": st.tuples(texts, own.u64, st.integers(-1, 70), st.booleans()),
    "siphash24": st.tuples(sixteens, st.binary(max_size=80)),
    "message_id": st.tuples(numbers, st.integers(-1, 17), sixteens),
    "message_id_text": st.tuples(sixteens),
    "message_id_position": st.tuples(sixteens),
    "sequence_number": st.tuples(
        st.tuples(own.u64, own.u16).map(lambda parts: parts[0] << 16 | parts[1]), own.partitions
    ),
    "receipt_tag": st.tuples(sixteens, numbers, sixteens, numbers),
    "encode_receipt": st.tuples(sixteens, numbers, sixteens, numbers, numbers),
    "decode_receipt": st.tuples(handles),
    "receipt_is_genuine": st.tuples(
        sixteens, st.builds(native.Receipt, own.u32, numbers, sixteens, numbers, numbers)
    ),
    "encode_message": st.tuples(numbers, sixteens, numbers, sixteens, texts, own.blobs, own.blobs),
    "decode_message": st.tuples(
        st.one_of(own.blobs, own.messages.map(lambda made: native.encode_message(*made)))
    ),
    "encode_state": st.tuples(numbers, numbers, numbers, numbers),
    "decode_state": st.tuples(
        st.one_of(st.binary(max_size=30), own.states.map(lambda made: native.encode_state(*made)))
    ),
    "encode_transaction": st.tuples(
        sixteens, numbers, numbers, numbers, numbers, st.lists(own.blobs), st.lists(rows)
    ),
    "encode_entry": st.tuples(st.lists(own.blobs)),
    "encode_text": st.tuples(
        st.one_of(texts, st.text(st.sampled_from("a\t\x00\x1f é\ufffd\ufffe\uffff\ud800😀")))
    ),
    "write_landed": st.builds(
        lambda history, taker: (
            landed_writes.encoded(*(writes for _, writes in history)),
            landed_writes.outcomes([lands for lands, _ in history]),
            taker,
            taker,
        ),
        landed_writes.histories,
        st.builds(landed_writes.Taker),
    ),
    "write_sums": st.tuples(
        st.dictionaries(own.blobs, own.u64, max_size=3),
        st.dictionaries(own.blobs, own.blobs, max_size=3),
        st.dictionaries(own.blobs, st.none() | st.binary(max_size=9), max_size=3),
        st.sampled_from([{}.get, lambda key: key[:8], lambda key: bytes(8)]),
        st.just(lambda key, value: None),
    ),
    "plan_deliveries": st.tuples(
        place_keys,
        numbers,
        numbers,
        st.lists(st.tuples(positions, st.none() | own.states), min_size=1, max_size=4),
    ),
    "plan_removals": st.tuples(place_keys, st.dictionaries(positions, numbers, max_size=4)),
    "show_deliveries": st.builds(
        lambda secret, generation, partition, pairs: (
            *(secret, generation, partition),
            [record for record, _ in pairs],
            [state for _, state in pairs],
        ),
        sixteens,
        numbers,
        own.partitions,
        shown,
    ),
    "open_receipts": st.one_of(
        st.tuples(own.id16, own.partitions, st.lists(handles, max_size=4)),
        own.receipts.map(lambda made: (made[0], made[4], [native.encode_receipt(*made), "x"])),
    ),
    "state_keys": st.tuples(own.blobs, st.lists(positions, max_size=4)),
    "page_items": st.tuples(
        st.lists(st.tuples(st.binary(min_size=10, max_size=14), own.blobs), max_size=4),
        st.sets(positions, max_size=2),
    ),
    "take_plain": handout_arguments.taking(stored_messages),
    "place_plain": handout_arguments.taking(stored_messages).map(
        lambda made: (list(made[0]), *made[2:])
    ),
    "plan_receive": st.tuples(
        *(sixteens, numbers, numbers, st.integers(-1, 256), handout_keys, numbers, positions),
        st.lists(items, min_size=1, max_size=18),
        st.lists(own.blobs, max_size=3),
    ),
    "plan_delete": st.tuples(
        *(sixteens, numbers, numbers, st.integers(-1, 256), handout_keys),
        st.integers(-1, 2**16),
        st.dictionaries(positions, numbers, max_size=4),
        st.lists(own.writes, max_size=3),
    ),
    "show_messages": st.tuples(
        sixteens, numbers, own.partitions, numbers, st.lists(items, min_size=1, max_size=17)
    ),
    "hidden_messages": handout_arguments.hiding(few_receipts | handles),
    "plan_sends": st.tuples(
        sixteens,
        numbers,
        numbers,
        st.integers(-1, 256),
        st.builds(native.SendKeys, *[own.blobs] * 3),
        texts,
        st.lists(
            st.tuples(st.integers(-1, 16), own.blobs, st.binary(max_size=200) | long_bodies),
            max_size=18,
        ),
    ),
    "plan_bodies": st.tuples(
        sixteens,
        numbers,
        numbers,
        st.integers(-1, 256),
        st.builds(native.SendKeys, *[own.blobs] * 3),
        texts,
        st.lists(st.binary(max_size=200) | long_bodies, max_size=18),
    ),
    "read_send": bodies.json_bodies(bodies.plain_sends),
    "read_batch": bodies.json_bodies(bodies.plain_batches),
    "read_delete": bodies.as_bodies(bodies.deletes(strings, strings)),
    "read_delete_batch": bodies.as_bodies(bodies.delete_batches(strings, strings)),
    "read_receive": bodies.as_bodies(bodies.receives(strings)),
    "fill_batch_answer": st.builds(
        lambda pieces, request_id, rows, numbers: (
            *(pieces, request_id),
            [entry_id for entry_id, _ in rows],
            [native.encode_message(*record) for _, record in rows],
            numbers[: len(rows)],
        ),
        st.tuples(own.blobs, own.blobs),
        texts,
        st.lists(st.tuples(own.blobs, own.messages), max_size=12),
        st.lists(texts, max_size=12),
    ),
    "plan_send": st.tuples(
        sixteens,
        numbers,
        numbers,
        st.integers(-1, 256),
        st.builds(native.SendKeys, *[own.blobs] * 3),
        texts,
        st.binary(max_size=200) | long_bodies,
    ),
    "fill_answer": st.tuples(
        st.lists(own.blobs, min_size=5, max_size=5).map(tuple),
        texts,
        own.messages.map(lambda made: native.encode_message(*made)),
        texts,
    ),
    "is_token": st.tuples(tokens),
    "plain_drafts": st.tuples(
        own.blobs,
        st.booleans(),
        st.lists(
            st.tuples(tokens | st.just("g"), tokens | st.sampled_from(["d", None])), max_size=3
        ),
        st.lists(own.blobs, max_size=3),
    ),
    "plan_fifo_sends": st.tuples(
        sixteens,
        numbers,
        numbers,
        st.integers(-1, 256),
        st.builds(native.FifoKeys, *[own.blobs] * 5),
        texts,
        st.lists(
            st.builds(
                native.FifoDraft,
                *(st.integers(-1, 16), texts, own.blobs, own.blobs, st.binary(max_size=200)),
            ),
            max_size=18,
        ),
    ),
    "head_changes": st.tuples(
        st.lists(
            st.lists(st.tuples(st.booleans(), st.lists(group_rows, max_size=6)), max_size=3).map(
                lambda history: (
                    landed_writes.encoded(*(writes for _, writes in history)),
                    landed_writes.outcomes([lands for lands, _ in history]),
                )
            ),
            max_size=2,
        ),
        st.dictionaries(
            head_keys,
            st.sampled_from(
                [None, *(b"012345678" + last + bytes(8) for last in (b"7", b"8", b"9"))]
            ),
        ),
    ),
}


def outcome(function: Callable[..., object], arguments: tuple[Any, ...]) -> object:
    try:
        return function(*arguments)
    except (ValueError, OverflowError) as error:
        return ValueError if isinstance(error, ValueError) else OverflowError


def find(name: str, suffix: str) -> Callable[..., object]:
    impl = implementation(suffix)
    found: Callable[..., object] = next(
        getattr(module, name) for module in impl if hasattr(module, name)
    )
    # Each implementation reads entries itself.
    if name == "write_landed":
        return lambda entry, *rest: found(impl.entry.Entry(entry), *rest)
    if name == "head_changes":
        return lambda entries, known: found(
            [(impl.entry.Entry(entry), outcomes) for entry, outcomes in entries], known
        )
    return found


@pytest.mark.parametrize("name", ARGUMENTS)
@given(data=st.data())
def test_compiled_function_equals_its_twin(name: str, data: st.DataObject) -> None:
    drawn = data.draw(ARGUMENTS[name])
    # What a call does to its arguments is part of what it does.
    arguments = [deepcopy(drawn), deepcopy(drawn)]
    results = [
        outcome(find(name, suffix), given_to)
        for suffix, given_to in zip(("", "_ref"), arguments, strict=True)
    ]
    refusals = [result in (ValueError, OverflowError) for result in results]
    # Which of two wrong arguments is named first is nobody's business; that the call is refused is.
    assert refusals[0] == refusals[1]
    assert refusals[0] or (results[0] == results[1] and type(results[0]) is type(results[1]))
    assert refusals[0] or arguments[0] == arguments[1]


def test_every_function_of_the_door_is_compared() -> None:
    functions = {
        name for name in native.__all__ if callable(getattr(native, name)) and name[0].islower()
    }
    twins = {name for module in implementation("_ref") for name in vars(module)}
    assert functions & twins == set(ARGUMENTS)
