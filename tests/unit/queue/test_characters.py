"""Section 4.1: which characters are allowed, and how text is measured."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.native import encode_text, is_token
from fastnode.queue.characters import is_batch_entry_id, utf8_size


def is_allowed(code_point: int) -> bool:
    """The list of the contract, word for word."""
    return (
        code_point in (0x9, 0xA, 0xD)
        or 0x20 <= code_point <= 0xD7FF
        or 0xE000 <= code_point <= 0xFFFD
        or 0x10000 <= code_point <= 0x10FFFF
    )


BOUNDARIES = [*range(0x100), 0xD7FF, 0xD800, 0xDBFF, 0xDC00, 0xDFFF, 0xE000, 0xFDD0]
BOUNDARIES += [0xFFFD, 0xFFFE, 0xFFFF, 0x10000, 0x1FFFE, 0x1FFFF, 0x10FFFF]


@pytest.mark.parametrize("code_point", BOUNDARIES)
def test_every_boundary_of_the_allowed_ranges(code_point: int) -> None:
    for text in (chr(code_point), f"a{chr(code_point)}\u65e5"):
        assert encode_text(text) == (text.encode() if is_allowed(code_point) else None)


@given(st.text(st.characters(exclude_categories=())))
def test_text_passes_if_all_its_characters_do(text: str) -> None:
    expected = text.encode() if all(is_allowed(ord(one)) for one in text) else None
    assert encode_text(text) == expected


@given(st.text())
def test_size_is_that_of_utf8(text: str) -> None:
    assert utf8_size(text) == len(text.encode())


@pytest.mark.parametrize("text", ["a", "!", "~", "a" * 128, "a.b-c_d:e/f{}"])
def test_token_is_accepted(text: str) -> None:
    assert is_token(text)


@pytest.mark.parametrize("text", ["", " ", "a b", "a" * 129, "\u00e9", "a\n", "\x7f"])
def test_token_is_refused(text: str) -> None:
    assert not is_token(text)


@pytest.mark.parametrize(
    ("text", "is_valid"),
    [("a", True), ("A-b_9", True), ("x" * 80, True), ("", False), ("x" * 81, False), ("a.b", False),
     ("a b", False), ("\u00e9", False), ("a\n", False)],
)  # fmt: skip
def test_batch_entry_id(text: str, is_valid: bool) -> None:
    assert is_batch_entry_id(text) == is_valid
