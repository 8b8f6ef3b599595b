"""AWS Signature Version 4, verified: request, keys and the time → whose request it is. Sans-IO.

Both places of a signature, the Authorization header and the query string, come down to one
`Claim`: who says to have signed which headers for which day and region. It is judged by its
shape, scope, time, key and signature, in this order, and the first failure is the answer.

A session token is covered by the signature like any header or parameter and is otherwise passed
over: every key of the credentials file is a lasting one. A signature may be used again as long as
it is fresh, as on AWS. Where keys come from is not here, nor what a caller may do.
"""

import hmac
import re
from binascii import hexlify
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Final, TypeVar

from msgspec import Struct

from fastnode.config import SIGNATURE_CACHE_MAX, SIGNATURE_SKEW_SECONDS
from fastnode.http.http1 import Request
from fastnode.http.sigv4_canonical import (
    Pairs,
    canonical_pairs,
    canonical_request,
    canonical_template,
)
from fastnode.http.sigv4_parse import (
    ALGORITHM,
    PARAMETERS,
    SIGNATURE,
    date_of,
    parse_authorization,
    parse_expires,
    parse_parameters,
    seconds_of,
    shown,
)
from fastnode.http.sigv4_time import basic_text
from fastnode.native import Proof, prove
from fastnode.queue.errors import (
    incomplete_signature,
    invalid_security,
    invalid_signature,
    signature_does_not_match,
    unrecognized_client,
)

_SERVICE: Final = b"sqs"
_TERMINATOR: Final = b"aws4_request"
_CACHED_BYTES_MAX: Final = 1_024
_DATE: Final = re.compile(rb"[0-9]{8}")
_REGION: Final = re.compile(rb"(?=.{1,32}$)[a-z0-9]+(?:-[a-z0-9]+)*")
_BOTH: Final = (
    "Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header."
)

Item = TypeVar("Item")
Name = TypeVar("Name")


class Key(Struct, frozen=True):
    """What the holder of an access key knows, and whose it is."""

    secret: str
    account: str


class Principal(Struct, frozen=True, gc=False):
    """Who signed, and for which region."""

    account: str
    region: str
    access_key: str


class Claim(Struct, frozen=True, gc=False):
    """What a signature says about itself; the same for all requests of one client on one day.
    `template` is the canonical request, with places for method, path, query, the values of the
    signed headers `names`, and the payload's hash.
    """

    access_key: str
    date: bytes
    region: str
    scope: bytes
    names: tuple[bytes, ...]
    template: bytes


class Verifier:
    """`region` is the only one that may be signed for; None admits any."""

    def __init__(
        self, keys: Mapping[str, Key], now_seconds: Callable[[], int], region: str | None = None
    ) -> None:
        self._keys = keys
        self._now_seconds = now_seconds
        self._region = region
        self._claims: dict[bytes, Claim] = {}
        self._signing_keys: dict[tuple[str, bytes, str], tuple[bytes, Principal]] = {}
        # By what stands before the signature: clients whose last one held.
        self._proofs: dict[bytes, Proof] = {}

    def replace_keys(self, keys: Mapping[str, Key]) -> None:
        """From now on these hold and no others."""
        self._keys = keys
        self._signing_keys.clear()
        self._proofs.clear()

    def verify(self, request: Request) -> Principal | None:
        """None for a request that carries no signature. Raises `SqsError` for a bad one."""
        principal: Principal | None = prove(self._proofs, request, self._now_seconds())
        return self._judged(request) if principal is None else principal

    def _judged(self, request: Request) -> Principal | None:
        """By every rule: who is not recognised may still be right."""
        authorization = request.headers.get(b"authorization")
        query = canonical_pairs(request.query) if b"?" in request.target else []
        if any(name in PARAMETERS for name, _ in query):
            if authorization is not None:
                raise invalid_signature(_BOTH)
            return self._verify_query(request, query)
        if authorization is not None:
            return self._verify_header(request, query, authorization)
        if any(name == b"AWSAccessKeyId" for name, _ in query):
            raise invalid_security("Requests must be signed with Signature Version 4.")
        return None

    def _verify_header(self, request: Request, query: Pairs, authorization: bytes) -> Principal:
        start, _, signature = authorization.rpartition(b"Signature=")
        claim = self._claims.get(start)
        if claim is None:
            claim = self._claimed(*parse_authorization(authorization))
            if len(start) <= _CACHED_BYTES_MAX:
                remember(self._claims, start, claim)
        date, seconds = date_of(request.headers)
        self._check_time(claim, date, seconds)
        principal = self._proved(request, query, claim, date, signature)
        if start not in self._proofs and len(start) <= _CACHED_BYTES_MAX:
            self._recognise(start, claim)
        return principal

    def _recognise(self, start: bytes, claim: Claim) -> None:
        """The next request of this client need not be judged by every rule."""
        signing_key, principal = self._signing_keys[claim.access_key, claim.date, claim.region]
        midnight = seconds_of(claim.date + b"T000000Z")
        proof = Proof(signing_key, claim.scope, midnight, claim.names, principal)
        remember(self._proofs, start, proof)

    def _verify_query(self, request: Request, query: Pairs) -> Principal:
        found = parse_parameters(query)
        claim = self._claimed(found[b"X-Amz-Credential"], found[b"X-Amz-SignedHeaders"])
        date = found[b"X-Amz-Date"]
        expires = parse_expires(found[b"X-Amz-Expires"])
        self._check_time(claim, date, seconds_of(date), expires)
        unsigned = [pair for pair in query if pair[0] != SIGNATURE]
        return self._proved(request, unsigned, claim, date, found[SIGNATURE])

    def _claimed(self, credential: bytes, signed_headers: bytes) -> Claim:
        names = tuple(signed_headers.split(b";"))
        if b"host" not in names:
            raise invalid_signature(
                "'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization."
            )
        parts = credential.split(b"/")
        if len(parts) != 5:
            raise incomplete_signature(
                "Credential must have exactly 5 slash-delimited elements, "
                f"e.g. keyid/date/region/service/term, got '{shown(credential)}'"
            )
        access_key, date, region, service, terminator = parts
        self._check_scope(date, region, service, terminator)
        return Claim(
            access_key.decode("latin-1"),
            date,
            region.decode(),
            b"/".join(parts[1:]),
            names,
            canonical_template(names),
        )

    def _check_scope(self, date: bytes, region: bytes, service: bytes, terminator: bytes) -> None:
        if service != _SERVICE:
            raise invalid_signature("Credential should be scoped to correct service: 'sqs'. ")
        if terminator != _TERMINATOR:
            raise invalid_signature(
                "Credential should be scoped with a valid terminator: 'aws4_request', "
                f"not '{shown(terminator)}'. "
            )
        is_served = self._region is None or region == self._region.encode()
        if not (is_served and _REGION.fullmatch(region)):
            raise invalid_signature(
                f"Credential should be scoped to a valid region, not '{shown(region)}'. "
            )
        if not _DATE.fullmatch(date):
            raise incomplete_signature(
                f"Date in Credential must be in the form YYYYMMDD. Got '{shown(date)}'."
            )

    def _check_time(
        self, claim: Claim, date: bytes, seconds: int, valid_seconds: int | None = None
    ) -> None:
        """A signature in a URL says how long it is good; one in a header is good for 15 minutes."""
        if date[:8] != claim.date:
            raise invalid_signature(
                "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date "
                f"from HTTP: '{claim.date.decode()}' != '{date[:8].decode()}', "
                f"from '{date.decode()}'."
            )
        now = self._now_seconds()
        if seconds < now - (SIGNATURE_SKEW_SECONDS if valid_seconds is None else valid_seconds):
            raise _expired(date, now, valid_seconds)
        if seconds > now + SIGNATURE_SKEW_SECONDS:
            limit = basic_text(now + SIGNATURE_SKEW_SECONDS)
            raise invalid_signature(
                f"Signature not yet current: {date.decode()} is still later than {limit} "
                f"({basic_text(now)} + 15 min.)"
            )

    def _proved(
        self, request: Request, query: Pairs, claim: Claim, date: bytes, signature: bytes
    ) -> Principal:
        key = claim.access_key, claim.date, claim.region
        signing_key, principal = self._signing_keys.get(key) or self._derived(key)
        canonical = canonical_request(request, query, claim.names, claim.template)
        if canonical is not None:
            digest = hexlify(sha256(canonical).digest())
            to_sign = b"%b\n%b\n%b\n%b" % (ALGORITHM, date, claim.scope, digest)
            expected = hexlify(hmac.digest(signing_key, to_sign, "sha256"))
            if hmac.compare_digest(expected, signature):
                return principal
        raise signature_does_not_match()

    def _derived(self, key: tuple[str, bytes, str]) -> tuple[bytes, Principal]:
        access_key, date, region = key
        known = self._keys.get(access_key)
        if known is None:
            raise unrecognized_client()
        principal = Principal(known.account, region, access_key)
        signing_key = derive_signing_key(known.secret, date, region.encode())
        return remember(self._signing_keys, key, (signing_key, principal))


def remember(cache: dict[Name, Item], name: Name, item: Item) -> Item:
    """Starting over is the cheapest bound: only a client that makes things up ever reaches it."""
    if len(cache) >= SIGNATURE_CACHE_MAX:
        cache.clear()
    cache[name] = item
    return item


def derive_signing_key(secret: str, date: bytes, region: bytes, service: bytes = _SERVICE) -> bytes:
    key = b"AWS4" + secret.encode()
    for part in (date, region, service, _TERMINATOR):
        key = hmac.digest(key, part, "sha256")
    return key


def _expired(date: bytes, now: int, valid_seconds: int | None) -> Exception:
    if valid_seconds is None:
        limit, span = basic_text(now - SIGNATURE_SKEW_SECONDS), "15 min."
    else:
        limit, span = basic_text(now - valid_seconds), f"{valid_seconds} sec."
    return invalid_signature(
        f"Signature expired: {date.decode()} is now earlier than {limit} "
        f"({basic_text(now)} - {span})"
    )
