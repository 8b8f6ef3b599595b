"""SHA-256 by every way that this processor knows: against hashlib and the published vectors."""

import hashlib
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode import _sha256_ref, native

if native.COMPILED:
    from fastnode import _sha256

    MODULES: list[ModuleType] = [_sha256_ref, _sha256]
else:
    MODULES = [_sha256_ref]

compiled_only = pytest.mark.skipif(not native.COMPILED, reason="pure mode has nothing to compare")

# NIST, "Secure Hashing" examples; the last two are the ones of two blocks and of a million letters.
VECTORS = {
    b"": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    b"abc": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq": (
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
    ),
    b"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
    b"hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu": (
        "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"
    ),
    b"a" * 1_000_000: "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
}


@pytest.mark.parametrize("octets", VECTORS, ids=len)
@pytest.mark.parametrize("module", MODULES)
def test_published_digests_hold(module: ModuleType, octets: bytes) -> None:
    digests = module.digests(octets)
    assert digests == [bytes.fromhex(VECTORS[octets])] * len(digests)


@compiled_only
def test_every_length_of_the_last_block_is_padded_rightly() -> None:
    for size in range(260):
        octets = bytes(range(256)) + bytes(4)
        expected = hashlib.sha256(octets[:size]).digest()
        assert set(_sha256.digests(octets[:size])) == {expected}


@compiled_only
@given(st.binary(max_size=1_000))
def test_any_digest_is_the_one_of_hashlib(octets: bytes) -> None:
    assert set(_sha256.digests(octets)) == {hashlib.sha256(octets).digest()}


@compiled_only
def test_the_way_without_special_instructions_is_always_tried() -> None:
    assert 1 <= len(_sha256.digests(b"")) <= 3
