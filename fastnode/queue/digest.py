"""The digests of messages. Pure.

Clients verify the MD5 digests of a body and of a set of message attributes. MD5 is the API's
checksum against corruption on the way, not a protection against anybody. A FIFO queue may tell
messages apart by a hash of their bodies; that one is SHA-256.
"""

import hashlib
from collections.abc import Sequence
from operator import itemgetter

# Name, full data type with its label, raw value.
Attribute = tuple[str, str, bytes]

_BY_NAME = itemgetter(0)


def body_md5(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


def content_deduplication_id(body: bytes) -> str:
    """The deduplication id of a message whose sender gave none."""
    return hashlib.sha256(body).hexdigest()


def attributes_md5(attributes: Sequence[Attribute]) -> str | None:
    """The digest of attributes in any order, or None when there are none (it is then left out)."""
    if not attributes:
        return None
    buffer = b"".join(map(_hashed_form, sorted(attributes, key=_BY_NAME)))
    return body_md5(buffer)


def _hashed_form(attribute: Attribute) -> bytes:
    name, data_type, value = attribute
    transport = b"\x02" if data_type.startswith("Binary") else b"\x01"
    return b"".join((_sized(name.encode()), _sized(data_type.encode()), transport, _sized(value)))


def _sized(part: bytes) -> bytes:
    return len(part).to_bytes(4, "big") + part
