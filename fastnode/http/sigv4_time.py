"""The time of a signature: its texts and seconds since 1970. Pure; what "now" is, others say."""

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

_BASIC: Final = re.compile(rb"[0-9]{8}T[0-9]{6}Z")
_BASIC_BYTES: Final = len(b"20260101T000000Z")
_BASIC_FORMAT: Final = "%Y%m%dT%H%M%SZ"
# GMT as the standard wants it, or as Python's mail library writes it.
_HTTP_DATE: Final = re.compile(
    rb"([A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9:]{8}) (?:GMT|UTC|[+-]0000)"
)


def signing_seconds(text: bytes) -> int | None:
    """Of `YYYYMMDDTHHMMSSZ`; None if it is no such time."""
    return _seconds_of(text) if len(text) == _BASIC_BYTES else None


def basic_text(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime(_BASIC_FORMAT)


def parse_http_date(text: bytes) -> bytes | None:
    """The value of a Date header as `YYYYMMDDTHHMMSSZ`; None if it is written otherwise."""
    match = _HTTP_DATE.fullmatch(text)
    parsed = None if match is None else _parsed(match[1], "%a, %d %b %Y %H:%M:%S")
    return None if parsed is None else parsed.strftime(_BASIC_FORMAT).encode()


# Thousands of requests are signed within the same second.
@lru_cache(maxsize=256)
def _seconds_of(text: bytes) -> int | None:
    parsed = _parsed(text, _BASIC_FORMAT) if _BASIC.fullmatch(text) else None
    return None if parsed is None else int(parsed.timestamp())


def _parsed(text: bytes, form: str) -> datetime | None:
    try:
        return datetime.strptime(text.decode(), form).replace(tzinfo=UTC)
    except ValueError:
        return None
