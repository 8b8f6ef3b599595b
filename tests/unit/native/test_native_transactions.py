"""The transaction codec: what is written comes back, and nothing malformed gets through to apply.

Each test runs on the twin and on the compiled module.
"""

import gc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode import native
from tests.unit.conftest import Impl, implementation
from tests.unit.native import strategies as own
from tests.unit.native.test_native_core import refuses

REQUEST = bytes(range(16))
HEAD = (REQUEST, 1, 2, 3, 4)


def encode(impl: Impl, transactions: list[native.Transaction]) -> bytes:
    entry = impl.core.encode_entry([impl.core.encode_transaction(*each) for each in transactions])
    assert isinstance(entry, bytes)
    return entry


def decode(impl: Impl, raw: bytes) -> list[native.Transaction]:
    entry = impl.entry.Entry(raw)
    decoded: list[native.Transaction] = entry.transactions()
    assert len(entry) == len(decoded)
    assert entry.requests() == [one.request for one in decoded]
    return decoded


@given(st.lists(own.transactions, max_size=4))
def test_entry_comes_back(impl: Impl, transactions: list[native.Transaction]) -> None:
    decoded = decode(impl, encode(impl, transactions))
    assert decoded == transactions
    assert all(type(each) is native.Transaction for each in decoded)


@given(st.lists(own.transactions, min_size=1, max_size=2))
def test_every_truncation_and_every_extra_byte_is_refused(
    impl: Impl, transactions: list[native.Transaction]
) -> None:
    entry = encode(impl, transactions)
    wrong = [entry[:size] for size in range(len(entry))] + [entry + b"\x00", entry + entry]
    assert all(refuses(impl.entry.Entry, each) for each in wrong)


@given(own.transactions)
def test_every_truncated_or_extended_transaction_inside_an_entry_is_refused(
    impl: Impl, transaction: native.Transaction
) -> None:
    encoded = impl.core.encode_transaction(*transaction)
    wrong = [encoded[:size] for size in range(len(encoded))] + [encoded + b"\x00"]
    assert all(refuses(impl.entry.Entry, impl.core.encode_entry([each])) for each in wrong)


def test_every_other_entry_version_is_refused(impl: Impl) -> None:
    entry = encode(impl, [native.Transaction(*HEAD, [b"read"], [(native.PUT, b"key", b"value")])])
    for version in [number for number in range(256) if number != 1]:
        assert refuses(impl.entry.Entry, bytes([version]) + entry[1:])


@given(st.lists(own.transactions, min_size=1, max_size=2), st.data())
def test_entry_with_a_changed_byte_is_refused_or_encodes_back(
    impl: Impl, transactions: list[native.Transaction], data: st.DataObject
) -> None:
    entry = bytearray(encode(impl, transactions))
    entry[data.draw(st.integers(0, len(entry) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        decoded = decode(impl, bytes(entry))
    except ValueError:
        return
    assert encode(impl, decoded) == bytes(entry)


@given(st.binary(max_size=150).map(lambda tail: b"\x01\x00\x00\x00" + tail))
def test_random_bytes_are_refused_or_encode_back(impl: Impl, raw: bytes) -> None:
    try:
        decoded = decode(impl, raw)
    except ValueError:
        return
    assert encode(impl, decoded) == raw


@pytest.mark.parametrize(
    "at",
    [1, 5, 9 + 35, 9 + 39, 9 + 43, 9 + 43 + 8 + 1, 9 + 43 + 8 + 1 + 7],
    ids=["transactions", "length", "reads", "writes", "read", "key", "value"],
)
def test_enormous_counts_and_lengths_are_refused_without_asking_for_memory(
    impl: Impl, at: int
) -> None:
    entry = bytearray(
        encode(impl, [native.Transaction(*HEAD, [b"read"], [(native.PUT, b"key", b"value")])])
    )
    entry[at : at + 4] = b"\xff\xff\xff\xff"
    assert refuses(impl.entry.Entry, bytes(entry))


MALFORMED_WRITES = {
    "kind zero": (0, b"key", b""),
    "kind nine": (9, b"key", b""),
    "kind 257": (257, b"key", b""),
    "negative kind": (-1, b"key", b""),
    "delete with a value": (native.DELETE, b"key", b"value"),
    "fresh delete with a value": (native.FRESH_DELETE, b"key", b"value"),
    "touch with a value": (native.TOUCH, b"key", b"value"),
    "drop that ends before it starts": (native.DROP, b"b", b"a"),
    "drop that ends at a prefix of its start": (native.DROP, b"ab", b"a"),
    "delta of seven bytes": (native.ADD, b"key", bytes(7)),
    "delta of nine bytes": (native.ADD, b"key", bytes(9)),
}


@pytest.mark.parametrize("write", MALFORMED_WRITES.values(), ids=list(MALFORMED_WRITES))
def test_malformed_write_is_refused_by_the_encoder(
    impl: Impl, write: tuple[int, bytes, bytes]
) -> None:
    with pytest.raises(ValueError):
        impl.core.encode_transaction(*HEAD, [], [write])


@pytest.mark.parametrize(
    "write",
    [write for write in MALFORMED_WRITES.values() if 0 <= write[0] < 256],
)
def test_malformed_write_is_refused_by_the_decoder(
    impl: Impl, write: tuple[int, bytes, bytes]
) -> None:
    kind, key, value = write
    harmless = impl.core.encode_transaction(*HEAD, [], [(native.PUT, key, value)])
    poisoned = harmless[:43] + bytes([kind]) + harmless[44:]
    assert refuses(impl.entry.Entry, impl.core.encode_entry([poisoned]))


def test_layout_is_the_documented_bytes(impl: Impl) -> None:
    encoded = impl.core.encode_transaction(
        REQUEST, 1, 2, 3, 0x0405, [b"r"], [(native.FRESH_PUT, b"kk", b"vvv")]
    )
    expected = REQUEST + bytes(7) + b"\x01" + bytes(7) + b"\x02" + b"\x03" + b"\x04\x05"
    expected += b"\x00\x00\x00\x01" * 2 + b"\x00\x00\x00\x01r"
    expected += b"\x06" + b"\x00\x00\x00\x02kk" + b"\x00\x00\x00\x03vvv"
    assert encoded == expected
    entry = impl.core.encode_entry([encoded])
    assert entry == b"\x01\x00\x00\x00\x01" + len(encoded).to_bytes(4, "big") + encoded


def test_sequences_may_be_tuples(impl: Impl) -> None:
    rows = [(native.PUT, b"k", b"v")]
    listed = impl.core.encode_transaction(*HEAD, [b"r"], rows)
    assert impl.core.encode_transaction(*HEAD, (b"r",), tuple(rows)) == listed
    assert impl.core.encode_entry((listed,)) == impl.core.encode_entry([listed])


def test_head_fields_that_do_not_fit_are_refused(impl: Impl) -> None:
    for wrong in ((REQUEST, -1, 2, 3, 4), (REQUEST, 1, 2**64, 3, 4)):
        with pytest.raises(OverflowError):
            impl.core.encode_transaction(*wrong, [], [])
    for wrong in ((REQUEST, 1, 2, 256, 4), (REQUEST, 1, 2, 3, 65536)):
        with pytest.raises(OverflowError):
            impl.core.encode_transaction(*wrong, [], [])
    with pytest.raises(ValueError):
        impl.core.encode_transaction(REQUEST[:15], 1, 2, 3, 4, [], [])


@pytest.mark.parametrize(
    ("reads", "writes"),
    [
        (["text"], []),
        ([None], []),
        ([], [(1, "text", b"")]),
        ([], [(1, b"", None)]),
        ([], [("1", b"", b"")]),
        (7, []),
        ([], None),
    ],
)
def test_wrong_types_are_refused_without_a_crash(impl: Impl, reads: Any, writes: Any) -> None:
    with pytest.raises((TypeError, AttributeError)):
        impl.core.encode_transaction(*HEAD, reads, writes)


def test_decoded_values_are_freed(impl: Impl) -> None:
    """References are counted by hand in places, and one too many would leak every message."""
    transaction = native.Transaction(*HEAD, [b"read"], [(native.PUT, b"key", b"value")])
    entry = encode(impl, [transaction] * 10)
    broken = entry[:-1]
    decode(impl, entry)
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(50):
        decode(impl, entry)
        assert refuses(impl.entry.Entry, broken)
    gc.collect()
    assert len(gc.get_objects()) - before < 50


@pytest.mark.skipif(not native.COMPILED, reason="pure mode has nothing to compare")
@given(st.lists(own.transactions, max_size=3), st.data())
def test_compiled_entry_equals_its_twin_also_when_damaged(
    transactions: list[native.Transaction], data: st.DataObject
) -> None:
    raw = bytearray(encode(implementation("_ref"), transactions))
    for _ in range(data.draw(st.integers(0, 2))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.sampled_from([0, 1, 9, 255]))
    cut = bytes(raw[: data.draw(st.integers(len(raw) - 3, len(raw)))])
    for given_to in (bytes(raw), cut, data.draw(st.binary(max_size=60))):
        found = [_decoded_or_error(implementation(suffix), given_to) for suffix in ("", "_ref")]
        assert found[0] == found[1]


def _decoded_or_error(impl: Impl, raw: bytes) -> object:
    try:
        return decode(impl, raw)
    except ValueError:
        return ValueError
