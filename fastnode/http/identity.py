"""Request headers → `Caller`, for an open node: credentials name an account and prove nothing.
Sans-IO.

An open node trusts whoever reaches it, so it must not be reached through a browser: a page of
another origin, or a name that was made to resolve to this machine, is refused.
"""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qs

from msgspec import Struct

from fastnode.http.http1 import Request
from fastnode.queue.caller import Caller
from fastnode.queue.errors import access_denied

ACCOUNT_DEFAULT: Final = "000000000000"
_CACHE_MAX: Final = 1_024
_CACHED_BYTES_MAX: Final = 512
_ACCOUNT: Final = re.compile(r"[0-9]{12}")
_SCOPE: Final = rb"([A-Za-z0-9+=.@_-]{1,128})/[0-9]{8}/([a-z0-9-]{1,32})/[a-z0-9-]+/aws4_request"
_AUTHORIZATION: Final = re.compile(rb"AWS4-HMAC-SHA256 +Credential=" + _SCOPE)
_CREDENTIAL: Final = re.compile(_SCOPE)
_HOST: Final = re.compile(r"([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?")
_LOOPBACK: Final = re.compile(r"(.+\.)?localhost|127(\.[0-9]{1,3}){3}|\[::1\]")


class IdentitySettings(Struct, frozen=True):
    """`endpoint` and `region` hold for requests that name none. `hosts` are the names (lower case,
    no port) that clients may use besides loopback; None allows any, for a node that is open to a
    network on purpose.
    """

    region: str
    endpoint: str
    hosts: frozenset[str] | None = frozenset()


class Credential(Struct, frozen=True, gc=False):
    """What a credential scope says."""

    account: str
    region: str
    sender_id: str


class Identity:
    """Recognises callers. Remembers recent ones: a client has one host and one credential."""

    def __init__(self, settings: IdentitySettings) -> None:
        self._settings = settings
        self._anonymous = Credential(ACCOUNT_DEFAULT, settings.region, ACCOUNT_DEFAULT)
        self._callers: dict[tuple[bytes, bytes], Caller] = {}

    def caller(self, request: Request) -> Caller:
        """Raises `SqsError` for a request that may have come through a browser."""
        headers = request.headers
        host = headers.get(b"host", b"")
        if b"origin" in headers:
            _check_origin(headers[b"origin"], host)
        authorization = headers.get(b"authorization")
        if authorization is None:
            return self._made(self._presigned(request), host)
        # The rest of the header differs with every request.
        key = host, authorization.partition(b",")[0]
        return self._callers.get(key) or self._signed(key)

    def known_caller(self, headers: Mapping[bytes, bytes]) -> Caller | None:
        """Whom `caller` has recognised before by these headers; None wants its full judgement."""
        if b"origin" in headers:
            return None
        authorization = headers.get(b"authorization", b"")
        return self._callers.get((headers.get(b"host", b""), authorization.partition(b",")[0]))

    def _signed(self, key: tuple[bytes, bytes]) -> Caller:
        host, prefix = key
        caller = self._made(self._parsed(_AUTHORIZATION.fullmatch(prefix)), host)
        if len(host) + len(prefix) <= _CACHED_BYTES_MAX:
            # Starting over is the cheapest bound; only a client that makes up keys ever reaches it.
            if len(self._callers) >= _CACHE_MAX:
                self._callers.clear()
            self._callers[key] = caller
        return caller

    def _made(self, credential: Credential, host: bytes) -> Caller:
        return Caller(
            credential.account, credential.region, self._endpoint(host), credential.sender_id
        )

    def _presigned(self, request: Request) -> Credential:
        if b"X-Amz-Credential=" not in request.target:
            return self._anonymous
        values = parse_qs(request.query).get(b"X-Amz-Credential", [b""])
        return self._parsed(_CREDENTIAL.fullmatch(values[0]))

    def _parsed(self, match: re.Match[bytes] | None) -> Credential:
        if match is None:
            return self._anonymous
        access_key, region = match[1].decode(), match[2].decode()
        is_account = _ACCOUNT.fullmatch(access_key) is not None
        return Credential(access_key if is_account else ACCOUNT_DEFAULT, region, access_key)

    def _endpoint(self, host: bytes) -> str:
        if not host:
            return self._settings.endpoint
        text = host.decode("latin-1")
        match = _HOST.fullmatch(text)
        if match is None or not self._is_expected(match[1].lower()):
            raise access_denied("The Host header names neither loopback nor a configured host.")
        return "http://" + text

    def _is_expected(self, name: str) -> bool:
        hosts = self._settings.hosts
        return hosts is None or name in hosts or _LOOPBACK.fullmatch(name) is not None


def _check_origin(origin: bytes, host: bytes) -> None:
    if not host or origin.lower() not in (b"http://" + host.lower(), b"https://" + host.lower()):
        raise access_denied("Requests from web pages of another origin are refused.")
