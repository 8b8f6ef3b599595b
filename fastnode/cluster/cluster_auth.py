"""Who calls: the token that every call of the control plane carries, made and judged. Pure; the
time and the randomness are arguments.

A token proves knowledge of the cluster secret for one call: an HMAC over the cluster, who calls
whom, the method, the time and a nonce. The secret never travels. It is good for `WINDOW_MS` around
the callee's time and once: nonces are remembered for longer than that. `now_ms` should be the time
that the cluster agrees on, or a node whose own clock is wrong could call nobody.

A token says nothing about the bytes of the call. On a network where somebody could change them, or
take a connection over, TLS is what protects them; then both ends show a certificate too. After a
restart of the callee the nonces are forgotten, so there a token could be used a second time within
its window, by somebody who can listen to a connection without TLS.
"""

import hashlib
import hmac
import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from fastnode.clock import IdSource
from fastnode.errors import OperationError

# The suffix makes gRPC carry bytes.
METADATA_NAME: Final = "fastnode-token-bin"
WINDOW_MS: Final = 60_000
NONCES_MAX: Final = 16_384

_VERSION: Final = 1
_NONCE_BYTES: Final = 16
_LAYOUT: Final = struct.Struct(">BQQ16s32s")
_LABEL: Final = b"fastnode control call"


class Unauthenticated(OperationError):
    """For our own log; whoever called is told no reason."""


class Realm(NamedTuple):
    """One node of one cluster, and what proves it."""

    secret: bytes
    cluster_id: bytes
    node: int


class Token(NamedTuple):
    version: int
    caller: int
    time_ms: int
    nonce: bytes
    proof: bytes


class Signer:
    """Makes the tokens of a node's own calls."""

    def __init__(self, realm: Realm, now_ms: Callable[[], int], ids: IdSource) -> None:
        self._realm = realm
        self._now_ms = now_ms
        self._ids = ids

    def token(self, callee: int, method: str) -> bytes:
        bare = Token(_VERSION, self._realm.node, self._now_ms(), self._ids.take(_NONCE_BYTES), b"")
        return _LAYOUT.pack(*bare._replace(proof=_proof(self._realm, callee, method, bare)))


class Judge:
    """Judges the tokens of calls to this node."""

    def __init__(self, realm: Realm, now_ms: Callable[[], int]) -> None:
        self._realm = realm
        self._now_ms = now_ms
        self._seen: dict[bytes, int] = {}  # nonce → when its token expires; in order of arrival

    def caller(self, method: str, encoded: bytes) -> int:
        """The node that calls."""
        token = parse_token(encoded)
        expected = _proof(self._realm, self._realm.node, method, token)
        if not hmac.compare_digest(token.proof, expected):
            raise Unauthenticated("the proof is wrong: another secret, cluster, node id or method")
        off_ms = token.time_ms - self._now_ms()
        if abs(off_ms) > WINDOW_MS:
            raise Unauthenticated(f"the clocks of node {token.caller} and this one: {off_ms:+} ms")
        self._remember(token)
        return token.caller

    def _remember(self, token: Token) -> None:
        """Expired nonces are kept until their place is needed, so that a clock that steps back
        does not make an old token good again. Only who knows the secret gets this far.
        """
        if token.nonce in self._seen:
            raise Unauthenticated(f"a token of node {token.caller} came a second time")
        if len(self._seen) >= NONCES_MAX:
            oldest, expires_ms = next(iter(self._seen.items()))
            if expires_ms >= self._now_ms():
                raise Unauthenticated("more calls than can be remembered")
            del self._seen[oldest]
        self._seen[token.nonce] = token.time_ms + WINDOW_MS


def parse_token(encoded: bytes) -> Token:
    """What it says, proved or not."""
    if len(encoded) != _LAYOUT.size:
        raise Unauthenticated("no token")
    token = Token(*_LAYOUT.unpack(encoded))
    if token.version != _VERSION:
        raise Unauthenticated(f"a token of version {token.version}")
    return token


def _proof(realm: Realm, callee: int, method: str, token: Token) -> bytes:
    parts = (
        _LABEL,
        realm.cluster_id,
        _number(token.caller),
        _number(callee),
        method.encode(),
        _number(token.time_ms),
        token.nonce,
    )
    # With their lengths, so that no two lists of parts are the same bytes.
    joined = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return hmac.digest(realm.secret, joined, hashlib.sha256)


def _number(value: int) -> bytes:
    return value.to_bytes(8, "big")
