"""The canonical form of a request, which Signature Version 4 signs. Sans-IO, and no secrets."""

from binascii import hexlify
from hashlib import sha256
from urllib.parse import quote, unquote_to_bytes

from fastnode.http.http1 import Request

# Name and value of each parameter, in the one encoding that counts, sorted.
Pairs = list[tuple[bytes, bytes]]


def canonical_request(
    request: Request, query: Pairs, names: tuple[bytes, ...], template: bytes
) -> bytes | None:
    """The text whose hash is signed; `template` is the one for `names`. None if the request is not
    what was signed, whatever the key: a signed header is gone, or the announced hash is not that of
    the body.
    """
    headers = request.headers
    payload = hexlify(sha256(request.body).digest())
    if headers.get(b"x-amz-content-sha256", payload) != payload:
        return None
    try:
        values = [headers[name] for name in names]
    except KeyError:
        return None
    path = request.path
    canonical_path = b"/" if path == b"/" else _canonical_path(path)
    joined = b"&".join([b"%b=%b" % pair for pair in query]) if query else b""
    text = template % (request.method, canonical_path, joined, *values, payload)
    if b"  " in text or b"\t" in text:
        # Only values can hold white space, and runs of it count as one space.
        values = [b" ".join(value.split()) for value in values]
        text = template % (request.method, canonical_path, joined, *values, payload)
    return text


def canonical_template(names: tuple[bytes, ...]) -> bytes:
    """With places for method, path, query, the values of the headers and the payload's hash."""
    literal = [name.replace(b"%", b"%%") for name in names]
    lines = b"".join([b"%b:%%b\n" % name for name in literal])
    return b"%b\n%b\n%b\n" + lines + b"\n" + b";".join(literal) + b"\n%b"


def _canonical_path(path: bytes) -> bytes:
    """Without dot segments and empty ones, and encoded once more than the client wrote it."""
    segments: list[bytes] = []
    for segment in path.split(b"/"):
        if segment == b"..":
            del segments[-1:]
        elif segment not in (b"", b"."):
            segments.append(segment)
    joined = b"/" + b"/".join(segments)
    if segments and path.endswith(b"/"):
        joined += b"/"
    return quote(joined, safe="/~").encode()


def canonical_pairs(query: bytes) -> Pairs:
    """Decoded as a form is, so that two queries of different meaning never look the same here, and
    encoded in the one way that counts.
    """
    parts = [part.partition(b"=") for part in query.split(b"&") if part]
    return sorted((_encoded(name), _encoded(value)) for name, _, value in parts)


def _encoded(text: bytes) -> bytes:
    return quote(unquote_to_bytes(text.replace(b"+", b" ")), safe="~").encode()
