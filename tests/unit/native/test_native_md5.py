"""The MD5 of bodies, one by one and side by side, by every way that this processor knows: against
hashlib and the published vectors.
"""

import hashlib
from random import Random
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode import _md5_ref, native

if native.COMPILED:
    from fastnode import _md5

    MODULES: list[ModuleType] = [_md5_ref, _md5]
else:
    MODULES = [_md5_ref]

compiled_only = pytest.mark.skipif(not native.COMPILED, reason="pure mode has nothing to compare")

# RFC 1321, A.5.
VECTORS = {
    b"": "d41d8cd98f00b204e9800998ecf8427e",
    b"a": "0cc175b9c0f1b6a831c399e269772661",
    b"abc": "900150983cd24fb0d6963f7d28e17f72",
    b"message digest": "f96b697d7cb7938d525a2f31aaf161d0",
    b"abcdefghijklmnopqrstuvwxyz": "c3fcd3d76192e4007dfb496cca67e13b",
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789": (
        "d174ab98d277d9f5a5611c2c9f419d9f"
    ),
    b"1234567890" * 8: "57edf4a22be3c955ac49da2e2107b67a",
}
LENGTHS = st.one_of(
    st.integers(0, 260), st.sampled_from([1_023, 1_024, 1_025, 4_096]), st.integers(0, 6_000)
)


def expected(bodies: list[bytes]) -> list[bytes]:
    return [hashlib.md5(body, usedforsecurity=False).digest() for body in bodies]


@pytest.mark.parametrize("module", MODULES)
def test_published_digests_hold(module: ModuleType) -> None:
    published = [bytes.fromhex(digest) for digest in VECTORS.values()]
    assert all(made == published for made in module.digests(list(VECTORS)))


@compiled_only
def test_every_length_of_the_last_block_is_padded_rightly() -> None:
    octets = bytes(range(256)) * 2
    for size in range(260):
        bodies = [octets[lane : lane + size] for lane in range(16)]
        assert all(made == expected(bodies) for made in _md5.digests(bodies))


@compiled_only
@given(st.lists(LENGTHS, max_size=16), st.randoms(use_true_random=False))
def test_bodies_of_any_lengths_do_not_disturb_each_other(
    lengths: list[int], random: Random
) -> None:
    bodies = [random.randbytes(length) for length in lengths]
    for made in _md5.digests(bodies):
        assert made == expected(bodies)


@compiled_only
def test_one_by_one_and_the_way_of_every_processor_are_always_tried() -> None:
    assert 2 <= len(_md5.digests([b""])) <= 4


@compiled_only
def test_more_than_fit_side_by_side_are_refused() -> None:
    with pytest.raises(ValueError, match="too many bodies"):
        _md5.digests([b""] * 17)
