"""What a signature says about itself: the Authorization header, the parameters of a presigned URL,
the date. Sans-IO. Shapes only; whether it is true is decided in `sigv4.py`.
"""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote_to_bytes

from fastnode.http.sigv4_canonical import Pairs
from fastnode.http.sigv4_time import parse_http_date, signing_seconds
from fastnode.queue.errors import incomplete_signature

ALGORITHM: Final = b"AWS4-HMAC-SHA256"
_NAMES: Final = re.compile(rb"[a-z0-9!#$%&'*+.^_`|~-]+(?:;[a-z0-9!#$%&'*+.^_`|~-]+)*")
_EXPIRES: Final = re.compile(rb"[0-9]{1,6}")
_EXPIRES_SECONDS_MAX: Final = 604_800
_FIELDS: Final = (b"Credential", b"Signature", b"SignedHeaders")
PARAMETERS: Final = (
    b"X-Amz-Algorithm",
    b"X-Amz-Credential",
    b"X-Amz-Signature",
    b"X-Amz-SignedHeaders",
    b"X-Amz-Date",
    b"X-Amz-Expires",
)
SIGNATURE: Final = b"X-Amz-Signature"


def parse_authorization(value: bytes) -> tuple[bytes, bytes]:
    """Credential and SignedHeaders of a header that says everything once, the signature last."""
    algorithm, _, rest = value.partition(b" ")
    if algorithm != ALGORITHM:
        raise incomplete_signature(f"Unsupported AWS 'algorithm': '{shown(algorithm)}'.")
    parts = [part.strip().partition(b"=") for part in rest.split(b",")]
    found = {name: text for name, _, text in parts}
    missing = [name.decode() for name in _FIELDS if not found.get(name)]
    if missing:
        sentences = [f"Authorization header requires '{name}' parameter." for name in missing]
        raise incomplete_signature(" ".join(sentences))
    if len(parts) != len(_FIELDS) or parts[-1][0] != b"Signature":
        raise incomplete_signature(
            "Authorization header must have the parameters 'Credential', 'SignedHeaders' and "
            "'Signature' once each, in this order."
        )
    return found[b"Credential"], _check_names(found[b"SignedHeaders"])


def parse_parameters(query: Pairs) -> dict[bytes, bytes]:
    given = [(name, value) for name, value in query if name in PARAMETERS]
    found = {name: unquote_to_bytes(value) for name, value in given}
    if len(given) != len(PARAMETERS) or len(found) != len(PARAMETERS) or not all(found.values()):
        *most, last = (f"'{name.decode()}'" for name in PARAMETERS)
        raise incomplete_signature(
            f"AWS query-string parameters must include {', '.join(most)} and {last}, once each. "
            "Re-examine the query-string parameters."
        )
    if found[b"X-Amz-Algorithm"] != ALGORITHM:
        algorithm = shown(found[b"X-Amz-Algorithm"])
        raise incomplete_signature(f"Unsupported AWS 'algorithm': '{algorithm}'.")
    _check_names(found[b"X-Amz-SignedHeaders"])
    return found


def _check_names(signed_headers: bytes) -> bytes:
    if not _NAMES.fullmatch(signed_headers):
        raise incomplete_signature("SignedHeaders must be names in lower case, joined by ';'.")
    return signed_headers


def parse_expires(text: bytes) -> int:
    if _EXPIRES.fullmatch(text) and 1 <= int(text) <= _EXPIRES_SECONDS_MAX:
        return int(text)
    raise incomplete_signature(
        f"X-Amz-Expires must be a number of seconds from 1 to {_EXPIRES_SECONDS_MAX}."
    )


def date_of(headers: Mapping[bytes, bytes]) -> tuple[bytes, int]:
    """When the request says it was signed, as it is signed and in seconds since 1970."""
    date = headers.get(b"x-amz-date")
    if date is None:
        plain = headers.get(b"date")
        if plain is None:
            raise incomplete_signature(
                "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' "
                "header."
            )
        date = parse_http_date(plain) or plain
    return date, seconds_of(date)


def seconds_of(date: bytes) -> int:
    seconds = signing_seconds(date)
    if seconds is None:
        raise incomplete_signature(
            f"Date must be in ISO-8601 'basic format'. Got '{shown(date)}'. "
            "See http://en.wikipedia.org/wiki/ISO_8601"
        )
    return seconds


def shown(text: bytes) -> str:
    """What a client sent, for its error; long enough to recognise."""
    return text[:100].decode("latin-1")
