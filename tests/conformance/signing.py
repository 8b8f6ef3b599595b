"""Signatures by botocore, an independent judge of ours; and ways to spoil them.

A `Signer` maps method, URL, headers and body to the URL and headers that are sent.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.conformance.client import REGION, Headers, Signer

NOW: Final = "botocore.auth.get_current_datetime"


@dataclass(frozen=True)
class Key:
    access: str
    secret: str
    account: str


OWNER: Final = Key("AKIDOWNER", "secret of the owner", "000000000000")
STRANGER: Final = Key("AKIDSTRANGER", "secret of the stranger", "111111111111")


def credentials_file(folder: Path) -> Path:
    keys = [
        {"access_key_id": key.access, "secret_access_key": key.secret, "account": key.account}
        for key in (OWNER, STRANGER)
    ]
    path = folder / "credentials.json"
    path.write_text(json.dumps({"credentials": keys}))
    path.chmod(0o600)
    return path


def signed(
    key: Key,
    *,
    region: str = REGION,
    token: str | None = None,
    minutes_off: float = 0,
    service: str = "sqs",
    auth: type[SigV4Auth] = SigV4Auth,
) -> Signer:
    """The header form, by a clock that is off by some minutes."""
    credentials = Credentials(key.access, key.secret, token)

    def sign(method: str, url: str, headers: Headers, body: bytes) -> tuple[str, Headers]:
        request = AWSRequest(method=method, url=url, headers=headers, data=body)
        with patch(NOW, lambda *_: clock(minutes_off)):
            auth(credentials, service, region).add_auth(request)
        return url, dict(request.headers.items())

    return sign


def presigned(key: Key, *, expires: int = 60, minutes_off: float = 0) -> Signer:
    """The query form."""
    credentials = Credentials(key.access, key.secret)

    def sign(method: str, url: str, headers: Headers, body: bytes) -> tuple[str, Headers]:
        request = AWSRequest(method=method, url=url, headers={}, data=body)
        with patch(NOW, lambda *_: clock(minutes_off)):
            SigV4QueryAuth(credentials, "sqs", REGION, expires=expires).add_auth(request)
        return request.url, headers

    return sign


def spoilt(sign: Signer, spoil: Callable[[Headers], Headers]) -> Signer:
    """Sign, then change the headers."""

    def send(method: str, url: str, headers: Headers, body: bytes) -> tuple[str, Headers]:
        url, headers = sign(method, url, headers, body)
        return url, spoil(headers)

    return send


def with_headers(sign: Signer, **more: str) -> Signer:
    """Add headers, then sign them too."""

    def send(method: str, url: str, headers: Headers, body: bytes) -> tuple[str, Headers]:
        added = {name.replace("_", "-"): value for name, value in more.items()}
        return sign(method, url, headers | added, body)

    return send


def for_another_body(sign: Signer) -> Signer:
    def send(method: str, url: str, headers: Headers, body: bytes) -> tuple[str, Headers]:
        return sign(method, url, headers, body + b" ")

    return send


class HostUnsigned(SigV4Auth):  # type: ignore[misc] # botocore has no types
    """Leaves the host out of the list and out of the signature."""

    def headers_to_sign(self, request: Any) -> Any:
        headers = super().headers_to_sign(request)
        del headers["host"]
        return headers


def clock(minutes_off: float) -> datetime:
    return datetime.now(UTC).replace(tzinfo=None) + timedelta(minutes=minutes_off)
