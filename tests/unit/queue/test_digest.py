"""Section 4.3: every vector of the table, and what the digest must not depend on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.queue.digest import Attribute, attributes_md5, body_md5

GREETING = [
    ("General", "String", b"Kenobi"),
    ("Hello", "String", b"There"),
    ("Help.Me", "String", b"Me"),
]
TRACE = b"Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
SPAN = b"traceparent\x1e00-774062d6c37081a5a0b9b5b88e30627c-2d2482211f6489da-01"
COLOURS = [
    ("color", "String", b"blue"),
    ("count", "Number", b"3"),
    ("blob", "Binary", b"\x01\x02\x03"),
]
UNICODE = [
    ("\u00e9", "String", "\u65e5\u672c".encode()),
    ("z", "Number", b"1"),
    ("Z", "String", b"up"),
]

ATTRIBUTE_VECTORS: list[tuple[int, list[Attribute], str]] = [
    (1, [("k", "String", b"x")], "a45daa70926828a2f0a1db3418e6feb4"),
    (2, [("timestamp", "Number", b"1493147359900")], "235c5c510d26fb653d073faed50ae77c"),
    (3, [("attr1", "Binary", SPAN)], "8cbe4db156db8a94db8b801b7addb984"),
    (4, COLOURS, "d838729972a4b70e2d2acd9d59ac847c"),
    (5, GREETING, "4c360f3fdafd970e05fae2f149d997f5"),
    (6, GREETING[1:], "83fee93c1bcd8b9a5a923ffacdc636c7"),
    (
        7,
        [("timestamp", "Number.java.lang.Long", b"1493147359900")],
        "2e2e4876d8e0bd6b8c2c8f556831c349",
    ),
    (8, [("AWSTraceHeader", "String", TRACE)], "5ae4d5d7636402d80f4eb6d213245a88"),
    (9, UNICODE, "58ce5b56f2ce8055d3d5b93803209933"),
]
BODY_VECTORS = [
    (10, "message", "78e731027d8fd50ed642340b7c9a63b3"),
    (11, "H\u00e9llo!\U0001f600", "ac1e18dd3ff02748b22f26c67aca823b"),
]


@pytest.mark.parametrize(("number", "attributes", "digest"), ATTRIBUTE_VECTORS)
def test_attribute_vector(number: int, attributes: list[Attribute], digest: str) -> None:
    assert attributes_md5(attributes) == digest, number


@pytest.mark.parametrize(("number", "body", "digest"), BODY_VECTORS)
def test_body_vector(number: int, body: str, digest: str) -> None:
    assert body_md5(body.encode()) == digest, number


def test_no_attributes_have_no_digest() -> None:
    assert attributes_md5([]) is None


@given(st.permutations(COLOURS + UNICODE))
def test_order_of_attributes_does_not_matter(attributes: list[Attribute]) -> None:
    assert attributes_md5(attributes) == attributes_md5(COLOURS + UNICODE)


def test_labelled_binary_is_binary() -> None:
    assert attributes_md5([("a", "Binary.png", b"x")]) == "9bcf21ba56ccb0884fcd00b0187890da"
