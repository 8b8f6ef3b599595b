"""Ids, receipts and records: round trips and strict decoding, on the twin and on compiled code."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode import native
from tests.unit.conftest import Impl
from tests.unit.native import strategies as own

SECRET = bytes(range(16))
REQUEST = bytes.fromhex("00112233445566778899aabbccddeeff")
DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

# Published: key 00..0f, message of n bytes 00, 01, …; the paper's own example is n = 15.
SIPHASH_VECTORS = {
    0: 0x726FDB47DD0E0E31,
    1: 0x74F839C593DC67FD,
    2: 0x0D6C8009D9A94F5A,
    3: 0x85676696D7FB7E2D,
    7: 0xAB0200F58B01D137,
    8: 0x93F5F5799A932462,
    15: 0xA129CA6149BE45E5,
    63: 0x958A324CEB064572,
}


def refuses(decode: Callable[[bytes], object], wrong: bytes) -> bool:
    try:
        decode(wrong)
    except ValueError:
        return True
    return False


@pytest.mark.parametrize("size", SIPHASH_VECTORS)
def test_siphash_gives_the_published_values(impl: Impl, size: int) -> None:
    assert impl.core.siphash24(SECRET, bytes(range(size))) == SIPHASH_VECTORS[size]


def test_siphash_key_has_sixteen_bytes(impl: Impl) -> None:
    for size in (0, 15, 17):
        with pytest.raises(ValueError):
            impl.core.siphash24(bytes(size), b"")


@given(own.u64, st.integers(0, 15), own.id16)
def test_message_id_is_a_version_7_uuid_that_says_its_position(
    impl: Impl, commit_ts: int, entry: int, request: bytes
) -> None:
    identity = impl.core.message_id(commit_ts, entry, request)
    parsed = uuid.UUID(bytes=identity)
    assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
    assert parsed.int >> 80 == commit_ts >> 16
    assert impl.core.message_id_text(identity) == str(parsed)
    assert impl.core.message_id_position(identity) == (commit_ts, entry)


def test_message_ids_sort_like_their_positions(impl: Impl) -> None:
    positions = [(ts, entry) for ts in (0, 1, 15, 16, 65535, 65536, 2**63) for entry in range(16)]
    identities = [impl.core.message_id(*position, REQUEST) for position in positions]
    assert identities == sorted(set(identities))


def test_message_ids_of_other_requests_differ(impl: Impl) -> None:
    flips = [bytes([*REQUEST[:at], REQUEST[at] ^ 1, *REQUEST[at + 1 :]]) for at in (2, 7, 10, 15)]
    assert impl.core.message_id(5, 0, REQUEST) not in {
        impl.core.message_id(5, 0, flipped) for flipped in flips
    }


def test_message_id_of_another_kind_is_refused(impl: Impl) -> None:
    identity = bytearray(impl.core.message_id(5, 3, REQUEST))
    for at, bits in ((6, 0x10), (6, 0x80), (8, 0x40), (8, 0x80)):
        wrong = bytearray(identity)
        wrong[at] ^= bits
        assert refuses(impl.core.message_id_position, bytes(wrong))
    assert refuses(impl.core.message_id_position, bytes(identity[:15]))
    assert refuses(impl.core.message_id_text, bytes(identity) + b"\x00")


def test_message_id_refuses_what_does_not_fit(impl: Impl) -> None:
    for entry in (-1, 16):
        with pytest.raises(ValueError):
            impl.core.message_id(1, entry, REQUEST)
    with pytest.raises(ValueError):
        impl.core.message_id(1, 0, REQUEST[:15])
    with pytest.raises(OverflowError):
        impl.core.message_id(2**64, 0, REQUEST)


@given(own.receipts)
def test_receipt_comes_back_and_is_genuine(
    impl: Impl, receipt: tuple[bytes, int, bytes, int, int]
) -> None:
    secret, generation, identity, nonce, partition = receipt
    handle = impl.core.encode_receipt(secret, generation, identity, nonce, partition)
    decoded = impl.core.decode_receipt(handle)
    tag = impl.core.receipt_tag(secret, generation, identity, nonce)
    assert decoded == native.Receipt(partition, generation, identity, nonce, tag)
    assert isinstance(decoded, native.Receipt)
    assert impl.core.receipt_is_genuine(secret, decoded)
    assert len(handle) == (55 if partition == native.UNPARTITIONED else 60)


@given(own.receipts, st.sampled_from(["secret", "generation", "message_id", "nonce", "tag"]))
def test_receipt_with_any_changed_part_is_not_genuine(
    impl: Impl, made: tuple[bytes, int, bytes, int, int], part: str
) -> None:
    secret = made[0]
    receipt = impl.core.decode_receipt(impl.core.encode_receipt(*made))
    if part == "secret":
        secret = bytes([secret[0] ^ 1]) + secret[1:]
    elif part == "message_id":
        last = receipt.message_id[15] ^ 1
        receipt = receipt._replace(message_id=receipt.message_id[:15] + bytes([last]))
    else:
        receipt = receipt._replace(**{part: getattr(receipt, part) ^ 1})
    assert not impl.core.receipt_is_genuine(secret, receipt)


def test_receipt_layouts_are_the_documented_bytes(impl: Impl) -> None:
    handle = impl.core.encode_receipt(SECRET, 7, bytes(16), 9)
    assert handle.startswith("AQAAAAAAAAAH" + "A" * 20)
    assert impl.core.encode_receipt(SECRET, 7, bytes(16), 9, 1).startswith("AgAAAAEAAAAAAAAAB")
    raw = (7).to_bytes(8, "big") + bytes(16) + (9).to_bytes(8, "big")
    assert impl.core.receipt_tag(SECRET, 7, bytes(16), 9) == impl.core.siphash24(SECRET, raw)


@pytest.mark.parametrize("partition", [native.UNPARTITIONED, 5])
def test_every_respelled_receipt_is_refused(impl: Impl, partition: int) -> None:
    handle = impl.core.encode_receipt(SECRET, 7, REQUEST, 9, partition)
    wrong = [handle[:size] for size in range(len(handle))]
    wrong += [handle + extra for extra in ("A", "=", "\n", " ", "AAAAA")]
    wrong += [f"{handle[:9]}{letter}{handle[10:]}" for letter in "+/=. \n\x00\x7f\u0100\ud800"]
    wrong += [digit + handle[1:] for digit in DIGITS if digit != handle[0]]
    # The version's last two bits are the first two of the second digit.
    version = DIGITS.index(handle[1]) >> 4
    others = [digit for index, digit in enumerate(DIGITS) if index >> 4 != version]
    wrong += [handle[:1] + digit + handle[2:] for digit in others]
    for respelled in wrong:
        with pytest.raises(ValueError):
            impl.core.decode_receipt(respelled)


def test_receipt_with_stray_bits_behind_its_last_byte_is_refused(impl: Impl) -> None:
    handle = impl.core.encode_receipt(SECRET, 7, REQUEST, 9)
    last = DIGITS.index(handle[-1])
    assert last % 4 == 0
    for stray in (1, 2, 3):
        with pytest.raises(ValueError):
            impl.core.decode_receipt(handle[:-1] + DIGITS[last + stray])


def test_receipt_of_one_version_with_the_length_of_the_other_is_refused(impl: Impl) -> None:
    short = impl.core.encode_receipt(SECRET, 7, REQUEST, 9)
    long = impl.core.encode_receipt(SECRET, 7, REQUEST, 9, 1)
    for wrong in ("Ag" + short[2:], "AQ" + long[2:], "AA" + short[2:], "Aw" + long[2:]):
        with pytest.raises(ValueError):
            impl.core.decode_receipt(wrong)


def test_receipt_parts_that_do_not_fit_are_refused(impl: Impl) -> None:
    for partition in (-2, 2**32):
        with pytest.raises(OverflowError):
            impl.core.encode_receipt(SECRET, 7, REQUEST, 9, partition)
    with pytest.raises(ValueError):
        impl.core.encode_receipt(SECRET, 7, REQUEST[:15], 9)
    with pytest.raises(ValueError):
        impl.core.encode_receipt(SECRET[:15], 7, REQUEST, 9)


@given(own.messages)
def test_message_record_comes_back_and_every_truncation_is_refused(
    impl: Impl, message: native.MessageRecord
) -> None:
    record = impl.core.encode_message(*message)
    decoded = impl.core.decode_message(record)
    assert decoded == message
    assert isinstance(decoded, native.MessageRecord)
    wrong = [record[:size] for size in range(len(record))] + [record + b"\x00"]
    assert all(refuses(impl.core.decode_message, each) for each in wrong)


@given(own.states)
def test_state_record_comes_back_and_every_truncation_is_refused(
    impl: Impl, state: native.MessageState
) -> None:
    record = impl.core.encode_state(*state)
    assert impl.core.decode_state(record) == state
    assert isinstance(impl.core.decode_state(record), native.MessageState)
    wrong = [record[:size] for size in range(len(record))] + [record + b"\x00"]
    assert all(refuses(impl.core.decode_state, each) for each in wrong)


def test_every_other_record_version_is_refused(impl: Impl) -> None:
    state = impl.core.encode_state(1, 2, 3, 4)
    message = impl.core.encode_message(0, REQUEST, 1, REQUEST, "me", b"", b"body")
    for version in [number for number in range(256) if number != 1]:
        assert refuses(impl.core.decode_state, bytes([version]) + state[1:])
        assert refuses(impl.core.decode_message, bytes([version]) + message[1:])


@given(st.binary(max_size=120).map(lambda tail: b"\x01" + tail))
def test_record_decoders_refuse_random_bytes_or_encode_back_to_them(impl: Impl, raw: bytes) -> None:
    for decode, encode in (
        (impl.core.decode_message, impl.core.encode_message),
        (impl.core.decode_state, impl.core.encode_state),
    ):
        try:
            decoded = decode(raw)
        except ValueError:
            continue
        assert encode(*decoded) == raw


def test_message_parts_that_do_not_fit_are_refused(impl: Impl) -> None:
    encode = impl.core.encode_message
    with pytest.raises(OverflowError):
        encode(0, REQUEST, 1, REQUEST, "a" * 65536, b"", b"")
    with pytest.raises(OverflowError):
        encode(256, REQUEST, 1, REQUEST, "", b"", b"")
    with pytest.raises(ValueError):
        encode(0, REQUEST, 1, REQUEST[:15], "", b"", b"")
    with pytest.raises(ValueError):
        encode(0, REQUEST + b"x", 1, REQUEST, "", b"", b"")


def test_sender_that_is_not_utf8_is_refused(impl: Impl) -> None:
    record = bytearray(impl.core.encode_message(0, REQUEST, 1, REQUEST, "me", b"", b"body"))
    record[52] = 0xFF
    assert refuses(impl.core.decode_message, bytes(record))


@pytest.mark.skipif(not native.COMPILED, reason="only C reads memory without looking at the type")
@pytest.mark.parametrize("wrong", [None, "text", 7, bytearray(16)])
def test_compiled_functions_refuse_wrong_types_without_a_crash(wrong: Any) -> None:
    calls: list[tuple[Callable[..., object], tuple[Any, ...]]] = [
        (native.receipt_is_genuine, (SECRET, native.Receipt(-1, 1, wrong, 1, 1))),
        (native.receipt_is_genuine, (SECRET, wrong)),
        (native.decode_receipt, (wrong,)),
        (native.decode_message, (wrong,)),
        (native.encode_message, (0, REQUEST, 1, wrong, "", b"", b"")),
        (native.message_id, (1, 0, wrong)),
        (native.message_key, (wrong, 1, 0)),
    ]
    for function, arguments in calls:
        with pytest.raises((TypeError, ValueError)):
            function(*arguments)


def test_named_results_hash_like_the_values_they_equal(impl: Impl) -> None:
    """They are made without their constructor, which must not leave a stale cached hash behind."""
    decoded = impl.core.decode_state(impl.core.encode_state(1, 2, 3, 4))
    assert hash(decoded) == hash((1, 2, 3, 4))
