"""Every way in which a signature fails, with its code and text: the contract, section 10.2."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fastnode.http.http1 import Request
from fastnode.http.sigv4 import Key, Verifier
from fastnode.queue.errors import SqsError
from tests.unit.http.signed_requests import (
    ACCESS_KEY,
    ACCOUNT,
    KEYS,
    MISMATCH,
    NOW,
    PRINCIPAL,
    REGION,
    Watch,
    altered,
    presigned,
    refusal,
    signed,
    verifier,
    with_authorization,
    with_header,
)


def test_a_wrong_secret() -> None:
    assert refusal(signed(secret="wrong")) == ("SignatureDoesNotMatch", MISMATCH)


def test_an_unknown_key() -> None:
    text = "The security token included in the request is invalid."
    assert refusal(signed(access_key="AKIDOTHER")) == ("InvalidClientTokenId", text)


@pytest.mark.parametrize(
    ("drift", "expected"),
    [
        (
            901,
            "Signature expired: 20260131T120000Z is now earlier than 20260131T120001Z "
            "(20260131T121501Z - 15 min.)",
        ),
        (
            -901,
            "Signature not yet current: 20260131T120000Z is still later than 20260131T115959Z "
            "(20260131T114459Z + 15 min.)",
        ),
    ],
)
def test_a_clock_that_is_15_minutes_off(drift: int, expected: str) -> None:
    assert refusal(signed(), verifier(NOW + drift)) == ("SignatureDoesNotMatch", expected)
    within = drift - 1 if drift > 0 else drift + 1
    assert verifier(NOW + within).verify(signed()) == PRINCIPAL


def test_a_signature_can_be_used_again_until_it_is_stale() -> None:
    watch = Watch()
    judge, request = Verifier(KEYS, watch), signed()
    for seconds in (0, 1, 900):
        watch.now = NOW + seconds
        assert judge.verify(request) == PRINCIPAL
    watch.now = NOW + 901
    assert refusal(request, judge)[1].startswith("Signature expired: ")


def test_a_presigned_url_is_good_as_long_as_it_says() -> None:
    request = presigned(expires=7_200)
    assert verifier(NOW + 7_200).verify(request) == PRINCIPAL
    assert refusal(request, verifier(NOW + 7_201)) == (
        "SignatureDoesNotMatch",
        "Signature expired: 20260131T120000Z is now earlier than 20260131T120001Z "
        "(20260131T140001Z - 7200 sec.)",
    )
    assert refusal(request, verifier(NOW - 901))[1].startswith("Signature not yet current: ")


@pytest.mark.parametrize("expires", ["0", "604801", "-1", "1e3", "9" * 50])
def test_a_presigned_url_cannot_be_good_for_ever(expires: str) -> None:
    request = presigned()
    target = request.target.replace(b"Expires=3600", b"Expires=" + expires.encode())
    code, text = refusal(altered(request, target=target))
    assert (code, "from 1 to 604800" in text) == ("IncompleteSignature", True)
    assert verifier().verify(presigned(expires=604_800)) == PRINCIPAL


def test_the_wrong_region_matters_to_a_strict_node_only() -> None:
    elsewhere = signed(region="eu-west-1")
    assert refusal(elsewhere, verifier(region=REGION)) == (
        "SignatureDoesNotMatch",
        "Credential should be scoped to a valid region, not 'eu-west-1'. ",
    )
    assert verifier(region=REGION).verify(signed()) == PRINCIPAL
    for region in ("EU", "-a", "a--b", "x" * 33, ""):
        text = f"Credential should be scoped to a valid region, not '{region}'. "
        assert refusal(signed(region=region)) == ("SignatureDoesNotMatch", text)


def test_the_scope_must_be_ours() -> None:
    assert refusal(signed(service="s3")) == (
        "SignatureDoesNotMatch",
        "Credential should be scoped to correct service: 'sqs'. ",
    )
    code, text = refusal(with_authorization(signed(), b"aws4_request", b"aws5_request"))
    assert (code, "valid terminator" in text) == ("SignatureDoesNotMatch", True)


def test_the_scope_must_be_of_the_day() -> None:
    assert refusal(with_authorization(signed(), b"20260131", b"20260130")) == (
        "SignatureDoesNotMatch",
        "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: "
        "'20260130' != '20260131', from '20260131T120000Z'.",
    )


def test_the_host_must_be_signed() -> None:
    code, text = refusal(with_authorization(signed(), b";host", b""))
    assert code == "SignatureDoesNotMatch"
    assert text == "'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization."


def test_header_and_url_cannot_both_sign() -> None:
    both = with_header(presigned(), b"authorization", signed().headers[b"authorization"])
    assert refusal(both) == (
        "SignatureDoesNotMatch",
        "Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header.",
    )


GOOD = signed().headers[b"authorization"]


@pytest.mark.parametrize(
    "authorization",
    [
        b"",
        b"AWS4-HMAC-SHA256",
        b"Bearer abc",
        b"AWS AKIDEXAMPLE:c2lnbmF0dXJl",
        GOOD.replace(b"SHA256", b"SHA512"),
        GOOD.partition(b", Signature")[0],
        GOOD.replace(b"Credential=", b"Credentials="),
        GOOD.replace(b"/sqs", b""),
        GOOD.replace(b"/20260131/", b"/2026-131/"),
        GOOD.replace(b"content-type;", b"Content-Type;"),
        GOOD.replace(b"content-type;", b";"),
        GOOD + b"," + GOOD,
        GOOD + b", " + GOOD.rpartition(b", ")[2],
        GOOD + b", Extra=1",
        GOOD.rpartition(b"=")[0] + b"=",
        b"\xff\xfe" * 50,
    ],
)
def test_a_malformed_authorization(authorization: bytes) -> None:
    assert refusal(with_header(signed(), b"authorization", authorization))[0] == (
        "IncompleteSignature"
    )


def test_everything_that_is_missing_is_named() -> None:
    request = with_header(signed(), b"authorization", b"AWS4-HMAC-SHA256 Credential=a")
    assert refusal(request) == (
        "IncompleteSignature",
        "Authorization header requires 'Signature' parameter. "
        "Authorization header requires 'SignedHeaders' parameter.",
    )


@pytest.mark.parametrize(
    "date", [None, b"", b"yesterday", b"20260131T120000", b"20261331T120000Z", b"20260131T250000Z"]
)
def test_a_request_says_when_it_was_signed(date: bytes | None) -> None:
    code, text = refusal(with_header(signed(), b"x-amz-date", date))
    assert code == "IncompleteSignature"
    assert ("'X-Amz-Date' or a 'Date'" if date is None else "ISO-8601 'basic format'") in text


@pytest.mark.parametrize(
    "parameter", ["Algorithm", "Credential", "Date", "Expires", "SignedHeaders", "Signature"]
)
def test_every_parameter_of_a_presigned_url_is_there_once(parameter: str) -> None:
    request = presigned()
    pairs = request.query.split(b"&")
    own = next(pair for pair in pairs if pair.startswith(b"X-Amz-%b=" % parameter.encode()))
    for changed in ([pair for pair in pairs if pair != own], [*pairs, own]):
        target = b"/?" + b"&".join(changed)
        assert refusal(altered(request, target=target))[0] == "IncompleteSignature"


def test_old_signature_versions_are_refused() -> None:
    target = b"/?Action=ListQueues&AWSAccessKeyId=AKID&SignatureVersion=2&Signature=abc"
    request = Request(b"GET", target, "1.1", {b"host": b"h"}, True)
    assert refusal(request)[0] == "InvalidSecurity"


@given(st.binary(max_size=120), st.binary(max_size=60))
def test_garbage_is_refused_and_nothing_else_happens(value: bytes, query: bytes) -> None:
    """Whatever the bytes: a refusal, or nobody's request."""
    headers = {b"host": b"h", b"authorization": b"AWS4-HMAC-SHA256 " + value, b"x-amz-date": value}
    refusal(Request(b"POST", b"/?" + query, "1.1", headers, True))
    try:
        assert verifier().verify(Request(b"GET", b"/?" + query, "1.1", {}, True)) is None
    except SqsError:
        pass


# --- caches --------------------------------------------------------------------------------------


def test_a_key_that_is_gone_stops_at_once() -> None:
    judge = verifier()
    judge.verify(signed())
    judge.replace_keys({})
    assert refusal(signed(), judge)[0] == "InvalidClientTokenId"
    judge.replace_keys({ACCESS_KEY: Key("another", ACCOUNT)})
    assert refusal(signed(), judge)[1] == MISMATCH
    assert judge.verify(signed(secret="another")) == PRINCIPAL
    judge.replace_keys({ACCESS_KEY: Key("another", "999999999999")})
    assert judge.verify(signed(secret="another")) == replace(PRINCIPAL, account="999999999999")


def test_made_up_signatures_do_not_fill_memory() -> None:
    judge, request = verifier(), signed()
    for number in range(2_000):
        fake = with_authorization(request, b"us-east-1", b"r-%d" % number)
        assert refusal(fake, judge)[1] == MISMATCH
    long = with_authorization(request, b"host;", b"host;" + b"x" * 2_000 + b";")
    refusal(long, judge)
    assert len(judge._claims) <= 1_024
    assert len(judge._signing_keys) <= 1_024
    assert max(map(len, judge._claims)) <= 1_024
