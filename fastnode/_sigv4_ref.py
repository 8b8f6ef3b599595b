"""Whose request it is, in the usual case: signed in its Authorization header, plain, and by a
client that has proved itself before. Sans-IO.

The readable version; `_sigv4.pyx` does the same in C. Both know plain requests only and say None
to all others, the forged ones included: then `http/sigv4.py` judges, whose word is final. So the
rule for both is to recognise nobody whom it would not. Where keys come from is not here, nor what
a signature says about itself.
"""

import hmac
import re
from typing import Any, Final

from fastnode._http_ref import Request
from fastnode._sha256_ref import sha256_of
from fastnode.config import SIGNATURE_SKEW_SECONDS

# A canonical request that is longer is not plain.
TEXT_BYTES_MAX: Final = 4_096
SCOPE_BYTES_MAX: Final = 64
_ALGORITHM: Final = b"AWS4-HMAC-SHA256"
_MARK: Final = b"Signature="
_KEY_BYTES: Final = 32
_DIGITS: Final = 64
_DAY_BYTES: Final = len(b"YYYYMMDD")
# The time of day of a signature, whose day is known.
_TIME: Final = re.compile(rb"T([01][0-9]|2[0-3])([0-5][0-9])([0-5][0-9])Z")
# Needs no encoding and has no empty segments or such that begin with a dot.
_PATH: Final = re.compile(rb"(?=/)(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*/?")
_BLANKS: Final = re.compile(rb"\t|  ")


class Proof:
    """What the plain requests of one client on one day have in common, and whose they are.
    `midnight` is the first second of the day that `scope` begins with.
    """

    __slots__ = ("_midnight", "_names", "_scope", "_signing_key", "whose")

    def __init__(
        self, signing_key: bytes, scope: bytes, midnight: int, names: tuple[bytes, ...], whose: Any
    ) -> None:
        if len(signing_key) != _KEY_BYTES or not _DAY_BYTES <= len(scope) <= SCOPE_BYTES_MAX:
            raise ValueError("this is no signing key, or no scope")
        self._signing_key = signing_key
        self._scope = scope
        self._midnight = midnight
        self._names = names
        self.whose = whose

    def is_fresh(self, date: bytes, now: int) -> bool:
        time = _TIME.fullmatch(date, _DAY_BYTES)
        if time is None or date[:_DAY_BYTES] != self._scope[:_DAY_BYTES]:
            return False
        hours, minutes, seconds = map(int, time.groups())
        signed_at = self._midnight + hours * 3_600 + minutes * 60 + seconds
        return abs(signed_at - now) <= SIGNATURE_SKEW_SECONDS

    def canonical(
        self, method: bytes, path: bytes, headers: dict[bytes, bytes], payload: bytes
    ) -> bytes | None:
        """The text whose hash is signed; None if it takes more than putting it together."""
        found = [(name, headers.get(name)) for name in self._names]
        lines = [b"%b:%b\n" % (name, value) for name, value in found if isinstance(value, bytes)]
        if len(lines) < len(found):
            return None
        names = b";".join(self._names)
        text = b"%b\n%b\n\n%b\n%b\n%b" % (method, path, b"".join(lines), names, payload)
        return None if len(text) > TEXT_BYTES_MAX or _BLANKS.search(text) else text

    def signature(self, date: bytes, canonical: bytes) -> bytes:
        digest = sha256_of(canonical).hex().encode()
        to_sign = b"\n".join((_ALGORITHM, date, self._scope, digest))
        return hmac.digest(self._signing_key, to_sign, "sha256").hex().encode()


def prove(proofs: dict[bytes, Proof], request: Request, now: int) -> Any:
    """`whose` of the proof by which a plain request holds at `now`, in seconds since 1970; None if
    there is no such proof. `proofs` are found by what stands before the signature in an
    Authorization header.
    """
    headers, target = request.headers, request.target
    start, signature = _divided(headers.get(b"authorization"))
    proof, date = proofs.get(start), headers.get(b"x-amz-date")
    if proof is None or not isinstance(date, bytes) or not proof.is_fresh(date, now):
        return None
    payload = sha256_of(request.body).hex().encode()
    if not _PATH.fullmatch(target) or headers.get(b"x-amz-content-sha256", payload) != payload:
        return None
    canonical = proof.canonical(request.method, target, headers, payload)
    if canonical is None:
        return None
    is_same = hmac.compare_digest(proof.signature(date, canonical), signature)
    return proof.whose if is_same else None


def _divided(authorization: object) -> tuple[bytes, bytes]:
    """What stands before the signature, and the signature."""
    if not isinstance(authorization, bytes):
        return b"", b""
    rest, signature = authorization[:-_DIGITS], authorization[-_DIGITS:]
    return (rest.removesuffix(_MARK), signature) if rest.endswith(_MARK) else (b"", b"")
