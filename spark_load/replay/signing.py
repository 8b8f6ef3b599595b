"""Signature Version 4 of SQS requests, in a form that is quick to repeat. Pure: the time is given.

Of a request's head only the body's hash, the signature, the invocation and the length differ from
the last one of the same second, host and action, so the rest is made once and kept.
"""

import hashlib
import hmac
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, NamedTuple

SERVICE: Final = "sqs"
CONTENT_TYPE: Final = "application/x-amz-json-1.0"
# Heads of this many combinations of second, host and action are kept.
_HEADS_KEPT: Final = 4_096
_EXPLAIN: Final = b"X-Fastnode-Explain: 1\r\n"
# Neither the invocation nor the attempt is signed, as with the AWS SDKs.
_REQUEST: Final = (
    b"%b%b\r\namz-sdk-invocation-id: %b\r\namz-sdk-request: attempt=%d\r\n%b"
    b"Content-Length: %d\r\n\r\n%b"
)


@dataclass(frozen=True)
class Credentials:
    """Whose requests they are. The secrets are in no history, log or message."""

    access_key: str
    secret_key: str
    region: str
    session_token: str | None = None

    def __repr__(self) -> str:
        return f"Credentials({self.access_key!r}, region={self.region!r})"


class _Head(NamedTuple):
    """What requests of one second, host and action have in common. The hashes have taken in all
    that comes before what differs.
    """

    canonical: "hashlib._Hash"
    inner: "hashlib._Hash"
    outer: "hashlib._Hash"
    text: bytes


class Signer:
    """Makes complete requests."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._head = lru_cache(_HEADS_KEPT)(self._make_head)
        self._hmac_of_day = lru_cache(2)(self._make_hmac)

    def request(
        self,
        host: str,
        action: str,
        body: bytes,
        invocation: bytes,
        attempt: int,
        at_seconds: int,
        explain: bool = False,
    ) -> bytes:
        """The bytes of one attempt; `attempt` counts from 1, as it does for the AWS SDKs."""
        head = self._head(host, action, at_seconds)
        canonical = head.canonical.copy()
        canonical.update(hashlib.sha256(body).hexdigest().encode())
        inner = head.inner.copy()
        inner.update(canonical.hexdigest().encode())
        outer = head.outer.copy()
        outer.update(inner.digest())
        return _REQUEST % (
            head.text,
            outer.hexdigest().encode(),
            invocation,
            attempt,
            _EXPLAIN if explain else b"",
            len(body),
            body,
        )

    def _make_head(self, host: str, action: str, at_seconds: int) -> _Head:
        moment = datetime.fromtimestamp(at_seconds, UTC)
        date = f"{moment:%Y%m%dT%H%M%SZ}"
        headers = {
            "content-type": CONTENT_TYPE,
            "host": host,
            "x-amz-date": date,
            "x-amz-target": f"AmazonSQS.{action}",
        }
        if self._credentials.session_token is not None:
            headers["x-amz-security-token"] = self._credentials.session_token
        listed = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
        names = ";".join(sorted(headers))
        scope = f"{moment:%Y%m%d}/{self._credentials.region}/{SERVICE}/aws4_request"
        sent = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        authorization = (
            f"AWS4-HMAC-SHA256 Credential={self._credentials.access_key}/{scope}, "
            f"SignedHeaders={names}, Signature="
        )
        inner, outer = self._hmac_of_day(scope)
        inner = inner.copy()
        inner.update(f"AWS4-HMAC-SHA256\n{date}\n{scope}\n".encode())
        return _Head(
            canonical=hashlib.sha256(f"POST\n/\n\n{listed}\n{names}\n".encode()),
            inner=inner,
            outer=outer,
            text=f"POST / HTTP/1.1\r\n{sent}Authorization: {authorization}".encode(),
        )

    def _make_hmac(self, scope: str) -> tuple["hashlib._Hash", "hashlib._Hash"]:
        """The two hashes of an HMAC by the key of that day, which every signature begins with: an
        HMAC object made anew costs more than all the rest of a signature.
        """
        key = f"AWS4{self._credentials.secret_key}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        return hashlib.sha256(_padded(key, 0x36)), hashlib.sha256(_padded(key, 0x5C))


def _padded(key: bytes, byte: int) -> bytes:
    """The key as RFC 2104 has it: filled up to a block, each byte combined with a constant."""
    return bytes(octet ^ byte for octet in key.ljust(64, b"\0"))
