"""Which characters ids of batch entries may have, and how large text is. Pure; knows no request.

The characters of bodies and attribute values are judged where they are encoded, by
`native.encode_text`; those of group and deduplication ids by `native.is_token`.
"""

import re
from typing import Final

_BATCH_ID_MATCH: Final = re.compile(r"[A-Za-z0-9_-]{1,80}").fullmatch


def utf8_size(text: str) -> int:
    """Bytes of text in UTF-8, for any text: sizes are checked before characters are."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def is_batch_entry_id(text: str) -> bool:
    return _BATCH_ID_MATCH(text) is not None
