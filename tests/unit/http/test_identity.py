"""Who calls an open node, from headers alone."""

import pytest

from fastnode.http.http1 import Request
from fastnode.http.identity import Identity, IdentitySettings
from fastnode.queue.caller import Call, Caller
from fastnode.queue.errors import SqsError

SETTINGS = IdentitySettings("eu-west-1", "http://127.0.0.1:9324")
REST = b", SignedHeaders=host, Signature=00"


def scope(access_key: str, region: str = "us-west-2") -> bytes:
    return f"{access_key}/20250101/{region}/sqs/aws4_request".encode()


def caller(
    headers: dict[bytes, bytes],
    *,
    target: bytes = b"/",
    settings: IdentitySettings = SETTINGS,
) -> Caller:
    request = Request(b"POST", target, "1.1", {b"host": b"localhost:1"} | headers, True)
    return Identity(settings).caller(request)


def authorized(access_key: str, region: str = "us-west-2") -> dict[bytes, bytes]:
    value = b"AWS4-HMAC-SHA256 Credential=" + scope(access_key, region) + REST
    return {b"authorization": value}


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, ("000000000000", "eu-west-1", "000000000000")),
        (authorized("AKIDEXAMPLE"), ("000000000000", "us-west-2", "AKIDEXAMPLE")),
        (authorized("123456789012"), ("123456789012", "us-west-2", "123456789012")),
        (authorized("12345678901"), ("000000000000", "us-west-2", "12345678901")),
        (authorized("AK", "NOT A REGION"), ("000000000000", "eu-west-1", "000000000000")),
        ({b"authorization": b"Bearer x"}, ("000000000000", "eu-west-1", "000000000000")),
        ({b"authorization": b"\xff" * 500}, ("000000000000", "eu-west-1", "000000000000")),
    ],
)
def test_the_credential_scope_names_account_and_region(
    headers: dict[bytes, bytes], expected: tuple[str, str, str]
) -> None:
    found = caller(headers)
    assert (found.account, found.region, found.sender_id) == expected


def test_a_presigned_url_carries_its_credential() -> None:
    quoted = scope("123456789012").replace(b"/", b"%2F")
    found = caller({}, target=b"/?X-Amz-Algorithm=a&X-Amz-Credential=" + quoted)
    assert (found.account, found.region) == ("123456789012", "us-west-2")
    assert caller({}, target=b"/?xX-Amz-Credential=" + quoted).account == "000000000000"
    assert caller({}, target=b"/X-Amz-Credential=").account == "000000000000"


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:9324", "127.0.0.1:9324", "127.9.9.9", "[::1]:1", "sqs.localhost"],
)
def test_the_endpoint_is_the_address_that_the_client_used(host: str) -> None:
    assert caller({b"host": host.encode()}).endpoint == "http://" + host


def test_without_a_host_the_endpoint_is_the_listener() -> None:
    assert caller({b"host": b""}).endpoint == "http://127.0.0.1:9324"


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil", "evil\xff", "a/b", "localhost:x"],
)
def test_a_name_that_is_not_ours_is_refused(host: str) -> None:
    with pytest.raises(SqsError) as caught:
        caller({b"host": host.encode("latin-1")})
    assert caught.value.row.status == 403


def test_configured_names_are_accepted() -> None:
    settings = IdentitySettings("r", "http://e", frozenset({"queue.internal"}))
    found = caller({b"host": b"Queue.internal:80"}, settings=settings)
    assert found.endpoint == "http://Queue.internal:80"
    anywhere = IdentitySettings("r", "http://e", None)
    assert caller({b"host": b"any.name"}, settings=anywhere).endpoint == "http://any.name"


@pytest.mark.parametrize("origin", [b"http://evil.example", b"null", b"http://localhost:2"])
def test_a_page_of_another_origin_is_refused(origin: bytes) -> None:
    with pytest.raises(SqsError):
        caller({b"origin": origin})


def test_our_own_page_is_accepted() -> None:
    assert caller({b"origin": b"http://localhost:1"}).account == "000000000000"


def test_made_up_credentials_do_not_fill_memory() -> None:
    identity = Identity(SETTINGS)
    for number in range(5_000):
        headers = {b"host": b"127.0.0.1:%d" % number} | authorized(f"AK{number}")
        found = identity.caller(Request(b"POST", b"/", "1.1", headers, True))
        assert found.sender_id == f"AK{number}"
        assert found.endpoint == f"http://127.0.0.1:{number}"
    assert len(identity._callers) <= 1_024


def test_a_call_is_left_once() -> None:
    call = Call(caller({}), "ListQueues", "request")
    calls: list[bool] = []
    call.on_gone = lambda: calls.append(call.is_gone)
    call.leave()
    call.leave()
    assert calls == [True]
