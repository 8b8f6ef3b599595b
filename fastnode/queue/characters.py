"""Which characters the queue API admits, and how large text is. Pure; knows no request.

Body and attribute text may hold U+0009, U+000A, U+000D and everything from U+0020 on except
surrogates, U+FFFE and U+FFFF. The check runs on the UTF-8 form, which the store needs anyway:
`bytes.translate` looks at a body about four times as fast as a regular expression does.
"""

import re
from typing import Final

_CONTROLS: Final = bytes(set(range(0x20)) - {0x09, 0x0A, 0x0D})
_NONCHARACTERS: Final = ("\ufffe".encode(), "\uffff".encode())

# Group and deduplication ids: ASCII letters, digits and punctuation, no space.
_TOKEN_MATCH: Final = re.compile(r"[!-~]{1,128}").fullmatch
_BATCH_ID_MATCH: Final = re.compile(r"[A-Za-z0-9_-]{1,80}").fullmatch


def encode_text(text: str) -> bytes | None:
    """The UTF-8 form of text, or None when it has a character that the API forbids."""
    if text.isascii() and text.isprintable():
        return text.encode()
    try:
        encoded = text.encode()
    except UnicodeEncodeError:  # A lone surrogate.
        return None
    if len(encoded.translate(None, _CONTROLS)) != len(encoded):
        return None
    # In UTF-8 these three bytes in a row are always that one character.
    if not text.isascii() and any(one in encoded for one in _NONCHARACTERS):
        return None
    return encoded


def utf8_size(text: str) -> int:
    """Bytes of text in UTF-8, for any text: sizes are checked before characters are."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def is_token(text: str) -> bool:
    return _TOKEN_MATCH(text) is not None


def is_batch_entry_id(text: str) -> bool:
    return _BATCH_ID_MATCH(text) is not None
