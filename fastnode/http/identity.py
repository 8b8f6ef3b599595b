"""Request → `Caller`. Sans-IO. Whether a signature is good, `sigv4.py` says; what a caller may do,
the queue layer.

An open node believes what a credential says: it trusts whoever reaches it. So it must not be
reached through a browser: a page of another origin, or a name that was made to resolve to this
machine, is refused. A node with credentials believes a verified signature only, and asks neither
question: no page can sign. Who does not sign there is anonymous, and may do what a queue's policy
allows to everybody.

Queue URLs show the address that the client used: its Host, or what a proxy says it was. That is all
a forwarded header is believed for.
"""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from fastnode.http.http1 import Request
from fastnode.http.sigv4 import Principal, Verifier, remember
from fastnode.http.sigv4_canonical import canonical_pairs
from fastnode.queue.caller import Caller
from fastnode.queue.errors import SqsError, access_denied

ACCOUNT_DEFAULT: Final = "000000000000"
ANONYMOUS: Final = "anonymous"
_CACHED_BYTES_MAX: Final = 512
_ACCOUNT: Final = re.compile(r"[0-9]{12}")
_SCOPE: Final = rb"([A-Za-z0-9+=.@_-]{1,128})/[0-9]{8}/([a-z0-9-]{1,32})/[a-z0-9-]+/aws4_request"
_AUTHORIZATION: Final = re.compile(rb"AWS4-HMAC-SHA256 +Credential=" + _SCOPE)
_CREDENTIAL: Final = re.compile(_SCOPE)
_HOST: Final = re.compile(r"([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?")
_LOOPBACK: Final = re.compile(r"(.+\.)?localhost|127(\.[0-9]{1,3}){3}|\[::1\]")

Headers = Mapping[bytes, bytes]
# Host, X-Forwarded-Host, X-Forwarded-Proto: where the client sent its request.
Address = tuple[bytes, bytes, bytes]


class IdentitySettings(Struct, frozen=True):
    """`endpoint` and `region` hold for requests that name none. `hosts` are the names (lower case,
    no port) that clients of an open node may use besides loopback; None allows any, for a node that
    is open to a network on purpose. With a `verifier` the node is not open. All requests come by
    the scheme of `endpoint`.
    """

    region: str
    endpoint: str
    hosts: frozenset[str] | None = frozenset()
    verifier: Verifier | None = None

    @property
    def is_secure(self) -> bool:
        """Whether requests come by TLS."""
        return self.endpoint.startswith("https://")


class OpenIdentity:
    """Recognises the callers of an open node. Remembers recent ones: a client has one host and one
    credential. Not those behind a proxy, so that the rest need not pay for them.
    """

    def __init__(self, settings: IdentitySettings) -> None:
        self._settings = settings
        self._nobody = Principal(ACCOUNT_DEFAULT, settings.region, ACCOUNT_DEFAULT)
        self._callers: dict[tuple[bytes, bytes], Caller] = {}

    def caller(self, request: Request) -> Caller:
        """Raises `SqsError` for a request that may have come through a browser."""
        headers = request.headers
        address = _address_of(headers)
        if b"origin" in headers:
            _check_origin(headers[b"origin"], address[0], is_secure=self._settings.is_secure)
        authorization = headers.get(b"authorization")
        if authorization is None:
            return self._made(self._presigned(request), address)
        # The rest of the header differs with every request.
        return self._signed(authorization.partition(b",")[0], address)

    def quick_caller(self, request: Request) -> Caller | None:
        """Whom `caller` has recognised before; None wants its full judgement."""
        if (
            request.has(b"origin")
            or request.has(b"x-forwarded-host")
            or request.has(b"x-forwarded-proto")
        ):
            return None
        prefix = (request.get(b"authorization") or b"").partition(b",")[0]
        return self._callers.get((request.get(b"host") or b"", prefix))

    def _signed(self, prefix: bytes, address: Address) -> Caller:
        host, *forwarded = address
        known = None if any(forwarded) else self._callers.get((host, prefix))
        if known is not None:
            return known
        caller = self._made(self._parsed(_AUTHORIZATION.fullmatch(prefix)), address)
        if not any(forwarded) and _is_short(host, prefix):
            remember(self._callers, (host, prefix), caller)
        return caller

    def _made(self, principal: Principal, address: Address) -> Caller:
        for host in filter(None, (address[0], _first(address[1]))):
            _check_expected(host, self._settings.hosts)
        endpoint = endpoint_of(address, self._settings.endpoint)
        return Caller(principal.account, principal.region, endpoint, principal.access_key)

    def _presigned(self, request: Request) -> Principal:
        if b"X-Amz-Credential=" not in request.target:
            return self._nobody
        credential = dict(canonical_pairs(request.query)).get(b"X-Amz-Credential", b"")
        return self._parsed(_CREDENTIAL.fullmatch(unquote_to_bytes(credential)))

    def _parsed(self, match: re.Match[bytes] | None) -> Principal:
        if match is None:
            return self._nobody
        access_key, region = match[1].decode(), match[2].decode()
        is_account = _ACCOUNT.fullmatch(access_key) is not None
        return Principal(access_key if is_account else ACCOUNT_DEFAULT, region, access_key)


class VerifiedIdentity:
    """Recognises callers by their signatures."""

    def __init__(self, settings: IdentitySettings, verifier: Verifier) -> None:
        self._settings = settings
        self._verify = verifier.verify
        self._callers: dict[tuple[Address, Principal | None], Caller] = {}
        # The last one who was recognised: most of the time the next one, too.
        self._host = b""
        self._principal: Principal | None = None
        self._caller: Caller | None = None

    def caller(self, request: Request) -> Caller:
        """Raises `SqsError` for a signature that does not hold."""
        return self._found(request, self._verify(request))

    def quick_caller(self, request: Request) -> Caller | None:
        """None for what `caller` refuses, and for the anonymous."""
        try:
            principal = self._verify(request)
            if principal is None:
                return None
            if (
                principal is self._principal
                and request.says(b"host", self._host)
                and not (request.has(b"x-forwarded-host") or request.has(b"x-forwarded-proto"))
            ):
                return self._caller
            caller = self._found(request, principal)
        except SqsError:
            return None
        host, *forwarded = _address_of(request.headers)
        if not any(forwarded) and _is_short(host):
            self._host, self._principal, self._caller = host, principal, caller
        return caller

    def _found(self, request: Request, principal: Principal | None) -> Caller:
        key = _address_of(request.headers), principal
        return self._callers.get(key) or self._made(key)

    def _made(self, key: tuple[Address, Principal | None]) -> Caller:
        address, principal = key
        endpoint = endpoint_of(address, self._settings.endpoint)
        if principal is None:
            caller = Caller("", self._settings.region, endpoint, ANONYMOUS, is_anonymous=True)
        else:
            caller = Caller(principal.account, principal.region, endpoint, principal.access_key)
        if _is_short(*address):
            remember(self._callers, key, caller)
        return caller


Identity = OpenIdentity | VerifiedIdentity


def identity_of(settings: IdentitySettings) -> Identity:
    if settings.verifier is None:
        return OpenIdentity(settings)
    return VerifiedIdentity(settings, settings.verifier)


def _is_short(*texts: bytes) -> bool:
    """Whether it may be kept: the number of callers that are remembered bounds no bytes."""
    return sum(map(len, texts)) <= _CACHED_BYTES_MAX


# --- addresses ---------------------------------------------------------------------------------


def _address_of(headers: Headers) -> Address:
    get = headers.get
    return get(b"host", b""), get(b"x-forwarded-host", b""), get(b"x-forwarded-proto", b"")


def endpoint_of(address: Address, own: str) -> str:
    """What the client put before the path of its URL: as it says, or else as we would."""
    host, forwarded_host, forwarded_proto = address
    shown = _first(forwarded_host) or host
    scheme = _first(forwarded_proto).lower().decode("latin-1") or own.partition(":")[0]
    if scheme not in ("http", "https"):
        raise access_denied("The X-Forwarded-Proto header is neither http nor https.")
    if not shown:
        return own
    _host_name(shown)
    return f"{scheme}://{shown.decode()}"


def _first(forwarded: bytes) -> bytes:
    """Each proxy appends what it saw; the first saw the client."""
    return forwarded.partition(b",")[0].strip()


def _host_name(host: bytes) -> str:
    match = _HOST.fullmatch(host.decode("latin-1"))
    if match is None:
        raise access_denied("The Host or X-Forwarded-Host header is not a host and a port.")
    return match[1].lower()


def _check_expected(host: bytes, hosts: frozenset[str] | None) -> None:
    name = _host_name(host)
    if not (hosts is None or name in hosts or _LOOPBACK.fullmatch(name)):
        raise access_denied("The Host header names neither loopback nor a configured host.")


def _check_origin(origin: bytes, host: bytes, *, is_secure: bool) -> None:
    """A page of ours, which a proxy may have shown by TLS. Under TLS no other page is ours: whoever
    is between could have made it.
    """
    given, host = origin.lower(), host.lower()
    is_ours = given == b"https://" + host or (given == b"http://" + host and not is_secure)
    if not (host and is_ours):
        raise access_denied("Requests from web pages of another origin are refused.")
