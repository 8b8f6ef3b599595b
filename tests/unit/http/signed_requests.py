"""Requests signed by botocore, the independent judge, as our parser would hand them over."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

import pytest
from botocore import auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from fastnode.http.http1 import Request
from fastnode.http.sigv4 import Key, Principal, Verifier
from fastnode.queue.errors import SqsError

ACCESS_KEY = "AKIDEXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
ACCOUNT = "123456789012"
REGION = "us-east-1"
HOST = "queue.example:9324"
KEYS = {ACCESS_KEY: Key(SECRET, ACCOUNT)}
SIGNED_AT = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
NOW = int(SIGNED_AT.timestamp())
JSON = {
    "Content-Type": "application/x-amz-json-1.0",
    "X-Amz-Target": "AmazonSQS.SendMessage",
    "x-amzn-query-mode": "true",
}

PRINCIPAL = Principal(ACCOUNT, REGION, ACCESS_KEY)
MISMATCH = (
    "The request signature we calculated does not match the signature you provided. Check your AWS "
    "Secret Access Key and signing method. Consult the service documentation for details."
)


class Watch:
    """The time that a verifier is told."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> int:
        return self.now


def verifier(now: int = NOW, region: str | None = None) -> Verifier:
    return Verifier(KEYS, lambda: now, region)


def signed(
    method: str = "POST",
    target: str = "/",
    headers: Mapping[str, str] = JSON,
    body: bytes = b"{}",
    *,
    access_key: str = ACCESS_KEY,
    secret: str = SECRET,
    token: str | None = None,
    region: str = REGION,
    service: str = "sqs",
) -> Request:
    """With its signature in the Authorization header."""
    credentials = Credentials(access_key, secret, token)
    made = _signed_by(auth.SigV4Auth(credentials, service, region), method, target, headers, body)
    return _received(made, target, body)


def presigned(
    method: str = "GET",
    target: str = "/?Action=ListQueues",
    *,
    body: bytes = b"",
    token: str | None = None,
    expires: int = 3_600,
) -> Request:
    """With its signature in the query string."""
    credentials = Credentials(ACCESS_KEY, SECRET, token)
    signer = auth.SigV4QueryAuth(credentials, "sqs", REGION, expires=expires)
    made = _signed_by(signer, method, target, {}, body)
    parts = urlsplit(made.url)
    return _received(made, f"{parts.path}?{parts.query}", body)


def _signed_by(
    signer: auth.SigV4Auth, method: str, target: str, headers: Mapping[str, str], body: bytes
) -> AWSRequest:
    made = AWSRequest(method, f"http://{HOST}{target}", dict(headers), body)
    with mock.patch.object(auth, "get_current_datetime", lambda: SIGNED_AT.replace(tzinfo=None)):
        signer.add_auth(made)
    return made


def _received(made: AWSRequest, target: str, body: bytes) -> Request:
    headers = {b"host": HOST.encode()}
    for name, value in made.headers.items():
        text = value if isinstance(value, bytes) else value.encode()
        headers[name.lower().encode()] = text.strip()
    return Request(made.method.encode(), target.encode(), "1.1", headers, True, body)


def refusal(request: Request, judge: Verifier | None = None) -> tuple[str, str]:
    """Query code and text."""
    with pytest.raises(SqsError) as caught:
        (judge or verifier()).verify(request)
    return caught.value.row.query_code, caught.value.message


def parts_of(request: Request) -> dict[str, Any]:
    names = ("method", "target", "http_version", "headers", "keep_alive", "body")
    return {name: getattr(request, name) for name in names}


def altered(request: Request, **parts: Any) -> Request:
    """The same request but for some of its parts."""
    return Request(**parts_of(request) | parts)


def with_header(request: Request, name: bytes, value: bytes | None) -> Request:
    headers = {**request.headers, name: value}
    return altered(request, headers={k: v for k, v in headers.items() if v is not None})


def with_authorization(request: Request, old: bytes, new: bytes) -> Request:
    value = request.headers[b"authorization"]
    assert old in value
    return with_header(request, b"authorization", value.replace(old, new))
