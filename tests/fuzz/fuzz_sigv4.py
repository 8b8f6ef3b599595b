"""Any claim to have signed a request. The first byte picks where the rest goes: the Authorization
header, the query string, or a request that botocore signed, with one byte of it changed.

A claim is refused by an error of the contract, or it is no claim; only what botocore signed makes
somebody a principal, and only as long as nothing that it covers has changed. The compiled prover
and its twin say the same.
"""

from typing import Final

from fastnode import _http, _http_ref, _sigv4, _sigv4_ref
from fastnode.http.http1 import Request
from fastnode.http.sigv4 import Verifier
from fastnode.http.sigv4_parse import seconds_of
from fastnode.queue.errors import SqsError
from tests.unit.http.signed_requests import (
    NOW,
    PRINCIPAL,
    altered,
    parts_of,
    presigned,
    signed,
    verifier,
)

SIGNED: Final = signed()
PRESIGNED: Final = presigned()
START: Final = SIGNED.headers[b"authorization"].rpartition(b"Signature=")[0]
COVERED: Final = (b"authorization", b"x-amz-date", b"x-amz-target", b"host", b"content-type")


def _known() -> Verifier:
    """One that has seen the client before, so that its short way is taken too."""
    judge = verifier()
    assert judge.verify(SIGNED) == PRINCIPAL
    return judge


JUDGE: Final = _known()


def _proofs() -> tuple[dict[bytes, _sigv4.Proof], dict[bytes, _sigv4_ref.Proof]]:
    claim = JUDGE._claims[START]
    key, principal = JUDGE._signing_keys[claim.access_key, claim.date, claim.region]
    told = key, claim.scope, seconds_of(claim.date + b"T000000Z"), claim.names, principal
    return {START: _sigv4.Proof(*told)}, {START: _sigv4_ref.Proof(*told)}


COMPILED, TWIN = _proofs()


def check(data: bytes) -> None:
    kind, rest = data[:1], data[1:]
    if kind == b"h":
        _judge(_with(SIGNED, b"authorization", _line(rest)))
    elif kind == b"q":
        _judge(altered(PRESIGNED, target=b"/?" + _target(rest)))
    elif kind == b"b":
        _judge(altered(SIGNED, body=rest))
    elif kind == b"d" and len(rest) > 2:
        _judge(_damaged(rest[0], rest[1], rest[2]))
    elif kind == b"p" and len(rest) > 1:
        at = rest[0] % len(PRESIGNED.target)
        target = PRESIGNED.target
        _judge(altered(PRESIGNED, target=target[:at] + _target(rest[1:2]) + target[at + 1 :]))


def _damaged(name: int, at: int, byte: int) -> Request:
    header = COVERED[name % len(COVERED)]
    value = SIGNED.headers[header]
    at %= len(value)
    return _with(SIGNED, header, value[:at] + _line(bytes([byte])) + value[at + 1 :])


def _judge(request: Request) -> None:
    _check_twins(request)
    for judge in (verifier(), JUDGE):
        try:
            principal = judge.verify(request)
        except SqsError as refusal:
            assert refusal.message and refusal.row.query_code, refusal
            continue
        assert principal is None or _is_genuine(request), "a claim that nobody signed was believed"


def _check_twins(request: Request) -> None:
    parts = parts_of(request)
    compiled = _sigv4.prove(COMPILED, _http.Request(**parts), NOW)
    assert compiled == _sigv4_ref.prove(TWIN, _http_ref.Request(**parts), NOW)


def _is_genuine(request: Request) -> bool:
    """Spaces may be written otherwise, and so may parameters; nothing else."""
    if request.target != b"/":
        return _reading(request.target) == _reading(PRESIGNED.target)
    ours = [_blank(SIGNED.headers[name]) for name in COVERED]
    theirs = [_blank(request.headers[name]) for name in COVERED]
    return ours == theirs and request.body == SIGNED.body


def _blank(value: bytes) -> bytes:
    return b"".join(value.split())


def _reading(target: bytes) -> list[bytes]:
    from urllib.parse import unquote_to_bytes

    return sorted(unquote_to_bytes(one) for one in target.partition(b"?")[2].split(b"&") if one)


def _line(value: bytes) -> bytes:
    """What the parser lets through as the value of a header."""
    return bytes(byte for byte in value if byte == 9 or 32 <= byte != 127).strip(b" \t")


def _target(value: bytes) -> bytes:
    return bytes(byte for byte in value if 32 < byte != 127)


def _with(request: Request, name: bytes, value: bytes) -> Request:
    return altered(request, headers={**request.headers, name: value})
