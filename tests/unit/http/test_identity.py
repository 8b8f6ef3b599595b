"""Who calls: an open node takes a credential's word, one with keys wants a signature."""

import pytest

from fastnode.http.http1 import Request
from fastnode.http.identity import (
    IdentitySettings,
    OpenIdentity,
    VerifiedIdentity,
    identity_of,
)
from fastnode.queue.caller import Call, Caller
from fastnode.queue.errors import SqsError
from tests.unit.http.signed_requests import (
    ACCESS_KEY,
    ACCOUNT,
    HOST,
    JSON,
    presigned,
    signed,
    verifier,
)

SETTINGS = IdentitySettings("eu-west-1", "http://127.0.0.1:9324")
CLOSED = IdentitySettings("eu-west-1", "http://127.0.0.1:9324", verifier=verifier())
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
    identity = identity_of(settings)
    found = identity.caller(request)
    quick = identity.quick_caller(request)
    assert quick in (None, found), "the quick way may pass, it must not disagree"
    return found


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


def test_a_known_caller_is_not_known_on_another_page() -> None:
    identity = OpenIdentity(SETTINGS)
    headers = {b"host": b"localhost:1"} | authorized("AKID")
    request = Request(b"POST", b"/", "1.1", headers, True)
    assert identity.quick_caller(request) is None
    found = identity.caller(request)
    assert identity.quick_caller(request) is found
    request.headers[b"origin"] = b"http://evil.example"
    assert identity.quick_caller(request) is None


def test_our_own_page_is_accepted() -> None:
    assert caller({b"origin": b"http://localhost:1"}).account == "000000000000"


def test_made_up_credentials_do_not_fill_memory() -> None:
    identity = OpenIdentity(SETTINGS)
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


def test_an_open_node_reads_presigned_urls_of_any_text() -> None:
    quoted = scope("123456789012").replace(b"/", b"%2F")
    found = caller({}, target=b"/?MessageBody=caf%C3%A9%FF&X-Amz-Credential=" + quoted)
    assert found.account == "123456789012"


# --- behind a proxy ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "proto", "endpoint"),
    [
        (b"sqs.localhost", b"https", "https://sqs.localhost"),
        (b"", b"https", "https://localhost:1"),
        (b"sqs.localhost:81", b"", "http://sqs.localhost:81"),
        (b"sqs.localhost, localhost:5", b"HTTPS, http", "https://sqs.localhost"),
    ],
)
def test_queue_urls_show_what_the_first_proxy_saw(host: bytes, proto: bytes, endpoint: str) -> None:
    headers = {b"x-forwarded-host": host, b"x-forwarded-proto": proto}
    assert caller(headers).endpoint == endpoint
    assert caller(headers | authorized("AKID")).endpoint == endpoint


@pytest.mark.parametrize(
    "headers",
    [
        {b"x-forwarded-host": b"evil.example"},
        {b"x-forwarded-host": b"a b"},
        {b"x-forwarded-proto": b"javascript"},
        {b"host": b"evil.example", b"x-forwarded-host": b"localhost"},
    ],
)
def test_a_proxy_cannot_name_what_the_client_may_not(headers: dict[bytes, bytes]) -> None:
    for more in ({}, authorized("AKID")):
        with pytest.raises(SqsError) as caught:
            caller(headers | more)
        assert caught.value.row.status == 403


@pytest.mark.parametrize("is_direct_first", [True, False])
def test_one_credential_by_a_proxy_and_directly(is_direct_first: bool) -> None:
    """What is remembered of one way in is not taken for the other."""
    identity = OpenIdentity(SETTINGS)
    direct = {b"host": b"localhost:1"} | authorized("AKID")
    ways = {
        "http://localhost:1": direct,
        "http://a.localhost": direct | {b"x-forwarded-host": b"a.localhost"},
        "https://localhost:1": direct | {b"x-forwarded-proto": b"https"},
    }
    for endpoint, headers in sorted(ways.items(), reverse=is_direct_first) * 2:
        request = Request(b"POST", b"/", "1.1", headers, True)
        assert identity.caller(request).endpoint == endpoint
        quick = identity.quick_caller(request)
        assert quick is None or quick.endpoint == endpoint


def test_a_long_credential_is_not_remembered() -> None:
    identity = OpenIdentity(SETTINGS)
    headers = {b"host": b"localhost:1", b"authorization": b"x" * 600}
    identity.caller(Request(b"POST", b"/", "1.1", headers, True))
    assert not identity._callers


def test_a_forwarded_host_does_not_excuse_a_foreign_page() -> None:
    with pytest.raises(SqsError):
        caller({b"x-forwarded-host": b"a.localhost", b"origin": b"http://a.localhost"})


# --- with credentials ----------------------------------------------------------------------------


def proved(request: Request, settings: IdentitySettings = CLOSED) -> Caller:
    identity = identity_of(settings)
    found = identity.caller(request)
    assert identity.caller(request) is found, "a client is recognised again"
    assert identity.quick_caller(request) == (None if found.is_anonymous else found)
    return found


@pytest.mark.parametrize("request_", [signed(region="us-west-2"), presigned()])
def test_a_signature_proves_key_and_region(request_: Request) -> None:
    found = proved(request_)
    region = "us-west-2" if request_.method == b"POST" else "us-east-1"
    assert found == Caller(ACCOUNT, region, f"http://{HOST}", ACCESS_KEY)


def test_who_does_not_sign_is_anonymous() -> None:
    found = proved(Request(b"POST", b"/", "1.1", {b"host": b"q.example"}, True))
    assert found == Caller("", "eu-west-1", "http://q.example", "anonymous", True)


def test_a_bad_signature_is_no_anonymous_request() -> None:
    identity, request = identity_of(CLOSED), signed(secret="wrong")
    with pytest.raises(SqsError):
        identity.caller(request)
    assert identity.quick_caller(request) is None


def test_with_credentials_any_host_and_any_page_may_call() -> None:
    found = proved(signed(headers=JSON | {"Origin": "https://console.example"}))
    assert found.endpoint == f"http://{HOST}"


def test_with_credentials_a_proxy_may_name_any_host() -> None:
    request = signed()
    request.headers[b"x-forwarded-host"] = b"queues.example"
    request.headers[b"x-forwarded-proto"] = b"https"
    assert proved(request).endpoint == "https://queues.example"


def test_a_signed_account_id_is_no_account() -> None:
    """What an open node believes, a key must prove."""
    with pytest.raises(SqsError) as caught:
        proved(signed(access_key="123456789012"))
    assert caught.value.row.query_code == "InvalidClientTokenId"


def test_hosts_made_up_by_the_anonymous_do_not_fill_memory() -> None:
    identity = VerifiedIdentity(CLOSED, verifier())
    for number in range(3_000):
        forwarded = b"h, " + b"x" * (number % 2) * 600
        headers = {b"host": b"h%d" % number, b"x-forwarded-host": forwarded}
        assert identity.caller(Request(b"POST", b"/", "1.1", headers, True)).is_anonymous
    assert 0 < len(identity._callers) <= 1_024
    assert all(len(address[1]) < 600 for address, _ in identity._callers)
