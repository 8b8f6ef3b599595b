"""Calls that an SDK repeats: the AWS SDKs send the same invocation id with every attempt of a call.

The identity of such a call is a hash of who calls, the invocation id, the action, the path and the
body, so that no two calls share one by mistake: another body is another call. To meet the identity
of somebody else's call on purpose takes its invocation id, which is random and told to nobody.
"""

from typing import Final

from xxhash import xxh3_128, xxh3_128_digest

from fastnode.http.http1 import Request

_INVOCATION: Final = b"amz-sdk-invocation-id"
_ATTEMPT: Final = b"amz-sdk-request"
_FIRST: Final = b"attempt=1"
# Above this it costs more to copy a body than to hash it in a call of its own.
_JOINED_BYTES_MAX: Final = 4096


def invocation_of(request: Request, sender: str, action: str) -> bytes:
    """The identity of the call that the request is an attempt of; empty if it does not say."""
    invocation = request.get(_INVOCATION)
    if not invocation or not request.has(_ATTEMPT):
        return b""
    who, what, body = sender.encode(), action.encode(), request.body
    if len(body) <= _JOINED_BYTES_MAX:
        return xxh3_128_digest(b"\x00".join((who, invocation, what, request.target, body)))
    hashed = xxh3_128(b"\x00".join((who, invocation, what, request.target, b"")))
    hashed.update(body)
    return hashed.digest()


def is_first_attempt(request: Request) -> bool:
    attempt = request.get(_ATTEMPT)
    return attempt is None or attempt == _FIRST or attempt.startswith(_FIRST + b";")
